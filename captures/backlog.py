"""Numbered records that are not in the file yet, and their copy in the journal.

Promise: between two changes, each numbered record that is not in the file is in exactly one of `direct`, `taken`,
`carry` and `queue`. The writer changes them, and calls these functions, under its order lock; only records that a
single thread is writing at the time (`direct`, `taken`) may be emptied without the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from captures.loss import NumberedRecord, PendingRecord
from captures.record import seal, seal_all
from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from captures.journal import Journal

ENTRY_BYTES: Final = 400
"""Memory for the objects of one waiting record, excluding its bytes."""
SEAL_BYTES: Final = 100
"""The most that number, stamp, type and checksum add to a record, in bytes."""
SPARE_BYTES: Final = 64 << 10
"""Room in the journal that frames leave for the records that report losses and the end."""
SLICE_BYTES: Final = 1 << 20


class DirectBatch(NamedTuple):
    """Records of one type that are being written past the queue, without an object for each."""

    first: int
    t_ns: int
    rec: str
    middles: Sequence[bytes]


class Backlog:
    """Records that wait for the disk; see the module docstring."""

    def __init__(self, room: int, journal: Journal | None) -> None:
        """Create an empty backlog.

        Args:
            room: how many bytes may wait.
            journal: where a copy outlives this process; None if no other process would read it.
        """
        self.direct: DirectBatch | None = None
        """Records that a thread is writing past the queue."""
        self.taken: Sequence[NumberedRecord] = ()
        """Records that a thread has taken from the queue and is writing."""
        self.carry: list[NumberedRecord] = []
        """Records left over from a refused write."""
        self.queue: list[NumberedRecord] = []
        self.held_bytes = 0
        """Memory counted by `reserve` and `put_back`."""
        self._room = room
        self._journal = journal

    @property
    def waits(self) -> bool:
        """Whether any record is waiting that no thread is writing."""
        return bool(self.queue or self.carry)

    @property
    def survives_process(self) -> bool:
        """Whether waiting records will still be written if this process dies."""
        return self._journal is not None

    def has_room(self, entries: Sequence[PendingRecord]) -> bool:
        """Whether there is room for more entries."""
        if self.held_bytes + sum(map(_cost, entries)) > self._room:
            return False
        if self._journal is None:
            return True
        return sum([len(entry.middle) + SEAL_BYTES for entry in entries]) + SPARE_BYTES <= self._journal.room

    def reserve(self, entries: Sequence[PendingRecord]) -> None:
        """Count the memory that the entries take."""
        self.held_bytes += sum(map(_cost, entries))

    def take_all(self) -> tuple[list[NumberedRecord], int]:
        """Take all waiting records, to be written now; returns them and the bytes of memory that they still hold."""
        self.taken = lines = self.carry + self.queue if self.carry else self.queue
        self.carry, self.queue = [], []
        return lines, self.held_bytes

    def put_back(self, rest: list[NumberedRecord]) -> None:
        """Put records back after a refused write: they wait again, before all others."""
        self.direct, self.taken, self.carry = None, (), rest
        self.held_bytes += sum(_cost(line.entry) for line in rest)

    def retry(self) -> None:
        """Let the thread whose write was refused try again by itself."""
        self.held_bytes -= sum(_cost(line.entry) for line in self.carry)
        self.carry = []

    def drop(self) -> None:
        """Drop all waiting records, which have been counted as lost."""
        self.carry, self.queue = [], []
        self.clear_journal()

    # ---- the copy

    def copy_to_journal(self, lines: Sequence[NumberedRecord], next_seq: int) -> None:
        """Copy lines into the journal.

        Args:
            lines: numbered records, in order.
            next_seq: the number that the next record will get.
        """
        if self._journal is None:
            return
        if lines:
            sealed = [seal(line.seq, line.t_ns, line.entry.rec, line.entry.middle) for line in lines]
            self._journal.put(b"".join(sealed), lines[-1].seq)
        self._journal.next_seq = next_seq

    def copy_all_to_journal(self, next_seq: int) -> None:
        """Copy every record that may not be in the file yet."""
        if self._journal is None:
            return
        # The thread that writes them may finish at any time; their copies are then freed with that of the next record.
        direct = self.direct
        if direct is not None:
            self._journal.put(seal_direct(direct), direct.first + len(direct.middles) - 1)
        self.copy_to_journal([*self.taken, *self.carry, *self.queue], next_seq)

    def free(self, written_seq: int) -> None:
        """Free the copies of records up to this number, which are in the file."""
        if self._journal is not None:
            self._journal.free(written_seq)

    def clear_journal(self) -> None:
        """Empty the journal."""
        if self._journal is not None:
            self._journal.clear()


def seal_direct(direct: DirectBatch) -> bytes:
    """The lines of these records."""
    first, t_ns, rec, middles = direct
    return seal(first, t_ns, rec, middles[0]) if len(middles) == 1 else seal_all(first, t_ns, rec, middles)


def expand(direct: DirectBatch, direction: str, sizes: Iterable[int]) -> list[NumberedRecord]:
    """The same records, each as a separate line.

    Args:
        direct: frames.
        direction: the direction of all of them.
        sizes: the size of each, in bytes.
    """
    first, t_ns, rec, middles = direct
    entries = [PendingRecord(rec, middle, direction, size) for middle, size in zip(middles, sizes, strict=True)]
    return [NumberedRecord(seq, t_ns, entry) for seq, entry in enumerate(entries, first)]


def _cost(entry: PendingRecord) -> int:
    """The memory that a record takes while it waits, in bytes."""
    return len(entry.middle) + ENTRY_BYTES


def seal_slice(lines: list[NumberedRecord], start: int) -> list[bytes]:
    """The next lines, sealed: only as many as one write should take, because tens of MiB may be waiting."""
    sealed: list[bytes] = []
    size = 0
    while start < len(lines) and (not sealed or size < SLICE_BYTES):
        line = lines[start]
        sealed.append(seal(line.seq, line.t_ns, line.entry.rec, line.entry.middle))
        size += len(sealed[-1])
        start += 1
    return sealed


def count_whole(lines: Sequence[bytes], written: int) -> int:
    """How many of the lines are among the first `written` bytes."""
    count = 0
    while written > 0:
        written -= len(lines[count])
        count += 1
    return count
