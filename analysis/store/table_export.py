"""Exports captures to files for other programs: Parquet, CSV, or a DuckDB database.

Parquet is a data set that can be extended: one file for each table and capture, in directories by day, named as for
Hive, Spark and Trino. CSV is one file for each table, in which no cell is a formula. A database has the views, too.

Everything is made in a private directory next to its place and then moved, so no partial file is ever visible; existing
files are replaced only on request.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import duckdb

from analysis.store.cache import private_folder, quoted, sweep
from analysis.store.cache_files import is_utf8
from analysis.store.columns import TABLES, Column
from analysis.store.connection import connect
from analysis.store.load import create
from analysis.store.open import Progress, Source, prepare
from analysis.store.parquet import of_disk
from analysis.store.reference import view_texts
from analysis.store.stats import LOSSES, Loss
from analysis.store.tables import TABLE_NAMES, copy_statement
from captures.errors import CannotCreate

Form: TypeAlias = Literal["parquet", "csv", "duckdb"]

MEMORY: Final = "1GB"
STORAGE: Final = "v1.2.0"
"""The oldest DuckDB that can read the database: 1.2."""
DATABASE: Final = "captures.duckdb"
NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""The day of captures without a known day: the name for NULL in such directories."""

# A text that begins with one of these is a formula to some spreadsheets, or becomes one when a program splits it.
_ACTIVE: Final = r"^[=+\-@\t\r\n＝＋－＠]"

_PRIVATE: Final = ".mcpproxy-"
PARQUET: Final = "format parquet, compression zstd, row_group_size_bytes '32MB'"
"""A row group is held in memory until it is complete; by default, 122,880 rows of any size."""


class Exported(NamedTuple):
    """An exported file."""

    table: str
    """Empty for a database, which has all tables."""
    path: Path
    rows: int


class ExportResult(NamedTuple):
    """The result of an export."""

    files: list[Exported]
    refused: list[tuple[Path, Exception]]
    """Captures that could no longer be read, and why."""
    losses: list[Loss]
    """What is missing from the others."""


_Writer: TypeAlias = Callable[[duckdb.DuckDBPyConnection, dict[str, str], Path], Iterator[Exported]]
"""Writes tables to files in a new folder."""


class CannotExport(CannotCreate):
    """The files cannot be written."""


class TooLarge(CannotExport):
    """Some rows together need more memory than an export may take."""


class TargetExists(CannotExport):
    """A file exists already."""

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
    database: str = DATABASE,
    progress: Progress | None = None,
) -> ExportResult:
    """Write all rows of some captures.

    Args:
        readable: the sources of the rows.
        form: the format of the files.
        place: the directory, which is made if it does not exist.
        findings: whether to include the table `findings`; otherwise it is left out, as an empty one would look clean.
        force: replace existing files.
        names_only: write no folders of captures, only the names of their files.
        machine: what all captures call their machine; empty for what their headers say.
        database: the name of the file, if the format is duckdb.
        progress: called with the progress of loading.

    Raises:
        CannotExport: the files cannot be written: `TargetExists` if a file exists already. Nothing has been written
            then.
    """
    whole = os.path.abspath(place)
    if not is_utf8(whole):
        raise CannotExport(f"cannot write to {place}: DuckDB cannot open files in a folder whose name is not UTF-8")
    if form == "duckdb" and "?" in whole:
        raise CannotExport(f"cannot write to {place}: DuckDB ends the name of a database at a ?")
    try:
        return _exported(
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
        # The first line of DuckDB's message says what happened, the rest where in its own code.
        of_file = of_disk(error) if isinstance(error, duckdb.Error) else error
        why = (of_file.strerror if of_file is not None else None) or str(error).partition("\n")[0]
        kind = TooLarge if isinstance(error, duckdb.OutOfMemoryException) else CannotExport
        raise kind(f"cannot write to {place}: {why}; nothing was written") from error


def _exported(
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
        sweep(place, _PRIVATE)
        with private_folder(place, _PRIVATE) as private:
            # DuckDB may take a relative path for a home, an address or an extension: `~`, `s3://…`, `sqlite:…`.
            folder = os.path.abspath(private)
            with spilling_into(folder) as connection:
                refused = prepare(connection, readable, findings=findings, progress=progress)
                losses = [Loss(*row) for row in connection.execute(LOSSES).fetchall()]
                writers: dict[Form, _Writer] = {
                    "parquet": _parquet,
                    "csv": _csv,
                    "duckdb": partial(_database, name=database),
                }
                tables = [name for name in TABLE_NAMES if findings or name != "findings"]
                rows = {name: _rows(name, names_only=names_only, machine=machine) for name in tables}
                written = list(writers[form](connection, rows, Path(folder, "out")))
            out = Path(folder, "out")
            targets = [file._replace(path=place / file.path.relative_to(out)) for file in written]
            there = dict.fromkeys(file.path for file in targets if os.path.lexists(file.path))
            for path in there:
                if not force:
                    raise TargetExists(path)
                if path.is_dir():
                    raise CannotExport(f"{path} is a folder, so nothing was written")
            # New files first: a replacement cannot be undone, and needs no more room.
            for file, target in sorted(zip(written, targets, strict=True), key=lambda pair: pair[1].path in there):
                _make_folder(target.path.parent, undo)
                _put(file.path, target.path, undo, force=force)
        undo.pop_all()
    return ExportResult(targets, refused, losses)


def _rows(table: str, *, names_only: bool, machine: str) -> str:
    """What to select from: the table, or the table with some values replaced."""
    name = f"memory.main.{table}"
    others = ["parse_filename(path) as path"] if names_only else []
    others += [f"{quoted(machine)} as machine"] if machine else []
    if others and table == "captures":
        return f"(select * replace ({', '.join(others)}) from {name})"  # noqa: S608 - names are ours
    return name


def _make_folder(folder: Path, undo: ExitStack) -> None:
    """Make a directory and its missing parents, all private: `parents=True` would let others in."""
    for ancestor in [*reversed(folder.parents), folder]:
        if not ancestor.is_dir():
            undo.callback(_remove, ancestor.rmdir)
            ancestor.mkdir(mode=0o700, exist_ok=True)


def _put(file: Path, target: Path, undo: ExitStack, *, force: bool) -> None:
    file.chmod(0o600)
    if force and os.path.lexists(target):
        file.replace(target)
        return
    made = file.stat()
    # Registered before the link exists, because a signal may come right after it.
    undo.callback(_remove, partial(_unlink_if_same, target, (made.st_dev, made.st_ino)))
    try:
        # Unlike a rename, a link replaces nothing.
        os.link(file, target)
    except FileExistsError:
        raise TargetExists(target) from None


def _unlink_if_same(target: Path, identity: tuple[int, int]) -> None:
    there = target.lstat()
    if (there.st_dev, there.st_ino) == identity:
        target.unlink()


def _remove(remove: Callable[[], None]) -> None:
    with suppress(OSError):
        remove()


def _parquet(connection: duckdb.DuckDBPyConnection, tables: dict[str, str], out: Path) -> Iterator[Exported]:
    days = connection.execute(
        "select capture, coalesce(strftime(opened, '%Y-%m-%d'), ?) from captures order by all", [NO_DAY]
    ).fetchall()
    stream_in_order(connection)
    for table, source in tables.items():
        given = ", ".join(f"{_name(column)}::{column.portable} as {_name(column)}" for column in TABLES[table].columns)
        for capture, day in days:
            rows = _count(connection, table, capture)
            if not rows:
                continue
            path = out / table / f"day={day}" / f"{capture}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            # A capture's id is always 32 hexadecimal digits, regardless of its file.
            rest = f"from {source} where capture = '{capture}'"
            connection.execute(f"copy (select {given} {rest}) to {quoted(path)} ({PARQUET})")
            yield Exported(table, path, rows)


def spilling_into(folder: str) -> duckdb.DuckDBPyConnection:
    """A connection to a fresh database in memory, which loads no extension; what exceeds `MEMORY` goes to a folder."""
    extensions = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return connect(memory_limit=MEMORY, temp_directory=folder, **extensions)


def stream_in_order(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a connection write Parquet in groups of a few MB: DuckDB does this only without a promise about the order.

    With one thread, rows keep their order anyway, and the same rows always give the same bytes.
    """
    connection.execute("set preserve_insertion_order = false")
    connection.execute("set threads = 1")


def _csv(connection: duckdb.DuckDBPyConnection, tables: dict[str, str], out: Path) -> Iterator[Exported]:
    out.mkdir()
    inert = f"case when regexp_matches({{0}}, '{_ACTIVE}') then '''' || {{0}} else {{0}} end"
    forms = {"VARCHAR": inert, "JSON": inert.replace("{0}", "{0}::varchar"), "BLOB": "lower(hex({0}))"}
    for table, source in tables.items():
        path = out / f"{table}.csv"
        given = ", ".join(
            f"{forms[column.type].format(_name(column))} as {_name(column)}" if column.type in forms else _name(column)
            for column in TABLES[table].columns
        )
        connection.execute(f"copy (select {given} from {source}) to {quoted(path)} (format csv, header)")  # noqa: S608 - names are ours
        yield Exported(table, path, _count(connection, table))


def _database(
    connection: duckdb.DuckDBPyConnection, tables: dict[str, str], out: Path, name: str
) -> Iterator[Exported]:
    out.mkdir()
    path = out / name
    connection.execute(f"attach {quoted(path)} as export (storage_version '{STORAGE}')")
    connection.execute("use export")
    create(connection)
    left_out = [name for name in TABLE_NAMES if name not in tables]
    for text in view_texts().values():
        if not any(re.search(rf"\b{name}\b", text) for name in left_out):
            connection.execute(text)
    rows = 0
    for table, source in tables.items():
        connection.execute(copy_statement(source, table))
        rows += _count(connection, table)
    for table in left_out:
        connection.execute(f"drop table {table}")
    connection.execute("use memory.main")
    connection.execute("detach export")
    yield Exported("", path, rows)


def _count(connection: duckdb.DuckDBPyConnection, table: str, capture: str | None = None) -> int:
    where = "" if capture is None else " where capture = ?"
    values = [] if capture is None else [capture]
    ((count,),) = connection.execute(f"select count(*) from {table}{where}", values).fetchall()  # noqa: S608 - names are ours
    return int(count)


def _name(column: Column) -> str:
    return f'"{column.name}"'
