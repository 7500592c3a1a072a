"""Runs a stdio server as if we were not there: the spawn, three pumps, signals, and ending as the server ends.

Promises: what the client or the system does to us happens to the server, and what the server does happens to the
client. A server that ends by itself takes nothing with it. If it ends with status 0 and leaves its stdin and stdout to
a descendant, as launchers do, it has handed them on, and traffic goes on until the descendant lets go. When the client
is gone, or a signal to end is ignored, the server and its descendants at that moment get TERM, then KILL.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import termios
import time
from collections.abc import Mapping
from functools import partial

from captures.tuples import NamedTuple
from mcpproxy.relay.guard import CaptureCompleter, Guard
from mcpproxy.relay.processes import Process, send, sleeps_at, start_time, tree, wait_or_kill
from mcpproxy.relay.pump import STUCK_NS, STUCK_SYNC_NS, Ender, Pump, Rescuer, Tap
from mcpproxy.relay.signals import ENDING, SignalWait
from mcpproxy.relay.spawn import SpawnError, cannot_start, close_inherited, spawn
from mcpproxy.relay.watch import ReaderWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, Protocol
else:
    # `signal` builds enums of all signal numbers, which takes 3 ms; this module does not.
    import _signal as signal

    Protocol = object

IGNORED_S: Final = 5.0
"""How long a server may ignore a terminating signal that we passed on."""
GONE_S: Final = 3.0
"""How long a server may keep running after its client is gone and its stdin is closed."""
GRACE_S: Final = 2.0
"""From TERM to KILL."""
UNREAD_S: Final = 3.0
"""How long unread stderr may delay the end; and stdout, once we were asked to end.

Counted from the last byte that was read.
"""
QUIET_S: Final = 0.1
"""How long the pipe of an ended server must be empty if a descendant holds it open."""
UNSURE_S: Final = 0.5
"""The same if the system does not say whether a thread still holds bytes that it read from that pipe."""
CHATTER_S: Final = 0.4
"""How long a descendant that keeps writing may delay the end."""
ORPHAN_LOOK_S: Final = 0.5


class ServerExit(NamedTuple):
    """How the server ended."""

    status: int | None
    """Its exit status, or None if a signal ended it."""
    signum: int | None
    cause: str
    """`server`, `client`, `signal` or `record_error`: who asked for the end."""
    unwritable: int | None
    """The errno with which stdout could not be written; None if it could be, or if only its reader is gone."""


class Observer(Protocol):
    """Sees what happens to the processes."""

    def spawned(self, pid: int, start: str | None) -> None:
        """The server runs. Called before any byte moves and before any thread starts."""

    def running(self) -> None:
        """Bytes are flowing. Slow preparation that can wait belongs here, in the main thread."""

    def received(self, signum: int, *, from_terminal: bool) -> None:
        """A signal arrived."""

    def sent(self, signum: int, reason: str, pids: list[int]) -> None:
        """The server, or its tree, was signalled."""

    def stuck(self) -> None:
        """A tap hangs: from now on, taps must not wait."""


class StdioRelay:
    """One run of one server."""

    def __init__(
        self,
        taps: Mapping[int, Tap],
        observer: Observer,
        waiting: SignalWait,
        *,
        closed: frozenset[int] = frozenset(),
        rescue: bool = True,
        waits_for_sync: bool = False,
        survivor: CaptureCompleter | None = None,
        files: int | None = None,
        only_output: bool = False,
    ) -> None:
        """Create a relay that has not started its server yet.

        Args:
            taps: 0, 1 and 2 → the taps of the client's, the server's and the error stream.
            observer: sees processes and signals.
            waiting: has blocked the signals.
            closed: which of 0, 1 and 2 we were started without.
            rescue: whether a hanging tap loses its chunk; otherwise traffic waits for it.
            waits_for_sync: whether taps return only once their records are on disk.
            survivor: completes the recording, in the guard, if we are killed.
            files: how many files the server may open, if we have raised that limit for ourselves.
            only_output: whether the server is not spoken to over stdio: then it has our stdin, and what it writes to
                stdout and stderr is relayed as one stream, to our stderr.
        """
        self.stop_reason: str | None = None
        self._taps = taps
        self._observer = observer
        self._waiting = waiting
        self._closed = closed
        self._rescue = rescue
        self._stuck_ns = STUCK_SYNC_NS if waits_for_sync else STUCK_NS
        self._survivor = survivor
        self._files = files
        self._guard: Guard | None = None
        self._pumps: dict[int, Pump] = {}
        self._parent = os.getppid()
        self._only_output = only_output
        self._for_a_process = not only_output and 1 not in closed and not _is_file(1)
        self._null = -1
        self._cut: set[int] = set()
        self._cause = "server"
        self._steps: list[tuple[float, int, str]] = []
        self._tree: list[Process] = []
        self.server = Process(0, "")

    def run(self, argv: list[bytes], environment: Mapping[bytes, bytes]) -> ServerExit:
        """Spawn the server, move its bytes, and return once it has ended and all its output is forwarded.

        Raises:
            SpawnError: it could not be run.
        """
        guard, ours, pid = self._start_server(argv, environment)
        self.server = Process(pid, start_time(pid) or "")
        try:
            self._observer.spawned(pid, self.server.start or None)
            self._start_pumps(ours)
        except RuntimeError as error:
            self._signal_server(signal.SIGKILL)
            guard.dismiss()
            raise cannot_start(argv, errno.EAGAIN, str(error)) from error
        self._guard = guard
        self._observer.running()
        status = self._wait_for_end(pid)
        if status == 0 and self._cause == "server" and self._is_spoken_to() and self._is_handed_on():
            guard.stand_down()
            self._wait_for_heirs()
        self._deliver_the_rest()
        if self._tree:
            wait_or_kill(self._tree, GRACE_S)
        guard.stand_down()
        for pump in self._pumps.values():
            pump.stop()
        signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        heard = self._pumps.get(1)
        unwritable = None if heard is None else heard.unwritable
        return ServerExit(None if signum else os.waitstatus_to_exitcode(status), signum, self._cause, unwritable)

    def _start_server(self, argv: list[bytes], environment: Mapping[bytes, bytes]) -> tuple[Guard, dict[int, int], int]:
        """Returns the guard, our ends of the server's pipes, and its pid; raises SpawnError if any is unavailable."""
        guard = None
        try:
            guard = Guard(self._survivor)
            self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            self._watch = ReaderWatch(1, self._lose_reader)
            ours, theirs = self._open_pipes()
            pid = spawn(
                argv,
                environment,
                theirs,
                self._waiting.dispositions,
                self._waiting.mask,
                announce=guard.watch_me,
                files=self._files,
            )
        except (SpawnError, OSError) as error:
            if guard is not None:
                guard.dismiss()
            if isinstance(error, SpawnError):
                raise
            raise cannot_start(argv, error.errno or errno.EAGAIN, error.strerror or str(error)) from error
        _forbid_core_dumps()
        close_inherited()
        for fd in set(theirs.values()):
            if fd is not None and fd > 2:  # our own stdin is ours
                os.close(fd)
        return guard, ours, pid

    def begin_segment(self, number: int) -> None:
        """The recording continues in another segment: the guard must know, in case it has to complete it."""
        if self._guard is not None:
            self._guard.follow(number)

    def dismiss_guard(self) -> None:
        """The recording is complete: nothing is left to do when we exit."""
        if self._guard is not None:
            self._guard.dismiss()

    def stop(self, reason: str) -> None:
        """End the session from inside, because traffic may not continue unrecorded."""
        self.stop_reason = reason
        self._waiting.interrupt()

    def _open_pipes(self) -> tuple[dict[int, int], dict[int, int | None]]:
        """Open a pipe for each of 0, 1 and 2 that we have; returns our ends and the server's.

        What is closed for us is closed for the server.
        """
        if self._only_output:
            read_end, write_end = os.pipe()
            return {2: read_end}, {0: None if 0 in self._closed else 0, 1: write_end, 2: write_end}
        ours: dict[int, int] = {}
        theirs: dict[int, int | None] = {}
        for fd in (0, 1, 2):
            if fd in self._closed:
                theirs[fd] = None
                continue
            read_end, write_end = os.pipe()
            ours[fd], theirs[fd] = (write_end, read_end) if fd == 0 else (read_end, write_end)
        return ours, theirs

    def _start_pumps(self, ours: Mapping[int, int]) -> None:
        for fd, pipe in ours.items():
            source, sink = (fd, pipe) if fd == 0 else (pipe, fd)
            name = ("client", "server", "stderr")[fd]
            self._pumps[fd] = Pump(name, source, sink, self._taps[fd], partial(self._end_of, source, sink))
            self._pumps[fd].stuck_ns = self._stuck_ns
        if self._rescue:
            Rescuer(list(self._pumps.values()), self._observer.stuck).start()
        for pump in self._pumps.values():
            pump.start()
        if 1 in self._pumps:
            self._watch.start()

    def _end_of(self, source: int, sink: int) -> None:
        """Pass on the end of a direction.

        A reader sees end of file; a writer that is still there sees a broken pipe.
        """
        for fd in (sink, source):
            if fd != 2:  # we may have something to report there ourselves
                self._let_go(fd)
        if sink == 1:
            self._watch.release()
        self._waiting.interrupt()

    def _let_go(self, fd: int) -> None:
        """Close what a descriptor refers to, and leave /dev/null in its place.

        The number stays in use: a thread that still holds it must never write traffic into what is opened next, for
        example a capture.
        """
        os.dup2(self._null, fd, inheritable=False)

    def _lose_reader(self) -> None:
        self._pumps[1].broken = True
        self._waiting.interrupt()

    @property
    def _unheard(self) -> bool:
        """Whether the server's output has no reader."""
        return 1 in self._pumps and self._pumps[1].broken

    def _wait_for_end(self, pid: int) -> int:
        while True:
            arrival = self._waiting.wait(self._patience())
            while arrival is not None:
                if arrival.signum != signal.SIGCHLD:
                    self._pass_on(arrival.signum, from_terminal=arrival.from_terminal)
                # Anything else that has arrived came before the end of the server, if that is what woke us.
                arrival = self._waiting.wait(0)
            status = _reap(pid)
            if status is not None:
                return status
            self._look_around()
            self._take_due_steps()

    def _patience(self) -> float | None:
        """The longest time to wait for the next signal."""
        waits = [at - time.monotonic() for at, _, _ in self._steps[:1]]
        if (self._unheard or not self._is_spoken_to()) and not self._steps and not self._only_output:
            waits.append(ORPHAN_LOOK_S)
        return min(waits, default=None)

    def _is_spoken_to(self) -> bool:
        """Whether our stdin is still open at the client's end."""
        return 0 in self._pumps and not self._pumps[0].done.is_set()

    def _pass_on(self, signum: int, *, from_terminal: bool) -> None:
        self._observer.received(signum, from_terminal=from_terminal)
        if from_terminal:
            return
        self._observer.sent(signum, "forwarded", self._signal_server(signum))
        if signum in ENDING:
            self._plan(IGNORED_S, "signal", "ignored")

    def _signal_server(self, signum: int) -> list[int]:
        """Signal the server itself, our child, not yet reaped: its pid cannot belong to another process."""
        try:
            os.kill(self.server.pid, signum)
        except OSError:
            return []
        return [self.server.pid]

    def _look_around(self) -> None:
        """Check whether the client is gone, or our own side wants to end."""
        if self.stop_reason is not None:
            self._hang_up()
            self._plan(GONE_S, self.stop_reason, self.stop_reason)
        elif self._is_client_gone():
            self._hang_up()
            self._plan(GONE_S, "client", "client_gone")
        elif self._unheard:
            self._cut_off(1, "receiver")

    def _is_client_gone(self) -> bool:
        """Whether the client has left both streams, as far as can be seen without writing.

        A client may stop reading and still write, or stop writing and still read. If its own end cannot be seen
        (another process holds the pipe too), it is gone when our parent has changed.
        """
        orphaned = os.getppid() != self._parent
        if self._is_spoken_to():
            return self._unheard and orphaned
        return self._unheard or (orphaned and self._for_a_process)

    def _hang_up(self) -> None:
        """Let the server see what it would see without us: end of file on stdin, and no reader on stdout."""
        self._cut_off(0, "sender")
        self._cut_off(1, "receiver")

    def _cut_off(self, number: int, by: Ender) -> None:
        pump = self._pumps.get(number)
        if pump is not None and number not in self._cut and not pump.done.is_set():
            self._cut.add(number)
            pump.cut(by)

    def _plan(self, patience_s: float, cause: str, reason: str) -> None:
        """Plan TERM for the server's tree after `patience_s`, and KILL after the grace; the earliest plan counts."""
        due = time.monotonic() + patience_s
        if self._cause == "server":
            self._cause = cause
        if not self._tree and (not self._steps or due < self._steps[0][0]):
            self._steps = [(due, signal.SIGTERM, reason), (due + GRACE_S, signal.SIGKILL, reason)]

    def _take_due_steps(self) -> None:
        while self._steps and self._steps[0][0] <= time.monotonic():
            _, signum, reason = self._steps.pop(0)
            self._tree = list(dict.fromkeys([*self._tree, *tree(self.server, *self._tree)]))
            others = [process for process in self._tree if process != self.server]
            self._observer.sent(signum, reason, [*self._signal_server(signum), *send(others, signum)])

    def _is_handed_on(self) -> bool:
        """Whether another process holds the server's stdin and stdout; only stdout if the client has closed stdin.

        It inherited them: the server itself is gone.
        """
        said, heard = self._pumps.get(0), self._pumps.get(1)
        if said is None or heard is None or not heard.goes_on or _events_of(heard.source) & select.POLLHUP:
            return False
        if said.done.is_set():
            return not said.broken
        return not _events_of(said.sink) & select.POLLERR

    def _wait_for_heirs(self) -> None:
        """Wait until the processes to which the server has handed its pipes let go of one, or the client of both.

        They are not our children, and without us no one would signal them either: a signal to us, or a client that
        leaves, only ends their stdin.
        """
        while self._is_handed_on():
            arrival = self._waiting.wait(ORPHAN_LOOK_S)
            while arrival is not None:
                if arrival.signum != signal.SIGCHLD:
                    self._observer.received(arrival.signum, from_terminal=arrival.from_terminal)
                if arrival.signum in ENDING:
                    self._cause = "signal"
                arrival = self._waiting.wait(0)
            _reap(self.server.pid)
            if self.stop_reason is not None or self._is_client_gone():
                self._cause = self.stop_reason or "client"
                self._hang_up()
            elif self._cause == "signal":
                self._cut_off(0, "sender")
            elif self._unheard:
                self._cut_off(1, "receiver")
            if self._cause != "server":
                return

    def _deliver_the_rest(self) -> None:
        """Forward what the server wrote before it ended and is still in its pipes.

        Do not wait for what a descendant may write later. If our own side wanted the end, stdout must no longer
        be forwarded: what cannot be recorded is not delivered.
        """
        for number, limit_s in ((1, UNREAD_S if self._cause == "signal" else None), (2, UNREAD_S)):
            pump = self._pumps.get(number)
            if pump is not None and not (number == 1 and self.stop_reason is not None):
                self._drain(pump, limit_s)

    def _drain(self, pump: Pump, limit_s: float | None) -> None:
        """Wait until a stream has ended or, if a descendant holds it open, until its content is forwarded.

        An empty pipe alone proves nothing: a thread may have read its last bytes and be waiting for a processor, for
        seconds on a busy machine. Without a writer, the thread reaches the end by itself. If a descendant writes too,
        the pipe must be empty while the thread sleeps in its read. If the descendant never falls silent, the bytes that
        were there at the start are enough; the estimate errs on the high side.
        """
        drain = _Drain(pump, limit_s)
        while pump.goes_on:
            arrival = self._waiting.wait(QUIET_S / 5)
            if arrival is not None and arrival.signum in ENDING:
                self._observer.received(arrival.signum, from_terminal=arrival.from_terminal)
                return
            if drain.is_over():
                return


def _events_of(fd: int) -> int:
    """What a poll reports of a descriptor by itself: POLLHUP if a pipe has no writer, POLLERR if it has no reader."""
    poll = select.poll()
    poll.register(fd, 0)
    return dict(poll.poll(0)).get(fd, 0)


class _Drain:
    """Decides whether to go on waiting for a pump, from what it has done so far."""

    def __init__(self, pump: Pump, limit_s: float | None) -> None:
        self._pump = pump
        self._limit_s = limit_s
        self._writers = select.poll()
        self._writers.register(pump.source, 0)
        self._unread, self._taken = _waiting_bytes(pump.source), pump.taken
        self._goal: int | None = None
        """The value of `delivered` with all bytes from the start; None until the thread has taken more."""
        self._began = self._quiet_since = self._progress_at = time.monotonic()
        self._delivered = pump.delivered

    def is_over(self) -> bool:
        """Look at the pump. Waiting is over if it is silent, has delivered the first content, or makes no progress."""
        pump = self._pump
        # In this order: bytes that arrive in between are later ones, and those that leave are held by the thread.
        is_empty = self._has_writers() and not _waiting_bytes(pump.source)
        sleeps = sleeps_at(pump.thread, pump.source)
        now = time.monotonic()
        if not is_empty or sleeps is False or pump.delivered != pump.taken:
            self._quiet_since = now
        if self._goal is None and pump.taken != self._taken:
            self._goal = pump.taken + self._unread
        is_silent = now - self._quiet_since >= (UNSURE_S if sleeps is None else QUIET_S)
        is_past_goal = self._goal is not None and now - self._began >= CHATTER_S and pump.delivered >= self._goal
        if pump.delivered != self._delivered:
            self._delivered, self._progress_at = pump.delivered, now
        is_stuck = self._limit_s is not None and now - self._progress_at >= self._limit_s
        return is_silent or is_past_goal or is_stuck

    def _has_writers(self) -> bool:
        """Whether any process holds the other end of the pipe."""
        return not self._writers.poll(0)


def _reap(wanted_pid: int) -> int | None:
    """Reap every child that has ended (as pid 1 we inherit others); returns the status of the wanted one.

    Returns None while it is alive.
    """
    status_of_wanted = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status_of_wanted
        if pid == 0:
            return status_of_wanted
        if pid == wanted_pid:
            status_of_wanted = status


def _waiting_bytes(fd: int) -> int:
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])
    except OSError:
        return 0


def _forbid_core_dumps() -> None:
    """Our core dump would contain traffic. Call it only after the spawn: limits are inherited."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _is_file(fd: int) -> bool:
    import stat

    mode = os.fstat(fd).st_mode
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)
