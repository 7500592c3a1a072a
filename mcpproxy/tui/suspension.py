"""Suspension: `Ctrl+Z` and `fg`, as in any other program that a shell runs.

The terminal gets its modes back, and then the whole job stops, not only this process: a shell waits for the program
that it started, which may be a launcher of this one. Where no shell could continue the job, as in a terminal window
that runs only this program, the system ignores the request, and the screen is drawn again.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any, Final

from textual.app import App

BACKGROUND_POLL_S: Final = 0.1
"""How often a process that the system does not stop looks whether its job has the terminal."""


class Suspension:
    """Stops the job on request, and takes the terminal back when the job continues."""

    def __init__(self, app: App[Any]) -> None:
        """Start without handlers."""
        self._app = app
        self._is_suspended = False

    def watch(self) -> None:
        """Handle the signals that stop and continue a job, in place of Textual. Call it in the thread with the loop.

        Textual would stop only its own process, and start reading keys a second time whenever a job continues.
        """
        loop = asyncio.get_running_loop()
        signal.signal(signal.SIGTSTP, lambda *_: loop.call_soon_threadsafe(self.suspend))
        signal.signal(signal.SIGCONT, lambda *_: loop.call_soon_threadsafe(self._take_terminal_back))

    def suspend(self) -> None:
        """Give the terminal back, stop the job, and draw the screen again when it continues."""
        self._is_suspended = True
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            with self._app.suspend():
                os.kill(0, signal.SIGTSTP)
                _wait_for_foreground()
        finally:
            signal.signal(signal.SIGTSTP, handler)
            # The signal that continued the job is handled before this.
            asyncio.get_running_loop().call_soon(self._end_suspension)

    def _end_suspension(self) -> None:
        self._is_suspended = False

    def _take_terminal_back(self) -> None:
        """Set the terminal's modes and draw the screen again, after a stop without preparation (SIGSTOP)."""
        if not self._is_suspended:
            with self._app.suspend():
                _wait_for_foreground()


def _wait_for_foreground() -> None:
    """Wait until the shell gives the terminal to this job: it may have continued in the background (`bg`)."""
    terminal = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
    with suppress(OSError):
        while os.tcgetpgrp(terminal) != os.getpgrp():
            os.kill(0, signal.SIGTTOU)  # stops the job again, as if it had written to the terminal
            time.sleep(BACKGROUND_POLL_S)
