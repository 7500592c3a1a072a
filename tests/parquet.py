"""Parquet files read back by DuckDB, on a connection of the caller's own.

The connection that `duckdb.sql` and similar functions share lasts as long as the process: a result that one test leaves
unfetched there makes the next test fail.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

Reader = Callable[[Sequence[Path]], list[Any]]


@contextmanager
def parquet_reader(columns: str = "*") -> Iterator[Reader]:
    """A function that reads the rows of files over one connection: opening one takes longer than reading a file."""
    with duckdb.connect(config={"threads": 1}) as connection:

        def read(files: Sequence[Path]) -> list[Any]:
            names = [str(file) for file in files]
            statement = f"select {columns} from read_parquet(?, hive_partitioning = false)"
            return connection.execute(statement, [names]).fetchall()

        yield read


def parquet_rows(files: Sequence[Path], columns: str = "*") -> list[Any]:
    """The rows of files that have the same columns, without the columns that the folders' names give."""
    with parquet_reader(columns) as read:
        return read(files)
