"""How many independent values a series of latencies is worth: its effective sample size.

A slow call is often followed by another one, because whatever slows a server down lasts for a while. Such a series says
less than as many independent values do: its mean varies as that of n / t independent values, where n is the number of
values and t the integrated autocorrelation time, in calls. docs/decisions/comparison.md has the simulations behind
this.
"""

from collections.abc import Sequence
from math import sqrt
from operator import mul
from statistics import NormalDist
from typing import Final, NamedTuple

MIN_COUNT: Final = 8
"""From fewer values, nothing is known about their correlation."""
_MAX_CORRELATION: Final = 0.99
_MARGIN: Final = 0.9
_MARGIN_FROM: Final = 1.6
"""How the margin for the correlation of neighbours grows with the confidence that is required; found by simulation."""
_WINDOW: Final = 3.0
"""Correlations are added up over this many times of the autocorrelation (as Sokal 1997 does)."""
_MAX_BLOCKS: Final = 512
"""A longer series is divided into this many blocks, so that far correlations cost little."""


class Autocorrelation(NamedTuple):
    """What is known about the correlation of the values of a series."""

    length: int
    """How many values there are."""
    neighbours: float
    """The correlation of neighbours (at lag 1)."""
    time: float
    """The integrated autocorrelation time, from the correlations at all distances (lags); at least 1."""

    def effective_count(self, level: float) -> float:
        """Returns how many independent values the series is worth.

        If the correlation decays geometrically, that of neighbours gives its time. A short series may show a small one
        by chance; the more certain the answer must be, the larger is the margin for that.

        Args:
            level: the probability of a wrong answer that is accepted.
        """
        if self.length < MIN_COUNT:
            return min(1.0, self.length)
        margin = _MARGIN * max(0.0, NormalDist().inv_cdf(1 - level / 2) - _MARGIN_FROM)
        correlation = min(_MAX_CORRELATION, max(0.0, self.neighbours + margin / sqrt(self.length)))
        return self.length / max(self.time, (1 + correlation) / (1 - correlation))


def autocorrelation(values: Sequence[float]) -> Autocorrelation:
    """Returns the autocorrelation of a series.

    Ranks are correlated, not the values, so that a few extreme values do not hide the rest.
    """
    if len(values) < MIN_COUNT:
        return Autocorrelation(len(values), 1.0, 1.0)
    ranks = _centred_ranks(values)
    return Autocorrelation(len(values), _correlation_of_neighbours(ranks), _time(ranks))


def with_bursts(known: Autocorrelation, values: Sequence[float], limit: float) -> Autocorrelation:
    """Returns an autocorrelation that also knows bursts of large values, which the ranks of all values hardly show.

    Args:
        known: the autocorrelation of the series.
        values: the series, in order.
        limit: from where on a value is large.
    """
    if len(values) < MIN_COUNT:
        return known
    is_large = [float(value >= limit) for value in values]
    share = sum(is_large) / len(is_large)
    return known._replace(time=max(known.time, _time([value - share for value in is_large])))


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Returns the rank of each value, less the mean rank; equal values have the mean of their ranks."""
    rank_by_value: dict[float, float] = {}
    ordered = sorted(values)
    first = 0
    for position in range(1, len(ordered) + 1):
        if position == len(ordered) or ordered[position] != ordered[first]:
            rank_by_value[ordered[first]] = (first + position - 1) / 2
            first = position
    mean = (len(values) - 1) / 2
    return [rank_by_value[value] - mean for value in values]


def _correlation_of_neighbours(centred: Sequence[float]) -> float:
    """Returns the correlation of neighbours, without its bias.

    The usual estimate from n values is too small by (1 + 4r) / n (Marriott and Pope 1954).
    """
    count, squares = len(centred), _products(centred, centred)
    if squares == 0:
        return 0.0
    return (_products(centred, centred[1:]) / squares + 1 / count) / (1 - 4 / count)


def _time(centred: Sequence[float]) -> float:
    """Returns the integrated autocorrelation time, at least 1: the sum of the correlations at all distances."""
    squares = _products(centred, centred)
    if squares == 0:
        return 1.0
    size = -(-len(centred) // _MAX_BLOCKS)
    blocks = centred
    if size > 1:
        blocks = [sum(centred[begin : begin + size]) / size for begin in range(0, len(centred) - size + 1, size)]
    count, squares_of_blocks = len(blocks), _products(blocks, blocks)
    if squares_of_blocks == 0:
        return 1.0
    time, distance = 1.0, 0
    while distance < count // 3 and distance < _WINDOW * time:
        distance += 1
        time += 2 * (_products(blocks, blocks[distance:]) / squares_of_blocks + 1 / count)
    # The variance of the means of blocks contains the correlations inside a block; the sum has those between blocks.
    inside = size * (squares_of_blocks / count) / (squares / len(centred))
    return max(1.0, inside * time)


def _products(values: Sequence[float], others: Sequence[float]) -> float:
    """Returns the sum of the products of values and others, as far as both go."""
    total: float = sum(map(mul, values, others))
    return total
