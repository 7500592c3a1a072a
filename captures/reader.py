"""Reads a capture: all whole records, in order, over all segments, and a report of all damage.

Promises: the reader never raises because of a file's contents, reads a truncated file up to its last whole record,
detects every flipped bit, loses at most one record to each, and never allocates memory according to a size that the
file claims. A capture is hostile input; this is its only reader.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from captures.cutting import Cutter, FrameCutter, Item, LineCutter, version_of
from captures.damage import Cause, Damage
from captures.envelope import MAX_READER_JUDGED_BYTES
from captures.errors import NewerFormat, NotACapture, NothingRecorded
from captures.file import is_live
from captures.frame import Frame
from captures.frames import assemble
from captures.listing import segments, total_size
from captures.record import Record
from captures.versions import FORMAT_VERSION, upgrade

CHUNK_BYTES: Final = 1 << 17
"""How many bytes are read at once: few enough that the results are still in the CPU cache when they are used."""
HEADER_CHUNK_BYTES: Final = 1 << 13
"""How many bytes are read to find the header."""
MAX_OPEN_SEGMENTS: Final = 64
"""The most segments that are open at once; a recorder's ring keeps far fewer for one capture."""

MAX_LISTINGS: Final = 50
"""The most times that a capture is listed again because its ring has deleted the first segment."""


class Capture:
    """A capture on disk, over all its segments. Iterating over it yields `Record | Damage`, as often as needed."""

    def __init__(self, path: Path | str) -> None:
        """Read the first header.

        Raises:
            NotACapture: there is no such file, or it is not a capture.
            NewerFormat: a later version wrote the capture.
        """
        self.path = Path(path)
        self.segments = segments(self.path)
        """The paths of the segments, as last listed."""
        self.header = self._read_header()
        """The first header; it contains only `format` if that record is damaged but others are whole."""

    def _read_header(self) -> Record:
        """Returns the first header; if the ring deletes the first segment before it is opened, that of the next one."""
        for _ in range(MAX_LISTINGS):
            try:
                return self._read_first_header()
            except NotACapture as error:
                previous, self.segments = self.segments, segments(self.path)
                if not isinstance(error.__cause__, FileNotFoundError) or previous == self.segments:
                    raise
        return self._read_first_header()

    def _read_first_header(self) -> Record:
        with open_capture(self.segments[0]) as file:
            for item in chain.from_iterable(_cut_chunks(file, LineCutter(self.segments[0]), HEADER_CHUNK_BYTES)):
                if isinstance(item, Record):
                    return self._checked_header(item)
                if item.cause == "torn" and item.offset == 0:
                    raise self._nothing_recorded_error("its first record is incomplete", item.size)
            if file.tell() == 0:
                raise self._nothing_recorded_error("it is empty", 0)
        raise NotACapture(f"cannot read {self.path}: it contains no capture records")

    def _nothing_recorded_error(self, reason: str, size: int) -> NothingRecorded:
        if is_live(self.segments[0]):
            text = f"cannot read {self.path}: its recorder has only just begun; try again"
        else:
            text = f"cannot read {self.path}: {reason}; its recorder was probably killed as it started"
        return NothingRecorded(text, size)

    def _checked_header(self, first: Record) -> Record:
        if first.rec != "header":
            return Record(0, "header", 0, {"format": FORMAT_VERSION})
        version = version_of(first)
        if version is None:
            raise NotACapture(f"cannot read {self.path}: its header names no version of the format")
        if version > FORMAT_VERSION:
            raise NewerFormat(f"cannot read {self.path}: a later version of mcpproxy wrote it; update mcpproxy")
        return upgraded_record(first, version)

    def __iter__(self) -> Iterator[Record | Damage]:
        """Yield all records in order, converted to the current format, with the damage between them.

        Raises:
            NotACapture: a file cannot be opened.
        """
        return chain.from_iterable(self._items(LineCutter))

    def frames(self) -> Iterator[Frame | Record | Damage]:
        """Yield the same items, but with most `frame` records as frames; `FrameAssembler` converts the others.

        Raises:
            NotACapture: a file cannot be opened.
        """
        return chain.from_iterable(self._items(FrameCutter))

    def _items(self, cutter: Callable[[Path], Cutter[Item]]) -> Iterator[list[Item]]:
        capture = self.header.members.get("capture")
        for path, file in self._files():
            version = None
            items: list[Item]
            for items in _cut_chunks(file, cutter(path)):
                first = first_record(items) if version is None else None
                if first is not None:
                    position, record = first
                    cause = unreadable_cause(record, capture)
                    if cause is not None:
                        size = os.fstat(file.fileno()).st_size - record.offset
                        items[position:] = [Damage(path, record.offset, size, cause)]
                        yield items
                        break
                    version = version_of(record) or FORMAT_VERSION
                if version is None or version == FORMAT_VERSION:
                    yield items
                else:
                    yield [upgraded_record(item, version) if isinstance(item, Record) else item for item in items]

    def _files(self) -> Iterator[tuple[Path, BinaryIO]]:
        """Yield the segments, opened before the first is read: otherwise a recorder's ring could delete them first."""
        self.segments = segments(self.path)
        for start in range(0, len(self.segments), MAX_OPEN_SEGMENTS):
            files = []
            with ExitStack() as stack:
                for path in self.segments[start : start + MAX_OPEN_SEGMENTS]:
                    file = _open_if_exists(path)
                    if file is not None:
                        files.append((path, stack.enter_context(file)))
                yield from files

    @property
    def size(self) -> int:
        """The number of bytes on disk, over all segments."""
        return total_size(self.segments)


def first_record(items: Sequence[Frame | Record | Damage]) -> tuple[int, Record] | None:
    """Returns the first record, with its position among the items, or None if there is none."""
    return next(((position, item) for position, item in enumerate(items) if isinstance(item, Record)), None)


def unreadable_cause(first: Record, capture: object) -> Cause | None:
    """Returns why a segment with this first record cannot be read as part of the capture, or None if it can."""
    if first.rec != "header":
        return None
    if (version_of(first) or FORMAT_VERSION + 1) > FORMAT_VERSION:
        return "version"
    return None if capture in (None, first.members.get("capture")) else "foreign"


def _cut_chunks(file: BinaryIO, cutter: Cutter[Item], size: int = CHUNK_BYTES) -> Iterator[list[Item]]:
    """Yield the items in a file up to its current size: a file that grows faster than it is read would never end."""
    remaining = os.fstat(file.fileno()).st_size
    while remaining > 0 and (chunk := file.read(min(size, remaining))):
        yield cutter.feed(chunk)
        remaining -= len(chunk)
        size = CHUNK_BYTES
    yield cutter.finish()


def upgraded_record(record: Record, version: int) -> Record:
    """Returns a record of an older format, converted to the current format."""
    return record if version == FORMAT_VERSION else record._replace(members=upgrade(record.members, version))


def open_capture(path: Path) -> BinaryIO:
    """Open one file for reading, without ever waiting for a FIFO or opening a device.

    Raises:
        NotACapture: the file cannot be opened, or is not a regular file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NotACapture(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotACapture(f"cannot read {path}: it is not a regular file")
    return open(fd, "rb", buffering=0)


def _open_if_exists(path: Path) -> BinaryIO | None:
    try:
        return open_capture(path)
    except NotACapture:
        if path.exists():
            raise
        return None


def read_frames(
    items: Iterable[Frame | Record | Damage], limit: int = MAX_READER_JUDGED_BYTES
) -> Iterator[Frame | Record | Damage]:
    """Yield all items of a capture, with its frames assembled."""
    if isinstance(items, Capture):
        items = items.frames()
    return (frame for _, frame in assemble(items, limit) if frame is not None)
