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

    def add(self, members: dict[str, Any], t_ns: int) -> None:
        """Learn from a `stall` record of that stamp; one out of order is passed over."""
        first, waited = _integer(members.get("of")), waited_of(members, t_ns)
        last = _integer(members.get("to"))
        if first is None or waited is None or (self._first and first <= self._first[-1]):
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


def waited_of(members: dict[str, Any], t_ns: int) -> int | None:
    """How long a `stall` record of that stamp says that its frames waited; None where it says nothing that makes sense.

    Never longer than the capture had run by then: what is forged would push a request out of the range of every column.
    """
    waited = _integer(members.get("waited_ns"))
    return None if waited is None or waited < 0 else min(waited, t_ns)


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
