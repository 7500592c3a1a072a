"""Exports captures to files for other programs: Parquet, CSV, or a DuckDB database.

A Parquet export is a data set that can be extended: one file for each table and capture, in directories by day, named
as for Hive, Spark and Trino. A CSV export is one file for each table, in which no cell is a formula. A database has the
views, too.

All files are created in a private directory within the target and then moved, so no partial file is ever visible;
existing files are replaced only on request.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import duckdb

from analysis.store.cache import private_folder, remove_abandoned_folders, sql_literal
from analysis.store.cache_files import is_utf8
from analysis.store.columns import TABLES, Column
from analysis.store.connection import connect
from analysis.store.load import create_tables
from analysis.store.open import Progress, Source, prepare
from analysis.store.parquet import disk_error
from analysis.store.reference import COMMENTS, view_texts
from analysis.store.stats import SELECT_LOSSES, Loss
from analysis.store.tables import TABLE_NAMES, copy_statement
from captures.errors import CannotCreate

Form: TypeAlias = Literal["parquet", "csv", "duckdb"]

MAX_MEMORY: Final = "1GB"
STORAGE_VERSION: Final = "v1.2.0"
"""The oldest DuckDB that can read the database: 1.2."""
DATABASE_NAME: Final = "captures.duckdb"
UNKNOWN_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""The day of captures without a known day: the name for NULL in such directories."""

# A text that begins with one of these is a formula to some spreadsheets, or becomes one when a program splits it.
_FORMULA_START: Final = r"^[=+\-@\t\r\n＝＋－＠]"

_PRIVATE_PREFIX: Final = ".mcpproxy-"
PARQUET_OPTIONS: Final = "format parquet, compression zstd, row_group_size_bytes '32MB'"
"""A row group stays in memory until it is complete; by default, it has 122,880 rows of any size."""


class ExportedFile(NamedTuple):
    """An exported file."""

    table: str
    """Empty for a database, which has all tables."""
    path: Path
    rows: int


class ExportResult(NamedTuple):
    """The result of an export."""

    files: list[ExportedFile]
    refused: list[tuple[Path, Exception]]
    """Captures that could no longer be read, and why."""
    losses: list[Loss]
    """The losses of the other captures."""


_Writer: TypeAlias = Callable[[duckdb.DuckDBPyConnection, dict[str, str], Path], Iterator[ExportedFile]]
"""Writes tables to files in a new folder."""


class CannotExport(CannotCreate):
    """Raised if the files cannot be written."""


class TooLarge(CannotExport):
    """Raised if some rows together need more memory than an export may take."""


class TargetExists(CannotExport):
    """Raised if a file exists already."""

    def __init__(self, path: Path) -> None:
        """Create the error for a file."""
        super().__init__(f"{path} exists, so nothing was written; --force replaces it")


def export(
    readable: Iterable[Source],
    form: Form,
    place: Path,
    *,
    findings: bool = False,
    force: bool = False,
    names_only: bool = False,
    machine: str = "",
    database: str = DATABASE_NAME,
    progress: Progress | None = None,
) -> ExportResult:
    """Write all rows of some captures.

    Args:
        readable: the sources of the rows.
        form: the format of the files.
        place: the directory, which is created if it does not exist.
        findings: whether to include the table `findings`; it is never left empty, as that would look like no findings.
        force: whether to replace existing files.
        names_only: whether to write only the names of captures' files, without their folders.
        machine: the name of the machine in the rows of all captures; empty for the names in their headers.
        database: the name of the file, if the format is duckdb.
        progress: called with the progress of loading.

    Raises:
        CannotExport: the files cannot be written, so nothing was written; `TargetExists` if a file exists already.
    """
    absolute_path = os.path.abspath(place)
    if not is_utf8(absolute_path):
        raise CannotExport(f"cannot write to {place}: DuckDB cannot open files in a folder whose name is not UTF-8")
    if form == "duckdb" and "?" in absolute_path:
        raise CannotExport(f"cannot write to {place}: DuckDB ends the name of a database at a ?")
    try:
        return _export(
            readable,
            form,
            place,
            findings=findings,
            force=force,
            names_only=names_only,
            machine=machine,
            database=database,
            progress=progress,
        )
    except (duckdb.Error, OSError) as error:
        # The first line of DuckDB's message says what happened, the others where in its own code.
        os_error = disk_error(error) if isinstance(error, duckdb.Error) else error
        reason = (os_error.strerror if os_error is not None else None) or str(error).partition("\n")[0]
        error_type = TooLarge if isinstance(error, duckdb.OutOfMemoryException) else CannotExport
        raise error_type(f"cannot write to {place}: {reason}; nothing was written") from error


def _export(
    readable: Iterable[Source],
    form: Form,
    place: Path,
    *,
    findings: bool,
    force: bool,
    names_only: bool,
    machine: str,
    database: str,
    progress: Progress | None,
) -> ExportResult:
    with ExitStack() as undo:
        _make_folder(place, undo)
        remove_abandoned_folders(place, _PRIVATE_PREFIX)
        with private_folder(place, _PRIVATE_PREFIX) as private_path:
            # DuckDB may take a relative path for a home, an address or an extension: `~`, `s3://…`, `sqlite:…`.
            folder = os.path.abspath(private_path)
            with connect_with_spill_folder(folder) as connection:
                refused = prepare(connection, readable, views=(), findings=findings, progress=progress)
                losses = [Loss(*row) for row in connection.execute(SELECT_LOSSES).fetchall()]
                writers: dict[Form, _Writer] = {
                    "parquet": _write_parquet,
                    "csv": _write_csv,
                    "duckdb": partial(_write_database, name=database),
                }
                tables = [name for name in TABLE_NAMES if findings or name != "findings"]
                relations = {name: _export_relation(name, names_only=names_only, machine=machine) for name in tables}
                exported_files = list(writers[form](connection, relations, Path(folder, "out")))
            out = Path(folder, "out")
            targets = [file._replace(path=place / file.path.relative_to(out)) for file in exported_files]
            existing_paths = dict.fromkeys(file.path for file in targets if os.path.lexists(file.path))
            for path in existing_paths:
                if not force:
                    raise TargetExists(path)
                if path.is_dir():
                    raise CannotExport(f"{path} is a folder, so nothing was written")
            # New files first: a replacement cannot be undone, but needs no additional space.
            for file, target in sorted(
                zip(exported_files, targets, strict=True), key=lambda pair: pair[1].path in existing_paths
            ):
                _make_folder(target.path.parent, undo)
                _move_into_place(file.path, target.path, undo, force=force)
        undo.pop_all()
    return ExportResult(targets, refused, losses)


def _export_relation(table: str, *, names_only: bool, machine: str) -> str:
    """The SQL of the relation to export: the table, or the table with some values replaced."""
    name = f"memory.main.{table}"
    replacements = ["parse_filename(path) as path"] if names_only else []
    replacements += [f"{sql_literal(machine)} as machine"] if machine else []
    if replacements and table == "captures":
        return f"(select * replace ({', '.join(replacements)}) from {name})"  # noqa: S608 - no part is untrusted
    return name


def _make_folder(folder: Path, undo: ExitStack) -> None:
    """Create a directory and its missing parents, all private: `parents=True` would let other users in."""
    for ancestor in [*reversed(folder.parents), folder]:
        if not ancestor.is_dir():
            undo.callback(_remove_if_possible, ancestor.rmdir)
            ancestor.mkdir(mode=0o700, exist_ok=True)


def _move_into_place(file: Path, target: Path, undo: ExitStack, *, force: bool) -> None:
    file.chmod(0o600)
    if force and os.path.lexists(target):
        file.replace(target)
        return
    status = file.stat()
    # Registered before the link exists, because a signal may arrive right after that.
    undo.callback(_remove_if_possible, partial(_unlink_if_same, target, (status.st_dev, status.st_ino)))
    try:
        # Unlike a rename, a link replaces nothing.
        os.link(file, target)
    except FileExistsError:
        raise TargetExists(target) from None


def _unlink_if_same(target: Path, identity: tuple[int, int]) -> None:
    status = target.lstat()
    if (status.st_dev, status.st_ino) == identity:
        target.unlink()


def _remove_if_possible(remove: Callable[[], None]) -> None:
    with suppress(OSError):
        remove()


def _write_parquet(connection: duckdb.DuckDBPyConnection, tables: dict[str, str], out: Path) -> Iterator[ExportedFile]:
    days = connection.execute(
        "select capture, coalesce(strftime(opened, '%Y-%m-%d'), ?) from captures order by all", [UNKNOWN_DAY]
    ).fetchall()
    stream_in_order(connection)
    for table, source in tables.items():
        expressions = ", ".join(
            f"{_quoted_name(column)}::{column.portable} as {_quoted_name(column)}" for column in TABLES[table].columns
        )
        for capture, day in days:
            rows = _row_count(connection, table, capture)
            if not rows:
                continue
            path = out / table / f"day={day}" / f"{capture}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            # A capture's id is always 32 hexadecimal digits, regardless of its file.
            from_clause = f"from {source} where capture = '{capture}'"
            connection.execute(f"copy (select {expressions} {from_clause}) to {sql_literal(path)} ({PARQUET_OPTIONS})")
            yield ExportedFile(table, path, rows)


def connect_with_spill_folder(folder: str) -> duckdb.DuckDBPyConnection:
    """Returns a connection to a new database in memory without extensions; data above `MAX_MEMORY` goes to a folder."""
    extensions = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return connect(memory_limit=MAX_MEMORY, temp_directory=folder, **extensions)


def stream_in_order(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a connection write Parquet in groups of a few MB: DuckDB does this only if it need not preserve the order.

    With one thread, rows keep their order anyway, and the same rows always give the same bytes.
    """
    connection.execute("set preserve_insertion_order = false")
    connection.execute("set threads = 1")


def _write_csv(connection: duckdb.DuckDBPyConnection, tables: dict[str, str], out: Path) -> Iterator[ExportedFile]:
    out.mkdir()
    escaped_text = f"case when regexp_matches({{0}}, '{_FORMULA_START}') then '''' || {{0}} else {{0}} end"
    expressions_by_type = {
        "VARCHAR": escaped_text,
        "JSON": escaped_text.replace("{0}", "{0}::varchar"),
        "BLOB": "lower(hex({0}))",
    }
    for table, source in tables.items():
        path = out / f"{table}.csv"
        expressions = ", ".join(
            f"{expressions_by_type[column.type].format(_quoted_name(column))} as {_quoted_name(column)}"
            if column.type in expressions_by_type
            else _quoted_name(column)
            for column in TABLES[table].columns
        )
        connection.execute(f"copy (select {expressions} from {source}) to {sql_literal(path)} (format csv, header)")  # noqa: S608 - no part is untrusted
        yield ExportedFile(table, path, _row_count(connection, table))


def _write_database(
    connection: duckdb.DuckDBPyConnection, tables: dict[str, str], out: Path, name: str
) -> Iterator[ExportedFile]:
    out.mkdir()
    path = out / name
    connection.execute(f"attach {sql_literal(path)} as export (storage_version '{STORAGE_VERSION}')")
    connection.execute("use export")
    create_tables(connection)
    omitted_tables = [name for name in TABLE_NAMES if name not in tables]
    for text in view_texts().values():
        if not any(re.search(rf"\b{name}\b", text) for name in omitted_tables):
            connection.execute(text)
    rows = 0
    for table, source in tables.items():
        connection.execute(copy_statement(source, table))
        rows += _row_count(connection, table)
    for table in omitted_tables:
        connection.execute(f"drop table {table}")
    _store_rows_of_view(connection, "both_sides")
    connection.execute("use memory.main")
    connection.execute("detach export")
    yield ExportedFile("", path, rows)


def _store_rows_of_view(connection: duckdb.DuckDBPyConnection, view: str) -> None:
    """Replace a view with a table of its rows, for versions of DuckDB that take for ever to compute these.

    Before version 1.4, DuckDB computes a step of a query again for each use of it, and forgets in a view that it should
    not.
    """
    comments = "\n".join(COMMENTS.findall(view_texts()[view])).replace("comment on view", "comment on table")
    connection.execute(f"create table view_rows as select * from {view}")  # noqa: S608 - no part is untrusted
    connection.execute(f"drop view {view}")
    connection.execute(f"alter table view_rows rename to {view}")
    connection.execute(comments)


def _row_count(connection: duckdb.DuckDBPyConnection, table: str, capture: str | None = None) -> int:
    where_clause = "" if capture is None else " where capture = ?"
    values = [] if capture is None else [capture]
    ((count,),) = connection.execute(f"select count(*) from {table}{where_clause}", values).fetchall()  # noqa: S608 - no part is untrusted
    return int(count)


def _quoted_name(column: Column) -> str:
    return f'"{column.name}"'
