"""Fills the columns of a capture in the worker, and tracks which of their cells have changed.

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
"""How many unusual messages are remembered; a filter treats the others as ordinary."""


class ColumnFiller:
    """The columns of one capture, and everything else that is reported about its rows and calls."""

    def __init__(self) -> None:
        """Start without rows."""
        self.columns = Columns()
        self.kinds = CallKinds()
        self.notes = Notes()
        self.seqs = Numbers()
        """By row: the number of its record."""
        self.unjoined = 0
        """The number of messages that span lines, but are shown as separate lines."""
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
        """The number of the first kind of request that has not been sent."""
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
        """Returns the row of a record that is in `row` or above it; `NONE` means the last row.

        Returns `row` itself if the record has no row.
        """
        seqs = self.seqs
        if not seqs or seqs.last == seq:
            return row if row != NONE else len(seqs) - 1
        known_row = seqs.position_of(seq)
        return row if known_row is None else known_row

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
        position = self._places.get(row, 0)
        if len(self.columns._unusual) >= MAX_UNUSUAL_MESSAGES:
            return
        self._places[row] = position + 1
        self._unusual.append(self.columns.add_unusual(row, position, unusual))
        self.mark(row, UNUSUAL)
        if row < len(self.columns.call_of) - 1:
            self.change_row(row)

    def join(self, first: int, last: int, *, is_counted: bool) -> bool:
        """Record that a range of rows is one message; returns whether there was room for it.

        Args:
            first: its first row.
            last: its last row.
            is_counted: whether to count the message if there was no room; False if another message of the same lines
                has been counted.
        """
        if len(self.columns._joined) >= SPANNING:
            self.unjoined += is_counted
            return False
        word = self.columns.join(first, last)
        if not self._joined or self._joined[-1] != word:
            self._joined.append(word)
        return True

    # ---- sending

    def batches(self) -> Iterator[bytes]:
        """Yields everything that has changed since the last call, as the parts of batches of limited size."""
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
        for changes in (self._usual, self._calls, self._unusual, self._joined, self._rows, self._places):
            changes.clear()

    def _changed(self, group: int, changed_places: Collection[int], length: int) -> Iterator[bytes]:
        """Yields the changed cells of a group, and its new cells."""
        for first, last in runs(chain(sorted(changed_places), range(self._sent[group], length))):
            yield self.columns.part(group, first, last)
        self._sent[group] = length
