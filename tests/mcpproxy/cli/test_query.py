"""The SQL that is typed: where it comes from, where a statement ends, and where the history is stored."""

import io
import sys
import time
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.cli.query import _read_sql, parser
from mcpproxy.history import history_path
from mcpproxy.sql.statements import in_one_line, is_complete

ASKED = "select count(*) as n\nfrom frames -- all of them\n;\n"
SOURCES: list[tuple[list[str], str, list[str]]] = [
    ([ASKED], "", []),
    ([f"-- how many = all\n{ASKED}"], "", []),
    ([ASKED, "demo"], "", ["demo"]),
    (["--json", ASKED, "demo"], "", ["demo"]),
    ([ASKED, "--json", "demo"], "", ["demo"]),
    ([ASKED, "demo", "--format", "json"], "", ["demo"]),
    ([ASKED, "-"], "no SQL", ["-"]),
    (["-f", "q.sql"], "", []),
    (["-f", "q.sql", "demo", "--json"], "", ["demo"]),
    (["-f", "-", "demo"], ASKED, ["demo"]),
    (["--json"], ASKED, []),
    (["demo", "--json"], ASKED, ["demo"]),
]
"""The arguments, stdin, and the captures that remain."""


def test_sql_comes_from_an_argument_a_file_or_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.sql").write_bytes(b"\xef\xbb\xbf" + ASKED.encode())
    for arguments, stdin, captures in SOURCES:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        options = parser().parse_intermixed_args(arguments)
        found = _read_sql(options)
        assert found is not None, arguments
        assert (found.removeprefix("-- how many = all\n"), options.capture) == (ASKED, captures), arguments


STATEMENTS = [
    ("select 1;", True),
    ("select 1; ", True),
    ("select 1", False),
    ("select ';", False),
    ("select ';';", True),
    ("select 'it''s;';", True),
    ('select ";";', True),
    ("select 1 -- ;", False),
    ("select 1; -- why", True),
    ("select /* ; */ 1", False),
    ("select /* ;", False),
    ("select $$;", False),
    ("select $$;$$;", True),
    ("select $a$ ; $$ $a$;", True),
    (";", True),
    (r"select E'it\'s' as x;", True),
    (r"select e'it''s \\' as x;", True),
    (r"select E'\';", False),
    (r"select 'it\' as x;", True),
    (r"select 1 as date'it\';", True),
    (r"select N'it\';", True),
    ("select 1 as a$b$c;", True),
    ("select 1 as a$$;", True),
    ("select 1 as é$b$;", True),
    ("select 1 as €$b$;", True),
    ("select\u3000$b$;", False),
    ("select $1;", True),
    ("select $1, $b;", True),
    ("select $é1$;$é1$;", True),
    ("select $$a$b$$;", True),
    ("select $a$ $$ $b$ ;", False),
    ("select 1 /* /* ; */ */;", True),
    ("select 1 /* /* */ ;", False),
    ("select 1 /*/ */;", True),
    ("select 1; /* why\n*/", True),
    ("select 1; 'and", False),
    ("select 1; 'and'", False),
    ("select 1 --\r;", True),
]
"""What is typed, and whether it is complete."""


def test_a_statement_ends_at_its_own_semicolon() -> None:
    for text, whole in STATEMENTS:
        assert is_complete(text) is whole, text


PASTED = 15_000
"""The length of the paste, in characters."""
MOST_S = 1.5
"""The most processor time for what takes milliseconds; comparing every two characters would take far longer."""


PIECES = [
        "'", '"', "$", "$$", "$a", "$a$", "$é", "a$", "e'", "E'\\", "\\'", "''", "-", "--", "/*", "*/", "/", "/*/", " ",
        "\n", "$a$b", "'\n", "--\n", "$1", "e", "é", "''\n", ";",
]  # fmt: skip


def test_a_hostile_paste_is_judged_at_once() -> None:
    for piece in PIECES:
        many = piece * (PASTED // len(piece))
        began_s = time.process_time()
        for text in (f"select {many};", f"'{many};", f"/*{many};", f"$a${many};", f"E'{many};", f"$é{many};"):
            is_complete(text)
            in_one_line(text)
        assert time.process_time() - began_s < MOST_S, piece


LEXEMES = [
    "'", '"', "$$", "$a$", "$b", "$", "--", "/*", "*/", "/", "e'", "E'", "\\", "x", "é", "€", "1", ",", " ", "\n", "\r",
]  # fmt: skip


@given(st.lists(st.sampled_from(LEXEMES), max_size=10).map("".join))
def test_what_is_unfinished_is_so_to_duckdb(text: str) -> None:
    try:
        duckdb.extract_statements(text)
        said = ""
    except duckdb.Error as error:
        said = str(error)
    # DuckDB may stop at an earlier mistake, before it reaches the end.
    if not said or "unterminated" in said:
        assert is_complete(f"{text}\n;") == (not said)


def test_history_lies_where_state_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert history_path() == Path("/state/mcpproxy/query_history")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    path = history_path()
    assert path is not None
    assert path.is_relative_to("/home/me")
