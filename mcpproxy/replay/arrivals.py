"""The queue of what arrives from the server, between the threads that read it and the one that replays."""

import threading
import time
from collections import deque
from typing import Final, NamedTuple

from mcpproxy.wording.units import size

MAX_WAITING_BYTES: Final = 64 << 20
"""The maximum size of what waits; with more, the reading of the server's output pauses."""
_EVENT_BYTES: Final = 200
"""What an arrival counts in addition to its bytes."""
_MIN_LIMIT: Final = 64 << 20
_LIMIT_PER_RECORDED: Final = 4


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
    is_excess: bool = False
    """Whether the server sent too much, so that nothing more is read."""


def cost(raw: bytes) -> int:
    """Returns what a unit of bytes counts: a million short messages are as much work as many megabytes."""
    return len(raw) + _EVENT_BYTES


def limit_for(recorded_cost: int) -> int:
    """Returns the cost at which a server has sent too much, given what all units of the recorded server cost."""
    return max(_MIN_LIMIT, _LIMIT_PER_RECORDED * recorded_cost)


class Arrivals:
    """A queue with a limit in bytes, for several readers and one replay."""

    def __init__(self, limit: int | None = None) -> None:
        """Begin empty.

        Args:
            limit: the cost of all that may come until the end, as `limit_for` returns it; None for any.
        """
        self._limit = limit
        self._total_cost = 0
        self._condition = threading.Condition()
        self._queue: deque[Arrival] = deque()
        self._bytes = 0
        self._is_closed = False

    def put(self, arrival: Arrival) -> bool:
        """Add an arrival, after waiting while too much is queued; returns False if the queue is closed.

        If the limit is exceeded, the queue is closed, and an end takes the place of all that is in it.
        """
        with self._condition:
            self._count(arrival.raw)
            while self._bytes >= MAX_WAITING_BYTES and not self._is_closed:
                self._condition.wait()
            if self._is_closed:
                return False
            self._queue.append(arrival)
            self._bytes += cost(arrival.raw)
            self._condition.notify_all()
            return True

    @property
    def is_excessive(self) -> bool:
        """Whether more has come than the limit, added or dropped."""
        return self._limit is not None and self._total_cost > self._limit

    def drop(self, raw: bytes) -> None:
        """Count bytes that are not needed."""
        with self._condition:
            self._count(raw)

    def _count(self, raw: bytes) -> None:
        self._total_cost += cost(raw)
        if self._limit is None or self._is_closed or not self.is_excessive:
            return
        reason = f"the server sent far more than in the recording, over {size(self._limit)}"
        self._queue.clear()
        self._queue.append(Arrival(reason=reason, is_end=True, is_excess=True))
        self._bytes = cost(b"")
        self._is_closed = True
        self._condition.notify_all()

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
            self._bytes -= cost(arrival.raw)
            self._condition.notify_all()
            return arrival

    def close(self) -> None:
        """Release all readers that wait, and drop what they add."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
