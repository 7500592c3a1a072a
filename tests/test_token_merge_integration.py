"""The reverts of past bug fixes: a change finds its place in a later version of its module."""

import pytest

from tests.bench.guard.token_merge import merged_text

FIXED = '''\
def bounded(room, size):
    """What fits into a line."""
    if size < 0:
        return 0
    return min(room, size)


def total(sizes):
    return sum(sizes)
'''
FAULTY = '''\
def bounded(room, size):
    """What fits into a line."""
    return min(room, size)


def total(sizes):
    return sum(sizes)
'''


def test_lines_are_removed_where_names_and_docstrings_have_changed() -> None:
    later = FIXED.replace("room", "width").replace("What fits", "Returns what fits").replace("bounded", "bounded_size")
    assert merged_text(FIXED, FAULTY, later) == later.replace("    if size < 0:\n        return 0\n", "")


def test_lines_come_back_with_todays_names() -> None:
    later = FAULTY.replace("size", "byte_count").replace("bounded", "bounded_count").replace("sizes", "byte_counts")
    merged = merged_text(FAULTY, FIXED, later)
    assert merged == later.replace('line."""\n', 'line."""\n    if byte_count < 0:\n        return 0\n')


def test_a_part_of_a_line_is_replaced() -> None:
    later = FIXED.replace("room", "width")
    changed = FIXED.replace("min(room, size)", "room")
    assert merged_text(FIXED, changed, later) == later.replace("min(width, size)", "width")


def test_words_stay_apart() -> None:
    changed = FIXED.replace("sum(sizes)", "sum(sizes if sizes else (0,))")
    assert merged_text(FIXED, changed, FIXED.replace("sizes", "widths")) == changed.replace("sizes", "widths")
    before, changed = "x = 1\ny = [a for a in (b) if a]\n", "x = 1\ny = [a for a in b if a]\n"
    assert merged_text(before, changed, before.replace("x", "z")) == changed.replace("x", "z")


def test_a_whole_function_goes_although_its_docstring_was_reworded() -> None:
    total = FIXED[FIXED.index("def total") :]
    before, later = ("import math\n\n\n" + text for text in (FIXED, FIXED.replace("What fits", "Returns what fits")))
    assert merged_text(before, f"import math\n\n\n{total}", later) == f"import math\n\n\n{total}"


def test_the_last_lines_of_a_block_go_with_their_indentation() -> None:
    before = "def f(x):\n    if x:\n        g()\n        h()\n    return x\n\n\nf(1)\n"
    changed = before.replace("        h()\n", "")
    later = before.replace("g", "first").replace("f(1)", "f(2)")
    assert merged_text(before, changed, later) == later.replace("        h()\n", "")


@pytest.mark.parametrize(
    "later", ["", "def other():\n    pass\n", FIXED.replace("    if size < 0:\n        return 0\n", "")]
)
def test_what_finds_no_place_changes_nothing(later: str) -> None:
    assert merged_text(FIXED, FAULTY, later) == later
