"""Fills the columns of a capture in the worker, and knows which of their cells have changed.

New cells at the end of a column are recognised by its length; earlier cells are sent again if they have changed.
"""

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final

from captures.numbers import Numbers
from mcpproxy.tui.data.call_kinds import CallKinds
from mcpproxy.tui.data.columns import (
    AT_ONCE,
    BEGUN,
    CALLS,
    CHANGED,
    JOINED,
    MAX_BATCH_BYTES,
    NONE,
    OF_ROWS,
    SETTLED,
    SPANNING,
    UNUSUAL,
    UNUSUAL_WORDS,
    USUAL,
    Columns,
    UnusualMessage,
    runs,
    word_part,
)
from mcpproxy.tui.data.notes import Notes

MAX_UNUSUAL_MESSAGES: Final = 1_000_000
"""Unusual messages that are remembered; a filter treats the others as ordinary."""


class ColumnFiller:
    """The columns of one capture, and what else is reported of its rows and calls."""

    def __init__(self) -> None:
        """Start without rows."""
        self.columns = Columns()
        self.kinds = CallKinds()
        self.notes = Notes()
        self.seqs = Numbers()
        """By row: the number of its record."""
        self.unjoined = 0
        """Messages that span lines, but are shown as separate lines."""
        self._places: dict[int, int] = {}
        """How many unusual messages each row of this batch has."""
        self._sent = dict.fromkeys((CALLS, SETTLED, BEGUN, OF_ROWS, CHANGED, USUAL), 0)
        self._calls: set[int] = set()
        self._rows: set[int] = set()
        self._usual: set[int] = set()
        self._unusual: list[int] = []
        self._joined: list[int] = []

    @property
    def new_kinds(self) -> int:
        """The first kind of requests that was not sent."""
        return self._sent[USUAL]

    def add_row(self, seq: int) -> None:
        """Add an empty row.

        Args:
            seq: the number of its record.
        """
        self.seqs.append(seq)
        self.columns.sessions.append(0)
        self.columns.marks.append(0)
        self.columns.call_of.append(NONE)

    def row_of(self, seq: int, row: int) -> int:
        """The row of a record that is at or before a given row; NONE as the given row means the last one."""
        seqs = self.seqs
        if not seqs or seqs.last == seq:
            return row if row != NONE else len(seqs) - 1
        at = seqs.position_of(seq)
        return row if at is None else at

    # ---- changes

    def mark(self, row: int, mark: int) -> None:
        """Add a mark to a row."""
        self.columns.marks[row] |= mark
        if row < self._sent[OF_ROWS]:
            self._rows.add(row)

    def change_row(self, row: int) -> None:
        """Record that more is known about an earlier row."""
        if row < self._sent[OF_ROWS]:
            self._rows.add(row)
            self.columns.changed_rows.append(row)

    def change_call(self, number: int) -> None:
        """Record that more is known about a call."""
        if number < self._sent[CALLS]:
            self._calls.add(number)

    def set_usual(self, kind: int, ns: int) -> None:
        """Set the time within which 95 of 100 responses to a kind of request came."""
        self.columns.usual_ns[kind] = ns
        if kind < self._sent[USUAL]:
            self._usual.add(kind)

    def add_unusual(self, row: int, unusual: UnusualMessage) -> None:
        """Add a message that its row alone does not show, for filters."""
        place = self._places.get(row, 0)
        if len(self.columns._unusual) >= MAX_UNUSUAL_MESSAGES:
            return
        self._places[row] = place + 1
        self._unusual.append(self.columns.add_unusual(row, place, unusual))
        self.mark(row, UNUSUAL)
        if row < len(self.columns.call_of) - 1:
            self.change_row(row)

    def join(self, first: int, last: int, *, is_counted: bool) -> bool:
        """Record that the rows from one to another are one message; returns whether there was room for that.

        Args:
            first: its first row.
            last: its last row.
            is_counted: whether to count it if there was no room: others of the same lines are counted already.
        """
        if len(self.columns._joined) >= SPANNING:
            self.unjoined += is_counted
            return False
        word = self.columns.join(first, last)
        if not self._joined or self._joined[-1] != word:
            self._joined.append(word)
        return True

    # ---- what has changed

    def batches(self) -> Iterator[bytes]:
        """What has changed since the last time, as parts of batches that are not too large."""
        parts, size = list[bytes](), 0
        for part in self._parts():
            if size + len(part) > MAX_BATCH_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
            parts.append(part)
            size += len(part)
        if parts:
            yield b"".join(parts)

    def _parts(self) -> Iterator[bytes]:
        columns = self.columns
        yield from self._changed(USUAL, self._usual, len(columns.usual_ns))
        yield from self._changed(CALLS, self._calls, len(columns.calls))
        yield from self._changed(SETTLED, (), len(columns.calls.settled))
        yield from self._changed(BEGUN, (), len(columns.begun))
        for group, words in ((UNUSUAL_WORDS, self._unusual), (JOINED, self._joined)):
            for first in range(0, len(words), AT_ONCE):
                yield word_part(group, words[first : first + AT_ONCE])
        yield from self._changed(OF_ROWS, self._rows, len(columns.call_of))
        yield from self._changed(CHANGED, (), len(columns.changed_rows))
        for changed in (self._usual, self._calls, self._unusual, self._joined, self._rows, self._places):
            changed.clear()

    def _changed(self, group: int, earlier: Collection[int], length: int) -> Iterator[bytes]:
        """The cells of a group that have changed, and those that are new."""
        for first, last in runs(chain(sorted(earlier), range(self._sent[group], length))):
            yield self.columns.part(group, first, last)
        self._sent[group] = length
