"""Records the lines that a server writes to stderr, within a quota that refills."""

from __future__ import annotations

import threading
import time

from captures.loss import PendingRecord
from captures.record import stderr_members
from captures.writer import RecordingStopped, Writer
from mcpproxy.wire.lines import LinePiece, LineSplitter, first_lines_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.recorder.faults import FaultReporter
    from mcpproxy.relay.pump import EndCause, StallCause

STDERR_QUOTA_BYTES: Final = 8 << 20
STDERR_REFILL_BYTES_PER_S: Final = 64 << 10
MAX_STDERR_PIECE_BYTES: Final = 64 << 10


class StderrTap:
    """The tap on the server's stderr, which records lines within a quota that refills, and counts the skipped bytes."""

    def __init__(self, writer: Writer, faults: FaultReporter, quota: int = STDERR_QUOTA_BYTES) -> None:
        self.bytes = 0
        self.recorded_bytes = 0
        self.missed_chunks = faults.unrecorded_traffic[None]
        self._writer = writer
        self._faults = faults
        self._lines = LineSplitter(MAX_STDERR_PIECE_BYTES)
        self._quota = self._quota_left = float(quota)
        self._refilled_at = time.monotonic()
        self._skipped_bytes = 0
        self._lock = threading.Lock()
        self.waiting_since_ns = 0

    def portion_size(self, data: bytes) -> int:
        """Returns how many bytes of a chunk to record at once."""
        return first_lines_size(data)

    def on_chunk(self, data: bytes) -> None:
        """Record the lines that `data` completes, as far as the quota allows."""
        with self._lock:
            self.bytes += len(data)
            entries = [entry for piece in self._lines.feed(data) for entry in self._records_of_piece(piece)]
        self._write_records(entries)

    def _records_of_piece(self, piece: LinePiece, *, whole: bool = True) -> list[PendingRecord]:
        size = len(piece.raw)
        now = time.monotonic()
        self._quota_left = min(self._quota, self._quota_left + (now - self._refilled_at) * STDERR_REFILL_BYTES_PER_S)
        self._refilled_at = now
        if size > self._quota_left:
            self._skipped_bytes += size
            return []
        self._quota_left -= size
        self.recorded_bytes += size + len(piece.delim)
        skipped_bytes, self._skipped_bytes = self._skipped_bytes, 0
        return [
            PendingRecord(
                "stderr", stderr_members(piece.raw, delim=piece.delim, whole=whole, skipped=skipped_bytes), None, size
            )
        ]

    def _write_records(self, entries: list[PendingRecord]) -> None:
        if entries:
            try:
                self._writer.stage(entries)
                self.waiting_since_ns = time.monotonic_ns()
                self._writer.write_staged()
            except RecordingStopped:
                return
            finally:
                self.waiting_since_ns = 0

    def on_stall(self, waited_ns: int, cause: StallCause) -> None:
        """Records nothing, because stalls of stderr are ignored."""

    def on_end(self, by: EndCause, error_number: int | None) -> None:  # noqa: ARG002 - how stderr ended is not recorded
        """Record the unfinished last line."""
        self._write_records(self.rest())

    def rest(self) -> list[PendingRecord]:
        """Returns the records of the last line if it has no delimiter."""
        with self._lock:
            return [entry for piece in self._lines.finish() for entry in self._records_of_piece(piece, whole=False)]

    def on_failure(self, error: Exception) -> None:
        """Report a bug in the writer, after which stderr is no longer recorded."""
        self._faults.on_recording_fault("stderr", error)
