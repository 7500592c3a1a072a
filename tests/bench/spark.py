"""Compares every table and view on Spark with DuckDB, over captures and over a data set of `ship`.

    python -m tests.bench.spark --captures 1000

It needs the extra `spark` and Java 17. The captures are made at random, and the hostile ones of the corpus are among
them. It fails if a row differs.
"""

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import analysis
from analysis.store.tables import NAMES
from captures.listing import find_captures
from mcpproxy.cli import ship
from tests.spark.compare import Compared, compared, names, views_over
from tests.spark.mixed import hostile, mixed
from tests.spark.session import started

MASTER = "local-cluster[2,1,1024]"


def main() -> int:
    """Print the table of what is equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="mcpproxy-bench-"))
    try:
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


def over_captures(spark: Any, captures: Path) -> Iterator[Compared]:
    """Each table and view, of the captures where they are."""
    from mcpproxy.spark import register, views

    register(spark)
    # Kept in few pieces: a thousand tasks for each table of each view would measure the scheduler.
    views.create(
        spark, {name: table.coalesce(8).cache() for name, table in views.of_captures(spark, str(captures)).items()}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connection = analysis.open(captures, findings=True)
    with connection:
        for name in (*NAMES, *names()):
            yield compared(connection, spark, name)
    spark.catalog.clearCache()


def over_data_set(spark: Any, lake: Path) -> Iterator[Compared]:
    """Each table and view, of a data set."""
    from mcpproxy.spark import create_views

    create_views(spark, data_set=str(lake))
    with views_over(str(lake)) as connection:
        for name in (*NAMES, *names()):
            yield compared(connection, spark, name)


if __name__ == "__main__":
    sys.exit(main())
