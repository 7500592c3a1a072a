"""Runs a stdio server as if mcpproxy were not there: spawns it, pumps its streams, and passes on signals and its end.

Promises: whatever the client or the system does to mcpproxy happens to the server, and whatever the server does happens
to the client. When a server ends by itself, its descendants are not signalled. If it ends with status 0 and leaves its
stdin and stdout to a descendant, as launchers do, traffic continues until the descendant closes them. When the client
is gone, or the server ignores a terminating signal, the server and its descendants at that moment get TERM, then KILL.
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
from mcpproxy.relay.processes import Process, is_sleeping_on, process_tree, send_signal, start_time, wait_or_kill
from mcpproxy.relay.pump import MAX_SYNC_WAIT_NS, MAX_WAIT_NS, Ender, Pump, Rescuer, Tap
from mcpproxy.relay.signals import TERMINATING_SIGNALS, SignalWait
from mcpproxy.relay.spawn import SpawnError, close_inherited, spawn, start_error
from mcpproxy.relay.watch import ReaderWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, Protocol
else:
    # `signal` builds enums of all signal numbers, which takes 3 ms; this module does not.
    import _signal as signal

    Protocol = object

MAX_IGNORED_SIGNAL_S: Final = 5.0
"""How long a server may ignore a terminating signal that was passed on to it."""
MAX_AFTER_CLIENT_S: Final = 3.0
"""How long a server may keep running after its client is gone and its stdin is closed."""
GRACE_S: Final = 2.0
"""The time between TERM and KILL."""
MAX_UNREAD_S: Final = 3.0
"""How long unread stderr may delay the end; after a terminating signal, the limit also applies to unread stdout.

The time is counted from the last byte that was read.
"""
MIN_QUIET_S: Final = 0.1
"""How long the pipe of a server that has ended must be empty if a descendant keeps it open."""
MIN_UNSURE_QUIET_S: Final = 0.5
"""How long it must be empty if the system does not say whether a thread still holds bytes that it read from the pipe.
"""
MAX_CHATTER_S: Final = 0.4
"""How long a descendant that keeps writing may delay the end."""
ORPHAN_CHECK_INTERVAL_S: Final = 0.5


class ServerExit(NamedTuple):
    """How the server ended."""

    status: int | None
    """The exit status of the server, or None if a signal ended it."""
    signum: int | None
    cause: str
    """The cause of the end: `server`, `client`, `signal` or `record_error`."""
    write_errno: int | None
    """The errno of a failed write to stdout, or None if no write failed or only the reader is gone."""


class ProcessObserver(Protocol):
    """Receives the events of processes and signals."""

    def spawned(self, pid: int, start: str | None) -> None:
        """Called when the server has been started, before any byte moves and before any thread starts."""

    def running(self) -> None:
        """Called in the main thread when bytes are flowing; slow preparation that can wait belongs here."""

    def received(self, signum: int, *, from_terminal: bool) -> None:
        """Called when a signal has arrived."""

    def sent(self, signum: int, reason: str, pids: list[int]) -> None:
        """Called when the server, or its process tree, has been signalled."""

    def stuck(self) -> None:
        """Called when a tap hangs; from now on, taps must not wait."""


class StdioRelay:
    """Relays one run of a server."""

    def __init__(
        self,
        taps: Mapping[int, Tap],
        observer: ProcessObserver,
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
            taps: the taps of stdin, stdout and stderr, by the descriptors 0, 1 and 2.
            observer: receives the events of processes and signals.
            waiting: the wait for signals, which has blocked them.
            closed: those of the descriptors 0, 1 and 2 that were closed when mcpproxy was started.
            rescue: whether the rescuer takes the chunk of a hanging tap; otherwise traffic waits for the tap.
            waits_for_sync: whether taps return only after their records are on disk.
            survivor: completes the recording in the guard if mcpproxy is killed.
            files: the limit on open files for the server, if mcpproxy has raised its own.
            only_output: whether the server does not speak MCP over stdio. Then it inherits stdin, and its stdout and
                stderr are relayed as one stream to stderr.
        """
        self.stop_reason: str | None = None
        self._taps = taps
        self._observer = observer
        self._signal_wait = waiting
        self._closed = closed
        self._rescues_chunks = rescue
        self._stuck_ns = MAX_SYNC_WAIT_NS if waits_for_sync else MAX_WAIT_NS
        self._completer = survivor
        self._file_limit = files
        self._guard: Guard | None = None
        self._pumps: dict[int, Pump] = {}
        self._parent = os.getppid()
        self._relays_only_output = only_output
        self._has_client_process = not only_output and 1 not in closed and not _is_file(1)
        self._null = -1
        self._cut_streams: set[int] = set()
        self._cause = "server"
        self._planned_steps: list[tuple[float, int, str]] = []
        self._signalled_tree: list[Process] = []
        self.server = Process(0, "")

    def run(self, argv: list[bytes], environment: Mapping[bytes, bytes]) -> ServerExit:
        """Run the server; returns its exit after it has ended and all its output is forwarded.

        Raises:
            SpawnError: the server could not be run.
        """
        guard, relay_ends, pid = self._start_server(argv, environment)
        self.server = Process(pid, start_time(pid) or "")
        try:
            self._observer.spawned(pid, self.server.start or None)
            self._start_pumps(relay_ends)
        except RuntimeError as error:
            self._signal_server(signal.SIGKILL)
            guard.dismiss()
            raise start_error(argv, errno.EAGAIN, str(error)) from error
        self._guard = guard
        self._observer.running()
        status = self._wait_for_end(pid)
        if status == 0 and self._cause == "server" and self._is_stdin_open() and self._has_heirs():
            guard.report_end()
            self._wait_for_heirs()
        self._forward_remaining_output()
        if self._signalled_tree:
            wait_or_kill(self._signalled_tree, GRACE_S)
        guard.report_end()
        for pump in self._pumps.values():
            pump.stop()
        signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        stdout_pump = self._pumps.get(1)
        unwritable = None if stdout_pump is None else stdout_pump.write_errno
        return ServerExit(None if signum else os.waitstatus_to_exitcode(status), signum, self._cause, unwritable)

    def _start_server(self, argv: list[bytes], environment: Mapping[bytes, bytes]) -> tuple[Guard, dict[int, int], int]:
        """Start the guard and the server; returns the guard, the relay's ends of the server's pipes, and its pid.

        Raises:
            SpawnError: the server could not be run, or the system lacks the resources.
        """
        guard = None
        try:
            guard = Guard(self._completer)
            self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            self._watch = ReaderWatch(1, self._on_reader_gone)
            relay_ends, server_ends = self._open_pipes()
            pid = spawn(
                argv,
                environment,
                server_ends,
                self._signal_wait.dispositions,
                self._signal_wait.inherited_mask,
                announce=guard.announce_server,
                files=self._file_limit,
            )
        except (SpawnError, OSError) as error:
            if guard is not None:
                guard.dismiss()
            if isinstance(error, SpawnError):
                raise
            raise start_error(argv, error.errno or errno.EAGAIN, error.strerror or str(error)) from error
        _forbid_core_dumps()
        close_inherited()
        for fd in set(server_ends.values()):
            if fd is not None and fd > 2:  # stdin, which the server may share, stays open
                os.close(fd)
        return guard, relay_ends, pid

    def report_segment(self, number: int) -> None:
        """Report to the guard that the recording continues in another segment, which it may have to complete."""
        if self._guard is not None:
            self._guard.report_segment(number)

    def dismiss_guard(self) -> None:
        """End the guard, because the recording is complete."""
        if self._guard is not None:
            self._guard.dismiss()

    def stop(self, reason: str) -> None:
        """End the session from inside, for example because traffic must not continue unrecorded."""
        self.stop_reason = reason
        self._signal_wait.interrupt()

    def _open_pipes(self) -> tuple[dict[int, int], dict[int, int | None]]:
        """Open a pipe for each of the descriptors 0, 1 and 2 that is open; returns the relay's ends and the server's.

        A descriptor that is closed for mcpproxy is also closed for the server.
        """
        if self._relays_only_output:
            read_end, write_end = os.pipe()
            return {2: read_end}, {0: None if 0 in self._closed else 0, 1: write_end, 2: write_end}
        relay_ends: dict[int, int] = {}
        server_ends: dict[int, int | None] = {}
        for fd in (0, 1, 2):
            if fd in self._closed:
                server_ends[fd] = None
                continue
            read_end, write_end = os.pipe()
            relay_ends[fd], server_ends[fd] = (write_end, read_end) if fd == 0 else (read_end, write_end)
        return relay_ends, server_ends

    def _start_pumps(self, relay_ends: Mapping[int, int]) -> None:
        for fd, pipe in relay_ends.items():
            source, sink = (fd, pipe) if fd == 0 else (pipe, fd)
            name = ("client", "server", "stderr")[fd]
            self._pumps[fd] = Pump(name, source, sink, self._taps[fd], partial(self._pass_on_end, source, sink))
            self._pumps[fd].max_wait_ns = self._stuck_ns
        if self._rescues_chunks:
            Rescuer(list(self._pumps.values()), self._observer.stuck).start()
        for pump in self._pumps.values():
            pump.start()
        if 1 in self._pumps:
            self._watch.start()

    def _pass_on_end(self, source: int, sink: int) -> None:
        """Pass on the end of a direction.

        A reader sees the end of file; a writer that still exists sees a broken pipe.
        """
        for fd in (sink, source):
            if fd != 2:  # mcpproxy itself may have to report something on stderr
                self._replace_with_null(fd)
        if sink == 1:
            self._watch.stop()
        self._signal_wait.interrupt()

    def _replace_with_null(self, fd: int) -> None:
        """Close the file of a descriptor, and leave /dev/null in its place.

        The number stays in use, because a thread that still uses it must never write traffic into a file that is opened
        later, such as a capture.
        """
        os.dup2(self._null, fd, inheritable=False)

    def _on_reader_gone(self) -> None:
        self._pumps[1].is_broken = True
        self._signal_wait.interrupt()

    @property
    def _has_lost_reader(self) -> bool:
        """Whether the server's output has no reader."""
        return 1 in self._pumps and self._pumps[1].is_broken

    def _wait_for_end(self, pid: int) -> int:
        while True:
            arrival = self._signal_wait.wait_for_signal(self._max_wait_s())
            while arrival is not None:
                if arrival.signum != signal.SIGCHLD:
                    self._forward_signal(arrival.signum, from_terminal=arrival.is_from_terminal)
                # Signals that have already arrived came before the end of the server, so they are passed on first.
                arrival = self._signal_wait.wait_for_signal(0)
            status = _reap(pid)
            if status is not None:
                return status
            self._check_client()
            self._take_due_steps()

    def _max_wait_s(self) -> float | None:
        """Returns the maximum time to wait for the next signal, or None to wait without a limit."""
        waits = [due - time.monotonic() for due, _, _ in self._planned_steps[:1]]
        if (
            (self._has_lost_reader or not self._is_stdin_open())
            and not self._planned_steps
            and not self._relays_only_output
        ):
            waits.append(ORPHAN_CHECK_INTERVAL_S)
        return min(waits, default=None)

    def _is_stdin_open(self) -> bool:
        """Returns whether the client's end of stdin is still open."""
        return 0 in self._pumps and not self._pumps[0].done.is_set()

    def _forward_signal(self, signum: int, *, from_terminal: bool) -> None:
        self._observer.received(signum, from_terminal=from_terminal)
        if from_terminal:
            return
        self._observer.sent(signum, "forwarded", self._signal_server(signum))
        if signum in TERMINATING_SIGNALS:
            self._plan_kill(MAX_IGNORED_SIGNAL_S, "signal", "ignored")

    def _signal_server(self, signum: int) -> list[int]:
        """Signal the server itself; its pid cannot belong to another process, because it has not been reaped yet."""
        try:
            os.kill(self.server.pid, signum)
        except OSError:
            return []
        return [self.server.pid]

    def _check_client(self) -> None:
        """Check whether the client is gone, or mcpproxy itself must end the session."""
        if self.stop_reason is not None:
            self._close_streams()
            self._plan_kill(MAX_AFTER_CLIENT_S, self.stop_reason, self.stop_reason)
        elif self._is_client_gone():
            self._close_streams()
            self._plan_kill(MAX_AFTER_CLIENT_S, "client", "client_gone")
        elif self._has_lost_reader:
            self._cut_stream(1, "receiver")

    def _is_client_gone(self) -> bool:
        """Returns whether the client has closed both streams, as far as can be determined without writing.

        A client may stop reading and still write, or stop writing and still read. If its own end cannot be observed,
        because another process holds the pipe open, too, the client is gone when the parent of mcpproxy has changed.
        """
        is_orphaned = os.getppid() != self._parent
        if self._is_stdin_open():
            return self._has_lost_reader and is_orphaned
        return self._has_lost_reader or (is_orphaned and self._has_client_process)

    def _close_streams(self) -> None:
        """Let the server see what it would see without mcpproxy: end of file on stdin, and no reader on stdout."""
        self._cut_stream(0, "sender")
        self._cut_stream(1, "receiver")

    def _cut_stream(self, number: int, by: Ender) -> None:
        pump = self._pumps.get(number)
        if pump is not None and number not in self._cut_streams and not pump.done.is_set():
            self._cut_streams.add(number)
            pump.end_from_outside(by)

    def _plan_kill(self, patience_s: float, cause: str, reason: str) -> None:
        """Plan TERM for the server's tree after `patience_s`, and KILL after the grace; the earliest plan counts."""
        due = time.monotonic() + patience_s
        if self._cause == "server":
            self._cause = cause
        if not self._signalled_tree and (not self._planned_steps or due < self._planned_steps[0][0]):
            self._planned_steps = [(due, signal.SIGTERM, reason), (due + GRACE_S, signal.SIGKILL, reason)]

    def _take_due_steps(self) -> None:
        while self._planned_steps and self._planned_steps[0][0] <= time.monotonic():
            _, signum, reason = self._planned_steps.pop(0)
            self._signalled_tree = list(
                dict.fromkeys([*self._signalled_tree, *process_tree(self.server, *self._signalled_tree)])
            )
            others = [process for process in self._signalled_tree if process != self.server]
            self._observer.sent(signum, reason, [*self._signal_server(signum), *send_signal(others, signum)])

    def _has_heirs(self) -> bool:
        """Returns whether another process has inherited stdin and stdout of the server, which has ended.

        If the client has closed stdin, stdout alone counts.
        """
        stdin_pump, stdout_pump = self._pumps.get(0), self._pumps.get(1)
        if (
            stdin_pump is None
            or stdout_pump is None
            or not stdout_pump.is_running
            or _events_of(stdout_pump.source) & select.POLLHUP
        ):
            return False
        if stdin_pump.done.is_set():
            return not stdin_pump.is_broken
        return not _events_of(stdin_pump.sink) & select.POLLERR

    def _wait_for_heirs(self) -> None:
        """Wait until the processes that inherited the server's pipes close one of them, or the client closes both.

        These processes are not children of mcpproxy, and without mcpproxy they would not be signalled, either. So a
        signal to mcpproxy, or the end of the client, only ends their stdin.
        """
        while self._has_heirs():
            arrival = self._signal_wait.wait_for_signal(ORPHAN_CHECK_INTERVAL_S)
            while arrival is not None:
                if arrival.signum != signal.SIGCHLD:
                    self._observer.received(arrival.signum, from_terminal=arrival.is_from_terminal)
                if arrival.signum in TERMINATING_SIGNALS:
                    self._cause = "signal"
                arrival = self._signal_wait.wait_for_signal(0)
            _reap(self.server.pid)
            if self.stop_reason is not None or self._is_client_gone():
                self._cause = self.stop_reason or "client"
                self._close_streams()
            elif self._cause == "signal":
                self._cut_stream(0, "sender")
            elif self._has_lost_reader:
                self._cut_stream(1, "receiver")
            if self._cause != "server":
                return

    def _forward_remaining_output(self) -> None:
        """Forward the output that the server wrote before it ended and that is still in its pipes.

        Output that a descendant writes later is not waited for. If mcpproxy itself ended the session, stdout is no
        longer forwarded, because output that cannot be recorded must not be delivered.
        """
        for number, limit_s in ((1, MAX_UNREAD_S if self._cause == "signal" else None), (2, MAX_UNREAD_S)):
            pump = self._pumps.get(number)
            if pump is not None and not (number == 1 and self.stop_reason is not None):
                self._drain_pump(pump, limit_s)

    def _drain_pump(self, pump: Pump, limit_s: float | None) -> None:
        """Wait until a stream has ended or, if a descendant keeps it open, until its content is forwarded.

        An empty pipe alone proves nothing: on a busy machine, a thread may have read the last bytes and then wait for a
        processor for seconds. If the pipe has no writer, the thread reaches the end by itself. If a descendant can
        write, the pipe must be empty while the thread sleeps in its read. If the descendant never stops writing, the
        bytes that were in the pipe at the start are enough; their estimated number may be too high, but not too low.
        """
        drain = _DrainProgress(pump, limit_s)
        while pump.is_running:
            arrival = self._signal_wait.wait_for_signal(MIN_QUIET_S / 5)
            if arrival is not None and arrival.signum in TERMINATING_SIGNALS:
                self._observer.received(arrival.signum, from_terminal=arrival.is_from_terminal)
                return
            if drain.is_over():
                return


def _events_of(fd: int) -> int:
    """Returns the events that a poll always reports: POLLHUP if a pipe has no writer, POLLERR if it has no reader."""
    poll = select.poll()
    poll.register(fd, 0)
    return dict(poll.poll(0)).get(fd, 0)


class _DrainProgress:
    """Decides whether to keep waiting for a pump, from its progress so far."""

    def __init__(self, pump: Pump, limit_s: float | None) -> None:
        self._pump = pump
        self._limit_s = limit_s
        self._writers = select.poll()
        self._writers.register(pump.source, 0)
        self._unread, self._read_bytes = _unread_bytes(pump.source), pump.read_bytes
        self._goal: int | None = None
        """The value of `delivered_bytes` when all bytes from the start are forwarded; None until the thread reads
        again."""
        self._started_at = self._quiet_since = self._progress_at = time.monotonic()
        self._delivered_bytes = pump.delivered_bytes

    def is_over(self) -> bool:
        """Returns whether to stop waiting: the pump is silent, has delivered the first content, or is stuck."""
        pump = self._pump
        # The pipe is checked before the thread: bytes that arrive in between are later output, and bytes that the
        # thread reads in between keep it from sleeping.
        is_empty = self._has_writers() and not _unread_bytes(pump.source)
        is_thread_asleep = is_sleeping_on(pump.thread_id, pump.source)
        now = time.monotonic()
        if not is_empty or is_thread_asleep is False or pump.delivered_bytes != pump.read_bytes:
            self._quiet_since = now
        if self._goal is None and pump.read_bytes != self._read_bytes:
            self._goal = pump.read_bytes + self._unread
        is_silent = now - self._quiet_since >= (MIN_UNSURE_QUIET_S if is_thread_asleep is None else MIN_QUIET_S)
        is_past_goal = (
            self._goal is not None and now - self._started_at >= MAX_CHATTER_S and pump.delivered_bytes >= self._goal
        )
        if pump.delivered_bytes != self._delivered_bytes:
            self._delivered_bytes, self._progress_at = pump.delivered_bytes, now
        is_stuck = self._limit_s is not None and now - self._progress_at >= self._limit_s
        return is_silent or is_past_goal or is_stuck

    def _has_writers(self) -> bool:
        """Returns whether any process holds the other end of the pipe."""
        return not self._writers.poll(0)


def _reap(wanted_pid: int) -> int | None:
    """Reap every child that has ended; returns the status of the wanted one, or None while it is alive.

    As pid 1, mcpproxy inherits other processes as children.
    """
    wanted_status = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return wanted_status
        if pid == 0:
            return wanted_status
        if pid == wanted_pid:
            wanted_status = status


def _unread_bytes(fd: int) -> int:
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])
    except OSError:
        return 0


def _forbid_core_dumps() -> None:
    """Disable core dumps of this process, which would contain traffic.

    Call it only after the spawn, because the server would inherit the limit.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _is_file(fd: int) -> bool:
    import stat

    mode = os.fstat(fd).st_mode
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)
