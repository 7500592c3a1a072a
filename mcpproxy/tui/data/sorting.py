"""Sorting: the rows of the traffic by latency, size or status. A thread sorts while the rows stay as they were.

It needs only data in arrays. It sorts short runs and merges them, because a sort of a million numbers would block the
interpreter, and with it the screen, for a second.
"""

from array import array
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final

from analysis.conversation.call import Outcome
from mcpproxy.tui.data.columns import NONE, OPEN, OUTCOMES
from mcpproxy.tui.data.reading import Reading

MAX_ROWS_PER_STEP: Final = 10_000
"""How many rows are sorted per step: a few milliseconds."""
_ROW_BITS: Final = 21
"""The bits of a row's number: there are at most 1,250,000 rows."""
_ROW_MASK: Final = (1 << _ROW_BITS) - 1
_LAST_KEY: Final = (1 << 64 - _ROW_BITS) - 1
"""The key of rows without a value, which come last.

In nanoseconds, it is more than two hours; longer latencies count as equal.
"""
_RANKS: Final = {
    Outcome.RESULT: 1,
    Outcome.TASK: 2,
    Outcome.INPUT_REQUIRED: 3,
    Outcome.CANCELLED: 4,
    Outcome.NOT_RECORDED: 5,
    Outcome.UNANSWERED: 7,
    Outcome.FAILED: 8,
    Outcome.TOOL_ERROR: 9,
    Outcome.ERROR: 10,
}
_RANK_OF_CODE: Final = [_RANKS[outcome] for outcome in OUTCOMES]
_RANK_OPEN: Final = 6
_UNMATCHED_RANKS: Final = {"response": 8, "error": 9, "invalid": 10}
"""The ranks of frames that belong to no call."""


class RowSorter:
    """Sorts the rows that a view contains when the sorting begins."""

    def __init__(
        self, reading: Reading, view: Sequence[int], column: str, *, is_down: bool, is_exchanges: bool
    ) -> None:
        """Start with nothing sorted.

        Args:
            reading: the capture.
            view: the rows.
            column: one of `ORDERS`.
            is_down: whether the largest value comes first.
            is_exchanges: whether a row is an exchange.
        """
        self.rows = array("I")
        """The sorted rows; complete when the sorting has ended."""
        self.count = len(view)
        """How many rows the view contained."""
        self.has_ended = not self.count
        self._reading, self._view, self._is_descending, self._has_exchanges = reading, view, is_down, is_exchanges
        self._value = {"latency": self._latency, "size": self._size, "status": self._status}.get(column, self._time)
        self._runs: list[array[int]] = []
        self._keyed_count = 0
        self._merged: Iterator[int] | None = None

    @property
    def progress(self) -> float:
        """The progress, from 0 to 1."""
        return (self._keyed_count + len(self.rows)) / max(1, 2 * self.count)

    def step(self) -> bool:
        """Work for a few milliseconds; returns False when done."""
        if self.has_ended:
            return False
        if self._keyed_count < self.count:
            rows = self._view[self._keyed_count : min(self.count, self._keyed_count + MAX_ROWS_PER_STEP)]
            # A filter may have dropped rows since.
            self.count = self.count if rows else self._keyed_count
            self._runs.append(array("Q", sorted(map(self._key, rows))))
            self._keyed_count += len(rows)
            return True
        if self._merged is None:
            self._merged = merge(*self._runs)
        self.rows.extend(key & _ROW_MASK for key in islice(self._merged, MAX_ROWS_PER_STEP))
        self.has_ended = len(self.rows) >= self.count
        return True

    def _key(self, row: int) -> int:
        """Returns the sort key of a row: its value, then its number, so equal values keep the order of the capture."""
        value = self._value(row)
        if value < 0:
            key = _LAST_KEY
        else:
            value = min(value, _LAST_KEY - 1)
            key = _LAST_KEY - 1 - value if self._is_descending else value
        return key << _ROW_BITS | row

    def _time(self, row: int) -> int:
        return row

    def _size(self, row: int) -> int:
        if self._has_exchanges:
            response = self._reading.partner(row)
            return -1 if response is None else self._reading.index.entry(response).size
        return self._reading.index.entry(row).size

    def _latency(self, row: int) -> int:
        """Returns the latency of a response; for a request, how long it waited without a response."""
        number, calls = self._reading.call(row), self._reading.calls
        if number is None:
            return -1
        if calls.response[number] != NONE and (self._has_exchanges or calls.response[number] == row):
            return calls.latency_ns[number]
        waited_ns = self._reading.waited_ns(number) if row == calls.request[number] else None
        return -1 if waited_ns is None else waited_ns

    def _status(self, row: int) -> int:
        number, calls = self._reading.call(row), self._reading.calls
        if number is None:
            return _UNMATCHED_RANKS.get(self._reading.index.kind(row), -1)
        if not self._has_exchanges and calls.request[number] == row and calls.response[number] != NONE:
            return -1 if self._reading.is_answered_in_time(number) else _RANKS[Outcome.CANCELLED]
        code = calls.outcome[number]
        return _RANK_OPEN if code == OPEN else _RANK_OF_CODE[code]
