"""Records on their way into a capture, and the counts of lost records.

A `gap` record reports a loss. On a disk that stays full, that record can itself be lost; then a later gap takes over
its range, so each number belongs to a record or to exactly one gap.
"""

from __future__ import annotations

from captures.record import members
from captures.tuples import NamedTuple
from captures.verdict import C2S, S2C


class PendingRecord(NamedTuple):
    """A record that has no number, stamp or checksum yet."""

    rec: str
    middle: bytes
    dir: str | None = None
    """The direction of the traffic in the record; None if it is not traffic."""
    size: int = 0
    """The number of payload bytes in the record."""
    reported_loss: Loss | None = None
    """For a `gap` record: the loss that it reports, which must be reported again if the gap is lost."""


class NumberedRecord(NamedTuple):
    """A record with number and stamp that is not sealed yet."""

    seq: int
    t_ns: int
    pending: PendingRecord


class Loss:
    """Lost records, counted by direction, over one range of numbers or over a whole session."""

    def __init__(self) -> None:
        self.first_record: NumberedRecord | None = None
        self.last_record: NumberedRecord | None = None
        self.reason = ""
        self.record_count = 0
        self.byte_count = 0
        self._counts_by_direction = {name: [0, 0] for name in (C2S, S2C, None)}

    def add_record(self, line: NumberedRecord, reason: str) -> None:
        """Count a lost record. Older ones may come after newer ones, as at the end of a recording on a full disk."""
        self._extend_range(line, line)
        self.reason = self.reason or reason
        self.record_count += 1
        self.byte_count += line.pending.size
        if line.pending.reported_loss is not None:
            self._take_over(line.pending.reported_loss)
        counts = self._counts_by_direction[line.pending.dir]
        counts[0] += line.pending.rec == "frame" or line.pending.dir is None
        counts[1] += line.pending.size

    @classmethod
    def of_fault(cls, direction: str | None, frames: int, size: int) -> Loss:
        """Returns the loss of frames that were not recorded because of a fault, and so have no numbers."""
        loss = cls()
        loss.reason = "fault"
        loss.record_count, loss.byte_count = frames, size
        loss._counts_by_direction[direction] = [frames, size]
        return loss

    def absorb(self, other: Loss) -> None:
        """Add the counts of another loss, but not its range."""
        self.reason = self.reason or other.reason
        self.record_count += other.record_count
        self.byte_count += other.byte_count
        for name, (records, size) in other._counts_by_direction.items():
            self._counts_by_direction[name][0] += records
            self._counts_by_direction[name][1] += size

    def _extend_range(self, first: NumberedRecord, last: NumberedRecord) -> None:
        if self.first_record is None or first.seq < self.first_record.seq:
            self.first_record = first
        if self.last_record is None or last.seq > self.last_record.seq:
            self.last_record = last

    def _take_over(self, earlier: Loss) -> None:
        """Take over the range of a lost `gap`, which came right after the range that it names."""
        if earlier.first_record is not None and earlier.last_record is not None:
            self._extend_range(earlier.first_record, earlier.last_record)
        self.absorb(earlier)

    def gap_record(self) -> PendingRecord:
        """Returns the `gap` record that reports this loss."""
        (c2s, c2s_bytes), (s2c, s2c_bytes), (other, other_bytes) = self._counts_by_direction.values()
        lost = {
            "c2s": {"frames": c2s, "bytes": c2s_bytes},
            "s2c": {"frames": s2c, "bytes": s2c_bytes},
            "other": {"records": other, "bytes": other_bytes},
        }
        text = members(
            first=None if self.first_record is None else self.first_record.seq,
            last=None if self.last_record is None else self.last_record.seq,
            from_ns=None if self.first_record is None else self.first_record.t_ns,
            to_ns=None if self.last_record is None else self.last_record.t_ns,
            lost=lost,
            reason=self.reason,
        )
        return PendingRecord("gap", text, reported_loss=self)
