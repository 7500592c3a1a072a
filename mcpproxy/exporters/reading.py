"""Reads a capture for an export: its items in order, with the progress and the first damage."""

from collections.abc import Callable, Iterator
from pathlib import Path

from captures.file import is_live
from captures.frame import Frame
from captures.identity import capture_id
from captures.reader import Capture, Damage, FrameAssembler
from captures.record import Record


class Reading:
    """One pass over a capture. Iterate it once."""

    def __init__(self, path: Path, tell: Callable[[int], None] = lambda _: None) -> None:
        """Open a capture.

        Args:
            path: the capture.
            tell: called with the number of bytes of each record that was read.

        Raises:
            CaptureError: there is nothing to read, or it is not a capture, or a later version wrote it.
        """
        self._capture, self._tell = Capture(path), tell
        self.path = path
        self.id = capture_id(self._capture)
        """The id of the capture."""
        self.is_growing = is_live(self._capture.segments[-1])
        """Whether it is still being recorded; it is read up to its present end."""
        self.damage: Damage | None = None
        """The first damage so far; an unfinished record at the end is normal."""

    @property
    def name(self) -> str:
        """The name of the server in the capture; empty if there is none. Untrusted text."""
        name = self._capture.header.members.get("name")
        return name if isinstance(name, str) else ""

    @property
    def wall_ns(self) -> int | None:
        """The wall clock at stamp 0, if it is known."""
        wall_ns = self._capture.header.members.get("wall_ns")
        return wall_ns if type(wall_ns) is int and 0 <= wall_ns < 1 << 63 else None

    def __iter__(self) -> Iterator[Frame | Record | Damage]:
        """The frames, whole, and everything else in its place."""
        assembler = FrameAssembler()
        for item in self._capture:
            if isinstance(item, Record):
                self._tell(len(item.line) + 1)
            elif item.cause != "torn":
                self.damage = self.damage or item
            assembled = assembler.feed(item)
            if assembled is not None:
                yield assembled
        yield from assembler.end()
