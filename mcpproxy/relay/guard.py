"""The process that leaves no orphan behind when we are killed.

Forked before any thread starts, it closes everything but one pipe whose other end only we hold, and waits. When that
end closes without a word, we were killed (a `SIGKILL` cannot be handled): if the server still lives, it and its
descendants get TERM, and KILL two seconds later. If we say goodbye, or the server has ended by itself, it touches
nothing.

It stays in our process group, so whoever kills the group kills it too, as without us; and it ignores the polite
signals, because the server may too.
"""

from __future__ import annotations

import os
import time

from mcpproxy.relay.processes import Process, end, start_time, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final
else:
    # `signal` makes enumerations of all numbers and takes 3 ms for it; this is the same without.
    import _signal as signal

GRACE_S: Final = 2.0
GOODBYE_S: Final = 0.2
_GOODBYE: Final = b"goodbye"
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


class Guard:
    """Our end of the pipe."""

    def __init__(self) -> None:
        """Fork the guard. No thread may run yet."""
        read_end, self._pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _stand_guard(read_end)
            finally:
                os._exit(0)
        os.close(read_end)

    def watch_me(self) -> None:
        """Called by the child that is about to become the server: the pipe that it says so on closes by exec."""
        pid = os.getpid()
        self._say(f"{pid} {start_time(pid) or ''}\n".encode())

    def dismiss(self) -> None:
        """The server has ended, or never ran: nothing is to be done when we go. Reaps the guard.

        Who may not become anybody's zombie.
        """
        self._say(_GOODBYE)
        os.close(self._pipe)
        until = time.monotonic() + GOODBYE_S
        try:
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
                time.sleep(0.0005)
        except ChildProcessError:
            return

    def _say(self, message: bytes) -> None:
        try:
            os.write(self._pipe, message)
        except OSError:
            return


def _stand_guard(read_end: int) -> None:
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    keep = os.dup2(read_end, 3, inheritable=False) if read_end != 3 else 3
    os.closerange(0, keep)
    os.closerange(keep + 1, _highest_descriptor())
    heard = b""
    while data := os.read(keep, 4096):
        heard += data
    pid, _, start = heard.partition(b"\n")[0].decode().partition(" ")
    if heard.endswith(_GOODBYE) or not start:
        return
    end(tree(Process(int(pid), start)), GRACE_S)


def _highest_descriptor() -> int:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return limit if 0 < limit < 1 << 20 else 1 << 20
