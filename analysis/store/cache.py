"""The cache: rows of closed captures, one DuckDB file each, in the user's cache directory.

It may be lost at any time and says nothing that the capture does not say. A file is made in a private folder beside and
renamed when it is whole, so nobody ever sees half of one; two runs that make the same one at a time make two, and the
last one stays. Its name tells of which capture it is, and holds a hash of all that its rows depend on: the files of the
capture with size and time, and every module that reads or understands them. It stands in the file as well.

Where there is no cache, because the disk is full or read-only or the user wants none, answers are the same, and slower.
A file that a bad disk has damaged is found out when the block is used: each has a checksum, and to look at all of them
beforehand would take as long as most queries do.
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
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from analysis.store.load import Loader, Progress
from analysis.store.tables import creation
from captures.file import is_live
from captures.listing import segments
from captures.ownership import is_of_user
from captures.places import cache_directory

STORAGE: Final = "v1.2.0"
"""The version of DuckDB's files: older ones can read them."""
BLOCK: Final = 16 << 10
"""Bytes: a capture of 50 frames takes 188 KiB, and 1.8 MiB with DuckDB's own 256 KiB."""
SMALLEST: Final = 128 << 10
"""Bytes of a capture. A smaller one is read in less time than its file in the cache is opened."""
MEMORY: Final = 512_000_000
"""Bytes that DuckDB holds of a file that is being made; the rest goes to the disk. Otherwise all rows would be held
until they are committed: a kilobyte for each frame."""
CAP: Final = 2 << 30
"""Bytes, unless MCPPROXY_CACHE_SIZE says otherwise."""
LEFT_S: Final = 3600
"""After which a folder in which a file was being made is what a killed process has left."""

_SUFFIX: Final = ".duckdb"
_WITH_FINDINGS: Final = "-findings"
_OURS: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}(-findings)?\.duckdb")
"""The folder may be a link to one that holds files of others."""
_MAKING: Final = ".making-"
_DAMAGED: Final = re.compile(r"Corrupt database file|Could not read")
"""What DuckDB says of a block that is not what was written, or that the disk does not give."""
_SIZE: Final = re.compile(r"(\d{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE)


class Freed(NamedTuple):
    """What was cleared away."""

    files: int
    bytes: int
    left: int
    """Files that could not be deleted."""


def directory() -> Path | None:
    """Where the files are; None where nothing names a home, or its name is no UTF-8: DuckDB opens no file there."""
    below = cache_directory()
    if below is None or not is_utf8(below):
        return None
    return Path(below, "sql")


def is_utf8(path: str | Path) -> bool:
    """Whether DuckDB can open files there."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def cap() -> int:
    """How many bytes the files may take together; 0 for no cache at all."""
    found = _SIZE.fullmatch(os.environ.get("MCPPROXY_CACHE_SIZE", "").strip())
    return CAP if found is None else int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[found[2].upper()]


def find(path: Path, id_: str, *, findings: bool = False) -> Path | None:
    """The file with the rows of a capture, where there is one; it counts as used now.

    Args:
        path: the capture.
        id_: what its rows have in the column `capture`.
        findings: whether it must hold the findings, too.
    """
    folder, key = directory(), key_of(path, id_)
    if folder is None or key is None or not cap():
        return None
    for is_full in (True, False)[: 1 if findings else 2]:
        found = _used(folder / _name(path, id_, key, findings=is_full))
        if found is not None:
            return found
    return None


def _used(file: Path) -> Path | None:
    """A file that counts as used now; None where there is none."""
    if not _looks_whole(file):
        return None
    with suppress(OSError):
        os.utime(file)
    return file


def store(
    path: Path,
    id_: str,
    *,
    findings: bool = False,
    keep: Iterable[Path] = (),
    progress: Progress | None = None,
    memory: int = MEMORY,
) -> Path | None:
    """Make the file with the rows of a capture; None where that cannot be.

    Args:
        path: the capture, which is not being recorded any more.
        id_: what its rows have in the column `capture`.
        findings: whether to run the checker, too.
        keep: files that are about to be used, and stay when room is made.
        progress: is told how far it is.
        memory: bytes that DuckDB may hold.

    Raises:
        CaptureError: the capture cannot be read.
    """
    folder, key = directory(), key_of(path, id_)
    if folder is None or key is None or not cap():
        return None
    whole = folder / _name(path, id_, key, findings=findings)
    # What somebody else has just made may have findings; they must not come twice.
    plain = _used(folder / _name(path, id_, key, findings=False)) if findings else None
    try:
        _make_private(folder)
        try:
            _make(whole, plain, path, id_, key, findings=findings, progress=progress, memory=memory)
        except duckdb.Error:
            if plain is None:
                raise
            discard(plain)
            _make(whole, None, path, id_, key, findings=findings, progress=progress, memory=memory)
    except (OSError, UnicodeError, duckdb.Error):
        return None
    _drop_older(folder, path, id_, whole)
    trim({whole, *keep})
    return whole


def fits(connection: duckdb.DuckDBPyConnection, name: str, file: Path) -> bool:
    """Whether an attached file is what its name says.

    Args:
        connection: to which it is attached.
        name: as what: an identifier of ours.
        file: its path.
    """
    # A view runs SQL of its own where it is read, and of ours none is in a file.
    views = connection.execute("select count(*) from duckdb_views() where database_name = ? and not internal", [name])
    if views.fetchall() != [(0,)]:
        return False
    rows = connection.execute(f"select key from {name}.made_of").fetchall()  # noqa: S608 - names are ours
    return [_digest(str(key).encode()) for (key,) in rows] == [_parts(file)[1]]


def discard(file: Path) -> None:
    """Throw a file away that is not what it should be."""
    try:
        file.unlink()
    except IsADirectoryError:
        shutil.rmtree(file, ignore_errors=True)
    except OSError:
        pass


def weed(files: Iterable[Path], error: Exception) -> bool:
    """Throw those away that are damaged, where an error says that one is; whether there were any.

    What the error says may come from anybody, as `error('…')` in SQL does. So nothing goes that can be read.

    Args:
        files: those that were in use.
        error: what went wrong.
    """
    if _DAMAGED.search(str(error)) is None:
        return False
    damaged = [file for file in files if not _is_sound(file)]
    for file in damaged:
        discard(file)
    return bool(damaged)


def _is_sound(file: Path) -> bool:
    """Whether every row can be read."""
    try:
        with duckdb.connect(config={"memory_limit": bytes_of(MEMORY)}) as connection:
            connection.execute(f"attach {quoted(file)} as looked_at (read_only)")
            tables = "select table_name from duckdb_tables() where database_name = 'looked_at'"
            for (table,) in connection.execute(tables).fetchall():
                connection.execute(f'select bit_xor(hash(one)) from looked_at."{table}" as one').fetchall()  # noqa: S608 - of a file of ours
    except (duckdb.Error, UnicodeError):
        return False
    return True


def trim(keep: Iterable[Path] = ()) -> None:
    """Make the files fit below the cap: those go first that were not used for longest."""
    folder = directory()
    if folder is None:
        return
    sweep(folder, _MAKING)
    kept, left = set(keep), cap()
    for size, file in _files(folder):
        left -= size
        if left < 0 and file not in kept:
            discard(file)


def clear() -> Freed:
    """Empty the cache."""
    folder = directory()
    if folder is None:
        return Freed(0, 0, 0)
    sweep(folder, _MAKING, 0)
    found = _files(folder)
    for _, file in found:
        discard(file)
    gone = [size for size, file in found if not os.path.lexists(file)]
    return Freed(len(gone), sum(gone), len(found) - len(gone))


# ---- what a file is made of


@cache
def version() -> str:
    """A hash of all that turns a capture into rows: the modules, the tables, the rules."""
    here = Path(__file__).parents[1]
    digest = blake2b(digest_size=16)
    for folder in (here.parent / "captures", here):
        for source in sorted((*folder.rglob("*.py"), *folder.rglob("tables.sql"), *folder.rglob("*.json"))):
            digest.update(str(source.relative_to(here.parent)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def key_of(path: Path, id_: str) -> str | None:
    """All that the rows of a capture depend on; None where its files cannot be looked at, or are being written."""
    files = []
    try:
        found = segments(path)
        for segment in found:
            status = segment.stat()
            files.append([segment.name, status.st_size, status.st_mtime_ns, status.st_ino])
        where = str(path.resolve())
    except OSError:
        return None
    if is_live(found[-1]):
        return None
    told = {"capture": id_, "path": where, "segments": files, "version": version(), "storage": STORAGE}
    return json.dumps(told)


def _name(path: Path, id_: str, key: str, *, findings: bool) -> str:
    return f"{_owner(path, id_)}-{_digest(key.encode())}{_WITH_FINDINGS if findings else ''}{_SUFFIX}"


def _owner(path: Path, id_: str) -> str:
    """Of which capture a file is, whatever its state."""
    return _digest(id_.encode() + os.fsencode(path.resolve()))[:16]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _parts(file: Path) -> tuple[str, str]:
    """Of what capture a file is by its name, and the digest of what it was made of."""
    owner, _, rest = file.name.removesuffix(_SUFFIX).partition("-")
    return owner, rest.removesuffix(_WITH_FINDINGS)


def _make(
    whole: Path,
    plain: Path | None,
    path: Path,
    id_: str,
    key: str,
    *,
    findings: bool,
    progress: Progress | None,
    memory: int,
) -> None:
    """Make a file beside its place, and put it there.

    Raises:
        OSError: the disk is full, say.
        duckdb.Error: the same, or `plain` is no file of ours.
    """
    making = Path(tempfile.mkdtemp(prefix=_MAKING, dir=whole.parent))
    try:
        made = making / f"made{_SUFFIX}"
        if plain is not None:
            shutil.copyfile(plain, made)
        spilled = str(making / "spilled")
        with duckdb.connect(config={"memory_limit": bytes_of(memory), "temp_directory": spilled}) as connection:
            connection.execute(
                f"attach {quoted(made)} as made (storage_version '{STORAGE}', block_size {BLOCK})",
            )
            connection.execute("use made")
            if plain is None:
                connection.execute(creation())
                connection.execute("create table made_of (key varchar)")
                connection.execute("insert into made_of values (?)", [key])
            with Loader(connection) as loader:
                if plain is None:
                    loader.load(path, id_, progress)
                if findings:
                    loader.load_findings(path, id_)
            connection.execute("use memory")
            connection.execute("detach made")
        if key_of(path, id_) != key:
            raise BlockingIOError(f"{path} was written to meanwhile")
        made.chmod(0o600)
        made.replace(whole)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def bytes_of(memory: int) -> str:
    """So many bytes as a setting of DuckDB has them."""
    return f"{memory // 1000}KB"


def quoted(file: Path) -> str:
    """A path as SQL has it where no parameter can stand."""
    return "'" + str(file).replace("'", "''") + "'"


# ---- the folder


def _make_private(folder: Path) -> None:
    """Make the folder, which only the user may enter.

    Raises:
        OSError: it cannot be made, or is not the user's.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not is_of_user(status):
        raise PermissionError(f"{folder} belongs to somebody else")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _looks_whole(file: Path) -> bool:
    """Whether it may be a file of DuckDB; to open it tells more, and is done when it is used."""
    try:
        # Opening a FIFO would wait until someone opens it to write.
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
            status = os.fstat(opened.fileno())
            if not is_of_user(status):
                return False
            head = opened.read(12) if stat.S_ISREG(status.st_mode) else b""
    except IsADirectoryError:
        head = b""
    except OSError:
        return False
    if head[8:12] == b"DUCK":
        return True
    discard(file)
    return False


def _files(folder: Path) -> list[tuple[int, Path]]:
    """The files with their sizes, the one used last first."""
    found = []
    for file in folder.glob(f"*{_SUFFIX}"):
        if not _OURS.fullmatch(file.name):
            continue
        with suppress(OSError):
            status = file.lstat()
            found.append((status.st_mtime_ns, status.st_size, file))
    return [(size, file) for _, size, file in sorted(found, reverse=True)]


def _drop_older(folder: Path, path: Path, id_: str, newest: Path) -> None:
    """A file of the same capture in another state, or with less in it, serves nobody any more."""
    for file in folder.glob(f"{_owner(path, id_)}-*{_SUFFIX}"):
        if file != newest:
            discard(file)


@contextmanager
def private_folder(place: Path, begun: str) -> Iterator[Path]:
    """A folder that is gone afterwards. Its name is known before it is made, as a signal may come right behind that.

    Args:
        place: in which it is made.
        begun: how its name begins.
    """
    folder = place / f"{begun}{os.urandom(8).hex()}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path, begun: str, older_s: float = LEFT_S) -> None:
    """Remove what killed processes have left.

    Args:
        folder: in which they were making something.
        begun: how the names of such private folders begin.
        older_s: those that are no older may be in use.
    """
    for left in folder.glob(f"{begun}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime >= older_s:
                shutil.rmtree(left, ignore_errors=True)
