"""Cuts chunks of a capture's file into records, frames and damage.

Promises: each byte is part of exactly one item, regardless of the contents of the file and of where the chunks end;
every flipped bit is detected and costs at most one record; memory is bounded by one line of 8 MiB and one chunk.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from zlib import crc32

import orjson

from captures.damage import Cause, Damage
from captures.frame import Frame
from captures.frames import plain_frame
from captures.heads import HeadCache
from captures.record import CRC_MARK, CRC_TAIL, LINE_START, MAX_LINE_BYTES, Record, decode, values_of
from captures.versions import FORMAT_VERSION

MIN_RECORD_BYTES: Final = len(b'{"seq":0,"rec":"","t_ns":0') + CRC_TAIL
"""The size of the shortest possible record, in bytes, without its LF."""

_CHECKSUM: Final = re.compile(CRC_MARK + rb'([0-9a-f]{8})"\}')

Item = TypeVar("Item", Record | Damage, Frame | Record | Damage)


class Cutter(Generic[Item]):
    """Cuts chunks of a capture into items; keeps an unfinished last line for the next chunk.

    Each byte is part of either a record's line or damage, regardless of where the chunks end. Memory is bounded by one
    line of 8 MiB and one chunk, regardless of the contents of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._partial_line: list[bytes] = []
        self._partial_size = 0
        # The damage right before `_offset`: its size, how many of its bytes follow the last LF, and its cause.
        self._damage_size = self._damage_run = 0
        self._damage_cause: Cause = "corrupt"
        self._loads: Callable[[bytes], Any] = orjson.loads
        # The number that the next record should have; None at the beginning and after damage.
        self._expected_seq: int | None = None

    def feed(self, chunk: bytes) -> list[Item]:
        """Process a chunk; return the items that it completes. Damage is returned once its extent is known."""
        lines = chunk.split(b"\n")
        if len(lines) > 1:
            self._partial_line.append(lines[0])
            lines[0] = b"".join(self._partial_line)
            self._partial_line, self._partial_size = [], 0
        partial_line = lines.pop()
        items: list[Item] = []
        for line in lines:
            size = len(line) + 1
            values = (
                values_of(line, self._loads)
                if MIN_RECORD_BYTES < size <= MAX_LINE_BYTES and not self._damage_size
                else None
            )
            if values is not None:
                items.append(self._item_of_line(values, line))
                self._expected_seq = values["seq"] + 1
                self._offset += size
            elif size <= MIN_RECORD_BYTES:
                self._count_damage(size, ended=True)
            else:
                items += self._cut_records(line + b"\n")
        self._partial_line.append(partial_line)
        self._partial_size += len(partial_line)
        if self._partial_size >= MAX_LINE_BYTES + len(LINE_START):
            items += self._drop_long_line()
        return items

    def finish(self) -> list[Item]:
        """End the input; return the last items: usually none, or a torn tail."""
        data, self._partial_line, self._partial_size = b"".join(self._partial_line), [], 0
        start = max(0, data.rfind(LINE_START))
        items: list[Item] = self._cut_records(data[:start])
        record = record_in(data[start:], self._offset)
        if record is not None:
            items += self._add_record(record)
            start += len(record.line)
        tail = data[start:]
        if (tail or record) and (tail.startswith(LINE_START) or LINE_START.startswith(tail)):
            items += self._take_damage()
            items.append(Damage(self._path, self._offset, len(tail), "torn"))
            return items
        self._count_damage(len(tail))
        items += self._take_damage()
        return items

    def _item_of_line(self, values: dict[str, Any], line: bytes) -> Item:
        """Returns the item that a whole line represents."""
        # This takes half the time of a named tuple's own __new__.
        record = tuple.__new__(Record, (values["seq"], values["rec"], values["t_ns"], values, self._offset, line, 0))
        return record if record.seq == self._expected_seq else self._with_skipped(record)

    def _drop_long_line(self) -> list[Item]:
        """Drop a line that is too long, but keep a possible beginning of a record at its end; return the items."""
        data = b"".join(self._partial_line)
        keep_from = data.rfind(LINE_START)
        if keep_from <= 0:
            keep_from = len(data) - len(LINE_START) + 1  # the first bytes of a record may have arrived
        self._partial_line, self._partial_size = [data[keep_from:]], len(data) - keep_from
        return self._cut_records(data[:keep_from])

    def _cut_records(self, data: bytes) -> list[Item]:
        """Returns the items of data that is not exactly one line: each occurrence of `{"seq":` may begin a record."""
        items: list[Item] = []
        for piece in _pieces(data):
            record = record_in(piece, self._offset) if len(piece) >= MIN_RECORD_BYTES else None
            remainder = piece
            if record is not None:
                items += self._add_record(record)
                remainder = piece[len(record.line) :]
            if record is not None and remainder == b"\n":
                self._offset += 1
            else:
                self._count_damage(len(remainder), ended=remainder.endswith(b"\n"))
        return items

    def _add_record(self, record: Record) -> list[Record | Damage]:
        items = [*self._take_damage(), self._with_skipped(record)]
        self._expected_seq = record.seq + 1
        self._offset += len(record.line)
        return items

    def _with_skipped(self, record: Record) -> Record:
        """Returns a record with the count of records missing before it, unless damage or the record reports them."""
        if self._expected_seq is None or record.seq <= self._expected_seq or record.rec in ("gap", "header"):
            return record
        return record._replace(skipped=record.seq - self._expected_seq)

    def _count_damage(self, size: int, *, ended: bool = False) -> None:
        """Count bytes as damage; `ended` says whether the last byte is an LF."""
        self._expected_seq = None
        self._damage_size += size
        self._offset += size
        self._damage_run += size
        if self._damage_run > MAX_LINE_BYTES:
            self._damage_cause = "overlong"
        if ended:
            self._damage_run = 0

    def _take_damage(self) -> list[Record | Damage]:
        """Reset the damage that ends here; return it, or an empty list if there is none."""
        size, cause = self._damage_size, self._damage_cause
        self._damage_size, self._damage_run, self._damage_cause = 0, 0, "corrupt"
        return [Damage(self._path, self._offset - size, size, cause)] if size else []


def _pieces(data: bytes) -> Iterator[bytes]:
    first, *others = data.split(LINE_START)
    if first:
        yield first
    for piece in others:
        yield LINE_START + piece


class LineCutter(Cutter[Record | Damage]):
    """A cutter into records and damage."""


class FrameCutter(Cutter[Frame | Record | Damage]):
    """A cutter that turns most `frame` records into frames, and leaves the others to `FrameAssembler`.

    The others are the records that must be examined more closely, and all `frame` records in a segment of an older
    format. Heads in `exchange` records are shared; see `captures.heads`.
    """

    _has_begun = _is_old = False

    def _item_of_line(self, values: dict[str, Any], line: bytes) -> Frame | Record | Damage:
        if values["rec"] == "frame" and values["seq"] == self._expected_seq and not self._is_old:
            frame = plain_frame(values, self._offset, len(line))
            if frame is not None:
                return frame
        elif values["rec"] == "exchange" and self._loads is orjson.loads:
            self._loads = HeadCache().loads  # only after the first exchange, as orjson alone is faster for other lines
        return super()._item_of_line(values, line)

    def _with_skipped(self, record: Record) -> Record:
        # The first record of a segment has no expected number, so it always passes through here.
        if not self._has_begun:
            self._has_begun = True
            self._is_old = record.rec == "header" and version_of(record) != FORMAT_VERSION
        return super()._with_skipped(record)


def record_in(piece: bytes, offset: int) -> Record | None:
    """Returns the record at the beginning of a piece, which ends at the first matching checksum, or None."""
    view, crc, position = memoryview(piece), 0, 0
    for checksum in _CHECKSUM.finditer(piece, 0, MAX_LINE_BYTES - 1):
        crc, position = crc32(view[position : checksum.start()], crc), checksum.start()
        if checksum[1] == b"%08x" % crc:
            return decode(piece[: checksum.end()], offset, orjson.loads)
    return None


def version_of(header: Record) -> int | None:
    """Returns the format version that a header names, or None if it is invalid."""
    version = header.members.get("format")
    return version if type(version) is int and version >= 1 else None
