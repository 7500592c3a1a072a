"""The queue of what arrives from the server, between the threads that read it and the one that replays."""

import threading
import time
from collections import deque
from typing import Final, NamedTuple

MAX_WAITING_BYTES: Final = 64 << 20
"""The maximum size of what waits; with more, the reading of the server's output pauses."""
_EVENT_BYTES: Final = 200
"""What an arrival counts in addition to its bytes."""


class Arrival(NamedTuple):
    """Something that came from the server, or the end of something."""

    raw: bytes = b""
    """A unit of bytes, without a delimiter; empty if this is an end."""
    calls: tuple[int, ...] = ()
    """`Call.number` of the recorded requests in the HTTP exchange that carried it."""
    failed_calls: tuple[int, ...] = ()
    """`Call.number` of recorded requests whose HTTP exchange ended without an answer; those that have been answered may
    be among them."""
    reason: str = ""
    """Why something ended."""
    is_end: bool = False
    """Whether nothing more can come."""


class Arrivals:
    """A queue with a limit in bytes, for several readers and one replay."""

    def __init__(self) -> None:
        """Begin empty."""
        self._condition = threading.Condition()
        self._queue: deque[Arrival] = deque()
        self._bytes = 0
        self._is_closed = False

    def put(self, arrival: Arrival) -> bool:
        """Add an arrival, after waiting while too much is queued; returns False if the queue is closed."""
        with self._condition:
            while self._bytes >= MAX_WAITING_BYTES and not self._is_closed:
                self._condition.wait()
            if self._is_closed:
                return False
            self._queue.append(arrival)
            self._bytes += len(arrival.raw) + _EVENT_BYTES
            self._condition.notify_all()
            return True

    def get(self, timeout_s: float) -> Arrival | None:
        """Return the next arrival, or None if there is none within a time in seconds."""
        deadline_s = time.monotonic() + timeout_s
        with self._condition:
            while not self._queue:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or self._is_closed:
                    return None
                self._condition.wait(left_s)
            arrival = self._queue.popleft()
            self._bytes -= len(arrival.raw) + _EVENT_BYTES
            self._condition.notify_all()
            return arrival

    def close(self) -> None:
        """Release all readers that wait, and drop what they add."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
