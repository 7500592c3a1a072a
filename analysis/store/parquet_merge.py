"""Rewrites Parquet files of a data set as one file, in their order and with all of their columns."""

from collections.abc import Sequence
from pathlib import Path

import duckdb

from analysis.store.cache import sql_literal
from analysis.store.parquet import disk_error
from analysis.store.table_export import PARQUET_OPTIONS, CannotExport, connect_with_spill_folder, stream_in_order
from captures.errors import CaptureError


class CannotMerge(CaptureError):
    """Raised if a file is not Parquet or too hard to read, or if the files do not fit together."""


def merge(files: Sequence[Path], target: Path, without: Sequence[str] = ()) -> int:
    """Write the rows of some files into a new file, unless there are none; return the number of rows.

    Args:
        files: the files of one table; they may have different columns.
        target: the new file. Data that does not fit into memory goes to its folder temporarily.
        without: the captures whose rows are left out.

    Raises:
        CannotExport: the new file cannot be written.
        CannotMerge: the files cannot be merged.
    """
    try:
        with connect_with_spill_folder(str(target.parent)) as connection:
            stream_in_order(connection)
            connection.execute("create table left_out (capture varchar)")
            for capture in without:
                connection.execute("insert into left_out values (?)", [capture])
            names = ", ".join(sql_literal(file) for file in files)
            source = f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"
            rows = f"select * from {source} where capture not in (from left_out)"  # noqa: S608 - names are quoted
            ((count,),) = connection.execute(f"copy ({rows}) to {sql_literal(target)} ({PARQUET_OPTIONS})").fetchall()
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        if disk_error(error) is None:
            raise CannotMerge(reason) from error
        raise CannotExport(f"cannot write one file from {len(files)} in {target.parent}: {reason}") from error
    if not count:
        target.unlink()
    return int(count)
