"""Stalls: how long frames to the server waited to be taken, by the records that tell of it."""

from bisect import bisect_right
from typing import Any, Final

_KEPT: Final = 10_000


class Stalls:
    """How long frames to the server waited to be taken. A stall is written after the frame that it is about."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []
        self._waited: list[int] = []

    def add(self, members: dict[str, Any]) -> None:
        """Learn from a `stall` record; one out of order is passed over."""
        first, waited = _integer(members.get("of")), _integer(members.get("waited_ns"))
        last = _integer(members.get("to"))
        if first is None or waited is None or waited < 0 or (self._first and first <= self._first[-1]):
            return
        for column, value in (
            (self._first, first),
            (self._last, first if last is None else last),
            (self._waited, waited),
        ):
            column.append(value)
            if len(column) > _KEPT:
                del column[: _KEPT // 2]

    def waited_ns(self, seq: int) -> int:
        """How long the frame `seq` waited."""
        if not self._first:
            return 0
        at = bisect_right(self._first, seq) - 1
        return self._waited[at] if at >= 0 and seq <= self._last[at] else 0


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
