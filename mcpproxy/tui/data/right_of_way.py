"""Reading gives way to keys: after each key press, the threads that read wait while the screen is drawn.

Python runs one thread at a time. If a thread reads while another draws, they take turns, so a screen that takes 40 ms
to draw appears after 80. Reading is held up for a fraction of a second per key at most, and goes on at a fifth of its
speed while a key is held down, so it never stops altogether.
"""

import threading
from time import monotonic
from typing import Final

DRAWN_S: Final = 0.12
"""How long after a key reading waits: most screens are drawn by then, even on a busy machine."""
LONGEST_S: Final = 0.24
"""How long reading waits in a row, while one key follows another."""
SHARE: Final = 4
"""After that it works for a quarter of the time for which it waited."""

_pressed_at = -DRAWN_S


def claim() -> None:
    """A key was pressed: what follows has the right of way."""
    global _pressed_at
    _pressed_at = monotonic()


class GivingWay:
    """How one thread gives way: to the keys that are pressed after it began, as an earlier one may have started it."""

    def __init__(self) -> None:
        """Begin."""
        self._began = monotonic()
        self._works_until = 0.0

    def wait(self, stop: threading.Event) -> None:
        """Return when nothing has the right of way, when the thread has waited long enough, or when it is to stop."""
        start = now = monotonic()
        while now < self._until(start):
            if stop.wait(self._until(start) - now):
                return
            now = monotonic()
        if now - start >= LONGEST_S:
            self._works_until = now + (now - start) / SHARE

    def _until(self, start: float) -> float:
        if _pressed_at <= self._began or start < self._works_until:
            return start
        return min(_pressed_at + DRAWN_S, start + LONGEST_S)
