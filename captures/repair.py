"""Copies everything whole in a damaged capture into a clean one.

Whole records are copied line by line, unchanged, including their numbers. A `gap` with the reason `damage` reports each
range of lost numbers and takes the last of them; so a repaired copy accounts for every number, and shows where the
original did not.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from captures.damage import Damage
from captures.integrity import inspect
from captures.places import safe_name
from captures.publication import new_capture
from captures.reader import Capture
from captures.record import members, seal
from captures.versions import FORMAT_VERSION

BATCH = 1 << 20


@dataclass
class Repair:
    """The result of a repair."""

    records: int = 0
    """Whole records copied."""
    gaps: int = 0
    """Ranges of lost numbers."""
    dropped_bytes: int = 0
    """Bytes that were not a record."""
    dropped_records: int = 0
    """Records out of order: duplicate blocks, or blocks of another capture."""


def repair(capture: Capture, output: Path) -> Repair:
    """Copy every whole record to a new capture; if that fails, no partial copy is left.

    Raises:
        CannotCreate: the copy cannot be created or written; nothing that exists is overwritten.
    """
    inspection = inspect(capture)
    done = Repair(dropped_bytes=inspection.damaged_bytes)
    with new_capture(output) as copy:
        batch: list[bytes] = []
        size = 0
        for line in _copied(capture, deque(inspection.holes), done):
            batch.append(line)
            size += len(line)
            if size >= BATCH:
                copy.append(b"".join(batch))
                batch, size = [], 0
        copy.append(b"".join(batch))
    return done


def _copied(capture: Capture, holes: deque[tuple[int, int]], done: Repair) -> Iterator[bytes]:
    last_seq = -1
    for record in capture:
        if isinstance(record, Damage):
            continue
        if record.seq <= last_seq:
            done.dropped_records += 1
            continue
        if last_seq < 0 and record.rec != "header" and holes and holes[0][0] == 0:
            # A file begins with a header, and the number of the lost header is free.
            name = safe_name(capture.path.parent.name)
            yield seal(0, 0, "header", members(format=FORMAT_VERSION, name=name, substitute=True))
            done.gaps += 1
            _, last = holes.popleft()
            if last:
                holes.appendleft((1, last))
        while holes and holes[0][1] < record.seq:
            done.gaps += 1
            yield _gap(*holes.popleft(), record.t_ns)
        last_seq = record.seq
        done.records += 1
        yield record.line + b"\n"


def _gap(first: int, last: int, t_ns: int) -> bytes:
    span = {"first": first, "last": last - 1} if last > first else {}
    return seal(last, t_ns, "gap", members(**span, reason="damage"))
