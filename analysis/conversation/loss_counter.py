"""Loss counter: how often records were lost, and which: a response may be among the records lost after its request."""

from bisect import bisect_right
from typing import Final, NamedTuple

MAX_LOST_RANGES: Final = 1000
"""How many ranges of lost records are distinguished; the last one contains all that follow."""


class LostRecords(NamedTuple):
    """Lost records among which a response may be."""

    first: int
    """The number of the first one."""
    last: int
    """The number of the last one."""
    places: int = 1
    """In how many places they are: with more than one, records between them were kept."""


class LossCounter:
    """Counts losses of records, which may include responses. All requests of a table share one, to save memory."""

    __slots__ = ("_ranges", "count")

    def __init__(self) -> None:
        self.count = 0
        self._ranges: list[tuple[int, int, int]] = []
        """The ranges of numbers that are known, ascending: when each was noted, by `count`, its first and its last."""

    def note(self, lost_range: tuple[int, int] | None) -> None:
        """Count a loss.

        Args:
            lost_range: the first and the last number of the lost records; None if that is unknown.
        """
        self.count += 1
        if lost_range is None:
            return
        first, last = lost_range
        ranges = self._ranges
        # A gap is noted twice if later records have revealed it before its own record came.
        while ranges and (ranges[-1][2] >= first - 1 or len(ranges) == MAX_LOST_RANGES):
            _, previous_first, previous_last = ranges.pop()
            first, last = min(first, previous_first), max(last, previous_last)
        ranges.append((self.count, first, last))

    def lost_since(self, count: int, after: int, before: int | None = None) -> LostRecords | None:
        """Returns the records that were lost after a message, or None if their numbers are not known.

        Args:
            count: the value of `count` when the message came.
            after: the number of its record.
            before: the number of the record before which they were lost; None if there is no limit.
        """
        ranges = self._ranges
        start = max(bisect_right(ranges, count, key=_noted), bisect_right(ranges, after, key=_last))
        end = len(ranges) if before is None else bisect_right(ranges, before, key=_first)
        if start >= end:
            return None
        return LostRecords(max(ranges[start][1], after + 1), ranges[end - 1][2], end - start)


def _noted(lost_range: tuple[int, int, int]) -> int:
    return lost_range[0]


def _first(lost_range: tuple[int, int, int]) -> int:
    return lost_range[1]


def _last(lost_range: tuple[int, int, int]) -> int:
    return lost_range[2]
