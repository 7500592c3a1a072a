"""Parquet files read back by DuckDB, on a connection of the caller's own.

The connection that `duckdb.sql` and its like share lasts as long as the process: a result that one test leaves
unfetched there fails whichever test comes next.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb


def parquet_rows(files: Sequence[Path], columns: str = "*") -> list[Any]:
    """The rows of files that have the same columns, without what the folders' names say."""
    with duckdb.connect() as connection:
        names = [str(file) for file in files]
        return connection.execute(
            f"select {columns} from read_parquet(?, hive_partitioning = false)", [names]
        ).fetchall()
