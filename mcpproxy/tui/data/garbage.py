"""When Python searches for garbage while captures are read.

A search holds the interpreter, and it goes through every object that it has not examined before. Python counts new
objects less dropped ones to decide when to search. The tables of an analysis drop an entry for each new one, so
hundreds of thousands of objects collect before a search begins, and the screens then stand still for 80 to 480 ms
(measured on a million frames). So a thread that reads sets aside what it has made after every step, which takes a
microsecond, and what was set aside is searched when no key was pressed for a while.

Nothing is lost: objects without cycles are freed at once, as always. Only cycles wait, such as those of closed screens.
"""

import gc
from time import monotonic
from typing import Final

QUIET_S: Final = 2.0
"""The search waits until no thread has read, and no key was pressed, for this long."""
LONGEST_S: Final = 60.0
"""A capture that always grows delays the search by this at most."""

_set_aside_at = _searched_at = monotonic()


def set_aside() -> None:
    """Exempt all existing objects from searches until the next `search`."""
    global _set_aside_at
    gc.freeze()
    _set_aside_at = monotonic()


def search(idle_s: float) -> bool:
    """Search everything, unless this would make the user wait; returns whether it did.

    Args:
        idle_s: seconds since the last key.
    """
    global _searched_at
    now = monotonic()
    if _set_aside_at <= _searched_at or idle_s < QUIET_S:
        return False
    if now - _set_aside_at < QUIET_S and now - _searched_at < LONGEST_S:
        return False
    gc.unfreeze()
    gc.collect()
    _searched_at = monotonic()
    return True
