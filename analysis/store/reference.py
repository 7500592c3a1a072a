"""The tables and views as data: the meaning of a row, the columns, an example.

Those of views are read from the SQL that makes them. The comment above each `create` is like a docstring: a sentence
about a row, then details, then an indented example.
"""

import re
from collections import defaultdict
from importlib.resources import files
from itertools import takewhile
from typing import Final, NamedTuple

from analysis.store.columns import TABLES, Table
from analysis.store.connection import connect
from analysis.store.sql_files import sql_of
from analysis.store.tables import create_statements

COMMENTS: Final = re.compile(r"^comment on .*?;$", re.MULTILINE | re.DOTALL)
"""The statements in the text of a view that describe it."""

_COLUMNS: Final = """
    select table_name, column_name, data_type, comment from duckdb_columns() where not internal order by column_index
"""


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
    """The statements that make each view, by name, in the order to run them: some need `calls`, which is the first."""
    folder = files(__package__) / "views"
    texts = {file.name: sql_of(file) for file in folder.iterdir() if file.name.endswith(".sql")}
    return {name.removesuffix(".sql"): text for name, text in sorted(texts.items())}


def relation_names() -> list[str]:
    """All names in the same order; no database is needed."""
    return [*view_texts(), *TABLES]


def relations() -> list[Relation]:
    """All relations: the views by name, then the tables in the order in which they are made."""
    columns: defaultdict[str, list[Column]] = defaultdict(list)
    with connect() as connection:
        for text in (create_statements(), *view_texts().values()):
            connection.execute(text)
        for name, *column in connection.execute(_COLUMNS).fetchall():
            columns[name].append(Column(*column))
    views = [_view(name, text, tuple(columns[name])) for name, text in view_texts().items()]
    return [*views, *map(_table, TABLES.values())]


def _table(table: Table) -> Relation:
    columns = tuple(Column(column.name, column.type, column.meaning) for column in table.columns)
    return Relation(table.name, False, table.row, "", table.example, columns)


def _view(name: str, text: str, columns: tuple[Column, ...]) -> Relation:
    head = [line.removeprefix("--").removeprefix(" ") for line in takewhile(_is_comment, text.splitlines())]
    example = "\n".join(line.removeprefix("    ") for line in head if line.startswith("    "))
    about = " ".join(line for line in head[1:] if not line.startswith("    "))
    return Relation(name, True, head[0], about.strip(), example, columns)


def _is_comment(line: str) -> bool:
    return line.startswith("--")
