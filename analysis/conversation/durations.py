"""Durations, how often they occur, and the one definition of a percentile.

`Durations` keeps every duration, in eight bytes; `Histogram` keeps less, and is approximate. Both have `quantiles`.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final

_RUN: Final = 10_000
"""How many durations are sorted together, which takes a few milliseconds."""


def quantile(count: int, ranked: Callable[[int], int], part: float) -> int:
    """The value at a part of the way from the smallest to the largest.

    Between two values it interpolates, as SQL's `quantile_cont` does.

    Args:
        count: how many values there are, at least one.
        ranked: returns the value at a rank, counted from 0.
        part: from 0 to 1, as 0.5 for the median.
    """
    place = part * (count - 1)
    below = ranked(int(place))
    above = ranked(min(int(place) + 1, count - 1))
    return below + int((above - below) * (place - int(place)))


class Durations:
    """Durations in nanoseconds, all of which are kept."""

    __slots__ = ("_new", "_sorted", "count", "most")

    def __init__(self) -> None:
        self._sorted: list[array[int]] = []
        self._new = array("q")
        self.count = 0
        self.most = 0
        """The longest."""

    def add(self, ns: int) -> None:
        """Add a duration."""
        self._new.append(ns)
        self.count += 1
        self.most = max(self.most, ns)
        if len(self._new) == _RUN:
            self._sorted.append(self._in_order())
            self._new = array("q")

    def merge(self, other: "Durations") -> None:
        """Add all durations of another `Durations`."""
        self._sorted += other._sorted
        for ns in other._new:
            self.add(ns)
        self.count += sum(map(len, other._sorted))
        self.most = max(self.most, other.most)

    def quantiles(self, *parts: float) -> list[int | None]:
        """Returns the `quantile` for each part, all None if there are no durations."""
        if not self.count:
            return [None] * len(parts)
        runs = self._runs()

        def ranked(rank: int) -> int:
            if len(runs) == 1:
                return runs[0][rank]
            # The smallest value that more than `rank` durations do not exceed.
            low, high = 0, self.most
            while low < high:
                middle = (low + high) // 2
                if sum(bisect_right(run, middle) for run in runs) > rank:
                    high = middle
                else:
                    low = middle + 1
            return low

        return [quantile(self.count, ranked, part) for part in parts]

    def octaves(self) -> dict[int, int]:
        """Counts by power of two: the key n counts durations from 2^(n-1) to below 2^n nanoseconds."""
        runs = self._runs()
        found, before = {}, 0
        for octave in range(self.most.bit_length() + 1 if self.count else 0):
            below = sum(bisect_left(run, 1 << octave) for run in runs) if octave < 63 else self.count
            if below > before:
                found[octave] = below - before
            before = below
        return found

    def _in_order(self) -> "array[int]":
        return array("q", sorted(self._new))

    def _runs(self) -> "list[array[int]]":
        return [*self._sorted, self._in_order()] if self._new else self._sorted
