"""Sites: where each record of a capture stands, so that a finding can show it and name it as file and line.

Learnt while the capture is read, from number, offset and line feeds; some 34 bytes a record. The record itself is read
again from the file when it is wanted, and must then be the one that was asked for.
"""

from array import array
from bisect import bisect_left
from pathlib import Path
from typing import Any, Final

import orjson

from captures.errors import CaptureError
from captures.listing import segment_number, segments
from captures.reader import CHUNK, Damage, open_capture
from captures.record import MAX_LINE, Record, decode, raw_bytes
from mcpproxy.report.found import Place

_HOLDING: Final = frozenset({"frame", "stderr"})
"""Records that hold what crossed."""


class Sites:
    """The places of the records of one capture."""

    def __init__(self, path: Path) -> None:
        """`path`: as the capture was named."""
        self._files = segments(path)
        self._at = -1
        self._offset = -1
        self._line = 0
        self._seqs, self._offsets, self._lines = array("Q"), array("Q"), array("Q")
        self._sizes, self._places = array("L"), array("H")

    def note(self, item: Record | Damage) -> None:
        """The next item of the capture, in the order in which they are read."""
        if isinstance(item, Damage):
            self._turn_to(item.path)
            self._line += _line_feeds(item)
            self._offset = item.offset
            return
        if item.offset <= self._offset or self._at < 0:
            self._turn_to(self._file_of(item))
        self._offset = item.offset
        self._line += 1
        if (not self._seqs or item.seq > self._seqs[-1]) and 0 <= self._at < 1 << 16 and item.seq < 1 << 64:
            self._seqs.append(item.seq)
            self._offsets.append(item.offset)
            self._lines.append(self._line)
            self._sizes.append(len(item.line))
            self._places.append(self._at)

    def place(self, seq: int) -> Place | None:
        """Where a record stands; None where that is not known for certain."""
        at = bisect_left(self._seqs, seq)
        if at == len(self._seqs) or self._seqs[at] != seq:
            return None
        return Place(self._files[self._places[at]], self._offsets[at], self._sizes[at], self._lines[at])

    def _turn_to(self, path: Path) -> None:
        if 0 <= self._at < len(self._files) and self._files[self._at] == path:
            return
        if path not in self._files:
            self._files.append(path)
        self._at, self._offset, self._line = self._files.index(path), -1, 0

    def _file_of(self, first: Record) -> Path:
        """The segment that begins with a record: the one that its header names, otherwise the next."""
        wanted = first.members.get("segment")
        for path in segments(self._files[0]):
            if first.rec == "header" and type(wanted) is int and segment_number(path) == wanted:
                return path
        following = self._at + 1
        return self._files[following if following < len(self._files) else -1]


def _line_feeds(damage: Damage) -> int:
    """The line feeds in damaged bytes: what stands behind them has a line number all the same."""
    found, at, end = 0, damage.offset, damage.offset + damage.size
    try:
        with open_capture(damage.path) as file:
            file.seek(at)
            while at < end and (chunk := file.read(min(CHUNK, end - at))):
                found, at = found + chunk.count(b"\n"), at + len(chunk)
    except (OSError, CaptureError):
        return found
    return found


def payload_at(place: Place) -> bytes | None:
    """What crossed, from the record that stands at a place; None where none of it is there, or another record is."""
    values = _members_at(place)
    return raw_bytes(values) if values is not None and values.get("rec") in _HOLDING else None


def _members_at(place: Place) -> dict[str, Any] | None:
    if place.size > MAX_LINE:
        return None
    try:
        with open_capture(place.path) as file:
            file.seek(place.offset)
            record = decode(file.read(place.size), place.offset, orjson.loads)
    except (OSError, CaptureError):
        return None
    return record.members if record is not None else None
