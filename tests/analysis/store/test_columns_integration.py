"""The columns in `columns` are those of the tables in every form; tests/spark checks Arrow and Spark."""

from pathlib import Path

import duckdb
import pytest

import analysis
from analysis.store.columns import TABLES, ComputedValue, GeneratedValue
from analysis.store.dialects import spark_tables
from analysis.store.open import Source
from analysis.store.reference import relations
from analysis.store.table_export import export
from analysis.store.tables import build_row, create_statements, definition_statements
from mcpproxy.report.sql_page import page
from tests.analysis.store.capture_writer import CaptureWriter

ID = "0" * 32
SPARK = {
    "BIGINT": "bigint",
    "BIGINT[]": "array<bigint>",
    "BLOB": "binary",
    "BOOLEAN": "boolean",
    "DOUBLE": "double",
    "INTEGER": "int",
    "TIMESTAMP": "timestamp_ntz",
    "VARCHAR": "string",
}
_COLUMNS = """
    select table_name, column_name, data_type, if(is_nullable, 'null', 'not null'), comment
    from duckdb_columns() where not internal order by table_oid, column_index
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture over HTTP with a row in every table; its server answers one request twice."""
    one = CaptureWriter(tmp_path_factory.mktemp("columns") / "all.mcpcap", "all", transport="http")
    one.record(1, "exchange", exchange=1, conn=1, stage="request", request={"method": "POST", "path": "/"})
    refused = {"request": {"method": "POST", "target": "/token"}, "response": {"status": 400, "headers": []}}
    one.record(1, "exchange", exchange=2, stage="end", **refused, oauth={"leg": "token", "error": "invalid_grant"})
    one.handshake(2)
    one.ask(20, 1, "tools/list")
    one.answer(21, 1, tools=[{"name": "search", "inputSchema": {"type": "object"}}])
    one.answer(22, 1, tools=[])
    one.record(23, "stderr", raw="starting", size=8)
    return one.close()


def portable(table: str) -> list[tuple[str, str]]:
    return [(column.name, column.portable) for column in TABLES[table].columns]


def test_the_tables_have_them_with_comments_only_where_asked() -> None:
    own = [(name, *column[:4]) for name, table in TABLES.items() for column in table.columns]
    with duckdb.connect() as connection:
        connection.execute(create_statements())
        assert connection.execute(_COLUMNS).fetchall() == [(*column[:4], None) for column in own]
    with duckdb.connect() as connection:
        connection.execute(definition_statements())
        assert connection.execute(_COLUMNS).fetchall() == own
        told = dict(connection.execute("select table_name, comment from duckdb_tables()").fetchall())
        assert told == {name: table.row for name, table in TABLES.items()}


def test_a_notebook_and_the_documentation_say_what_they_mean(capture: Path) -> None:
    own = {name: [(c.name, c.type, c.meaning) for c in table.columns] for name, table in TABLES.items()}
    found = {one.name: [tuple(column) for column in one.columns] for one in relations() if not one.is_view}
    assert found == own
    lines = set(page().splitlines())
    for columns in own.values():
        for name, type_, meaning in columns:
            assert f"| `{name}` | {type_.lower()} | {meaning.replace('|', chr(92) + '|')} |" in lines, name
    with analysis.open(capture) as connection:
        comments = connection.execute("select column_name, comment from duckdb_columns() where table_name = 'frames'")
        assert dict(comments.fetchall()) == {column.name: column.meaning for column in TABLES["frames"].columns}


def test_parquet_files_have_them(capture: Path, tmp_path: Path) -> None:
    files = {
        file.table: file.path for file in export([Source(capture, ID, None)], "parquet", tmp_path, findings=True).files
    }
    with duckdb.connect() as connection:
        for name in TABLES:
            described = connection.execute("describe from read_parquet(?)", [str(files[name])]).fetchall()
            assert [tuple(row[:2]) for row in described if row[0] != "day"] == portable(name), name


def test_spark_has_them() -> None:
    for name, text in spark_tables().items():
        cells = [line.strip().rstrip(",") for line in text.splitlines() if "cast(null" in line]
        assert cells == [f"cast(null as {SPARK[type_]}) as `{column}`" for column, type_ in portable(name)], name


def test_a_row_has_a_value_for_each_that_sql_does_not_make() -> None:
    for name, table in TABLES.items():
        sources = [(column.name, column.source) for column in table.columns[1:]]
        wanted = [
            source.given[0] if isinstance(source, ComputedValue) and source.given is not None else column
            for column, source in sources
            if not isinstance(source, GeneratedValue)
            and not (isinstance(source, ComputedValue) and source.given is None)
        ]
        assert list(build_row(name, {value: value for value in wanted})) == wanted, name
