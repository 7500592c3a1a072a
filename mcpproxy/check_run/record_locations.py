"""Record locations: where each record of a capture is, so that a finding can show it and cite it by file and line.

They are collected while the capture is read: 8 bytes per record, as only the offsets of consecutive records are stored.
The record itself is read from the file again when needed, and must then be the requested one.
"""

from array import array
from bisect import bisect_right
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from captures.damage import Damage
from captures.errors import CaptureError
from captures.frame import Frame
from captures.listing import segment_number, segments
from captures.reader import CHUNK_BYTES, open_capture
from captures.record import MAX_LINE_BYTES, Record, decode, raw_bytes
from mcpproxy.check_run.result import RecordLocation

_TRAFFIC_RECORDS: Final = frozenset({"frame", "stderr"})
"""The kinds of records that contain traffic."""


class _RecordRun(NamedTuple):
    """Records with consecutive numbers on consecutive lines of one file."""

    seq: int
    """The number of the first record."""
    first_index: int
    """The index of the first record's offset among all offsets."""
    line: int
    """The number of the first record's line."""
    file: int
    """The index of the file."""


class RecordLocations:
    """The places of the records of one capture."""

    def __init__(self, path: Path) -> None:
        """Start without records; `path` is the capture as the user named it."""
        self._files = segments(path)
        self._file = -1
        self._offset = -1
        self._line = 0
        self._offsets = array("Q")
        self._runs: list[_RecordRun] = []
        self._sizes: list[int] = []
        """The size of the last record of each run except the current one."""
        self._last: Frame | Record | None = None
        """The last record of the current run."""
        self._next_seq = 0
        """The number of the record that would continue the current run."""
        self._next_offset = -1
        """The offset at which the next line begins; -1 if it is unknown."""

    def on_item(self, item: Frame | Record | Damage) -> None:
        """Process the next item of the capture, in the order in which they are read."""
        if isinstance(item, Damage):
            self._end_run()
            self._switch_file(item.path)
            self._line += _line_feeds(item)
            self._offset, self._next_offset = item.offset, -1
        elif self._last is not None and item.seq == self._next_seq and item.offset == self._next_offset:
            self._last, self._next_seq, self._offset = item, item.seq + 1, item.offset
            self._next_offset = item.offset + item.line_size + 1
            self._offsets.append(item.offset)
        else:
            self._begin_run(item)

    def place(self, seq: int) -> RecordLocation | None:
        """The place of a record, or None if that is not certain."""
        number = bisect_right(self._runs, seq, key=lambda run: run.seq) - 1
        if number < 0:
            return None
        run, is_last = self._runs[number], number + 1 == len(self._runs)
        end = len(self._offsets) if is_last else self._runs[number + 1].first_index
        distance = seq - run.seq
        index = run.first_index + distance
        if index >= end:
            return None
        offset = self._offsets[index]
        if index + 1 < end:
            size = self._offsets[index + 1] - offset - 1
        else:
            size = self._last.line_size if is_last and self._last is not None else self._sizes[number]
        return RecordLocation(self._files[run.file], offset, size, run.line + distance)

    def _begin_run(self, record: Frame | Record) -> None:
        """Begin a run with a record that does not follow the last one."""
        self._end_run()
        if record.offset <= self._offset or self._file < 0:
            self._switch_file(self._file_of(record))
            self._next_offset = -1
        self._line += record.offset != self._next_offset - 1  # if an LF is lost, two records are on one line
        self._offset, self._next_offset = record.offset, record.offset + record.line_size + 1
        if record.seq >= self._next_seq and self._file >= 0:
            self._runs.append(_RecordRun(record.seq, len(self._offsets), self._line, self._file))
            self._offsets.append(record.offset)
            self._last, self._next_seq = record, record.seq + 1

    def _end_run(self) -> None:
        """End the current run."""
        if self._last is not None:
            self._line = self._runs[-1].line + len(self._offsets) - self._runs[-1].first_index - 1
            self._sizes.append(self._last.line_size)
            self._last = None

    def _switch_file(self, path: Path) -> None:
        if 0 <= self._file < len(self._files) and self._files[self._file] == path:
            return
        if path not in self._files:
            self._files.append(path)
        self._file, self._offset, self._line = self._files.index(path), -1, 0

    def _file_of(self, record: Frame | Record) -> Path:
        """The segment that begins with a record: the segment that its header names, otherwise the next one."""
        number = record.members.get("segment") if isinstance(record, Record) and record.rec == "header" else None
        for path in segments(self._files[0]) if type(number) is int else ():
            if segment_number(path) == number:
                return path
        next_file = self._file + 1
        return self._files[next_file if next_file < len(self._files) else -1]


def _line_feeds(damage: Damage) -> int:
    """The number of line feeds in damaged bytes, so that the records after them still have line numbers."""
    count, offset, end = 0, damage.offset, damage.offset + damage.size
    try:
        with open_capture(damage.path) as file:
            file.seek(offset)
            while offset < end and (chunk := file.read(min(CHUNK_BYTES, end - offset))):
                count, offset = count + chunk.count(b"\n"), offset + len(chunk)
    except (OSError, CaptureError):
        return count
    return count


def payload_at(place: RecordLocation) -> bytes | None:
    """The traffic in the record at a place, or None if there is none, or another record is there."""
    values = _members_at(place)
    return raw_bytes(values) if values is not None and values.get("rec") in _TRAFFIC_RECORDS else None


def _members_at(place: RecordLocation) -> dict[str, Any] | None:
    if place.size > MAX_LINE_BYTES:
        return None
    try:
        with open_capture(place.path) as file:
            file.seek(place.offset)
            record = decode(file.read(place.size), place.offset, orjson.loads)
    except (OSError, CaptureError):
        return None
    return record.members if record is not None else None
