"""Writes rows to a Parquet file with a separate DuckDB: the sandbox, which runs untrusted SQL, cannot write files."""

import errno
import os
import re
import time
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Final

import duckdb

from analysis.store.cache import private_folder
from analysis.store.cache_files import is_utf8
from analysis.store.connection import connect
from analysis.store.sandbox.protocol import Column, QueryError, Value

BATCH_ROWS: Final = 2048
MAX_MEMORY: Final = "1GB"
"""The most memory that DuckDB uses; other data goes temporarily to a private directory next to the file."""

_DISK_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The reasons why a file cannot be completed."""
_UNCHANGED_KINDS: Final = ("blob", "boolean", "float", "integer")
"""Kinds whose types all have a known name, and whose values DuckDB accepts unchanged."""
_TIME_TYPE: Final = re.compile(r"DATE|INTERVAL|TIME(_NS)?|TIMESTAMP(TZ_NS|_S|_MS|_NS)?|TIME(STAMP)? WITH TIME ZONE")


def write_parquet(
    path: Path,
    columns: Sequence[Column],
    names: Sequence[str],
    rows: Iterable[Sequence[Value]],
    until_s: float | None = None,
) -> None:
    """Write rows into a new file, with the types of their columns; lists, structs and maps become JSON text.

    Args:
        path: the file.
        columns: the columns of the rows.
        names: the names of the columns, each unique.
        rows: consumed once, a batch at a time.
        until_s: the deadline, on the monotonic clock; None for no deadline.

    Raises:
        QueryError: a value does not fit its column, or the deadline has passed.
        OSError: the disk is full, or fails.
    """
    if not is_utf8(path):
        raise QueryError(
            "parquet", "cannot write Parquet: DuckDB cannot open files in a folder whose name is not UTF-8"
        )
    try:
        _write(path, columns, names, rows, until_s)
    except duckdb.InterruptException as error:
        raise QueryError("timeout", "stopped: the time of a query was over before its answer was written") from error
    except duckdb.Error as error:
        if failure := disk_error(error):
            raise failure from error
        raise QueryError("parquet", f"cannot write Parquet: {str(error).partition(chr(10))[0]}") from error


def disk_error(error: duckdb.Error) -> OSError | None:
    """Returns the disk error behind an error of DuckDB, or None. DuckDB's message names files that no longer exist."""
    number = next((number for number in _DISK_ERRORS if os.strerror(number) in str(error)), None)
    return None if number is None else OSError(number, os.strerror(number))


def _write(
    path: Path,
    columns: Sequence[Column],
    names: Sequence[str],
    rows: Iterable[Sequence[Value]],
    until_s: float | None,
) -> None:
    fields = [f"c{number}" for number in range(len(columns))]
    staged_types = [column.type if column.kind in _UNCHANGED_KINDS else "VARCHAR" for column in columns]
    with (
        private_folder(path.parent, ".mcpproxy-") as folder,
        connect(memory_limit=MAX_MEMORY, temp_directory=os.path.abspath(folder)) as connection,
    ):
        declarations = ", ".join(f"{field} {type_}" for field, type_ in zip(fields, staged_types, strict=True))
        connection.execute(f"create table answer ({declarations})")
        source = iter(rows)
        while batch := [_accepted_values(row) for row in islice(source, BATCH_ROWS)]:
            appender = connection.appender("answer")
            appender.append_rows(batch)
            appender.flush()
            del appender
        expressions = ", ".join(
            f"{field}::{_parquet_type(column)} as {_quoted_name(name)}"
            for field, column, name in zip(fields, columns, names, strict=True)
        )
        if until_s is not None:
            remaining_ms = max(1, int(1000 * (until_s - time.monotonic())))
            connection.execute(f"set max_execution_time = {remaining_ms}")
        target = str(path).replace("'", "''")
        # Every name in it is from a fixed list, or quoted. The file exists already, and keeps its mode.
        options = "format parquet, compression zstd, use_tmp_file false"
        connection.execute(f"copy (select {expressions} from answer) to '{target}' ({options})")  # noqa: S608


def _accepted_values(row: Sequence[Value]) -> tuple[Value, ...]:
    return tuple([str(cell) if isinstance(cell, Decimal) else cell for cell in row])


def _parquet_type(column: Column) -> str:
    """The type of a column in the file. The type's name in the result comes from an untrusted process."""
    name = column.type
    if name in ("HUGEINT", "UHUGEINT"):
        return "DECIMAL(38,0)"  # the type of sums; DuckDB would write them as floats
    if column.kind in _UNCHANGED_KINDS:
        return name
    is_known = re.fullmatch(r"DECIMAL\(\d{1,2},\d{1,2}\)", name) or _TIME_TYPE.fullmatch(name) or name == "UUID"
    return name if is_known else "VARCHAR"


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
