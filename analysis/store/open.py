"""Opens captures as a database: finds the rows of each, and creates a connection with all of them.

There are two entry points. `open`, for the owner of the captures and for notebooks, returns an unlocked connection. The
sandbox for untrusted SQL does the same in two steps: its parent calls `sources`, which fills caches and may write; its
child calls `prepare`, which only reads, and locks the connection afterwards.

Cache files are attached, and each table is a view over all of them; if there are very many, small ones are copied into
tables in memory, because each attached file adds some 3 ms to the planning of every query. Captures that are growing
are loaded again each time, and small ones are read directly, without a cache file.
"""

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
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

DEFAULT_MEMORY_BYTES: Final = 2 << 30
"""The default number of bytes of memory that creating cache files may take."""
MAX_ATTACHED_SMALL_FILES: Final = 16
"""How many cache files are attached regardless of their size; if there are more, small ones are copied."""
MAX_SMALL_FILE_BYTES: Final = 8 << 20
"""The most bytes of such a small file."""


class Source(NamedTuple):
    """The source of one capture's rows."""

    path: Path
    """The capture."""
    id: str
    """The value of the column `capture` in its rows."""
    database: Path | None
    """The file to attach, read-only; None if the capture itself is read: it is small, or cannot be cached."""


class Sources(NamedTuple):
    """The sources of several captures' rows."""

    readable: list[Source]
    refused: list[tuple[Path, Exception]]
    """Captures that cannot be used, and why: not a capture, or a newer format."""
    duplicate_notices: list[str]
    """At most one line about copies, and one about near-copies, saying how they were handled."""


class CaptureState(NamedTuple):
    """A capture in one state; another state of the same capture counts as another capture."""

    capture: Capture
    source: Source
    size: int
    """The total size of its segments, in bytes."""


class DeduplicatedCaptures(NamedTuple):
    """Captures without their copies."""

    states: list[CaptureState]
    refused: list[tuple[Path, Exception]]
    duplicate_notices: list[str]
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
    path_likes = [captures] if isinstance(captures, str | os.PathLike) else captures
    names = list(path_likes)
    if not all(map(os.fspath, names)):
        raise NotACapture("cannot open captures: a name is empty")
    roots = [Path(name) for name in names]
    paths = [capture for root in roots for capture in _captures(root)]
    if not paths:
        searched_paths = ", ".join(map(str, roots))
        raise NotACapture(
            f"no captures in {searched_paths}" if searched_paths else "cannot open captures: none was given"
        )
    connection, notices = use_sources(
        paths, lambda all_sources: _open_connection(all_sources, findings=findings), findings=findings
    )
    for line in notices:
        warnings.warn(line, stacklevel=2)
    return connection


def _open_connection(all_sources: Sources, *, findings: bool) -> tuple[duckdb.DuckDBPyConnection, list[str]]:
    """Returns a connection with all sources, and the notices about them."""
    if not all_sources.readable:
        raise all_sources.refused[0][1]
    connection = connect()
    unreadable = prepare(connection, all_sources.readable, findings=findings)
    _describe(connection)
    return connection, [
        *all_sources.duplicate_notices,
        *(str(error) for _, error in (*all_sources.refused, *unreadable)),
    ]


def use_sources(
    paths: Iterable[Path],
    use: Callable[[Sources], Used],
    *,
    findings: bool = False,
    progress: Progress | None = None,
    memory: int = DEFAULT_MEMORY_BYTES,
) -> Used:
    """Find the rows of captures, and return what `use` returns; repeat if a cache file turns out to be damaged.

    Args:
        paths: the captures.
        use: the function to call with the sources. If it is called a second time, its earlier work is discarded.
        findings: whether to fill the table `findings`.
        progress: called with the progress.
        memory: the bytes of memory for creating cache files, in addition to what the processes themselves need.
    """
    path_list = list(paths)
    all_sources = sources(path_list, findings=findings, progress=progress, memory=memory)
    try:
        return use(all_sources)
    except (duckdb.Error, CaptureError) as error:
        if not delete_damaged(all_sources.readable, error):
            raise
    return use(sources(path_list, findings=findings, progress=progress, memory=memory))


def delete_damaged(readable: Iterable[Source], error: Exception) -> bool:
    """Delete damaged cache files, if an error reports damage; return whether there were any.

    Args:
        readable: the sources that were in use.
        error: the error that occurred while they were in use.
    """
    return cache.delete_damaged((source.database for source in readable if source.database is not None), error)


def total_bytes(paths: Iterable[Path]) -> int:
    """The total bytes of captures, counting each file once."""
    return total_size({file for path in paths for file in segments(real_path(path))})


def sources(
    paths: Iterable[Path],
    *,
    findings: bool = False,
    progress: Progress | None = None,
    memory: int = DEFAULT_MEMORY_BYTES,
) -> Sources:
    """Find the rows of captures, load those missing from the cache, and return where they are.

    Args:
        paths: the captures. Duplicates and byte-for-byte copies are used once. If different captures have the same id,
            the largest keeps it, and the others get new ones.
        findings: whether to fill the table `findings`.
        progress: called with the progress.
        memory: as in `use_sources`.
    """
    deduplicated = deduplicate(paths)
    sized_sources = [(state.source, state.size) for state in deduplicated.states]
    refused = deduplicated.refused
    readable = _with_cache_files(sized_sources, refused, findings=findings, progress=progress, memory=memory)
    return Sources(readable, refused, deduplicated.duplicate_notices)


def deduplicate(paths: Iterable[Path]) -> DeduplicatedCaptures:
    """Separate captures from their copies, by reading headers and, only if two have the same id, whole files.

    Args:
        paths: as in `sources`.
    """
    # Sorted, so that rows, ids and notices do not depend on the order of the paths.
    ordered = sorted((first_segment(real_path(path)), segment_number(path), path) for path in paths)
    captures: dict[Path, Capture] = {}
    refused: list[tuple[Path, Exception]] = []
    for first_path, _, path in ordered:
        if first_path not in captures:
            try:
                captures[first_path] = Capture(path)
            except CaptureError as error:
                refused.append((path, error))
    states_by_id: dict[str, list[Capture]] = {}
    copies: dict[str, list[Path]] = {}
    for capture in captures.values():
        id_ = capture_id(capture)
        states = states_by_id.setdefault(id_, [])
        if any(_is_copy(capture, state) for state in states):
            copies.setdefault(id_, []).append(capture.path)
        else:
            states.append(capture)
    used_ids = set(states_by_id)
    all_states = [state for id_, states in states_by_id.items() for state in _states_with_ids(id_, states, used_ids)]
    return DeduplicatedCaptures(
        all_states, refused, [*_copy_notices(states_by_id, copies), *_state_notices(states_by_id)]
    )


def _states_with_ids(id_: str, states: list[Capture], used_ids: set[str]) -> Iterator[CaptureState]:
    """The states of one capture, each with an id: the largest, which is probably the most complete, keeps its own."""
    sizes = [total_size(state.segments) for state in states]
    largest = sizes.index(max(sizes))
    for index, (state, size) in enumerate(zip(states, sizes, strict=True)):
        own_id = id_ if index == largest else path_id(state.path, used_ids)
        used_ids.add(own_id)
        yield CaptureState(state, Source(state.path, own_id, None), size)


def _is_copy(capture: Capture, other: Capture) -> bool:
    """Whether all files of two captures are the same, byte for byte."""
    files = list(zip(capture.segments, other.segments, strict=False))
    try:
        return len(capture.segments) == len(other.segments) and all(cmp(*pair, shallow=False) for pair in files)
    except OSError:
        return False


def _copy_notices(states_by_id: dict[str, list[Capture]], copies: dict[str, list[Path]]) -> Iterator[str]:
    """Yields at most one line, regardless of how many captures have copies."""
    count = sum(map(len, copies.values()))
    for id_, (copy, *_) in list(copies.items())[:1]:
        more_text = f" and {count - 1:,} more" if count > 1 else ""
        if len(copies) > 1:
            yield f"{count:,} files are copies of others and count only once: {copy}{more_text}"
        else:
            first_path = states_by_id[id_][0].path
            files = f"{first_path}, {copy}{more_text}"
            yield f"{count + 1:,} files contain the same capture, which counts only once: {files}"


def _state_notices(states_by_id: dict[str, list[Capture]]) -> Iterator[str]:
    """Yields at most one line, regardless of how many captures are present in several states."""
    state_groups = [states for states in states_by_id.values() if len(states) > 1]
    count = sum(map(len, state_groups))
    for states in state_groups[:1]:
        subject = "one capture" if len(state_groups) == 1 else f"{len(state_groups):,} captures"
        more_text = f" and {count - 2:,} more" if count > 2 else ""
        files = f"{states[0].path}, {states[1].path}{more_text}"
        yield f"{count:,} files contain {subject} in different states, so the records they share count twice: {files}"


def _with_cache_files(
    sized_sources: list[tuple[Source, int]],
    refused: list[tuple[Path, Exception]],
    *,
    findings: bool,
    progress: Progress | None,
    memory: int,
) -> list[Source]:
    """Returns the sources with their cache files, and creates missing files."""
    cached_sources = [
        source._replace(database=cache.find_file(source.path, source.id, findings=findings))
        if size >= cache.MIN_CAPTURE_BYTES
        else source
        for source, size in sized_sources
    ]
    cached_ids = {source.id for source in cached_sources if source.database is not None}
    missing_sizes = {
        source.id: size
        for source, size in sized_sources
        if size >= cache.MIN_CAPTURE_BYTES and source.id not in cached_ids
    }
    keep = {source.database for source in cached_sources if source.database is not None}
    tasks = [
        cache_workers.Task(source.path, source.id, missing_sizes[source.id])
        for source in cached_sources
        if source.id in missing_sizes
    ]
    results = _create_in_parallel(tasks, keep, findings=findings, progress=progress, memory=memory)
    steps, duckdb_memory = _OverallProgress(progress, sum(missing_sizes.values())), cache_workers.duckdb_memory(memory)
    steps.finish_capture(sum(source.task.size for source in results.values()))
    readable: list[Source] = []
    for source in cached_sources:
        if source.id not in missing_sizes:
            readable.append(source)
            continue
        file = None
        try:
            if source.id in results:
                file, refusal = results[source.id].file, results[source.id].refusal
                if refusal is not None:
                    raise CaptureError(refusal)
            else:
                file = cache.create_file(
                    source.path, source.id, findings=findings, keep=keep, progress=steps.report, memory=duckdb_memory
                )
                steps.finish_capture(missing_sizes[source.id])
        except CaptureError as error:
            refused.append((source.path, error))
            continue
        if file is not None:
            keep.add(file)
        readable.append(source._replace(database=file))
    return readable


def _create_in_parallel(
    tasks: list[cache_workers.Task], keep: set[Path], *, findings: bool, progress: Progress | None, memory: int
) -> dict[str, cache_workers.Result]:
    """Create missing files with several processes; returns the results by id, or none if one process is as quick."""
    count, total = cache_workers.process_count(tasks, memory), sum(task.size for task in tasks)
    if not count or not size_limit():
        return {}

    def report(bytes_read: int) -> None:
        if progress is not None:
            progress(min(bytes_read, total), total)

    duckdb_memory = cache_workers.duckdb_memory(memory, count)
    results = cache_workers.create_files(
        tasks, count, findings=findings, keep=keep, report=report, memory=duckdb_memory
    )
    return {result.task.id: result for result in results}


def prepare(
    connection: duckdb.DuckDBPyConnection,
    readable: Iterable[Source],
    *,
    views: Collection[str] | None = None,
    findings: bool = False,
    progress: Progress | None = None,
) -> list[tuple[Path, Exception]]:
    """Give a fresh connection the tables and views over all sources: attach, copy or load, whichever is quickest.

    It changes no file, except that it deletes broken files from the cache. Afterwards, the connection needs only the
    files of the sources, so that all other access can be taken away.

    Args:
        connection: a connection to a database in memory.
        readable: the sources of the rows.
        views: the names of the views to create, with those that they need; None for all, which takes 50 ms of CPU time.
        findings: whether to fill the table `findings`.
        progress: called with the progress.

    Returns:
        Captures that can no longer be read, and why.
    """
    connection.execute(create_statements())
    _create_views(connection, views)
    attached_names, copied_names, unattached_sources = _attach_files(connection, list(readable))
    if attached_names and (copied_names or unattached_sources):
        connection.execute("create schema rest")
        connection.execute("use memory.rest")
        connection.execute(create_statements())
    for name in copied_names:
        for table in _tables_to_fill(findings=findings):
            connection.execute(copy_statement(f"{name}.{table}", table))
        connection.execute(f"detach {name}")
    refused = (
        _load_sources(connection, unattached_sources, findings=findings, progress=progress)
        if unattached_sources
        else []
    )
    connection.execute("use memory.main")
    if attached_names:
        names = [*attached_names, *(["memory.rest"] if copied_names or unattached_sources else [])]
        _unite(connection, names, _tables_to_fill(findings=findings))
    return refused


def _tables_to_fill(*, findings: bool) -> list[str]:
    """The tables to fill: cache files may have findings that were not requested, for some captures only."""
    return [table for table in TABLE_NAMES if findings or table != "findings"]


def _create_views(connection: duckdb.DuckDBPyConnection, names: Collection[str] | None) -> None:
    """Create views over the current tables, starting with those that others need.

    Args:
        connection: the connection.
        names: the names of the views; None for all.
    """
    # Views find their tables by name, so the tables may be replaced later. Binding 19 views to 100 files would take two
    # seconds.
    waiting_texts = [COMMENTS.sub("", text) for name, text in view_texts().items() if names is None or name in names]
    while waiting_texts:
        failed_texts = []
        for text in waiting_texts:
            try:
                connection.execute(text)
            except duckdb.CatalogException:
                if len(waiting_texts) == 1:
                    raise
                failed_texts.append(text)
        if len(failed_texts) == len(waiting_texts):
            connection.execute(waiting_texts[0])  # raises the error
        waiting_texts = failed_texts


def _attach_files(
    connection: duckdb.DuckDBPyConnection, readable: list[Source]
) -> tuple[list[str], list[str], list[Source]]:
    """Attach the cache files; return the names to keep attached, the names to be copied, and the sources to be read."""
    attached_names, copied_names, unattached_sources = list[str](), list[str](), list[Source]()
    files = sorted(
        ((total_size([source.database]), source) for source in readable if source.database is not None), reverse=True
    )
    for number, (size, source) in enumerate(files, 1):
        assert source.database is not None
        name = f"cache_{number}"
        if not _attach(connection, name, source.database):
            unattached_sources.append(source)
        elif number <= MAX_ATTACHED_SMALL_FILES or size > MAX_SMALL_FILE_BYTES:
            attached_names.append(name)
        else:
            copied_names.append(name)
    return attached_names, copied_names, unattached_sources + [source for source in readable if source.database is None]


def _attach(connection: duckdb.DuckDBPyConnection, name: str, file: Path) -> bool:
    """Attach a cache file, or delete it if its content is wrong; return whether it is attached."""
    try:
        connection.execute(f"attach {cache.sql_literal(file)} as {name} (read_only)")
    except (duckdb.Error, UnicodeError):
        cache.delete_file(file)
        return False
    try:
        if cache.content_matches_name(connection, name, file):
            return True
    except duckdb.Error:
        pass
    with suppress(duckdb.Error):
        connection.execute(f"detach {name}")
    cache.delete_file(file)
    return False


def _load_sources(
    connection: duckdb.DuckDBPyConnection, readable: list[Source], *, findings: bool, progress: Progress | None
) -> list[tuple[Path, Exception]]:
    refused: list[tuple[Path, Exception]] = []
    # Finding segments means reading the directory, which may contain a thousand captures.
    sizes = [total_size(segments(source.path)) if progress is not None else 0 for source in readable]
    steps = _OverallProgress(progress, sum(sizes))
    with Loader(connection) as loader:
        for source, size in zip(readable, sizes, strict=True):
            try:
                loader.load(source.path, source.id, steps.report)
                if findings:
                    loader.load_findings(source.path, source.id)
            except CaptureError as error:
                refused.append((source.path, error))
            steps.finish_capture(size)
    return refused


def _unite(connection: duckdb.DuckDBPyConnection, names: list[str], tables: list[str]) -> None:
    """Replace tables with views over all attached files."""
    for table in tables:
        parts = " union all ".join(f"select * from {name}.{table}" for name in names)  # noqa: S608 - no part is untrusted
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


class _OverallProgress:
    """Progress over several captures."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0

    def report(self, bytes_read: int) -> None:
        """Report how many bytes of the current capture have been read."""
        if self._progress is not None:
            self._progress(min(self._total, self._before + bytes_read), self._total)

    def finish_capture(self, size: int) -> None:
        """Finish the current capture."""
        self._before += size
        self.report(0)


def _captures(path: Path) -> list[Path]:
    return find_captures(path) if path.is_dir() else [path]
