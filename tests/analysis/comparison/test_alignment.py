"""Alignment: a longest common subsequence, or nothing within the bound."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.values.alignment import aligned
from tests.examples import examples

SEQUENCES = st.lists(st.integers(0, 3), max_size=12)


def _longest(old: list[int], new: list[int]) -> int:
    lengths = [0] * (len(new) + 1)
    for element in old:
        previous = 0
        for index, other in enumerate(new):
            diagonal, previous = previous, lengths[index + 1]
            lengths[index + 1] = diagonal + 1 if element == other else max(lengths[index + 1], lengths[index])
    return lengths[-1]


@given(SEQUENCES, SEQUENCES)
@examples(300)
def test_pairs_are_a_longest_common_subsequence(old: list[int], new: list[int]) -> None:
    pairs = aligned(old, new)
    assert pairs is not None
    assert all(old[old_index] == new[new_index] for old_index, new_index in pairs)
    for (old_index, new_index), (next_old, next_new) in pairwise(pairs):
        assert old_index < next_old
        assert new_index < next_new
    assert len(pairs) == _longest(old, new)


def test_work_is_bounded() -> None:
    old, new = [1, 2, 3] * 10_000, [1, 3, 2] * 10_000
    assert aligned(old, new, max_steps=20_000) is None
    assert aligned(old, old, max_steps=0) == [(index, index) for index in range(30_000)]
