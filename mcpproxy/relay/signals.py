"""Waits for signals, one at a time, and reports the origin of each.

All relevant signals are blocked in every thread and received by the main thread with `sigwaitinfo`, so no Python code
ever runs in a signal handler. If the system has only `sigwait`, the origin and the timeout are emulated: the origin by
a check whether this process is in the foreground of its terminal, the timeout by a thread that sends a signal.
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

FORWARDED_SIGNALS: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""The signals that are passed on to the server. Every other signal has its default effect on mcpproxy."""

TERMINATING_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The signals that ask a process to end."""

_SI_USER: Final = 0


class ReceivedSignal(NamedTuple):
    """A signal that arrived."""

    signum: int
    is_from_terminal: bool
    """Whether the kernel sent it to the whole foreground group, so that the server has already received it."""


class SignalWait:
    """Blocks the signals from its creation on; create it before any thread and any child process."""

    def __init__(self) -> None:
        self.inherited_dispositions = {
            signum: signal.getsignal(signum) for signum in (*FORWARDED_SIGNALS, signal.SIGCHLD)
        }
        """The dispositions with which this process was started."""
        self.received_signals = [
            signum for signum in FORWARDED_SIGNALS if self.inherited_dispositions[signum] != signal.SIG_IGN
        ]
        """The signals to receive, without those that were ignored from the start, because the server ignores them, too.
        """
        self._signal_set = {*self.received_signals, signal.SIGCHLD}
        self.inherited_mask: set[int] = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._signal_set))
        """The signal mask with which this process was started."""
        # If SIGCHLD is ignored, the kernel reaps the server and discards its status; with the default disposition, BSDs
        # drop the signal even when it is blocked.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    @property
    def dispositions(self) -> dict[int, signal.Handlers]:
        """The dispositions to restore in a child: Python ignores SIGPIPE and SIGXFSZ, and SIGCHLD is handled here."""
        dispositions = dict.fromkeys((signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)), signal.SIG_DFL)
        if self.inherited_dispositions[signal.SIGCHLD] == signal.SIG_IGN:
            dispositions[signal.SIGCHLD] = signal.SIG_IGN
        return {int(signum): disposition for signum, disposition in dispositions.items()}

    def wait_for_signal(self, timeout_s: float | None) -> ReceivedSignal | None:
        """Returns the next signal, or None after the timeout; `interrupt` makes it return SIGCHLD."""
        if not hasattr(signal, "sigtimedwait"):
            return self._wait_portably(timeout_s)
        info = (
            signal.sigwaitinfo(self._signal_set)
            if timeout_s is None
            else signal.sigtimedwait(self._signal_set, max(timeout_s, 0))
        )
        return (
            None
            if info is None
            else ReceivedSignal(info.si_signo, info.si_code > _SI_USER and not _is_for_this_process(info.si_signo))
        )

    def _wait_portably(self, timeout_s: float | None) -> ReceivedSignal | None:
        timer = None
        if not signal.sigpending() & self._signal_set and timeout_s is not None:
            if timeout_s <= 0:
                return None
            timer = threading.Timer(timeout_s, self.interrupt)
            timer.daemon = True
            timer.start()
        signum = signal.sigwait(self._signal_set)
        if timer is not None:
            timer.cancel()
        return ReceivedSignal(signum, signum in (signal.SIGINT, signal.SIGQUIT) and _is_in_foreground())

    def interrupt(self) -> None:
        """Wake the main thread, as if a child process had changed its state."""
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGCHLD)

    def die_by(self, signum: int) -> None:
        """End this process by the signal that ended the server."""
        if signum not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
        os.kill(os.getpid(), signum)


def _is_for_this_process(signum: int) -> bool:
    """Returns whether the kernel sent a signal to this process alone: SIGHUP, to the leader of a terminal's session."""
    return signum == signal.SIGHUP and os.getsid(0) == os.getpid()


def _is_in_foreground() -> bool:
    for fd in (0, 1, 2):
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return True
        except OSError:
            continue
    return False
