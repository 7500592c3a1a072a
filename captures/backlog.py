"""Keeps numbered records that are not in the file yet, and their copy in the journal.

Promise: between two changes, each numbered record that is not in the file is in exactly one of `direct_batch`,
`taken_records`, `carried_records` and `queued_records`. The writer changes them, and calls these functions, under its
order lock; only records that a single thread is writing at the time (`direct_batch`, `taken_records`) may be emptied
without the lock.
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

RECORD_OVERHEAD_BYTES: Final = 400
"""The memory that the objects of one waiting record take, in addition to its bytes."""
MAX_SEAL_BYTES: Final = 100
"""The most bytes that number, stamp, type and checksum add to a record."""
SPARE_BYTES: Final = 64 << 10
"""The room in the journal that frames leave for the records that report losses and the end."""
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
            room: the most bytes that may wait.
            journal: the journal, whose copy outlives this process; None if no other process would read it.
        """
        self.direct_batch: DirectBatch | None = None
        """Records that a thread is writing past the queue."""
        self.taken_records: Sequence[NumberedRecord] = ()
        """Records that a thread has taken from the queue and is writing."""
        self.carried_records: list[NumberedRecord] = []
        """Records left over from a refused write."""
        self.queued_records: list[NumberedRecord] = []
        self.held_bytes = 0
        """The memory counted by `reserve` and `put_back`."""
        self._room = room
        self._journal = journal

    @property
    def has_waiting(self) -> bool:
        """Whether any record waits that no thread is writing."""
        return bool(self.queued_records or self.carried_records)

    @property
    def survives_process(self) -> bool:
        """Whether waiting records will still be written if this process dies."""
        return self._journal is not None

    def has_room(self, entries: Sequence[PendingRecord]) -> bool:
        """Whether there is room for these entries."""
        if self.held_bytes + sum(map(_memory_of, entries)) > self._room:
            return False
        if self._journal is None:
            return True
        return sum([len(entry.middle) + MAX_SEAL_BYTES for entry in entries]) + SPARE_BYTES <= self._journal.free_bytes

    def reserve(self, entries: Sequence[PendingRecord]) -> None:
        """Count the memory of the entries."""
        self.held_bytes += sum(map(_memory_of, entries))

    def take_all(self) -> tuple[list[NumberedRecord], int]:
        """Remove all waiting records, which the caller now writes; return them and the memory counted for them."""
        self.taken_records = records = (
            self.carried_records + self.queued_records if self.carried_records else self.queued_records
        )
        self.carried_records, self.queued_records = [], []
        return records, self.held_bytes

    def put_back(self, records: list[NumberedRecord]) -> None:
        """Put records back after a refused write: they wait again, ahead of all others."""
        self.direct_batch, self.taken_records, self.carried_records = None, (), records
        self.held_bytes += sum(_memory_of(record.pending) for record in records)

    def retry(self) -> None:
        """Forget the records of a refused write, which the thread that wrote them retries by itself."""
        self.held_bytes -= sum(_memory_of(record.pending) for record in self.carried_records)
        self.carried_records = []

    def drop_all(self) -> None:
        """Drop all waiting records, which have been counted as lost."""
        self.carried_records, self.queued_records = [], []
        self.clear_journal()

    # ---- the copy

    def copy_to_journal(self, records: Sequence[NumberedRecord], next_seq: int) -> None:
        """Copy records into the journal.

        Args:
            records: the numbered records, in order.
            next_seq: the number that the next record will get.
        """
        if self._journal is None:
            return
        if records:
            lines = [seal(record.seq, record.t_ns, record.pending.rec, record.pending.middle) for record in records]
            self._journal.store(b"".join(lines), records[-1].seq)
        self._journal.next_seq = next_seq

    def copy_all_to_journal(self, next_seq: int) -> None:
        """Copy every record that may not be in the file yet."""
        if self._journal is None:
            return
        # The thread that writes them may finish at any time; then their copies are freed with the copy of the next
        # record.
        batch = self.direct_batch
        if batch is not None:
            self._journal.store(seal_direct(batch), batch.first + len(batch.middles) - 1)
        self.copy_to_journal([*self.taken_records, *self.carried_records, *self.queued_records], next_seq)

    def free_copies(self, written_seq: int) -> None:
        """Free the copies of the records up to this number, which are in the file."""
        if self._journal is not None:
            self._journal.free(written_seq)

    def clear_journal(self) -> None:
        """Empty the journal."""
        if self._journal is not None:
            self._journal.clear()


def seal_direct(batch: DirectBatch) -> bytes:
    """Returns the sealed lines of a direct batch."""
    first, t_ns, rec, middles = batch
    return seal(first, t_ns, rec, middles[0]) if len(middles) == 1 else seal_all(first, t_ns, rec, middles)


def expand_direct(batch: DirectBatch, direction: str, sizes: Iterable[int]) -> list[NumberedRecord]:
    """Returns the records of a direct batch as separate numbered records.

    Args:
        batch: a batch of frames.
        direction: the direction of all of them.
        sizes: the size of each frame, in bytes.
    """
    first, t_ns, rec, middles = batch
    entries = [PendingRecord(rec, middle, direction, size) for middle, size in zip(middles, sizes, strict=True)]
    return [NumberedRecord(seq, t_ns, entry) for seq, entry in enumerate(entries, first)]


def _memory_of(entry: PendingRecord) -> int:
    """Returns the memory that a record takes while it waits, in bytes."""
    return len(entry.middle) + RECORD_OVERHEAD_BYTES


def seal_slice(records: list[NumberedRecord], start: int) -> list[bytes]:
    """Returns the next lines, sealed, but only as many as one write should take: tens of MiB may be waiting."""
    lines: list[bytes] = []
    size = 0
    while start < len(records) and (not lines or size < SLICE_BYTES):
        record = records[start]
        lines.append(seal(record.seq, record.t_ns, record.pending.rec, record.pending.middle))
        size += len(lines[-1])
        start += 1
    return lines


def count_whole(lines: Sequence[bytes], written: int) -> int:
    """Returns how many of the lines are completely within the first `written` bytes."""
    count = 0
    while written > 0:
        written -= len(lines[count])
        count += 1
    return count
