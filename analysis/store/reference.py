"""The tables and views as data: the meaning of a row, the columns, an example.

For views, they are read from the SQL that creates them. The comment above each `create` is like a docstring: a sentence
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
    """The statements that create each view, by name, in the order to run them: some need one before them."""
    folder = files(__package__) / "views"
    texts = {file.name: sql_of(file) for file in folder.iterdir() if file.name.endswith(".sql")}
    return {name.removesuffix(".sql"): text for name, text in sorted(texts.items())}


def relation_names() -> list[str]:
    """The names of all relations, in the order of `view_texts` and of the tables; this needs no database."""
    return [*view_texts(), *TABLES]


def relations() -> list[Relation]:
    """All relations: the views by name, then the tables in the order in which they are created."""
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
    comment_lines = [line.removeprefix("--").removeprefix(" ") for line in takewhile(_is_comment, text.splitlines())]
    example = "\n".join(line.removeprefix("    ") for line in comment_lines if line.startswith("    "))
    about = " ".join(line for line in comment_lines[1:] if not line.startswith("    "))
    return Relation(name, True, comment_lines[0], about.strip(), example, columns)


def _is_comment(line: str) -> bool:
    return line.startswith("--")
