"""Histogram: quantiles equal those of `quantile_cont` within 2 %, and exactly where the buckets are exact."""

from fractions import Fraction

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.histogram import Histogram

PARTS = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)


def histogram(values: list[int]) -> Histogram:
    """A histogram of these durations."""
    made = Histogram()
    for value in values:
        made.add(value)
    return made


def between(values: list[int], part: float) -> Fraction:
    """The exact quantile."""
    ranked, place = sorted(values), Fraction(part) * (len(values) - 1)
    below, above = ranked[int(place)], ranked[min(int(place) + 1, len(values) - 1)]
    return below + (above - below) * (place - int(place))


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=60))
def test_quantiles_are_close(values: list[int]) -> None:
    held = histogram(values)
    for part, found in zip(PARTS, held.quantiles(*PARTS), strict=True):
        exact = between(values, part)
        assert found is not None
        assert abs(found - exact) <= exact / 50 + 1
    assert held.most == max(values)


@given(st.lists(st.integers(0, 63), min_size=1, max_size=20))
def test_a_query_tells_the_same(values: list[int]) -> None:
    asked = f"select quantile_cont(v::double, {list(PARTS)}) from unnest({values}) t(v)"
    with duckdb.connect() as connection:
        ((exact,),) = connection.execute(asked).fetchall()
    told = histogram(values).quantiles(*PARTS)
    assert all(one is not None and abs(one - other) <= 1 for one, other in zip(told, exact, strict=True))


def test_nothing_has_no_quantile() -> None:
    assert Histogram().quantiles(0.5, 0.95) == [None, None]
