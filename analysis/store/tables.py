"""The tables for inserts: the values that come from Python, and the columns that SQL computes from them.

Rows wait in lists and go to DuckDB in batches: by the appender into a temporary table of just the given values, and
from there by one INSERT … SELECT, which turns nanoseconds into wall clock. Rows of many small captures share a batch.

Several batches form a transaction. A single one would hold every row twice until its end, as space freed inside a
transaction is not reused; one for each batch would first write much to the log.
"""

import re
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final

import duckdb

from analysis.store.values import CLOCKED

Row = tuple[Any, ...]

BATCH: Final = 20_000
"""The most waiting rows of one table."""
BATCH_BYTES: Final = 8 << 20
"""Bytes of frames among them."""
BATCHES: Final = 12
"""Of one transaction."""
ROW_BYTES: Final = BATCH_BYTES // BATCH
"""What a frame counts in addition to its bytes, so that one sum bounds both."""


def definition() -> str:
    """The statements that make the tables and say what their columns mean."""
    return (files(__package__) / "tables.sql").read_text("utf-8")


def creation() -> str:
    """The same without comments, which take ten times as long."""
    return "\n".join(re.findall(r"^create table .*?^\);$", definition(), re.MULTILINE | re.DOTALL))


# By table: the given values with their types, behind the id of the capture and its wall clock, and the columns that are
# computed from them. `clock(x)` stands for the wall clock at `x` nanoseconds after the capture opened.
_GIVEN: Final[dict[str, tuple[str, str]]] = {
    "frames": (
        """
        seq bigint, t_ns bigint, dir varchar, session integer, conn bigint, exchange bigint, unit varchar,
        event_id varchar, kind varchar, id varchar, method varchar, name varchar, code bigint, problem
        varchar, request bigint, is_json boolean, raw blob
        """,
        """
        * exclude (wall, is_json), clock(t_ns) as time, octet_length(raw) as size, case when is_json and
        json_valid(try(decode(raw))) then decode(raw) end as message
        """,
    ),
    "exchanges": (
        """
        session integer, request bigint, item integer, response bigint, id varchar, method varchar, name
        varchar, asked_by varchar, revision varchar, era varchar, outcome varchar, code bigint, error varchar,
        started_ns bigint, ended_ns bigint, stall_ns bigint, waiting_ns bigint, request_bytes bigint,
        response_bytes bigint, progress integer, cancelled_ns bigint, cancel_reason varchar, is_abandoned boolean,
        probable_answer bigint, probable_answer_id varchar, in_flight integer, chain integer, round integer,
        task varchar, exchange bigint
        """,
        """
        * exclude (wall, stall_ns, waiting_ns), clock(started_ns) as time, stall_ns / 1e6 as stall_ms,
        case when ended_ns is not null then greatest(0, ended_ns - started_ns) / 1e6 end as latency_ms,
        case when ended_ns is not null then waiting_ns / 1e6 end as waiting_ms,
        case when ended_ns is not null then greatest(0, ended_ns - started_ns - waiting_ns) / 1e6 end as server_ms
        """,
    ),
    "sessions": (
        """
        session integer, delimited varchar, transport varchar, era varchar, revision varchar, asked varchar,
        server varchar, server_version varchar, client varchar, client_version varchar, state varchar,
        observed_start boolean, opened_ns bigint, ready_ns bigint, last_ns bigint, frames bigint, requests
        bigint, client_capabilities varchar, server_capabilities varchar
        """,
        """
        * exclude (wall), clock(opened_ns) as opened
        """,
    ),
    "http_exchanges": (
        """
        exchange bigint, conn bigint, peer varchar, method varchar, target varchar, status integer, started_ns
        bigint, head_ns bigint, first_byte_ns bigint, ended_ns bigint, ended_by varchar, request_bytes bigint,
        response_bytes bigint, content_type varchar, session_id varchar, revision varchar, session integer,
        is_stream boolean, events bigint, resumes bigint, by_proxy boolean
        """,
        """
        * exclude (wall), clock(started_ns) as time
        """,
    ),
    "tools": (
        """
        session integer, name varchar, title varchar, definition varchar, bytes bigint, hash varchar, listed
        bigint, t_ns bigint
        """,
        """
        * exclude (wall), round(bytes / 4)::bigint as tokens_estimate, clock(t_ns) as time
        """,
    ),
    "stderr": (
        """
        seq bigint, t_ns bigint, line varchar, raw blob
        """,
        """
        * exclude (wall), clock(t_ns) as time
        """,
    ),
    "findings": (
        """
        rule varchar, "group" varchar, level varchar, blames varchar, session integer, frame bigint, item
        integer, related bigint[], method varchar, message varchar, pointer varchar, source varchar, t_ns
        bigint
        """,
        """
        * exclude (wall), clock(t_ns) as time
        """,
    ),
    "stalls": (
        """
        dir varchar, first bigint, last bigint, waited_ns bigint
        """,
        "",
    ),
    "captures": (
        """
        name varchar, path varchar, transport varchar, command varchar, upstream varchar, format integer,
        tool_version varchar, duration_ns bigint, observed_start boolean, host_pid bigint, host varchar,
        spawned_ns bigint, ended_ns bigint, ending varchar, exit_status integer, exit_signal varchar, is_live
        boolean, frames bigint, bytes bigint, sessions bigint, lost bigint, unjudged bigint, damage bigint,
        forgotten bigint
        """,
        """
        * exclude (wall), clock(0) as opened
        """,
    ),
}

NAMES: Final = tuple(name for name, (_, computed) in _GIVEN.items() if computed)
"""The tables."""

# A stall is recorded after the frames that it is about. If several match a frame, the last one to begin counts, so no
# table of stalls can make this more than a merge of two sorted lists.
_STALLED: Final = """
    update frames set waited_ns = found.waited_ns
    from (
        select frame.capture, frame.seq, stall.waited_ns
        from (select capture, dir, seq from frames where capture in (select capture from temp.new_stalls)) as frame
        asof join (
            select capture, dir, first, arg_max(last, waited_ns) as last, max(waited_ns) as waited_ns
            from temp.new_stalls group by all
        ) as stall
        on frame.capture = stall.capture and frame.dir = stall.dir and frame.seq >= stall.first
        where frame.seq <= stall.last
    ) as found
    where frames.capture = found.capture and frames.seq = found.seq
"""


_COUNTED: Final = {"session", "ready_ns", "last_ns", "frames", "requests"}
_SAID: Final = [name for part in _GIVEN["sessions"][0].split(",") if (name := part.split()[0]) not in _COUNTED]
# Of what is no count, the last row knows most.
_LAST: Final = ", ".join(f"arg_max({name}, last_ns) as {name}" for name in (*_SAID, "opened"))
_JOINED: Final = f"""
    create or replace temp table new_split as
    select
        capture, session, {_LAST},
        min(ready_ns) as ready_ns, max(last_ns) as last_ns, sum(frames) as frames, sum(requests) as requests
    from sessions group by all having count(*) > 1
"""  # noqa: S608 - names are ours
_REPLACED: Final = """
    delete from sessions where (capture, session) in (select (capture, session) from temp.new_split);
    insert into sessions by name select * from temp.new_split;
    drop table temp.new_split
"""


class Tables:
    """The tables of one connection while rows come."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """No row yet.

        Args:
            connection: where the tables are, in the schema in use; without a transaction, as one begins here.
        """
        connection.execute("begin")
        self._connection = connection
        self._made: set[str] = set()
        self._batches = 0
        """The number of uncommitted batches."""
        self.rows: dict[str, list[Row]] = {name: [] for name in _GIVEN}
        """Waiting rows, by table."""
        self.bytes = 0
        """The frame bytes that they hold; counted by the caller that adds rows."""
        self.split_sessions = False
        """Whether a session may have come in several rows, because it was forgotten in between."""

    @property
    def is_full(self) -> bool:
        """Whether it is time to flush."""
        return self.bytes > BATCH_BYTES or any(len(rows) >= BATCH for rows in self.rows.values())

    def flush(self) -> None:
        """Insert the waiting rows."""
        for name, rows in self.rows.items():
            if rows:
                self._insert(name, rows)
                rows.clear()
        self.bytes = 0
        self._batches += 1
        if self._batches == BATCHES:
            self._connection.execute("commit")
            self._connection.execute("begin")
            self._batches = 0

    def _insert(self, name: str, rows: list[Row]) -> None:
        given, computed = _GIVEN[name]
        if name not in self._made:
            self._connection.execute(f"create or replace temp table new_{name} (capture varchar, wall bigint, {given})")
            self._made.add(name)
        appender = self._connection.appender(f"temp.new_{name}")
        appender.append_rows(rows)
        appender.flush()
        del appender
        if computed:
            source = f"select {_clocked(computed)} from temp.new_{name}"  # noqa: S608 - all of it is ours
            self._connection.execute(f"insert into {name} by name {source}")
            self._connection.execute(f"truncate temp.new_{name}")

    def forget(self, capture: str) -> None:
        """Delete the rows of a capture again."""
        self.flush()
        for name in NAMES:
            self._connection.execute(f"delete from {name} where capture = ?", [capture])  # noqa: S608 - names are ours
        if "stalls" in self._made:
            self._connection.execute("delete from temp.new_stalls where capture = ?", [capture])

    def close(self) -> None:
        """Insert the waiting rows, and clean up everything else."""
        self.flush()
        if self.split_sessions:
            self._connection.execute(_JOINED)
            self._connection.execute(_REPLACED)
        if "stalls" in self._made:
            self._connection.execute(_STALLED)
        for name in self._made:
            self._connection.execute(f"drop table temp.new_{name}")
        self._made.clear()
        self._connection.execute("commit")

    def give_up(self) -> None:
        """Roll back after an error."""
        with suppress(duckdb.Error):
            self._connection.execute("rollback")


def _clocked(computed: str) -> str:
    return re.sub(
        r"clock\((\w+)\)", rf"case when \1 between 0 and {CLOCKED} then make_timestamp_ns(wall + \1) end", computed
    )
