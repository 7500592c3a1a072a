"""The tables and views of `query` as temporary views of a Spark session."""

import re
from typing import TYPE_CHECKING, Final

from analysis.store.columns import RENAMED, TABLES
from analysis.store.dialects import spark_views
from mcpproxy.spark.schema import ERRORS, schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREADABLE: Final = "unreadable"
"""The view's name for the source's table `errors`, because the view `errors` is about calls."""


def create(spark: "SparkSession", tables: "dict[str, DataFrame]") -> list[str]:
    """Create the tables, and every view that needs no other tables.

    Args:
        spark: the session.
        tables: the tables by name.

    Returns:
        The names of all tables and views that were created.
    """
    made = []
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
        made.append(name)
    left_out = set(TABLES) - set(tables)
    for name, text in spark_views().items():
        _, _, statement = text.partition("\n")  # the first line is about its rows
        if not left_out.intersection(re.findall(r"\w+", statement)):
            spark.sql(text)
            made.append(name)
    return made


def of_captures(spark: "SparkSession", path: str) -> "dict[str, DataFrame]":
    """All tables of the captures at a place.

    Args:
        spark: a session that knows the source.
        path: as for the source.
    """
    frames = {name: spark.read.format("mcpcap").option("table", name).load(path) for name in (*TABLES, ERRORS)}
    frames[UNREADABLE] = frames.pop(ERRORS)
    return frames


def of_data_set(spark: "SparkSession", path: str) -> "dict[str, DataFrame]":
    """All tables of a shipped data set. A set without findings gets no table `findings`: an empty one would look clean.

    Columns have their current names even in rows from files that were shipped with older names.

    Args:
        spark: the session.
        path: the data set, as Spark names it: `s3a://…` for S3.

    Raises:
        FileNotFoundError: there is no data set, or it is empty.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import coalesce
    from pyspark.sql.types import StructField, StructType

    frames: dict[str, DataFrame] = {}
    for name, table in TABLES.items():
        own = {"day", *(column.name for column in table.columns)}
        columns = StructType([field for field in schema(name) if field.name in own])
        former = {new: old for (of, old), new in RENAMED.items() if of == name}
        wanted = [*columns, *(StructField(old, columns[new].dataType) for new, old in former.items())]
        try:
            # Columns that a file of another version lacks are NULL, without reading the footers of all files first.
            read = spark.read.schema(StructType(wanted)).parquet(f"{path.rstrip('/')}/{name}")
            for new, old in former.items():
                read = read.withColumn(new, coalesce(new, old))
            frames[name] = read.drop(*former.values())
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            if name == "captures":
                raise FileNotFoundError(f"there is no data set in {path}: it has no folder captures") from error
            if name != "findings":
                frames[name] = spark.createDataFrame([], schema=columns)
    return frames
