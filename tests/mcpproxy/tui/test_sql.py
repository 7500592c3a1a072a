"""SQL on the screen: queries, completion, stopping and limits; the process that answers ends with the screen."""

import pytest

from mcpproxy.history import history_path, past_statements, remember_statement
from mcpproxy.tui.completion import completion_of


def test_history_is_one_line_a_statement_and_for_us_alone() -> None:
    remember_statement("select 1 -- why\nfrom  latency")
    remember_statement("select '--  x'")
    remember_statement("select '--  x'")
    assert past_statements() == ["select 1 from  latency", "select '--  x'"]
    path = history_path()
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ('select 1 as "a--b", 2;', 'select 1 as "a--b", 2;'),
        ("/* -- x */ select 3;", "/* -- x */ select 3;"),
        ("/* a\n  b */\nselect 3;", "/* a b */ select 3;"),
        ("select $$a -- b$$ as d;", "select $$a -- b$$ as d;"),
        ("select $t$ '$$-- $t$, -- why\n  'it''s --', -- it's\r\n  2;", "select $t$ '$$-- $t$, 'it''s --', 2;"),
        ("select 1; -- why", "select 1;"),
        ("select 'a',\n'b'", "select 'a', 'b'"),
        ("  select  1\n\n\t;\n", "select  1 ;"),
        ("select 'a", "select 'a"),
    ],
)
def test_a_statement_is_remembered_whole(statement: str, line: str) -> None:
    assert remember_statement(statement) == line
    assert past_statements() == [line]


def test_a_statement_with_a_nul_is_refused() -> None:
    remember_statement("select 1")
    assert remember_statement("select '\0'") is None
    path = history_path()
    assert path is not None
    path.write_bytes(path.read_bytes() + b"\0\0\nselect 2\n")
    assert past_statements() == ["select 1", "select 2"]
    remember_statement("select 3")
    assert path.read_bytes() == b"select 1\nselect 2\nselect 3\n"


@pytest.mark.parametrize(
    "statement", ["select 'a\nb'", 'select 1 as "a\r\nb"', "select $$a\nb$$", "select 'a' -- x\n 'b'"]
)
def test_what_is_another_statement_in_one_line_is_not_remembered(statement: str) -> None:
    remember_statement("select 1")
    assert remember_statement(statement) is None
    assert past_statements() == ["select 1"]


@pytest.mark.parametrize(
    ("word", "names", "text", "options"),
    [
        ("la", ["latency"], "latency", ()),
        ("LA", ["latency", "lag"], "LA", ("latency", "lag")),
        ("l", ["latency", "lat_x"], "lat", ("latency", "lat_x")),
    ],
)
def test_completion(word: str, names: list[str], text: str, options: tuple[str, ...]) -> None:
    assert completion_of(word, names) == (text, options)
    assert completion_of("zz", names) is None
