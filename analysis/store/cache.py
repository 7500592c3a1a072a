"""The cache: the rows of closed captures, one DuckDB file each, in the user's cache directory.

It may be lost at any time, because it is derived from the captures alone. A file is created in a private directory next
to its final place and renamed when it is complete, so no process ever sees a partial one. If two runs create the same
file at the same time, each creates its own, and the last one stays. The name of a file identifies the capture, and
contains a hash of everything that the rows depend on: the files of the capture with size and time, and every module
that reads or interprets them. The file stores the hash as well.

Without a cache, because the disk is full or read-only or the user wants none, queries are slower, but their results are
the same. A file damaged by a bad disk is detected when the damaged block is used: each block has a checksum, and
checking all of them beforehand would take as long as most queries do.
"""

import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from analysis.cached import TABLE_MODULES, ClearedCache, modules_hash, size_limit
from analysis.store.cache_files import SUFFIX, digest_of, directory, files_of, owner_of
from analysis.store.connection import connect
from analysis.store.load import Loader, Progress
from analysis.store.tables import create_statements
from captures.file import is_live
from captures.listing import segments
from captures.ownership import is_of_user

STORAGE_VERSION: Final = "v1.2.0"
"""The storage version of the files, which all versions of DuckDB since then can read."""
BLOCK_BYTES: Final = 16 << 10
"""The size of a block in bytes: a capture of 50 frames takes 188 KiB, and 1.8 MiB with DuckDB's default of 256 KiB."""
MIN_CAPTURE_BYTES: Final = 128 << 10
"""The smallest capture with a file, in bytes. Reading a smaller one is faster than opening a file in the cache."""
MIN_GROWING_CAPTURE_BYTES: Final = 3 << 20
"""The smallest growing capture with a file, in bytes. Its file is useful only until the next record is written."""
MAX_DUCKDB_BYTES: Final = 512_000_000
"""The bytes of memory that DuckDB may use while a file is created; the rest goes to the disk. Without this limit, all
rows would stay in memory until they are committed: a kilobyte for each frame."""
_OPTIONS: Final = f"storage_version '{STORAGE_VERSION}', block_size {BLOCK_BYTES}"
_CREATE_MADE_OF: Final = "create table made_of (key varchar, capture varchar)"
"""Creates the table that says what the file was created from."""
ABANDONED_AFTER_S: Final = 3600
"""The age at which the private directory of an unfinished file counts as left behind by a killed process."""

_FINDINGS_SUFFIX: Final = "-findings"
_CACHE_FILE_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}(-findings)?\.duckdb")
"""The names of cache files; the directory may be a link to one that also contains files of other programs."""
_UNFINISHED_PREFIX: Final = ".making-"
_DAMAGE_MESSAGE: Final = re.compile(r"Corrupt database file|Could not read")
"""DuckDB's messages for a block that is damaged or that the disk cannot read."""


class _CaptureState(NamedTuple):
    """The current state of a capture."""

    key: str
    """Everything that its rows depend on."""
    is_growing: bool
    size: int
    """The total size of its files, in bytes."""


def find_file(path: Path, id_: str, *, findings: bool = False) -> Path | None:
    """Returns the file with the rows of a capture, marked as used now, or None if there is none.

    Args:
        path: the capture.
        id_: the value of the column `capture` in its rows.
        findings: whether it must contain the findings, too.
    """
    folder, key = directory(), key_of(path, id_)
    if folder is None or key is None or not size_limit():
        return None
    for is_full in (True, False)[: 1 if findings else 2]:
        used_file = _mark_as_used(folder / _name(path, id_, key, findings=is_full))
        if used_file is not None:
            return used_file
    return None


def _mark_as_used(file: Path) -> Path | None:
    """Mark a file as used now; return it, or None if there is none."""
    if not _check_header(file):
        return None
    with suppress(OSError):
        os.utime(file)
    return file


def create_file(
    path: Path,
    id_: str,
    *,
    findings: bool = False,
    keep: Iterable[Path] = (),
    progress: Progress | None = None,
    memory: int = MAX_DUCKDB_BYTES,
) -> Path | None:
    """Create the file with the rows of a capture; return it, or None if that is impossible.

    A large capture that is growing gets a file, too; it is never found again, and the next file replaces it.

    Args:
        path: the capture.
        id_: the value of the column `capture` in its rows.
        findings: whether to run the checker, too.
        keep: files that are about to be used, and must not be deleted to make room.
        progress: called with the number of bytes read.
        memory: the bytes of memory that DuckDB may use.

    Raises:
        CaptureError: the capture cannot be read.
    """
    folder, state = directory(), _state_of(path, id_)
    if (
        folder is None
        or state is None
        or not size_limit()
        or (state.is_growing and state.size < MIN_GROWING_CAPTURE_BYTES)
    ):
        return None
    final_file = folder / _name(path, id_, state.key, findings=findings)
    # A file that another process has just made may have findings; they must not be inserted twice.
    plain_file = _mark_as_used(folder / _name(path, id_, state.key, findings=False)) if findings else None
    try:
        _create_private_folder(folder)
        try:
            _create(final_file, plain_file, path, id_, state, findings=findings, progress=progress, memory=memory)
        except duckdb.Error:
            if plain_file is None:
                raise
            delete_file(plain_file)
            _create(final_file, None, path, id_, state, findings=findings, progress=progress, memory=memory)
    except (OSError, UnicodeError, duckdb.Error):
        return None
    _delete_obsolete(folder, path, id_, final_file)
    delete_least_used({final_file, *keep})
    return final_file


def content_matches_name(connection: duckdb.DuckDBPyConnection, name: str, file: Path) -> bool:
    """Whether the content of an attached file matches its name.

    Args:
        connection: the connection to which it is attached.
        name: the name under which it is attached, an identifier that needs no quotes.
        file: its path.
    """
    if not _has_exactly(connection, name, create_statements() + _CREATE_MADE_OF):
        return False
    rows = connection.execute(f"select key from {name}.made_of").fetchall()  # noqa: S608 - no part is untrusted
    return [digest_of(str(key).encode()) for (key,) in rows] == [_parts(file)[1]]


def _has_exactly(connection: duckdb.DuckDBPyConnection, name: str, statements: str) -> bool:
    """Whether an attached file has exactly the tables of these statements, and no views.

    A view and a generated column run their own SQL when they are read, and a default value when a row is inserted.
    """
    views = connection.execute("select count(*) from duckdb_views() where database_name = ? and not internal", [name])
    if views.fetchall() != [(0,)]:
        return False
    actual_tables = connection.execute(
        "select table_name, sql from duckdb_tables() where database_name = ?", [name]
    ).fetchall()
    return dict(actual_tables) == _tables_of(statements)


@cache
def _tables_of(statements: str) -> dict[str, str]:
    """The statements that create tables, by name, as DuckDB writes them."""
    with connect() as connection:
        connection.execute(statements)
        return dict(connection.execute("select table_name, sql from duckdb_tables()").fetchall())


def delete_file(file: Path) -> None:
    """Delete a file with wrong content."""
    try:
        file.unlink()
    except IsADirectoryError:
        shutil.rmtree(file, ignore_errors=True)
    except OSError:
        pass


def delete_damaged(files: Iterable[Path], error: Exception) -> bool:
    """Delete damaged files, if an error reports damage; return whether there were any.

    The text of the error may be untrusted, as with `error('…')` in SQL, so a file that can be read is not deleted.

    Args:
        files: the files that were in use.
        error: the error.
    """
    if _DAMAGE_MESSAGE.search(str(error)) is None:
        return False
    damaged_files = [file for file in files if not _is_sound(file)]
    for file in damaged_files:
        delete_file(file)
    return bool(damaged_files)


def _is_sound(file: Path) -> bool:
    """Whether every row of a file can be read."""
    try:
        with connect(memory_limit=memory_setting(MAX_DUCKDB_BYTES)) as connection:
            connection.execute(f"attach {sql_literal(file)} as looked_at (read_only)")
            tables = "select table_name from duckdb_tables() where database_name = 'looked_at'"
            for (table,) in connection.execute(tables).fetchall():
                connection.execute(f'select bit_xor(hash(one)) from looked_at."{table}" as one').fetchall()  # noqa: S608 - names of a checked file
    except (duckdb.Error, UnicodeError):
        return False
    return True


def delete_least_used(keep: Iterable[Path] = ()) -> None:
    """Delete the least recently used files until the others fit within the size limit."""
    folder = directory()
    if folder is None:
        return
    remove_abandoned_folders(folder, _UNFINISHED_PREFIX)
    kept_files, remaining_bytes = set(keep), size_limit()
    for size, file in _files(folder):
        remaining_bytes -= size
        if remaining_bytes < 0 and file not in kept_files:
            delete_file(file)


def delete_all() -> ClearedCache:
    """Empty the cache."""
    folder = directory()
    if folder is None:
        return ClearedCache(0, 0, 0)
    remove_abandoned_folders(folder, _UNFINISHED_PREFIX, 0)
    files = _files(folder)
    for _, file in files:
        delete_file(file)
    deleted_sizes = [size for size, file in files if not os.path.lexists(file)]
    return ClearedCache(len(deleted_sizes), sum(deleted_sizes), len(files) - len(deleted_sizes))


# ---- the identity of a file


def key_of(path: Path, id_: str) -> str | None:
    """Returns what the rows of a capture depend on, or None if its files cannot be examined or are being written."""
    state = _state_of(path, id_)
    return None if state is None or state.is_growing else state.key


def _state_of(path: Path, id_: str) -> _CaptureState | None:
    """Returns the current state of a capture, or None if its files cannot be examined."""
    files, size = [], 0
    try:
        segment_paths = segments(path)
        for segment in segment_paths:
            status = segment.stat()
            files.append([segment.name, status.st_size, status.st_mtime_ns, status.st_ino])
            size += status.st_size
        resolved_path = str(path.resolve())
    except OSError:
        return None
    is_growing = is_live(segment_paths[-1])
    parts = {
        "capture": id_,
        "path": resolved_path,
        "segments": files,
        "version": modules_hash(TABLE_MODULES),
        "storage": STORAGE_VERSION,
    }
    return _CaptureState(json.dumps(parts | {"is_growing": True} if is_growing else parts), is_growing, size)


def _name(path: Path, id_: str, key: str, *, findings: bool) -> str:
    return f"{owner_of(path, id_)}-{digest_of(key.encode())}{_FINDINGS_SUFFIX if findings else ''}{SUFFIX}"


def _parts(file: Path) -> tuple[str, str]:
    """The parts of a file's name: the capture, and the digest of its inputs."""
    owner, _, digest = file.name.removesuffix(SUFFIX).partition("-")
    return owner, digest.removesuffix(_FINDINGS_SUFFIX)


def _create(
    final_file: Path,
    plain_file: Path | None,
    path: Path,
    id_: str,
    state: _CaptureState,
    *,
    findings: bool,
    progress: Progress | None,
    memory: int,
) -> None:
    """Create a file in a private directory, then move it into place.

    Raises:
        OSError: for example, the disk is full.
        duckdb.Error: the same, or `plain_file` is not a valid cache file.
    """
    build_folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED_PREFIX, dir=final_file.parent))
    try:
        target = build_folder / f"made{SUFFIX}"
        if plain_file is not None:
            shutil.copyfile(plain_file, target)
        else:
            _load(target, path, id_, state.key, progress=progress, memory=memory)
        if findings:
            with _attach_new_file(target, memory) as connection, Loader(connection) as loader:
                loader.load_findings(path, id_)
        if not state.is_growing and key_of(path, id_) != state.key:
            raise BlockingIOError(f"{path} was written to meanwhile")
        target.chmod(0o600)
        target.replace(final_file)
    finally:
        shutil.rmtree(build_folder, ignore_errors=True)


def _load(target: Path, path: Path, id_: str, key: str, *, progress: Progress | None, memory: int) -> None:
    """Create a file with all rows except the findings."""
    with _attach_new_file(target, memory) as connection:
        connection.execute(create_statements())
        with Loader(connection) as loader:
            loader.load(path, id_, progress)
        connection.execute(_CREATE_MADE_OF)
        connection.execute("insert into made_of values (?, ?)", [key, id_])


@contextmanager
def _attach_new_file(target: Path, memory: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose default database is a file being created."""
    spill_folder = str(target.parent / "spilled")
    with connect(memory_limit=memory_setting(memory), temp_directory=spill_folder) as connection:
        connection.execute(f"attach {sql_literal(target)} as made ({_OPTIONS})")
        connection.execute("use made")
        yield connection
        connection.execute("use memory")
        connection.execute("detach made")


def memory_setting(memory: int) -> str:
    """A number of bytes in the format of a DuckDB setting."""
    return f"{memory // 1000}KB"


def sql_literal(file: Path | str) -> str:
    """A path or another text as an SQL literal, for places that do not allow a parameter."""
    return "'" + str(file).replace("'", "''") + "'"


# ---- the directory


def _create_private_folder(folder: Path) -> None:
    """Create the directory, which only the user may enter.

    Raises:
        OSError: it cannot be created, or belongs to another user.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not is_of_user(status):
        raise PermissionError(f"{folder} belongs to another user")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _check_header(file: Path) -> bool:
    """Return whether a file looks like a DuckDB file, and delete it if not; DuckDB checks the rest when it opens it."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
            status = os.fstat(stream.fileno())
            if not is_of_user(status):
                return False
            head = stream.read(12) if stat.S_ISREG(status.st_mode) else b""
    except IsADirectoryError:
        head = b""
    except OSError:
        return False
    if head[8:12] == b"DUCK":
        return True
    delete_file(file)
    return False


def _files(folder: Path) -> list[tuple[int, Path]]:
    """The files with their sizes, the most recently used first."""
    files = []
    for file in folder.glob(f"*{SUFFIX}"):
        if not _CACHE_FILE_NAME.fullmatch(file.name):
            continue
        with suppress(OSError):
            status = file.lstat()
            files.append((status.st_mtime_ns, status.st_size, file))
    return [(size, file) for _, size, file in sorted(files, reverse=True)]


def _delete_obsolete(folder: Path, path: Path, id_: str, newest: Path) -> None:
    """Delete obsolete files of the same capture: those for another state of it, or with less content."""
    for file in files_of(path, id_, folder):
        if file != newest:
            delete_file(file)


@contextmanager
def private_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A temporary private directory. Its name is chosen before it is created, as a signal may arrive right after that.

    Args:
        parent: the directory in which it is created.
        prefix: the prefix of its name.
    """
    folder = parent / f"{prefix}{os.urandom(8).hex()}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned_folders(folder: Path, prefix: str, min_age_s: float = ABANDONED_AFTER_S) -> None:
    """Remove the private directories that killed processes have left.

    Args:
        folder: the directory that contains them.
        prefix: the prefix of their names.
        min_age_s: the minimum age of a directory; a newer one may be in use.
    """
    for leftover in folder.glob(f"{prefix}*"):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime >= min_age_s:
                shutil.rmtree(leftover, ignore_errors=True)
