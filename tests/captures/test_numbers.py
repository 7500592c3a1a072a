"""Numbers are found at their positions, regardless of their order, and without a linear search."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.numbers import NumberList

ORDERS: Final[dict[str, Callable[[int], Sequence[int]]]] = {
    "ascending": range,
    "descending": lambda count: range(count - 1, -1, -1),
    "one forged": lambda count: [0, 1, 2, 1 << 63, *range(4, count)],
    "shuffled": lambda count: random.Random(1).sample(range(count), count),
    "all the same, but one": lambda count: [7] * (count - 1) + [5],
    "far apart": lambda count: [number << 44 for number in range(count - 1, -1, -1)],
}


@given(st.lists(st.integers(0, 9) | st.integers(0, (1 << 64) - 1)), st.integers(0, (1 << 65)))
def test_a_number_is_found_where_it_is(numbers: list[int], other: int) -> None:
    made, known = NumberList(), set()
    for number in numbers:
        made.append(number)
        known.add(number)
        for one in (*known, other):
            place = made.position_of(one)
            assert (place is not None) == (one in known)
            assert place is None or made.values[place] == one
    assert len(made) == len(numbers)
    assert made.last == (numbers[-1] if numbers else 0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_search_does_not_take_longer_for_their_order(order: str) -> None:
    """A linear search would take minutes."""
    numbers, made = ORDERS[order](20_000), NumberList()
    start = time.process_time()
    for at, number in enumerate(numbers):
        made.append(number)
        if at % 3 == 0:
            assert made.position_of(number) is not None
            assert made.position_of((1 << 64) - 1 - at) is None
    assert time.process_time() - start < 10
