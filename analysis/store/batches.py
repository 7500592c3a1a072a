"""The rows of captures as Arrow batches, for engines that accept them, such as Spark.

The loader creates them, so they are the same as for `query`; times and JSON have the same forms as in the Parquet files
of an export. A batch has at most 2,048 rows and 8 MB, unless a single row is larger, so its receiver needs little
memory.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import duckdb

from analysis.store.columns import TABLES
from analysis.store.connection import connect
from analysis.store.load import Loader
from analysis.store.parquet import disk_error
from analysis.store.table_export import MAX_MEMORY
from analysis.store.tables import TABLE_NAMES, create_statements
from captures.errors import CaptureError

if TYPE_CHECKING:
    from pyarrow import RecordBatch

MAX_BATCH_ROWS: Final = 2048
MAX_BATCH_BYTES: Final = 8 << 20

# The bytes in the long columns of a row; the rows of other tables are small.
_ROW_SIZE_SQL: Final = {
    "frames": "2 * size",
    "tools": "bytes",
    "stderr": "2 * octet_length(raw)",
    "findings": "strlen(message)",
}


class CaptureLoader:
    """Loads captures, one after another, and yields their rows.

    The captures share a database, because opening one takes longer than loading a small capture. It is empty before
    each of them.
    """

    def __init__(self, folder: Path) -> None:
        """Create a loader that has loaded nothing yet.

        Args:
            folder: a private folder for data that exceeds the memory of DuckDB (1 GB).
        """
        self._folder = folder
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def load_rows(self, path: Path, capture: str, table: str | None) -> "Iterator[RecordBatch]":
        """Load a capture, and yield the rows of a table.

        Args:
            path: the capture.
            capture: the value of the column `capture` in its rows.
            table: one of `tables.TABLE_NAMES`; the rules run for `findings` only. None to load every table except
                `findings` and yield nothing, which shows whether the capture can be read.

        Raises:
            CaptureError: the capture cannot be read, or needs too much memory.
            OSError: the disk is full, or fails.
        """
        # After a failure, or if the caller stops before the end, the connection is not used again.
        connection, self._connection = self._connection or _connect_to_tables(self._folder), None
        is_clean = False
        try:
            with Loader(connection, None if table is None else (table,)) as loader:
                if table == "findings":
                    loader.load_findings(path, capture)
                else:
                    loader.load(path, capture)
            for name in (table,) if table is not None else TABLE_NAMES:
                for batch in _batches(connection, name):
                    if table is not None:
                        yield batch
                connection.execute(f"truncate {name}")
            self._connection, is_clean = connection, True
        except duckdb.OutOfMemoryException as error:
            if failure := disk_error(error):
                raise failure from error
            raise CaptureError(f"cannot load {path}: its frames are so large that they need too much memory") from error
        except duckdb.Error as error:
            if failure := disk_error(error):
                raise failure from error
            if isinstance(error, duckdb.IOException):  # not the capture's fault
                raise
            # It would fail each time, and no other capture could then be read together with it.
            raise CaptureError(f"cannot load {path}: {str(error).partition(chr(10))[0]}") from error
        finally:
            if not is_clean:
                connection.close()


def _connect_to_tables(folder: Path) -> duckdb.DuckDBPyConnection:
    """Returns a connection to empty tables in memory, with one thread and no extension: a worker has one processor."""
    # Set at the start, because starting and ending a thread takes longer than loading most captures.
    connection = connect(
        threads=1,
        preserve_insertion_order=False,
        memory_limit=MAX_MEMORY,
        temp_directory=str(folder),
        autoinstall_known_extensions=False,
        autoload_known_extensions=False,
    )
    connection.execute(create_statements())
    return connection


def _batches(connection: duckdb.DuckDBPyConnection, table: str) -> "Iterator[RecordBatch]":
    expressions = ", ".join(
        f'"{column.name}"::{column.portable} as "{column.name}"' for column in TABLES[table].columns
    )
    for first_row, last_row in list(_pages(connection, table)):
        sql = f"select {expressions} from {table} where rowid between {first_row} and {last_row}"  # noqa: S608 - no part is untrusted
        # DuckDB returns batches of at least 2,048 rows, so only a query for fewer rows limits the bytes.
        yield from connection.sql(sql).to_arrow_reader(MAX_BATCH_ROWS)


def _pages(connection: duckdb.DuckDBPyConnection, table: str) -> Iterator[tuple[int, int]]:
    """The first and last numbers of the rows of each batch."""
    rows = connection.execute(f"select rowid, {_ROW_SIZE_SQL.get(table, '0')} from {table} order by rowid")  # noqa: S608
    first_row = last_row = None
    count = total = 0
    while page := rows.fetchmany(MAX_BATCH_ROWS):
        for row, size in page:
            if (
                first_row is not None
                and last_row is not None
                and (count == MAX_BATCH_ROWS or total + size > MAX_BATCH_BYTES)
            ):
                yield first_row, last_row
                first_row, count, total = None, 0, 0
            first_row = row if first_row is None else first_row
            last_row, count, total = row, count + 1, total + size
    if first_row is not None and last_row is not None:
        yield first_row, last_row
