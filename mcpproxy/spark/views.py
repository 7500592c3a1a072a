"""The tables and views of `query` as temporary views of a Spark session."""

import re
from typing import TYPE_CHECKING, Final

from analysis.store.dialects import spark_views
from analysis.store.tables import NAMES
from mcpproxy.spark.schema import ERRORS, TABLES, schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREADABLE: Final = "unreadable"
"""What the table `errors` of the source is called beside the view `errors`, which is about calls."""


def create(spark: "SparkSession", tables: "dict[str, DataFrame]") -> list[str]:
    """Make the tables and all views over them that they are enough for.

    Args:
        spark: the session.
        tables: the tables by name.

    Returns:
        The names of everything that was made.
    """
    made = []
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
        made.append(name)
    left_out = set(NAMES) - set(tables)
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
    frames = {name: spark.read.format("mcpcap").option("table", name).load(path) for name in TABLES}
    frames[UNREADABLE] = frames.pop(ERRORS)
    return frames


def of_data_set(spark: "SparkSession", path: str) -> "dict[str, DataFrame]":
    """All tables of a shipped data set. `findings` is left out if it has none: an empty table would look clean.

    Args:
        spark: the session.
        path: of the data set, as Spark names it: `s3a://…` for S3.

    Raises:
        FileNotFoundError: there is no data set, or it is empty.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    frames: dict[str, DataFrame] = {}
    for name in NAMES:
        columns = StructType([field for field in schema(name) if field.name != "server_name"])
        try:
            # Columns that a file of another version lacks are NULL, without reading the footers of all files first.
            frames[name] = spark.read.schema(columns).parquet(f"{path.rstrip('/')}/{name}")
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            if name == "captures":
                raise FileNotFoundError(f"there is no data set in {path}: it has no folder captures") from error
            if name != "findings":
                frames[name] = spark.createDataFrame([], schema=columns)
    return frames
