"""Checks that work grows linearly with its size, not with its square."""

import time
from collections.abc import Callable
from typing import Final

TIMES: Final = 16
MOST: Final = 40
"""The square of `TIMES` is 256."""
LEAST_S: Final = 0.002
"""A shorter time for the small work counts as this long."""


def check_linear(work: Callable[[int], object], size: int) -> None:
    """Do work of a size and of `TIMES` that size; fails if this thread's processor time grows much faster."""

    def seconds(of: int) -> float:
        began = time.thread_time()
        work(of)
        return time.thread_time() - began

    small = max(seconds(size), LEAST_S)
    large = seconds(TIMES * size)
    assert large < MOST * small, f"{TIMES} times the size took {large / small:.0f} times as long"
