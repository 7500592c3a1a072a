"""Reuses databases, as creating one with its tables and views takes longer than loading most captures."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from analysis.store.load import create_tables
from analysis.store.reference import view_texts
from analysis.store.tables import TABLE_NAMES

_SPARE: list[duckdb.DuckDBPyConnection] = []


@contextmanager
def empty() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with all tables and views but no rows; nothing else may be created in it."""
    connection = _SPARE.pop() if _SPARE else _made()
    yield connection
    for name in TABLE_NAMES:
        connection.execute(f"truncate {name}")
    _SPARE.append(connection)


def _made() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    create_tables(connection)
    for text in view_texts().values():
        connection.execute(text)
    return connection
