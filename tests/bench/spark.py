"""Compares every table and view on Spark with DuckDB, over captures and over a data set of `ship`; or their costs.

    python -m tests.bench.spark --captures 1000
    python -m tests.bench.spark --cost [--captures 200] [--workers 1 --workers 2 --workers 4]

It needs the extra `spark` and Java 17. The captures are made at random, and the hostile ones of the corpus are among
them. It fails if a row differs. `--cost` measures instead what a capture and a frame cost: many small captures and a
few large ones, with so many workers on this machine, compared with `query`, which is DuckDB. Sessions are warm: the
start of Spark is not counted.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import analysis
from analysis.store.tables import TABLE_NAMES
from captures.listing import find_captures
from mcpproxy.cli import ship
from tests.bench.check import _record, repeated
from tests.bench.store import _copied
from tests.spark.compare import Comparison, compared, names, views_over
from tests.spark.mixed import hostile, mixed
from tests.spark.session import started

MASTER: Final = "local-cluster[2,1,1024]"
LARGE: Final = 8
LARGE_FRAMES: Final = 20_000
"""Frames in each of the `LARGE` large captures."""
TABLES: Final = ("exchanges", "findings")


def main() -> int:
    """Print the table of comparisons, or of costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cost", action="store_true", help="measure, and compare nothing")
    parser.add_argument("--workers", type=int, action="append", help="of --cost; as often as you like")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="mcpproxy-bench-"))
    try:
        if options.cost:
            return _cost(place, options.captures, options.seed, options.workers or [1, 2, 4])
        return _run(place, options.captures, options.seed)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(place: Path, count: int, seed: int) -> int:
    captures = mixed(place / "captures", count, seed)
    hostile(captures / "corpus")
    print(f"{len(find_captures(captures)):,} captures, copies and files that are none included; seed {seed}; {MASTER}")
    lake = place / "lake"
    ship.run(["--findings", "--unredacted", str(lake), str(captures)])
    bad = 0
    with started(MASTER) as spark:
        for told, results in (
            ("over captures, with the data source", over_captures(spark, captures)),
            ("over a data set", over_data_set(spark, lake)),
        ):
            print(
                f"\n{told}\n\n| view | rows in DuckDB | rows in Spark | equal | halves | s |\n|---|--:|--:|---|--:|--:|"
            )
            since = time.monotonic()
            for one in results:
                now = time.monotonic()
                equal = "yes" if one.is_equal else f"NO: {one.difference}"
                print(
                    f"| {one.name} | {one.duckdb:,} | {one.spark:,} | {equal} | {one.halves} | {now - since:.1f} |",
                    flush=True,
                )
                bad += not one.is_equal
                since = now
    return 1 if bad else 0


def over_captures(spark: Any, captures: Path) -> Iterator[Comparison]:
    """Compare each table and view over the captures."""
    from mcpproxy.spark import register, views

    register(spark)
    # Kept in a few pieces: a thousand tasks for each table of each view would measure the scheduler.
    views.create_all(
        spark, {name: table.coalesce(8).cache() for name, table in views.capture_tables(spark, str(captures)).items()}
    )
    with _quiet():
        connection = analysis.open(captures, findings=True)
    with connection:
        for name in (*TABLE_NAMES, *names()):
            yield compared(connection, spark, name)
    spark.catalog.clearCache()


def over_data_set(spark: Any, lake: Path) -> Iterator[Comparison]:
    """Compare each table and view over a data set."""
    from mcpproxy.spark import create_views

    create_views(spark, data_set=str(lake))
    with views_over(str(lake)) as connection:
        for name in (*TABLE_NAMES, *names()):
            yield compared(connection, spark, name)


def _cost(place: Path, count: int, seed: int, workers: list[int]) -> int:
    sets = {"small": mixed(place / "small", count, seed), "large": _large(place / "large")}
    told = "| captures | frames | table | on | s | ms a capture | µs a frame |\n|--:|--:|---|---|--:|--:|--:|"
    print(told, flush=True)
    sizes: dict[str, tuple[int, int]] = {}
    for name, folder in sets.items():
        with _quiet(), _no_cache(place), analysis.open(folder) as connection:
            (size,) = connection.execute("select count(*), sum(frames)::bigint from captures").fetchall()
        sizes[name] = size
        for table in TABLES:
            _tell(sizes[name], table, "DuckDB", _seconds(lambda: _with_duckdb(folder, table, place)))  # noqa: B023
    for number in workers:
        with started(f"local[{number}]") as spark:
            _with_spark(spark, sets["small"] / "host-0", "captures")
            for name, folder in sets.items():
                for table in TABLES:
                    took = _seconds(lambda: _with_spark(spark, folder, table))  # noqa: B023
                    _tell(sizes[name], table, f"{number} worker{'s' * (number > 1)}", took)
    return 0


def _large(folder: Path) -> Path:
    """Write a few large captures of real conversations; returns their folder."""
    folder.mkdir()
    one, *_ = asyncio.run(_record(folder.parent))
    first = folder / "0.mcpcap"
    repeated(one, LARGE_FRAMES, first)
    for number in range(1, LARGE):
        _copied(first, folder / f"{number}.mcpcap", number)
    return folder


def _with_duckdb(folder: Path, table: str, place: Path) -> None:
    """Load as the first `query` does: with one process per processor, and files in the cache."""
    with _quiet(), _no_cache(place), analysis.open(folder, findings=table == "findings") as connection:
        connection.execute(f"select count(*) from {table}").fetchall()


def _with_spark(spark: Any, folder: Path, table: str) -> None:
    from mcpproxy.spark import register

    register(spark)
    # All columns are read: a count alone would leave the batches to the worker.
    spark.read.format("mcpcap").option("table", table).load(str(folder)).write.format("noop").mode("overwrite").save()


@contextmanager
def _no_cache(place: Path) -> Iterator[None]:
    """Use an empty cache while the block runs."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(dir=place)
    try:
        yield
    finally:
        del os.environ["XDG_CACHE_HOME"]
        if before is not None:
            os.environ["XDG_CACHE_HOME"] = before


def _seconds(what: Callable[[], None]) -> float:
    start = time.monotonic()
    what()
    return time.monotonic() - start


def _quiet() -> "warnings.catch_warnings[None]":
    """Suppress warnings: some of the captures are damaged."""
    return warnings.catch_warnings(action="ignore")


def _tell(size: tuple[int, int], table: str, where: str, took: float) -> None:
    captures, frames = size
    print(
        f"| {captures:,} | {frames:,} | {table} | {where} | {took:.1f} | {1e3 * took / captures:.1f} "
        f"| {1e6 * took / frames:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
