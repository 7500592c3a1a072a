"""The tables and views of `query` as temporary views of a Spark session."""

import re
from typing import TYPE_CHECKING, Final

from analysis.store.columns import RENAMED_COLUMNS, TABLES
from analysis.store.dialects import spark_views
from mcpproxy.spark.schema import ERRORS_TABLE, schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREADABLE_VIEW: Final = "unreadable"
"""The name of the view on the source's table `errors`, because the view `errors` is about calls."""


def create_all(spark: "SparkSession", tables: "dict[str, DataFrame]") -> list[str]:
    """Create the tables, and every view that needs no other tables.

    Args:
        spark: the session.
        tables: the tables by name.

    Returns:
        The names of all tables and views that were created.
    """
    names = []
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
        names.append(name)
    missing_tables = set(TABLES) - set(tables)
    for name, text in spark_views().items():
        _, _, statement = text.partition("\n")  # the first line describes the rows
        if not missing_tables.intersection(re.findall(r"\w+", statement)):
            spark.sql(text)
            names.append(name)
    return names


def capture_tables(spark: "SparkSession", path: str) -> "dict[str, DataFrame]":
    """All tables of the captures at a location.

    Args:
        spark: a session that knows the source.
        path: as for the source.
    """
    frames = {name: spark.read.format("mcpcap").option("table", name).load(path) for name in (*TABLES, ERRORS_TABLE)}
    frames[UNREADABLE_VIEW] = frames.pop(ERRORS_TABLE)
    return frames


def data_set_tables(spark: "SparkSession", path: str) -> "dict[str, DataFrame]":
    """All tables of a shipped data set.

    A set without findings gets no table `findings`, because an empty table would look as if no rule was broken.

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
        stored_names = {"day", *(column.name for column in table.columns)}
        columns = StructType([field for field in schema(name) if field.name in stored_names])
        old_names = {new: old for (renamed_table, old), new in RENAMED_COLUMNS.items() if renamed_table == name}
        read_fields = [*columns, *(StructField(old, columns[new].dataType) for new, old in old_names.items())]
        try:
            # With a schema, Spark need not read the footers of all files first: columns that a file lacks are NULL.
            frame = spark.read.schema(StructType(read_fields)).parquet(f"{path.rstrip('/')}/{name}")
            for new_name, old_name in old_names.items():
                frame = frame.withColumn(new_name, coalesce(new_name, old_name))
            frames[name] = frame.drop(*old_names.values())
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            if name == "captures":
                raise FileNotFoundError(f"there is no data set in {path}: it has no folder captures") from error
            if name != "findings":
                frames[name] = spark.createDataFrame([], schema=columns)
    return frames
