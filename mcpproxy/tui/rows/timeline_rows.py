"""Timeline rows: a row for each server, and below it a bar for each exchange, or a heat map if there are too many."""

from collections.abc import Iterable, Sequence
from typing import Final

from analysis.conversation.call import Outcome
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.tui.data.timelines import CallBar, Timeline, Timelines
from mcpproxy.tui.rows.heat_scale import limits_over
from mcpproxy.tui.rows.waterfall import ABANDONED_SIGN, ERROR_SIGN, Window, bar_cells, heat_cells, server_cells
from mcpproxy.tui.widgets.table import MemoryRows, TableLine
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span
from mcpproxy.wording.statuses import outcome_status, waiting_status
from mcpproxy.wording.units import brief_duration, short_count

MAX_BARS: Final = 200
"""The maximum number of exchanges of a server that get a row each; more are drawn as density."""
MAX_NAME_CHARS: Final = 200
"""The maximum length of a method with its name, in characters."""
MAX_SERVER_CHARS: Final = 100
"""The maximum length of the name of a server, in characters."""
MIN_STRETCH_NS: Final = 10_000
"""The shortest stretch that is drawn."""
HEAD_NUMBER: Final = -1
"""The number for the row of a server; the row of an exchange has the number of its call."""
OVERFLOW_NUMBER: Final = -2
"""The number for the row that is shown for too many exchanges until their map has been computed."""
FIRST_KIND_NUMBER: Final = -3
"""The number for the first row of a map; the row of the kind with number n has the number `KINDS - n`."""


class TimelineRows(MemoryRows[tuple[Timeline, int]]):
    """Table rows: one for each capture, and one for each exchange in the window unless the capture is folded."""

    def __init__(self, timelines: Timelines) -> None:
        super().__init__()
        self.timelines = timelines
        self.window: Window = (0, MIN_STRETCH_NS)
        self.zero_ns = 0
        self.last_ns = 0
        self.cells = 1
        self.limits = limits_over(())
        """The limits of the scale that all maps share."""
        self.folded_timelines: set[Timeline] = set()
        self._is_short = False
        """Whether tool calls are shown without `tools/`, because the names have too little room."""
        self._counts: dict[tuple[int, Window, int, int], list[int]] = {}

    def running_rows(self) -> Sequence[tuple[Timeline, int]]:
        """Returns the rows for the exchanges that run in the window."""
        rows: list[tuple[Timeline, int]] = []
        for timeline in self.timelines.all:
            rows.append((timeline, HEAD_NUMBER))
            if timeline in self.folded_timelines:
                continue
            numbers = timeline.calls_within(*self.window, MAX_BARS)
            if numbers is None:
                numbers = self._heat_rows(timeline)
            rows += [(timeline, number) for number in numbers]
        self._counts = {}
        maps = (timeline.heat.map for timeline in dict.fromkeys(row[0] for row in rows if row[1] <= FIRST_KIND_NUMBER))
        self.limits = limits_over(heat_map.usual_ns for heat_map in maps if heat_map is not None)
        return rows

    def fit_names(self, rows: Iterable[tuple[Timeline, int]], limit: int) -> int:
        """Fit the names of servers and requests into a column.

        Args:
            rows: the rows, as `running_rows` returns them.
            limit: the maximum width of the column, in cells.

        Returns:
            The width of the column, in cells.
        """
        texts = {self._head_text(timeline) for timeline, number in rows if number == HEAD_NUMBER}
        kinds = {(timeline.reading, timeline.reading.calls.kind[number]) for timeline, number in rows if number >= 0}
        texts |= {f"  {_name(reading.kinds.all[kind])}" for reading, kind in kinds}
        texts |= {self._kind_text(timeline, number) for timeline, number in rows if number <= FIRST_KIND_NUMBER}
        needed = max(map(cells, texts), default=0)
        short_needed = max((cells(_short(text)) for text in texts), default=0)
        self._is_short = needed > limit
        return min(limit, short_needed if self._is_short else needed)

    def _heat_rows(self, timeline: Timeline) -> list[int]:
        """Returns the rows for too many exchanges: the slowest of them, and one row for each kind."""
        heat_map = timeline.request_heat_map(*self.window, self.cells)
        if heat_map is None:
            return [OVERFLOW_NUMBER]
        return [*heat_map.outliers, *(FIRST_KIND_NUMBER - kind for kind in heat_map.kinds)]

    def line(self, row: int) -> TableLine:
        """Returns the line of a capture, an exchange or a kind, or a note that there are too many exchanges."""
        timeline, number = self.items[row]
        if number == HEAD_NUMBER:
            return self._head_line(timeline)
        if number == OVERFLOW_NUMBER:
            text = f"  {count_text(timeline.call_count(*self.window), 'exchange')} begin here …"
            return TableLine({"what": (Span(text, "dim"),)}, wide_column="what")
        if number <= FIRST_KIND_NUMBER:
            return self._kind_line(timeline, FIRST_KIND_NUMBER - number)
        bar = timeline.bar(number)
        return TableLine(
            {
                "what": (Span(self._fitted(f"  {_name(bar.kind)}")),),
                "chart": bar_cells(bar, self.window, self.cells, timeline.last_ns),
                "lasted": (duration_span(bar, is_live=timeline.reading.is_live),),
            }
        )

    def _kind_line(self, timeline: Timeline, kind: int) -> TableLine:
        heat_map = timeline.heat.map
        row = heat_map.rows.get(kind) if heat_map is not None else None
        if row is None:
            return TableLine()
        name = Span(self._fitted(f" {_name(timeline.reading.kinds.all[kind])}"))
        errors = Span(f"{ERROR_SIGN} {short_count(row.bad_count)}  " if row.bad_count else "", "bad")
        longest = Span(f"≤ {brief_duration(row.max_ns)}" if row.max_ns else "", "dim")
        return TableLine(
            {
                "what": (Span(f"  {row.count:,}×", "dim"), name),
                "chart": heat_cells(row, self.limits),
                "lasted": (errors, longest),
            }
        )

    def _head_line(self, timeline: Timeline) -> TableLine:
        key = id(timeline), self.window, self.cells, len(timeline.reading.calls)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = timeline.call_counts(*self.window, self.cells)
        # The exchanges of an unfolded server show themselves which of them failed.
        is_folded = timeline in self.folded_timelines
        bad_cells = timeline.bad_cells(*self.window, counts) if is_folded else ()
        startup = timeline.startup()
        startup_text = "" if startup.total_ns is None else f"start-up {brief_duration(startup.total_ns)}"
        return TableLine(
            {
                "what": (Span(self._head_text(timeline), "accent"),),
                "chart": server_cells(counts, startup, self.window, timeline.last_ns, bad_cells),
                "lasted": (Span(startup_text, "dim"),),
            }
        )

    def _head_text(self, timeline: Timeline) -> str:
        """Returns the name of a server, and what is special about it."""
        prefix = ("▸ " if timeline in self.folded_timelines else "▾ ") + ("● " if timeline.reading.is_live else "")
        suffix = " (this)" if timeline is self.timelines.own_timeline and len(self.timelines.all) > 1 else ""
        suffix += " (incomplete)" if timeline.is_cut else ""
        return f"{prefix}{sanitise(timeline.reading.name, MAX_SERVER_CHARS)}{suffix}"

    def _kind_text(self, timeline: Timeline, number: int) -> str:
        """Returns the text of a row of a map."""
        kind, heat_map = FIRST_KIND_NUMBER - number, timeline.heat.map
        row = heat_map.rows.get(kind) if heat_map is not None else None
        return f"  {0 if row is None else row.count:,}× {_name(timeline.reading.kinds.all[kind])}"

    def _fitted(self, text: str) -> str:
        return _short(text) if self._is_short else text


def _name(kind: CallKind) -> str:
    """Returns the name of a kind of request, sanitised."""
    return sanitise(kind.text, MAX_NAME_CHARS)


def _short(text: str) -> str:
    """Returns the text of a row with `call` for `tools/call`."""
    return text.replace(" tools/call ", " call ", 1)


def duration_span(bar: CallBar, *, is_live: bool) -> Span:
    """Returns how long an exchange lasted, whether its response was late, and how it ended if not with its response."""
    late_suffix = ", late" if bar.is_late else ""
    duration = None if bar.lasted_ns is None else brief_duration(bar.lasted_ns)
    if bar.is_abandoned and duration is not None:
        return Span(f"{ABANDONED_SIGN} {duration}{late_suffix}", "bad")
    if bar.outcome is None and is_live:
        return Span(waiting_status().word, "dim")
    status = outcome_status(bar.outcome or Outcome.UNANSWERED)
    if duration is None or bar.outcome is Outcome.NOT_RECORDED:
        return Span(status.word, "bad" if status.is_bad and bar.outcome is not None else "dim")
    if bar.outcome in (Outcome.CANCELLED, Outcome.UNANSWERED):
        return Span(f"{status.word} {duration}", "bad" if status.is_bad else "dim")
    return (
        Span(f"{ERROR_SIGN} {duration}{late_suffix}", "bad")
        if status.is_bad
        else Span(f"{duration}{late_suffix}", "dim")
    )
