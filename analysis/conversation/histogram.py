"""Histogram: how durations are distributed, in little room however many there are.

Buckets are fine for short durations and coarse for long ones: what is told of one is right within 2 %. Quantiles are
those of the views in SQL, interpolated between neighbours, so a screen and a query tell the same of a few answers.
"""

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import Final

_FINENESS: Final = 6
"""Bits of a duration that are kept."""


class Histogram:
    """Durations in nanoseconds."""

    __slots__ = ("_counts", "count", "most")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.most = 0
        """The longest, exactly."""

    def add(self, ns: int) -> None:
        """One more."""
        power = max(0, ns.bit_length() - _FINENESS)
        self._counts[power << 32 | ns >> power] += 1
        self.count += 1
        self.most = max(self.most, ns)

    def merge(self, other: "Histogram") -> None:
        """All of another one more."""
        for key, count in other._counts.items():
            self._counts[key] += count
        self.count += other.count
        self.most = max(self.most, other.most)

    def quantiles(self, *parts: float) -> list[int | None]:
        """For each part, what stands at that part of the way from the shortest to the longest; None where none is.

        Between two of them it is as far from the one to the other as the part says, as in `quantile_cont` of SQL.

        Args:
            parts: from 0 to 1, as 0.5 for the median.
        """
        if not self.count:
            return [None] * len(parts)
        keys = sorted(self._counts)
        ends = list(accumulate(self._counts[key] for key in keys))
        found: list[int | None] = []
        for part in parts:
            place = part * (self.count - 1)
            below = self._ranked(int(place), keys, ends)
            above = self._ranked(min(int(place) + 1, self.count - 1), keys, ends)
            found.append(below + int((above - below) * (place - int(place))))
        return found

    def _ranked(self, rank: int, keys: list[int], ends: list[int]) -> int:
        """The one before which there are so many, as its bucket tells it."""
        if rank == self.count - 1:
            return self.most
        key = keys[bisect_right(ends, rank)]
        power, mantissa = key >> 32, key & 0xFFFFFFFF
        return min((mantissa << power) + ((1 << power) >> 1), self.most)

    def octaves(self) -> dict[int, int]:
        """How many there are by power of two: under n those from 2^(n-1) to below 2^n nanoseconds."""
        made: Counter[int] = Counter()
        for key, count in self._counts.items():
            made[(key >> 32) + (key & 0xFFFFFFFF).bit_length()] += count
        return dict(sorted(made.items()))
