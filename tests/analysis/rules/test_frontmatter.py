"""Frontmatter is compared with its rendering; only what differs for every YAML parser counts."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.rules.support.frontmatter import (
    MAX_FRONTMATTER_CHARS,
    UndecidableError,
    differing_members,
    frontmatter_of,
    member_names,
)


@pytest.mark.parametrize(
    ("text", "frontmatter"),
    [
        ("---\nname: a\n---\n# A", "name: a\n"),
        ("\ufeff--- \r\nname: a\r\n---\r\n", "name: a\n"),
        ("---\n---", "\n"),
        ("---\nname: a\n...\n", "name: a\n"),
        ("---\nname: a\n", None),
        ("# A\n---\nname: a\n---\n", None),
        ("", None),
    ],
)
def test_frontmatter_is_between_the_first_two_lines_of_hyphens(text: str, frontmatter: str | None) -> None:
    assert frontmatter_of(text) == frontmatter


@pytest.mark.parametrize(
    ("frontmatter", "rendering", "names"),
    [
        ("a: b", {"a": "b"}, []),
        ("a: b", {"a": "c"}, ["a"]),
        ("a: b", {}, ["a"]),
        ("", {"a": "b"}, ["a"]),
        ("a: 'b'", {"a": "b"}, []),
        ("a: '1'", {"a": 1}, ["a"]),
        ("a: 1", {"a": 1}, []),
        ("a: 1", {"a": "1"}, []),
        ("a: 1", {"a": 2}, ["a"]),
        ("a: 1", {"a": True}, ["a"]),
        ("a: yes", {"a": True}, []),
        ("a: yes", {"a": "yes"}, []),
        ("a: yes", {"a": []}, ["a"]),
        ("a: 2026-02-01", {"a": "2026-02-01T00:00:00Z"}, []),
        ("a: 1e3", {"a": 1000}, []),
        ("a:", {}, []),
        ("a: [b, c]", {"a": ["b", "c"]}, []),
        ("a: [b, c]", {"a": ["c", "b"]}, ["a"]),
        ("a: {b: c}", {"a": {"b": "c"}}, []),
        ("a:\n  b: c", {"a": {"b": "c", "d": None}}, ["a"]),
        ("a: >\n  b\n  c\n", {"a": "b c"}, []),
        ("a: |\n  b\n  c\n", {"a": "b\nc\n"}, []),
        ("a: |\n  b\n  c\n", {"a": "b c"}, ["a"]),
        ("a: b # c", {"a": "b"}, []),
        ('a: "\\u00fc"', {"a": "ü"}, []),
        ("n: b\ny: c", {"n": "b", "y": "c"}, []),
    ],
)
def test_members_differ_only_if_no_parser_agrees(frontmatter: str, rendering: dict[str, Any], names: list[str]) -> None:
    assert differing_members(frontmatter, rendering) == names


@pytest.mark.parametrize(
    "frontmatter",
    [
        *(
            "a: &x b\nc: *x",
            "a: !!str 1",
            "a: ! b",
            "a: 1\na: 2",
            "- a",
            "text",
            "1: a",
            "yes: a",
            "? [a]\n: b",
            "<<: a",
        ),
        *("a: b: c", "[" * 9_000, "{a: " * 2_000, "\x00", "a: b\n--- c\n", "a: " + "b" * MAX_FRONTMATTER_CHARS),
        'a: "\\uD83D\\uDE00"',
        "a: one\x85two",
    ],
)
def test_what_is_not_simple_is_not_compared(frontmatter: str) -> None:
    with pytest.raises(UndecidableError):
        differing_members(frontmatter, {})


def test_names_of_members() -> None:
    assert member_names("name: a\ndescription:\n") == {"name", "description"}


@given(text=st.text(alphabet=" \n-:abc[]{},'\"#&*!|>?%@\t1", max_size=60))
def test_any_text_is_compared_or_not(text: str) -> None:
    with suppress(UndecidableError):
        assert isinstance(differing_members(text, {"a": "b"}), list)
