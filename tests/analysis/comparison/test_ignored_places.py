"""Places to ignore: what the user writes, and what the file holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.values.ignored_places import (
    HEAD,
    MAX_LINE_CHARS,
    MAX_PLACES,
    IgnoreError,
    ignore_file,
    parse_place,
    pass_over,
    place_line,
    read_places,
)
from analysis.comparison.values.value_changes import pointer_of
from tests.examples import examples


def test_a_place_may_be_restricted_to_a_method_and_a_name() -> None:
    cases = {
        "/a/*/b": ("", "", ("a", "*", "b")),
        "  tools/call   /a~1b ": ("tools/call", "", ("a/b",)),
        "tools/call search /a": ("tools/call", "search", ("a",)),
        'resources/read "file:///x y" /contents/0': ("resources/read", "file:///x y", ("contents", "0")),
        'tools/call search ""': ("tools/call", "search", ()),
        '"/with space"': ("", "", ("with space",)),
    }
    for line, (method, name, steps) in cases.items():
        place = parse_place(line)
        assert (place.method, place.name, place.steps) == (method, name, steps), line


def test_what_is_no_place_is_refused() -> None:
    for line in ("", "a", "tools/call search a", "a b c /d", '"unfinished', '"/a"b', '"\\x"'):
        with pytest.raises(IgnoreError, match="expected"):
            parse_place(line)


def test_a_file_holds_places_comments_and_blank_lines() -> None:
    places = ("/a/*", 'tools/call "my tool" /b')
    text = ignore_file(places)
    assert text == f'{HEAD}\n/a/*\ntools/call "my tool" /b\n'
    assert read_places(text.splitlines()) == places
    assert read_places([HEAD, "", "# why", *places]) == places


def test_a_wrong_line_is_named() -> None:
    cases = {
        "line 1: expected `# mcpproxy ignore 1`": ["/a"],
        "line 1: expected": [],
        "line 1: a later version": ["# mcpproxy ignore 2"],
        "line 3: expected a JSON Pointer": [HEAD, "/a", "b"],
        "line 2: expected at most 10,000 characters": [HEAD, "/" + "a" * MAX_LINE_CHARS],
        f"line {MAX_PLACES + 2}: expected at most 10,000 places": [HEAD, *["/a"] * (MAX_PLACES + 1)],
    }
    for message, lines in cases.items():
        with pytest.raises(IgnoreError, match=message):
            read_places(lines)


def test_what_is_at_a_place_is_left_out_and_elements_still_count() -> None:
    value = {"a": [{"x": 1, "y": 2}, 3, {"x": 4}], "b": {"c": 1, "d": 2}}
    cases = {
        "/a/*/x": ({"a": [{"y": 2}, 3, {}], "b": {"c": 1, "d": 2}}, 2),
        "/a/0": ({"a": ["⟨ignored⟩", 3, {"x": 4}], "b": {"c": 1, "d": 2}}, 1),
        "/a/*": ({"a": ["⟨ignored⟩"] * 3, "b": {"c": 1, "d": 2}}, 3),
        "/*/c": ({"a": value["a"], "b": {"d": 2}}, 1),
        "/b": ({"a": value["a"]}, 1),
        '""': ("⟨ignored⟩", 1),
        "/a/9/x": (value, 0),
        "/a/01": (value, 0),
        "/none/*": (value, 0),
    }
    for line, (expected, count) in cases.items():
        result, passed = pass_over(value, [parse_place(line)])
        assert (result, len(passed)) == (expected, count), line
        assert pass_over(result, [parse_place(line)]) == (expected, []), line


@given(st.text(), st.text(), st.lists(st.text(), max_size=4))
@examples(100)
def test_every_line_that_is_written_can_be_read(method: str, name: str, steps: list[str]) -> None:
    line = place_line(method or "m", name, pointer_of(steps))
    assert line.isascii()
    assert line.isprintable()
    place = parse_place(line)
    assert (place.method, place.name, place.steps) == (method or "m", name, tuple(steps))
    assert read_places(ignore_file([line]).splitlines()) == (line,)
