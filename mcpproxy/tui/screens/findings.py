"""Findings: the violations in a capture by level and rule, the worst first; Enter leads to the frame."""

import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar, Final, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from analysis.rules.finding import Finding, Level
from mcpproxy.report.text import Span, count_text
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.findings import LEVELS, SIGNS, Findings
from mcpproxy.tui.finding_lines import clock, finding_lines, progress_text, rule_lines
from mcpproxy.tui.messages import Checked, Grown
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_FILTER
from mcpproxy.tui.screens.rule import RuleScreen
from mcpproxy.tui.screens.word_filter import WordFilterScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.table import Column, Line, MemoryRows, Table

COLUMNS: Final = (
    Column("mark", "", 1),
    Column("frame", "frame", 8, right=True),
    Column("time", "time", 10, right=True, drop=1),
    Column("who", "who", 9, drop=2),
    Column("text", "finding", 24, stretch=True),
)
AT_FIRST: Final = 20
"""Findings listed for each rule until the user asks for the rest."""
FEW: Final = 1000
LATER_S: Final = 0.5
NOTHING: Final = "nothing found"


class Group(NamedTuple):
    """The findings of a rule at one level."""

    level: Level
    rule: str


class Item(NamedTuple):
    """A line of the list: a group, a finding in it, or the number not shown."""

    group: Group
    finding: Finding | None = None
    total: int = -1
    """The number of findings in the group, or of those not shown."""
    is_head: bool = False


class FindingRows(MemoryRows[Item]):
    """The lines of the list."""

    def __init__(self) -> None:
        super().__init__()
        self.folded: set[Group] = set()

    def line(self, row: int) -> Line:
        """One line."""
        item = self.items[row]
        if item.is_head:
            sign, role = SIGNS[item.group.level], LEVELS[item.group.level]
            fold = "▸" if item.group in self.folded else "▾"
            spans = [Span(f"{sign} {item.group.level!s:<7}  ", role), Span(item.group.rule, "accent")]
            return Line({"mark": (Span(fold, "dim"),), "frame": (*spans, Span(f"  {item.total:,}"))}, wide="frame")
        finding = item.finding
        if finding is None:
            return Line({"frame": (Span(f"         … {item.total:,} more", "dim"),)}, wide="frame")
        who = finding.blames if finding.blames != "unknown" else ""
        return Line(
            {
                "frame": (Span(f"{finding.frame:,}"),),
                "time": (Span(clock(finding.t_ns), "dim"),),
                "who": (Span(who, "dim"),),
                "text": (Span(sanitise(finding.message, 300)),),
            }
        )


def list_items(findings: Findings, folded: set[Group], unfolded: set[Group], words: str) -> Iterator[Item]:
    """The lines: the worst level first, then by rule, then in the order of the capture.

    Args:
        findings: all findings.
        folded: groups that show only their head.
        unfolded: groups that show more than the first findings.
        words: the filter: words that a finding contains, and patterns for its rule.
    """
    groups: dict[Group, list[Finding]] = {}
    terms = words.lower().split()
    for finding in list(findings.kept):
        if has_all_words(finding, terms):
            groups.setdefault(Group(finding.level, finding.rule), []).append(finding)
    counts = dict(findings.counts)
    for group in sorted(groups, key=lambda key: (-key.level, key.rule)):
        members = sorted(groups[group], key=lambda key: key.frame)
        # Findings without text are known only by level and rule.
        count = counts.get(group, 0) if all(_is_of(group, word) for word in terms) else len(members)
        yield Item(group, total=count, is_head=True)
        if group in folded:
            continue
        listed = members if group in unfolded else members[:AT_FIRST]
        yield from (Item(group, finding) for finding in listed)
        if len(listed) < count:
            yield Item(group, total=count - len(listed))


def has_all_words(finding: Finding, terms: Sequence[str]) -> bool:
    """Whether a finding contains all of some words; a word with a `*` or `?` is a pattern for its rule."""
    if not terms:
        return True
    text = f"{finding.level} {finding.rule} {finding.blames} {finding.method} {finding.message}".lower()
    return all(fnmatchcase(finding.rule, word) if is_pattern(word) else word in text for word in terms)


def is_pattern(word: str) -> bool:
    """Whether a word is a pattern."""
    return "*" in word or "?" in word


def _is_of(group: Group, word: str) -> bool:
    return fnmatchcase(group.rule, word) if is_pattern(word) else word in f"{group.level} {group.rule}"


class FindingsScreen(WordFilterScreen):
    """The findings of one capture."""

    DEFAULT_CSS = """
    FindingsScreen {
        & #forgotten { height: auto; max-height: 3; display: none; padding: 0 1; }
        & #findings { height: 1fr; }
        & #nothing { padding: 1 2; display: none; height: 1fr; }
        & #detail { height: 8; border-top: solid $panel; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_FILTER,
        Binding("r", "rule", "rule", id="rule"),
        Binding("left,h", "fold(True)", "fold", id="fold"),
        Binding("right,l", "fold(False)", "unfold", show=False, id="unfold"),
        Binding("c", "again", "check again", show=False, id="again"),
        TO_DETAIL,
    ]
    LIST = "#findings"
    DETAIL = "#detail"

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture."""
        super().__init__()
        self.reading = capture.reading
        self._row = capture.row
        self._rows = FindingRows()
        self._unfolded: set[Group] = set()
        self._listed: tuple[object, ...] = (None,)
        self._arranged_s = 0.0
        self._detailed: object = None
        bind_switches(self._bindings, "findings")

    def compose(self) -> ComposeResult:
        """The list, and below it the full text of one finding."""
        yield Words(id="title")
        yield Words(id="forgotten")
        yield Table(COLUMNS, id="findings")
        yield Words(id="nothing")
        yield Pane(id="detail")
        yield FilterBox("words, or a pattern for the rule such as id/*", of="findings", id="filter")
        yield Foot()

    def on_mount(self) -> None:
        """Show the findings so far, with the cursor on the first in the row from which the screen was opened."""
        self.table.show(self._rows)
        self.table.focus()
        row_findings = self.findings.kept_at(self._row) if self._row is not None else []
        self._unfolded.update(Group(finding.level, finding.rule) for finding in row_findings)
        self.renew()
        line = next((n for n, item in enumerate(self._rows.items) if item.finding in row_findings), None)
        if line is not None:
            self.has_moved = True
            self.table.go(line)

    @property
    def findings(self) -> Findings:
        """The findings so far."""
        return self.reading.findings

    @property
    def item(self) -> Item | None:
        """The line at the cursor."""
        return self._rows.at(self.table.cursor)

    @property
    def entry(self) -> int | None:
        """The entry that the finding at the cursor is about."""
        item = self.item
        return self.findings.row(item.finding) if item is not None and item.finding is not None else None

    # ---- updates

    @on(Checked)
    @on(events.ScreenResume)
    def renew(self) -> None:
        """Show the findings so far that match the words."""
        findings = self.findings
        state = (id(findings), sum(findings.counts.values()), self.words)
        # Sorting thousands takes some 20 ms: too long to do it ten times a second.
        is_late = (
            findings.has_caught_up or self.words != self._listed[-1] or time.monotonic() - self._arranged_s >= LATER_S
        )
        if state != self._listed and (is_late or len(findings.kept) < FEW):
            self._listed = state
            self._arrange()
        self.show_title()

    @on(Grown)
    def _grown(self) -> None:
        self.show_title()

    def _arrange(self) -> None:
        """Rebuild the lines. Once the user has moved the cursor, it stays on its line."""
        selected, self._arranged_s = self.item, time.monotonic()
        self._rows.items = list(list_items(self.findings, self._rows.folded, self._unfolded, self.words))
        if selected is not None and self.has_moved:
            where = next((n for n, item in enumerate(self._rows.items) if _is_same(item, selected)), None)
            if where is not None and where != self.table.cursor:
                self.table.go(where)
        self.table.renew()
        if not self.has_moved and len(self._rows) > 1:
            self.table.cursor = 1  # the first finding, not its head, so that Enter goes to its frame
        is_empty = not self._rows.items
        self.table.display = not is_empty
        self.pane.display = not is_empty
        self.query_one("#nothing", Words).display = is_empty
        self._show()

    def show_title(self) -> None:
        """Show the title for what the screen shows now."""
        findings, tally = self.findings, self.findings.tally
        spans = [Span("findings", "accent")]
        if sum(tally):
            spans.append(Span(f"  {sums(tally.errors, tally.warnings, tally.notes)}"))
        if self.words:
            spans.append(Span(f"  filter: {self.words}", "accent"))
        if findings.trouble:
            spans = [*spans, Span(f"  {findings.trouble}", "bad"), Span("  c: check again", "dim")]
        else:
            far = progress_text(findings, len(self.reading.index))
            spans.append(Span(f"  {far}", "dim"))
        if findings.faults:
            spans.append(Span(f"  {count_text(len(findings.faults), 'rule')} failed: {findings.faults[0]}", "bad"))
        self.set_title(spans)
        forgotten = self.query_one("#forgotten", Words)
        forgotten.display = bool(findings.forgotten)
        forgotten.show_lines([[Span(f"▲ {text}", "bad")] for text in findings.forgotten])
        if self.words and findings.kept:
            words = "no finding has all of these words; Esc shows all"
        else:
            words = NOTHING if findings.has_caught_up else f"{NOTHING} so far"
        self.query_one("#nothing", Words).show(words)

    # ---- keys

    @on(Table.Moved)
    def _moved(self) -> None:
        self._show()

    @on(Table.Chosen)
    def _choose(self) -> None:
        """Go to the frame of a finding; on a head, fold the group; on the line below, show the rest."""
        item = self.item
        if item is None:
            return
        if item.finding is None:
            if item.is_head:
                self.action_fold(item.group not in self._rows.folded)
            else:
                self._more(item.group)
            return
        row = self.findings.row(item.finding)
        if row is None:
            notify(self.app, f"record {item.finding.frame:,} is not in the traffic")
            return
        self.app.show(row)

    def _more(self, group: Group) -> None:
        kept = sum(Group(finding.level, finding.rule) == group for finding in self.findings.kept)
        if group in self._unfolded or kept <= AT_FIRST:
            # Only the rows of the others are known, not their texts.
            self.app.select(f"rule:{group.rule}")
            return
        self._unfolded.add(group)
        self._arrange()

    def action_fold(self, fold: bool) -> None:
        """Fold a rule, so that only its head is shown, or unfold it."""
        item = self.item
        if item is None:
            return
        self.has_moved = True
        (self._rows.folded.add if fold else self._rows.folded.discard)(item.group)
        self._arrange()
        head = next((n for n, line in enumerate(self._rows.items) if line.is_head and line.group == item.group), 0)
        if fold:
            self.table.go(head)

    def action_rule(self) -> None:
        """Show the page of the rule."""
        item = self.item
        if item is not None:
            self.app.push_screen(RuleScreen(item.group.rule))

    def action_again(self) -> None:
        """Check again, if the checking process has died."""
        if self.findings.trouble:
            self.app.check_again()
            self.renew()

    # ---- the full text

    def on_resize(self) -> None:
        """Wrap lines for the new width."""
        self._detailed = None
        self._show()

    def _show(self) -> None:
        item = self.item
        if item is not None and (item.group, item.finding, self.size.width) != self._detailed:
            self._detailed = item.group, item.finding, self.size.width
            width = max(10, self.size.width - 4)
            lines = (
                finding_lines(item.finding, width) if item.finding is not None else rule_lines(item.group.rule, width)
            )
            self.pane.show_lines(lines)


def _is_same(item: Item, other: Item) -> bool:
    return item.group == other.group and item.finding == other.finding and item.is_head == other.is_head


def sums(errors: int, warnings: int, notes: int) -> str:
    """The number of findings of each level, in words."""
    parts = ((errors, "error"), (warnings, "warning"), (notes, "note"))
    return " · ".join(count_text(count, noun) for count, noun in parts if count)


ENTRY: Final = ScreenEntry("F", "findings", FindingsScreen, help="violations of the protocol's rules")
