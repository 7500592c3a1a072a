"""StoredBytes: reads the bytes of single records of a capture, whose files stay open."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from captures.cutting import record_in
from captures.errors import NotACapture
from captures.reader import open_capture
from captures.record import MAX_LINE_BYTES, Record, decode, raw_bytes

_FIRST_READ_BYTES: Final = 4 << 10
"""How much is read at first: most lines are shorter."""
_NEXT_READ_BYTES: Final = 1 << 20
MAX_OPEN_FILES: Final = 64
"""The maximum number of segments that stay open."""


class StoredBytes:
    """The segments of one capture. A segment that was opened can be read even if the recorder's ring deletes it."""

    def __init__(self) -> None:
        """Create an object that has no files open."""
        self._paths: list[Path] = []
        self._files: dict[int, BinaryIO] = {}
        self._is_closed = False

    def add_segment(self, path: Path) -> None:
        """Add the next segment."""
        self._paths.append(path)
        if len(self._files) < MAX_OPEN_FILES:
            self._file(len(self._paths) - 1)

    def forget_segments(self) -> None:
        """Forget the segments, because they are added again; open files stay open."""
        self._paths.clear()

    def close(self) -> None:
        """Close the files; after this, nothing can be read."""
        self._is_closed = True
        while self._files:
            self._files.popitem()[1].close()

    def raw_at(self, segment: int, offset: int, further: tuple[tuple[int, int], ...] = ()) -> bytes | None:
        """Returns the bytes that `Stored` locates; None if they cannot be read.

        Each place is a line of the message. A line in parts is followed by the places of its parts; of a line that was
        never completed, there are only the places of the parts.
        """
        places = iter(further)
        members = self.members_at(segment, offset)
        lines = []
        while members is not None:
            if members.get("rec") == "part":
                return self._joined(further)
            is_giant = "parts" in members
            line = self._joined(_next_places(places, members["parts"])) if is_giant else raw_bytes(members)
            if line is None:
                return None
            lines.append(line)
            place = next(places, None)
            if place is None:
                return lines[0] if len(lines) == 1 else b"\n".join(lines)
            members = self.members_at(*place)
        return None

    def members_at(self, segment: int, offset: int) -> dict[str, Any] | None:
        """Returns the members of the record at an offset; None if it is no longer there."""
        record = self._record_at(segment, offset)
        return None if record is None else record.members

    def _joined(self, places: tuple[tuple[int, int], ...]) -> bytes | None:
        pieces = []
        for segment, offset in places:
            members = self.members_at(segment, offset)
            piece = None if members is None else raw_bytes(members)
            if piece is None:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def _record_at(self, segment: int, offset: int) -> Record | None:
        file = self._file(segment)
        if file is None:
            return None
        pieces: list[bytes] = []
        size, step = 0, _FIRST_READ_BYTES
        try:
            while size <= MAX_LINE_BYTES and (chunk := os.pread(file.fileno(), step, offset + size)):
                end = chunk.find(b"\n")
                pieces.append(chunk if end < 0 else chunk[:end])
                if end >= 0:
                    break
                size, step = size + len(chunk), _NEXT_READ_BYTES
        except (OSError, ValueError):
            return None
        finally:
            if segment not in self._files:
                file.close()
        line = b"".join(pieces)
        return decode(line, offset, orjson.loads) or record_in(line, offset)

    def _file(self, segment: int) -> BinaryIO | None:
        file = self._files.get(segment)
        if file is None and segment < len(self._paths) and not self._is_closed:
            try:
                file = open_capture(self._paths[segment])
            except NotACapture:
                return None
            if len(self._files) < MAX_OPEN_FILES:
                self._files[segment] = file
        return file


def _next_places(places: Iterator[tuple[int, int]], count: object) -> tuple[tuple[int, int], ...]:
    """Returns the places of the parts of a line; fewer than it should have if some are lost."""
    number = count if type(count) is int else 0
    return tuple([place for _, place in zip(range(number), places, strict=False)])
