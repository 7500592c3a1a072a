"""The layout of JSON in lines: it is the same JSON, and lines are short."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.line_layout import MAX_LINE_CHARS, laid_out
from tests.rows import row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=8),
    max_leaves=60,
)


@given(VALUES)
def test_it_is_the_same_json_in_lines_that_are_short(value: Any) -> None:
    lines = [*laid_out(value)]
    assert json.loads("\n".join(lines)) == value
    assert all(len(line) <= MAX_LINE_CHARS + 50 for line in lines), lines


def test_members_and_elements_have_a_line_of_their_own_and_numbers_fill_lines() -> None:
    long = "x" * 100
    for what, value, expected in (
        ("short", {"b": [1, {}], "a": 2}, ['{"a":2,"b":[1,{}]}']),
        ("object", {"b": long, "a": [long]}, ["{", f' "a":["{long}"],', f' "b":"{long}"', "}"]),
        ("list", [[long], [], long], ["[", f' ["{long}"],', " [],", f' "{long}"', "]"]),
        ("nested", {"a": {"c": long, "b": long}}, ["{", ' "a":{', f'  "b":"{long}",', f'  "c":"{long}"', " }", "}"]),
        ("text", "y" * 500, ['"' + "y" * 500 + '"']),
    ):
        with row(what):
            assert [*laid_out(value)] == expected
    assert [len(line) for line in laid_out([1_000_000] * 45)] == [1, 161, 161, 40, 1]
