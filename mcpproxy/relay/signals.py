"""Waits for signals, one at a time, and reports where each came from.

All relevant signals are blocked in every thread and received by the main thread with `sigwaitinfo`, so no Python code
ever runs inside a handler. If the system has only `sigwait`, origin and timeouts are emulated: the origin by checking
whether we are in the foreground of our terminal, the timeout by a thread that signals us.
"""

from __future__ import annotations

import os
import threading

from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final
else:
    # `signal` builds enums of all signal numbers, which takes 3 ms; this module does not.
    import _signal as signal

FORWARDED: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""The signals that are passed on to the server. Every other signal has its default effect on us."""

ENDING: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The signals that ask a process to end."""

_SI_USER: Final = 0


class Arrival(NamedTuple):
    """A signal that arrived."""

    signum: int
    from_terminal: bool
    """The kernel sent it to the whole foreground group, so the server already has it."""


class SignalWait:
    """Blocks the signals from its creation on. Create it before any thread and any child."""

    def __init__(self) -> None:
        self.inherited = {signum: signal.getsignal(signum) for signum in (*FORWARDED, signal.SIGCHLD)}
        """The dispositions that we were started with."""
        self.taken = [signum for signum in FORWARDED if self.inherited[signum] != signal.SIG_IGN]
        """A signal that we were started ignoring would be ignored by the server too."""
        self._set = {*self.taken, signal.SIGCHLD}
        self.mask: set[int] = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._set))
        """The signal mask that we were started with."""
        # If ignored, the kernel would reap the server and discard its status; by default, BSDs drop it even when
        # blocked.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    @property
    def dispositions(self) -> dict[int, signal.Handlers]:
        """What a child must set again: Python ignores SIGPIPE and SIGXFSZ for itself, and we took SIGCHLD."""
        again = dict.fromkeys((signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)), signal.SIG_DFL)
        if self.inherited[signal.SIGCHLD] == signal.SIG_IGN:
            again[signal.SIGCHLD] = signal.SIG_IGN
        return {int(signum): disposition for signum, disposition in again.items()}

    def wait(self, timeout_s: float | None) -> Arrival | None:
        """Returns the next signal; None after the timeout or a call of `interrupt`."""
        if not hasattr(signal, "sigtimedwait"):
            return self._wait_portably(timeout_s)
        info = signal.sigwaitinfo(self._set) if timeout_s is None else signal.sigtimedwait(self._set, max(timeout_s, 0))
        return (
            None if info is None else Arrival(info.si_signo, info.si_code > _SI_USER and not _is_for_us(info.si_signo))
        )

    def _wait_portably(self, timeout_s: float | None) -> Arrival | None:
        timer = None
        if not signal.sigpending() & self._set and timeout_s is not None:
            if timeout_s <= 0:
                return None
            timer = threading.Timer(timeout_s, self.interrupt)
            timer.daemon = True
            timer.start()
        signum = signal.sigwait(self._set)
        if timer is not None:
            timer.cancel()
        return Arrival(signum, signum in (signal.SIGINT, signal.SIGQUIT) and _in_foreground())

    def interrupt(self) -> None:
        """Wake the main thread, as if a child had changed."""
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGCHLD)

    def die_by(self, signum: int) -> None:
        """End as the server ended: by the same signal."""
        if signum not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
        os.kill(os.getpid(), signum)


def _is_for_us(signum: int) -> bool:
    """When a terminal goes away, only the leader of its session gets the signal."""
    return signum == signal.SIGHUP and os.getsid(0) == os.getpid()


def _in_foreground() -> bool:
    for fd in (0, 1, 2):
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return True
        except OSError:
            continue
    return False
