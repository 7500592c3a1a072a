"""Inserts rows into the tables.

Rows wait in lists and go to DuckDB in batches, as Arrow columns. An INSERT … SELECT computes the values that SQL
computes faster than Python, such as wall clocks. Rows of many small captures share a batch.

Several batches form a transaction. One transaction for all rows would keep every row twice until its end, because space
freed inside a transaction is not reused; one transaction for each batch would write much to the log first.
"""

from collections.abc import Container
from contextlib import suppress
from typing import Final

import duckdb

from analysis.store.arrow import ArrowBatch
from analysis.store.tables import LEADING_VALUE_TYPES, PYTHON_VALUE_TYPES, TABLE_NAMES, Row, insert_statement

MAX_WAITING_ROWS: Final = 20_000
"""The most waiting rows of one table."""
MAX_WAITING_BYTES: Final = 8 << 20
"""The most bytes of frames in waiting rows."""
BATCHES_PER_TRANSACTION: Final = 12
"""The number of batches in one transaction."""
ROW_BYTES: Final = MAX_WAITING_BYTES // MAX_WAITING_ROWS
"""The bytes that are added to those of each frame, so that one sum bounds both the bytes and the number of rows."""

_BATCH_NAME: Final = "waiting"
"""The name under which a batch is scanned."""
_TYPES: Final = {name: LEADING_VALUE_TYPES | types for name, types in PYTHON_VALUE_TYPES.items()} | {
    "stalls": {"capture": "VARCHAR", "dir": "VARCHAR", "first": "BIGINT", "last": "BIGINT", "waited_ns": "BIGINT"}
}
"""The types of the values of a row, by table."""

# A stall is recorded after the frames that it delayed. If several stalls match a frame, the one that began last counts,
# so this is a merge of two sorted lists, regardless of which stalls there are.
_SET_STALLS: Final = """
    update frames set stall_ns = delayed.waited_ns
    from (
        select frame.capture, frame.seq, stall.waited_ns
        from (select capture, dir, seq from frames where capture in (select capture from temp.new_stalls)) as frame
        asof join (
            select capture, dir, first, arg_max(last, waited_ns) as last, max(waited_ns) as waited_ns
            from temp.new_stalls group by all
        ) as stall
        on frame.capture = stall.capture and frame.dir = stall.dir and frame.seq >= stall.first
        where frame.seq <= stall.last
    ) as delayed
    where frames.capture = delayed.capture and frames.seq = delayed.seq
"""


_COUNTED_COLUMNS: Final = {"session", "ready_ns", "last_ns", "frames", "requests"}
_UNCOUNTED_COLUMNS: Final = [name for name in PYTHON_VALUE_TYPES["sessions"] if name not in _COUNTED_COLUMNS]
# A value that is not a count comes from the last row, which is the most complete.
_LAST_VALUES: Final = ", ".join(f"arg_max({name}, last_ns) as {name}" for name in (*_UNCOUNTED_COLUMNS, "opened"))
_MERGE_SPLIT_SESSIONS: Final = f"""
    create or replace temp table new_split as
    select
        capture, session, {_LAST_VALUES},
        min(ready_ns) as ready_ns, max(last_ns) as last_ns, sum(frames) as frames, sum(requests) as requests
    from sessions group by all having count(*) > 1
"""  # noqa: S608 - no part is untrusted
_REPLACE_SPLIT_SESSIONS: Final = """
    delete from sessions where (capture, session) in (select (capture, session) from temp.new_split);
    insert into sessions by name select * from temp.new_split;
    drop table temp.new_split
"""


class TableWriter:
    """The tables of one connection while rows are added to them."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, only: Container[str] | None = None) -> None:
        """Begin a transaction, with no waiting rows.

        Args:
            connection: a connection with the tables in the current schema and without an open transaction.
            only: the tables that get rows; None for all. Each costs some milliseconds, even for a single row.
        """
        self._only = only
        self._connection = connection
        self._batch = ArrowBatch()
        connection.register(_BATCH_NAME, self._batch)
        connection.execute("begin")
        self._has_stalls = False
        self._batches = 0
        """The number of uncommitted batches."""
        self.rows: dict[str, list[Row]] = {name: [] for name in _TYPES}
        """Waiting rows, by table."""
        self.bytes = 0
        """The bytes of the frames in them; the caller that adds rows counts these."""
        self.has_split_sessions = False
        """Whether a session may have several rows, because it was forgotten in between."""

    @property
    def is_full(self) -> bool:
        """Whether it is time to flush."""
        return self.bytes > MAX_WAITING_BYTES or any(len(rows) >= MAX_WAITING_ROWS for rows in self.rows.values())

    def flush(self) -> None:
        """Insert the waiting rows."""
        for name, rows in self.rows.items():
            if rows:
                if self._only is None or (name if name in TABLE_NAMES else "frames") in self._only:
                    self._insert(name, rows)
                rows.clear()
        self.bytes = 0
        self._batches += 1
        if self._batches == BATCHES_PER_TRANSACTION:
            self._connection.execute("commit")
            self._connection.execute("begin")
            self._batches = 0

    def _insert(self, name: str, rows: list[Row]) -> None:
        self._batch.fill(_TYPES[name], zip(*rows, strict=True))
        if name == "stalls":
            statement = (
                "insert into temp.new_stalls" if self._has_stalls else "create or replace temp table new_stalls as"
            )
            self._connection.execute(f"{statement} from temp.{_BATCH_NAME}")
            self._has_stalls = True
        else:
            try:
                self._connection.execute(insert_statement(name, f"temp.{_BATCH_NAME}"))
            except duckdb.ConstraintException as error:
                # DuckDB computes generated columns here, and blames them if memory runs out.
                if "failed to allocate" in str(error):
                    raise duckdb.OutOfMemoryException(str(error)) from error
                raise
        self._batch.clear()

    def delete_capture(self, capture: str) -> None:
        """Delete all rows of a capture."""
        self.flush()
        for name in TABLE_NAMES:
            self._connection.execute(f"delete from {name} where capture = ?", [capture])  # noqa: S608 - no part is untrusted
        if self._has_stalls:
            self._connection.execute("delete from temp.new_stalls where capture = ?", [capture])

    def close(self) -> None:
        """Insert the waiting rows, and clean up everything else."""
        self.flush()
        if self.has_split_sessions:
            self._connection.execute(_MERGE_SPLIT_SESSIONS)
            self._connection.execute(_REPLACE_SPLIT_SESSIONS)
        if self._has_stalls:
            self._connection.execute(_SET_STALLS)
            self._connection.execute("drop table temp.new_stalls")
        self._connection.execute("commit")
        self._connection.unregister(_BATCH_NAME)

    def roll_back(self) -> None:
        """Roll back after an error."""
        with suppress(duckdb.Error):
            self._connection.execute("rollback")
        with suppress(duckdb.Error):
            self._connection.unregister(_BATCH_NAME)
