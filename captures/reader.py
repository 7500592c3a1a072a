"""Reads a capture back: every whole record, in order, over all segments, and a word on everything that is damaged.

Promises: it never raises for what stands inside a file, reads any truncation up to its last whole record, notices
every flipped bit, loses one record at most to each, and allocates nothing by a size that the file claims. A capture
is hostile input; this is its one reader.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import orjson

from captures.envelope import READER_LIMIT, judge
from captures.errors import NewerFormat, NotACapture
from captures.frame import UNJUDGED, Direction, Frame, Unit
from captures.places import segments
from captures.record import CRC_MARK, CRC_TAIL, LINE_START, MAX_LINE, Record, decode, raw_bytes
from captures.versions import FORMAT_VERSION, lift

CHUNK: Final = 1 << 20

Cause = Literal["torn", "corrupt", "overlong", "version"]


class Damage(NamedTuple):
    """Bytes of a capture that are no record."""

    path: Path
    """The file of the segment."""
    offset: int
    """Where they begin, in bytes."""
    size: int
    """How many they are."""
    cause: Cause
    """`torn` (the end of a file that was cut, ordinary after a kill), `corrupt`, `overlong` (above 8 MiB).

    `version` (of a later format).
    """

    def __str__(self) -> str:
        """One line for a person."""
        what = {
            "torn": "an unfinished record at the end",
            "corrupt": "damaged",
            "overlong": "a line above 8 MiB",
            "version": "a segment of a later format",
        }[self.cause]
        return f"{self.path}: {self.size} bytes at offset {self.offset}: {what}"


class LineCutter:
    """Chunks of a capture in, records and damage out; keeps an unfinished last line for the next chunk.

    Memory is bounded by one line of 8 MiB, whatever the file holds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._overlong = 0

    def feed(self, chunk: bytes) -> list[Record | Damage]:
        """The records and damage that `chunk` completes."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        items: list[Record | Damage] = []
        for line in lines:
            size = len(line) + 1
            record = decode(line, self._offset, orjson.loads) if size <= MAX_LINE and not self._overlong else None
            if record is not None:
                items.append(record)
                self._offset += size
            else:
                items += self._damaged(line, "corrupt")
                self._offset += 1
        if len(self._rest) > MAX_LINE:
            self._overlong += len(self._rest)
            self._rest = b""
        return items

    def end(self) -> list[Record | Damage]:
        """What is left when no more bytes will come: nothing, or a torn tail."""
        if not self.pending:
            return []
        rest, self._rest = self._rest, b""
        record = decode(rest, self._offset, orjson.loads)
        if record is None or self._overlong:
            return self._damaged(rest, "torn")
        self._offset += len(rest)
        return [record, Damage(self._path, self._offset, 0, "torn")]

    @property
    def pending(self) -> int:
        """Bytes of the unfinished last line."""
        return self._overlong + len(self._rest)

    def _damaged(self, line: bytes, cause: Cause) -> list[Record | Damage]:
        """Tell of a line that is no record, and find the whole records in it.

        Each occurrence of `{"seq":` may begin one.
        """
        if self._overlong or len(line) >= MAX_LINE:
            damage = Damage(self._path, self._offset, self._overlong + len(line), "overlong")
            self._overlong = 0
            self._offset += damage.size
            return [damage]
        items: list[Record | Damage] = []
        bad_from = self._offset
        for piece in _pieces(line):
            end = piece.rfind(CRC_MARK) + CRC_TAIL
            record = decode(piece[:end], self._offset, orjson.loads) if end >= CRC_TAIL else None
            if record is not None:
                if self._offset > bad_from:
                    items.append(Damage(self._path, bad_from, self._offset - bad_from, "corrupt"))
                items.append(record)
                bad_from = self._offset + end
            self._offset += len(piece)
        if self._offset > bad_from or not line:
            items.append(Damage(self._path, bad_from, self._offset - bad_from, cause))
        return items


def _pieces(line: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(line):
        following = line.find(LINE_START, start + 1)
        stop = len(line) if following < 0 else following
        yield line[start:stop]
        start = stop


class Capture:
    """A capture on disk, over all its segments. Iterate it for `Record | Damage`, as often as needed."""

    def __init__(self, path: Path | str) -> None:
        """Look at the first header.

        Raises:
            NotACapture: there is nothing to read, or it is no capture.
            NewerFormat: a later version wrote it.
        """
        self.path = Path(path)
        self.segments = segments(self.path)
        self.header = self._first_header()

    def _first_header(self) -> Record:
        """The header; a stand-in of nothing but `format` where that one record is damaged and others are whole."""
        for item in read_segment(self.segments[0]):
            if isinstance(item, Record):
                return item if item.rec == "header" else Record(0, "header", 0, {"format": FORMAT_VERSION})
            if item.cause == "version":
                raise NewerFormat(f"cannot read {self.path}: a later version of mcpproxy wrote it; update mcpproxy")
            if item.offset > MAX_LINE:
                break
        raise NotACapture(f"cannot read {self.path}: no record of a capture stands in it")

    def __iter__(self) -> Iterator[Record | Damage]:
        """All records in order, with the damage between them."""
        for path in self.segments:
            yield from read_segment(path)

    @property
    def size(self) -> int:
        """Bytes on disk, over all segments."""
        return sum(path.stat().st_size for path in self.segments if path.exists())


def read_segment(path: Path) -> Iterator[Record | Damage]:
    """All records of one file, lifted to this format, with the damage between them.

    Raises:
        NotACapture: it cannot be opened.
    """
    version = FORMAT_VERSION
    with open_capture(path) as file:
        for item in _cut(file, LineCutter(path)):
            if isinstance(item, Record) and item.rec == "header":
                named = item.members.get("format")
                if not isinstance(named, int) or not 1 <= named <= FORMAT_VERSION:
                    yield Damage(path, item.offset, os.fstat(file.fileno()).st_size - item.offset, "version")
                    return
                version = named
            yield item if version == FORMAT_VERSION else lifted(item, version)


def _cut(file: BinaryIO, cutter: LineCutter) -> Iterator[Record | Damage]:
    while chunk := file.read(CHUNK):
        yield from cutter.feed(chunk)
    yield from cutter.end()


def lifted(item: Record | Damage, version: int) -> Record | Damage:
    """A record of an older format as this one would have it."""
    return item._replace(members=lift(item.members, version)) if isinstance(item, Record) else item


def open_capture(path: Path) -> BinaryIO:
    """Open one file for reading, without ever waiting for a FIFO or following into a device.

    Raises:
        NotACapture: it cannot be opened, or is no regular file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NotACapture(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotACapture(f"cannot read {path}: it is no regular file")
    return open(fd, "rb", buffering=0)


class _Parts:
    """The pieces of one giant frame, while they come."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.first: Record | None = None
        self.broken = False

    def add(self, record: Record) -> None:
        raw = raw_bytes(record.members)
        self.first = self.first or record
        if raw is None or record.members.get("part") != len(self.pieces) + 1:
            self.broken = True
            return
        self.pieces.append(raw)
        self.size += len(raw)


class FrameAssembler:
    """Turns `frame` and `part` records into frames, judged anew; everything else passes unchanged and in order."""

    def __init__(self, limit: int = READER_LIMIT) -> None:
        """Frames above `limit` bytes come out `unjudged`."""
        self._limit = limit
        self._parts: dict[tuple[str, ...], _Parts] = {}

    def feed(self, item: Record | Damage) -> Frame | Record | Damage | None:
        """What an item of a capture becomes; None for a part, whose frame comes later."""
        if not isinstance(item, Record) or item.rec not in ("frame", "part"):
            return item
        values = item.members
        key = tuple(repr(values.get(name)) for name in ("dir", "conn", "exchange"))
        if item.rec == "part":
            self._parts.setdefault(key, _Parts()).add(item)
            return None
        frame = _frame(item, self._parts.pop(key, None) if "parts" in values else None, self._limit)
        return item if frame is None else frame

    def end(self) -> Iterator[Frame | Record]:
        """Giant frames that were under way when the recording ended, with `whole` False."""
        for left in self._parts.values():
            if left.first is not None:
                frame = _frame(
                    left.first._replace(members={**left.first.members, "whole": False, "delim": ""}), left, self._limit
                )
                yield left.first if frame is None else frame


def read_frames(items: Iterable[Record | Damage], limit: int = READER_LIMIT) -> Iterator[Frame | Record | Damage]:
    """The items of a capture with its frames assembled, to the end."""
    assembler = FrameAssembler(limit)
    for item in items:
        found = assembler.feed(item)
        if found is not None:
            yield found
    yield from assembler.end()


def _frame(record: Record, parts: _Parts | None, limit: int) -> Frame | None:
    """The frame that a record holds; None where its members make no sense, so that it stays a record."""
    values = record.members
    direction, unit = values.get("dir"), values.get("unit", "line")
    if direction not in ("c2s", "s2c") or unit not in ("line", "http_body", "sse_event"):
        return None
    raw, whole = _content(values, parts)
    if raw is None:
        return None
    return Frame(
        seq=record.seq,
        t_ns=record.t_ns,
        dir=direction,
        raw=raw,
        verdict=_judged(raw, direction, unit, whole=whole, limit=limit),
        delim=_delimiter(values, unit),
        whole=whole,
        conn=_integer(values.get("conn")) or 0,
        exchange=_integer(values.get("exchange")),
        unit=unit,
        event_id=values["event_id"] if isinstance(values.get("event_id"), str) else None,
    )


def _content(values: dict[str, Any], parts: _Parts | None) -> tuple[bytes | None, bool]:
    whole = values.get("whole") is not False
    if parts is not None:
        lost = parts.broken or values.get("parts", len(parts.pieces)) != len(parts.pieces)
        return b"".join(parts.pieces), whole and not lost
    if "parts" in values:
        return b"", False
    return raw_bytes(values), whole


def _judged(raw: bytes, direction: Direction, unit: Unit, *, whole: bool, limit: int) -> Any:
    return judge(raw, direction, unit, whole=whole, limit=limit) if len(raw) <= limit else UNJUDGED


def _delimiter(values: dict[str, Any], unit: Unit) -> bytes:
    delim = values.get("delim")
    if isinstance(delim, str):
        return delim.encode("utf-8", "replace")
    return b"\n" if unit == "line" else b""


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
