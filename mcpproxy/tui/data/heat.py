"""Heat: the calls of a stretch with too many for a bar each: by kind and time, and the slowest of them.

A thread computes it in steps: a stretch may hold a million calls.
"""

import time
from heapq import heappush, heappushpop
from typing import Final, NamedTuple

from analysis.conversation.call import ERRORS, FAILURES
from mcpproxy.tui.data.columns import OUTCOMES
from mcpproxy.tui.data.reading import Reading

AT_ONCE: Final = 5000
"""Calls per step: a few milliseconds."""
OUTLIERS: Final = 5
"""The slowest calls that get a bar each."""
KINDS: Final = 100
"""Kinds that get a row each: the most frequent."""
SHARE: Final = 4
"""The next map of a capture that grows waits this many times as long as the last one took."""
RUNNING: Final = -1
BAD: Final = -2
NOTHING: Final = -3
ABANDONED: Final = -4
"""Instead of a duration: a call that has not ended; an error, or no response; no call; an abandoned call."""

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
    """The calls that began in it."""
    settled: int


class HeatRow:
    """One kind of request."""

    def __init__(self, cells: int) -> None:
        self.worst_ns = [NOTHING] * cells
        """By cell: the duration of the longest call that began then, or one of the codes above."""
        self.count = 0
        self.most_ns = 0


class HeatMap:
    """The map of one stretch."""

    def __init__(self, key: HeatKey) -> None:
        self.key = key
        self.rows: dict[int, HeatRow] = {}
        """By the number of the kind."""
        self.outliers: list[int] = []
        """The slowest calls, in the order in which they began; known at the end."""
        self.kinds: list[int] = []
        """The kinds that get a row, the most frequent first; known at the end."""
        self._slowest: list[tuple[int, int]] = []
        self._at = key.first
        self._began = time.monotonic()
        self.took_s = 0.0

    def step(self, reading: Reading) -> bool:
        """Work for a few milliseconds; returns False when done."""
        calls, index, key = reading.calls, reading.index, self.key
        end = min(key.last, self._at + AT_ONCE)
        length = max(1, key.high_ns - key.low_ns)
        for number in range(self._at, end):
            call, outcome = calls.kind[number], calls.outcome[number]
            lasted_ns = reading.lasted_ns(number)
            row = self.rows.get(call)
            if row is None:
                row = self.rows[call] = HeatRow(key.cells)
            row.count += 1
            cell = (index.t_ns(calls.request[number]) - key.low_ns) * key.cells // length
            cell = max(0, min(key.cells - 1, cell))
            if lasted_ns is not None:
                row.most_ns = max(row.most_ns, lasted_ns)
                add = heappush if len(self._slowest) < OUTLIERS else heappushpop
                add(self._slowest, (lasted_ns, -number))
            sign = RUNNING if lasted_ns is None else lasted_ns
            # What `Reading.ended_as` says, from codes: this is done for each call of a stretch.
            is_bad = outcome in _FAILURES or (outcome in _ERRORS and not calls.is_cancelled[number])
            sign = ABANDONED if calls.abandoned_ns[number] >= 0 else BAD if is_bad else sign
            signs = row.worst_ns[cell], sign
            # In a cell, an abandoned call hides errors, an error hides durations, and a duration hides what is still
            # running.
            row.worst_ns[cell] = ABANDONED if ABANDONED in signs else BAD if BAD in signs else max(signs)
        self._at = end
        if end < key.last:
            return True
        self.outliers = sorted(-number for _, number in self._slowest)
        self.kinds = sorted(self.rows, key=lambda call: (-self.rows[call].count, call))[:KINDS]
        self.took_s = time.monotonic() - self._began
        return False


class HeatMaps:
    """The maps of one capture. One thread steps; the drawing thread requests a map, and draws the last one."""

    def __init__(self, reading: Reading) -> None:
        self.map: HeatMap | None = None
        """The last complete map."""
        self._reading = reading
        self._wanted: HeatKey | None = None
        self._making: HeatMap | None = None
        self._next = 0.0

    def request(self, key: HeatKey) -> None:
        """Request that this map is computed next."""
        self._wanted = key

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        wanted, made = self._wanted, self.map
        if self._making is None:
            if wanted is None or (made is not None and made.key == wanted):
                return False
            only_grew = made is not None and made.key[:3] == wanted[:3]
            if only_grew and time.monotonic() < self._next:
                return False
            self._making = HeatMap(wanted)
        if not self._making.step(self._reading):
            self.map, self._making = self._making, None
            self._next = time.monotonic() + SHARE * self.map.took_s
        return True
