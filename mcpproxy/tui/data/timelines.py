"""Timelines: the captures of one client on one clock, with their calls, and how each server started.

The clock's 0 is the start of the open capture. The cost of a query depends on what is shown, not on the size of the
captures: times are looked up by bisection, and among the calls that began before a stretch, only blocks with a call
that was still running are searched.
"""

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analysis.conversation.call import ERRORS, FAILURES, Outcome
from analysis.filter import Filter
from analysis.protocol.methods import OPENING_METHODS
from captures.errors import CaptureError
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.tui.data.call_selection import CallSelection
from mcpproxy.tui.data.checking import CaptureChecker
from mcpproxy.tui.data.client_captures import ClientCaptures
from mcpproxy.tui.data.columns import MAX_ROWS, NONE, OUTCOMES
from mcpproxy.tui.data.heat import HeatKey, HeatMap, HeatMaps
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.sorted_rows import insert_row

CALLS_PER_BLOCK: Final = 256
"""How many calls have their ends summarised together."""
MAX_SETTLED_PER_STEP: Final = 5000
MAX_SEARCHED_ROWS: Final = 5000
"""How many rows at the beginning are searched for the parts of a startup."""
MAX_EXAMINED_REQUESTS: Final = 300
"""How many requests after the start of a call are examined to find how long it waited."""
MIN_STRETCH_AROUND_NS: Final = 1_000_000
"""The shortest stretch around a call: many calls can begin at the same moment."""
MAX_TIMELINES: Final = 24
"""The maximum number of captures shown: the ones that began nearest to the open capture."""
MAX_TIMELINE_ENTRIES: Final = MAX_ROWS
"""How many entries of all captures together are kept in memory; beyond that, only the open capture is still read."""
SEARCH_INTERVAL_S: Final = 2.0
"""The pause between two searches for more captures."""

_RESULT: Final = OUTCOMES.index(Outcome.RESULT)
_BAD_OUTCOMES: Final = ERRORS | FAILURES


class CallBar(NamedTuple):
    """A call on the clock."""

    start_ns: int
    end_ns: int | None
    """When it was answered, cancelled or failed, whichever came first; None if it has not ended."""
    kind: CallKind
    outcome: Outcome | None
    """How it ended: an error after its cancellation does not count."""
    waits: tuple[tuple[int, int], ...] = ()
    """When the responding side was itself waiting for responses from the other side."""
    is_abandoned: bool = False
    is_late: bool = False
    """Whether it was answered after it had been cancelled."""
    waited_ns: int | None = None
    """How long it had waited when the capture ended; None if it ended before, or if that is unknown."""

    @property
    def lasted_ns(self) -> int | None:
        """How long it lasted; None if that is unknown."""
        return self.waited_ns if self.end_ns is None else self.end_ns - self.start_ns


class Startup(NamedTuple):
    """When a server started, on the clock; a time is None if the event did not happen or was not recorded."""

    spawned_ns: int | None
    awake_ns: int | None
    """When its first frame or line of stderr came."""
    listed_ns: int | None
    """When its first list of tools came; until then, when the response to `initialize` came."""

    @property
    def total_ns(self) -> int | None:
        """How long it took."""
        if self.spawned_ns is None:
            return None
        end_ns = self.listed_ns if self.listed_ns is not None else self.awake_ns
        return None if end_ns is None else max(0, end_ns - self.spawned_ns)


class Timeline:
    """The timeline of one capture. One thread calls `step`; others query."""

    def __init__(self, reading: Reading, offset_ns: int, row_filter: Filter | None = None) -> None:
        """Start without ended calls.

        Args:
            reading: the capture.
            offset_ns: how much later it began than the capture at offset 0; may be negative.
            row_filter: the filter that selects the calls to show; None for all calls.
        """
        self.reading = reading
        self.offset_ns = offset_ns
        self.selection: CallSelection | None = None
        """The calls that are shown; None if all are."""
        self.heat = HeatMaps(reading)
        self.show_only(row_filter)
        self.is_cut = False
        """Whether reading stopped before the end of the capture, because the captures are too large."""
        self._ends = array("q")
        """By block: when the last of its calls ended."""
        self._open_counts = array("I")
        """By block: how many of its calls have not ended."""
        self._has_ended = bytearray()
        self._bad_calls = array("I")
        """The calls that failed or were abandoned, or seemed so at first."""
        self._settled_count = 0
        self._searched_rows = 0
        self._startup_rows: dict[str, int] = {}

    @property
    def last_ns(self) -> int:
        """The end of the capture so far, on the clock."""
        return self.offset_ns + self.reading.index.last_ns

    def show_only(self, row_filter: Filter | None) -> None:
        """Show only the calls that a filter selects, or all calls again; not while another thread calls `step`."""
        if self.selection is not None:
            self.selection.close()
        self.selection = CallSelection(self.reading, row_filter) if row_filter is not None else None
        self.heat = HeatMaps(self.reading, self.selection)

    @property
    def is_searching(self) -> bool:
        """Whether there may be more calls to select already."""
        return self.selection is not None and self.selection.is_searching

    # ---- steps, in a thread

    def step(self) -> bool:
        """Record the calls that have ended; returns False if there is nothing new."""
        self._find_startup_parts()
        calls = self.reading.calls
        new_count = len(calls) - len(self._has_ended)
        for number in range(len(self._has_ended), len(self._has_ended) + min(new_count, MAX_SETTLED_PER_STEP)):
            if number // CALLS_PER_BLOCK == len(self._ends):
                self._ends.append(0)
                self._open_counts.append(0)
            self._open_counts[number // CALLS_PER_BLOCK] += 1
            self._has_ended.append(0)
        settled_calls = calls.settled[self._settled_count : self._settled_count + MAX_SETTLED_PER_STEP]
        for number in settled_calls:
            if number >= len(self._has_ended):
                break
            self._settled_count += 1
            if self._is_bad(number):
                insert_row(self._bad_calls, number)
            row = calls.end[number]
            if row == NONE:
                continue
            block = number // CALLS_PER_BLOCK
            self._ends[block] = max(self._ends[block], self.reading.index.t_ns(row))
            self._open_counts[block] -= not self._has_ended[number]
            self._has_ended[number] = 1
        is_busy = self.selection is not None and self.selection.step()
        is_busy = self.heat.step() or is_busy
        return bool(new_count or settled_calls) or is_busy

    def _find_startup_parts(self) -> None:
        """Search the first rows for the parts of the startup."""
        index, rows = self.reading.index, self._startup_rows
        while self._searched_rows < min(len(index), MAX_SEARCHED_ROWS) and not {"spawned", "awake"} <= rows.keys():
            entry = index.entry(self._searched_rows)
            if entry.kind == "process":
                rows.setdefault("spawned", self._searched_rows)
            elif entry.dir == "s2c" or entry.kind == "stderr":
                rows.setdefault("awake", self._searched_rows)
            self._searched_rows += 1

    # ---- queries

    def startup(self) -> Startup:
        """How the server started."""
        calls = self.reading.calls
        response_rows: dict[str, int] = {}
        for number in range(min(len(calls), MAX_EXAMINED_REQUESTS)):
            method = self.reading.kinds.all[calls.kind[number]].method
            if calls.outcome[number] == _RESULT and (method in OPENING_METHODS or method == "tools/list"):
                response_rows.setdefault("list" if method == "tools/list" else "first", calls.response[number])
        listed_row = response_rows.get("list", response_rows.get("first"))
        return Startup(
            *(
                self._clock_ns(row)
                for row in (self._startup_rows.get("spawned"), self._startup_rows.get("awake"), listed_row)
            )
        )

    def _clock_ns(self, row: int | None) -> int | None:
        return None if row is None or row == NONE else self.offset_ns + self.reading.index.t_ns(row)

    def call_count(self, start_ns: int, end_ns: int) -> int:
        """How many calls began in a stretch."""
        return self._shown_before(self._first_call_at(end_ns)) - self._shown_before(self._first_call_at(start_ns))

    def call_counts(self, start_ns: int, end_ns: int, cells: int) -> list[int]:
        """How many calls began in each of `cells` equal parts of a stretch."""
        low = self._first_call_at(start_ns)
        high = max(low, self._first_call_at(end_ns))
        counts, previous, previous_count = [], low, self._shown_before(low)
        for cell in range(1, cells + 1):
            current = (
                high
                if cell == cells
                else self._first_call_at(start_ns + (end_ns - start_ns) * cell // cells, previous, high)
            )
            count = self._shown_before(current)
            counts.append(count - previous_count)
            previous, previous_count = current, count
        return counts

    def bad_cells(self, start_ns: int, end_ns: int, counts: Sequence[int]) -> set[int]:
        """Which equal parts of a stretch contain the start of a call that failed, by `call_counts` of the stretch."""
        first, cells, length = self._first_call_at(start_ns), set[int](), len(counts)
        bad_calls, selection = self._bad_calls, self.selection
        for cell, count in enumerate(counts, 1):
            end = self._first_call_at(start_ns + (end_ns - start_ns) * cell // length, first)
            if count:
                numbers = bad_calls[bisect_left(bad_calls, first) : bisect_left(bad_calls, end)]
                if any((selection is None or number in selection) and self._is_bad(number) for number in numbers):
                    cells.add(cell - 1)
            first = end
        return cells

    def _is_bad(self, number: int) -> bool:
        return self.reading.effective_outcome(number) in _BAD_OUTCOMES or self.reading.abandoned_ns(number) is not None

    def calls_within(self, start_ns: int, end_ns: int, max_calls: int) -> list[int] | None:
        """Returns the calls that ran in a stretch, in the order in which they began, or None if there are too many."""
        low, high = self._first_call_at(start_ns), self._first_call_at(end_ns)
        began_calls = self._shown_calls(low, high)
        if len(began_calls) > max_calls:
            return None
        selection, running_calls = self.selection, list[int]()
        calls, index = self.reading.calls, self.reading.index
        since_ns = start_ns - self.offset_ns
        for block in range(min(len(self._ends), -(-low // CALLS_PER_BLOCK)) - 1, -1, -1):
            if not self._open_counts[block] and self._ends[block] < since_ns:
                continue
            for number in range(min(low, (block + 1) * CALLS_PER_BLOCK) - 1, block * CALLS_PER_BLOCK - 1, -1):
                row = calls.end[number]
                if (row == NONE or index.t_ns(row) >= since_ns) and (selection is None or number in selection):
                    running_calls.append(number)
            if len(running_calls) + len(began_calls) > max_calls:
                return None
        running_calls.reverse()
        return [*running_calls, *began_calls]

    def _shown_before(self, number: int) -> int:
        """Returns how many calls before a call are shown."""
        return number if self.selection is None else bisect_left(self.selection.calls, number)

    def _shown_calls(self, first: int, last: int) -> Sequence[int]:
        """Returns the calls from `first` to before `last` that are shown."""
        if self.selection is None:
            return range(first, last)
        return self.selection.calls[self._shown_before(first) : self._shown_before(last)]

    def request_heat_map(self, start_ns: int, end_ns: int, cells: int) -> HeatMap | None:
        """Request the map of the calls that began in a stretch; returns the last complete map, if there is one."""
        offset, settled_count, selection = self.offset_ns, self._settled_count, self.selection
        first, last = (self._shown_before(self._first_call_at(t_ns)) for t_ns in (start_ns, end_ns))
        selected = (len(selection), selection.generation) if selection is not None else (0, 0)
        self.heat.request(
            HeatKey(start_ns - offset, end_ns - offset, cells, first, max(first, last), settled_count, selected)
        )
        return self.heat.map

    def call_near(self, row: int) -> int | None:
        """The call of a row, or else the last one that began before it, or else the first one; None without calls."""
        requests, number = self.reading.calls.request, self.reading.call(row)
        if number is None and len(requests):
            number = max(0, bisect_left(requests, row) - 1)
        selection = self.selection
        if number is None or selection is None or number in selection:
            return number
        selected_calls = selection.calls
        return selected_calls[max(0, bisect_left(selected_calls, number) - 1)] if selected_calls else None

    def stretch_around(self, number: int, max_calls: int) -> tuple[int, int]:
        """Returns a stretch around a call in which at most `max_calls` calls begin, unless more begin at once."""
        requests, index = self.reading.calls.request, self.reading.index
        shown_calls: Sequence[int] = self.selection.calls if self.selection is not None else range(len(requests))
        middle = self._shown_before(number)
        first = shown_calls[max(0, middle - max_calls // 2)]
        last = shown_calls[min(len(shown_calls) - 1, middle + max_calls // 2)]
        low, high = index.t_ns(requests[first]), index.t_ns(requests[last])
        margin = max(0, MIN_STRETCH_AROUND_NS - (high - low)) // 2
        return self.offset_ns + low - margin, self.offset_ns + high + margin

    def bar(self, number: int) -> CallBar:
        """Returns the bar of a call."""
        calls, index = self.reading.calls, self.reading.index
        start, row = index.t_ns(calls.request[number]), calls.end[number]
        end = None if row == NONE else index.t_ns(row)
        kind = self.reading.kinds.all[calls.kind[number]]
        waits = [] if kind.side == "server" else self._waits(number, end)
        offset = self.offset_ns
        return CallBar(
            offset + start,
            None if end is None else offset + end,
            kind,
            self.reading.effective_outcome(number),
            tuple((offset + wait_start, offset + wait_end) for wait_start, wait_end in waits),
            is_abandoned=self.reading.abandoned_ns(number) is not None,
            is_late=bool(calls.is_cancelled[number]) and calls.response[number] != NONE,
            waited_ns=self.reading.waited_ns(number),
        )

    def _waits(self, number: int, end_ns: int | None) -> list[tuple[int, int]]:
        """When requests from the other side were open during a call."""
        calls, index, kinds = self.reading.calls, self.reading.index, self.reading.kinds.all
        waits: list[tuple[int, int]] = []
        for inner_call in range(number + 1, min(len(calls), number + 1 + MAX_EXAMINED_REQUESTS)):
            begin_ns = index.t_ns(calls.request[inner_call])
            if end_ns is not None and begin_ns > end_ns:
                break
            if kinds[calls.kind[inner_call]].side == "server":
                row = calls.end[inner_call]
                waits.append(
                    (begin_ns, index.t_ns(row) if row != NONE else end_ns if end_ns is not None else index.last_ns)
                )
        return waits

    def _first_call_at(self, t_ns: int, low: int = 0, high: int | None = None) -> int:
        """Returns the first call that began at a moment or after it."""
        calls = self.reading.calls
        end = len(calls) if high is None else high
        return bisect_left(calls.request, t_ns - self.offset_ns, low, end, key=self.reading.index.t_ns)


class Timelines:
    """All captures of one client process. One thread calls `step`; others read."""

    def __init__(
        self,
        reading: Reading,
        list_captures: Callable[[], Iterable[Path]],
        checking: CaptureChecker,
        row_filter: Filter | None = None,
    ) -> None:
        """Start with only the open capture.

        Args:
            reading: the open capture, which another thread continues to read.
            list_captures: returns the captures that are already known.
            checking: reads the other captures in its worker.
            row_filter: the filter that selects the calls to show, in all captures; None for all calls.
        """
        self._checking, self._row_filter = checking, row_filter
        self.own_timeline = Timeline(reading, 0, row_filter)
        self.all: Sequence[Timeline] = [self.own_timeline]
        """The timelines of all captures, in the order of their starts."""
        self.captures = ClientCaptures(reading.path, reading.index.header.members, list_captures)
        self.has_searched = False
        """Whether all of the client's captures are known."""
        self._opened_count = 0
        self._searched_s = -SEARCH_INTERVAL_S

    @property
    def omitted_count(self) -> int:
        """How many captures of the client are not shown because there are too many."""
        return len(self.captures.related) - self._opened_count

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        if time.monotonic() - self._searched_s >= SEARCH_INTERVAL_S:
            self._searched_s = time.monotonic()
            self.captures.list_files()
        is_busy = self.captures.step()
        if not is_busy:
            self._open_related()
            self.has_searched = True
        entries = sum(len(timeline.reading.index) for timeline in self.all)
        for timeline in self.all:
            if timeline is not self.own_timeline:
                is_cut = entries > MAX_TIMELINE_ENTRIES and not timeline.reading.has_ended
                if is_cut and not timeline.is_cut:
                    self._checking.drop(timeline.reading.findings)
                timeline.is_cut = timeline.is_cut or is_cut
                is_busy = (not timeline.is_cut and timeline.reading.step()) or is_busy
            is_busy = timeline.step() or is_busy
        return is_busy

    def close(self) -> None:
        """Close the files of all but the open capture."""
        self.show_only(None)
        for timeline in self.all:
            if timeline is not self.own_timeline:
                self._checking.drop(timeline.reading.findings)
                timeline.reading.close()

    def show_only(self, row_filter: Filter | None) -> None:
        """Show only the calls that a filter selects, or all calls again; not while another thread calls `step`."""
        self._row_filter = row_filter
        for timeline in self.all:
            timeline.show_only(row_filter)

    def extent(self) -> tuple[int, int]:
        """The stretch of the clock that all captures cover together."""
        timelines = self.all
        return min(timeline.offset_ns for timeline in timelines), max(timeline.last_ns for timeline in timelines)

    def startup_stretch(self) -> tuple[int, int] | None:
        """The stretch in which the servers started, or None if no start was recorded."""
        startups = [(startup.spawned_ns, startup.total_ns) for startup in (timeline.startup() for timeline in self.all)]
        stretches = [
            (begin_ns, begin_ns + took_ns)
            for begin_ns, took_ns in startups
            if begin_ns is not None and took_ns is not None
        ]
        return (
            (min(begin_ns for begin_ns, _ in stretches), max(end_ns for _, end_ns in stretches)) if stretches else None
        )

    def _open_related(self) -> None:
        """Start reading the client's other captures; the nearest in time come first."""
        open_paths = {timeline.reading.path for timeline in self.all}
        captures = sorted(
            (capture for capture in self.captures.related if capture[0] not in open_paths),
            key=lambda capture: abs(capture[1]),
        )
        for path, offset_ns in captures[: max(0, MAX_TIMELINES - len(open_paths))]:
            try:
                timeline = Timeline(Reading(path), offset_ns, self._row_filter)
            except CaptureError:
                self.captures.related.remove((path, offset_ns))
                continue
            self._checking.read(timeline.reading, with_rules=False)
            self._opened_count += 1
            self.all = sorted([*self.all, timeline], key=lambda item: item.offset_ns)


def cells_of(start_ns: int, end_ns: int, window: tuple[int, int], cells: int) -> range:
    """Returns the cells that a stretch covers in a window: at least one, or none if the stretch is outside."""
    low, high = window
    if end_ns < low or start_ns > high or high <= low:
        return range(0)
    first = max(0, min(cells - 1, (start_ns - low) * cells // (high - low)))
    last = max(first + 1, min(cells, -(-(end_ns - low) * cells // (high - low))))
    return range(first, last)
