"""Starts a small Spark that uses no network but loopback."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def started(master: str, **settings: str) -> "Iterator[SparkSession]":
    """Start a session; when the context ends, so does every process it started.

    Args:
        master: Spark's name for the cluster, such as `local[2]`.
        settings: more settings, with `_` for `.` in their names.
    """
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    with warnings.catch_warnings():
        # On import, pyspark warns that it does not know the newest pandas, which mcpproxy does not use.
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("mcpproxy tests")
    fixed = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
    }
    for name, value in {**fixed, **{name.replace("_", "."): value for name, value in settings.items()}}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
