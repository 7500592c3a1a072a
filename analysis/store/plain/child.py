"""The locked process in which DuckDB reads the plain part of a capture and writes its rows.

The statements are ours, and the capture is hostile: a fault in DuckDB's parser must not reach anything. The process has
no environment, opens the segments, the database, a directory for what does not fit into memory, and nothing else; then
DuckDB locks itself by its settings, and the kernel limits memory, processor time and descriptors.

It answers three requests, in this order: what the lines say; the rows, once the parent has judged the odd frames; the
end, before which the parent tells the rows of HTTP exchanges. Any failure ends it, and the parent then loads the
capture in the other way.
"""

import os
import resource
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NoReturn

import duckdb
import orjson

from analysis.child_process import take_pipes
from analysis.store.connection import connect
from analysis.store.plain.pipes import read, write
from analysis.store.sql_files import sql_of
from analysis.store.tables import clocked, creation

DESCRIPTORS: Final = 256
_OVERHEAD: Final = 1 << 30
"""Bytes of address space that the process takes by itself, and for lines being read."""


def main() -> NoReturn:
    """Serve the parent until it is done."""
    requests, answers = take_pipes()
    status = 1
    try:
        setup = read(requests)
        if setup is not None:
            connection = locked(setup)
            _limit_all(setup)
            serve(connection, requests, answers)
            status = 0
    except Exception as error:  # noqa: BLE001 - the parent must learn of any failure here
        # Not its text, which may cite the capture.
        write(answers, orjson.dumps({"failed": type(error).__name__}))
    os._exit(status)


def serve(connection: duckdb.DuckDBPyConnection, requests: int, answers: int) -> None:
    """Answer the parent's requests.

    Args:
        connection: a connection made by `locked`.
        requests: the descriptor to read from.
        answers: the one to write to.
    """
    connection.execute(_statements("messages"))
    write(answers, orjson.dumps({"read": True}))
    known = read(requests)
    if known is None:
        return
    _enter(connection, "odd", "seq bigint", [[seq] for seq in known["odd"]])
    connection.execute("delete from said where seq in (select seq from odd)")
    frames, escaped = _row(connection, "select count(*), sum(escaped) from said")
    left = [seq for (seq,) in connection.execute("select seq from said where not is_plain order by seq").fetchall()]
    too_many = len(left) > known["most"]
    write(answers, orjson.dumps({"frames": frames, "escaped": int(escaped or 0), "left": None if too_many else left}))
    judged = read(requests)
    if judged is None:
        return
    _enter(connection, "odd", None, [[seq] for seq in left])
    connection.execute("delete from said where not is_plain")
    _enter(connection, "said", None, judged["facts"])
    stalls = "first bigint, last bigint, waited_ns bigint, recorded bigint"
    _enter(connection, "stalled", stalls, judged["stalls"])
    _enter(connection, "failed", "exchange bigint, record bigint, is_refused boolean", judged["failed"])
    _enter(connection, "late", "seq bigint", [[seq] for seq in judged["late"]])
    _enter(connection, "unfinished", "exchange bigint", [[number] for number in judged["open"]])
    connection.execute("set variable gone = $1::bigint", [judged["gone"]])
    connection.execute(_statements("pairs"))
    doubts = connection.execute("select distinct why from doubt").fetchall()
    if doubts:
        write(answers, orjson.dumps({"failed": doubts[0][0]}))
        return
    _insert(connection, "exchanges", known["starts"])
    summary = _summary(connection)
    connection.execute(_statements("links"))
    _insert(connection, "frames", known["starts"])
    write(answers, orjson.dumps(summary | _written(connection)))
    if not _take_exchanges(connection, requests):
        return
    connection.execute("use memory")
    connection.execute("detach made")
    write(answers, orjson.dumps({"closed": True}))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, starts: list[int]) -> None:
    """Insert the rows of a table: those of one segment at a time, as joins over all would need more memory.

    Args:
        connection: a connection made by `locked`.
        table: its name, and that of the statement.
        starts: the number of the first record of each segment, and the number after the last record.
    """
    insertion = _statements(table)
    (segments,) = _row(connection, "select getvariable('segments')")
    for segment, since, until in zip(segments, starts[:-1], starts[1:], strict=True):
        connection.execute("set variable segment = $1::varchar", [segment])
        connection.execute("set variable since = $1::bigint", [since])
        connection.execute("set variable until = $1::bigint", [until])
        connection.execute(insertion)


def _take_exchanges(connection: duckdb.DuckDBPyConnection, requests: int) -> bool:
    """Insert the rows of HTTP exchanges; false if the parent has gone."""
    insertion = _statements("http_exchanges")
    while (told := read(requests)) is not None and "end" not in told:
        if "words" in told:
            columns = "method varchar, target varchar, status integer, ended_by varchar, content_type varchar"
            columns += ", session_id varchar, revision varchar, is_stream boolean, by_proxy boolean"
            _enter(connection, "words", f"word bigint, {columns}", told["words"])
            _enter(connection, "peers", "number bigint, peer varchar", told["peers"])
        else:
            connection.execute(insertion, told["numbers"])
    return told is not None


def locked(setup: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """A connection that has the new database file, and can open it, the capture, and nothing else."""
    database, spilled, *segments = (
        os.fsdecode(bytes.fromhex(name)) for name in (setup["database"], setup["spilled"], *setup["segments"])
    )
    connection = connect(
        allow_community_extensions=False,
        allow_persistent_secrets=False,
        autoinstall_known_extensions=False,
        autoload_known_extensions=False,
        memory_limit=f"{setup['memory'] // 1000}KB",
        python_enable_replacements=False,
        temp_directory=spilled,
        threads=setup["threads"],
    )
    connection.execute(f"attach {_quoted(database)} as made ({setup['options']})")
    connection.execute("use made")
    connection.execute(creation())
    connection.execute("use memory")
    for name in ("id", "wall", "first", "revision", "server_revision", "server_era", "used"):
        connection.execute(
            f"set variable {name} = $1::{'bigint' if name in ('wall', 'first') else 'varchar'}", [setup[name]]
        )
    connection.execute("set variable is_http = $1::boolean", [setup["is_http"]])
    connection.execute("set variable far = $1::bigint", [setup["far"]])
    connection.execute("set variable segments = $1::varchar[]", [segments])
    allowed = ", ".join(map(_quoted, (*segments, database, database + ".wal")))
    connection.execute(f"set allowed_paths = [{allowed}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _limit_all(setup: dict[str, Any]) -> None:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, DESCRIPTORS)
    _limit(resource.RLIMIT_CPU, setup["processor_s"])
    _limit(resource.RLIMIT_FSIZE, setup["largest"])
    if sys.platform != "darwin":  # it has no such limit, and DuckDB's own holds
        _limit(resource.RLIMIT_AS, _address_space() + _OVERHEAD + setup["memory"] * 2)


def _limit(which: int, limit: int) -> None:
    """Lower a kernel limit, unless it is already lower."""
    most = resource.getrlimit(which)[1]
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(which, (limit, limit))


def _address_space() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return _OVERHEAD


def _enter(connection: duckdb.DuckDBPyConnection, table: str, columns: str | None, rows: list[list[Any]]) -> None:
    """Add rows to a temporary table, which is made first if its columns are given."""
    if columns is not None:
        connection.execute(f"create temp table {table} ({columns})")
    if rows:
        appender = connection.appender(f"temp.{table}")
        appender.append_rows([tuple(row) for row in rows])
        appender.flush()
        del appender


_SUMMARY: Final = """
select
    (select count(*) from said), (select count(*) from asked),
    (select max(t_ns) from said), (select arg_max(t_ns, seq) from said)
"""
_LISTINGS: Final = """
select min(answer.seq) from asked join said as answer on answer.seq = asked.response
where asked.method = 'tools/list' and answer.outcome = 'result' and answer.listing is not null
group by answer.listing order by 1
"""
_WRITTEN: Final = "select count(*), coalesce(sum(size), 0) from made.frames"
_OF_ODD: Final = "select seq, request, name from link where seq in (select seq from odd)"


def _summary(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """What the parent has to know of the messages."""
    names = ("messages", "requests", "latest_ns", "last_ns")
    return {
        **dict(zip(names, map(_integer, _row(connection, _SUMMARY)), strict=True)),
        "listings": [seq for (seq,) in connection.execute(_LISTINGS).fetchall()],
    }


def _written(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """What the parent has to know of the rows of frames, and of odd frames, whose rows are still to be written."""
    return {
        **dict(zip(("frames", "bytes"), map(_integer, _row(connection, _WRITTEN)), strict=True)),
        "links": [list(row) for row in connection.execute(_OF_ODD).fetchall()],
    }


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _row(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    (row,) = connection.execute(sql).fetchall()
    return tuple(row)


def _statements(name: str) -> str:
    return clocked(sql_of(files(__package__) / f"{name}.sql"), "getvariable('wall')")


def _quoted(path: str | Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
