"""ScriptReading: fills the table of a script from the one reading of its capture."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

from analysis.playback.endings import EndingObserver
from analysis.playback.items import Ending
from analysis.playback.matching import Matching
from analysis.playback.script_builder import ScriptBuilder
from analysis.playback.script_table import ScriptTable
from analysis.playback.stored_bytes import StoredBytes
from analysis.reading import Reading
from captures.damage import Damage
from captures.errors import CaptureError
from captures.file import is_live
from captures.frame import Frame
from captures.listing import segments, total_size
from captures.record import Record
from captures.tail import Tail

FIRST_READ_BYTES: Final = 8 << 10
"""How much of the file is read at first, so that the first items are there soon."""
READ_BYTES: Final = 64 << 10


class ScriptReading:
    """The reading of one capture, up to the end that the capture had when it was opened."""

    def __init__(self, path: Path, matching: Matching, table: ScriptTable, stored_bytes: StoredBytes) -> None:
        """Open a capture; nothing is read yet.

        Raises:
            CaptureError: there is nothing to read, it is not a capture, or a later version wrote it.
        """
        self._tail = Tail(path)
        self._reading = Reading()
        files = segments(path)
        self._reading.is_growing = is_live(files[-1])
        self._size_limit = total_size(files) if self._reading.is_growing else None
        self._builder = ScriptBuilder(self._reading, table, matching)
        self._observer = EndingObserver(self._reading)
        self._records = chain.from_iterable(self._read())
        self._bytes = stored_bytes

    @property
    def transport(self) -> str:
        """The transport that the header names; empty if it names none."""
        transport = self._tail.header.members.get("transport")
        return transport if isinstance(transport, str) else ""

    def grow(self, limit: int) -> Ending | None:
        """Read up to `limit` more records; return the ending if there are no more."""
        feed, on_step, on_other_step, count = self._reading.feed, self._builder.on_step, self._observer.on_step, 0
        for item in islice(self._records, limit):
            count += 1
            step = feed(item)
            on_step(step)
            if type(step.item) is not Frame:
                on_other_step(step)
            elif self._observer.is_redacted_copy:
                self._observer.on_frame_of_copy(step.item)
        return self._finish() if count < limit else None

    def close(self) -> None:
        """Close the files."""
        self._tail.close()

    def _finish(self) -> Ending:
        for step in self._reading.finish():
            self._builder.on_step(step)
        self._observer.note_parts(self._builder.abridged_count, self._builder.cut_count)
        self._tail.close()
        return self._observer.ending()

    def _read(self) -> Iterator[list[Frame | Record | Damage]]:
        """Yields the records, some at a time."""
        tail, size, known_segments = self._tail, FIRST_READ_BYTES, 0
        while not tail.has_ended:
            segment = len(tail.segments) - 1
            for path in tail.segments[known_segments:]:
                self._bytes.add_segment(path)
            known_segments = segment + 1
            try:
                items = tail.step(size)
            except (CaptureError, OSError):
                self._observer.note_failure()
                return
            self._builder.segment = segment
            yield items
            size = READ_BYTES
            if not items and tail.is_at_end:
                return
            if self._size_limit is not None and tail.read_bytes >= self._size_limit:
                return
