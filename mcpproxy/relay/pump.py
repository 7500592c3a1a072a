"""One direction of a stream: reads a chunk, shows it to the tap, hands it on; and the rescuer for taps that hang.

Promises: bytes come out as they went in, at once, regardless of their content; a tap that waits for the disk delays its
own chunk by 25 ms at most, and no other chunk; a tap that raises is switched off, and traffic continues.

A pump that is stuck in its tap cannot be interrupted, so the rescuer takes its chunk away and gives it to a new thread.
`turn` says which thread owns the stream: a thread that returns and finds that its turn is over stops.
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

CHUNK: Final = 64 << 10
UNDIVIDED: Final = 512
"""Chunks of at most this many bytes are shown whole, without asking the tap for a portion."""
STUCK_NS: Final = 15_000_000
STUCK_SYNC_NS: Final = 1_000_000_000
"""The same for a tap that waits until its records are on disk."""
LOOK_S: Final = 0.01
QUIET_LOOKS: Final = 100
STALL_NS: Final = 1_000_000
_READER_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET})
LATE_NS: Final = 20_000_000
"""If two checks by the rescuer are further apart than this, it was not scheduled in time."""


class StopRelaying(Exception):
    """Raised by a tap to stop all forwarding."""


class Counter(Protocol):
    """Counts chunks that are not recorded."""

    def add(self, data: bytes) -> None:
        """Count one more chunk."""


class Tap(Protocol):
    """Sees one direction. Called by one pump at a time, except during a call that waits for the disk."""

    waiting_since_ns: int
    """When the running call began to wait for the disk, on the monotonic clock; 0 if it is not waiting.

    From then on, and not before, the chunk may be taken away and later ones shown: its record has its place.
    """

    def portion(self, data: bytes) -> int:
        """Returns how many of these bytes to show at once, so that forwarding is not delayed for long; at least one."""

    def chunk(self, data: bytes) -> None:
        """Called with bytes that were read and are about to be forwarded.

        Raises:
            StopRelaying: they must not be forwarded.
        """

    def stalled(self, waited_ns: int, cause: Cause) -> None:
        """The chunk shown last waited this long to be forwarded."""

    def ended(self, by: Ender, error: int | None) -> None:
        """The direction has ended; `error` is an errno if reading failed, or writing to a receiver that is there."""

    def failed(self, error: Exception) -> None:
        """The tap itself raised, which is a bug; from now on the pump only adds chunks to `missed`."""

    @property
    def missed(self) -> Counter:
        """Counts the traffic after `failed` was called."""


class Pump:
    """Moves one direction until one of its ends is closed."""

    def __init__(self, name: str, source: int, sink: int, tap: Tap, finish: Callable[[], None]) -> None:
        """Create a pump that moves nothing until `start`.

        Args:
            name: the name of the thread.
            source: descriptor to read, blocking or not; flags are never changed.
            sink: descriptor to write, likewise.
            tap: sees what crosses.
            finish: closes both ends in a way that passes on how the direction ended.
        """
        self.name = name
        self.source = source
        self.sink = sink
        self.tap = tap
        self.finish = finish
        self.taken = 0
        """Bytes read so far."""
        self.delivered = 0
        """Bytes forwarded so far."""
        self.chunks = 0
        self.thread = 0
        """The system's id of the thread that reads."""
        self.broken = False
        """The stream no longer has a reader, or cannot be written."""
        self.unwritable: int | None = None
        """The errno with which writing failed, if not because the reader is gone: a full device, for example."""
        self.done = threading.Event()
        """Set when the direction has ended."""
        self._is_stopped = False
        self.tapping = False
        """A tap call is running."""
        self.rescuer: Rescuer | None = None
        self.stuck_ns = STUCK_NS
        """How long the tap may wait for the disk before its chunk is taken away."""
        self._held: bytes | None = None
        """The data that the running tap call delays: a chunk, the end (empty), or None."""
        self._rest = b""
        """The rest of the chunk that was read, not yet shown."""
        self._room = select.poll()
        self._room.register(sink, select.POLLOUT)
        self._turn = 0
        self._runner: threading.Thread
        self._lock = threading.Lock()
        self._wanted = True

    def start(self) -> None:
        """Begin to move bytes, in a thread of its own."""
        self._runner = threading.Thread(target=self._run, args=(self._turn,), name=self.name, daemon=True)
        self._runner.start()

    @property
    def goes_on(self) -> bool:
        """Whether more may be forwarded: the stream has not ended, has a reader, and has a thread that moves it."""
        return not (self.done.is_set() or self.broken or self._is_stopped) and self._runner.is_alive()

    def stop(self) -> None:
        """Forward nothing that has not already been shown to the tap."""
        with self._lock:
            self._is_stopped = True
            self._turn += 1

    def cut(self, by: Ender) -> None:
        """End the direction from outside, regardless of what its thread is waiting for."""
        with self._lock:
            taken = self._take_over(self._run_cut, by)
        if not taken:
            self.stop()
            self._end()

    def _run_cut(self, turn: int, by: Ender) -> None:
        if self._tapped(turn, self.tap.ended, by, None):
            self._end()

    def is_stuck(self, now_ns: int) -> bool:
        """Whether the tap has been waiting for the disk for too long."""
        since_ns = self.tap.waiting_since_ns
        return bool(since_ns) and now_ns - since_ns > self.stuck_ns

    def rescue(self, now_ns: int) -> bool:
        """Take the chunk from a thread that is stuck in the tap, and let a new thread forward it.

        Returns False if no thread is stuck.
        """
        with self._lock:
            if not self.is_stuck(now_ns):
                return False
            since_ns, self.tap.waiting_since_ns = self.tap.waiting_since_ns, 0
            taken = self._take_over(self._run_rescued, self._held, self._rest, now_ns - since_ns)
            if not taken:
                self.tap.waiting_since_ns = since_ns
            return taken

    def _take_over(self, task: Callable[..., None], *args: object) -> bool:
        """Give the stream to a new thread, with the lock held; returns False if the system cannot create a thread."""
        tapping = self.tapping
        self._turn += 1
        # The call that still runs no longer delays anything, so there is no reason to supervise it.
        self.tapping = False
        thread = threading.Thread(target=task, args=(self._turn, *args), name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._turn -= 1
            self.tapping = tapping
            return False
        self._runner = thread
        return True

    def _run_rescued(self, turn: int, chunk: bytes | None, rest: bytes, waited_ns: int) -> None:
        if chunk == b"":
            self._end()
            return
        if chunk is not None:
            self._rest = rest
            if not self._hand_on(turn, chunk) or not self._tapped(turn, self.tap.stalled, waited_ns, "recorder"):
                return
        if not rest or self._move(turn, rest):
            self._run(turn)

    def _run(self, turn: int) -> None:
        source, tap = self.source, self.tap
        self.thread = threading.get_native_id()
        while True:
            try:
                chunk = os.read(source, CHUNK)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    _wait_for(source, select.POLLIN)
                    continue
                if self._tapped(turn, tap.ended, "error", error.errno):
                    self._end()
                return
            if not chunk:
                if self._tapped(turn, tap.ended, "sender", None):
                    self._end()
                return
            if self._turn != turn:
                return
            self.taken += len(chunk)
            if not self._move(turn, chunk):
                return

    def _move(self, turn: int, chunk: bytes) -> bool:
        """Show a chunk and forward it, in portions if need be; returns False if the stream is no longer ours."""
        while len(chunk) > UNDIVIDED and (count := self._portion(chunk)) < len(chunk):
            portion, chunk = chunk[:count], chunk[count:]
            self._rest = chunk
            if not self._shown(turn, portion) or not self._hand_on(turn, portion):
                return False
        self._rest = b""
        return self._shown(turn, chunk) and self._hand_on(turn, chunk)

    def _portion(self, chunk: bytes) -> int:
        try:
            return self.tap.portion(chunk) if self._wanted else len(chunk)
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the session
            self._give_up(error)
            return len(chunk)

    def _shown(self, turn: int, chunk: bytes) -> bool:
        """Like `_tapped`, for the one call that every chunk makes: over a microsecond faster."""
        self._held = chunk
        self.chunks += 1
        self.tapping = True
        if self.rescuer is not None and self.rescuer.asleep:
            self.rescuer.wake()
        if self._wanted:
            try:
                self.tap.chunk(chunk)
            except StopRelaying:
                self.stop()
            except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the session
                self._give_up(error)
        else:
            self.tap.missed.add(chunk)
        with self._lock:
            if self._turn != turn:
                return False
            self.tapping = False
        return True

    def _give_up(self, error: Exception) -> None:
        """Show nothing more to a tap that has failed; even if it fails to report that, traffic continues."""
        self._wanted = False
        try:
            self.tap.failed(error)
        except Exception:  # noqa: BLE001 - the same
            return

    def _tapped(self, turn: int, call: Callable[..., None], *args: object) -> bool:
        """Call the tap, supervised by the rescuer; returns False if the stream is not, or is no longer, ours."""
        if not self._wanted or self._turn != turn:
            return self._turn == turn
        self._held = b"" if call == self.tap.ended else None
        self.chunks += 1
        self.tapping = True
        if self.rescuer is not None and self.rescuer.asleep:
            self.rescuer.wake()
        try:
            call(*args)
        except StopRelaying:
            self.stop()
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the session
            self._give_up(error)
        with self._lock:
            if self._turn != turn:
                return False
            self.tapping = False
        return True

    def _hand_on(self, turn: int, chunk: bytes) -> bool:
        """Write all of it; returns False if the reader is gone, or if the stream is no longer ours."""
        # Only a write that can block says anything about the receiver; otherwise it was this thread that did not run.
        can_block = len(chunk) > select.PIPE_BUF or not self._room.poll(0)
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
                self.broken = True
                self.unwritable = None if failure.errno in _READER_GONE else failure.errno
                if self._tapped(turn, self.tap.ended, "receiver", self.unwritable):
                    self._end()
                return False
        self.delivered += len(chunk)
        waited_ns = time.monotonic_ns() - began_ns
        if can_block and waited_ns > STALL_NS and self._wanted:
            return self._tapped(turn, self.tap.stalled, waited_ns, "receiver")
        return True

    def _write_patiently(self, chunk: bytes) -> OSError | None:
        """Write all of it to a descriptor that has been made non-blocking; returns the error, if there is one."""
        try:
            _write_rest(self.sink, chunk, 0)
        except OSError as error:
            return error
        return None

    def _end(self) -> None:
        # In this order: the thread that `finish` wakes checks `done`.
        self.done.set()
        self.finish()


def _write_rest(fd: int, chunk: bytes, done: int) -> None:
    """Write the rest of a chunk, waiting if the descriptor has been made non-blocking."""
    view = memoryview(chunk)
    while done < len(chunk):
        try:
            done += os.write(fd, view[done:])
        except BlockingIOError:
            _wait_for(fd, select.POLLOUT)


def _wait_for(fd: int, event: int) -> None:
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()


class Rescuer:
    """Sleeps while nothing flows; otherwise checks every 10 ms whether a pump is stuck in its tap."""

    def __init__(self, pumps: Sequence[Pump], on_stuck: Callable[[], None]) -> None:
        """`on_stuck` is called before any chunk is taken: from then on taps must not wait."""
        self.asleep = True
        self._pumps = pumps
        self._on_stuck = on_stuck
        self._wake = threading.Event()
        for pump in pumps:
            pump.rescuer = self

    def start(self) -> None:
        """Start supervising the pumps, in a thread of its own."""
        threading.Thread(target=self._run, name="rescuer", daemon=True).start()

    def wake(self) -> None:
        """Called when traffic flows."""
        self.asleep = False
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self._watch()
            self.asleep = True
            # A pump that read `asleep` just before did not wake us: check once more.
            if any(pump.tapping for pump in self._pumps):
                self.wake()

    def _sound_alarm(self) -> None:
        try:
            self._on_stuck()
        except Exception:  # noqa: BLE001 - a bug in the recorder must not hold up the session
            return

    def _watch(self) -> None:
        quiet, last_count = 0, -1
        was_late = False
        looked_ns = time.monotonic_ns()
        while quiet < QUIET_LOOKS:
            time.sleep(LOOK_S)
            before_ns, now_ns = looked_ns, time.monotonic_ns()
            looked_ns = now_ns
            stuck = [pump for pump in self._pumps if pump.is_stuck(now_ns)]
            # If we wake late, the machine is busy, and the pump is most likely late for the same reason: check once
            # more.
            was_late = bool(stuck) and not was_late and now_ns - before_ns > LATE_NS
            if was_late:
                stuck = []
            if stuck:
                self._sound_alarm()
            for pump in stuck:
                pump.rescue(now_ns)
            count = sum(pump.chunks for pump in self._pumps)
            quiet, last_count = (quiet + 1, last_count) if count == last_count else (0, count)
            if any(pump.tapping for pump in self._pumps):
                quiet = 0
