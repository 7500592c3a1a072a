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


def create_statements() -> str:
    """The statements that make the tables, without comments, which take ten times as long."""
    return "".join(
        f"create table {name} ({', '.join(map(_column_declaration, table.columns))});\n"
        for name, table in TABLES.items()
    )


def _column_declaration(column: Column) -> str:
    if isinstance(column.source, GeneratedValue):
        return f"{_quoted_name(column)} {column.type} generated always as ({column.source.sql}) virtual"
    return f"{_quoted_name(column)} {column.type}{' not null' if column.null == 'not null' else ''}"


def comment_statements(table: str, kind: str = "table") -> str:
    """The statements that say what a table and its columns mean.

    Args:
        table: one of `TABLE_NAMES`.
        kind: `view` if a view has taken the place of the table.
    """
    descriptions = [(f"{kind} {table}", TABLES[table].row)]
    descriptions += [(f"column {table}.{_quoted_name(column)}", column.meaning) for column in TABLES[table].columns]
    return "".join(
        f"comment on {object_name} is {_string_literal(meaning)};\n" for object_name, meaning in descriptions
    )


def definition_statements() -> str:
    """The statements that make the tables and say what their columns mean."""
    return create_statements() + "".join(map(comment_statements, TABLE_NAMES))


def _quoted_name(column: Column) -> str:
    return f'"{column.name}"'  # some names are keywords


def _string_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _python_value_types(table: Table) -> dict[str, str]:
    """Returns the types of the values from Python by name, in column order, except for `LEADING_VALUE_TYPES`."""
    types_by_name: dict[str, str] = {}
    for column in table.columns:
        if isinstance(column.source, ComputedValue):
            if column.source.given is not None:
                name, type_ = column.source.given
                types_by_name[name] = type_
        elif isinstance(column.source, GivenValue) and column.name != "capture":
            types_by_name[column.name] = "VARCHAR" if column.type == "JSON" else column.type
    return types_by_name


LEADING_VALUE_TYPES: Final = {"capture": "VARCHAR", "wall": "BIGINT"}
"""The values at the beginning of every row from Python: the capture, and the wall clock at which that was opened."""
PYTHON_VALUE_TYPES: Final = {name: _python_value_types(table) for name, table in TABLES.items()}
"""The types of the values that follow, by table."""
_STORED_COLUMNS: Final = {
    name: [column for column in table.columns if not isinstance(column.source, GeneratedValue)]
    for name, table in TABLES.items()
}
TABLE_NAMES: Final = tuple(TABLES)
"""The tables."""


def copy_statement(source: str, table: str) -> str:
    """The statement that copies the rows of a table.

    Args:
        source: what to select the rows from: one of our tables, or one of our queries in parentheses.
        table: one of `TABLE_NAMES`.
    """
    column_names = ", ".join(map(_quoted_name, _STORED_COLUMNS[table]))
    return f"insert into {table} ({column_names}) select {column_names} from {source}"  # noqa: S608 - no part is untrusted


def build_row(table: str, values: Mapping[str, object]) -> Row:
    """A row from its values by name, without `LEADING_VALUE_TYPES`.

    Rows of frames and calls are built as tuples, in the order of the columns: they come by the million.
    """
    return tuple([values[name] for name in PYTHON_VALUE_TYPES[table]])


@cache
def insert_statement(table: str, source: str) -> str:
    """The statement that adds rows to a table, and computes the other columns.

    Args:
        table: one of `TABLE_NAMES`.
        source: the relation with the values: `LEADING_VALUE_TYPES`, and those in `PYTHON_VALUE_TYPES`.
    """
    columns = _STORED_COLUMNS[table]
    column_names = ", ".join(map(_quoted_name, columns))
    expressions = ", ".join(
        expand_clock(column.source.sql) if isinstance(column.source, ComputedValue) else _quoted_name(column)
        for column in columns
    )
    return f"insert into {table} ({column_names}) select {expressions} from {source}"  # noqa: S608 - no part is untrusted


def expand_clock(sql: str, wall: str = "wall") -> str:
    """SQL with each `clock(x)` written out.

    Args:
        sql: an expression, or a statement.
        wall: the expression for the wall clock at the opening of the capture, in nanoseconds since 1970.
    """
    return re.sub(
        r"clock\(([\w.]+)\)", rf"case when \1 between 0 and {CLOCKED} then make_timestamp_ns({wall} + \1) end", sql
    )
