"""Shutdown: ends the app on a signal, or when its terminal is gone, even if the terminal blocks.

A handler in the event loop would run too late if a terminal accepts no more output (Ctrl-S) and the loop waits to draw.
So these are plain signal handlers, and if the app has not ended in time, they restore the modes of the terminal and end
the process. Exit codes are those of a shell: 128 plus the signal number. After signals that nobody sends to ask a
program to end, such as SIGQUIT, the process ends by the signal itself, as it would without a handler.
"""

import asyncio
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

REQUESTS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""The signals that ask a program to end."""
SIGNALS: Final = (
    *REQUESTS, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
    signal.SIGXCPU,
)  # fmt: skip
"""The signals that end the app; the others cannot be handled, or are errors of the process itself."""
EXIT_CODES: Final = frozenset(128 + number for number in SIGNALS)
GRACE_S: Final = 3.0
"""How long the app may take to end."""


@contextmanager
def exit_on_signals(leave: Callable[[int], None]) -> Iterator[None]:
    """End the app on a signal, or when the terminal is gone. Call it in the thread with the event loop.

    Args:
        leave: called in the loop, with the exit code.
    """
    exit_watch = _ExitWatch(leave)
    previous_handlers = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in previous_handlers.items():
        # A signal that the parent process ignored (nohup) stays ignored.
        if handler is not signal.SIG_IGN:
            signal.signal(number, exit_watch.on_signal)
    threading.Thread(target=exit_watch.watch_terminal, name="terminal", daemon=True).start()
    try:
        yield
    finally:
        exit_watch.has_left.set()
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def end_by_signal(code: int) -> None:
    """End the process by the signal of an exit code, unless that signal only asks a program to end.

    Args:
        code: one of `EXIT_CODES`.
    """
    number = signal.Signals(code - 128)
    if number not in REQUESTS:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


class _ExitWatch:
    def __init__(self, leave: Callable[[int], None]) -> None:
        self.has_left = threading.Event()
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._stdin = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
        self._modes: list[Any] | None = None
        with suppress(termios.error):
            self._modes = termios.tcgetattr(self._stdin)

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._request_exit(128 + number)

    def watch_terminal(self) -> None:
        """Wait until the other end of the terminal is closed."""
        poller = select.poll()
        poller.register(self._stdin, 0)
        while not self.has_left.is_set():
            events = poller.poll(1000)
            if events and events[0][1] & select.POLLHUP:
                self._request_exit(128 + signal.SIGHUP)
                return
            if events:
                # This system cannot poll terminals.
                return

    def _request_exit(self, code: int) -> None:
        threading.Thread(target=self._exit_after_grace, args=(code,), daemon=True).start()
        with suppress(RuntimeError):
            # RuntimeError: the loop is closed, and the app is ending already.
            self._loop.call_soon_threadsafe(self._leave, code)

    def _exit_after_grace(self, code: int) -> None:
        if not self.has_left.wait(GRACE_S):
            if self._modes is not None:
                with suppress(termios.error):
                    termios.tcsetattr(self._stdin, termios.TCSANOW, self._modes)
            os._exit(code)
