"""Fills the columns of a capture in the worker, and tracks which of their cells have changed.

New cells at the end of a column are recognised by its length; earlier cells are sent again if they have changed.
"""

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final

from captures.numbers import NumberList
from mcpproxy.tui.data.call_kinds import CallKinds
from mcpproxy.tui.data.columns import (
    CALLS,
    CHANGED_ROWS,
    JOINED_WORDS,
    LEGS,
    LOGINS,
    MAX_BATCH_BYTES,
    MAX_CELLS_PER_PART,
    MAX_SPANNING_MESSAGES,
    NONE,
    ROW_CELLS,
    SESSION_STARTS,
    SETTLED_CALLS,
    UNUSUAL,
    UNUSUAL_WORDS,
    USUAL_TIMES,
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
        self.seqs = NumberList()
        """By row: the number of its record."""
        self.unjoined_count = 0
        """The number of messages that span lines, but are shown as separate lines."""
        self._unusual_counts: dict[int, int] = {}
        """How many unusual messages each row of this batch has."""
        self._sent = dict.fromkeys(
            (CALLS, SETTLED_CALLS, SESSION_STARTS, LOGINS, LEGS, ROW_CELLS, CHANGED_ROWS, USUAL_TIMES), 0
        )
        self._changed_calls: set[int] = set()
        self._changed_logins: set[int] = set()
        self._changed_rows: set[int] = set()
        self._changed_usual_times: set[int] = set()
        self._unusual_words: list[int] = []
        self._joined_words: list[int] = []

    @property
    def first_unsent_kind(self) -> int:
        """The number of the first kind of request that has not been sent."""
        return self._sent[USUAL_TIMES]

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

    def add_mark(self, row: int, mark: int) -> None:
        """Add a mark to a row."""
        self.columns.marks[row] |= mark
        if row < self._sent[ROW_CELLS]:
            self._changed_rows.add(row)

    def remove_mark(self, row: int, mark: int) -> None:
        """Remove a mark from a row."""
        self.columns.marks[row] &= ~mark
        if row < self._sent[ROW_CELLS]:
            self._changed_rows.add(row)

    def note_row_change(self, row: int) -> None:
        """Record that more is known about an earlier row."""
        if row < self._sent[ROW_CELLS]:
            self._changed_rows.add(row)
            self.columns.changed_rows.append(row)

    def note_call_change(self, number: int) -> None:
        """Record that more is known about a call."""
        if number < self._sent[CALLS]:
            self._changed_calls.add(number)

    def note_login_change(self, position: int) -> None:
        """Record that more is known about a login, given its position among all logins."""
        if position < self._sent[LOGINS]:
            self._changed_logins.add(position)

    def set_usual(self, kind: int, ns: int) -> None:
        """Set the time within which 95 of 100 responses to a kind of request came."""
        self.columns.usual_ns[kind] = ns
        if kind < self._sent[USUAL_TIMES]:
            self._changed_usual_times.add(kind)

    def add_unusual(self, row: int, unusual: UnusualMessage) -> None:
        """Add a message that its row alone does not show, for filters."""
        position = self._unusual_counts.get(row, 0)
        if len(self.columns._unusual_words) >= MAX_UNUSUAL_MESSAGES:
            return
        self._unusual_counts[row] = position + 1
        self._unusual_words.append(self.columns.add_unusual(row, position, unusual))
        self.add_mark(row, UNUSUAL)
        if row < len(self.columns.call_of) - 1:
            self.note_row_change(row)

    def join_rows(self, first: int, last: int, *, is_counted: bool) -> bool:
        """Record that a range of rows is one message; returns whether there was room for it.

        Args:
            first: its first row.
            last: its last row.
            is_counted: whether to count the message if there was no room; False if another message of the same lines
                has been counted.
        """
        if len(self.columns._joined_words) >= MAX_SPANNING_MESSAGES:
            self.unjoined_count += is_counted
            return False
        word = self.columns.add_joined(first, last)
        if not self._joined_words or self._joined_words[-1] != word:
            self._joined_words.append(word)
        return True

    # ---- sending

    def take_batches(self) -> Iterator[bytes]:
        """Yields everything that has changed since the last call, as the parts of batches of limited size."""
        parts, size = list[bytes](), 0
        for part in self._take_parts():
            if size + len(part) > MAX_BATCH_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
            parts.append(part)
            size += len(part)
        if parts:
            yield b"".join(parts)

    def _take_parts(self) -> Iterator[bytes]:
        columns = self.columns
        yield from self._take_changes(USUAL_TIMES, self._changed_usual_times, len(columns.usual_ns))
        yield from self._take_changes(CALLS, self._changed_calls, len(columns.calls))
        yield from self._take_changes(SETTLED_CALLS, (), len(columns.calls.settled))
        yield from self._take_changes(SESSION_STARTS, (), len(columns.session_start_rows))
        for group, words in ((UNUSUAL_WORDS, self._unusual_words), (JOINED_WORDS, self._joined_words)):
            for first in range(0, len(words), MAX_CELLS_PER_PART):
                yield word_part(group, words[first : first + MAX_CELLS_PER_PART])
        yield from self._take_changes(LOGINS, self._changed_logins, len(columns.logins))
        yield from self._take_changes(LEGS, (), len(columns.logins.leg_login))
        yield from self._take_changes(ROW_CELLS, self._changed_rows, len(columns.call_of))
        yield from self._take_changes(CHANGED_ROWS, (), len(columns.changed_rows))
        for changes in (
            self._changed_usual_times,
            self._changed_calls,
            self._changed_logins,
            self._unusual_words,
            self._joined_words,
            self._changed_rows,
            self._unusual_counts,
        ):
            changes.clear()

    def _take_changes(self, group: int, changed_places: Collection[int], length: int) -> Iterator[bytes]:
        """Yields the changed cells of a group, and its new cells."""
        for first, last in runs(chain(sorted(changed_places), range(self._sent[group], length))):
            yield self.columns.part(group, first, last)
        self._sent[group] = length
