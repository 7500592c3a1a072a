"""The data source yields the same rows as `query` for all captures, damaged ones included."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

import analysis
from analysis.store.batches import CaptureLoader
from analysis.store.columns import TABLES
from analysis.store.tables import TABLE_NAMES
from mcpproxy.shipping.bucket import Bucket
from tests.analysis.store.capture_writer import DAY, OPENED, CaptureWriter
from tests.harness import DEADLINE_S, wait_until
from tests.mcpproxy.shipping import s3
from tests.spark.compare import rows_of_duckdb, sorted_rows
from tests.spark.mixed import hostile

CALLS = 3000
"""The number of calls in each capture that is being read while its reader is killed."""
HOSTILE = ("two-segments*", "damaged", "demo", "header-lost", "http", "killed", "newer-format")


def table(spark: Any, name: str, place: object, **options: object) -> Any:
    return spark.read.format("mcpcap").options(table=name, **options).load(str(place))


def rows(frame: Any, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table without the columns that only Spark has."""
    return sorted_rows(frame.select([column.name for column in TABLES[name].columns]).collect())


@pytest.fixture(scope="module")
def captures(able: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = hostile(tmp_path_factory.mktemp("captures") / "all", HOSTILE)
    login = CaptureWriter(place / "login.mcpcap", "login", 77, transport="http")
    for number, kind in enumerate(("challenge", "token"), 1):
        heads = {"request": {"method": "POST", "target": "/"}, "response": {"status": 400 + number, "headers": []}}
        oauth = {"leg": kind, "error": "invalid_token\u202e", "expires_in": 60}
        login.record(number, "exchange", exchange=number, stage="end", **heads, oauth=oauth, tunnelled={"c2s": 7})
    login.close()
    return place


@pytest.fixture(scope="module")
def expected(captures: Path) -> dict[str, list[tuple[Any, ...]]]:
    with pytest.warns(UserWarning, match="cannot read|contain"), analysis.open(captures, findings=True) as connection:
        return {name: sorted_rows(rows_of_duckdb(connection, name)) for name in TABLE_NAMES}


def test_every_table_has_the_rows_of_query(spark: Any, captures: Path, expected: dict[str, Any]) -> None:
    for name in TABLE_NAMES:
        assert rows(table(spark, name, captures), name) == expected[name], name
        assert expected[name], name


def test_every_table_has_the_columns_of_query(spark: Any, captures: Path, tmp_path: Path) -> None:
    path = captures / "http.mcpcap"
    with CaptureLoader(tmp_path) as loaded, duckdb.connect() as connection:
        for name, of in TABLES.items():
            own = [(column.name, column.portable) for column in of.columns]
            added = [column for column in ("day", "server") if column not in dict(own)]
            assert table(spark, name, captures).columns == [*dict(own), *added], name
            batch = next(loaded.load_rows(path, "0" * 32, name), None)
            if batch is not None:
                connection.register("batch", batch)
                assert [row[:2] for row in connection.execute("describe batch").fetchall()] == own, name


def test_what_cannot_be_read_is_a_row_of_errors(spark: Any, captures: Path) -> None:
    told = {Path(row.path).name: row for row in table(spark, "errors", captures).collect()}
    assert set(told) == {"newer-format.mcpcap", "empty-too.mcpcap", r"noise\x1b[2J.mcpcap"}
    assert "a later version of mcpproxy wrote it" in told["newer-format.mcpcap"].error
    assert "it is empty" in told["empty-too.mcpcap"].error
    for row in told.values():
        assert row.error.isprintable()
        assert str(captures) in row.error
        assert (row.capture, row.day, row.server) == (None, None, None)


def test_one_capture_is_one_partition_with_all_its_segments(spark: Any, captures: Path) -> None:
    found = table(spark, "frames", captures / "two-segments.mcpcap")
    assert found.rdd.getNumPartitions() == 1
    with analysis.open(captures / "two-segments.mcpcap") as connection:
        assert rows(found, "frames") == sorted_rows(rows_of_duckdb(connection, "frames"))


def test_small_captures_share_a_partition(spark: Any, days: Path) -> None:
    assert table(spark, "sessions", days).rdd.getNumPartitions() == 1
    sizes = sorted(path.stat().st_size for path in days.iterdir())
    assert table(spark, "sessions", days, partitionBytes=sum(sizes[-2:])).rdd.getNumPartitions() in (4, 5)
    with pytest.raises(Exception, match="partitionBytes is a number of bytes, not few"):
        table(spark, "sessions", days, partitionBytes="few").collect()


def test_days_and_servers_are_those_of_the_captures(spark: Any, captures: Path) -> None:
    own = {row.capture: row for row in table(spark, "captures", captures).collect()}
    for row in own.values():
        assert row.day == (row.opened and row.opened.date())
    for row in table(spark, "frames", captures).collect():
        assert (row.day, row.server) == (own[row.capture].day, own[row.capture].server)


# ---- filters


@pytest.fixture(scope="module")
def days(able: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of three days with two servers, and one without a clock."""
    folder = tmp_path_factory.mktemp("days")
    for number in range(6):
        one = CaptureWriter(folder / f"{number}.mcpcap", f"s{number % 2}", number, OPENED + number // 2 * DAY)
        one.handshake()
        one.close()
    clockless = CaptureWriter(folder / "clockless.mcpcap", "s0", 9, wall_ns=2**63)
    clockless.handshake()
    clockless.close()
    return folder


def test_filters_start_no_task_for_other_captures(spark: Any, days: Path) -> None:
    found = table(spark, "sessions", days, partitionBytes=0)
    first = found.agg({"day": "min"}).collect()[0][0]
    assert isinstance(first, date)
    for condition, captures in (
        ("true", 7),
        (f"day = date '{first}'", 2),
        (f"day >= date '{first}' and day < date '{first}' + interval 2 days", 4),
        (f"day <= date '{first}' and server = 's1'", 1),
        ("day is null", 1),
        ("day is not null and server in ('s0', 'nobody')", 3),
        (f"capture in ('{3:032x}', '{4:032x}')", 2),
        ("server = 'nobody'", 0),
    ):
        chosen = found.where(condition).rdd
        assert chosen.count() == captures, condition
        assert chosen.getNumPartitions() == max(1, captures), condition


def test_filters_that_are_not_about_captures_are_left_to_spark(spark: Any, days: Path) -> None:
    found = table(spark, "sessions", days).where("server like 's%' and frames = 3 and (day is null or frames > 5)")
    assert [row.capture for row in found.collect()] == [f"{9:032x}"]


# ---- places


def test_all_of_it_is_read_from_an_object_store(
    spark: Any, store: int | None, captures: Path, expected: dict[str, Any]
) -> None:
    if store is None:
        pytest.skip("moto's server is not installed")
    bucket = Bucket(f"s3://{s3.BUCKET}/raw")
    for path in captures.rglob("*.mcpcap"):
        if path.is_file():
            bucket.put(f"day=2026-11-18/{path.relative_to(captures)}".replace("\x1b", "-"), path)
    url = f"s3://{s3.BUCKET}/raw"
    for name in ("frames", "findings"):
        # If the header of a capture has no id, its id is derived from its location.
        got = sorted_rows(table(spark, name, url).drop("capture", "day", "server").collect())
        assert got == sorted_rows([row[1:] for row in expected[name]]), name
    told = {row.path: row.error for row in table(spark, "errors", url).collect()}
    assert len(told) == 3
    for path, error in told.items():
        assert path.startswith(f"{url}/day=2026-11-18/")
        assert path in error
    one = table(spark, "captures", f"{url}/day=2026-11-18/two-segments.mcpcap")
    assert [row.path for row in one.collect()] == [f"{url}/day=2026-11-18/two-segments.mcpcap"]
    assert one.collect()[0].frames == table(spark, "captures", captures / "two-segments.mcpcap").collect()[0].frames


def test_nothing_to_read_is_an_error(spark: Any, tmp_path: Path) -> None:
    for place, words in ((tmp_path, "no captures in"), (tmp_path / "nowhere", "it does not exist")):
        with pytest.raises(Exception, match=words):
            table(spark, "captures", place).collect()
    for scheme in ("s3a", "hdfs"):
        with pytest.raises(Exception, match=f"not in {scheme}://"):
            table(spark, "captures", f"{scheme}://bucket/captures").collect()
    with pytest.raises(Exception, match="there is no table nope; there are captures, sessions"):
        table(spark, "nope", tmp_path).collect()


def test_a_file_that_only_the_driver_sees_fails_the_task(days: Path, tmp_path: Path) -> None:
    from mcpproxy.spark.source import CaptureReader

    one = CaptureWriter(tmp_path / "one.mcpcap", "s", 1)
    one.handshake()
    one.close()
    for name in ("frames", "errors"):
        reader = CaptureReader(str(tmp_path), name)
        (partition,) = reader.partitions()
        (tmp_path / "one.mcpcap").rename(tmp_path / "elsewhere")
        with pytest.raises(Exception, match="the driver could, so it was deleted in the meantime"):
            list(reader.read(partition))
        (tmp_path / "elsewhere").rename(tmp_path / "one.mcpcap")


def test_another_state_of_a_capture_has_an_id_of_its_own(spark: Any, tmp_path: Path) -> None:
    for name, calls in (("small", 1), ("large", 3)):
        one = CaptureWriter(tmp_path / f"{name}.mcpcap", name, 1)
        for number in range(calls):
            one.call(number, number, "search")
        one.close()
    found = {row.server: row.capture for row in table(spark, "captures", tmp_path).collect()}
    assert found["large"] == f"{1:032x}"
    assert found["small"] not in ("", f"{1:032x}")


# ---- kills


def children(of: int) -> Iterator[int]:
    """All descendants of a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [of]
    for pid in found:
        found += parents.get(pid, [])
    yield from found[1:]


def workers() -> list[int]:
    """The Python processes of this Spark that read captures; the parent of each is a daemon."""
    found = []
    for pid in children(os.getpid()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            above = Path(f"/proc/{parent}/cmdline").read_bytes()
        except OSError:
            continue
        if b"tests.spark.daemon\0pyspark.worker\0" in words and b"tests.spark.daemon\0pyspark.worker\0" in above:
            found.append(pid)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc to find the workers in")
def test_a_worker_that_is_killed_changes_nothing(spark: Any, tmp_path: Path, scratch: Path) -> None:
    for number in range(6):
        one = CaptureWriter(tmp_path / f"{number}.mcpcap", "busy", number)
        for id_ in range(CALLS):
            one.call(id_, id_, "search")
        one.close()
    context, got = spark.sparkContext, []
    before = set(context.statusTracker().getJobIdsForGroup("killed"))

    def run() -> None:
        context.setJobGroup("killed", "killed")
        got.extend(table(spark, "frames", tmp_path).groupBy("capture").count().collect())

    thread = threading.Thread(target=run)
    thread.start()
    tracker = context.statusTracker()

    def failed() -> int:
        jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup("killed")) - before]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(stage.numFailedTasks for stage in stages if stage)

    # Each worker creates its own folder when it reads.
    wait_until(lambda: list(scratch.glob("mcpproxy-spark-*")) and workers(), "a worker that reads")
    for pid in workers():
        os.kill(pid, signal.SIGKILL)
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert failed() >= 1
    assert Counter({row.capture: row["count"] for row in got}) == {f"{number:032x}": CALLS for number in range(6)}
    for left in scratch.glob("mcpproxy-spark-*"):  # left by killed workers; others would remove it after an hour
        assert left.stat().st_mode & 0o077 == 0


def test_no_folder_is_left(spark: Any, days: Path, scratch: Path) -> None:
    before = set(scratch.glob("mcpproxy-spark-*"))
    assert table(spark, "errors", days).count() == 0
    assert set(scratch.glob("mcpproxy-spark-*")) <= before
