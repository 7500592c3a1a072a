"""The fast search for ambiguities, on which parsers disagree, finds the same as a plain walk over all members."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.ambiguity import Ambiguity, ambiguity
from tests.captures.verdicts import HOSTILE

NAMES = st.sampled_from(["a", "b", ":", "a:b", "\\u003a", "\\", "\\\\u003a", '"', "é", "😀", "\x00", ""])
SCALARS = st.sampled_from(
    ["1", "1.0", "1e5", "-0", "1e400", "9" * 400, "true", "null", '":"', '"\\u003A"', '"\\\\u003a"', '"é"', '"\\u00e9"']
)


def _spelt(name: str, spelling: int) -> str:
    """A name in JSON: as it is, in ASCII, or with every character escaped."""
    if spelling < 2:
        return json.dumps(name, ensure_ascii=spelling == 0)
    units = name.encode("utf-16-be")
    return '"' + "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)) + '"'


NAMED = st.builds(_spelt, NAMES, st.integers(0, 2))
SPACE = st.sampled_from(["", " ", "\n\t"])
TEXTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(NAMED, SPACE, inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f"{name}{space}:{space}{value}" for name, space, value in pairs) + "}"
        ),
    ),
    max_leaves=12,
)


def walked(text: str) -> Ambiguity | None:
    """The ambiguity of a text, found by parsing it and comparing all member names."""
    twice = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal twice
        names = [name for name, _ in pairs]
        twice = twice or len(set(names)) < len(names)

    json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    return "duplicate member" if twice else None


@given(TEXTS)
def test_a_member_that_comes_twice_is_found_at_any_depth_however_it_is_spelt(text: str) -> None:
    assert ambiguity(text.encode()) == walked(text)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"x",
        b"NaN",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":nan}',
        b'{"a":1,}',
        b'{"a":01}',
        b'{"a":1} x',
        b'{"a":1}{"a":1}',
        b'{"a":1}\x00',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\t"}',
        b'{"a":"\\ud800"}',
        b'{"\\udc00":1}',
        b'{"a":1e400,"b":"\\ud83d"}',
        b'{"a":1,"a":NaN}',
        b'{"a":"\\u003a","b":Infinity}',
    ],
)
def test_what_only_some_parsers_read_is_no_json(raw: bytes) -> None:
    assert ambiguity(raw) == "not JSON"


@given(st.binary(max_size=40))
def test_any_bytes_have_an_answer(raw: bytes) -> None:
    assert ambiguity(raw) in (None, "not JSON", "duplicate member")


def test_hostile_texts_have_an_answer() -> None:
    for name, made in HOSTILE.items():
        assert ambiguity(made(2_000)) in (None, "not JSON", "too deep", "duplicate member"), name


def test_nesting_that_no_parser_here_can_read_has_an_answer() -> None:
    for levels in (200, 300, 512, 5_000, 200_000):
        assert ambiguity(b"[" * levels + b"]" * levels) in (None, "too deep")
    assert ambiguity(b"[" * 300 + b'{"a":1,"a":2}' + b"]" * 300) == "duplicate member"
