"""Findings: the violations in a capture by level and rule, the worst first; Enter goes to the frame."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.proof import proof_lines
from mcpproxy.tui.messages import CaptureGrown, Checked, ProofRead
from mcpproxy.tui.rows.finding_lines import finding_lines, findings_in, progress_text, rule_lines
from mcpproxy.tui.rows.finding_rows import (
    COLUMNS,
    FindingGroup,
    FindingItem,
    FindingRows,
    Identity,
    fitted_finding_columns,
    identity,
    list_items,
)
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_FILTER, ListScreen
from mcpproxy.tui.screens.rule import RuleScreen
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.split import MIN_WIDE_WIDTH
from mcpproxy.tui.widgets.table import Table
from mcpproxy.tui.widgets.word_box import WordBox
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

MAX_FINDINGS_AT_ONCE: Final = 1000
"""With fewer findings, the lines are rebuilt whenever findings are added."""
REBUILD_INTERVAL_S: Final = 0.5
"""With more findings, the time between two rebuilds while the check continues, in seconds."""
MARGIN: Final = 4
"""The number of cells of a line that the detail cannot use."""
NO_FINDINGS_TEXT: Final = "nothing found"


class FindingsScreen(ListScreen):
    """The findings of one capture."""

    DEFAULT_CSS = """
    FindingsScreen {
        & #forgotten { height: auto; max-height: 3; display: none; padding: 0 1; }
        & #findings { height: 1fr; width: 1fr; }
        & #nothing { padding: 1 2; display: none; height: 1fr; }
        & #detail { height: 35%; min-height: 9; border-top: solid $line; padding: 0 1; }
        &.-low #detail { min-height: 0; }
        &.-wide #parts { layout: horizontal; }
        &.-wide #detail { width: 50%; height: 100%; border-top: none; border-left: solid $line; }
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
        """Create the screen of a capture."""
        super().__init__()
        self.reading = capture.reading
        self.box = WordBox("words, or a pattern for the rule such as id/*", of="findings", id="filter")
        self._row = capture.row
        self._rows = FindingRows()
        self._unfolded_groups: set[FindingGroup] = set()
        self._spread_identities: set[Identity] = set()
        self._proofs = ThreadPoolExecutor(1, "proof")
        self._listed_state: tuple[object, ...] = (None,)
        self._arranged_s = 0.0
        self._detail_state: object = None
        bind_switches(self._bindings, "findings")

    @property
    def subject(self) -> Reading:
        """The capture."""
        return self.reading

    def compose(self) -> ComposeResult:
        """The list, and below it or next to it the full text of one finding."""
        yield ClickableLine(id="title")
        yield SafeText(id="forgotten")
        with Container(id="parts"):
            yield Table(COLUMNS, place="findings", id="findings")
            yield SafeText(id="nothing")
            yield Pane(id="detail")
        yield self.box
        yield Foot()

    def on_mount(self) -> None:
        """Show the findings so far, with the cursor on the first one of the row from which the screen was opened."""
        self.table.show(self._rows)
        self.table.focus()
        row_findings = findings_in(self.reading, self._row) if self._row is not None else []
        self._unfolded_groups.update(FindingGroup(finding.level, finding.rule) for finding in row_findings)
        self._spread_identities |= set(map(identity, row_findings))
        self.update_rows()
        first_line = next((n for n, item in enumerate(self._rows.items) if item.finding in row_findings), None)
        if first_line is not None:
            self.has_moved = True
            self.table.go(first_line)

    def on_unmount(self) -> None:
        """Stop reading proofs."""
        self._proofs.shutdown(wait=False, cancel_futures=True)

    @property
    def findings(self) -> Findings:
        """The findings so far."""
        return self.reading.findings

    @property
    def words(self) -> str:
        """The words that the rows must contain, or an empty text if all rows are shown."""
        return self.box.words

    @property
    def item(self) -> FindingItem | None:
        """The line at the cursor."""
        return self._rows.at(self.table.cursor)

    @property
    def is_wide(self) -> bool:
        """Whether the detail is next to the list."""
        return self.size.width >= MIN_WIDE_WIDTH

    @property
    def entry(self) -> int | None:
        """The entry that the finding at the cursor is about."""
        item = self.item
        return self.findings.row(item.finding) if item is not None and item.finding is not None else None

    # ---- updates

    @on(Checked)
    @on(events.ScreenResume)
    @on(WordBox.WordsChanged)
    def update_rows(self) -> None:
        """Show the findings so far that match the words."""
        findings, index = self.findings, self.reading.index
        last_frame = index.entry(len(index) - 1).seq if len(index) else 0
        self.table.set_columns(fitted_finding_columns(last_frame, index.last_ns))
        state = (id(findings), sum(findings.counts.values()), self.words)
        # Sorting thousands of findings takes some 20 ms: too long to do it ten times a second.
        is_due = (
            findings.has_caught_up
            or self.words != self._listed_state[-1]
            or time.monotonic() - self._arranged_s >= REBUILD_INTERVAL_S
        )
        if state != self._listed_state and (is_due or len(findings.kept_findings) < MAX_FINDINGS_AT_ONCE):
            self._listed_state = state
            self._arrange()
        self.show_title()

    @on(CaptureGrown)
    def _grown(self) -> None:
        self.show_title()

    def _arrange(self) -> None:
        """Rebuild the lines. Once the user has moved the cursor, it stays on its line."""
        selected, self._arranged_s = self.item, time.monotonic()
        self._rows.items = list(
            list_items(
                self.findings, self._rows.folded_groups, self._unfolded_groups, self.words, self._spread_identities
            )
        )
        if selected is not None and self.has_moved:
            line = next((n for n, item in enumerate(self._rows.items) if item.is_same(selected)), None)
            if line is not None and line != self.table.cursor:
                self.table.go(line)
        self.table.renew()
        if not self.has_moved and len(self._rows) > 1:
            self.table.cursor = 1  # the first finding, not its heading, so that Enter goes to its frame
        is_empty = not self._rows.items
        self.display_table(is_shown=not is_empty)
        self.pane.display = not is_empty
        self.query_one("#nothing", SafeText).display = is_empty
        self._show()

    def show_title(self) -> None:
        """Update the title to match the screen."""
        findings, tally = self.findings, self.findings.tally
        spans = list[Span]()
        if sum(tally):
            spans.append(Span(f"  {tally_text(tally.errors, tally.warnings, tally.notes)}"))
        if self.words:
            spans.append(Span(f"  filter: {self.words}", "accent"))
        if findings.trouble:
            spans = [*spans, Span(f"  {findings.trouble}", "bad"), Span("  c: check again", "dim")]
        else:
            progress = progress_text(findings, len(self.reading.index))
            spans.append(Span(f"  {progress}", "dim"))
        if findings.faults:
            spans.append(Span(f"  {count_text(len(findings.faults), 'rule')} failed: {findings.faults[0]}", "bad"))
        self.set_title(spans)
        forgotten_box = self.query_one("#forgotten", SafeText)
        forgotten_box.display = bool(findings.forgotten)
        forgotten_box.show_lines([[Span(f"▲ {text}", "bad")] for text in findings.forgotten])
        if self.words and findings.kept_findings:
            empty_text = "no finding contains all of these words; Esc shows all"
        else:
            empty_text = NO_FINDINGS_TEXT if findings.has_caught_up else f"{NO_FINDINGS_TEXT} so far"
        self.query_one("#nothing", SafeText).show(empty_text)

    # ---- keys

    @on(Table.RowHighlighted)
    def _moved(self) -> None:
        self._show()

    @on(Table.RowSelected)
    def _choose(self) -> None:
        """Go to the frame of a finding; on a heading, fold or unfold its group; on the line for others, show them."""
        item = self.item
        if item is None:
            return
        if item.finding is None:
            if item.is_head:
                self.action_fold(item.group not in self._rows.folded_groups)
            else:
                self._show_others(item.group)
            return
        row = self.findings.row(item.finding)
        if row is None:
            notify(self.app, f"record {item.finding.frame:,} is not in the traffic")
            return
        self.app.show(row, finding=item.finding)

    def _show_others(self, group: FindingGroup) -> None:
        previous_items = list(self._rows.items)
        self._unfolded_groups.add(group)
        self._arrange()
        if self._rows.items == previous_items:
            # Only the rows of the other findings are known, not their texts.
            self.app.select(f"rule:{group.rule}")

    def action_fold(self, fold: bool) -> None:
        """Fold identical findings into one line, and the next time their rule into its heading; or unfold them."""
        item = self.item
        if item is None:
            return
        self.has_moved = True
        key = item.identity
        if key is not None and (item.is_spread if fold else item.times > 1):
            (self._spread_identities.discard if fold else self._spread_identities.add)(key)
            self._arrange()
            self._go_to(lambda line: line.identity == key)
            return
        (self._rows.folded_groups.add if fold else self._rows.folded_groups.discard)(item.group)
        self._arrange()
        if fold:
            self._go_to(lambda line: line.is_head and line.group == item.group)

    def _go_to(self, is_wanted: Callable[[FindingItem], bool]) -> None:
        """Go to the first line that `is_wanted` accepts; there always is one."""
        self.table.go(next((n for n, line in enumerate(self._rows.items) if is_wanted(line)), 0))

    def action_filter(self) -> None:
        """Let the user type words that the rows must contain."""
        self.box.edit()

    def clear_filter(self) -> bool:
        """Show all rows again; returns False if they all are shown already."""
        return self.box.clear_words()

    def action_rule(self) -> None:
        """Show the page of the rule."""
        item = self.item
        if item is not None:
            self.app.push_screen(RuleScreen(self.findings, item.group.rule))

    def action_again(self) -> None:
        """Check again if the checking process has died."""
        if self.findings.trouble:
            self.app.check_again()
            self.update_rows()

    # ---- the full text

    def on_resize(self) -> None:
        """Put the detail next to the list if there is room, and wrap its lines for the new width."""
        self.set_class(self.is_wide, "-wide")
        self._detail_state = None
        self._show()

    def _show(self) -> None:
        item = self.item
        if item is None or (item.group, item.finding, self.size.width) == self._detail_state:
            return
        self._detail_state = item.group, item.finding, self.size.width
        detail_width = self.size.width - self.size.width // 2 if self.is_wide else self.size.width
        width, finding, has_room = max(10, detail_width - MARGIN), item.finding, self.is_wide
        if finding is None:
            self.pane.show_lines(rule_lines(item.group.rule, width))
            return
        self.pane.show_lines(finding_lines(finding, width, with_page=has_room))

        def read_proof(state: object = self._detail_state) -> None:
            # The cursor may have moved on since.
            if self._detail_state == state:
                proof = proof_lines(self.reading, finding, width)
                self.post_message(ProofRead(finding, finding_lines(finding, width, proof, with_page=has_room)))

        self._proofs.submit(read_proof)

    @on(ProofRead)
    def _proof_read(self, event: ProofRead) -> None:
        if self.item is not None and event.finding is self.item.finding:
            self.pane.renew_lines(event.lines)


def tally_text(errors: int, warnings: int, notes: int) -> str:
    """The number of findings of each level, in words."""
    parts = ((errors, "error"), (warnings, "warning"), (notes, "note"))
    return " · ".join(count_text(count, noun) for count, noun in parts if count)


ENTRY: Final = ScreenEntry("F", "findings", FindingsScreen, help="findings: violations of the rules")
