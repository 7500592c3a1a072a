"""Records the lines that a server writes to stderr, within a quota that refills."""

from __future__ import annotations

import threading
import time

from captures.loss import PendingRecord
from captures.record import stderr_members
from captures.writer import RecordingStopped, Writer
from mcpproxy.wire.lines import LineSplitter, Piece, first_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.recorder.faults import Faults
    from mcpproxy.relay.pump import Cause, Ender

STDERR_QUOTA: Final = 8 << 20
STDERR_REFILL: Final = 64 << 10
STDERR_PIECE: Final = 64 << 10


class StderrTap:
    """The tap on the server's stderr, which records lines within a quota that refills, and counts the skipped bytes."""

    def __init__(self, writer: Writer, faults: Faults, quota: int = STDERR_QUOTA) -> None:
        self.bytes = 0
        self.recorded = 0
        self.missed = faults.missed[None]
        self._writer = writer
        self._faults = faults
        self._lines = LineSplitter(STDERR_PIECE)
        self._quota = self._left = float(quota)
        self._looked = time.monotonic()
        self._skipped = 0
        self._lock = threading.Lock()
        self.waiting_since_ns = 0

    def portion(self, data: bytes) -> int:
        """Returns how many bytes of a chunk to record at once."""
        return first_lines(data)

    def chunk(self, data: bytes) -> None:
        """Records the lines that `data` completes, as far as the quota allows."""
        with self._lock:
            self.bytes += len(data)
            entries = [entry for piece in self._lines.feed(data) for entry in self._entries(piece)]
        self._add(entries)

    def _entries(self, piece: Piece, *, whole: bool = True) -> list[PendingRecord]:
        size = len(piece.raw)
        now = time.monotonic()
        self._left = min(self._quota, self._left + (now - self._looked) * STDERR_REFILL)
        self._looked = now
        if size > self._left:
            self._skipped += size
            return []
        self._left -= size
        self.recorded += size + len(piece.delim)
        skipped_bytes, self._skipped = self._skipped, 0
        return [
            PendingRecord(
                "stderr", stderr_members(piece.raw, delim=piece.delim, whole=whole, skipped=skipped_bytes), None, size
            )
        ]

    def _add(self, entries: list[PendingRecord]) -> None:
        if entries:
            try:
                self._writer.stage(entries)
                self.waiting_since_ns = time.monotonic_ns()
                self._writer.write_staged()
            except RecordingStopped:
                return
            finally:
                self.waiting_since_ns = 0

    def stalled(self, waited_ns: int, cause: Cause) -> None:
        """Records nothing, because stalls of stderr are ignored."""

    def ended(self, by: Ender, error: int | None) -> None:  # noqa: ARG002 - how stderr ended is not recorded
        """Records the unfinished last line."""
        self._add(self.rest())

    def rest(self) -> list[PendingRecord]:
        """Returns the records of the last line if it has no delimiter."""
        with self._lock:
            return [entry for piece in self._lines.finish() for entry in self._entries(piece, whole=False)]

    def failed(self, error: Exception) -> None:
        """Reports a bug in the writer, after which stderr is no longer recorded."""
        self._faults.in_recording("stderr", error)
