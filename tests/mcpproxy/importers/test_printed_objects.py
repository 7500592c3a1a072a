"""Objects as Python and JavaScript print them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.importers.printed_objects import (
    MAX_PRINTED_DEPTH,
    json_like_members,
    printed_bytes,
    printed_object,
    printed_object_by_tokens,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6)


@given(st.dictionaries(st.text(), VALUES))
def test_what_python_prints_comes_back(value: dict[str, Any]) -> None:
    printed = printed_object(repr(value) + ", metadata=None)")
    assert printed is not None
    assert (printed.members, printed.is_whole) == (value, True)


@pytest.mark.parametrize(
    "text",
    [
        "Request(method='a', params={'n': None, 'l': [1, -2.5e3]}, id=7, meta=None)",
        "method='a' params={'n': None, 'l': [1, -2.5e3]} id=7 meta=None",
        "Request(\n    method='a',\n    params={'n': None, 'l': [1, -2.5e3]},  # a note\n    id=7\n)",
        "{ method: 'a', params: { n: null, l: [ 1, -2.5e3 ] }, id: 7n, meta: undefined }",
        '{\n  method: "a",\n  params: [Object: null prototype] { n: null, l: [ 1, -2.5e3, ] },\n  id: 7\n}',
    ],
)
def test_other_ways_to_print_an_object(text: str) -> None:
    printed = printed_object(text)
    assert printed is not None
    assert printed.members == {"method": "a", "params": {"n": None, "l": [1, -2500.0]}, "id": 7}
    assert printed.is_whole


def test_the_id_of_an_error_may_be_null() -> None:
    printed = printed_object("Error(id=None, error=ErrorData(code=-32700, message='no', data=None))")
    assert printed is not None
    assert json.loads(printed.json) == {"id": None, "error": {"code": -32700, "message": "no"}}


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("{ id: 1, result: { tools: [ [Object], [Object] ], next: [Array] } }", {"id": 1, "result": {"tools": []}}),
        ("{ id: 1, result: [ 1, ... 98 more items ] }", {"id": 1, "result": [1]}),
        ("{ id: 1, text: 'ab'... 9000 more characters }", {"id": 1, "text": "ab"}),
        ("{ id: 1, f: [Function: f], self: <ref *1> [Circular *1] }", {"id": 1}),
        ("{'id': 1, 'context': <Request object at 0x7f>, 'n': nan}", {"id": 1}),
    ],
)
def test_what_was_not_printed_is_absent(text: str, members: dict[str, Any]) -> None:
    printed = printed_object(text)
    assert printed is not None
    assert (printed.members, printed.is_whole) == (members, False)


def test_strings_that_javascript_splits_are_joined() -> None:
    printed = printed_object("{ text: 'it\\'s\\n' +\n  \"b\\u{1F600}\\x41\", `c`: `'\"` }")
    assert printed is not None
    assert printed.members == {"text": "it's\nb\U0001f600A", "c": "'\""}


@pytest.mark.parametrize(
    "text",
    ["", "hello", "[1]", "F(", "{1, 2}", "{'a': 1 'b': 2}", "{]", "9" * 5000, "x=" + "9" * 5000],
)
def test_other_text_is_no_object(text: str) -> None:
    assert printed_object(text) is None


def test_an_object_that_is_cut_is_read_as_far_as_it_goes() -> None:
    text = "Request(id=1, params={'a': [1, {'b': 'x', 'c': 'yy'}]}, method='z')"
    for end in range(len("Request(id=1"), len(text)):
        printed = printed_object(text[:end])
        assert printed is not None, text[:end]
        assert not printed.is_whole
        assert printed.members["id"] == 1
        assert printed.members.get("method", "z") == "z"
    printed = printed_object(text[: text.index("'yy'") + 2])
    assert printed is not None
    assert printed.members == {"id": 1, "params": {"a": [1, {"b": "x"}]}}


def test_depth_is_bounded() -> None:
    for opening, closing in (("{'a': ", "}"), ("[", "]"), ("F(a=", ")"), ("(", ")")):
        deepest = MAX_PRINTED_DEPTH - 2
        assert printed_object("{'a': " + opening * deepest + "1" + closing * deepest + "}") is not None
        assert printed_object("{'a': " + opening * 100_000) is None


@given(st.binary())
def test_bytes_that_python_prints_come_back(value: bytes) -> None:
    assert printed_bytes(f"{value!r} and more") == (value, True)
    assert printed_bytes(repr(value)[:-1]) == (value, False)


def test_other_text_is_no_bytes() -> None:
    assert printed_bytes("'a'") is None
    assert printed_bytes("b") is None
    assert printed_bytes("b'a\\") == (b"a", False)


TEXTS = st.text("ab :,{}[]()'\"`\\0n\n$=<", max_size=8)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
OBJECTS = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


def as_javascript(value: Any) -> str:
    """A value as `console.log` prints it, roughly: names without quotes where they can be, and other strings in `'`."""
    if isinstance(value, dict):
        names = (name if name.isidentifier() and name.isascii() else f"'{name}'" for name in value)
        pairs = (f"{name}: {as_javascript(inner)}" for name, inner in zip(names, value.values(), strict=True))
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[ " + ", ".join(map(as_javascript, value)) + " ]"
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)


@given(st.dictionaries(TEXTS, OBJECTS))
def test_what_the_parser_of_json_reads_is_what_the_reader_reads(value: dict[str, Any]) -> None:
    for text in (as_javascript(value), repr(value)):
        members = json_like_members(text)
        if members is not None:
            read = printed_object_by_tokens(text)
            assert read is not None
            assert (read.members, read.is_whole) == (members, True)
            assert json.dumps(read.members) == json.dumps(members), "the order, and numbers as they are"


def test_most_printed_objects_are_read_by_the_parser_of_json() -> None:
    printed = "{ 'a-b': [ 1.5, true, null ], text: 'x: {y: 1}' }"
    text = f"{{ jsonrpc: '2.0', id: 1, params: {{ name: 'read', arguments: {printed} }} }}"
    arguments = {"a-b": [1.5, True, None], "text": "x: {y: 1}"}
    assert json_like_members(text) == {"jsonrpc": "2.0", "id": 1, "params": {"name": "read", "arguments": arguments}}
    deep = "{ a: " * (MAX_PRINTED_DEPTH + 1) + "1" + " }" * (MAX_PRINTED_DEPTH + 1)
    for other in (
        "{ a: undefined }",
        "{ a: [Object] }",
        "{ a: 12345678901234567890 }",
        "{ a: 'it\\'s' }",
        "{ a: 1 } x",
        "{",
        deep,
    ):
        assert json_like_members(other) is None
