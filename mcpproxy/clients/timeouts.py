"""Runs a function with a time limit, such as a request to a server that sends one byte in ten seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

POLL_INTERVAL_S: Final = 0.1
T = TypeVar("T")


def run_with_timeout(limit_s: float, work: Callable[[], T], abort_event: threading.Event | None = None) -> T:
    """Run a function in a separate thread, and abandon it if it takes too long; returns its result.

    Args:
        limit_s: how long the function may take, in seconds.
        work: the function.
        abort_event: an event that ends the wait within `POLL_INTERVAL_S` when it is set.

    Raises:
        TimeoutError: the function took too long, or `abort_event` was set.
        Exception: as raised by the function.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run_work() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 # it is raised below
            errors.append(error)
        done.set()

    threading.Thread(target=run_work, daemon=True).start()
    deadline = time.monotonic() + limit_s
    while not done.wait(POLL_INTERVAL_S):
        if time.monotonic() > deadline or (abort_event is not None and abort_event.is_set()):
            raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]
