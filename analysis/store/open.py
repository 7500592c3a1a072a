"""Opens captures as a database: finds the rows of each, and makes a connection that has them all.

There are two ways in. `open` is for the owner of the captures and notebooks: an unlocked connection. The sandbox
for untrusted SQL does the same in two steps: its parent calls `sources`, which fills caches and may write; its child
calls `prepare`, which only reads, and locks the connection afterwards.

Cache files are attached, and each table is a view over all of them; if there are very many, small ones are copied into
tables in memory, since each attached file adds some 3 ms to the planning of every query. Captures that are growing are
loaded again each time, and small ones are read where they are used, without a file.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from filecmp import cmp
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import duckdb

from analysis.cached import size_limit
from analysis.store import cache, cache_workers
from analysis.store.connection import connect
from analysis.store.load import Loader
from analysis.store.reference import COMMENTS, view_texts
from analysis.store.tables import TABLE_NAMES, comment_statements, copy_statement, create_statements
from captures.errors import CaptureError, NotACapture
from captures.identity import capture_id, path_id
from captures.listing import find_captures, first_segment, real_path, segment_number, segments, total_size
from captures.reader import Capture

Progress = Callable[[int, int], None]
"""Called with the number of bytes read and the total."""
PathLike = str | os.PathLike[str]
Used = TypeVar("Used")

MEMORY: Final = 2 << 30
"""Default number of bytes that making cache files may take."""
MAX_ATTACHED_SMALL_FILES: Final = 16
"""How many cache files are attached regardless of their size; if there are more, small ones are copied."""
SMALL: Final = 8 << 20
"""The most bytes of such a small file."""


class Source(NamedTuple):
    """Where the rows of one capture are."""

    path: Path
    """The capture."""
    id: str
    """The value of the column `capture` in its rows."""
    database: Path | None
    """The file to attach, read-only; None if the capture itself is read: it is small, or cannot be cached."""


class Sources(NamedTuple):
    """Where the rows of several captures are."""

    readable: list[Source]
    refused: list[tuple[Path, Exception]]
    """Captures that cannot be used, and why: not a capture, or a newer format."""
    doubles: list[str]
    """At most one line about copies, and one about near-copies, saying how they were handled."""


class CaptureState(NamedTuple):
    """A capture in one state; another state of the same capture counts as another one."""

    capture: Capture
    source: Source
    size: int
    """Bytes of all its segments."""


class Deduplicated(NamedTuple):
    """Some captures without their copies."""

    states: list[CaptureState]
    refused: list[tuple[Path, Exception]]
    doubles: list[str]
    """As in `Sources`."""


def open(  # noqa: A001 - callers write `analysis.open(…)`
    captures: PathLike | Iterable[PathLike], *, findings: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open captures as a database with the tables and views of `mcpproxy query`.

    The connection is a normal DuckDB connection: it can read and write files and load extensions. Do not run untrusted
    SQL on it.

    Args:
        captures: a capture, a directory with captures below it, or several of either.
        findings: whether to fill the table `findings`, which takes longer than all others.

    Returns:
        A connection to an in-memory database; close it, or use it with `with`.

    Raises:
        CaptureError: there is no capture.
    """
    given = [captures] if isinstance(captures, str | os.PathLike) else captures
    names = list(given)
    if not all(map(os.fspath, names)):
        raise NotACapture("cannot open captures: a name is empty")
    places = [Path(name) for name in names]
    paths = [capture for place in places for capture in _captures(place)]
    if not paths:
        empty = ", ".join(map(str, places))
        raise NotACapture(f"no captures in {empty}" if empty else "cannot open captures: none was given")
    connection, notices = with_sources(
        paths, lambda all_sources: _opened(all_sources, findings=findings), findings=findings
    )
    for line in notices:
        warnings.warn(line, stacklevel=2)
    return connection


def _opened(all_sources: Sources, *, findings: bool) -> tuple[duckdb.DuckDBPyConnection, list[str]]:
    """A connection with all sources, and the remarks about them."""
    if not all_sources.readable:
        raise all_sources.refused[0][1]
    connection = connect()
    gone = prepare(connection, all_sources.readable, findings=findings)
    _describe(connection)
    return connection, [*all_sources.doubles, *(str(error) for _, error in (*all_sources.refused, *gone))]


def with_sources(
    paths: Iterable[Path],
    use: Callable[[Sources], Used],
    *,
    findings: bool = False,
    progress: Progress | None = None,
    memory: int = MEMORY,
) -> Used:
    """Find the rows of captures, and return what `use` returns; repeat if a cache file turns out to be damaged.

    Args:
        paths: the captures.
        use: the function to run on them. Its earlier work is discarded if it is called a second time.
        findings: whether to fill the table `findings`.
        progress: called with the progress.
        memory: bytes for making cache files, in addition to what the processes that make them take.
    """
    given = list(paths)
    all_sources = sources(given, findings=findings, progress=progress, memory=memory)
    try:
        return use(all_sources)
    except (duckdb.Error, CaptureError) as error:
        if not delete_damaged(all_sources.readable, error):
            raise
    return use(sources(given, findings=findings, progress=progress, memory=memory))


def delete_damaged(readable: Iterable[Source], error: Exception) -> bool:
    """Delete damaged cache files, if an error reports damage; return whether there were any.

    Args:
        readable: the sources that were in use.
        error: what went wrong with them.
    """
    return cache.delete_damaged((source.database for source in readable if source.database is not None), error)


def size(paths: Iterable[Path]) -> int:
    """The total bytes of captures, counting each file once."""
    return total_size({file for path in paths for file in segments(real_path(path))})


def sources(
    paths: Iterable[Path], *, findings: bool = False, progress: Progress | None = None, memory: int = MEMORY
) -> Sources:
    """Find the rows of captures, load those missing from the cache, and return where they are.

    Args:
        paths: the captures. Duplicates and byte-for-byte copies are used once. A different capture with the same id
            gets a new one; the largest of them keeps it.
        findings: whether to fill the table `findings`.
        progress: called with the progress.
        memory: as in `with_sources`.
    """
    found = deduplicate(paths)
    sized = [(state.source, state.size) for state in found.states]
    refused = found.refused
    ready = _cached(sized, refused, findings=findings, progress=progress, memory=memory)
    return Sources(ready, refused, found.doubles)


def deduplicate(paths: Iterable[Path]) -> Deduplicated:
    """Separate captures from their copies, by reading headers and, only if two have the same id, whole files.

    Args:
        paths: as in `sources`.
    """
    # Rows, ids and remarks do not depend on the order of the captures.
    ordered = sorted((first_segment(real_path(path)), segment_number(path), path) for path in paths)
    captures: dict[Path, Capture] = {}
    refused: list[tuple[Path, Exception]] = []
    for place, _, path in ordered:
        if place not in captures:
            try:
                captures[place] = Capture(path)
            except CaptureError as error:
                refused.append((path, error))
    known: dict[str, list[Capture]] = {}
    copies: dict[str, list[Path]] = {}
    for capture in captures.values():
        id_ = capture_id(capture)
        states = known.setdefault(id_, [])
        if any(_is_copy(capture, state) for state in states):
            copies.setdefault(id_, []).append(capture.path)
        else:
            states.append(capture)
    taken = set(known)
    found = [state for id_, states in known.items() for state in _identified(id_, states, taken)]
    return Deduplicated(found, refused, [*_of_copies(known, copies), *_of_states(known)])


def _identified(id_: str, states: list[Capture], taken: set[str]) -> Iterator[CaptureState]:
    """The states of one capture with their sizes: the largest, which probably holds all of it, keeps its id."""
    sizes = [total_size(state.segments) for state in states]
    largest = sizes.index(max(sizes))
    for number, (state, size) in enumerate(zip(states, sizes, strict=True)):
        own = id_ if number == largest else path_id(state.path, taken)
        taken.add(own)
        yield CaptureState(state, Source(state.path, own, None), size)


def _is_copy(capture: Capture, other: Capture) -> bool:
    """Whether all files of two captures are the same, byte for byte."""
    files = list(zip(capture.segments, other.segments, strict=False))
    try:
        return len(capture.segments) == len(other.segments) and all(cmp(*pair, shallow=False) for pair in files)
    except OSError:
        return False


def _of_copies(known: dict[str, list[Capture]], copies: dict[str, list[Path]]) -> Iterator[str]:
    """At most one line, however many captures have copies."""
    count = sum(map(len, copies.values()))
    for id_, (copy, *_) in list(copies.items())[:1]:
        more = f" and {count - 1:,} more" if count > 1 else ""
        if len(copies) > 1:
            yield f"{count:,} files are copies of others, and count once: {copy}{more}"
        else:
            first = known[id_][0].path
            yield f"{count + 1:,} files hold the same capture, and one is counted: {first}, {copy}{more}"


def _of_states(known: dict[str, list[Capture]]) -> Iterator[str]:
    """At most one line, however many captures are present in several states."""
    several = [states for states in known.values() if len(states) > 1]
    count = sum(map(len, several))
    for states in several[:1]:
        subject = "one capture" if len(several) == 1 else f"{len(several):,} captures"
        more = f" and {count - 2:,} more" if count > 2 else ""
        files = f"{states[0].path}, {states[1].path}{more}"
        yield f"{count:,} files hold {subject} in different states, and what they share counts twice: {files}"


def _cached(
    sized: list[tuple[Source, int]],
    refused: list[tuple[Path, Exception]],
    *,
    findings: bool,
    progress: Progress | None,
    memory: int,
) -> list[Source]:
    """The same sources with their cache files; missing ones are made."""
    known = [
        state._replace(database=cache.find(state.path, state.id, findings=findings))
        if size >= cache.SMALLEST
        else state
        for state, size in sized
    ]
    missing = {
        state.id: size
        for state, size in sized
        if size >= cache.SMALLEST and state.id not in {has.id for has in known if has.database is not None}
    }
    keep = {state.database for state in known if state.database is not None}
    tasks = [cache_workers.Task(state.path, state.id, missing[state.id]) for state in known if state.id in missing]
    settled = _filled(tasks, keep, findings=findings, progress=progress, memory=memory)
    steps, duckdb_memory = _Steps(progress, sum(missing.values())), cache_workers.duckdb_memory(memory)
    steps.done(sum(state.task.size for state in settled.values()))
    readable: list[Source] = []
    for state in known:
        if state.id not in missing:
            readable.append(state)
            continue
        file = None
        try:
            if state.id in settled:
                file, refusal = settled[state.id].file, settled[state.id].refused
                if refusal is not None:
                    raise CaptureError(refusal)
            else:
                file = cache.store(
                    state.path, state.id, findings=findings, keep=keep, progress=steps.report, memory=duckdb_memory
                )
                steps.done(missing[state.id])
        except CaptureError as error:
            refused.append((state.path, error))
            continue
        if file is not None:
            keep.add(file)
        readable.append(state._replace(database=file))
    return readable


def _filled(
    tasks: list[cache_workers.Task], keep: set[Path], *, findings: bool, progress: Progress | None, memory: int
) -> dict[str, cache_workers.Result]:
    """Returns the missing files made by several processes, by id, or an empty dict if one process is as quick."""
    count, total = cache_workers.processes(tasks, memory), sum(task.size for task in tasks)
    if not count or not size_limit():
        return {}

    def report(read: int) -> None:
        if progress is not None:
            progress(min(read, total), total)

    duckdb_memory = cache_workers.duckdb_memory(memory, count)
    results = cache_workers.fill(tasks, count, findings=findings, keep=keep, report=report, memory=duckdb_memory)
    return {result.task.id: result for result in results}


def prepare(
    connection: duckdb.DuckDBPyConnection,
    readable: Iterable[Source],
    *,
    findings: bool = False,
    progress: Progress | None = None,
) -> list[tuple[Path, Exception]]:
    """Give a fresh connection the tables and views over all sources: attach, copy or load, whichever is quickest.

    It changes no file except to delete a broken one from the cache, and afterwards needs only the files of the sources,
    so that other access can be taken away.

    Args:
        connection: to a database in memory.
        readable: the sources of the rows.
        findings: whether to fill the table `findings`.
        progress: called with the progress.

    Returns:
        Captures that can no longer be read, and why.
    """
    connection.execute(create_statements())
    _create_views(connection)
    attached, copied, unattached = _sort_by_access(connection, list(readable))
    if attached and (copied or unattached):
        connection.execute("create schema rest")
        connection.execute("use memory.rest")
        connection.execute(create_statements())
    for name in copied:
        for table in _wanted(findings=findings):
            connection.execute(copy_statement(f"{name}.{table}", table))
        connection.execute(f"detach {name}")
    refused = _read(connection, unattached, findings=findings, progress=progress) if unattached else []
    connection.execute("use memory.main")
    if attached:
        names = [*attached, *(["memory.rest"] if copied or unattached else [])]
        _unite(connection, names, _wanted(findings=findings))
    return refused


def _wanted(*, findings: bool) -> list[str]:
    """The tables to fill: cache files may have findings that were not requested, for some captures only."""
    return [table for table in TABLE_NAMES if findings or table != "findings"]


def _create_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the views over the current tables, starting with those that others need."""
    # They find their tables by name, so the tables may be replaced later. Binding 19 views to 100 files would take two
    # seconds.
    left = [COMMENTS.sub("", text) for text in view_texts().values()]
    while left:
        after = []
        for text in left:
            try:
                connection.execute(text)
            except duckdb.CatalogException:
                if len(left) == 1:
                    raise
                after.append(text)
        if len(after) == len(left):
            connection.execute(left[0])  # raises the error
        left = after


def _sort_by_access(
    connection: duckdb.DuckDBPyConnection, readable: list[Source]
) -> tuple[list[str], list[str], list[Source]]:
    """Attach the cache files; return the names to keep attached, the names to be copied, and the sources to be read."""
    attached, copied, unattached = list[str](), list[str](), list[Source]()
    files = sorted(
        ((total_size([source.database]), source) for source in readable if source.database is not None), reverse=True
    )
    for number, (size, source) in enumerate(files, 1):
        assert source.database is not None
        name = f"cache_{number}"
        if not _attach(connection, name, source.database):
            unattached.append(source)
        elif number <= MAX_ATTACHED_SMALL_FILES or size > SMALL:
            attached.append(name)
        else:
            copied.append(name)
    return attached, copied, unattached + [source for source in readable if source.database is None]


def _attach(connection: duckdb.DuckDBPyConnection, name: str, file: Path) -> bool:
    """Attach a cache file, or delete it if its content is wrong; return whether it is attached."""
    try:
        connection.execute(f"attach {cache.quoted(file)} as {name} (read_only)")
    except (duckdb.Error, UnicodeError):
        cache.discard(file)
        return False
    try:
        if cache.fits(connection, name, file):
            return True
    except duckdb.Error:
        pass
    with suppress(duckdb.Error):
        connection.execute(f"detach {name}")
    cache.discard(file)
    return False


def _read(
    connection: duckdb.DuckDBPyConnection, readable: list[Source], *, findings: bool, progress: Progress | None
) -> list[tuple[Path, Exception]]:
    refused: list[tuple[Path, Exception]] = []
    # Looking for segments means reading the directory, which may hold a thousand captures.
    sizes = [total_size(segments(source.path)) if progress is not None else 0 for source in readable]
    steps = _Steps(progress, sum(sizes))
    with Loader(connection) as loader:
        for source, size in zip(readable, sizes, strict=True):
            try:
                loader.load(source.path, source.id, steps.report)
                if findings:
                    loader.load_findings(source.path, source.id)
            except CaptureError as error:
                refused.append((source.path, error))
            steps.done(size)
    return refused


def _unite(connection: duckdb.DuckDBPyConnection, names: list[str], tables: list[str]) -> None:
    """Replace tables by views over all attached files."""
    for table in tables:
        parts = " union all ".join(f"select * from {name}.{table}" for name in names)  # noqa: S608 - names are ours
        connection.execute(f"drop table {table}")
        connection.execute(f"create view {table} as {parts}")


def _describe(connection: duckdb.DuckDBPyConnection) -> None:
    """Add comments to tables, views and columns, for `describe` and other clients of the database."""
    views = {
        name for (name,) in connection.execute("select view_name from duckdb_views() where not internal").fetchall()
    }
    for table in TABLE_NAMES:
        connection.execute(comment_statements(table, "view" if table in views else "table"))
    for text in view_texts().values():
        connection.execute("\n".join(COMMENTS.findall(text)))


class _Steps:
    """Progress over several captures."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0

    def report(self, read: int) -> None:
        """Report how much of the current one has been read."""
        if self._progress is not None:
            self._progress(min(self._total, self._before + read), self._total)

    def done(self, size: int) -> None:
        """Finish the current one."""
        self._before += size
        self.report(0)


def _captures(path: Path) -> list[Path]:
    return find_captures(path) if path.is_dir() else [path]
