"""How a run time grows with size, measured at two sizes, so that the speed of the machine does not matter."""

import time
from collections.abc import Callable

TRIES = 3
"""Other programs use the machine, too, so the best of this many comparisons counts; a real fault fails them all."""


def assert_linear(run: Callable[[int], object], few: int, many: int) -> None:
    """Fail if the time of `run` grows almost with the square of its size."""
    most, found = (many / few) ** 1.5, 0.0
    for _ in range(TRIES):
        found = _spent(run, many) / _spent(run, few)
        if found < most:
            return
    raise AssertionError(f"{many / few:g} times as much takes {found:.1f} times as long")


def _spent(run: Callable[[int], object], count: int) -> float:
    began = time.process_time()
    run(count)
    return time.process_time() - began
