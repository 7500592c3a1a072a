"""Compares rows of DuckDB and Spark.

Two cells are equal if they are the same, or floats within 1e-9 of each other (sums depend on the order of the rows). In
columns that a view rounds, a half may also be rounded differently, as DuckDB rounds the binary value and Spark its
decimal digits: there, a difference of one unit of the last digit is allowed, but counted.
"""

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import duckdb

from analysis.store.dialects import spark_views
from analysis.store.reference import view_texts
from analysis.store.tables import create_statements

CLOSE: Final = 1e-9
_DIGITS: Final = (("_ms", 3), ("share", 4), ("surprise", 1))
_LEVELS: Final = {"error": 1, "warning": 2}

Row = dict[str, Any]


def _last(cell: Any) -> Any:
    """A sort key that puts NULL last."""
    return (cell is None, cell)


def _of_two_captures(row: Row) -> Any:
    """The sort key of a message of two captures."""
    names = ("client_frame", "server_frame", "client_item", "server_item")
    return [_last(row["time"]), row["client_capture"], row["server_capture"], *[_last(row[name]) for name in names]]


ORDERS: Final[dict[str, Callable[[Row], Any]]] = {
    "both_sides": _of_two_captures,
    "error_rates": lambda row: [_last(row[c]) for c in ("minute", "server", "asked_by", "method", "name")],
    "errors": lambda row: [_last(row["time"]), row["capture"], row["request"] or row["response"]],
    "findings_by_rule": lambda row: [_LEVELS.get(row["level"], 3), -row["findings"], _last(row["server"]), row["rule"]],
    "flaky": lambda row: [-row["surprise"]],
    "id_mismatches": lambda row: [_last(row["time"]), row["capture"], row["frame"]],
    "latency": lambda row: [-row["calls"], *[_last(row[c]) for c in ("server", "asked_by", "method", "name")]],
    "latency_histogram": lambda row: [_last(row[c]) for c in ("server", "asked_by", "method", "name", "bucket")],
    "lifecycle_violations": lambda row: [_last(row["time"]), row["capture"], row["frame"], row["rule"]],
    "lost_between": _of_two_captures,
    "never_called": lambda row: [-row["definition_bytes"], _last(row["server"]), row["name"]],
    "session_times": lambda row: [_last(row["time"]), row["capture"], row["session"]],
    "slowest": lambda row: [-row["latency_ms"]],
    "sse_streams": lambda row: [_last(row["time"]), row["capture"], row["exchange"]],
    "startup": lambda row: [_last(row["time"]), row["capture"], row["session"]],
    "stderr_lines": lambda row: [_last(row["time"]), row["capture"], row["seq"]],
    "throughput": lambda row: [_last(row["second"]), row["capture"], row["at_s"]],
    "timeline": lambda row: [_last(row["time"]), row["capture"], row["frame"]],
    "tool_changes": lambda row: [_last(row["time"]), _last(row["server"]), row["name"]],
    "tool_costs": lambda row: [
        _last(row["definition_bytes"] and -row["definition_bytes"]),
        _last(row["server"]),
        row["name"],
    ],
    "turns": lambda row: [_last(row[c]) for c in ("time", "client", "client_session", "turn_id")],
    "unanswered": lambda row: [_last(row["time"]), row["capture"], row["request"]],
}
"""The sort key of each view, as far as its columns show it; `calls` has no order."""


class Comparison(NamedTuple):
    """The result of comparing a relation in both engines."""

    name: str
    duckdb: int
    """The number of its rows in DuckDB."""
    spark: int
    difference: str
    """The first difference; empty if all rows are equal and in the same order."""
    halves: int
    """The number of cells that differ by one unit of their last digit."""

    @property
    def is_equal(self) -> bool:
        return not self.difference


def plain(cell: Any) -> Any:
    """A value in a form that both engines share."""
    if isinstance(cell, bytearray | memoryview):
        return bytes(cell)
    if isinstance(cell, list | tuple):
        return [plain(one) for one in cell]
    if isinstance(cell, Decimal):
        return int(cell) if cell == int(cell) else float(cell)
    if isinstance(cell, dt.datetime):
        return cell.replace(tzinfo=None)
    return cell


def sorted_rows(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows in a fixed order that depends on floats last."""
    return sorted((tuple(plain(cell) for cell in row) for row in rows), key=_key)


def _key(row: tuple[Any, ...]) -> tuple[str, str]:
    exact = [cell for cell in row if not isinstance(cell, float)]
    return repr(exact), repr([round(cell, 2) for cell in row if isinstance(cell, float)])


def rows_of_duckdb(connection: duckdb.DuckDBPyConnection, name: str) -> list[tuple[Any, ...]]:
    """All rows of a relation, with times in microseconds and JSON as text."""
    return connection.execute(f"select {cells(connection, name)} from {name}").fetchall()


def cells(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    """A select list of a relation's columns, in types that Spark also has."""
    forms = {"TIMESTAMP_NS": "timestamp", "JSON": "varchar"}
    columns = connection.execute(f"describe {name}").fetchall()
    return ", ".join(f'"{column}"::{forms.get(type_, type_)} as "{column}"' for column, type_, *_ in columns)


def compared(connection: duckdb.DuckDBPyConnection, spark: Any, name: str) -> Comparison:
    """Compare a relation in both engines.

    Args:
        connection: DuckDB, with the relation.
        spark: a session with the relation.
        name: the relation's name.
    """
    expected = rows_of_duckdb(connection, name)
    frame = spark.sql(f"select * from {name}")
    columns = [column for column, *_ in connection.execute(f"describe {name}").fetchall()]
    got = frame.select(columns).collect() if set(frame.columns) != set(columns) else frame.collect()
    difference, halves = "", 0
    if len(got) != len(expected):
        difference = f"{len(expected)} rows became {len(got)}"
    for own, other in zip(sorted_rows(expected), sorted_rows(got), strict=False):
        for column, one, another in zip(columns, own, other, strict=True):
            is_equal, is_half = _same(column, one, another)
            halves += is_half
            if not is_equal:
                difference = difference or f"{column}: {one!r:.80} became {another!r:.80} in {own!r:.300}"
    if not difference and (key := ORDERS.get(name)):
        keys = [key(dict(zip(columns, map(plain, row), strict=True))) for row in got]
        if keys != sorted(keys):
            difference = "not in order"
    return Comparison(name, len(expected), len(got), difference, halves)


def _same(column: str, one: Any, another: Any) -> tuple[bool, bool]:
    """Whether two cells are equal, and whether they are so only because halves may be rounded either way."""
    if type(one) is float and isinstance(another, float | int) and not isinstance(another, bool):
        if math.isclose(one, another, rel_tol=CLOSE) or (math.isnan(one) and math.isnan(another)):
            return True, False
        unit = next((10.0**-digits for end, digits in _DIGITS if column.endswith(end)), 0.0)
        is_half = abs(one - another) <= unit * 1.001
        return is_half, is_half
    return one == another and (one is None) == (another is None), False


def views_over(folder: str) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables of a data set and the views over them."""
    connection = duckdb.connect()
    connection.execute(create_statements())
    for name, columns in _columns(connection).items():
        names = ", ".join(f'"{column}"' for column in columns)
        try:
            connection.execute(
                f"insert into {name} ({names}) select {names} from read_parquet("
                f"'{folder}/{name}/day=*/*.parquet', union_by_name = true, hive_partitioning = true)"
            )
        except duckdb.IOException:  # no capture has rows for this table
            continue
    for text in view_texts().values():
        connection.execute(text)
    return connection


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The stored columns of each table."""
    found: dict[str, list[str]] = {}
    for table, column in connection.execute(
        "select table_name, column_name from duckdb_columns() where not internal order by table_name, column_index"
    ).fetchall():
        if (table, column) != ("frames", "message"):
            found.setdefault(table, []).append(column)
    return found


def names() -> list[str]:
    """The names of all views."""
    return list(spark_views())
