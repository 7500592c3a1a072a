"""Durations: quantiles equal those of `quantile_cont`, for any number of durations, and none is lost."""

from collections import Counter
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import store
from analysis.conversation import durations as module
from analysis.conversation.durations import PARTS_PER_OCTAVE, SHORTEST_OCTAVE, Durations, octave_ns, part_begin_ns

PARTS = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)
HISTOGRAM = Path(store.__file__).parent / "views/latency_histogram.sql"
VALUES = st.lists(st.integers(0, 2**40), max_size=60)


@pytest.fixture(autouse=True, scope="module")
def short_runs() -> Iterator[None]:
    """Sort only a few at a time, so that there are several runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RUN", 7)
        yield


def made_of(values: list[int]) -> Durations:
    """Durations with these values."""
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
def test_octaves_are_the_buckets_of_the_sql_view_and_count_all(values: list[int]) -> None:
    view = HISTOGRAM.read_text()
    bucket = view[view.index("case when latency_ms") : view.index(" as bucket")]
    with duckdb.connect() as connection:
        times = f"select v / 1e6 as latency_ms from unnest({values}::bigint[]) t(v)"
        exact = dict(connection.execute(f"select {bucket}, count(*) from ({times}) group by 1").fetchall())
    held = made_of(values)
    assert held.octaves() == exact
    assert list(held.octaves()) == sorted(exact)
    assert (held.count, held.most) == (len(values), max(values, default=0))


@pytest.mark.parametrize("octave", range(SHORTEST_OCTAVE, 43))
def test_an_octave_begins_at_a_power_of_two_of_a_millisecond(octave: int) -> None:
    low, high = octave_ns(octave)
    assert (low, high) == (0 if octave == -10 else ceil(2**octave * 1_000_000), ceil(2 ** (octave + 1) * 1_000_000))
    assert made_of([low, high - 1, high]).octaves() == {octave: 2, octave + 1: 1}


@given(VALUES)
def test_parts_of_octaves_add_up_to_them(values: list[int]) -> None:
    held = made_of(values)
    for part, count in held.parts().items():
        assert sum(part_begin_ns(part) <= value < part_begin_ns(part + 1) for value in values) == count
    octaves = Counter[int]()
    for part, count in held.parts().items():
        octaves[part // PARTS_PER_OCTAVE] += count
    assert octaves == held.octaves()


@given(VALUES, VALUES)
def test_two_are_one(some: list[int], others: list[int]) -> None:
    held, both = made_of(some), made_of(some + others)
    held.merge(made_of(others))
    assert held.quantiles(*PARTS) == both.quantiles(*PARTS)
    assert (held.count, held.most, held.octaves()) == (both.count, both.most, both.octaves())


def test_nothing_has_no_quantile() -> None:
    assert Durations().quantiles(0.5, 0.95) == [None, None]
