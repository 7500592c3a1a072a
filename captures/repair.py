"""Copies all whole records of a damaged capture into a new one.

The records are copied line by line, unchanged, including their numbers. A `gap_record` with the reason `damage` reports
each range of lost numbers, and gets the last of these numbers. So a repaired copy accounts for every number, and shows
where the original did not. `WholeRecords` decides which records a copy keeps, for redacted copies as well.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.damage import Damage
from captures.integrity import Inspection, inspect
from captures.paths import safe_name
from captures.publication import new_capture
from captures.reader import Capture
from captures.record import Record, members, seal
from captures.versions import FORMAT_VERSION

BATCH_BYTES = 1 << 20


@dataclass
class RepairResult:
    """The result of a repair."""

    record_count: int = 0
    """How many whole records were copied."""
    gap_count: int = 0
    """How many ranges of numbers were lost."""
    dropped_bytes: int = 0
    """How many bytes were not part of a record."""
    dropped_records: int = 0
    """How many records were out of order: in duplicate blocks, or in blocks of another capture."""


class WholeRecords:
    """The records of a capture in order, with a gap for each range of numbers that nothing accounts for."""

    def __init__(self, capture: Capture, inspection: Inspection, name: str | None = None) -> None:
        """Create an iterable that has read nothing yet.

        Args:
            capture: the capture.
            inspection: the inspection of the capture, which contains the ranges.
            name: the server's name, for a header that replaces a lost one.
        """
        self._capture, self._holes, self._name = capture, deque(inspection.holes), name
        self.gap_count = 0
        """How many gaps so far are not in the capture."""
        self.dropped_count = 0
        """How many records so far are out of order."""

    def __iter__(self) -> Iterator[Record]:
        """Yield the records. Gaps and a substitute header have an empty `line`."""
        last_seq, holes = -1, self._holes
        for record in self._capture:
            if isinstance(record, Damage):
                continue
            if record.seq <= last_seq:
                self.dropped_count += 1
                continue
            if last_seq < 0 and record.rec != "header" and holes and holes[0][0] == 0:
                # A file must begin with a header, and the number of the lost header is free.
                name_member = {} if self._name is None else {"name": self._name}
                yield Record(
                    0, "header", 0, {"rec": "header", "format": FORMAT_VERSION, **name_member, "substitute": True}
                )
                self.gap_count += 1
                _, last = holes.popleft()
                if last:
                    holes.appendleft((1, last))
            while holes and holes[0][1] < record.seq:
                self.gap_count += 1
                yield gap_record(*holes.popleft(), record.t_ns, "damage")
            last_seq = record.seq
            yield record._replace(skipped=0) if record.skipped else record


def gap_record(first: int, last: int, t_ns: int, reason: str, **other_members: Any) -> Record:
    """Returns a gap with the number of the last record that it replaces."""
    range_members = {"first": first, "last": last - 1} if last > first else {}
    return Record(last, "gap", t_ns, {"rec": "gap", **range_members, **other_members, "reason": reason})


def repair(capture: Capture, output: Path) -> RepairResult:
    """Copy all whole records to a new capture; if that fails, no partial copy is left.

    Raises:
        CannotCreate: the copy cannot be created or written; nothing that exists is overwritten.
    """
    inspection = inspect(capture)
    whole = WholeRecords(capture, inspection, safe_name(capture.path.parent.name))
    records = 0
    with new_capture(output) as copy:
        batch: list[bytes] = []
        size = 0
        for record in whole:
            line = record.line + b"\n" if record.line else _sealed_line(record)
            records += bool(record.line)
            batch.append(line)
            size += len(line)
            if size >= BATCH_BYTES:
                copy.append(b"".join(batch))
                batch, size = [], 0
        copy.append(b"".join(batch))
    return RepairResult(records, whole.gap_count, inspection.damaged_bytes, whole.dropped_count)


def _sealed_line(record: Record) -> bytes:
    """Returns the line of a record that is not in the original."""
    values = {name: value for name, value in record.members.items() if name != "rec"}
    return seal(record.seq, record.t_ns, record.rec, members(**values))
