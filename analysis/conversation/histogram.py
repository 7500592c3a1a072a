"""Histogram: the distribution of durations, in little memory however many there are.

Buckets are fine for short durations and coarse for long ones: reported durations are correct within 2 %. Quantiles are
computed as in the SQL views, interpolated between neighbours, so a screen and a query agree on a few responses.
"""

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import Final

_FINENESS: Final = 6
"""How many bits of a duration are kept."""


class Histogram:
    """A histogram of durations in nanoseconds."""

    __slots__ = ("_counts", "count", "most")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.most = 0
        """The exact longest duration."""

    def add(self, ns: int) -> None:
        """Add a duration."""
        power = max(0, ns.bit_length() - _FINENESS)
        self._counts[power << 32 | ns >> power] += 1
        self.count += 1
        self.most = max(self.most, ns)

    def merge(self, other: "Histogram") -> None:
        """Add all durations of another histogram."""
        for key, count in other._counts.items():
            self._counts[key] += count
        self.count += other.count
        self.most = max(self.most, other.most)

    def quantiles(self, *parts: float) -> list[int | None]:
        """For each part, the duration at that part of the way from the shortest to the longest; None if there are none.

        Between two durations it interpolates, as SQL's `quantile_cont` does.

        Args:
            parts: from 0 to 1, as 0.5 for the median.
        """
        if not self.count:
            return [None] * len(parts)
        keys = sorted(self._counts)
        ends = list(accumulate(self._counts[key] for key in keys))
        values: list[int | None] = []
        for part in parts:
            place = part * (self.count - 1)
            below = self._ranked(int(place), keys, ends)
            above = self._ranked(min(int(place) + 1, self.count - 1), keys, ends)
            values.append(below + int((above - below) * (place - int(place))))
        return values

    def _ranked(self, rank: int, keys: list[int], ends: list[int]) -> int:
        """The duration of this rank, as its bucket represents it."""
        if rank == self.count - 1:
            return self.most
        key = keys[bisect_right(ends, rank)]
        power, mantissa = key >> 32, key & 0xFFFFFFFF
        return min((mantissa << power) + ((1 << power) >> 1), self.most)

    def octaves(self) -> dict[int, int]:
        """Counts by power of two: under n, durations from 2^(n-1) to below 2^n nanoseconds."""
        octaves: Counter[int] = Counter()
        for key, count in self._counts.items():
            octaves[(key >> 32) + (key & 0xFFFFFFFF).bit_length()] += count
        return dict(sorted(octaves.items()))
