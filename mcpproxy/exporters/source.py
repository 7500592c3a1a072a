"""The source of an export: reads a capture once, reports its progress, and provides the facts of its header."""

from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.reading import Reading, Step
from captures.frame import Frame
from captures.identity import capture_id
from captures.reader import Capture
from captures.record import Record


class ExportSource:
    """One pass over a capture. Iterate over it once, for the steps of its reading."""

    def __init__(self, path: Path, on_bytes_read: Callable[[int], None] = lambda _: None) -> None:
        """Open a capture.

        Args:
            path: the capture.
            on_bytes_read: called with the size of each record that was read, in bytes.

        Raises:
            CaptureError: there is nothing to read, the file is not a capture, or a later version wrote it.
        """
        capture = Capture(path)
        self.path = path
        self.id = capture_id(capture)
        self.reading = Reading(capture)
        self._header, self._on_bytes_read = capture.header.members, on_bytes_read

    @property
    def name(self) -> str:
        """The name of the server, which is untrusted text; empty if there is none."""
        name = self._header.get("name")
        return name if isinstance(name, str) else ""

    @property
    def wall_ns(self) -> int | None:
        """The wall-clock time at stamp 0, in nanoseconds since 1970, if it is known."""
        wall_ns = self._header.get("wall_ns")
        return wall_ns if type(wall_ns) is int and 0 <= wall_ns < 1 << 63 else None

    def __iter__(self) -> Iterator[Step]:
        for step in self.reading.to_end():
            if isinstance(step.record, Frame | Record):
                self._on_bytes_read(step.record.line_size + 1)
            yield step
