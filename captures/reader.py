"""Reads a capture: every whole record, in order, over all segments, and a report of all damage.

Promises: it never raises because of a file's content, reads a truncated file up to its last whole record, notices
every flipped bit, loses at most one record to each, and never allocates by a size that the file claims. A capture
is hostile input; this is its only reader.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, Literal, NamedTuple, TypeVar
from zlib import crc32

import orjson
from msgspec.structs import replace

from captures.envelope import READER_LIMIT, judge_and_read
from captures.errors import NewerFormat, NotACapture, NothingRecorded
from captures.file import is_live
from captures.flawless import read
from captures.frame import Frame
from captures.heads import Heads
from captures.limits import MOST_VALUES
from captures.listing import segments
from captures.record import CRC_MARK, CRC_TAIL, LINE_START, MAX_LINE, Record, decode, raw_bytes, values_of
from captures.verdict import UNJUDGED, Direction, Envelope, Unit
from captures.versions import FORMAT_VERSION, lift

CHUNK: Final = 1 << 17
"""Bytes read at once: what is made of them stays in a processor's cache until it is used."""
FIRST: Final = 1 << 13
"""Bytes read to find the header."""
OPEN_AT_ONCE: Final = 64
"""The most segments; a recorder's ring keeps far fewer for one capture."""

ROOM: Final = 256 << 20
"""Bytes. The most of unfinished giant frames that a reader holds."""
PIECE_COST: Final = 2000
"""The overhead of holding one piece, in bytes."""

SHORTEST: Final = len(b'{"seq":0,"rec":"","t_ns":0') + CRC_TAIL
"""Bytes. The smallest size of a record, without its LF."""

_CHECKSUM: Final = re.compile(CRC_MARK + rb'([0-9a-f]{8})"\}')

Cause = Literal["torn", "corrupt", "overlong", "version", "foreign"]

_WORDS: Final[dict[Cause, str]] = {
    "torn": "an unfinished record at the end",
    "corrupt": "damaged",
    "overlong": "a line above 8 MiB",
    "version": "a segment in a format unknown here",
    "foreign": "a segment of another capture",
}


class Damage(NamedTuple):
    """Bytes of a capture that are not a record. Adjacent damage is merged: a file without any record is one item."""

    path: Path
    """The file of the segment."""
    offset: int
    """Where they begin, in bytes."""
    size: int
    """How many they are; 0 if only the last LF is missing."""
    cause: Cause
    """`torn` (the end of a file that was cut, normal after a kill), `corrupt`, `overlong` (above 8 MiB).

    `version` (an unknown format) and `foreign` (another capture) concern whole segments.
    """

    def __str__(self) -> str:
        """One line for a person."""
        if not self.size:
            return f"{self.path}: the last record, up to offset {self.offset}, has no newline"
        unit = "byte" if self.size == 1 else "bytes"
        return f"{self.path}: {self.size} {unit} at offset {self.offset}: {_WORDS[self.cause]}"


_Item = TypeVar("_Item", Record | Damage, Frame | Record | Damage)


class _Cutter(Generic[_Item]):
    """Cuts chunks of a capture into items; keeps an unfinished last line for the next chunk.

    Each byte comes out once, as part of a record's line or as damage, independent of the boundaries of the chunks.
    Memory is bounded by one line of 8 MiB and one chunk, whatever the file holds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest: list[bytes] = []
        self._rest_size = 0
        # Damage right before `_offset`: how many bytes, how many of them since the last LF, and what to call it.
        self._bad = self._bad_run = 0
        self._bad_cause: Cause = "corrupt"
        self._loads: Callable[[bytes], Any] = orjson.loads
        # The number that the next record should have; None if unknown.
        self._expected: int | None = None

    def feed(self, chunk: bytes) -> list[_Item]:
        """The items that `chunk` completes. Damage comes once its extent is known."""
        lines = chunk.split(b"\n")
        if len(lines) > 1:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
            self._rest, self._rest_size = [], 0
        rest = lines.pop()
        items: list[_Item] = []
        for line in lines:
            size = len(line) + 1
            values = values_of(line, self._loads) if SHORTEST < size <= MAX_LINE and not self._bad else None
            if values is not None:
                items.append(self._made(values, line))
                self._expected = values["seq"] + 1
                self._offset += size
            elif size <= SHORTEST:
                self._spoil(size, ended=True)
            else:
                items += self._salvaged(line + b"\n")
        self._rest.append(rest)
        self._rest_size += len(rest)
        if self._rest_size >= MAX_LINE + len(LINE_START):
            items += self._relieved()
        return items

    def end(self) -> list[_Item]:
        """The rest when no more bytes will come: nothing, or a torn tail."""
        rest, self._rest, self._rest_size = b"".join(self._rest), [], 0
        start = max(0, rest.rfind(LINE_START))
        items: list[_Item] = self._salvaged(rest[:start])
        record = record_in(rest[start:], self._offset)
        if record is not None:
            items += self._kept(record)
            start += len(record.line)
        tail = rest[start:]
        if (tail or record) and (tail.startswith(LINE_START) or LINE_START.startswith(tail)):
            items += self._told()
            items.append(Damage(self._path, self._offset, len(tail), "torn"))
            return items
        self._spoil(len(tail))
        items += self._told()
        return items

    def _made(self, values: dict[str, Any], line: bytes) -> _Item:
        """The item that a whole line stands for."""
        # This takes half the time of a named tuple's own __new__.
        record = tuple.__new__(Record, (values["seq"], values["rec"], values["t_ns"], values, self._offset, line, 0))
        return record if record.seq == self._expected else self._after_others(record)

    def _relieved(self) -> list[_Item]:
        """Drop a line that is too long, but keep a possible beginning of a record at its end."""
        rest = b"".join(self._rest)
        keep_from = rest.rfind(LINE_START)
        if keep_from <= 0:
            keep_from = len(rest) - len(LINE_START) + 1  # part of a beginning may have arrived
        self._rest, self._rest_size = [rest[keep_from:]], len(rest) - keep_from
        return self._salvaged(rest[:keep_from])

    def _salvaged(self, data: bytes) -> list[_Item]:
        """The whole records in data that is not exactly one line: each occurrence of `{"seq":` may begin one."""
        items: list[_Item] = []
        for piece in _pieces(data):
            record = record_in(piece, self._offset) if len(piece) >= SHORTEST else None
            rest = piece
            if record is not None:
                items += self._kept(record)
                rest = piece[len(record.line) :]
            if record is not None and rest == b"\n":
                self._offset += 1
            else:
                self._spoil(len(rest), ended=rest.endswith(b"\n"))
        return items

    def _kept(self, record: Record) -> list[Record | Damage]:
        items = [*self._told(), self._after_others(record)]
        self._expected = record.seq + 1
        self._offset += len(record.line)
        return items

    def _after_others(self, record: Record) -> Record:
        """A record with the count of those missing before it, if neither damage nor the record itself reports them."""
        if self._expected is None or record.seq <= self._expected or record.rec in ("gap", "header"):
            return record
        return record._replace(skipped=record.seq - self._expected)

    def _spoil(self, size: int, *, ended: bool = False) -> None:
        """Count bytes as damage; `ended` if the last of them is LF."""
        self._expected = None
        self._bad += size
        self._offset += size
        self._bad_run += size
        if self._bad_run > MAX_LINE:
            self._bad_cause = "overlong"
        if ended:
            self._bad_run = 0

    def _told(self) -> list[Record | Damage]:
        """The damage that ends here, if any."""
        bad, cause = self._bad, self._bad_cause
        self._bad, self._bad_run, self._bad_cause = 0, 0, "corrupt"
        return [Damage(self._path, self._offset - bad, bad, cause)] if bad else []


def _pieces(data: bytes) -> Iterator[bytes]:
    before, *begun = data.split(LINE_START)
    if before:
        yield before
    for rest in begun:
        yield LINE_START + rest


class LineCutter(_Cutter[Record | Damage]):
    """A cutter into records and damage."""


class FrameCutter(_Cutter[Frame | Record | Damage]):
    """A cutter that makes frames of most `frame` records; those that need a closer look are left to `FrameAssembler`.

    In a segment of an older format all are left to it. Heads in `exchange` records are shared; see `captures.heads`.
    """

    _has_begun = _is_old = False

    def _made(self, values: dict[str, Any], line: bytes) -> Frame | Record | Damage:
        if values["rec"] == "frame" and values["seq"] == self._expected and not self._is_old:
            frame = plain_frame(values, self._offset, len(line))
            if frame is not None:
                return frame
        elif values["rec"] == "exchange" and self._loads is orjson.loads:
            self._loads = Heads().loads  # from the first exchange on, as all other lines are read faster without
        return super()._made(values, line)

    def _after_others(self, record: Record) -> Record:
        # The first record has none before it, so it comes by here.
        if not self._has_begun:
            self._has_begun = True
            self._is_old = record.rec == "header" and version_of(record) != FORMAT_VERSION
        return super()._after_others(record)


def record_in(piece: bytes, offset: int) -> Record | None:
    """The record at the beginning of a piece. It ends at the first checksum that matches, so one pass is enough."""
    view, crc, done = memoryview(piece), 0, 0
    for checksum in _CHECKSUM.finditer(piece, 0, MAX_LINE - 1):
        crc, done = crc32(view[done : checksum.start()], crc), checksum.start()
        if checksum[1] == b"%08x" % crc:
            return decode(piece[: checksum.end()], offset, orjson.loads)
    return None


LOOKS: Final = 50
"""How often a capture is listed again because its ring has deleted the first segment meanwhile."""


class Capture:
    """A capture on disk, over all its segments. Iterate it for `Record | Damage`, as often as needed."""

    def __init__(self, path: Path | str) -> None:
        """Read the first header.

        Raises:
            NotACapture: there is nothing to read, or it is not a capture.
            NewerFormat: a later version wrote it.
        """
        self.path = Path(path)
        self.segments = segments(self.path)
        """The files, as last listed."""
        self.header = self._header_of_the_ring()
        """Only `format` if this record is damaged but others are whole."""

    def _header_of_the_ring(self) -> Record:
        """The first header; if the ring deletes that segment before we open it, the next one has it as well."""
        for _ in range(LOOKS):
            try:
                return self._first_header()
            except NotACapture as error:
                listed, self.segments = self.segments, segments(self.path)
                if not isinstance(error.__cause__, FileNotFoundError) or listed == self.segments:
                    raise
        return self._first_header()

    def _first_header(self) -> Record:
        with open_capture(self.segments[0]) as file:
            for item in chain.from_iterable(_cut(file, LineCutter(self.segments[0]), FIRST)):
                if isinstance(item, Record):
                    return self._understood(item)
                if item.cause == "torn" and item.offset == 0:
                    raise self._nothing("its first record is incomplete", item.size)
            if file.tell() == 0:
                raise self._nothing("it is empty", 0)
        raise NotACapture(f"cannot read {self.path}: it holds no record of a capture")

    def _nothing(self, why: str, size: int) -> NothingRecorded:
        if is_live(self.segments[0]):
            text = f"cannot read {self.path}: its recorder has only just begun; try again"
        else:
            text = f"cannot read {self.path}: {why}; its recorder was probably killed as it started"
        return NothingRecorded(text, size)

    def _understood(self, first: Record) -> Record:
        if first.rec != "header":
            return Record(0, "header", 0, {"format": FORMAT_VERSION})
        version = version_of(first)
        if version is None:
            raise NotACapture(f"cannot read {self.path}: its header names no version of the format")
        if version > FORMAT_VERSION:
            raise NewerFormat(f"cannot read {self.path}: a later version of mcpproxy wrote it; update mcpproxy")
        return lifted(first, version)

    def __iter__(self) -> Iterator[Record | Damage]:
        """All records in order, lifted to this format, with the damage between them.

        Raises:
            NotACapture: a file cannot be opened.
        """
        return chain.from_iterable(self._items(LineCutter))

    def frames(self) -> Iterator[Frame | Record | Damage]:
        """The same, but most `frame` records as frames; those that are left are for `FrameAssembler`.

        Raises:
            NotACapture: a file cannot be opened.
        """
        return chain.from_iterable(self._items(FrameCutter))

    def _items(self, cutter: Callable[[Path], _Cutter[_Item]]) -> Iterator[list[_Item]]:
        capture = self.header.members.get("capture")
        for path, file in self._files():
            version = None
            cut: list[_Item]
            for cut in _cut(file, cutter(path)):
                first = first_record(cut) if version is None else None
                if first is not None:
                    at, record = first
                    cause = unfit(record, capture)
                    if cause is not None:
                        size = os.fstat(file.fileno()).st_size - record.offset
                        cut[at:] = [Damage(path, record.offset, size, cause)]
                        yield cut
                        break
                    version = version_of(record) or FORMAT_VERSION
                if version is None or version == FORMAT_VERSION:
                    yield cut
                else:
                    yield [lifted(item, version) if isinstance(item, Record) else item for item in cut]

    def _files(self) -> Iterator[tuple[Path, BinaryIO]]:
        """The segments, opened before the first is read: a recorder's ring may delete them meanwhile."""
        self.segments = segments(self.path)
        for start in range(0, len(self.segments), OPEN_AT_ONCE):
            files = []
            with ExitStack() as stack:
                for path in self.segments[start : start + OPEN_AT_ONCE]:
                    file = _open_if_there(path)
                    if file is not None:
                        files.append((path, stack.enter_context(file)))
                yield from files

    @property
    def size(self) -> int:
        """Bytes on disk, over all segments."""
        return sum(path.stat().st_size for path in self.segments if path.exists())


def version_of(header: Record) -> int | None:
    """The format version that a header names; None if it is invalid."""
    version = header.members.get("format")
    return version if type(version) is int and version >= 1 else None


def first_record(items: Sequence[Frame | Record | Damage]) -> tuple[int, Record] | None:
    """The first record, with its place among the items."""
    return next(((at, item) for at, item in enumerate(items) if isinstance(item, Record)), None)


def unfit(first: Record, capture: object) -> Cause | None:
    """The reason why a segment with this first record cannot be read as part of the capture."""
    if first.rec != "header":
        return None
    if (version_of(first) or FORMAT_VERSION + 1) > FORMAT_VERSION:
        return "version"
    return None if capture in (None, first.members.get("capture")) else "foreign"


def _cut(file: BinaryIO, cutter: _Cutter[_Item], size: int = CHUNK) -> Iterator[list[_Item]]:
    """What a file holds now: one that grows faster than it is read would have no end."""
    left = os.fstat(file.fileno()).st_size
    while left > 0 and (chunk := file.read(min(size, left))):
        yield cutter.feed(chunk)
        left -= len(chunk)
        size = CHUNK
    yield cutter.end()


def lifted(record: Record, version: int) -> Record:
    """A record of an older format, converted to the current one."""
    return record if version == FORMAT_VERSION else record._replace(members=lift(record.members, version))


def open_capture(path: Path) -> BinaryIO:
    """Open one file for reading, without ever waiting for a FIFO or opening a device.

    Raises:
        NotACapture: it cannot be opened, or is not a regular file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NotACapture(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotACapture(f"cannot read {path}: it is no regular file")
    return open(fd, "rb", buffering=0)


def _open_if_there(path: Path) -> BinaryIO | None:
    try:
        return open_capture(path)
    except NotACapture:
        if path.exists():
            raise
        return None


class _Parts:
    """The pieces of one giant frame that have arrived so far."""

    def __init__(self, first: Record) -> None:
        values: dict[str, Any] = {name: first.members.get(name) for name in ("dir", "conn", "exchange")}
        self.first = first._replace(members={**values, "whole": False, "delim": ""}, line=b"")
        """The facts reported for a frame whose end was not recorded."""
        self.pieces: list[bytes] = []
        self.size = 0
        self.cost = 0
        self.broken = False

    def add(self, part: Record, room: int) -> None:
        """Add a piece, if there is room and none before it is missing."""
        raw = raw_bytes(part.members)
        wanted = not self.broken and part.members.get("part") == len(self.pieces) + 1
        if raw is None or not wanted or len(raw) + PIECE_COST > room:
            self.broken = True
            return
        self.pieces.append(raw)
        self.size += len(raw)
        self.cost += len(raw) + PIECE_COST


class FrameAssembler:
    """Turns `frame` and `part` records into frames, judged again; everything else passes unchanged and in order."""

    def __init__(self, limit: int = READER_LIMIT, room: int = ROOM) -> None:
        """Create an assembler.

        Args:
            limit: frames of more bytes than this come out `unjudged`.
            room: the most bytes of unfinished giant frames that are held; any beyond count as lost.
        """
        self._limit = limit
        self._room = room
        self._parts: dict[tuple[object, ...], _Parts] = {}
        self._abandoned: list[_Parts] = []
        self._skipped = 0

    def feed(self, item: Frame | Record | Damage) -> Frame | Record | Damage | None:
        """Convert an item of a capture; None for a part, whose frame comes later."""
        if isinstance(item, Frame) and self._skipped:
            item, self._skipped = replace(item, skipped=self._skipped), 0
        if not isinstance(item, Record):
            return item
        if item.rec == "gap" and self._parts:
            self._abandon(item.members.get("lost"))
        if item.rec == "part":
            self._skipped += item.skipped  # to be reported by the next item that comes out
            return self._take_part(item)
        if self._skipped:
            item, self._skipped = item._replace(skipped=item.skipped + self._skipped), 0
        if item.rec != "frame":
            return item
        parts = self._parts.pop(stream_of(item.members), None) if "parts" in item.members else None
        self._room += parts.cost if parts is not None else 0
        return _frame(item, parts, self._limit) or item

    def _take_part(self, part: Record) -> Frame | None:
        """Keep a part; if it is the first of a frame, an unfinished frame before it in this stream comes out."""
        stream = stream_of(part.members)
        left = self._parts.pop(stream, None) if part.members.get("part") == 1 else None
        self._room += left.cost if left is not None else 0
        parts = self._parts.get(stream) or _Parts(part)
        cost = parts.cost
        parts.add(part, self._room)
        self._room -= parts.cost - cost
        if parts.pieces:
            self._parts[stream] = parts
        return _frame(left.first, left, self._limit) if left is not None else None

    def _abandon(self, lost: object) -> None:
        """After lost frames of a stdio direction, give up unfinished frames: later parts belong to another frame."""
        for stream in list(self._parts):
            direction, _, exchange = stream
            side = lost.get(direction) if isinstance(lost, dict) else None
            if exchange is None and isinstance(side, dict) and side.get("frames"):
                self._abandoned.append(self._parts.pop(stream))

    def end(self) -> Iterator[Frame | Record]:
        """The giant frames whose end was not recorded, with `whole` False."""
        for left in (*self._abandoned, *self._parts.values()):
            yield _frame(left.first, left, self._limit) or left.first


def stream_of(values: dict[str, Any]) -> tuple[str | None, int, int | None]:
    """The key that the parts of one frame share."""
    direction = values.get("dir")
    conn, exchange = _integer(values.get("conn")) or 0, _integer(values.get("exchange"))
    return (direction if direction in ("c2s", "s2c") else None), conn, exchange


_Any = TypeVar("_Any", bound=Frame | Record | Damage)


def assembled(
    items: Iterable[_Any], limit: int = READER_LIMIT
) -> Iterator[tuple[_Any | None, Frame | Record | Damage | None]]:
    """All items of a capture, each with what it comes to: a frame, itself, or None for a part whose frame comes later.

    At the end, with None in place of an item: the frames that were never completed.
    """
    assembler = FrameAssembler(limit)
    for item in items:
        yield item, assembler.feed(item)
    for left in assembler.end():
        yield None, left


def read_frames(
    items: Iterable[Frame | Record | Damage], limit: int = READER_LIMIT
) -> Iterator[Frame | Record | Damage]:
    """All items of a capture, with its frames assembled."""
    if isinstance(items, Capture):
        items = items.frames()
    return (frame for _, frame in assembled(items, limit) if frame is not None)


def plain_frame(values: dict[str, Any], offset: int, line_size: int, limit: int = READER_LIMIT) -> Frame | None:
    """The frame of a record that holds a whole flawless message, or an event without data; None for any other record.

    Args:
        values: the record's members.
        offset: the offset of its line in the segment's file.
        line_size: bytes of the line.
        limit: frames of more bytes than this are left out.
    """
    text, direction = values.get("raw"), values.get("dir")
    if type(text) is not str or (direction != "c2s" and direction != "s2c"):
        return None
    raw = text.encode()  # orjson rejects lone surrogates, so this cannot fail
    message = read(raw) if len(raw) <= MOST_VALUES and len(raw) <= limit else None
    if _UNUSUAL.isdisjoint(values):
        if message is None:
            return None
        verdict, body, is_as_written = message
        return Frame(values["seq"], values["t_ns"], direction, raw, verdict, body, is_as_written, offset, line_size)
    conn, exchange, event_id = values.get("conn", 0), values.get("exchange"), values.get("event_id")
    unit: Unit = values.get("unit", "line")
    is_known = type(conn) is type(exchange) is int and (unit == "http_body" or unit == "sse_event")
    if not is_known or (event_id is not None and type(event_id) is not str) or not _ODD.isdisjoint(values):
        return None
    if message is None:
        if unit != "sse_event" or raw:
            return None
        message = _without_data(direction)
    verdict, body, is_as_written = message
    return Frame(
        values["seq"],
        values["t_ns"],
        direction,
        raw,
        verdict,
        body,
        is_as_written,
        offset,
        line_size,
        b"",
        conn=conn,
        exchange=exchange,
        unit=unit,
        event_id=event_id,
        id_again=values.get("id_again") is True,
    )


@cache
def _without_data(direction: Direction) -> tuple[Envelope, Any, bool]:
    """The judgement of an event that only has an id, as one begins many streams."""
    return judge_and_read(b"", direction, "sse_event", whole=True, limit=READER_LIMIT)


_UNUSUAL: Final = frozenset({"parts", "delim", "whole", "conn", "exchange", "unit", "event", "event_id"})
"""Members that a `frame` record from stdio seldom has."""
_ODD: Final = frozenset({"parts", "delim", "whole", "event"})
"""Those of them that one from HTTP seldom has."""


def _frame(record: Record, parts: _Parts | None, limit: int) -> Frame | None:
    """The frame that a record holds; None if its members are invalid, so that it stays a record."""
    values = record.members
    frame = None if parts is not None else plain_frame(values, record.offset, len(record.line), limit)
    if frame is not None:
        return replace(frame, skipped=record.skipped) if record.skipped else frame
    direction = values.get("dir")
    unit = values.get("unit", "line")
    if direction not in ("c2s", "s2c") or unit not in ("line", "http_body", "sse_event"):
        return None
    raw, whole, is_complete = _content(values, parts)
    if raw is None:
        return None
    event = values["event"] if isinstance(values.get("event"), str) else None
    verdict, body, is_as_written = (
        (UNJUDGED, None, False) if event else judge_and_read(raw, direction, unit, whole=whole, limit=limit)
    )
    return Frame(
        seq=record.seq,
        t_ns=record.t_ns,
        dir=direction,
        raw=raw,
        verdict=verdict,
        delim=_delimiter(values, unit),
        whole=whole,
        conn=_integer(values.get("conn")) or 0,
        exchange=_integer(values.get("exchange")),
        unit=unit,
        event_id=values["event_id"] if isinstance(values.get("event_id"), str) else None,
        event=event,
        skipped=record.skipped,
        is_partial=not is_complete,
        body=body,
        id_again=values.get("id_again") is True,
        is_as_written=is_as_written,
        offset=record.offset,
        line_size=len(record.line),
    )


def _content(values: dict[str, Any], parts: _Parts | None) -> tuple[bytes | None, bool, bool]:
    """The bytes of a frame, whether its delimiter came, and whether the bytes are complete."""
    whole = values.get("whole") is not False
    if parts is not None:
        declared = {"parts": len(parts.pieces), "size": parts.size}
        is_complete = not parts.broken and {name: values.get(name) for name in declared} == declared
        return b"".join(parts.pieces), whole and is_complete, is_complete
    if "parts" in values:
        return b"", False, False
    return raw_bytes(values), whole, True


def _delimiter(values: dict[str, Any], unit: Unit) -> bytes:
    delim = values.get("delim")
    if isinstance(delim, str):
        return delim.encode("utf-8", "replace")
    return b"\n" if unit == "line" else b""


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
