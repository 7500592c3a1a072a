"""Objects and arrays in text."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.importers.json_text import Nesting, end_of_value, member_text

VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(st.lists(VALUES), st.sampled_from([None, 2]))
def test_a_value_ends_where_its_brackets_close(value: list[Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    assert end_of_value(b"x" + text + b"]}", 1) == 1 + len(text)
    assert end_of_value(text[:-1], 0) is None


@given(st.dictionaries(st.text(alphabet="ab\"\\{'"), VALUES | st.just({"raw": [1.10]})))
def test_the_text_of_a_member_is_found(value: dict[str, Any]) -> None:
    text = json.dumps({**value, "raw": {"raw": 1.1}, "after": [1]}).encode()
    assert member_text(text, b"raw") == b'{"raw": 1.1}'
    assert member_text(text, b"after") == b"[1]"


def test_a_member_that_is_no_object_or_array_is_not_found() -> None:
    assert member_text(b'{"a":"b","b":1,"c":{"d":{}}}', b"b") is None
    assert member_text(b'{"a":"b","b":1,"c":{"d":{}}}', b"d") is None
    assert member_text(b'{"a":{"b":', b"a") is None
    assert member_text(b"", b"a") is None


def test_nesting_is_followed_from_line_to_line() -> None:
    nesting = Nesting()
    assert [nesting.find_end(line) for line in (b"{ a: '}',", b'  "b": [ "]"', b"]", b"} trailing")] == [
        None,
        None,
        None,
        1,
    ]


def test_a_string_without_an_end_ends_with_its_line() -> None:
    nesting = Nesting()
    assert [nesting.find_end(line) for line in (b"{ a: 'it is } cut", b"}")] == [None, 1]
