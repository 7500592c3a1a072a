"""Durations: quantiles are those of `quantile_cont`, however many there are, and none is lost."""

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation import durations as module
from analysis.conversation.durations import Durations

PARTS = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)
VALUES = st.lists(st.integers(0, 2**40), max_size=60)


@pytest.fixture(autouse=True, scope="module")
def short_runs() -> Iterator[None]:
    """Sort a few at a time, so that there are several runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RUN", 7)
        yield


def made_of(values: list[int]) -> Durations:
    """Some durations."""
    made = Durations()
    for value in values:
        made.add(value)
    return made


@given(VALUES.filter(bool))
def test_a_query_tells_the_same(values: list[int]) -> None:
    asked = f"select quantile_cont(v::double, {list(PARTS)}) from unnest({values}) t(v)"
    with duckdb.connect() as connection:
        ((exact,),) = connection.execute(asked).fetchall()
    told = made_of(values).quantiles(*PARTS)
    assert all(one is not None and abs(one - other) <= 1 for one, other in zip(told, exact, strict=True)), (told, exact)


@given(VALUES)
def test_octaves_count_all(values: list[int]) -> None:
    held = made_of(values)
    assert held.octaves() == dict(sorted(Counter(value.bit_length() for value in values).items()))
    assert (held.count, held.most) == (len(values), max(values, default=0))


@given(VALUES, VALUES)
def test_two_are_one(some: list[int], others: list[int]) -> None:
    held, both = made_of(some), made_of(some + others)
    held.merge(made_of(others))
    assert held.quantiles(*PARTS) == both.quantiles(*PARTS)
    assert (held.count, held.most, held.octaves()) == (both.count, both.most, both.octaves())


def test_nothing_has_no_quantile() -> None:
    assert Durations().quantiles(0.5, 0.95) == [None, None]
