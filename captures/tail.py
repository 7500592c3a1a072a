"""Tail: reads the items that a capture has so far, step by step, for threads that must never wait.

The steps return the same items as `Capture.frames`, by the same rules for segments and versions; if a recorder is still
writing, later steps return the new items. Nothing here blocks: the caller decides how often to step, and how much to
read at a time.
"""

import os
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from captures.cutting import FrameCutter, LineCutter, version_of
from captures.damage import Damage
from captures.errors import NotACapture
from captures.file import is_live
from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.listing import segment_number, segments
from captures.reader import Capture, first_record, open_capture, unreadable_cause, upgraded_record
from captures.record import MAX_LINE_BYTES, Record
from captures.versions import FORMAT_VERSION

STEP: Final = 256 << 10
"""How many bytes a step reads: about 500 frames, which take a few milliseconds."""
MAX_OPEN_SEGMENTS: Final = 64
"""The most segments that are kept open, and so can be read after the recorder's ring has deleted them."""


class Tail:
    """Reads one capture from its beginning to its current end, and continues as it grows."""

    def __init__(self, path: Path | str, *, in_records: bool = False) -> None:
        """Read the first header.

        Args:
            path: the capture.
            in_records: return no frames, only records, as iterating over `Capture` does, for callers that need their
                lines.

        Raises:
            NotACapture, NewerFormat: as for `Capture`.
        """
        capture = Capture(path)
        self.path = capture.path
        self.header = capture.header
        self.segments: list[Path] = []
        """The paths of the segments so far. New items belong to the last one."""
        self.read_bytes = 0
        """How many bytes have been read, over all segments."""
        self.is_at_end = False
        """Whether the last step reached the current end."""
        self.has_ended = False
        """Whether no more items will come: no recorder is writing to the capture, and all of it has been read."""
        self._assembler = FrameAssembler()
        self._in_records = in_records
        self._versions: list[int] = []
        self._files: OrderedDict[int, BinaryIO] = OrderedDict()
        self._begin_segment(capture.segments[0])

    def _begin_segment(self, path: Path) -> None:
        self.segments.append(path)
        self._versions.append(0)
        self._cutter: LineCutter | FrameCutter = LineCutter(path) if self._in_records else FrameCutter(path)
        self._segment_offset = 0
        self._has_segment_ended = False
        # Reset this after the previous segment: a caller that stops at the end would otherwise stop between segments.
        self.is_at_end = False

    def step(self, size: int = STEP) -> list[Frame | Record | Damage]:
        """Read up to `size` bytes; return the items that they complete, all of one segment, or an empty list."""
        if self.has_ended:
            return []
        chunk = self._read(len(self.segments) - 1, size, self._segment_offset)
        self.is_at_end = not chunk
        if chunk:
            self._segment_offset += len(chunk)
            self.read_bytes += len(chunk)
            return self._upgrade_or_end([*self._cutter.feed(chunk)])
        if not self._has_segment_ended:
            # Check before reading: this ensures that everything the recorder wrote before releasing the file is read.
            self._has_segment_ended = not is_live(self.segments[-1])
            return self.step(size) if self._has_segment_ended else []
        return self._upgrade_or_end([*self._cutter.finish()], is_last=True)

    def assembled_step(
        self, size: int = STEP
    ) -> list[tuple[Frame | Record | Damage | None, Frame | Record | Damage | None]]:
        """Do the same as `step`, but return each item with its result; do not mix calls of the two methods."""
        had_ended, convert = self.has_ended, self._assembler.feed
        items: list[tuple[Frame | Record | Damage | None, Frame | Record | Damage | None]]
        items = [(item, convert(item)) for item in self.step(size)]
        if self.has_ended and not had_ended:
            items += [(None, frame) for frame in self._assembler.finish()]
        return items

    @property
    def versions(self) -> list[int]:
        """The format versions of the segments so far; 0 if unknown."""
        return self._versions

    def skip_to_end(self, versions: list[int], read_bytes: int) -> None:
        """Count all segments as read, because another tail has read them.

        Args:
            versions: the format versions of the segments.
            read_bytes: how many bytes the other tail has read.

        Raises:
            ValueError: the number of segments is different.
        """
        files = segments(self.path)
        if len(files) != len(versions):
            raise ValueError("the number of segments has changed")
        self.segments, self._versions, self.read_bytes = files, versions, read_bytes
        self.is_at_end = self.has_ended = True

    def read_line(self, segment: int, offset: int) -> bytes:
        """Returns the bytes from an offset to the next LF, at most `MAX_LINE_BYTES`; empty if the file is gone."""
        pieces: list[bytes] = []
        size, step = 0, 4 << 10
        while size <= MAX_LINE_BYTES and (chunk := self._read(segment, step, offset + size)):
            end = chunk.find(b"\n")
            pieces.append(chunk if end < 0 else chunk[:end])
            if end >= 0:
                break
            # Most lines are short, but a long one should not take a thousand reads.
            size, step = size + len(chunk), 1 << 20
        return b"".join(pieces)

    def read(self, segment: int, offset: int, size: int) -> bytes:
        """Returns bytes of a segment; fewer than `size` if it ends before, none if the file is gone."""
        return self._read(segment, size, offset)

    def version(self, segment: int) -> int:
        """Returns the format version of a segment."""
        return self._versions[segment] or FORMAT_VERSION

    def close(self) -> None:
        """Close the files; after this, nothing more can be read."""
        self.has_ended = True
        while self._files:
            self._files.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _upgrade_or_end(
        self, items: list[Frame | Record | Damage], *, is_last: bool = False
    ) -> list[Frame | Record | Damage]:
        """Upgrade items to the current format; if the segment cannot be read, replace the rest of it with damage.

        Args:
            items: the next items of the segment.
            is_last: whether these are the segment's last items, after which the next segment begins.
        """
        version = self._versions[-1]
        first = first_record(items) if not version else None
        if first is not None:
            position, record = first
            cause = unreadable_cause(record, self.header.members.get("capture"))
            if cause is not None:
                size = self._size(len(self.segments) - 1) - record.offset
                damage = Damage(self.segments[-1], record.offset, size, cause)
                self._continue_with_next_segment()
                return [*items[:position], damage]
            version = self._versions[-1] = version_of(record) or FORMAT_VERSION
        if version not in (0, FORMAT_VERSION):
            items = [upgraded_record(item, version) if isinstance(item, Record) else item for item in items]
        if is_last:
            self._continue_with_next_segment()
        return items

    def _continue_with_next_segment(self) -> None:
        """Continue with the next segment that the ring has not deleted."""
        number = segment_number(self.segments[-1])
        next_segment = next((path for path in segments(self.path) if segment_number(path) > number), None)
        if next_segment is None:
            self.has_ended = True
        else:
            self._begin_segment(next_segment)

    def _read(self, segment: int, size: int, offset: int) -> bytes:
        file = self._file(segment)
        try:
            return os.pread(file.fileno(), size, offset) if file is not None else b""
        except (OSError, ValueError):
            return b""

    def _size(self, segment: int) -> int:
        file = self._file(segment)
        return os.fstat(file.fileno()).st_size if file is not None else 0

    def _file(self, segment: int) -> BinaryIO | None:
        file = self._files.get(segment)
        if file is None:
            try:
                file = self._files[segment] = open_capture(self.segments[segment])
            except NotACapture:
                return None
            if len(self._files) > MAX_OPEN_SEGMENTS:
                self._files.popitem(last=False)[1].close()
        return file
