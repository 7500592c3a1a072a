"""On Spark, every view has the rows that it has in DuckDB, over captures and over a data set."""

from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis.store.columns import TABLES
from analysis.store.dialects import spark_tables, spark_views
from analysis.store.tables import TABLE_NAMES
from mcpproxy.cli import ship
from tests.mcpproxy.shipping.data_set import written
from tests.mcpproxy.shipping.shipped_before import data_set
from tests.spark.compare import compared, names, views_over
from tests.spark.mixed import hostile, mixed

HOSTILE = ("demo", "http")
OVER_CAPTURES = ("calls", "findings_by_rule", "latency", "sse_streams", "startup", "stderr_lines", "tool_changes")
"""Views of various tables. All views are compared over a data set here, and over captures by tests.bench.spark."""
ZONED = ("error_rates", "throughput", "flaky")
"""Views that compute with times."""


@pytest.fixture(scope="module")
def captures(able: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = mixed(tmp_path_factory.mktemp("captures") / "all", 8)
    hostile(folder / "corpus", HOSTILE)
    return folder


@pytest.fixture(scope="module")
def lake(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lake") / "lake"
    ship.run(["--findings", "--unredacted", str(place), str(captures)])
    return place


def test_views_over_captures_have_the_rows_of_duckdb(spark: Any, captures: Path) -> None:
    from mcpproxy.spark import create_views

    made = create_views(spark, captures=str(captures), cached=True)
    assert set(made) == {*TABLE_NAMES, "unreadable", *names()}
    assert spark.table("unreadable").count() == 2
    with pytest.warns(UserWarning, match="cannot read|contain"), analysis.open(captures, findings=True) as connection:
        found = [compared(connection, spark, name) for name in OVER_CAPTURES]
    spark.catalog.clearCache()
    assert {one.name: one.difference for one in found if not one.is_equal} == {}
    assert [one.name for one in found if not one.spark] == [], "a view without a row proves little"


def test_views_over_a_data_set_have_the_rows_of_duckdb_whatever_the_zone(spark: Any, lake: Path) -> None:
    from mcpproxy.spark import create_views

    assert set(create_views(spark, data_set=str(lake))) == {*TABLE_NAMES, *names()}
    before = spark.conf.get("spark.sql.session.timeZone")
    with views_over(str(lake)) as connection:
        found = [compared(connection, spark, name) for name in names()]
        try:
            spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
            found += [compared(connection, spark, name) for name in ZONED]
        finally:
            spark.conf.set("spark.sql.session.timeZone", before)
    assert [(one.name, one.difference) for one in found if not one.is_equal] == []
    assert len({one.name for one in found if not one.spark}) <= 1, "a view without a row proves little"


def test_files_with_former_names_are_read_beside_others(spark: Any, tmp_path: Path) -> None:
    from mcpproxy.spark import create_views

    place = data_set(tmp_path / "lake")
    create_views(spark, data_set=str(place))
    assert spark.sql("select server, client_program from captures").collect() == [("before", "editor")]
    ship.run(["--findings", "--unredacted", str(place), str(written(tmp_path / "new", 1))])
    create_views(spark, data_set=str(place))
    captures = spark.sql("select server, client_program from captures order by server").collect()
    assert captures == [("before", "editor"), ("server-1", None)]
    sessions = spark.sql("select server_name, client_name from sessions").collect()
    assert sorted(sessions) == [("weather", "c"), ("weather", "c")]
    assert spark.sql("select stall_ns from frames where stall_ns > 0").collect() == [(4_000_000,)]
    assert spark.sql("select server, client, stalled_ms from session_times where stalled_ms > 0").collect() == [
        ("before", "c", 4.0)
    ]


def test_printed_sql_makes_them_without_python(spark: Any, lake: Path) -> None:
    from mcpproxy.spark.schema import schema

    for text in (*spark_tables().values(), *spark_views().values()):
        spark.sql(text)
    for name in TABLE_NAMES:
        own = {field.name: field.dataType for field in spark.table(name).schema}
        assert own == {field.name: field.dataType for field in schema(name) if field.name in own}, name
        assert [*own] == [column.name for column in TABLES[name].columns], name
        if (lake / name).is_dir():
            spark.sql(f"create or replace temporary view {name} using parquet options (path '{lake / name}')")
    with views_over(str(lake)) as connection:
        found = [compared(connection, spark, name) for name in ("latency", "findings_by_rule", "sse_streams")]
    assert {one.name: one.difference for one in found if not one.is_equal} == {}
    assert found[0].spark > 0


def test_views_about_findings_are_left_out_where_no_rule_ran(spark: Any, captures: Path, tmp_path: Path) -> None:
    from mcpproxy.spark import create_views

    ship.run(["--unredacted", str(tmp_path / "lake"), str(captures)])
    made = create_views(spark, data_set=str(tmp_path / "lake"))
    assert set(names()) - set(made) == {"findings_by_rule", "id_mismatches", "lifecycle_violations"}
    with pytest.raises(FileNotFoundError, match="there is no data set in"):
        create_views(spark, data_set=str(tmp_path))
    with pytest.raises(TypeError, match="either"):
        create_views(spark)
