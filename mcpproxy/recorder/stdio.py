"""The stdio recorder: writes what the relay's taps see into a capture.

The hot path:

    chunk read ─→ ChannelTap.on_chunk ─→ LineSplitter ─→ verdicts and middles ─→ Writer ─→ kernel ─→ chunk handed on

Promises: before a chunk is handed on, the records of all frames that it completes are written. If writing fails or
hangs, the loss is counted and reported, and never hidden. This module opens no database and does not need `analysis`.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from captures.errors import CannotCreate
from captures.file import RING_BYTES, SEGMENT_BYTES, AppendError, CaptureFile, choose_path
from captures.journal import Journal
from captures.loss import PendingRecord
from captures.paths import captures_root, config_directory, safe_name
from captures.record import (
    faulty_members,
    frame_members,
    line_members,
    members,
    part_members,
    use_orjson,
)
from captures.recovery import Recovery
from captures.redact import Redactor, load_key, server_name
from captures.stdlib_judge import judge_before_forwarding
from captures.verdict import UNJUDGED, Direction, Envelope
from captures.writer import Fsync, Policy, RecordingStopped, Writer
from mcpproxy.recorder.capture_header import CaptureHeader, working_directory
from mcpproxy.recorder.faults import FaultReporter
from mcpproxy.recorder.process_events import (
    ProcessEvents,
    error_name,
    launch_failure_record,
    process_end_record,
    signal_name,
)
from mcpproxy.recorder.stderr_tap import StderrTap
from mcpproxy.relay.pump import EndCause, StallCause, StopRelaying
from mcpproxy.sanitise import sanitise
from mcpproxy.wire.lines import LinePiece, LineSplitter, first_lines_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.recorder.machine_name import MachineName

    Judge = Callable[..., Envelope]
    Middles = Callable[[Direction, list[bytes]], list[bytes]]


def write_stderr(message: str) -> None:
    """Write a line to stderr, or nothing if the write would block.

    A full pipe without a reader must not delay a session.
    """
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    try:
        if any(events & select.POLLOUT for _, events in poll.poll(0)):
            os.write(2, f"mcpproxy: {sanitise(message, None)}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


def middles_without_orjson(direction: Direction, lines: list[bytes]) -> list[bytes]:
    """Returns the same as `captures.envelope.lines_members`, without orjson."""
    return [line_members(direction, line, judge_before_forwarding(line, direction)) for line in lines]


class ChannelTap:
    """The tap on one direction of frames."""

    def __init__(self, recorder: StdioRecorder, direction: Direction) -> None:
        self.frames = 0
        self.bytes = 0
        self.missed_chunks = recorder.faults.unrecorded_traffic[direction]
        self._recorder = recorder
        self._writer = recorder.writer
        self._direction = direction
        self._lines = LineSplitter()
        self._parts_size = 0
        self._latest_range: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self.waiting_since_ns = 0

    def portion_size(self, data: bytes) -> int:
        """Returns how many bytes of a chunk to record at once."""
        return first_lines_size(data)

    def on_chunk(self, data: bytes) -> None:
        """Record the frames that `data` completes."""
        self._latest_range = None
        with self._lock:
            self.bytes += len(data)
            try:
                lines = self._lines.feed_complete(data)
                pieces = self._lines.feed(data) if lines is None else []
            except Exception as error:  # noqa: BLE001 - because of a bug, frames may lack verdicts, never records
                lines, pieces = None, []
                entries = self._unsplit_records(data, error)
            else:
                entries = [entry for piece in pieces for entry in self._records_of_piece(piece)]
                self.frames += len(lines or ())
        if lines is None:
            self._write_records(entries)
        elif lines:
            self._write_lines(lines)

    def _write_lines(self, lines: list[bytes]) -> None:
        """Records whole lines: directly if no other thread is writing, otherwise through the queue."""
        direction = self._direction
        try:
            middles = self._recorder.middles(direction, lines)
        except Exception:  # noqa: BLE001 - because of a bug, a frame may lack its verdict, never its record
            middles = [self._frame_middle(line) for line in lines]
        try:
            first_number = self._writer.try_append_batch("frame", middles, direction, map(len, lines), self)
        except RecordingStopped:
            self._recorder.stop_session()
            raise StopRelaying from None
        finally:
            self.waiting_since_ns = 0
        if first_number is None:
            self._write_records(
                [
                    PendingRecord("frame", middle, direction, len(line))
                    for middle, line in zip(middles, lines, strict=True)
                ]
            )
        else:
            self._latest_range = (first_number, first_number + len(lines) - 1)

    def _frame_middle(self, raw: bytes, *, delim: bytes = b"\n", whole: bool = True) -> bytes:
        """Returns the record of a frame without number and time; it names the fault if judging the frame failed."""
        try:
            verdict = self._recorder.judge(raw, self._direction, whole=whole)
            return frame_members(self._direction, raw, verdict, delim=delim, whole=whole)
        except Exception as error:  # noqa: BLE001 - because of a bug, a frame may lack its verdict, never its record
            self._recorder.faults.on_verdict_fault(error)
            return faulty_members(self._direction, raw, error, delim=delim, whole=whole)

    def _unsplit_records(self, data: bytes, error: Exception) -> list[PendingRecord]:
        """Returns records of the pending and the new bytes, not split; the next chunk begins a new frame."""
        self._recorder.faults.on_verdict_fault(error)
        pieces = [raw for raw in (self._lines.pending_bytes, data) if raw]
        self._lines = LineSplitter()
        self.frames += len(pieces)
        return [
            PendingRecord(
                "frame", faulty_members(self._direction, raw, error, delim=b"", whole=False), self._direction, len(raw)
            )
            for raw in pieces
        ]

    def _write_records(self, entries: list[PendingRecord]) -> None:
        if not entries:
            return
        try:
            first_number = self._writer.stage(entries)
            self._latest_range = (first_number, first_number + len(entries) - 1)
            self.waiting_since_ns = time.monotonic_ns()
            self._writer.write_staged()
        except RecordingStopped:
            self._recorder.stop_session()
            raise StopRelaying from None
        finally:
            self.waiting_since_ns = 0

    def _records_of_piece(self, piece: LinePiece, *, whole: bool = True) -> list[PendingRecord]:
        raw, size = piece.raw, len(piece.raw)
        if not piece.part_number:
            self.frames += 1
            return [
                PendingRecord("frame", self._frame_middle(raw, delim=piece.delim, whole=whole), self._direction, size)
            ]
        self._parts_size += size
        entries = [PendingRecord("part", part_members(self._direction, piece.part_number, raw), self._direction, size)]
        if piece.is_last:
            parts, self._parts_size = (piece.part_number, self._parts_size), 0
            self.frames += 1
            entries.append(
                PendingRecord(
                    "frame",
                    frame_members(self._direction, b"", UNJUDGED, delim=piece.delim, whole=whole, parts=parts),
                    self._direction,
                )
            )
        return entries

    def on_stall(self, waited_ns: int, cause: StallCause) -> None:
        """Record that the frames of the last chunk waited."""
        if self._latest_range is None:
            return
        first_number, last_number = self._latest_range
        stall = members(
            dir=self._direction,
            of=first_number,
            to=last_number if last_number != first_number else None,
            waited_ns=waited_ns,
            cause=cause,
        )
        self._write_records([PendingRecord("stall", stall)])

    def on_end(self, by: EndCause, error_number: int | None) -> None:
        """Record the unfinished last frame and the end of the direction."""
        self._write_records(
            [
                *self.rest(),
                PendingRecord(
                    "eof", members(dir=self._direction, by=by, bytes=self.bytes, errno=error_name(error_number))
                ),
            ]
        )

    def rest(self) -> list[PendingRecord]:
        """Returns the records of the last frame if it has no delimiter."""
        with self._lock:
            return [entry for piece in self._lines.finish() for entry in self._records_of_piece(piece, whole=False)]

    def on_failure(self, error: Exception) -> None:
        """Report a bug in the writer, after which this direction is no longer recorded."""
        self._recorder.faults.on_recording_fault(self._direction, error)


class StdioRecorder(ProcessEvents):
    """Records one stdio session into a capture; it is also the relay's observer."""

    def __init__(
        self,
        argv: list[bytes],
        environment: Mapping[bytes, bytes],
        *,
        name: str | None = None,
        capture: str | None = None,
        ring_bytes: int = RING_BYTES,
        fsync: Fsync = "1s",
        policy: Policy = "pass",
        keep_path: Sequence[str] = (),
        machine: MachineName | None,
    ) -> None:
        """Create the capture and write its header.

        Args:
            argv: the command that will be run; redacted before it is stored.
            environment: the environment of the command; redacted before it is stored.
            name: the server's name; None to guess it from `argv`.
            capture: a new file, or a directory; None for the default directory.
            ring_bytes: the maximum size of the capture; beyond it, the oldest segments are deleted.
            fsync: when to sync the capture to disk.
            policy: what to do when a record cannot be written.
            keep_path: URL path segments that the user wants stored in plain text.
            machine: the name of this machine.

        Raises:
            CaptureError: the capture has no directory, or cannot be created.
        """
        self.name = safe_name(name or server_name(argv))
        self.judge: Judge = judge_before_forwarding
        """Judges frames, without orjson until it is loaded."""
        self.middles: Middles = middles_without_orjson
        """Returns the records of whole lines without number and time, without orjson until it is loaded."""
        self.on_stop: Callable[[], None] = lambda: None
        self.on_segment: Callable[[int], None] = lambda _: None
        """Called with the number of each segment after the first."""
        wall_ns = time.time_ns()
        default_directory = "" if capture is not None else os.path.join(captures_root(), self.name)
        path = choose_path(capture, default_directory, wall_ns, write_stderr)
        redactor = Redactor(load_key(config_directory(), write_stderr), keep_path)
        header = CaptureHeader(
            "stdio",
            wall_ns,
            ["argv", "env"] if redactor.is_key_permanent else ["argv", "env", "key-not-kept"],
            [*([] if fsync == "1s" else [f"fsync={fsync}"]), *(["keep-path"] if keep_path else [])],
            machine,
            name=self.name,
            argv=redactor.redact_command(argv),
            cwd=working_directory(),
            env=redactor.redact_environment(environment),
        )
        segment_bytes = min(SEGMENT_BYTES, ring_bytes // 4)
        self._file = CaptureFile(path, segment_bytes=segment_bytes, ring_bytes=ring_bytes)
        try:
            journal = Journal()
            self.writer = Writer(
                self._file,
                header.segment_members,
                write_stderr,
                policy=policy,
                fsync=fsync,
                journal=journal,
                on_segment=lambda number: self.on_segment(number),
            )
        except (AppendError, RecordingStopped) as error:
            os.unlink(path)
            raise CannotCreate(
                f"cannot write to the capture {path}: {error}; choose another path with --capture"
            ) from error
        self.recovery = Recovery(self._file, journal)
        """Completes the capture in the guard if this process is killed."""
        super().__init__(self.writer, FaultReporter(self.writer, write_stderr))
        self.client = ChannelTap(self, "c2s")
        self.server = ChannelTap(self, "s2c")
        self.stderr = StderrTap(self.writer, self.faults)

    @property
    def path(self) -> str:
        """The path of the capture."""
        return self._file.path

    @property
    def taps(self) -> dict[int, ChannelTap | StderrTap]:
        """The tap of each file descriptor."""
        return {0: self.client, 1: self.server, 2: self.stderr}

    def spawned(self, pid: int, start: str | None) -> None:
        """Record that the server was started."""
        self.writer.start()
        super().spawned(pid, start)

    def running(self) -> None:
        """Load orjson alongside the traffic, so the first response does not wait 25 ms for the imports."""
        try:
            # The module that judges frames without orjson comes first, because it is needed if orjson is missing.
            import captures.exact_judge  # noqa: F401
            from captures.envelope import judge_before_forwarding as judge
            from captures.envelope import lines_members

            use_orjson()
            self.judge, self.middles = judge, lines_members
        except (ImportError, OSError) as error:  # an upgrade may remove mcpproxy's files at any time
            write_stderr(f"recording slowly, without orjson: {error}")

    def stuck(self) -> None:
        """Handle a write that hangs: from now on, records are only queued."""
        try:
            self.writer.degrade()
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy may lose records, but never ends the session
            self.faults.on_event_fault(error)

    def stop_session(self) -> None:
        """End the session, as the policy `stop_session` requires."""
        self.on_stop()

    def launch_failed(self, code: int) -> None:
        """Record that the command could not be run, and close the capture."""
        try:
            self.writer.start()
        except RuntimeError:  # the system allows no more threads, which is also why the command could not be run
            return
        self.writer.post(launch_failure_record(code))
        self._close("failed", None, None)

    def finish(self, cause: str, status: int | None, signum: int | None) -> bool:
        """Record the end and close the capture; returns whether the capture is complete."""
        unfinished_entries = [
            entry for tap in (self.client, self.server, self.stderr) for entry in _unfinished_records(tap)
        ]
        end_record = process_end_record(status, signum)
        try:
            self.writer.post(*unfinished_entries, end_record)
            return self._close(cause, status, signum)
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy must not change how the session ends
            self.faults.on_event_fault(error)
            return False

    def _close(self, ending: str, status: int | None, signum: int | None) -> bool:
        self.faults.write_off_traffic()

        def close_record() -> PendingRecord:
            loss = self.writer.total_loss
            totals = {
                "c2s": {"frames": self.client.frames, "bytes": self.client.bytes},
                "s2c": {"frames": self.server.frames, "bytes": self.server.bytes},
                "stderr": {"bytes": self.stderr.bytes, "recorded": self.stderr.recorded_bytes},
                "lost": {"records": loss.record_count, "bytes": loss.byte_count},
            }
            text = members(
                ending=ending,
                status=status,
                signal=signal_name(signum),
                totals=totals,
                durable_seq=self.writer.durable_seq,
            )
            return PendingRecord("close", text)

        return self.writer.close(close_record)


def _unfinished_records(tap: ChannelTap | StderrTap) -> list[PendingRecord]:
    try:
        return tap.rest()
    except Exception as error:  # noqa: BLE001 - a bug in mcpproxy must not change how the session ends
        tap.on_failure(error)
        return []
