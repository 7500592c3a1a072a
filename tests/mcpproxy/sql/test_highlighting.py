"""Which parts of SQL are highlighted, and where DuckDB's message says that it is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sql.error_place import ErrorPlace, error_place
from mcpproxy.sql.highlighting import tokens_of

KEYWORDS = frozenset(("select", "from", "where"))
NAMES = frozenset(("calls", "name"))


def parts(sql: str) -> list[tuple[str, str]]:
    """The highlighted parts with their kinds."""
    return [(token.kind, sql[token.start : token.end]) for token in tokens_of(sql, KEYWORDS, NAMES)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT x FROM calls", [("keyword", "SELECT"), ("keyword", "FROM"), ("name", "calls")]),
        ("'it''s from' 1.5 x2", [("string", "'it'"), ("string", "'s from'"), ("number", "1.5")]),
        ('"name" "other" "from"', [("name", '"name"')]),
        ("/* select */name -- from", [("comment", "/* select */"), ("name", "name"), ("comment", "-- from")]),
        ("where 'open\nfrom calls", [("keyword", "where"), ("string", "'open\nfrom calls")]),
        ("$$ from $$ fromage", [("string", "$$ from $$")]),
        ("", []),
    ],
)
def test_keywords_strings_numbers_comments_and_known_names(sql: str, expected: list[tuple[str, str]]) -> None:
    assert parts(sql) == expected


@given(sql=st.text("'\"-/*$e\n selectfromcalls1.é界", max_size=60))
def test_parts_are_in_order_and_within_the_text(sql: str) -> None:
    end = 0
    for token in tokens_of(sql, KEYWORDS, NAMES):
        assert end <= token.start < token.end <= len(sql)
        end = token.end


LONG = f"select {', '.join('method' for _ in range(40))}, metod from calls"


@pytest.mark.parametrize(
    ("sql", "message", "expected"),
    [
        ("selct 1", ["Parser Error", "LINE 1: selct 1", "        ^^^^^"], ErrorPlace(0, 0, 5)),
        ("select 1\nfrom callz", ["x", "LINE 2: from callz", "             ^^^^^"], ErrorPlace(1, 5, 10)),
        ("select 'é界', m", ["x", "LINE 1: select 'é界', m", "                      ^"], ErrorPlace(0, 13, 14)),
        (LONG, ["x", "LINE 1: ...method, metod from ca...", "                   ^^^^^"], ErrorPlace(0, 327, 332)),
        ("a\nb c", ["x", "LINE 9: b c", "          ^"], ErrorPlace(1, 2, 3)),
        ("something else", ["x", "LINE 1: selct 1", "        ^^^^^"], None),
        ("selct 1", ["LINE 1: selct 1"], None),
        ("selct 1", ["LINE 99999999: selct 1", "  ^"], ErrorPlace(0, 0, 0)),
        ("selct 1", [], None),
    ],
)
def test_the_place_of_an_error(sql: str, message: list[str], expected: ErrorPlace | None) -> None:
    assert error_place(sql, message) == expected
