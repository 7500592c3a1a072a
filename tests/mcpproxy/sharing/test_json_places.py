"""Places of values in JSON text: as Python's own parser sees them, and edits that change nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sharing.json_places import Edit, NotJson, apply_edits, decode_string, edits_in_json, pointer_of, tokens

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def leaves(value: Any, pointer: str = "") -> list[tuple[str, Any]]:
    """The strings and numbers in a value, with their pointers."""
    if isinstance(value, dict):
        steps = [(name.replace("~", "~0").replace("/", "~1"), inner) for name, inner in value.items()]
        return [leaf for step, inner in steps for leaf in leaves(inner, f"{pointer}/{step}")]
    if isinstance(value, list):
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, f"{pointer}/{index}")]
    return [] if value is None or isinstance(value, bool) else [(pointer, value)]


@given(JSON, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_every_string_and_number_is_found_where_it_is(value: Any, indent: int | str | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    found = [
        (pointer_of(place.path), place.text if place.is_string else json.loads(place.text))
        for place in tokens(text)
        if not place.is_name
    ]
    assert found == leaves(value)
    for place in tokens(text):
        assert text[place.start : place.end] == place.text or decode_string(text[place.start : place.end]) == place.text


@given(st.text(min_size=1), st.booleans(), st.data())
def test_a_part_of_a_string_is_replaced_and_its_other_escapes_stay(text: str, is_ascii: bool, data: Any) -> None:
    token = json.dumps(text, ensure_ascii=is_ascii)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    new = apply_edits(token, edits_in_json(token, [Edit(start, end, 'n"ew\n')], 0))
    assert json.loads(new) == text[:start] + 'n"ew\n' + text[end:]
    spelt = json.dumps(text[:start], ensure_ascii=is_ascii)[:-1]
    assert new.startswith(spelt)


BROKEN = r"""
{"a":1,}
[1 2]
{a:1}
[
"abc
{"a" 1}
[1,,2]
{} x
[}
{"a":}
{"a"}
,
[1}
]
{"a":1 "b":2}
{"a"::1}
"\x"
[,1]
{,"a":1}
{1:2}
{"a":1}}
nul
"""


def test_what_is_not_json_is_refused() -> None:
    for text in BROKEN.split("\n"):
        with pytest.raises(NotJson):
            print(text, list(tokens(text)))


def test_several_values_duplicates_and_odd_constants_are_read() -> None:
    found = [(pointer_of(place.path), place.text) for place in tokens('{"a":1,"a":"x"} [NaN,-Infinity,"\\ud800"] "y"')]
    assert found == [("/a", "a"), ("/a", "1"), ("/a", "a"), ("/a", "x"), ("/2", "\ud800"), ("", "y")]


@given(st.text('[]{}:,"\\ntfu01.-eE ', max_size=30))
def test_any_text_is_either_read_or_refused_as_python_does(text: str) -> None:
    try:
        json.loads(text)
        is_json = True
    except ValueError:
        is_json = False
    try:
        list(tokens(text))
    except NotJson:
        assert not is_json
