"""Two values next to each other: every difference is marked, nothing else is, and size and nesting are bounded."""

from json import loads
from typing import Any

import pytest

from analysis.comparison.change import ABSENT
from mcpproxy.wording.aligned_json import MAX_EXAMINED_LINES, MAX_TEXT_CHARS, aligned_lines, collapsed

SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "maximum": 50}},
    "required": ["query"],
}


def drawn(before: Any, after: Any) -> list[str]:
    lines, is_whole = aligned_lines(before, after, 1000)
    assert is_whole
    return [
        f"… {line.omitted}"
        if line.omitted
        else f"{'  ' * line.depth}{line.old} {'=' if line.is_equal else '|'} {line.new}".replace("None", "·")
        for line in lines
    ]


def test_the_same_value_in_another_order_has_no_difference() -> None:
    shuffled = {name: SCHEMA[name] for name in ("required", "properties", "type")}
    for before, after in ((SCHEMA, shuffled), ([1, 2.0, None], [1.0, 2, None]), ("a\nb", "a\nb"), ({}, {}), (0, 0.0)):
        lines, _ = aligned_lines(before, after, 1000)
        assert all(line.is_equal for line in lines), (before, after)


def test_members_are_aligned_by_name_and_scalars_of_an_array_by_value() -> None:
    after = {
        "required": ["limit", "query"],
        "type": "object",
        "properties": {"limit": {"type": "integer", "maximum": 10}, "query": {"type": "string"}},
    }
    text = "\n".join(drawn(SCHEMA, after))
    assert '"maximum": 50 | "maximum": 10' in text
    assert '· | "limit"' in text
    assert '"query" = "query"' in text


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (True, 1, ["true | 1"]),
        (None, False, ["null | false"]),
        (ABSENT, None, ["· | null"]),
        ("7", 7, ['"7" | 7']),
        ([1, 2], [2, 1], ["[ = [", "  1, | 2,", "  2 | 1", "] = ]"]),
        (["a", "b"], ["b", "c"], ["[ = [", '  "a", | ·', '  "b" = "b",', '  · | "c"', "] = ]"]),
        ({"a": 1}, [1], ["{ | ·", '  "a": 1 | ·', "} | ·", "· | [", "  · | 1", "· | ]"]),
        ({}, {"a": []}, ["{} | ·", "· | {", '  · | "a": []', "· | }"]),
        ("one\ntwo\tx\nthree", "one\nthree", ["one = one", "two x | ·", "three = three"]),
        ("\x1b[2J", "\u202e", ['"\\u001b[2J" | "\\u202e"']),
    ],
)
def test_what_differs_is_marked(before: Any, after: Any, expected: list[str]) -> None:
    assert drawn(before, after) == expected


def test_long_runs_of_equal_lines_are_counted_and_what_contains_the_difference_stays() -> None:
    inner = dict.fromkeys("abcdefgh", 1)
    first = dict.fromkeys(map(str, range(50)), 0)
    before, after = ({"first": first, "outer": {"inner": {**inner, "x": number}}} for number in (1, 2))
    lines = drawn(before, after)
    assert lines[:3] == ["… 57", "{ = {", '  "outer": { = "outer": {']
    assert '      "x": 1 | "x": 2' in lines
    assert len(lines) < 14


def test_lines_can_be_collapsed_further_and_none_is_lost() -> None:
    before, after = ({"a": dict.fromkeys(map(str, range(50)), 0), "b": {"x": 1, "y": 2, "z": n}} for n in (3, 4))
    lines, _ = aligned_lines(before, after, 1000)
    fewer = list(collapsed(lines, 1))
    assert [line.old for line in fewer] == [None, "{", '"b": {', '"y": 2,', '"z": 3', "}", "}"]
    for shown in (lines, fewer):
        assert sum(line.omitted or 1 for line in shown) == 59


def test_a_single_equal_line_is_shown_as_it_is() -> None:
    before, after = ({"title": "x", "s": {"a": {"t": 1}, **more}} for more in ({}, {"b": 2}))
    lines, _ = aligned_lines(before, after, 1000)
    assert [line.old for line in lines[:3]] == ["{", '"title": "x",', '"s": {']


def test_each_side_alone_is_json() -> None:
    after = {"type": "object", "title": "x", "properties": {"query": [], "limit": {"maximum": [1, {}]}}, "new": 5}
    for before, other in ((SCHEMA, after), (after, SCHEMA), ({"a": [1, 2]}, {"a": {"b": 1}, "c": None})):
        lines, _ = aligned_lines(before, other, 1000)
        assert loads("".join(line.old or "" for line in lines)) == before
        assert loads("".join(line.new or "" for line in lines)) == other


def test_a_long_string_is_shown_where_it_differs() -> None:
    start = "a" * 3_000_000
    (line,), _ = aligned_lines(start + "old" + start, start + "new" + start, 10)
    assert line.old is not None
    assert line.new is not None
    assert "old" in line.old
    assert "new" in line.new
    assert len(line.old) < MAX_TEXT_CHARS + 10


def test_work_and_result_are_bounded() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    lines, is_whole = aligned_lines(deep, {"a": deep}, 500)
    assert (len(lines), is_whole) == (500, False)
    wide = {str(number): number for number in range(3 * MAX_EXAMINED_LINES)}
    lines, is_whole = aligned_lines(wide, {**wide, "x": 1}, 500)
    assert not is_whole
    assert len(lines) < 10
    assert drawn(10**5000, 1) == ["… | 1"]
