"""The tables and views in the SQL of Spark.

Most views have one text, in the SQL that DuckDB and Spark share. If a view cannot be written that way, a variant in
`views/spark` replaces the text for Spark; the tests compare the rows of both, view by view.
"""

import re
from importlib.resources import files
from typing import Final

from analysis.store.columns import TABLES
from analysis.store.reference import COMMENTS, view_texts
from analysis.store.sql_files import sql_of

_CREATE_VIEW: Final = re.compile(r"^create view ", re.MULTILINE)
_AS_MATERIALIZED: Final = re.compile(r" as materialized \($", re.MULTILINE)
"""An instruction to DuckDB; Spark has none of that kind, and decides itself."""

_TYPES: Final = {
    "BIGINT": "bigint",
    "BIGINT[]": "array<bigint>",
    "BLOB": "binary",
    "BOOLEAN": "boolean",
    "DOUBLE": "double",
    "INTEGER": "int",
    "TIMESTAMP": "timestamp_ntz",
    "VARCHAR": "string",
}


def spark_tables() -> dict[str, str]:
    """The statements that create the tables in Spark as empty temporary views, by name, without semicolons.

    Spark looks up the sources of a view when it is queried, so users may replace these before or after they create the
    views.
    """
    texts = {}
    for name, table in TABLES.items():
        columns = table.columns
        expressions = ",\n    ".join(
            f"cast(null as {_TYPES[column.portable]}) as `{column.name}`" for column in columns
        )
        texts[name] = f"create or replace temporary view {name} as\nselect\n    {expressions}\nwhere false"
    return texts


def spark_views() -> dict[str, str]:
    """The statements that create the views in Spark, by name, without semicolons, in the order in which to run them.

    They create temporary views over tables or views that have the names of the tables in `query`.
    """
    folder = files(__package__) / "views" / "spark"
    texts = {}
    for name, common_text in view_texts().items():
        variant = folder / f"{name}.sql"
        text = sql_of(variant) if variant.is_file() else _AS_MATERIALIZED.sub(" as (", COMMENTS.sub("", common_text))
        statement = _CREATE_VIEW.sub("create or replace temporary view ", text).rstrip().removesuffix(";")
        texts[name] = f"{_description(common_text)}\n{statement[statement.index('create or') :]}"
    return texts


def _description(text: str) -> str:
    """The first line of a view, which says what a row is."""
    return text.partition("\n")[0]
