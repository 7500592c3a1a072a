"""Histogram: the distribution of any number of durations, in little memory.

Buckets are narrow for short durations and wide for long ones, so the figures are approximate, to within 2 %. The
figures of `Durations` are exact.
"""

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import Final

from analysis.conversation.durations import quantile

_MANTISSA_BITS: Final = 6
"""How many bits of a duration are kept: the most significant ones."""


class Histogram:
    """A histogram of durations in nanoseconds."""

    __slots__ = ("_counts", "count", "most")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.most = 0
        """The longest duration, which is exact."""

    def add(self, ns: int) -> None:
        """Add a duration."""
        power = max(0, ns.bit_length() - _MANTISSA_BITS)
        self._counts[power << 32 | ns >> power] += 1
        self.count += 1
        self.most = max(self.most, ns)

    def quantiles(self, *parts: float) -> list[int | None]:
        """Returns the `quantile` for each part; all are None if there are no durations."""
        if not self.count:
            return [None] * len(parts)
        keys = sorted(self._counts)
        ends = list(accumulate(self._counts[key] for key in keys))
        return [quantile(self.count, lambda rank: self._value_at(rank, keys, ends), part) for part in parts]

    def _value_at(self, rank: int, keys: list[int], ends: list[int]) -> int:
        """Returns the duration with this rank, as its bucket represents it."""
        if rank == self.count - 1:
            return self.most
        key = keys[bisect_right(ends, rank)]
        power, mantissa = key >> 32, key & 0xFFFFFFFF
        return min((mantissa << power) + ((1 << power) >> 1), self.most)
