"""The tables and views as data: the meaning of a row, the columns, an example; read from the SQL that makes them.

The comment above each `create` is like a docstring: a sentence about a row, then details, then an indented example.
For a table, the sentence is also its comment in the database.
"""

import re
from collections import defaultdict
from importlib.resources import files
from typing import Final, NamedTuple

from analysis.store.connection import connect
from analysis.store.sql_files import sql_of
from analysis.store.tables import definition

COMMENTS: Final = re.compile(r"^comment on .*?;$", re.MULTILINE | re.DOTALL)
"""The statements in the text of a table or view that describe it."""
_HEAD: Final = re.compile(r"((?:^--.*\n)*)^create (?P<kind>table|view) (?P<name>\w+)", re.MULTILINE)

_COLUMNS: Final = """
    select table_name, column_name, data_type, comment from duckdb_columns() where not internal order by column_index
"""
_COMMENTS: Final = (
    "select table_name, comment from duckdb_tables() union all select view_name, comment from duckdb_views()"
)


class Column(NamedTuple):
    """One column."""

    name: str
    type: str
    """The type as DuckDB writes it."""
    meaning: str


class Relation(NamedTuple):
    """A table or a view."""

    name: str
    is_view: bool
    row: str
    """The meaning of a row: `one row per …`."""
    about: str
    """Details; empty if there are none."""
    example: str
    """A query that shows what it is for."""
    columns: tuple[Column, ...]


def view_texts() -> dict[str, str]:
    """The statements that make each view, by name. The order works: some need `calls`, which is the first."""
    folder = files(__package__) / "views"
    texts = {file.name: sql_of(file) for file in folder.iterdir() if file.name.endswith(".sql")}
    return {name.removesuffix(".sql"): text for name, text in sorted(texts.items())}


def relation_names() -> list[str]:
    """All names in the same order; no database is needed."""
    return [head["name"] for text in (*view_texts().values(), definition()) for head in _HEAD.finditer(text)]


def relations() -> list[Relation]:
    """All relations: the views by name, then the tables in the order in which they are made."""
    tables, views = definition(), view_texts().values()
    columns: defaultdict[str, list[Column]] = defaultdict(list)
    with connect() as connection:
        for text in (tables, *views):
            connection.execute(text)
        for name, *column in connection.execute(_COLUMNS).fetchall():
            columns[name].append(Column(*column))
        rows = dict(connection.execute(_COMMENTS).fetchall())
    return [
        _relation(head, rows[head["name"]] or "", columns[head["name"]])
        for text in (*views, tables)
        for head in _HEAD.finditer(text)
    ]


def _relation(head: re.Match[str], row: str, columns: list[Column]) -> Relation:
    is_view = head["kind"] == "view"
    lines = [line.removeprefix("--").removeprefix(" ") for line in head[1].splitlines()]
    example = "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))
    # The sentence about a row is also the comment.
    prose = " ".join(line for line in lines[1 if is_view else 0 :] if not line.startswith("    "))
    return Relation(head["name"], is_view, row, prose.strip(), example, tuple(columns))
