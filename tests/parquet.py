"""Parquet files read back by DuckDB, on a connection of the caller's own.

The connection that `duckdb.sql` and its like share lasts as long as the process: a result that one test leaves
unfetched there fails whichever test comes next.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

Reader = Callable[[Sequence[Path]], list[Any]]


@contextmanager
def parquet_reader(columns: str = "*") -> Iterator[Reader]:
    """What reads the rows of many files, one by one or together: to open a connection takes longer than to read one."""
    with duckdb.connect(config={"threads": 1}) as connection:

        def read(files: Sequence[Path]) -> list[Any]:
            names = [str(file) for file in files]
            statement = f"select {columns} from read_parquet(?, hive_partitioning = false)"
            return connection.execute(statement, [names]).fetchall()

        yield read


def parquet_rows(files: Sequence[Path], columns: str = "*") -> list[Any]:
    """The rows of files that have the same columns, without what the folders' names say."""
    with parquet_reader(columns) as read:
        return read(files)
