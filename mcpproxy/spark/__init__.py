"""Captures on Apache Spark 4.1 or newer: a data source that reads captures in place, and the views of `query`.

    from mcpproxy.spark import create_views
    create_views(spark, captures="s3://bucket/captures")
    spark.sql("select * from latency").show()

It needs the extra `spark`, on the driver and on every worker.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make the format `mcpcap` known to a session, and let it push down filters on days, servers and captures.

    Args:
        spark: the session.
    """
    from mcpproxy.spark.source import CaptureSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(CaptureSource)


def create_views(
    spark: "SparkSession", *, captures: str | None = None, data_set: str | None = None, cached: bool = False
) -> list[str]:
    """Create the tables and views of `query` as temporary views, over captures or over a data set of `ship`.

    Over captures, the table of unreadable captures is called `unreadable`, because `errors` is a view about calls. In
    a data set without findings, the views about findings are left out.

    Args:
        spark: the session; `register` is not needed.
        captures: a capture, a folder, or the URL of an object store.
        data_set: the location of a data set of `ship`, as Spark names it: `s3a://…` for S3.
        cached: whether to keep the rows in the memory and on the disks of the workers. Otherwise each query reads the
            captures again for each table that it names.

    Returns:
        The names of all tables and views that were created. Temporary views with these names are replaced.

    Raises:
        TypeError: not exactly one of `captures` and `data_set` is given.
        FileNotFoundError: there is no data set.
    """
    from mcpproxy.spark import views

    if (captures is None) == (data_set is None):
        raise TypeError("create_views takes either captures=PLACE or data_set=PLACE")
    register(spark)
    tables = (
        views.capture_tables(spark, captures) if captures is not None else views.data_set_tables(spark, str(data_set))
    )
    return views.create_all(spark, {name: table.cache() if cached else table for name, table in tables.items()})
