"""The guard: a process that leaves no orphan behind when we are killed.

Forked before any thread starts, it keeps only the capture and one pipe whose other end only we hold, and waits. If that
end closes without a message, we were killed (a `SIGKILL` cannot be handled): if the server is still alive, it and its
descendants get TERM, and KILL two seconds later. If we report that the server has ended, the guard signals no process.

It also completes the capture: records not yet written wait in shared memory, and the guard writes them when we are gone
(`CaptureCompleter`).

It stays in our process group, so a kill of the group kills it too, as it would the server without us; and it ignores
the polite signals, because the server may too.
"""

from __future__ import annotations

import os
import time

from mcpproxy.relay.processes import Process, start_time, terminate, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, Protocol
else:
    # `signal` builds enums of all signal numbers, which takes 3 ms; this module does not.
    import _signal as signal

    Protocol = object

GRACE_S: Final = 2.0
GOODBYE_S: Final = 0.2
_SERVER: Final = "server"
_ENDED: Final = "ended"
_SEGMENT: Final = "segment"
_IGNORED: Final = (
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
    """What the guard does for the recording when we are gone; all of it is called in the guard's process."""

    fd: int
    """A descriptor that the guard keeps open."""

    @property
    def is_needed(self) -> bool:
        """Whether any work is left."""

    def follow(self, segment: int) -> None:
        """Switch to the segment in which the recording continues; `fd` may change."""

    def run(self) -> bool:
        """Do the work that is left."""

    def close(self) -> None:
        """Close `fd`."""


class Guard:
    """Our end of the pipe."""

    def __init__(self, survivor: CaptureCompleter | None = None) -> None:
        """Fork the guard. No thread may run yet."""
        read_end, self._pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _stand_guard(read_end, survivor)
            finally:
                os._exit(0)
        os.close(read_end)
        os.set_blocking(self._pipe, False)  # a guard that is stopped must not stop us

    def watch_me(self) -> None:
        """Called by the child that is about to become the server; exec closes the pipe on which it announces itself."""
        pid = os.getpid()
        self._say(f"{_SERVER} {pid} {start_time(pid) or ''}")

    def stand_down(self) -> None:
        """Report that the server has ended, or never ran: when we exit, no process needs to be ended."""
        self._say(_ENDED)

    def follow(self, segment: int) -> None:
        """Report that the recording continues in another segment."""
        self._say(f"{_SEGMENT} {segment}")

    def dismiss(self) -> None:
        """End the guard, as all work is done, and reap it, so that it does not remain as a zombie."""
        self.stand_down()
        os.close(self._pipe)
        until = time.monotonic() + GOODBYE_S
        try:
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
                time.sleep(0.0005)
        except ChildProcessError:
            return

    def _say(self, message: str) -> None:
        try:
            os.write(self._pipe, f"{message}\n".encode())
        except OSError:
            return


def _stand_guard(read_end: int, survivor: CaptureCompleter | None) -> None:
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _keep_only(sorted({read_end} if survivor is None else {read_end, survivor.fd}))
    server: Process | None = None
    received = b""
    while data := os.read(read_end, 4096):
        *messages, received = (received + data).split(b"\n")
        for message in messages:
            word, _, value = message.decode().partition(" ")
            if word == _SERVER:
                pid, _, start = value.partition(" ")
                server = Process(int(pid), start) if start else None
            elif word == _ENDED:
                server = None
            elif word == _SEGMENT and survivor is not None:
                survivor.follow(int(value))
    _wind_up(server, survivor)


def _wind_up(server: Process | None, survivor: CaptureCompleter | None) -> None:
    """After our death: end the server and complete the recording in parallel, as either may be slow."""
    if survivor is not None and survivor.is_needed:
        child = _fork() if server is not None else None
        if child != 0:
            survivor.run()
            survivor.close()
            if child is not None:
                return
    elif survivor is not None:
        survivor.close()
    if server is not None:
        terminate(tree(server), GRACE_S)


def _fork() -> int | None:
    """Like `os.fork`, but returns None if the system cannot create a process."""
    try:
        return os.fork()
    except OSError:
        return None


def _keep_only(kept: list[int]) -> None:
    """Close all other descriptors."""
    start = 0
    for fd in kept:
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, _highest_descriptor())


def _highest_descriptor() -> int:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return limit if 0 < limit < 1 << 20 else 1 << 20
