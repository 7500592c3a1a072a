"""What was used last, up to a limit."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class RecentlyUsed(Generic[_Value]):
    """Values by number; the least recently used go first, but the last one stays, however large it is.

    For what is costly to make and used many times, in turn with others of its kind. Safe for several threads.
    """

    def __init__(self, limit: int) -> None:
        """Begin empty; `limit` is for the sum of the sizes."""
        self._limit, self._total = limit, 0
        self._values: OrderedDict[int, tuple[_Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, number: int) -> _Value | None:
        """Returns a value; None if it is not kept."""
        if number not in self._values:
            return None
        with self._lock:
            kept = self._values.get(number)
            if kept is None:
                return None
            self._values.move_to_end(number)
            return kept[0]

    def add(self, number: int, value: _Value, size: int) -> _Value:
        """Keeps a value in place of any other with this number; returns it."""
        with self._lock:
            _, replaced = self._values.pop(number, (None, 0))
            self._values[number] = value, size
            self._total += size - replaced
            while self._total > self._limit and len(self._values) > 1:
                _, (_, freed) = self._values.popitem(last=False)
                self._total -= freed
        return value
