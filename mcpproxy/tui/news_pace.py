"""The pace of news: how often the screens hear that the open capture has grown or has been checked further.

Each time, the screen draws all rows again if it follows the end, so this determines what following costs. A single new
row is announced at once, and so is its meaning; other news never delays a new row.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

MAX_NEWS_PER_SECOND: Final = 5.0
"""How often news is passed on if more comes all the time."""
MAX_UNDELAYED_NEWS: Final = 5.0
"""How many times news is passed on at once after a pause."""
_TOLERANCE: Final = 1e-3
"""Part of one time by which a timer may be early."""


class NewsPace:
    """Passes news on at most `MAX_NEWS_PER_SECOND` times a second, except the first after a pause."""

    def __init__(self) -> None:
        """Start without news. Call it in the thread of the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Callable[[], None], None] = {}
        """The kinds of news that wait, in order of arrival."""
        self._needed = MAX_UNDELAYED_NEWS
        """The allowance that the most urgent of them needs."""
        self._timer: asyncio.TimerHandle | None = None
        self._allowance, self._counted_s = MAX_UNDELAYED_NEWS, self._loop.time()
        """How many times news could be passed on at once, and at what time of the loop that was so."""

    @property
    def is_waiting(self) -> bool:
        """Whether there is news that has not been passed on yet."""
        return bool(self._waiting)

    def announce(self, pass_on: Callable[[], None], *, is_urgent: bool = False) -> None:
        """Pass news on now or a little later; any thread may call this.

        Args:
            pass_on: called in the loop. News for which the same function waits already is passed on with it.
            is_urgent: whether other news must leave room for it.
        """
        with suppress(RuntimeError):  # the loop is closed, as the app has ended
            self._loop.call_soon_threadsafe(self._on_news, pass_on, 1.0 if is_urgent else 2.0)

    def close(self) -> None:
        """Drop the news that waits."""
        self._waiting.clear()
        self._stop_timer()

    def _on_news(self, pass_on: Callable[[], None], needed: float) -> None:
        self._waiting[pass_on] = None
        self._needed = min(self._needed, needed)
        self._pass_on_or_wait()

    def _pass_on_or_wait(self) -> None:
        self._stop_timer()
        now_s = self._loop.time()
        self._allowance += (now_s - self._counted_s) * MAX_NEWS_PER_SECOND
        self._allowance, self._counted_s = min(self._allowance, MAX_UNDELAYED_NEWS), now_s
        missing = self._needed - self._allowance
        if missing > _TOLERANCE:
            self._timer = self._loop.call_later(missing / MAX_NEWS_PER_SECOND, self._pass_on_or_wait)
            return
        self._allowance -= 1
        waiting, self._waiting, self._needed = self._waiting, {}, MAX_UNDELAYED_NEWS
        for pass_on in waiting:
            pass_on()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
