"""Findings as text, in the style of compiler messages: the problem, the side at fault, and the exact place.

Findings are grouped by capture, then by rule, with the worst first. For each rule and session, a limited number is
shown, and the rest is counted. While a capture is followed, each finding is printed as it arrives. The end says what to
fix first.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Final

from analysis.checking.checker import repeat_key
from analysis.rules.finding import Blames, Level
from mcpproxy.check_run.record_locations import payload_at
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding, Reporter, Totals, problem_text
from mcpproxy.report.output import keeps_width
from mcpproxy.report.ranking import RuleRanking
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.excerpts import Excerpt, excerpt
from mcpproxy.wording.spans import Role, Span, Style
from mcpproxy.wording.units import offset_text
from mcpproxy.wording.without_answer import first_abandoned
from mcpproxy.wording.wrapping import wrapped

MAX_SHOWN_PER_SESSION: Final = 20
"""The maximum number of findings shown for one rule and session."""
MAX_SHOWN_PER_RULE: Final = 200
"""The maximum number of findings shown for one rule in all sessions, unless the user asks for fewer."""
WIDTH: Final = 80

_ROLES: Final[dict[Level, Role]] = {Level.ERROR: "bad", Level.WARNING: "accent", Level.NOTE: "plain"}
_SIDES: Final[tuple[Blames, ...]] = ("server", "client", "transport", "unknown")
MAX_EXCERPT_CELLS: Final = 1_000
"""The maximum width of an excerpt's line, in cells, including its indent; wide enough to search piped output."""


class _FindingGroup:
    """The findings of one rule in a capture."""

    def __init__(self) -> None:
        self.shown_findings: list[LocatedFinding] = []
        self.per_session: Counter[int] = Counter()
        self.count = 0

    @property
    def has_sessions(self) -> bool:
        """Whether the session of a finding is shown, because there are several."""
        return len(self.per_session) > 1 or any(entry.finding.session > 1 for entry in self.shown_findings)

    def add_finding(self, located: LocatedFinding, max_shown: int) -> bool:
        """Count a finding; returns whether to show it."""
        session = located.finding.session
        self.count += located.finding.finding_count
        if self.per_session[session] >= MAX_SHOWN_PER_SESSION or len(self.shown_findings) >= max_shown:
            return False
        self.per_session[session] += 1
        self.shown_findings.append(located)
        return True


class TextReporter(Reporter):
    """Writes findings as text for people."""

    def __init__(
        self,
        style: Style,
        *,
        notes: bool = False,
        named: Container[str] = (),
        live: bool = False,
        width: int = WIDTH,
        wraps: bool = False,
        encoding: str = "utf-8",
        most: int = MAX_SHOWN_PER_RULE,
        paged: bool = False,
    ) -> None:
        """Start without findings.

        Args:
            style: colours or none.
            notes: whether notes are shown, too; they are always counted.
            named: rules whose notes are always shown.
            live: whether each finding is printed as it arrives.
            width: the width of a line, in cells; at least 40.
            wraps: whether the totals are wrapped at that width, too; an output that is not a terminal gets one line.
            encoding: the encoding of the output; with replacement characters, carets would point to the wrong place.
            most: the maximum number of findings shown for one rule.
            paged: whether the rule's page is printed above, so that no reference to it is needed.
        """
        self._style = style
        self._min_level = Level.NOTE if notes else Level.WARNING
        self._named_rules = named
        self._is_live = live
        self._width = max(40, width)
        # An excerpt stays short even if lines may have any length: `show --frame` shows a frame of megabytes.
        self._excerpt_width = min(self._width, MAX_EXCERPT_CELLS) - 6
        self._has_carets = width >= self._width
        self._wraps = wraps
        self._encoding = encoding
        self._max_per_rule = most
        self._has_page = paged
        self._groups: dict[str, _FindingGroup] = {}
        self._path = Path()
        self._ranking = RuleRanking()
        self._hidden_notes = 0
        """How many notes were not shown because the user did not ask for them."""
        self._has_shown = False
        self._columns = [0] * 5
        """The greatest widths so far of the text before a place, and of each cell of a place."""

    def begin(self, capture: Path) -> Iterable[str]:
        """Forget the previous capture, and begin the next."""
        self._groups, self._path = {}, capture
        self._ranking.begin()
        return ()

    def report(self, located: LocatedFinding) -> Iterable[str]:
        """Keep a finding for its group, or print it at once."""
        finding = located.finding
        if located.is_accepted:
            return
        if finding.level < self._min_level and finding.rule not in self._named_rules:
            self._hidden_notes += finding.finding_count
            return
        self._has_shown = True
        self._ranking.count_finding(located)
        is_first = not self._groups
        group = self._groups.setdefault(finding.rule, _FindingGroup())
        if group.add_finding(located, self._max_per_rule) and self._is_live:
            yield from self._heading_lines() if is_first else ()
            yield from self._finding_lines(located, 1, sessions=finding.session > 1)
            yield from self._source_lines(located)
            yield "\n"

    def finish(self, ended: CheckOutcome) -> Iterable[str]:
        """Yields the groups of a capture, or nothing if it has none."""
        self._ranking.finish(ended)
        if self._is_live:
            for rule, group in self._groups.items():
                yield from self._more_line(group, f" of {rule}", "  ")
                yield from self._consequence_line(group, ended)
            return
        if self._groups:
            yield from self._heading_lines()
        hidden_rules = [(cause, rule) for cause, _, rule in ended.followers if cause not in self._groups]
        for cause, rule in dict.fromkeys(hidden_rules):
            count = sum(
                times
                for (first_rule, _, second_rule), times in ended.followers.items()
                if (first_rule, second_rule) == (cause, rule)
            )
            noun = "a consequence" if count == 1 else "consequences"
            yield f"  {count:,} × {rule}, {noun} of {cause} (not shown)\n"
        for group in self._groups.values():
            self._align(group, ended)
        for group in sorted(
            self._groups.values(), key=lambda candidate: -max(entry.finding.level for entry in candidate.shown_findings)
        ):
            yield from self._group_lines(group, ended)

    def close(self, totals: Totals) -> Iterable[str]:
        """Yields what to fix first, and then the totals on one line, unless nothing could be checked."""
        if ranked := list(self._ranking.lines(self._style, self._width)):
            yield from (f"{line}\n" for line in (*ranked, ""))
        if totals.captures:
            text = summary(totals)
            if self._hidden_notes and not self._has_shown:
                text += notes_hint(self._hidden_notes)
            yield from (f"{line}\n" for line in (wrapped(text, self._width) if self._wraps else [text]))

    def _heading_lines(self) -> Iterator[str]:
        yield self._style.paint([Span(sanitise(str(self._path), None), "accent")]) + "\n\n"

    def _group_lines(self, group: _FindingGroup, ended: CheckOutcome) -> Iterator[str]:
        for entry in group.shown_findings:
            yield from self._finding_lines(entry, _violation_count(entry, ended), sessions=group.has_sessions)
        yield from self._more_line(group, "", "    ")
        yield from self._consequence_line(group, ended)
        yield from self._source_lines(group.shown_findings[0]) if not self._has_page else ()
        yield "\n"

    @staticmethod
    def _consequence_line(group: _FindingGroup, ended: CheckOutcome) -> Iterator[str]:
        """Yields the consequences of a group's findings, which were not reported themselves."""
        counts = Counter[str]()
        for (cause, _, rule), count in ended.followers.items():
            if cause == group.shown_findings[0].finding.rule:
                counts[rule] += count
        if counts:
            rule_counts = ", ".join(f"{count:,} × {rule}" for rule, count in counts.items())
            yield f"    consequences: {rule_counts}\n"

    @staticmethod
    def _more_line(group: _FindingGroup, scope: str, indent: str) -> Iterator[str]:
        if group.count > len(group.shown_findings):
            yield f"{indent}and {group.count - len(group.shown_findings):,} more{scope}\n"

    def _align(self, group: _FindingGroup, ended: CheckOutcome) -> None:
        """Make the columns wide enough for a group."""
        for entry in group.shown_findings:
            head = sum(len(span.text) for span in _head(entry, _violation_count(entry, ended)))
            row = [head, *map(len, _place_cells(entry, sessions=group.has_sessions))]
            self._columns = [*map(max, self._columns, row)]

    def _finding_lines(self, entry: LocatedFinding, times: int, *, sessions: bool) -> Iterator[str]:
        finding, head = entry.finding, _head(entry, times)
        head_width = sum(len(span.text) for span in head)
        row = _place_cells(entry, sessions=sessions)
        widest_head, *widths = self._columns
        # Numbers are right-aligned, and everything else is left-aligned.
        padded_cells = [f"{cell:<{width}}" for cell, width in zip(row[:-1], widths, strict=False)]
        place_text = "  ".join(cell for cell in (*padded_cells, f"{row[-1]:>{widths[-1]}}") if cell)
        if len(place_text) > self._width:
            place_text = "  ".join(filter(None, row))
        spare_cells = self._width - head_width - len(place_text)
        if spare_cells < 2:
            yield self._style.paint(head) + "\n"
            head, spare_cells = [], self._width - len(place_text)
        gap = max(widest_head - head_width, 0) + 2 if self._width >= UNLIMITED_WIDTH else spare_cells
        yield self._style.paint([*head, Span(" " * gap + place_text, "dim")]) + "\n"
        finding_excerpt, pointer = self._excerpt(entry)
        for line in wrapped(sanitise(problem_text(finding.message, pointer)), self._width - 4):
            yield f"    {line}\n"
        yield from self._excerpt_lines(finding_excerpt) if finding_excerpt is not None else ()
        for seq, place in entry.proofs:
            if raw := payload_at(place):
                yield self._style.paint([Span(f"    frame {seq}", "dim")]) + "\n"
                yield from self._excerpt_lines(excerpt(raw, "", self._excerpt_width)._replace(carets=0))

    def _excerpt_lines(self, shown_excerpt: Excerpt) -> Iterator[str]:
        yield f"      {shown_excerpt.text}\n"
        if shown_excerpt.carets and self._has_carets and keeps_width(shown_excerpt.text, self._encoding):
            yield (
                self._style.paint([Span(" " * (6 + shown_excerpt.indent)), Span("^" * shown_excerpt.carets, "bad")])
                + "\n"
            )

    def _excerpt(self, located: LocatedFinding) -> tuple[Excerpt | None, str]:
        """Returns the excerpt, if available, and the JSON Pointer to name next to it, if any."""
        finding = located.finding
        raw = payload_at(located.place) if located.place is not None else None
        if not raw:
            return None, finding.pointer
        is_batched = finding.item is not None and raw.lstrip()[:1] == b"["
        pointer = f"/{finding.item}{finding.pointer}" if is_batched else finding.pointer
        shown_excerpt = excerpt(raw, pointer, self._excerpt_width)
        return shown_excerpt, "" if shown_excerpt.is_plain else pointer

    def _source_lines(self, located: LocatedFinding) -> Iterator[str]:
        finding = located.finding
        page = f"mcpproxy rule {finding.rule}"
        lines = [f"{finding.source} · {page}" if finding.source else page]
        if cells(lines[0]) > self._width - 4:
            lines = [*wrapped(finding.source, self._width - 4), page]
        for line in lines:
            yield self._style.paint([Span(f"    {line}", "dim")]) + "\n"


def _violation_count(entry: LocatedFinding, ended: CheckOutcome) -> int:
    """Returns how often the finding was made in that session."""
    finding = entry.finding
    return ended.counts.get((finding.rule, finding.session, repeat_key(finding)), 1)


def _head(entry: LocatedFinding, times: int) -> list[Span]:
    """Returns the text before the place."""
    finding = entry.finding
    head = [Span(f"  {finding.level!s:<7}  ", _ROLES[finding.level]), Span(finding.rule)]
    return [*head, Span(f"  ×{times:,}")] if times > 1 else head


def _place_cells(entry: LocatedFinding, *, sessions: bool) -> list[str]:
    """Returns the side at fault and the place, as cells; the second cell is empty if there is only one session."""
    finding = entry.finding
    session = f"session {finding.session}" if sessions else ""
    return [finding.blames, session, entry.record_text, offset_text(finding.t_ns)]


def summary(totals: Totals) -> str:
    """Returns the totals on one line: how many findings of each level, in how much traffic, and who caused them."""
    errors, warnings, notes = (totals.count_of(level) for level in (Level.ERROR, Level.WARNING, Level.NOTE))
    counts = _level_counts(errors, warnings, notes) or "no findings"
    text = f"{counts} in {count_text(totals.frames, 'frame')} of {count_text(totals.sessions, 'session')}."
    if totals.first_abandoned is not None:
        first = totals.first_abandoned
        text += f" {first_abandoned(totals.abandoned, first.frame, first.message)}"
    if totals.accepted:
        text += f" {totals.accepted:,} accepted by the baseline."
    if errors or warnings:
        for side in _SIDES:
            side_counts = _level_counts(totals.count_of(Level.ERROR, side), totals.count_of(Level.WARNING, side))
            if side_counts or side in ("server", "client"):
                text += f" {side.capitalize()}: {side_counts or 'none'}."
    return text[0].upper() + text[1:]


def notes_hint(hidden_count: int) -> str:
    """Returns how to see notes that were only counted, or an empty text if there are none."""
    return f" Show {'it' if hidden_count == 1 else 'them'} with --notes." if hidden_count else ""


def _level_counts(errors: int, warnings: int, notes: int = 0) -> str:
    counts = ((errors, "error"), (warnings, "warning"), (notes, "note"))
    return ", ".join(count_text(count, noun) for count, noun in counts if count)
