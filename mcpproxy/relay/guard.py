"""The guard: a process that leaves no orphan when the relay is killed.

It is forked before any thread starts, keeps only the capture and the read end of a pipe, and waits. Only the relay has
the write end. If that end closes without a message, the relay was killed (a `SIGKILL` cannot be handled). If the server
is still alive then, the guard sends TERM to it and its descendants, and KILL two seconds later. If the relay reports
that the server has ended, the guard signals no process.

The guard also completes the capture: records that are not yet written wait in shared memory, and the guard writes them
after the death of the relay (`CaptureCompleter`).

The guard stays in the process group of the relay, so a kill of the group kills it, too, as it would kill the server
without mcpproxy. It ignores signals that a process can handle, because the server may ignore them, too.
"""

from __future__ import annotations

import os
import time

from mcpproxy.relay.processes import Process, process_tree, start_time, terminate

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, Protocol
else:
    # `signal` builds enums of all signal numbers, which takes 3 ms; this module does not.
    import _signal as signal

    Protocol = object

GRACE_S: Final = 2.0
MAX_DISMISSAL_S: Final = 0.2
_SERVER_MESSAGE: Final = "server"
_ENDED_MESSAGE: Final = "ended"
_SEGMENT_MESSAGE: Final = "segment"
_IGNORED_SIGNALS: Final = (
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGTERM",
    "SIGUSR1",
    "SIGUSR2",
    "SIGALRM",
    "SIGTSTP",
    "SIGTTOU",
    "SIGTTIN",
    "SIGPIPE",
)


class CaptureCompleter(Protocol):
    """Completes the recording after the death of the relay; all methods are called in the guard's process."""

    fd: int
    """A descriptor that the guard keeps open."""

    @property
    def is_needed(self) -> bool:
        """Whether any work remains."""

    def follow_segment(self, segment: int) -> None:
        """Switch to the segment in which the recording continues; `fd` may change."""

    def complete_capture(self) -> bool:
        """Does the remaining work."""

    def close(self) -> None:
        """Close `fd`."""


class Guard:
    """The relay's end of the pipe to the guard."""

    def __init__(self, survivor: CaptureCompleter | None = None) -> None:
        """Fork the guard; no thread may be running yet."""
        read_end, self._pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _run_guard(read_end, survivor)
            finally:
                os._exit(0)
        os.close(read_end)
        os.set_blocking(self._pipe, False)  # a stopped guard must not block the relay

    def announce_server(self) -> None:
        """Report the calling process as the server; the child calls this before exec closes the pipe."""
        pid = os.getpid()
        self._send_message(f"{_SERVER_MESSAGE} {pid} {start_time(pid) or ''}")

    def report_end(self) -> None:
        """Reports that the server has ended or never ran, so the guard need not end any process."""
        self._send_message(_ENDED_MESSAGE)

    def report_segment(self, segment: int) -> None:
        """Reports that the recording continues in another segment."""
        self._send_message(f"{_SEGMENT_MESSAGE} {segment}")

    def dismiss(self) -> None:
        """End the guard after all work is done, and reap it, so it does not remain as a zombie."""
        self.report_end()
        os.close(self._pipe)
        deadline = time.monotonic() + MAX_DISMISSAL_S
        try:
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.0005)
        except ChildProcessError:
            return

    def _send_message(self, message: str) -> None:
        try:
            os.write(self._pipe, f"{message}\n".encode())
        except OSError:
            return


def _run_guard(read_end: int, completer: CaptureCompleter | None) -> None:
    for name in _IGNORED_SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _close_all_but(sorted({read_end} if completer is None else {read_end, completer.fd}))
    server: Process | None = None
    pending = b""
    while data := os.read(read_end, 4096):
        *messages, pending = (pending + data).split(b"\n")
        for message in messages:
            word, _, value = message.decode().partition(" ")
            if word == _SERVER_MESSAGE:
                pid, _, start = value.partition(" ")
                server = Process(int(pid), start) if start else None
            elif word == _ENDED_MESSAGE:
                server = None
            elif word == _SEGMENT_MESSAGE and completer is not None:
                completer.follow_segment(int(value))
    _end_and_complete(server, completer)


def _end_and_complete(server: Process | None, completer: CaptureCompleter | None) -> None:
    """End the server and complete the recording, in parallel, because either may be slow."""
    if completer is not None and completer.is_needed:
        child = _try_fork() if server is not None else None
        if child != 0:
            completer.complete_capture()
            completer.close()
            if child is not None:
                return
    elif completer is not None:
        completer.close()
    if server is not None:
        terminate(process_tree(server), GRACE_S)


def _try_fork() -> int | None:
    """Fork like `os.fork`, but returns None if the system cannot create a process."""
    try:
        return os.fork()
    except OSError:
        return None


def _close_all_but(kept_fds: list[int]) -> None:
    """Close all other descriptors."""
    start = 0
    for fd in kept_fds:
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, _highest_descriptor())


def _highest_descriptor() -> int:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return limit if 0 < limit < 1 << 20 else 1 << 20
