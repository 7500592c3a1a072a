"""The tables and views in the SQL of Spark.

Most views have one text, in the SQL that DuckDB and Spark share. Where they have no common way to say something, a
variant in `views/spark` takes the place of the text; the tests compare the rows of both, view by view.
"""

import re
from importlib.resources import files
from typing import Final

from analysis.store.columns import TABLES
from analysis.store.reference import COMMENTS, view_texts
from analysis.store.sql_files import sql_of

_HEAD: Final = re.compile(r"^create view ", re.MULTILINE)


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
    """The statement that makes each table in Spark, empty, as a temporary view, by name, without a semicolon.

    Spark looks up what a view reads when it is queried, so users may replace these before or after they make the views.
    """
    texts = {}
    for name, table in TABLES.items():
        columns = table.columns
        cells = ",\n    ".join(f"cast(null as {_TYPES[column.portable]}) as `{column.name}`" for column in columns)
        texts[name] = f"create or replace temporary view {name} as\nselect\n    {cells}\nwhere false"
    return texts


def spark_views() -> dict[str, str]:
    """The statement that makes each view in Spark, by name, without a semicolon; in the order to run them.

    They make temporary views, over tables or views with the names of our tables.
    """
    folder = files(__package__) / "views" / "spark"
    texts = {}
    for name, common in view_texts().items():
        variant = folder / f"{name}.sql"
        text = sql_of(variant) if variant.is_file() else COMMENTS.sub("", common)
        made = _HEAD.sub("create or replace temporary view ", text).rstrip().removesuffix(";")
        texts[name] = f"{_description(common)}\n{made[made.index('create or') :]}"
    return texts


def _description(text: str) -> str:
    """The first line of a view, which says what a row is."""
    return text.partition("\n")[0]
