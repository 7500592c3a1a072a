"""The Spark schemas of the tables."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from analysis.store.columns import TABLES as STORED

ERRORS_TABLE: Final = "errors"
"""The table of captures that cannot be read."""
TABLES: Final = (*STORED, ERRORS_TABLE)
ADDED_COLUMNS: Final = (("day", "DATE"), ("server", "VARCHAR"))
"""The columns that are added to each table, unless it already has them: the UTC day on which the capture was opened,
and the name of the captured server."""

_TYPES: Final[dict[str, DataType]] = {
    "BIGINT": LongType(),
    "BIGINT[]": ArrayType(LongType()),
    "BLOB": BinaryType(),
    "BOOLEAN": BooleanType(),
    "DATE": DateType(),
    "DOUBLE": DoubleType(),
    "INTEGER": IntegerType(),
    "TIMESTAMP": TimestampNTZType(),
    "VARCHAR": StringType(),
}
_ERRORS_COLUMNS: Final = (("path", "VARCHAR"), ("capture", "VARCHAR"), ("error", "VARCHAR"))


def columns(table: str) -> tuple[tuple[str, str], ...]:
    """The columns of a table, the added ones last, with their types as DuckDB writes them.

    Args:
        table: one of `TABLES`.
    """
    own_columns = (
        _ERRORS_COLUMNS
        if table == ERRORS_TABLE
        else [(column.name, column.portable) for column in STORED[table].columns]
    )
    names = {name for name, _ in own_columns}
    return (*own_columns, *(column for column in ADDED_COLUMNS if column[0] not in names))


def schema(table: str) -> StructType:
    """The Spark schema of a table.

    Args:
        table: one of `TABLES`.
    """
    return StructType([StructField(name, _TYPES[type_]) for name, type_ in columns(table)])
