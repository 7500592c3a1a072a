"""Decides which kinds of calls are slower or faster, for all kinds of calls of a comparison at once."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from math import log
from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.comparison.fisher import rejected_by_holm
from analysis.comparison.latency.latency_record import CallLatencies
from analysis.comparison.latency.quantile_ratio import LatencySeries, QuantileRatio, least_level, logarithm_of_change

Verdict: TypeAlias = Literal["slower", "faster", "cannot tell", "same"]

MEDIAN: Final = 0.5
TAIL: Final = 0.95
LEVEL: Final = 0.05
"""The greatest probability that a comparison of equal servers reports any change of latency."""
MIN_RATIO: Final = 1.1
"""A change by a smaller ratio is not reported, however certain it is: two starts of the same server differ as much."""
MIN_DIFFERENCE_NS: Final = 500_000
"""A smaller change is not reported: one delay by the scheduler is as long, and no user notices it."""
SAME_RATIO: Final = 1.5
"""Calls are `same` if no change was found, and one by more than this ratio is excluded."""
_TICK_NS: Final = 1_000_000


class Decision(NamedTuple):
    """What is known of one percentile of one kind of call."""

    is_changed: bool
    """Whether it changed by more than what is too small to matter."""
    interval: tuple[float, float] | None
    """The interval of the logarithm of the ratio new/old, or None if there are too few values.

    The interval of a change holds for all changes of the comparison together, the others each for itself.
    """
    same_within: float
    """Up to this logarithm, a ratio means the same."""

    @property
    def is_slower(self) -> bool:
        """Whether the calls are slower."""
        return self.is_changed and self.interval is not None and self.interval[0] > 0

    @property
    def is_faster(self) -> bool:
        """Whether the calls are faster."""
        return self.is_changed and self.interval is not None and self.interval[1] < 0

    @property
    def is_same(self) -> bool:
        """Whether a change that matters is excluded."""
        if self.is_changed or self.interval is None:
            return False
        return -self.same_within < self.interval[0] and self.interval[1] < self.same_within

    def is_slower_by(self, percent: float | None) -> bool:
        """Returns whether the calls are certainly slower by more than a percentage; None stands for any slowdown."""
        if not self.is_slower or self.interval is None:
            return False
        return percent is None or self.interval[0] > log(max(1.0, 1 + percent / 100))


_UNKNOWN: Final = Decision(False, None, 0.0)


class LatencyPair:
    """The latencies of the same kind of call on both sides, and what was decided about them."""

    def __init__(self, old: CallLatencies, new: CallLatencies) -> None:
        """Begin undecided; each side has at least one latency."""
        self.old, self.new = old, new
        self.decisions: dict[float, Decision] = {}
        """The decisions about the percentiles for which there are enough values."""

    @cached_property
    def series(self) -> tuple[LatencySeries, LatencySeries]:
        """The latencies of the old and the new side."""
        return LatencySeries(self.old.times_ns), LatencySeries(self.new.times_ns)

    def decision(self, part: float) -> Decision:
        """Returns the decision about a percentile."""
        return self.decisions.get(part, _UNKNOWN)

    @property
    def verdict(self) -> Verdict:
        """What both percentiles together say."""
        median, tail = self.decision(MEDIAN), self.decision(TAIL)
        if median.is_slower or tail.is_slower:
            return "slower"
        if median.is_faster or tail.is_faster:
            return "faster"
        return "same" if median.is_same else "cannot tell"


def decide(pairs: Sequence[LatencyPair]) -> int:
    """Decide about both percentiles of all pairs at once; returns how many decisions those were.

    A sample that is too small to show any change is left out, so that it does not make the others less certain. That
    depends on the numbers of calls only: if their times had a say, the probability of a wrong decision would grow.
    """
    candidates = sorted(
        (least_level(len(pair.old.times_ns), len(pair.new.times_ns), part), position, part)
        for position, pair in enumerate(pairs)
        for part in (MEDIAN, TAIL)
    )
    count = max((rank for rank, (level, _, _) in enumerate(candidates, 1) if level <= LEVEL / rank), default=0)
    tested = [(pairs[position], part) for _, position, part in candidates[:count]]
    ratios = [QuantileRatio(*pair.series, part) for pair, part in tested]
    probabilities = [
        _probability(quantiles, _least_difference_ns(pair)) for (pair, _), quantiles in zip(tested, ratios, strict=True)
    ]
    ordered, rejected = sorted(probabilities), rejected_by_holm(probabilities, LEVEL)
    for (pair, part), quantiles, probability, is_changed in zip(tested, ratios, probabilities, rejected, strict=True):
        same_within = max(log(SAME_RATIO), logarithm_of_change(MIN_DIFFERENCE_NS, quantiles.old.value_ns))
        level = LEVEL / (count - bisect_left(ordered, probability)) if is_changed else LEVEL
        pair.decisions[part] = Decision(is_changed, quantiles.interval(level), same_within)
    return count


def _probability(quantiles: QuantileRatio, difference_ns: int) -> float:
    """Returns the level at which a percentile certainly changed by more than what is too small to matter."""
    slower = max(log(MIN_RATIO), logarithm_of_change(difference_ns, quantiles.old.value_ns))
    faster = max(log(MIN_RATIO), logarithm_of_change(difference_ns, quantiles.new.value_ns))
    return quantiles.probability(-faster, slower)


def _least_difference_ns(pair: LatencyPair) -> int:
    """Returns the difference that is too small to matter: a whole tick if the clock shows milliseconds only."""
    is_coarse = all(time_ns % _TICK_NS == 0 for calls in (pair.old, pair.new) for time_ns in calls.times_ns)
    return _TICK_NS if is_coarse else MIN_DIFFERENCE_NS
