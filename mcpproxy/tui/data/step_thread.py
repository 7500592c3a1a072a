"""Threads that read while the screen is drawn, so that the screen never waits for a file.

A thread takes steps of a few milliseconds while there is work. It reports news at most ten times a second, or
twice a second while it is not finished. Without work, it looks again every tenth of a second, as `show --follow` does,
and more often once nothing has come for a while, so that the next row appears soon.
Its results are append-only, so the screen may read them at any time.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

POLL_INTERVAL_S: Final = 0.1
IDLE_POLL_INTERVAL_S: Final = 0.03
"""How often a thread looks for work if it did not find any the last time."""
REPORT_INTERVAL_S: Final = 0.1
MIN_BUSY_S: Final = 0.5
"""After this long with uninterrupted work, news is reported only every `BUSY_REPORT_INTERVAL_S`: drawing it takes the
processor from the reading thread, which then falls behind a capture that grows quickly."""
BUSY_REPORT_INTERVAL_S: Final = 0.5
FIRST_REPORT_S: Final = 0.02
"""After how many seconds the first news is reported: the first screen waits for it."""


class StepThread:
    """Takes steps in a thread of its own until it is stopped."""

    def __init__(
        self, step: Callable[[], bool], report: Callable[[], None], fail: Callable[[str], None], name: str = "reader"
    ) -> None:
        """Start the thread.

        Args:
            step: does some work; returns False if there is nothing to do yet.
            report: called from the thread when there is news.
            fail: called with the reason if the thread cannot continue.
            name: the name of the thread.
        """
        self._step, self._report, self._fail = step, report, fail
        self._stop = threading.Event()
        self.is_busy = True
        """Whether there is work left."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current step."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        reported_s = rested_s = time.monotonic() - REPORT_INTERVAL_S + FIRST_REPORT_S
        has_news = True
        try:
            while not self._stop.is_set():
                was_busy, self.is_busy = self.is_busy, self._step()
                # The end of the work is news, too: the last drawing still says that there may be more.
                has_news = has_news or self.is_busy or was_busy
                now = time.monotonic()
                interval_s = REPORT_INTERVAL_S if now - rested_s < MIN_BUSY_S else BUSY_REPORT_INTERVAL_S
                if has_news and (now - reported_s >= interval_s or not self.is_busy):
                    reported_s, has_news = now, False
                    self._report()
                if not self.is_busy:
                    self._stop.wait(POLL_INTERVAL_S if was_busy else IDLE_POLL_INTERVAL_S)
                    rested_s = time.monotonic()
        except Exception as error:  # noqa: BLE001 - a traceback would be drawn across the screen
            self._fail(str(error) or type(error).__name__)
