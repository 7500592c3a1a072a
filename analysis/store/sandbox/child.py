"""The sandbox's child process: a connection that has the captures and can reach nothing else.

`open.prepare` attaches and loads the captures. Then DuckDB's own settings lock the connection, and the kernel's limits
lock the process: no new descriptors, no writes to files, bounded memory and processor time. Without the settings, the
kernel's limits still keep every file unchanged and unread, and vice versa. The settings were attacked one by one, and
only these withstood, in this order.
"""

import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final, NoReturn

import duckdb
import orjson

from analysis.child_process import Parent
from analysis.store.connection import connect
from analysis.store.open import Source, prepare
from analysis.store.renamed import current_name, tables_in
from analysis.store.sandbox.protocol import MAX_ROW_BYTES, OVER_MEMORY_STATUS, Cells, Column, QueryError, encoders
from analysis.store.sandbox.read_only import refuse_changes

MAX_THREADS: Final = 4
MAX_BATCH_BYTES: Final = 256 << 10
"""The most bytes of rows in one message, unless a single row is larger."""
MAX_BATCH_ROWS: Final = 2048
"""The most rows in one message."""
MAX_ERROR_CHARS: Final = 4000
"""The most characters of an error; some repeat the statement."""
MAX_SUGGESTIONS: Final = 3
"""The most names that are suggested for an unknown one."""

_MAX_EXECUTION_MS: Final = 3_600_000
_DEFAULT_ADDRESS_SPACE: Final = 1 << 30
"""The address space of the process itself if the system does not report it; on Linux 800 MB, most of it unused."""
INTERRUPT_INTERVAL_S: Final = 0.02
"""The interval at which a query is interrupted until it stops."""
_PROGRESS_BYTES: Final = 1 << 20
"""The number of bytes between two messages about progress."""


def main() -> NoReturn:
    """Receive the sources, lock the process, and answer requests until stdin ends."""
    parent = Parent()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        child = SandboxedConnection(orjson.loads(parent.receive()), parent)
    except Exception as error:  # noqa: BLE001 - the parent must learn of any failure here
        parent.send(orjson.dumps({"error": _error_members(error)}))
        os._exit(1)
    child.serve()


class SandboxedConnection:
    """A locked connection, and the parent that sends it requests."""

    def __init__(self, setup: dict[str, Any], parent: Parent) -> None:
        """Attach and load the captures, then lock the connection and the process."""
        self._parent = parent
        self._memory: int = setup["memory"]
        self._watches_resident_memory: bool = setup["by_resident"]
        self._processor_s = int(setup["timeout_s"] * MAX_THREADS) + 10
        self._queries: SimpleQueue[str] = SimpleQueue()
        self._is_idle = Event()
        self._is_idle.set()
        self._reported_bytes = 0
        _lower_limit(resource.RLIMIT_CORE, 0)
        _lower_limit(resource.RLIMIT_FSIZE, 0)
        self._connection = connect(
            allow_community_extensions=False,
            allow_persistent_secrets=False,
            autoinstall_known_extensions=False,
            autoload_known_extensions=False,
            memory_limit=f"{self._memory // 1000}KB",
            python_enable_replacements=False,
            temp_directory="",
            threads=min(MAX_THREADS, os.cpu_count() or 1),
        )
        self._connection.execute("set timezone = 'UTC'")
        readable = [Source(_path(path), id_, database and _path(database)) for path, id_, database in setup["sources"]]
        refused = prepare(self._connection, readable, findings=setup["findings"], progress=self._report_progress)
        self._refused = [
            [os.fsencode(path).hex(), str(error).encode("utf-8", "backslashreplace").decode()]
            for path, error in refused
        ]
        self._relations = {str(name).lower() for name, _ in self._connection.execute(_SELECT_NAMES).fetchall()}
        _lock(self._connection)
        if self._watches_resident_memory:
            self._max_resident_bytes = _peak_resident_memory() + self._memory
        else:
            _lower_limit(resource.RLIMIT_AS, _address_space() + self._memory)
        # Open descriptors stay open, but there can be no new ones: no files, sockets or pipes.
        _lower_limit(resource.RLIMIT_NOFILE, 0)

    def serve(self) -> NoReturn:
        """Answer queries until stdin ends."""
        self._parent.listen(self._handle_request)
        if self._watches_resident_memory:
            Thread(target=self._watch_memory, daemon=True).start()
        self._reply({"ready": self._refused})
        while True:
            sql = self._queries.get()
            usage = resource.getrusage(resource.RUSAGE_SELF)
            _lower_limit(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + self._processor_s, for_good=False)
            try:
                self._answer_query(sql)
                reply: dict[str, Any] = {"done": True}
            except Exception as error:  # noqa: BLE001 - any exception that a statement causes is an answer
                reply = {"error": self._explain(error, sql)}
            # Before the reply: the parent may send the next request as soon as it has received that.
            self._is_idle.set()
            self._reply(reply)

    def _handle_request(self, message: bytes) -> None:
        """Handle a request while a query runs."""
        request = orjson.loads(message)
        if "sql" in request:
            self._is_idle.clear()
            self._queries.put(request["sql"])
            return
        # Repeatedly, because DuckDB ignores an interrupt that comes before a statement has begun.
        while not self._is_idle.wait(INTERRUPT_INTERVAL_S):
            self._connection.interrupt()

    def _reply(self, message: dict[str, Any]) -> None:
        self._parent.send(orjson.dumps(message))

    def _watch_memory(self) -> None:
        while _peak_resident_memory() <= self._max_resident_bytes:
            time.sleep(0.05)
        os._exit(OVER_MEMORY_STATUS)

    def _report_progress(self, done: int, total: int) -> None:
        if done - self._reported_bytes >= _PROGRESS_BYTES:
            self._reported_bytes = done
            self._reply({"progress": [done, total]})

    def _answer_query(self, sql: str) -> None:
        statements = self._connection.extract_statements(sql)
        if not statements:
            raise QueryError("empty", "there is no SQL to run")
        for statement in statements:
            # DuckDB refuses files, but would attach a second database in memory.
            if str(statement.type).endswith(".ATTACH"):
                raise QueryError("permission", "no database can be attached here")
        refuse_changes(statements, self._relations)
        for statement in statements[:-1]:
            self._connection.execute(statement)
        columns, cursor = self._run(statements[-1])
        self._reply({"columns": [list(column) for column in columns]})
        if columns:
            for batch in _batches(cursor, encoders(columns)):
                self._parent.send(b'{"rows":[' + b",".join(batch) + b"]}")

    def _run(self, statement: duckdb.Statement) -> tuple[list[Column], duckdb.DuckDBPyConnection]:
        """Start a statement; return its columns, and the object to fetch its rows from.

        Python's times have no nanoseconds, and times with a zone would need another package. A SELECT around the
        statement therefore turns such columns into text. Statements that cannot be nested run unchanged.
        """
        connection, text = self._connection, _without_trailer(statement.query)
        if str(statement.type).endswith(".SELECT"):
            try:
                columns = [Column(row[0], row[1]) for row in connection.execute(f"describe {text}").fetchall()]
                wrapped_statement = _wrapped(text, columns)
                if wrapped_statement is not None:
                    return columns, connection.execute(wrapped_statement)
            except duckdb.InterruptException:
                raise
            except duckdb.Error:
                # Run unchanged below, so that the error is about the statement itself.
                pass
        cursor = connection.execute(statement)
        return [Column(column[0], str(column[1])) for column in cursor.description or ()], cursor

    def _explain(self, error: Exception, sql: str) -> dict[str, Any]:
        """An error as a message; if a name was not found, with the names that were probably meant."""
        members = _error_members(error)
        missing = _MISSING_NAME.search(members["text"])
        if missing is None:
            return members
        column = missing["column"] or missing["listed"] or missing["member"] or missing["field"]
        qualifier, _, name = (column or missing["relation"]).lower().rpartition(".")
        owner = (missing["of"] or missing["whole"] or qualifier).lower()
        if column and (current := current_name(sql, name, owner)):
            text = (
                f'cannot run the query: no column "{name}" was found; in {current[0]} it is now called "{current[1]}"'
            )
            return members | {"text": text}
        return members | {"nearest": self._similar_names(name, sql if column else None, owner)}

    def _similar_names(self, name: str, sql: str | None, owner: str) -> list[str]:
        """The names in the captures' tables that resemble an unknown one; DuckDB's guesses favour its system tables.

        Args:
            name: the name that was not found.
            sql: for a column: the query, whose tables may have it.
            owner: the name or alias that the query gives for its table; empty if it gives none.
        """
        try:
            names = self._connection.execute(_SELECT_NAMES).fetchall()
        except (duckdb.Error, MemoryError):
            return []
        columns: dict[str, list[str]] = {}
        for table, column in names:
            columns.setdefault(str(table).lower(), []).append(str(column).lower())
        if sql is None:
            return get_close_matches(name, columns, MAX_SUGGESTIONS, 0.65)
        # A subquery has columns of the tables that it reads.
        owner_tables = tables_in(sql, columns, owner) or tables_in(sql, columns)
        candidates = dict.fromkeys(column for table in owner_tables for column in columns[table])
        return get_close_matches(name, candidates, MAX_SUGGESTIONS, 0.65)


_MISSING_NAME: Final = re.compile(
    r'Referenced (?:update )?column "?(?P<column>[^"\s]+)'
    r'|Column "(?P<listed>[^"]+)" (?:in \w+ list not found|does not exist on)'
    r'|(?:"(?P<of>[^"]+)" )?does not have a column (?:named|with name) "(?P<member>[^"]+)"'
    # If `captures` is joined, DuckDB mistakes the tables `frames` and `sessions` for its columns of the same names.
    r'|Cannot extract field \'(?P<field>[^\']+)\' from expression "(?P<whole>[^"]+)"'
    r'|(?:Table|View)(?: Function)? with name "?(?P<relation>[^"\s]+)'
)
_SELECT_NAMES: Final = """
select table_name, column_name from duckdb_columns() where not internal and database_name in ('memory', 'temp')
"""


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Lock the connection down. Order matters: each setting would be rejected after the next one."""
    # The parent's time limit is stricter. This one also counts the time in which no rows are fetched.
    connection.execute(f"set max_execution_time = {_MAX_EXECUTION_MS}")
    connection.execute("set enable_external_access = false")
    # An attached file stays on DuckDB's list of allowed files, and could be attached again for writing.
    connection.execute("set disabled_filesystems = 'LocalFileSystem'")
    connection.execute("set lock_configuration = true")


def _lower_limit(resource_id: int, limit: int, *, for_good: bool = True) -> None:
    """Lower a kernel limit, unless it is already lower."""
    hard_limit = resource.getrlimit(resource_id)[1]
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(limit, hard_limit)
    resource.setrlimit(resource_id, (limit, limit if for_good else hard_limit))


def _address_space() -> int:
    """The bytes of address space in use."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return _DEFAULT_ADDRESS_SPACE


def _peak_resident_memory() -> int:
    """The peak resident memory of this process, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def _without_trailer(text: str) -> str:
    """A statement without trailing comments and semicolons."""
    raw = text.encode()
    end = len(raw)
    for offset, kind in reversed(duckdb.tokenize(text)):
        if kind != duckdb.token_type.comment and raw[offset : offset + 1] != b";":
            break
        end = offset
    return raw[:end].decode()


def _wrapped(text: str, columns: list[Column]) -> str | None:
    """Returns a SELECT around a statement that turns times and nested values into text, or None if it has none."""
    casts = {"time": "{}::varchar", "json": "to_json({})::varchar"}
    names = [f"c{number}" for number in range(len(columns))]
    expressions = [
        name if column.type == "JSON" else casts.get(column.kind, "{}").format(name)
        for name, column in zip(names, columns, strict=True)
    ]
    if expressions == names:
        return None
    return f"select {', '.join(expressions)} from (\n{text}\n) as _answer({', '.join(names)})"  # noqa: S608 - untrusted by design


def _batches(cursor: duckdb.DuckDBPyConnection, converters: list[Callable[[Cells], Cells]]) -> Iterator[list[bytes]]:
    """The rows as JSON, in one list for each message; at most a little more than that is fetched at once."""
    count = 1
    while rows := cursor.fetchmany(count):
        batch: list[bytes] = []
        size = total = 0
        cells = [convert(column) for convert, column in zip(converters, zip(*rows, strict=True), strict=True)]
        for row in zip(*cells, strict=True):
            line = orjson.dumps(row)
            if len(line) > MAX_ROW_BYTES:
                problem = f"a row of more than {MAX_ROW_BYTES >> 20} MiB; take a part of it, as with left(text, 1000)"
                raise QueryError("row size", problem)
            if batch and size + len(line) > MAX_BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(line)
            size, total = size + len(line), total + len(line)
        yield batch
        count = max(1, min(MAX_BATCH_ROWS, MAX_BATCH_BYTES * len(rows) // total))


def _error_members(error: Exception) -> dict[str, Any]:
    """An error as a message."""
    if isinstance(error, QueryError):
        return {"kind": error.kind, "text": str(error)}
    name = "OutOfMemory" if isinstance(error, MemoryError) else type(error).__name__.removesuffix("Exception")
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    kind = {"out of memory": "memory", "interrupt": "interrupted"}.get(kind, kind)
    text = str(error)[:MAX_ERROR_CHARS]
    if isinstance(error, ValueError) and "StatementType" in text:
        # CONNECT: the library has no name for its kind, and refuses it before it runs.
        return {"kind": "permission", "text": "this kind of statement is not for queries"}
    return {"kind": kind, "text": text}


def _path(hex_path: str) -> Path:
    return Path(os.fsdecode(bytes.fromhex(hex_path)))
