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
    loss: Loss | None = None
    """For a `gap` record: the loss that it reports, which must be reported again if the gap is lost."""


class NumberedRecord(NamedTuple):
    """A record with number and stamp that is not sealed yet."""

    seq: int
    t_ns: int
    entry: PendingRecord


class Loss:
    """Lost records, counted by direction, over one range of numbers or over a whole session."""

    def __init__(self) -> None:
        self.first: NumberedRecord | None = None
        self.last: NumberedRecord | None = None
        self.reason = ""
        self.records = 0
        self.bytes = 0
        self._by_dir = {name: [0, 0] for name in (C2S, S2C, None)}

    def add(self, line: NumberedRecord, reason: str) -> None:
        """Count a lost record. Older ones may come after newer ones, as at the end of a recording on a full disk."""
        self._reach(line, line)
        self.reason = self.reason or reason
        self.records += 1
        self.bytes += line.entry.size
        if line.entry.loss is not None:
            self._take_over(line.entry.loss)
        counts = self._by_dir[line.entry.dir]
        counts[0] += line.entry.rec == "frame" or line.entry.dir is None
        counts[1] += line.entry.size

    @classmethod
    def of_fault(cls, direction: str | None, frames: int, size: int) -> Loss:
        """Returns the loss of frames that were not recorded because of a fault, and so have no numbers."""
        loss = cls()
        loss.reason = "fault"
        loss.records, loss.bytes = frames, size
        loss._by_dir[direction] = [frames, size]
        return loss

    def absorb(self, other: Loss) -> None:
        """Add the counts of another loss, but not its range."""
        self.reason = self.reason or other.reason
        self.records += other.records
        self.bytes += other.bytes
        for name, (records, size) in other._by_dir.items():
            self._by_dir[name][0] += records
            self._by_dir[name][1] += size

    def _reach(self, first: NumberedRecord, last: NumberedRecord) -> None:
        if self.first is None or first.seq < self.first.seq:
            self.first = first
        if self.last is None or last.seq > self.last.seq:
            self.last = last

    def _take_over(self, earlier: Loss) -> None:
        """Take over the range of a lost `gap`, which came right after the range that it names."""
        if earlier.first is not None and earlier.last is not None:
            self._reach(earlier.first, earlier.last)
        self.absorb(earlier)

    def entry(self) -> PendingRecord:
        """Returns the `gap` record that reports this loss."""
        (c2s, c2s_bytes), (s2c, s2c_bytes), (other, other_bytes) = self._by_dir.values()
        lost = {
            "c2s": {"frames": c2s, "bytes": c2s_bytes},
            "s2c": {"frames": s2c, "bytes": s2c_bytes},
            "other": {"records": other, "bytes": other_bytes},
        }
        text = members(
            first=None if self.first is None else self.first.seq,
            last=None if self.last is None else self.last.seq,
            from_ns=None if self.first is None else self.first.t_ns,
            to_ns=None if self.last is None else self.last.t_ns,
            lost=lost,
            reason=self.reason,
        )
        return PendingRecord("gap", text, loss=self)
