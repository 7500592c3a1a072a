"""Stalls: the time that the server took to accept frames, according to the `stall` records."""

from bisect import bisect_right
from typing import Any, Final

_MAX_STALLS: Final = 10_000


class Stalls:
    """Looks up how long frames waited. A `stall` record comes after the frames that it is about."""

    def __init__(self) -> None:
        self.has_any = False
        """Whether any frame is known to have waited."""
        self._first_seqs: list[int] = []
        self._last_seqs: list[int] = []
        self._waits_ns: list[int] = []

    def add(self, members: dict[str, Any], t_ns: int) -> None:
        """Add a `stall` record with its stamp. Invalid records, and those out of order, are skipped."""
        first, waited_ns = _integer(members.get("of")), wait_of(members, t_ns)
        last = _integer(members.get("to"))
        if first is None or waited_ns is None or (self._first_seqs and first <= self._first_seqs[-1]):
            return
        self.has_any = True
        for column, value in (
            (self._first_seqs, first),
            (self._last_seqs, first if last is None else last),
            (self._waits_ns, waited_ns),
        ):
            column.append(value)
            if len(column) > _MAX_STALLS:
                del column[: _MAX_STALLS // 2]

    def waited_ns(self, seq: int) -> int:
        """Returns how long the frame `seq` waited."""
        position = bisect_right(self._first_seqs, seq) - 1
        return self._waits_ns[position] if position >= 0 and seq <= self._last_seqs[position] else 0


def wait_of(members: dict[str, Any], t_ns: int) -> int | None:
    """Returns the wait that a `stall` record with this stamp reports for its frames, or None if it is invalid.

    The wait is never longer than the capture had run: a forged wait would push a request beyond the range of all
    columns.
    """
    waited_ns = _integer(members.get("waited_ns"))
    return None if waited_ns is None or waited_ns < 0 else min(waited_ns, t_ns)


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
