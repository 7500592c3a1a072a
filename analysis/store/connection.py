"""Connections to DuckDB in memory, without its progress bar, which slow statements would otherwise draw on stdout."""

import duckdb


def connect(**settings: str | bool | float | list[str]) -> duckdb.DuckDBPyConnection:
    """Returns a connection to a new database in memory.

    Args:
        settings: the settings of the database, by their names in DuckDB.
    """
    connection = duckdb.connect(config=settings)
    connection.execute("set enable_progress_bar = false")
    return connection
