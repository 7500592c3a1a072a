"""Rows of DuckDB and of Spark in one form, so that they can be compared."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb


def plain(cell: Any) -> Any:
    """A value in the form that both engines share."""
    if isinstance(cell, bytearray | memoryview):
        return bytes(cell)
    if isinstance(cell, list | tuple):
        return [plain(one) for one in cell]
    if isinstance(cell, Decimal):
        return int(cell) if cell == int(cell) else float(cell)
    if isinstance(cell, dt.datetime):
        return cell.replace(tzinfo=None)
    return cell


def sorted_rows(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own."""
    return sorted((tuple(plain(cell) for cell in row) for row in rows), key=repr)


def rows_of_duckdb(connection: duckdb.DuckDBPyConnection, name: str) -> list[tuple[Any, ...]]:
    """All rows of a relation, sorted; times in microseconds and JSON as text."""
    return sorted_rows(connection.execute(f"select {cells(connection, name)} from {name}").fetchall())


def cells(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    """The columns of a relation in types that Spark has too."""
    forms = {"TIMESTAMP_NS": "timestamp", "JSON": "varchar"}
    columns = connection.execute(f"describe {name}").fetchall()
    return ", ".join(f'"{column}"::{forms.get(type_, type_)}' for column, type_, *_ in columns)


def rows_of_spark(frame: Any) -> list[tuple[Any, ...]]:
    """All rows of a data frame, sorted."""
    return sorted_rows(frame.collect())
