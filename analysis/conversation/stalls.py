"""Stalls: how long the server took to accept frames, according to the `stall` records."""

from bisect import bisect_right
from typing import Any, Final

_MAX_STALLS: Final = 10_000


class Stalls:
    """How long the server took to accept frames. A stall is recorded after the frame that it is about."""

    def __init__(self) -> None:
        self.has_any = False
        """Whether any frame is known to have waited."""
        self._first: list[int] = []
        self._last: list[int] = []
        self._waited: list[int] = []

    def add(self, members: dict[str, Any], t_ns: int) -> None:
        """Add a `stall` record with its stamp; one that is out of order is skipped."""
        first, waited = _integer(members.get("of")), waited_of(members, t_ns)
        last = _integer(members.get("to"))
        if first is None or waited is None or (self._first and first <= self._first[-1]):
            return
        self.has_any = True
        for column, value in (
            (self._first, first),
            (self._last, first if last is None else last),
            (self._waited, waited),
        ):
            column.append(value)
            if len(column) > _MAX_STALLS:
                del column[: _MAX_STALLS // 2]

    def waited_ns(self, seq: int) -> int:
        """How long the frame `seq` waited."""
        at = bisect_right(self._first, seq) - 1
        return self._waited[at] if at >= 0 and seq <= self._last[at] else 0


def waited_of(members: dict[str, Any], t_ns: int) -> int | None:
    """Returns the wait that a `stall` record with this stamp reports for its frames, or None if it is invalid.

    Never longer than the capture had run by then: a forged wait would push a request beyond the range of every column.
    """
    waited = _integer(members.get("waited_ns"))
    return None if waited is None or waited < 0 else min(waited, t_ns)


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
