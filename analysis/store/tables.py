"""The tables in DuckDB: the statements that make them from `columns`.

Values that SQL does not compute come from Python, in the order of the columns.
`frames.message` is a generated column: stored next to `raw`, the same text would take as much again, in time and space.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from analysis.store.columns import TABLES, Column, ComputedValue, GeneratedValue, GivenValue, Table
from analysis.store.values import CLOCKED

Row = tuple[Any, ...]


def creation() -> str:
    """The statements that make the tables, without comments, which take ten times as long."""
    return "".join(
        f"create table {name} ({', '.join(map(_declaration, table.columns))});\n" for name, table in TABLES.items()
    )


def _declaration(column: Column) -> str:
    if isinstance(column.source, GeneratedValue):
        return f"{_quoted(column)} {column.type} generated always as ({column.source.sql}) virtual"
    return f"{_quoted(column)} {column.type}{' not null' if column.null == 'not null' else ''}"


def comments(table: str, kind: str = "table") -> str:
    """The statements that say what a table and its columns mean.

    Args:
        table: one of `NAMES`.
        kind: `view` if a view has taken the place of the table.
    """
    described = [(f"{kind} {table}", TABLES[table].row)]
    described += [(f"column {table}.{_quoted(column)}", column.meaning) for column in TABLES[table].columns]
    return "".join(f"comment on {what} is {_literal(meaning)};\n" for what, meaning in described)


def definition() -> str:
    """The statements that make the tables and say what their columns mean."""
    return creation() + "".join(map(comments, NAMES))


def _quoted(column: Column) -> str:
    return f'"{column.name}"'  # some are keywords


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _given(table: Table) -> dict[str, str]:
    """The types of the values of a row from Python: name → type, in the order of the columns, without `START`."""
    values: dict[str, str] = {}
    for column in table.columns:
        if isinstance(column.source, ComputedValue):
            if column.source.given is not None:
                name, type_ = column.source.given
                values[name] = type_
        elif isinstance(column.source, GivenValue) and column.name != "capture":
            values[column.name] = "VARCHAR" if column.type == "JSON" else column.type
    return values


START: Final = {"capture": "VARCHAR", "wall": "BIGINT"}
"""The values at the beginning of every row from Python: the capture, and the wall clock at which that was opened."""
GIVEN: Final = {name: _given(table) for name, table in TABLES.items()}
"""The types of the values that follow, by table."""
_STORED: Final = {
    name: [column for column in table.columns if not isinstance(column.source, GeneratedValue)]
    for name, table in TABLES.items()
}
NAMES: Final = tuple(TABLES)
"""The tables."""


def copy_from(source: str, table: str) -> str:
    """The statement that copies the rows of a table.

    Args:
        source: what to select the rows from: one of our tables, or one of our queries in parentheses.
        table: one of `NAMES`.
    """
    names = ", ".join(map(_quoted, _STORED[table]))
    return f"insert into {table} ({names}) select {names} from {source}"  # noqa: S608 - all of it is ours


def ordered(table: str, values: Mapping[str, object]) -> Row:
    """A row from its values by name, without `START`.

    Rows of frames and calls are built as tuples, in the order of the columns: they come by the million.
    """
    return tuple([values[name] for name in GIVEN[table]])


@cache
def insertion(table: str, source: str) -> str:
    """The statement that adds rows to a table, and computes the other columns.

    Args:
        table: one of `NAMES`.
        source: the relation with the values: `START`, and those in `GIVEN`.
    """
    columns = _STORED[table]
    names = ", ".join(map(_quoted, columns))
    cells = ", ".join(
        clocked(column.source.sql) if isinstance(column.source, ComputedValue) else _quoted(column)
        for column in columns
    )
    return f"insert into {table} ({names}) select {cells} from {source}"  # noqa: S608 - all of it is ours


def clocked(sql: str, wall: str = "wall") -> str:
    """SQL with each `clock(x)` written out.

    Args:
        sql: an expression, or a statement.
        wall: the expression for the wall clock at the opening of the capture, in nanoseconds since 1970.
    """
    return re.sub(
        r"clock\(([\w.]+)\)", rf"case when \1 between 0 and {CLOCKED} then make_timestamp_ns({wall} + \1) end", sql
    )
