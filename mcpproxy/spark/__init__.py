"""Captures on Apache Spark 4: a data source that reads them where they are, and the views of `query`.

    from mcpproxy.spark import register
    register(spark)
    spark.read.format("mcpcap").option("table", "exchanges").load("captures")

It needs the extra `spark`, on the driver and on every worker.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make the format `mcpcap` known to a session, and let it take filters on days, servers and captures.

    Args:
        spark: the session.
    """
    from mcpproxy.spark.source import CaptureSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(CaptureSource)
