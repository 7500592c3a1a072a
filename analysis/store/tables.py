"""SQL statements that create, describe and fill the tables in DuckDB, built from `columns`.

Values that SQL does not compute come from Python, in column order. `frames.message` is a generated column: to store the
same text again next to `raw` would double the time and space.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from analysis.store.columns import TABLES, Column, ComputedValue, GeneratedValue, GivenValue, Table
from analysis.store.values import MAX_CLOCK_NS

Row = tuple[Any, ...]
"""The values of a row that come from Python, in column order."""


def create_statements() -> str:
    """Returns the statements that create the tables, without comments: adding those takes ten times as long."""
    return "".join(
        f"create table {name} ({', '.join(map(_column_declaration, table.columns))});\n"
        for name, table in TABLES.items()
    )


def _column_declaration(column: Column) -> str:
    if isinstance(column.source, GeneratedValue):
        return f"{_quoted_name(column)} {column.type} generated always as ({column.source.sql}) virtual"
    return f"{_quoted_name(column)} {column.type}{' not null' if column.null == 'not null' else ''}"


def comment_statements(table: str, kind: str = "table") -> str:
    """Returns the statements that say what a table and its columns mean.

    Args:
        table: one of `TABLE_NAMES`.
        kind: `view` if a view replaces the table.
    """
    descriptions = [(f"{kind} {table}", TABLES[table].row)]
    descriptions += [(f"column {table}.{_quoted_name(column)}", column.meaning) for column in TABLES[table].columns]
    return "".join(
        f"comment on {object_name} is {_string_literal(meaning)};\n" for object_name, meaning in descriptions
    )


def definition_statements() -> str:
    """Returns the statements that create the tables and say what their columns mean."""
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
"""The types of the values that begin every row from Python: the capture, and the wall clock at its opening."""
PYTHON_VALUE_TYPES: Final = {name: _python_value_types(table) for name, table in TABLES.items()}
"""The types of the values that follow in a row, by table."""
_STORED_COLUMNS: Final = {
    name: [column for column in table.columns if not isinstance(column.source, GeneratedValue)]
    for name, table in TABLES.items()
}
TABLE_NAMES: Final = tuple(TABLES)


def copy_statement(source: str, table: str) -> str:
    """Returns the statement that copies rows into a table.

    Args:
        source: where the rows come from: one of mcpproxy's tables, or one of its queries in parentheses.
        table: one of `TABLE_NAMES`.
    """
    column_names = ", ".join(map(_quoted_name, _STORED_COLUMNS[table]))
    return f"insert into {table} ({column_names}) select {column_names} from {source}"  # noqa: S608 - no part is untrusted


def build_row(table: str, values: Mapping[str, object]) -> Row:
    """Returns the values in column order, for a row of a table; those of `LEADING_VALUE_TYPES` are not included.

    Frames and calls do not use it: there are millions of these, so they are built directly, as tuples in column order.
    """
    return tuple([values[name] for name in PYTHON_VALUE_TYPES[table]])


@cache
def insert_statement(table: str, source: str) -> str:
    """Returns the statement that adds rows to a table, and computes the values that do not come from Python.

    Args:
        table: one of `TABLE_NAMES`.
        source: the relation with the values from Python: those of `LEADING_VALUE_TYPES` and of `PYTHON_VALUE_TYPES`.
    """
    columns = _STORED_COLUMNS[table]
    column_names = ", ".join(map(_quoted_name, columns))
    expressions = ", ".join(
        expand_clock(column.source.sql) if isinstance(column.source, ComputedValue) else _quoted_name(column)
        for column in columns
    )
    return f"insert into {table} ({column_names}) select {expressions} from {source}"  # noqa: S608 - no part is untrusted


def expand_clock(sql: str, wall: str = "wall") -> str:
    """Returns SQL in which each `clock(x)` is replaced with the expression for the time x after the opening.

    Args:
        sql: an expression or a statement.
        wall: the expression for the wall clock at the opening of the capture, in nanoseconds since 1970.
    """
    return re.sub(
        r"clock\(([\w.]+)\)", rf"case when \1 between 0 and {MAX_CLOCK_NS} then make_timestamp_ns({wall} + \1) end", sql
    )
