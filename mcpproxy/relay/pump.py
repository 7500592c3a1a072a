"""Moves one direction of a stream: reads a chunk, shows it to the tap, and hands it on, even if the tap hangs.

Promises: bytes leave as they arrived, at once, regardless of their content. A tap that waits for the disk delays its
own chunk by at most 25 ms, and no other chunk. A tap that raises is switched off, and traffic continues.

A pump that is stuck in its tap cannot be interrupted, so the rescuer takes its chunk away and gives it to a new thread.
`turn` says which thread owns the stream: a thread that returns from the tap after its turn is over stops.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, Protocol

    Ender = Literal["sender", "receiver", "error"]
    Cause = Literal["receiver", "recorder"]
else:
    Ender = Cause = str
    Protocol = object

MAX_CHUNK_BYTES: Final = 64 << 10
MAX_UNDIVIDED_BYTES: Final = 512
"""The maximum size of chunks that are always shown as a whole, without asking the tap for a portion."""
MAX_WAIT_NS: Final = 15_000_000
MAX_SYNC_WAIT_NS: Final = 1_000_000_000
"""The time after which a tap counts as stuck if it waits until its records are on disk."""
CHECK_INTERVAL_S: Final = 0.01
MAX_QUIET_CHECKS: Final = 100
MIN_STALL_NS: Final = 1_000_000
_READER_GONE_ERRNOS: Final = frozenset({errno.EPIPE, errno.ECONNRESET})
MAX_CHECK_DELAY_NS: Final = 20_000_000
"""If more time than this passes between two checks of the rescuer, it was not scheduled in time."""


class StopRelaying(Exception):
    """Raised by a tap to stop all forwarding."""


class ChunkCounter(Protocol):
    """Counts chunks that are not recorded."""

    def add(self, data: bytes) -> None:
        """Count one more chunk."""


class Tap(Protocol):
    """Sees one direction of a stream; called by one thread at a time, except during a call that waits for the disk."""

    waiting_since_ns: int
    """When the running call began to wait for the disk, on the monotonic clock; 0 if it is not waiting.

    Only from then on may the chunk be taken away and later chunks be shown, because its record already has a number.
    """

    def portion(self, data: bytes) -> int:
        """Returns how many of these bytes to show at once, at least one, so that forwarding is not delayed."""

    def chunk(self, data: bytes) -> None:
        """Called with bytes that were read and are about to be forwarded.

        Raises:
            StopRelaying: the bytes must not be forwarded.
        """

    def stalled(self, waited_ns: int, cause: Cause) -> None:
        """Called when the last chunk waited to be forwarded."""

    def ended(self, by: Ender, error: int | None) -> None:
        """Called when the direction has ended; `error` is an errno if a read or a write to an open receiver failed."""

    def failed(self, error: Exception) -> None:
        """Called when the tap itself raised, which is a bug; from now on, the pump only adds chunks to `missed`."""

    @property
    def missed(self) -> ChunkCounter:
        """The counter of traffic after `failed` was called."""


class Pump:
    """Moves one direction of a stream until one of its ends is closed."""

    def __init__(self, name: str, source: int, sink: int, tap: Tap, finish: Callable[[], None]) -> None:
        """Create a pump that moves nothing until `start`.

        Args:
            name: the name of the thread.
            source: the descriptor to read, blocking or not; its flags are never changed.
            sink: the descriptor to write, blocking or not; its flags are never changed.
            tap: the tap that sees all bytes.
            finish: closes both ends in a way that passes on how the direction ended.
        """
        self.name = name
        self.source = source
        self.sink = sink
        self.tap = tap
        self.finish = finish
        self.read_bytes = 0
        """The number of bytes read so far."""
        self.delivered_bytes = 0
        """The number of bytes forwarded so far."""
        self.tap_calls = 0
        self.thread_id = 0
        """The system's id of the thread that reads."""
        self.is_broken = False
        """Whether the stream no longer has a reader, or cannot be written."""
        self.write_errno: int | None = None
        """The errno of a failed write if the reader still exists, for example because a device is full."""
        self.done = threading.Event()
        """Set when the direction has ended."""
        self._is_stopped = False
        self.is_in_tap = False
        """Whether a call of the tap is running."""
        self.rescuer: Rescuer | None = None
        self.max_wait_ns = MAX_WAIT_NS
        """How long the tap may wait for the disk before its chunk is taken away."""
        self._held: bytes | None = None
        """The data that the running call of the tap delays: a chunk, empty for the end of the stream, or None."""
        self._unshown_rest = b""
        """The rest of the current chunk, which has not been shown yet."""
        self._sink_poll = select.poll()
        self._sink_poll.register(sink, select.POLLOUT)
        self._turn = 0
        self._runner: threading.Thread
        self._lock = threading.Lock()
        self._is_tap_in_use = True

    def start(self) -> None:
        """Start moving bytes in a separate thread."""
        self._runner = threading.Thread(target=self._run, args=(self._turn,), name=self.name, daemon=True)
        self._runner.start()

    @property
    def is_running(self) -> bool:
        """Whether more may be forwarded: the stream has not ended, and has a reader and a running thread."""
        return not (self.done.is_set() or self.is_broken or self._is_stopped) and self._runner.is_alive()

    def stop(self) -> None:
        """Stop forwarding, except for bytes that were already shown to the tap."""
        with self._lock:
            self._is_stopped = True
            self._turn += 1

    def end_from_outside(self, by: Ender) -> None:
        """End the direction from outside, even if its thread is waiting."""
        with self._lock:
            is_taken_over = self._take_over(self._run_cut, by)
        if not is_taken_over:
            self.stop()
            self._end()

    def _run_cut(self, turn: int, by: Ender) -> None:
        if self._call_tap(turn, self.tap.ended, by, None):
            self._end()

    def is_stuck(self, now_ns: int) -> bool:
        """Returns whether the tap has been waiting for the disk for too long."""
        since_ns = self.tap.waiting_since_ns
        return bool(since_ns) and now_ns - since_ns > self.max_wait_ns

    def rescue(self, now_ns: int) -> bool:
        """Take the chunk from a thread that is stuck in the tap, and let a new thread forward it.

        Returns False if no thread is stuck, or if the system cannot create a thread.
        """
        with self._lock:
            if not self.is_stuck(now_ns):
                return False
            since_ns, self.tap.waiting_since_ns = self.tap.waiting_since_ns, 0
            is_taken_over = self._take_over(self._run_rescued, self._held, self._unshown_rest, now_ns - since_ns)
            if not is_taken_over:
                self.tap.waiting_since_ns = since_ns
            return is_taken_over

    def _take_over(self, task: Callable[..., None], *args: object) -> bool:
        """Give the stream to a new thread, with the lock held; returns False if the system cannot create a thread."""
        was_tapping = self.is_in_tap
        self._turn += 1
        # The running call no longer delays anything, so it need not be supervised.
        self.is_in_tap = False
        thread = threading.Thread(target=task, args=(self._turn, *args), name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._turn -= 1
            self.is_in_tap = was_tapping
            return False
        self._runner = thread
        return True

    def _run_rescued(self, turn: int, chunk: bytes | None, unshown_rest: bytes, waited_ns: int) -> None:
        if chunk == b"":
            self._end()
            return
        if chunk is not None:
            self._unshown_rest = unshown_rest
            if not self._hand_on(turn, chunk) or not self._call_tap(turn, self.tap.stalled, waited_ns, "recorder"):
                return
        if not unshown_rest or self._show_and_forward(turn, unshown_rest):
            self._run(turn)

    def _run(self, turn: int) -> None:
        source, tap = self.source, self.tap
        self.thread_id = threading.get_native_id()
        while True:
            try:
                chunk = os.read(source, MAX_CHUNK_BYTES)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    _wait_for(source, select.POLLIN)
                    continue
                if self._call_tap(turn, tap.ended, "error", error.errno):
                    self._end()
                return
            if not chunk:
                if self._call_tap(turn, tap.ended, "sender", None):
                    self._end()
                return
            if self._turn != turn:
                return
            self.read_bytes += len(chunk)
            if not self._show_and_forward(turn, chunk):
                return

    def _show_and_forward(self, turn: int, chunk: bytes) -> bool:
        """Show and forward a chunk, in portions if necessary; returns False if this thread lost the stream."""
        while len(chunk) > MAX_UNDIVIDED_BYTES and (count := self._portion_size(chunk)) < len(chunk):
            portion, chunk = chunk[:count], chunk[count:]
            self._unshown_rest = chunk
            if not self._show_chunk(turn, portion) or not self._hand_on(turn, portion):
                return False
        self._unshown_rest = b""
        return self._show_chunk(turn, chunk) and self._hand_on(turn, chunk)

    def _portion_size(self, chunk: bytes) -> int:
        try:
            return self.tap.portion(chunk) if self._is_tap_in_use else len(chunk)
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the session
            self._switch_off_tap(error)
            return len(chunk)

    def _show_chunk(self, turn: int, chunk: bytes) -> bool:
        """Does the same as `_call_tap` for the call that every chunk needs, over a microsecond faster."""
        self._held = chunk
        self.tap_calls += 1
        self.is_in_tap = True
        if self.rescuer is not None and self.rescuer.is_asleep:
            self.rescuer.wake()
        if self._is_tap_in_use:
            try:
                self.tap.chunk(chunk)
            except StopRelaying:
                self.stop()
            except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the session
                self._switch_off_tap(error)
        else:
            self.tap.missed.add(chunk)
        with self._lock:
            if self._turn != turn:
                return False
            self.is_in_tap = False
        return True

    def _switch_off_tap(self, error: Exception) -> None:
        """Stop showing chunks to a tap that has failed; traffic continues even if the tap fails to report that."""
        self._is_tap_in_use = False
        try:
            self.tap.failed(error)
        except Exception:  # noqa: BLE001 - a bug in the recorder must not affect the session
            return

    def _call_tap(self, turn: int, call: Callable[..., None], *args: object) -> bool:
        """Calls the tap, supervised by the rescuer; returns False if this thread does not own the stream afterwards."""
        if not self._is_tap_in_use or self._turn != turn:
            return self._turn == turn
        self._held = b"" if call == self.tap.ended else None
        self.tap_calls += 1
        self.is_in_tap = True
        if self.rescuer is not None and self.rescuer.is_asleep:
            self.rescuer.wake()
        try:
            call(*args)
        except StopRelaying:
            self.stop()
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the session
            self._switch_off_tap(error)
        with self._lock:
            if self._turn != turn:
                return False
            self.is_in_tap = False
        return True

    def _hand_on(self, turn: int, chunk: bytes) -> bool:
        """Write a whole chunk; returns False if the reader is gone, or if this thread no longer owns the stream."""
        # Only a slow write that can block shows a slow receiver; otherwise, this thread itself was not scheduled.
        can_block = len(chunk) > select.PIPE_BUF or not self._sink_poll.poll(0)
        began_ns = time.monotonic_ns()
        try:
            count = os.write(self.sink, chunk)
            if count != len(chunk):
                _write_rest(self.sink, chunk, count)
        except OSError as error:
            failure: OSError | None = error
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                failure = self._write_patiently(chunk)
            if failure is not None:
                self.is_broken = True
                self.write_errno = None if failure.errno in _READER_GONE_ERRNOS else failure.errno
                if self._call_tap(turn, self.tap.ended, "receiver", self.write_errno):
                    self._end()
                return False
        self.delivered_bytes += len(chunk)
        waited_ns = time.monotonic_ns() - began_ns
        if can_block and waited_ns > MIN_STALL_NS and self._is_tap_in_use:
            return self._call_tap(turn, self.tap.stalled, waited_ns, "receiver")
        return True

    def _write_patiently(self, chunk: bytes) -> OSError | None:
        """Write a whole chunk to a descriptor that has been made non-blocking; returns the error, or None."""
        try:
            _write_rest(self.sink, chunk, 0)
        except OSError as error:
            return error
        return None

    def _end(self) -> None:
        # `done` is set first, because the thread that `finish` wakes checks it.
        self.done.set()
        self.finish()


def _write_rest(fd: int, chunk: bytes, written_bytes: int) -> None:
    """Write the rest of a chunk, and wait if the descriptor has been made non-blocking."""
    view = memoryview(chunk)
    while written_bytes < len(chunk):
        try:
            written_bytes += os.write(fd, view[written_bytes:])
        except BlockingIOError:
            _wait_for(fd, select.POLLOUT)


def _wait_for(fd: int, event: int) -> None:
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()


class Rescuer:
    """Checks every 10 ms whether a pump is stuck in its tap; sleeps when no traffic flows."""

    def __init__(self, pumps: Sequence[Pump], on_stuck: Callable[[], None]) -> None:
        """Supervise `pumps`; `on_stuck` is called before a chunk is taken away, after which taps must not wait."""
        self.is_asleep = True
        self._pumps = pumps
        self._on_stuck = on_stuck
        self._wake = threading.Event()
        for pump in pumps:
            pump.rescuer = self

    def start(self) -> None:
        """Start supervising the pumps in a separate thread."""
        threading.Thread(target=self._run, name="rescuer", daemon=True).start()

    def wake(self) -> None:
        """Resume the checks, because traffic flows."""
        self.is_asleep = False
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self._check_pumps()
            self.is_asleep = True
            # A pump that read `is_asleep` just before it changed did not call `wake`, so check once more.
            if any(pump.is_in_tap for pump in self._pumps):
                self.wake()

    def _report_stuck(self) -> None:
        try:
            self._on_stuck()
        except Exception:  # noqa: BLE001 - a bug in the recorder must not delay the session
            return

    def _check_pumps(self) -> None:
        quiet_checks, last_count = 0, -1
        was_late = False
        checked_ns = time.monotonic_ns()
        while quiet_checks < MAX_QUIET_CHECKS:
            time.sleep(CHECK_INTERVAL_S)
            previous_ns, now_ns = checked_ns, time.monotonic_ns()
            checked_ns = now_ns
            stuck_pumps = [pump for pump in self._pumps if pump.is_stuck(now_ns)]
            # If this thread wakes late, the machine is busy, and the pump is most likely late for the same reason, so
            # check once more.
            was_late = bool(stuck_pumps) and not was_late and now_ns - previous_ns > MAX_CHECK_DELAY_NS
            if was_late:
                stuck_pumps = []
            if stuck_pumps:
                self._report_stuck()
            for pump in stuck_pumps:
                pump.rescue(now_ns)
            count = sum(pump.tap_calls for pump in self._pumps)
            quiet_checks, last_count = (quiet_checks + 1, last_count) if count == last_count else (0, count)
            if any(pump.is_in_tap for pump in self._pumps):
                quiet_checks = 0
