"""The position of a pointer in the bytes, and the excerpt that shows it."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.excerpts import excerpt, locate, nearest

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def places(value: Any, pointer: str = "") -> list[tuple[str, Any]]:
    """Returns every pointer into a value, with the value there."""
    found = [(pointer, value)]
    if isinstance(value, dict):
        for name, inner in value.items():
            found += places(inner, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, f"{pointer}/{index}")
    return found


@given(VALUES, st.booleans(), st.booleans())
def test_every_place_of_any_json_is_found(value: Any, ascii_only: bool, spaced: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=2 if spaced else None).encode()
    for pointer, wanted in places(value):
        span = locate(raw, pointer)
        assert span is not None, pointer
        assert json.loads(raw[slice(*span)]) == wanted


@pytest.mark.parametrize("pointer", ["/nope", "/a/9", "/a/-1", "/a/00", "/a/0/x", "/b/c/d", "a", "/"])
def test_a_place_that_is_not_there_is_not_found(pointer: str) -> None:
    assert locate(b'{"a":[1,[2]],"b":{"c":null}}', pointer) is None


@given(VALUES, st.lists(st.sampled_from(["a", "0", "7", "", "~0", "~1"]), min_size=1, max_size=4), st.data())
def test_of_a_place_that_is_missing_the_nearest_around_it_is_found(
    value: Any, more: list[str], data: st.DataObject
) -> None:
    raw = json.dumps(value).encode()
    there = dict(places(value))
    pointer = data.draw(st.sampled_from(sorted(there))) + "".join(f"/{step}" for step in more)
    wanted = pointer
    while wanted not in there:
        wanted = wanted.rpartition("/")[0]
    found, span = nearest(raw, pointer)
    assert found == wanted
    assert span is not None
    assert json.loads(raw[slice(*span)]) == there[wanted]


@pytest.mark.parametrize("raw", [b"", b"hello", b'{"a":{"b":1', b'"', b"}"])
def test_of_what_is_not_whole_nothing_is_said_to_be_around(raw: bytes) -> None:
    assert nearest(raw, "/a/c") in [("", None), ("", (0, len(raw))), ("/a", None)]


@given(st.binary(), st.text(max_size=12))
def test_any_bytes_and_any_pointer_are_taken(raw: bytes, pointer: str) -> None:
    span = locate(raw, pointer)
    assert span is None or 0 <= span[0] <= span[1] <= len(raw)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.text(max_size=12), st.integers(20, 90))
def test_an_excerpt_is_safe_and_fits_with_its_carets(raw: bytes, pointer: str, width: int) -> None:
    shown = excerpt(raw, pointer, width)
    assert sanitise(shown.text, None) == shown.text
    assert cells(shown.text) <= width
    assert shown.indent >= 0
    assert 0 <= shown.indent + shown.carets <= width


def drawn(raw: bytes, pointer: str, width: int = 40) -> list[str]:
    shown = excerpt(raw, pointer, width)
    return [shown.text, " " * shown.indent + "^" * shown.carets]


def test_carets_stand_below_the_value() -> None:
    assert drawn(b'{"jsonrpc":"2.0","id":"7"}', "/id") == [
        '{"jsonrpc":"2.0","id":"7"}',
        "                      ^^^",
    ]


def test_a_place_far_behind_is_shown_with_what_stands_before_it() -> None:
    raw = b'{"text":"' + b"x" * 1000 + b'","id":"7","more":"' + b"y" * 1000 + b'"}'
    text, carets = drawn(raw, "/id")
    assert text.startswith("…")
    assert text[carets.index("^") : carets.rindex("^") + 1] == '"7"'
    assert len(text) == 40


def test_what_would_hold_a_missing_place_is_shown() -> None:
    raw = b'{"result":{"tools":[{"name":"' + b"a" * 100 + b'"},{"name":"b"}]}}'
    text, carets = drawn(raw, "/result/tools/1/inputSchema", 60)
    assert text[carets.index("^") : carets.rindex("^") + 1] == '{"name":"b"}'
    assert drawn(b'{"method":"ping"}', "/jsonrpc") == ['{"method":"ping"}', ""]


@pytest.mark.parametrize(
    ("raw", "pointer", "is_plain"),
    [
        (b'{"id":7}', "/id", True),
        (b'{"id":7}', "", True),
        (b"Loaded 5 tools", "", True),
        (b'{"id":7}', "/jsonrpc", False),
        (b'{"params":{"id":7}}', "/params/name", False),
        (b'{"text":"' + b"x" * 100 + b'","id":7}', "/id", False),
        (b'{"id":7,"text":"' + b"x" * 100 + b'"}', "/id", True),
    ],
)
def test_an_excerpt_knows_whether_it_shows_the_way_to_the_place(raw: bytes, pointer: str, is_plain: bool) -> None:
    assert excerpt(raw, pointer, 60).is_plain is is_plain


def test_wide_characters_and_escapes_before_the_place_are_counted_in_cells() -> None:
    text, carets = drawn('{"名":"\x7f","id":7}'.encode(), "/id")
    assert text == '{"名":"\\x7f","id":7}'
    assert len(carets) - 1 == cells(text[: text.index("7}")])


def test_what_is_no_json_is_underlined_as_a_whole_and_json_is_not() -> None:
    assert drawn(b"Loaded 5 tools", "") == ["Loaded 5 tools", "^" * 14]
    assert drawn(b'{"id":1}', "") == ['{"id":1}', ""]


def test_hostile_bytes_take_linear_time() -> None:
    for raw in (
        b'"' + b'\\"' * 50_000,
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b'"a' * 50_000,
        b"\\" * 100_000,
        b'"\\',
    ):
        # Linear work takes some hundredths of a second, quadratic work takes minutes.
        began = time.process_time()
        locate(raw, "/a" * 10)
        nearest(raw, "/a" * 30_000)
        assert time.process_time() - began < 10, raw[:9]
