"""Connections to DuckDB in memory. They print nothing: by default, a statement of two seconds draws a bar on stdout."""

import duckdb


def connect(**settings: str | bool | float | list[str]) -> duckdb.DuckDBPyConnection:
    """A connection to a fresh database in memory.

    Args:
        settings: the settings of the database, by DuckDB's names.
    """
    connection = duckdb.connect(config=settings)
    connection.execute("set enable_progress_bar = false")
    return connection
