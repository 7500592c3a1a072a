"""The rows of captures as Arrow batches, for engines that accept them: Spark.

The loader makes them, so they are those of `query`; times and JSON have the forms that Parquet files of an export have.
A batch has some 2,000 rows and 8 MB at most, unless a single row is larger, so what receives them needs little memory.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import duckdb

from analysis.store.columns import TABLES
from analysis.store.connection import connect
from analysis.store.load import Loader
from analysis.store.parquet import of_disk
from analysis.store.table_export import MEMORY
from analysis.store.tables import TABLE_NAMES, create_statements
from captures.errors import CaptureError

if TYPE_CHECKING:
    from pyarrow import RecordBatch

BATCH_ROWS: Final = 2048
BATCH_BYTES: Final = 8 << 20

# What the long columns of a row hold; other rows are small.
_BYTES: Final = {
    "frames": "2 * size",
    "tools": "bytes",
    "stderr": "2 * octet_length(raw)",
    "findings": "strlen(message)",
}


class CaptureLoader:
    """Loads captures, one after another, and yields their rows.

    They share a database, because opening one takes longer than loading a small capture; each finds it empty.
    """

    def __init__(self, folder: Path) -> None:
        """Create a loader that has loaded nothing yet.

        Args:
            folder: a private folder for what exceeds the memory of DuckDB (1 GB).
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
        # What failed, or was left before its end, is not used again.
        connection, self._connection = self._connection or _connected(self._folder), None
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
            if failure := of_disk(error):
                raise failure from error
            raise CaptureError(f"cannot load {path}: its frames are so large that they need too much memory") from error
        except duckdb.Error as error:
            if failure := of_disk(error):
                raise failure from error
            if isinstance(error, duckdb.IOException):  # not the capture's fault
                raise
            # It would fail again each time, and nothing else could then be read with it.
            raise CaptureError(f"cannot load {path}: {str(error).partition(chr(10))[0]}") from error
        finally:
            if not is_clean:
                connection.close()


def _connected(folder: Path) -> duckdb.DuckDBPyConnection:
    """Returns a connection to empty tables in memory, with one thread and no extension: a worker has one processor."""
    # Set now, as a thread that is started and ended again takes longer than most captures.
    connection = connect(
        threads=1,
        preserve_insertion_order=False,
        memory_limit=MEMORY,
        temp_directory=str(folder),
        autoinstall_known_extensions=False,
        autoload_known_extensions=False,
    )
    connection.execute(create_statements())
    return connection


def _batches(connection: duckdb.DuckDBPyConnection, table: str) -> "Iterator[RecordBatch]":
    cells = ", ".join(f'"{column.name}"::{column.portable} as "{column.name}"' for column in TABLES[table].columns)
    for first, last in list(_pages(connection, table)):
        sql = f"select {cells} from {table} where rowid between {first} and {last}"  # noqa: S608 - names are ours
        # A batch of DuckDB has 2,048 rows at least, so the bytes are bounded by asking for fewer rows.
        yield from connection.sql(sql).to_arrow_reader(BATCH_ROWS)


def _pages(connection: duckdb.DuckDBPyConnection, table: str) -> Iterator[tuple[int, int]]:
    """The first and last number of the rows that fit into a batch."""
    rows = connection.execute(f"select rowid, {_BYTES.get(table, '0')} from {table} order by rowid")  # noqa: S608
    first = last = None
    count = total = 0
    while some := rows.fetchmany(BATCH_ROWS):
        for row, size in some:
            if first is not None and last is not None and (count == BATCH_ROWS or total + size > BATCH_BYTES):
                yield first, last
                first, count, total = None, 0, 0
            first = row if first is None else first
            last, count, total = row, count + 1, total + size
    if first is not None and last is not None:
        yield first, last
