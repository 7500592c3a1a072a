"""Export: a thread writes rows to a new file as the JSON lines of `show --json` while the screen stays usable."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import orjson

from captures.damage import Damage
from captures.frame import Frame
from captures.listing import segments, total_size
from captures.record import Record
from captures.tail import Tail
from mcpproxy.wording.json_lines import damage_members, escape_line, row_of, wall_of

STEP_BYTES: Final = 256 << 10
"""How many bytes of the capture are read at a time."""


class Export:
    """An export of some rows of a capture to a file, which is deleted if the export does not complete."""

    def __init__(self, capture: Path, rows: Sequence[int] | None, target: Path) -> None:
        """Create the file.

        Args:
            capture: the path of the capture.
            rows: the rows to export, ascending; None for all.
            target: the file; it must not exist.

        Raises:
            OSError: it cannot be created.
        """
        self.target = target
        self._rows = rows
        self.written_count = 0
        """How many rows have been written."""
        self.has_ended = False
        self._total_bytes = total_size(segments(capture))
        self._tail = Tail(capture, in_records=True)
        self._wall_ns = wall_of(self._tail.header)
        self._row = 0
        self._last_record: Record | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = os.fdopen(os.open(target, flags, 0o600), "wb")
        except OSError:
            self._tail.close()
            raise

    @property
    def share(self) -> float:
        """How much of the capture has been read, from 0 to 1."""
        return min(1.0, self._tail.read_bytes / max(1, self._total_bytes))

    def step(self) -> bool:
        """Write some rows; returns False once all are written.

        Raises:
            OSError: the file cannot be written; it has been deleted.
        """
        if self.has_ended:
            return False
        try:
            return self._step()
        except OSError:
            self.abandon()
            raise

    def _step(self) -> bool:
        items = self._tail.assembled_step(STEP_BYTES)
        for item, entry in items:
            if item is not None and entry is not None:
                assert not isinstance(item, Frame)
                self._feed(item, entry)
        is_complete = self._rows is not None and self.written_count == len(self._rows)
        is_over = is_complete or self._tail.has_ended or (self._tail.is_at_end and not items)
        if is_over:
            # A frame whose end was not recorded has only parts, and gets no line.
            self._file.close()
            self.has_ended = True
            self._tail.close()
        return not is_over

    def abandon(self) -> None:
        """Stop, and delete the file, unless all rows have been written."""
        if not self.has_ended:
            self.has_ended = True
            self._tail.close()
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self.target.unlink()

    def _feed(self, item: Record | Damage, entry: Frame | Record | Damage) -> None:
        row, self._row = self._row, self._row + 1
        rows = self._rows
        if rows is None or (self.written_count < len(rows) and rows[self.written_count] == row):
            self.written_count += 1
            if isinstance(item, Damage):
                line = escape_line(orjson.dumps(damage_members(item), default=str).decode())
            else:
                line = row_of(item, entry, self._wall_ns)
            self._file.write(line.encode() + b"\n")
