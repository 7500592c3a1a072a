"""Timeline rows: a row for each server, and below it a bar for each exchange, or a heat map if there are too many."""

from collections.abc import Sequence
from typing import Final

from analysis.conversation.call import Outcome
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.timelines import CallBar, Timeline, Timelines
from mcpproxy.tui.rows.waterfall import ABANDONED_SIGN, ERROR_SIGN, Window, bar_cells, heat_cells, server_cells
from mcpproxy.tui.widgets.table import MemoryRows, TableLine
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span
from mcpproxy.wording.statuses import outcome_status, waiting_status
from mcpproxy.wording.units import brief_duration

MAX_BARS: Final = 200
"""The maximum number of exchanges of a server that get a row each; more are drawn as density."""
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
        self.folded_timelines: set[Timeline] = set()
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
        return rows

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
                "what": (Span(f"  {sanitise(bar.kind.text, 200)}"),),
                "chart": bar_cells(bar, self.window, self.cells, timeline.last_ns),
                "lasted": (duration_span(bar, is_live=timeline.reading.is_live),),
            }
        )

    def _kind_line(self, timeline: Timeline, kind: int) -> TableLine:
        heat_map = timeline.heat.map
        row = heat_map.rows.get(kind) if heat_map is not None else None
        if row is None:
            return TableLine()
        name = Span(f" {sanitise(timeline.reading.kinds.all[kind].text, 200)}")
        longest = Span(f"≤ {brief_duration(row.max_ns)}" if row.max_ns else "", "dim")
        return TableLine(
            {
                "what": (Span(f"  {row.count:,}×", "dim"), name),
                "chart": heat_cells(row.worst_ns),
                "lasted": (longest,),
            }
        )

    def _head_line(self, timeline: Timeline) -> TableLine:
        key = id(timeline), self.window, self.cells, len(timeline.reading.calls)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = timeline.call_counts(*self.window, self.cells)
        startup, reading = timeline.startup(), timeline.reading
        prefix = ("▸ " if timeline in self.folded_timelines else "▾ ") + ("● " if reading.is_live else "")
        suffix = " (this)" if timeline is self.timelines.own_timeline and len(self.timelines.all) > 1 else ""
        suffix += " (incomplete)" if timeline.is_cut else ""
        name = sanitise(reading.name, 100)
        startup_text = "" if startup.total_ns is None else f"start-up {brief_duration(startup.total_ns)}"
        return TableLine(
            {
                "what": (Span(f"{prefix}{name}{suffix}", "accent"),),
                "chart": server_cells(counts, startup, self.window, timeline.last_ns),
                "lasted": (Span(startup_text, "dim"),),
            }
        )


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
