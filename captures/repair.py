"""A clean copy of everything whole in a damaged capture.

Whole records are copied line by line, unchanged, numbers and all. Each range of lost numbers is told by a `gap` with
the reason `damage`, which takes the last of them; so a repaired copy accounts for every number, and says where the
original did not.
"""

from dataclasses import dataclass
from pathlib import Path

from captures.file import CaptureFile
from captures.places import safe_name
from captures.reader import Capture, Damage
from captures.record import Record, members, seal
from captures.versions import FORMAT_VERSION

BATCH = 1 << 20


@dataclass
class Repair:
    """What a repair did."""

    records: int = 0
    """Whole records copied."""
    gaps: int = 0
    """Ranges of numbers that were lost."""
    dropped_bytes: int = 0
    """Bytes that were no record."""


def repair(capture: Capture, output: Path) -> Repair:
    """Copy what is whole to a new capture.

    Raises:
        CannotCreate: the copy cannot be created; nothing that exists is overwritten.
        OSError: the copy cannot be written.
    """
    done = Repair()
    copy = CaptureFile(output)
    try:
        batch: list[bytes] = []
        size = expected = 0
        for item in capture:
            if isinstance(item, Damage):
                done.dropped_bytes += item.size
                continue
            lines = [*_before(item, expected, done, capture), item.line + b"\n"]
            expected = item.seq + 1
            batch += lines
            size += sum(map(len, lines))
            done.records += 1
            if size >= BATCH:
                copy.append(b"".join(batch))
                batch, size = [], 0
        copy.append(b"".join(batch))
    finally:
        copy.close()
    return done


def _before(record: Record, expected: int, done: Repair, capture: Capture) -> list[bytes]:
    """What must stand in front of a record: a header where the first one is lost, and a gap for lost numbers."""
    if expected == 0 and record.rec == "header":
        return []
    lines = []
    if expected == 0:
        lines.append(seal(0, 0, "header", members(format=FORMAT_VERSION, name=safe_name(capture.path.parent.name))))
        expected = 1
    first = record.members.get("first") if record.rec == "gap" else None
    lost_to = (first if type(first) is int else record.seq) - 1
    if lost_to >= expected:
        span = {"first": expected, "last": lost_to - 1} if lost_to > expected else {}
        lines.append(seal(lost_to, record.t_ns, "gap", members(**span, reason="damage")))
        done.gaps += 1
    return lines
