"""Heat maps: the calls of a stretch of time with too many for one bar each, by kind and time, and the slowest calls.

A thread computes a map in steps, because a stretch may contain a million calls.
"""

import time
from collections.abc import Sequence
from heapq import heappush, heappushpop
from typing import Final, NamedTuple

from analysis.conversation.call import ERRORS, FAILURES
from mcpproxy.tui.data.call_selection import CallSelection
from mcpproxy.tui.data.columns import OUTCOMES
from mcpproxy.tui.data.reading import Reading

MAX_CALLS_PER_STEP: Final = 5000
"""How many calls are processed per step: a few milliseconds."""
MAX_OUTLIERS: Final = 5
"""How many of the slowest calls get a bar each."""
MAX_KINDS: Final = 100
"""How many kinds get a row each: the most frequent ones."""
PAUSE_FACTOR: Final = 4
"""The pause before the next map of a growing capture, as a multiple of the time that the last map took."""
CALLS_PER_BAD: Final = 4
"""In a cell, one error in so many calls hides their durations."""
EXTREME_SHARE: Final = 0.02
"""Which share of the shortest, and of the longest durations are left out of the usual ones."""
RUNNING: Final = -1
"""In place of a duration: a call that has not ended."""
BAD: Final = -2
"""In place of a duration: an error, or no response."""
NOTHING: Final = -3
"""In place of a duration: no call."""
ABANDONED: Final = -4
"""In place of a duration: an abandoned call."""

_ERRORS: Final = frozenset(map(OUTCOMES.index, ERRORS))
_FAILURES: Final = frozenset(map(OUTCOMES.index, FAILURES))


class HeatKey(NamedTuple):
    """Everything that a map depends on."""

    low_ns: int
    high_ns: int
    """The stretch, on the clock of the capture."""
    cells: int
    first: int
    last: int
    """The range of the calls that began in the stretch; of selected calls, the range among these."""
    settled: int
    selected: tuple[int, int] = (0, 0)
    """How many calls are selected, and the generation of the selection."""


class HeatRow:
    """One kind of request."""

    def __init__(self, cells: int) -> None:
        self.worst_ns = [NOTHING] * cells
        """By cell: the duration of the longest call that began then, or one of the codes above: at the end, that of an
        error only if errors are at least one call in `CALLS_PER_BAD`, so that rare ones do not hide all durations."""
        self.count = self.bad_count = 0
        self.max_ns = 0
        self.waiting_cells = range(0)
        """The cells from the first call without a response to the end of the session."""
        self.tinged_cells: set[int] = set()
        """The cells with fewer errors; known at the end."""
        self._counts, self._bad_counts, self._abandoned_cells = [0] * cells, [0] * cells, set[int]()

    def add(self, cell: int, value: int, *, is_bad: bool, is_abandoned: bool) -> None:
        """Add a call with its duration, or with `RUNNING`."""
        self._counts[cell] += 1
        # A duration hides calls that are still running.
        self.worst_ns[cell] = max(self.worst_ns[cell], value)
        if is_bad or is_abandoned:
            self._bad_counts[cell] += 1
            self.bad_count += 1
            if is_abandoned:
                self._abandoned_cells.add(cell)

    def wait(self, cell: int, end_cell: int) -> None:
        """Add the wait of a call without a response, from its cell to before another."""
        waiting = self.waiting_cells
        self.waiting_cells = range(min(cell, waiting.start) if waiting else cell, max(end_cell, waiting.stop))

    def finish(self) -> None:
        """Mark the cells with errors; in a cell, an abandoned call hides errors, and any call hides one that waits."""
        for cell, (count, bad_count) in enumerate(zip(self._counts, self._bad_counts, strict=True)):
            if bad_count * CALLS_PER_BAD >= count > 0:
                self.worst_ns[cell] = ABANDONED if cell in self._abandoned_cells else BAD
            elif bad_count:
                self.tinged_cells.add(cell)
        for cell in self.waiting_cells:
            if self.worst_ns[cell] == NOTHING:
                self.worst_ns[cell] = RUNNING


class HeatMap:
    """The map of one stretch."""

    def __init__(self, key: HeatKey, numbers: Sequence[int]) -> None:
        self.key = key
        self.rows: dict[int, HeatRow] = {}
        """By the number of the kind."""
        self.outliers: list[int] = []
        """The slowest calls, in the order in which they began; known at the end."""
        self.kinds: list[int] = []
        """The kinds that get a row, the most frequent first; known at the end."""
        self.usual_ns: tuple[int, int] | None = None
        """The shortest and longest duration of the cells, without the most extreme ones; None without durations; known
        at the end."""
        self._slowest: list[tuple[int, int]] = []
        self._numbers = numbers
        """The calls that began in the stretch."""
        self._done_count = 0
        self._began = time.monotonic()
        self.took_s = 0.0

    def step(self, reading: Reading) -> bool:
        """Work for a few milliseconds; returns False when done."""
        calls, index, key = reading.calls, reading.index, self.key
        numbers = self._numbers[self._done_count : self._done_count + MAX_CALLS_PER_STEP]
        length = max(1, key.high_ns - key.low_ns)
        for number in numbers:
            kind, outcome = calls.kind[number], calls.outcome[number]
            lasted_ns = reading.lasted_ns(number)
            row = self.rows.get(kind)
            if row is None:
                row = self.rows[kind] = HeatRow(key.cells)
            row.count += 1
            sent_ns = index.t_ns(calls.request[number])
            cell = max(0, min(key.cells - 1, (sent_ns - key.low_ns) * key.cells // length))
            if lasted_ns is None and outcome in _FAILURES:
                lasted_ns = reading.waited_ns(number)
                if lasted_ns is not None:
                    end_cell = min(key.cells, -((key.low_ns - sent_ns - lasted_ns) * key.cells // length))
                    row.wait(cell, end_cell)
            if lasted_ns is not None:
                row.max_ns = max(row.max_ns, lasted_ns)
                push = heappush if len(self._slowest) < MAX_OUTLIERS else heappushpop
                push(self._slowest, (lasted_ns, -number))
            # As `Reading.ended_as`, but from codes, because this is done for each call of a stretch.
            is_bad = outcome in _FAILURES or (outcome in _ERRORS and not calls.is_cancelled[number])
            row.add(
                cell,
                RUNNING if lasted_ns is None else lasted_ns,
                is_bad=is_bad,
                is_abandoned=calls.abandoned_ns[number] >= 0,
            )
        self._done_count += len(numbers)
        if self._done_count < len(self._numbers):
            return True
        for row in self.rows.values():
            row.finish()
        self.outliers = sorted(-number for _, number in self._slowest)
        self.kinds = sorted(self.rows, key=lambda call: (-self.rows[call].count, call))[:MAX_KINDS]
        durations = sorted(ns for kind in self.kinds for ns in self.rows[kind].worst_ns if ns >= 0)
        if durations:
            extremes_count = int(len(durations) * EXTREME_SHARE)
            self.usual_ns = durations[extremes_count], durations[-1 - extremes_count]
        self.took_s = time.monotonic() - self._began
        return False


class HeatMaps:
    """The maps of one capture. One thread computes them; the drawing thread requests a map, and draws the last one."""

    def __init__(self, reading: Reading, selection: CallSelection | None = None) -> None:
        self.map: HeatMap | None = None
        """The last complete map."""
        self._reading, self._selection = reading, selection
        self._requested_key: HeatKey | None = None
        self._unfinished_map: HeatMap | None = None
        self._next_time = 0.0

    def request(self, key: HeatKey) -> None:
        """Request the map that is computed next."""
        self._requested_key = key

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        key, last_map = self._requested_key, self.map
        if self._unfinished_map is None:
            if key is None or (last_map is not None and last_map.key == key):
                return False
            has_only_grown = last_map is not None and last_map.key[:3] == key[:3]
            if has_only_grown and time.monotonic() < self._next_time:
                return False
            numbers: Sequence[int] = range(key.first, key.last)
            if self._selection is not None:
                numbers = self._selection.calls[key.first : key.last]
            self._unfinished_map = HeatMap(key, numbers)
        if not self._unfinished_map.step(self._reading):
            self.map, self._unfinished_map = self._unfinished_map, None
            self._next_time = time.monotonic() + PAUSE_FACTOR * self.map.took_s
        return True
