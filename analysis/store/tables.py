"""The tables in DuckDB: the statements that make them from `columns`, and inserts.

Values that SQL does not compute come from Python, in the order of the columns.
`frames.message` is a generated column: stored beside `raw`, the same text would take as much again, in time and room.

Rows wait in lists and go to DuckDB in batches: by the appender into a temporary table of just the given values, and
from there by one INSERT … SELECT, which turns nanoseconds into wall clock. Rows of many small captures share a batch.

Several batches form a transaction. A single one would hold every row twice until its end, as space freed inside a
transaction is not reused; one for each batch would first write much to the log.
"""

import re
from collections.abc import Container, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

import duckdb

from analysis.store.columns import TABLES, Column, Computed, Generated, Given, Table
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


def creation() -> str:
    """The statements that make the tables, without comments, which take ten times as long."""
    return "".join(
        f"create table {name} ({', '.join(map(_declaration, table.columns))});\n" for name, table in TABLES.items()
    )


def _declaration(column: Column) -> str:
    if isinstance(column.source, Generated):
        return f"{_quoted(column)} {column.type} generated always as ({column.source.sql}) virtual"
    return f"{_quoted(column)} {column.type}{' not null' if column.null == 'not null' else ''}"


def comments(table: str, kind: str = "table") -> str:
    """The statements that say what a table and its columns mean.

    Args:
        table: one of `NAMES`.
        kind: `view` if a view has taken the place of the table.
    """
    described = [(f"{kind} {table}", TABLES[table].row)]
    described += [(f"column {table}.{_quoted(column)}", column.meaning) for column in TABLES[table].columns]
    return "".join(f"comment on {what} is {_literal(meaning)};\n" for what, meaning in described)


def definition() -> str:
    """The statements that make the tables and say what their columns mean."""
    return creation() + "".join(map(comments, NAMES))


def _quoted(column: Column) -> str:
    return f'"{column.name}"'  # some are keywords


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _given(table: Table) -> dict[str, str]:
    """The types of the values of a row from Python: name → type, in the order of the columns, without the capture."""
    values: dict[str, str] = {}
    for column in table.columns:
        if isinstance(column.source, Computed):
            if column.source.given is not None:
                name, type_ = column.source.given
                values[name] = type_
        elif isinstance(column.source, Given) and column.name != "capture":
            values[column.name] = "VARCHAR" if column.type == "JSON" else column.type
    return values


_STALLS: Final = {"dir": "VARCHAR", "first": "BIGINT", "last": "BIGINT", "waited_ns": "BIGINT"}
_GIVEN: Final = {name: _given(table) for name, table in TABLES.items()} | {"stalls": _STALLS}
_STORED: Final = {
    name: [column for column in table.columns if not isinstance(column.source, Generated)]
    for name, table in TABLES.items()
}
NAMES: Final = tuple(TABLES)
"""The tables."""


def copy_from(source: str, table: str) -> str:
    """The statement that copies the rows of a table.

    Args:
        source: what to select the rows from: a table or a query in parentheses, of ours.
        table: one of `NAMES`.
    """
    names = ", ".join(map(_quoted, _STORED[table]))
    return f"insert into {table} ({names}) select {names} from {source}"  # noqa: S608 - all of it is ours


def ordered(table: str, values: Mapping[str, object]) -> Row:
    """A row from its values by name, without the values at the beginning of every row of a capture.

    Rows of frames and exchanges are built as tuples, in the order of the columns: they come by the million.
    """
    return tuple([values[name] for name in _GIVEN[table]])


# A stall is recorded after the frames that it is about. If several match a frame, the last one to begin counts, so no
# table of stalls can make this more than a merge of two sorted lists.
_STALLED: Final = """
    update frames set stall_ns = found.waited_ns
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
_STATED: Final = [name for name in _GIVEN["sessions"] if name not in _COUNTED]
# For values that are not counts, the last row knows most.
_LAST: Final = ", ".join(f"arg_max({name}, last_ns) as {name}" for name in (*_STATED, "opened"))
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

    def __init__(self, connection: duckdb.DuckDBPyConnection, only: Container[str] | None = None) -> None:
        """No row yet.

        Args:
            connection: where the tables are, in the schema in use; without a transaction, as one begins here.
            only: the tables that get rows; None for all. Each costs some milliseconds, however few rows come.
        """
        connection.execute("begin")
        self._only = only
        self._connection = connection
        self._staged: set[str] = set()
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
                if self._only is None or (name if name in NAMES else "frames") in self._only:
                    self._insert(name, rows)
                rows.clear()
        self.bytes = 0
        self._batches += 1
        if self._batches == BATCHES:
            self._connection.execute("commit")
            self._connection.execute("begin")
            self._batches = 0

    def _insert(self, name: str, rows: list[Row]) -> None:
        if name not in self._staged:
            given = {"capture": "varchar", "wall": "bigint", **_GIVEN[name]}
            columns = ", ".join(f'"{column}" {type_}' for column, type_ in given.items())
            self._connection.execute(f"create or replace temp table new_{name} ({columns})")
            self._staged.add(name)
        appender = self._connection.appender(f"temp.new_{name}")
        appender.append_rows(rows)
        appender.flush()
        del appender
        if name in TABLES:
            try:
                self._connection.execute(_insertion(name))
            except duckdb.ConstraintException as error:
                # DuckDB computes generated columns here, and blames them if memory runs out.
                if "failed to allocate" in str(error):
                    raise duckdb.OutOfMemoryException(str(error)) from error
                raise
            self._connection.execute(f"truncate temp.new_{name}")

    def forget(self, capture: str) -> None:
        """Delete the rows of a capture again."""
        self.flush()
        for name in NAMES:
            self._connection.execute(f"delete from {name} where capture = ?", [capture])  # noqa: S608 - names are ours
        if "stalls" in self._staged:
            self._connection.execute("delete from temp.new_stalls where capture = ?", [capture])

    def close(self) -> None:
        """Insert the waiting rows, and clean up everything else."""
        self.flush()
        if self.split_sessions:
            self._connection.execute(_JOINED)
            self._connection.execute(_REPLACED)
        if "stalls" in self._staged:
            self._connection.execute(_STALLED)
        for name in self._staged:
            self._connection.execute(f"drop table temp.new_{name}")
        self._staged.clear()
        self._connection.execute("commit")

    def give_up(self) -> None:
        """Roll back after an error."""
        with suppress(duckdb.Error):
            self._connection.execute("rollback")


@cache
def _insertion(table: str) -> str:
    """The statement that moves waiting rows into a table, and computes the other columns."""
    columns = _STORED[table]
    names = ", ".join(map(_quoted, columns))
    cells = ", ".join(
        clocked(column.source.sql) if isinstance(column.source, Computed) else _quoted(column) for column in columns
    )
    return f"insert into {table} ({names}) select {cells} from temp.new_{table}"  # noqa: S608 - all of it is ours


def clocked(sql: str, wall: str = "wall") -> str:
    """SQL with each `clock(x)` written out.

    Args:
        sql: an expression, or a statement.
        wall: the expression for the wall clock at the opening of the capture, in nanoseconds since 1970.
    """
    return re.sub(
        r"clock\(([\w.]+)\)", rf"case when \1 between 0 and {CLOCKED} then make_timestamp_ns({wall} + \1) end", sql
    )
