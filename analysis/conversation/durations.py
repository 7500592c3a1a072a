"""Durations, their distribution, and the one definition of a percentile.

`Durations` keeps every duration, in eight bytes each; `Histogram` keeps less, and is approximate. Both have
`quantiles`.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final

_MS_NS: Final = 1_000_000
_RUN: Final = 10_000
"""How many durations are sorted together, which takes a few milliseconds."""

SHORTEST_OCTAVE: Final = -10
"""The first octave, which also contains all shorter durations."""
PARTS_PER_OCTAVE: Final = 8
"""The number of equal parts of an octave; the parts are numbered on from octave to octave, from the one at 1 ms."""


def octave_ns(octave: int) -> tuple[int, int]:
    """Returns the range of an octave in nanoseconds: its shortest duration, and the shortest that is too long for it.

    Octave n begins at 2^n ms: at 0.5, 1, 2, 4 ms and so on; `SHORTEST_OCTAVE` begins at 0.
    """
    return (0 if octave == SHORTEST_OCTAVE else _begin_ns(octave)), _begin_ns(octave + 1)


def part_begin_ns(part: int) -> int:
    """Returns the shortest duration of a part of an octave, in nanoseconds."""
    octave, position = divmod(part, PARTS_PER_OCTAVE)
    low, high = octave_ns(octave)
    return low + (high - low) * position // PARTS_PER_OCTAVE


def _begin_ns(octave: int) -> int:
    return _MS_NS << octave if octave >= 0 else -(-_MS_NS // (1 << -octave))


def quantile(count: int, value_at: Callable[[int], int], part: float) -> int:
    """Returns a quantile of some values.

    Between two values it interpolates, as SQL's `quantile_cont` does.

    Args:
        count: how many values there are, at least one.
        value_at: returns the value at a rank, counted from 0.
        part: from 0 to 1, such as 0.5 for the median.
    """
    position = part * (count - 1)
    lower = value_at(int(position))
    upper = value_at(min(int(position) + 1, count - 1))
    return lower + int((upper - lower) * (position - int(position)))


class Durations:
    """Keeps all durations, in nanoseconds."""

    __slots__ = ("_new", "_sorted", "count", "most")

    def __init__(self) -> None:
        self._sorted: list[array[int]] = []
        self._new = array("q")
        self.count = 0
        self.most = 0
        """The longest duration."""

    def add(self, ns: int) -> None:
        """Add a duration."""
        self._new.append(ns)
        self.count += 1
        self.most = max(self.most, ns)
        if len(self._new) == _RUN:
            self._sorted.append(self._sorted_new_run())
            self._new = array("q")

    def merge(self, other: "Durations") -> None:
        """Add all durations of another `Durations`."""
        self._sorted += other._sorted
        for ns in other._new:
            self.add(ns)
        self.count += sum(map(len, other._sorted))
        self.most = max(self.most, other.most)

    def quantiles(self, *parts: float) -> list[int | None]:
        """Returns the `quantile` for each part; all are None if there are no durations."""
        if not self.count:
            return [None] * len(parts)
        runs = self._runs()

        def value_at(rank: int) -> int:
            if len(runs) == 1:
                return runs[0][rank]
            # Find the smallest value that more than `rank` durations do not exceed.
            low, high = 0, self.most
            while low < high:
                middle = (low + high) // 2
                if sum(bisect_right(run, middle) for run in runs) > rank:
                    high = middle
                else:
                    low = middle + 1
            return low

        return [quantile(self.count, value_at, part) for part in parts]

    def octaves(self) -> dict[int, int]:
        """Returns how many durations are in each octave (see `octave_ns`), as in the view `latency_histogram`."""
        return self._counts(SHORTEST_OCTAVE, lambda octave: octave_ns(octave)[1])

    def parts(self) -> dict[int, int]:
        """Returns how many durations are in each part of an octave (see `part_begin_ns`)."""
        return self._counts(SHORTEST_OCTAVE * PARTS_PER_OCTAVE, lambda part: part_begin_ns(part + 1))

    def _counts(self, bucket: int, end_ns_of: Callable[[int], int]) -> dict[int, int]:
        """Returns how many durations are in each bucket, from the first one."""
        runs = self._runs()
        counts, counted = {}, 0
        while counted < self.count:
            until_ns = end_ns_of(bucket)
            # A run cannot be searched for a number that does not fit its type.
            count_below = self.count if until_ns > self.most else sum(bisect_left(run, until_ns) for run in runs)
            if count_below > counted:
                counts[bucket] = count_below - counted
            counted, bucket = count_below, bucket + 1
        return counts

    def _sorted_new_run(self) -> "array[int]":
        return array("q", sorted(self._new))

    def _runs(self) -> "list[array[int]]":
        return [*self._sorted, self._sorted_new_run()] if self._new else self._sorted
