"""A clean copy of everything whole in a damaged capture.

Whole records are copied line by line, unchanged, numbers and all. Each range of lost numbers is told by a `gap` with
the reason `damage`, which takes the last of them; so a repaired copy accounts for every number, and says where the
original did not.
"""

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from captures.file import CaptureFile
from captures.integrity import inspect
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
    found = inspect(capture)
    holes = deque(found.holes)
    done = Repair(gaps=len(holes), dropped_bytes=found.damaged_bytes)
    copy = CaptureFile(output)
    try:
        batch, size = [], 0
        for item in capture:
            if isinstance(item, Damage):
                continue
            lines = [*_before(item, holes, capture, is_first=not done.records), item.line + b"\n"]
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


def _before(record: Record, holes: deque[tuple[int, int]], capture: Capture, *, is_first: bool) -> list[bytes]:
    """What must stand in front of a record: a header where the first one is lost, and a gap for lost numbers."""
    lines = []
    if is_first and record.rec != "header" and holes and holes[0][0] == 0:
        _, last = holes.popleft()
        if last > 0:
            holes.appendleft((1, last))
        name = safe_name(capture.path.parent.name)
        lines.append(seal(0, 0, "header", members(format=FORMAT_VERSION, name=name)))
    while holes and holes[0][1] < record.seq:
        first, last = holes.popleft()
        span = {"first": first, "last": last - 1} if last > first else {}
        lines.append(seal(last, record.t_ns, "gap", members(**span, reason="damage")))
    return lines
