"""Intervals of ratios, their levels, and how many independent values a series is worth."""

from math import comb, exp, log
from random import Random

import pytest

from analysis.comparison.latency.autocorrelation import autocorrelation, with_bursts
from analysis.comparison.latency.quantile_ratio import (
    LatencySeries,
    QuantileRatio,
    _rank,
    least_level,
    needed_count,
)

MS = 1_000_000
LEVEL = 0.05


def correlated(count: int, correlation: float, seed: int = 1) -> list[int]:
    """Latencies around 10 ms, each of which depends on the one before."""
    random, state, times = Random(seed), 0.0, []
    for _ in range(count):
        state = correlation * state + (1 - correlation**2) ** 0.5 * random.gauss(0, 1)
        times.append(int(10 * MS * exp(0.3 * state)))
    return times


def ratio_of(old: list[int], new: list[int], part: float = 0.5) -> QuantileRatio:
    return QuantileRatio(LatencySeries(old), LatencySeries(new), part)


def exact_rank(count: int, part: float, level: float) -> int:
    """The largest rank that more than this many of `count` values exceed with at most this probability."""
    rank, total = 0, 0.0
    while True:
        total += comb(count, rank) * part**rank * (1 - part) ** (count - rank)
        if total > level:
            return rank
        rank += 1


def test_ranks_are_those_of_the_binomial_distribution_or_wider() -> None:
    for part in (0.5, 0.05):
        for level in (0.025, 0.0125, 0.002, 0.0003):
            for count in [*range(8, 200), 400, 1000]:
                rank, exact = _rank(count, float(count), part, level), exact_rank(count, part, level)
                assert (rank is None) == (exact == 0), (count, part, level)
                assert rank is None or exact - 1 <= rank <= exact, (count, part, level)


def test_interval_of_known_samples() -> None:
    old = [time * MS for time in (10, 12, 11, 13, 10, 12, 11, 14, 10, 13, 12, 11, 13, 10, 12, 14)]
    new = [3 * time for time in old]
    interval = ratio_of(old, new).interval(LEVEL)
    assert interval is not None
    assert interval[0] < log(3) < interval[1]
    assert [round(exp(limit), 2) for limit in interval] == [2.46, 3.66]


def test_the_interval_of_swapped_sides_is_its_mirror_image() -> None:
    old, new = correlated(40, 0.3, 1), correlated(60, 0.3, 2)
    for part in (0.5, 0.95):
        there, back = ratio_of(old, new, part).interval(0.2), ratio_of(new, old, part).interval(0.2)
        assert (there is None) == (back is None)
        if there is not None and back is not None:
            assert there == pytest.approx((-back[1], -back[0]))


def test_samples_that_are_entirely_apart_are_told_apart_where_their_medians_have_no_limits() -> None:
    old, new = [10, 12, 11, 13, 10, 12, 11, 13], [40, 42, 41, 43, 40, 42, 41, 43]
    quantiles = ratio_of([time * MS for time in old], [time * MS for time in new])
    interval = quantiles.interval(0.002)
    assert interval is not None
    assert interval[0] == pytest.approx(log(40 / 13))


def test_the_lower_the_level_the_wider_the_interval() -> None:
    quantiles = ratio_of(correlated(50, 0.2, 3), correlated(50, 0.2, 4))
    widths = [high - low for low, high in filter(None, map(quantiles.interval, (0.2, 0.05, 0.01, 0.001)))]
    assert widths == sorted(widths)


def test_probability_is_the_level_at_which_the_interval_leaves_the_range() -> None:
    quantiles = ratio_of(correlated(50, 0.0, 3), [2 * time for time in correlated(50, 0.0, 4)])
    probability = quantiles.probability(-0.1, 0.1)
    assert 1e-9 < probability < LEVEL
    at, below = quantiles.interval(probability), quantiles.interval(probability / 1.01)
    assert at is not None
    assert at[0] > 0.1
    assert below is None or below[0] <= 0.1
    assert quantiles.probability(-5, 5) == 1


@pytest.mark.parametrize("times", [[0] * 20, [-5] * 20, [1 << 70] * 20, [0, 1 << 62] * 10, [7]])
def test_any_stamps_have_a_finite_interval_or_none(times: list[int]) -> None:
    for part in (0.5, 0.95):
        quantiles = ratio_of(times, [5 * MS] * 20, part)
        interval = quantiles.interval(LEVEL)
        assert interval is None or -60 < interval[0] <= interval[1] < 60
        assert 0 < quantiles.probability(0, 0) <= 1


def test_independent_values_are_worth_almost_their_number() -> None:
    worth = autocorrelation(correlated(1000, 0.0)).effective_count(LEVEL)
    assert 700 < worth <= 1000


def test_correlated_values_are_worth_what_theory_says_or_less() -> None:
    for correlation, expected in ((0.5, 333), (0.9, 53)):
        worth = autocorrelation(correlated(1000, correlation)).effective_count(LEVEL)
        assert 0.4 * expected < worth < 1.3 * expected


def test_a_trend_is_worth_few_values() -> None:
    assert autocorrelation([float(number) for number in range(200)]).effective_count(LEVEL) < 8


def test_a_long_series_in_blocks_is_worth_about_as_much_as_its_part_says() -> None:
    series = correlated(4000, 0.8)
    part = autocorrelation(series[:250]).effective_count(LEVEL)
    assert 8 < autocorrelation(series).effective_count(LEVEL) / part < 32


def test_bursts_of_slow_calls_count() -> None:
    random = Random(2)
    series = [random.gauss(100, 5) + (900 if number % 100 < 5 else 0) for number in range(400)]
    plain = autocorrelation(series)
    assert with_bursts(plain, series, 500).time > 1.5 * plain.time


def test_equal_values_and_few_values_have_a_worth() -> None:
    assert autocorrelation([3.0] * 50).effective_count(LEVEL) > 30
    assert autocorrelation([1.0, 2.0]).effective_count(LEVEL) == 1


def test_what_a_decision_needs() -> None:
    assert least_level(8, 20, 0.5) < least_level(10, 10, 0.5) < LEVEL < least_level(60, 60, 0.95)
    assert needed_count(0.5, LEVEL) == 8
    assert needed_count(0.5, LEVEL / 40) < needed_count(0.95, LEVEL) < needed_count(0.95, LEVEL / 40) < 300
