"""How much a quantile of latencies differs between two sides: a confidence interval of the ratio, and a p-value.

Each side has the order statistics between which its quantile lies, for as many independent values as the series is
worth (Woodruff 1952; Korn and Graubard 1998). Two such intervals give that of the ratio (Zou and Donner 2008). No
shape of the distribution is assumed, and nothing is random. docs/decisions/comparison.md says what else was tried.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, floor, hypot, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import Final

from analysis.comparison.latency.autocorrelation import MIN_COUNT, Autocorrelation, autocorrelation, with_bursts
from analysis.conversation.durations import quantile

SHORTEST_NS: Final = 1_000
"""Latencies are taken as at least this long, so that every ratio exists."""
_LEVELS: Final = 1e-9, 0.05
"""The range of levels at which a change can become certain."""
_STEPS: Final = 16
"""How often the range of levels is halved to find the one at which a change becomes certain."""
_NORMAL: Final = NormalDist()
_MEDIAN: Final = 0.5


class LatencySeries:
    """Latencies of one side, and what both percentiles need of them."""

    def __init__(self, times_ns: Sequence[int]) -> None:
        """Begin with the latencies in their order, in nanoseconds; there is at least one."""
        self.times_ns = times_ns
        self.ordered_ns = sorted(times_ns)
        self.logarithms = [log(max(SHORTEST_NS, time_ns)) for time_ns in self.ordered_ns]
        """The logarithms of the latencies, sorted."""
        self._autocorrelation = autocorrelation(times_ns)

    def quantile_ns(self, part: float) -> int:
        """Returns a quantile."""
        return quantile(len(self.ordered_ns), self.ordered_ns.__getitem__, part)

    def autocorrelation(self, part: float) -> Autocorrelation:
        """Returns the autocorrelation, as far as it matters for a quantile."""
        if part <= _MEDIAN:
            return self._autocorrelation
        limit = self.ordered_ns[min(len(self.ordered_ns) - 1, int(len(self.ordered_ns) * part))]
        return with_bursts(self._autocorrelation, self.times_ns, limit)


class _SideQuantile:
    """A quantile of one side."""

    def __init__(self, series: LatencySeries, part: float) -> None:
        self._part, self._autocorrelation = part, series.autocorrelation(part)
        self.logarithms, self.value_ns = series.logarithms, series.quantile_ns(part)
        self.logarithm = log(max(SHORTEST_NS, self.value_ns))

    def effective_count(self, level: float) -> float:
        return self._autocorrelation.effective_count(level)

    def limits(self, level: float) -> tuple[float, float] | None:
        """Returns the logarithms between which the quantile lies, or None if there are too few values."""
        count, effective = len(self.logarithms), self.effective_count(level)
        low = _rank(count, effective, self._part, level / 2)
        high = _rank(count, effective, 1 - self._part, level / 2)
        if low is None or high is None:
            return None
        return min(self.logarithms[low - 1], self.logarithm), max(self.logarithms[count - high], self.logarithm)


class QuantileRatio:
    """The ratio new/old of a quantile of latencies."""

    def __init__(self, old: LatencySeries, new: LatencySeries, part: float) -> None:
        """Begin with the latencies of both sides.

        Args:
            old: the latencies of the old side.
            new: those of the new side.
            part: the quantile, such as 0.5 for the median.
        """
        self.part = part
        self.old, self.new = _SideQuantile(old, part), _SideQuantile(new, part)

    def interval(self, level: float) -> tuple[float, float] | None:
        """Returns the interval of the logarithm of the ratio.

        Args:
            level: the probability that the ratio is not in the interval, such as 0.05.

        Returns:
            The interval, or None if the sides have too few values for this level.
        """
        old, new = self.old.limits(level), self.new.limits(level)
        if old is not None and new is not None:
            difference = self.new.logarithm - self.old.logarithm
            below = hypot(self.new.logarithm - new[0], old[1] - self.old.logarithm)
            above = hypot(new[1] - self.new.logarithm, self.old.logarithm - old[0])
            return difference - below, difference + above
        counts = self.old.effective_count(level), self.new.effective_count(level)
        if self.part == _MEDIAN and apart_probability(*counts) <= level:
            old_values, new_values = self.old.logarithms, self.new.logarithms
            return new_values[0] - old_values[-1], new_values[-1] - old_values[0]
        return None

    def probability(self, least: float, most: float) -> float:
        """Returns the lowest level, up to 0.05, at which the interval is outside of a range of logarithms, or 1."""

        def is_outside(level: float) -> bool:
            interval = self.interval(level)
            return interval is not None and (interval[0] > most or interval[1] < least)

        low, high = map(log, _LEVELS)
        if not is_outside(_LEVELS[1]):
            return 1.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if is_outside(exp(middle)) else (middle, high)
        return exp(high)


def least_level(old_count: float, new_count: float, part: float) -> float:
    """Returns the lowest level at which as many independent values can show a change, however large it is."""
    limits: float = 2 * max(part, 1 - part) ** min(old_count, new_count)
    return min(limits, apart_probability(old_count, new_count)) if part == _MEDIAN else limits


def needed_count(part: float, level: float) -> int:
    """Returns about how many values on each side can show a large change, if they hardly depend on each other.

    Args:
        part: the quantile.
        level: the probability of a wrong answer that is accepted.
    """
    count = MIN_COUNT
    while True:
        effective = Autocorrelation(count, 0.0, 1.0).effective_count(level)
        if least_level(effective, effective, part) <= level:
            return count
        count += 1


def apart_probability(old_count: float, new_count: float) -> float:
    """Returns how probable it is that all values of one side exceed all of the other by chance."""
    ways = lgamma(old_count + new_count + 1) - lgamma(old_count + 1) - lgamma(new_count + 1)
    return min(1.0, 2 * exp(-ways))


@lru_cache(maxsize=4096)
def _rank(count: int, effective: float, part: float, level: float) -> int | None:
    """Returns the rank of the value that is at most the quantile.

    It is the largest rank r for which fewer than r of the independent values are below the quantile with at most the
    given probability: a quantile of the binomial distribution, by the expansion of Cornish and Fisher, which gives the
    exact rank, or the one before it, for every count that was tried.

    Args:
        count: how many values there are.
        effective: how many independent ones they are worth.
        part: the quantile.
        level: the probability.

    Returns:
        The rank, from 1, among all values, or None if even the smallest value may exceed the quantile.
    """
    if effective * log1p(-part) > log(level):
        return None
    z, rest = _NORMAL.inv_cdf(level), 1 - part
    deviation = sqrt(effective * part * rest)
    rank = effective * part + 0.5 + deviation * z + (z * z - 1) * (1 - 2 * part) / 6
    rank += z * ((1 - 6 * part * rest) * (z * z - 3) / 24 - (2 * z * z - 5) * (1 - 2 * part) ** 2 / 36) / deviation
    return min(count, max(1, floor(max(1.0, rank) * count / effective)))


def ratio(logarithms: tuple[float, float]) -> tuple[float, float]:
    """Returns an interval of ratios from that of their logarithms."""
    return exp(logarithms[0]), exp(logarithms[1])


def logarithm_of_change(by_ns: int, of_ns: int) -> float:
    """Returns the logarithm of the ratio that makes a latency longer by some nanoseconds."""
    return log1p(by_ns / max(SHORTEST_NS, of_ns))
