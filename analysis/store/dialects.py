"""The views in the SQL of Spark.

Most views have one text, in the SQL that DuckDB and Spark share. Where they share no way to say it, a variant in
`views/spark` takes the place of the text; the tests compare the rows of both, view by view.
"""

import re
from importlib.resources import files
from typing import Final

from analysis.store.reference import view_texts

_COMMENTS: Final = re.compile(r"^comment on .*?;$\n?", re.MULTILINE | re.DOTALL)
_HEAD: Final = re.compile(r"^create view ", re.MULTILINE)


def spark_views() -> dict[str, str]:
    """The statement that makes each view in Spark, by name, without a semicolon; the order works.

    They make temporary views, over tables or views with the names of our tables.
    """
    folder = files(__package__) / "views" / "spark"
    texts = {}
    for name, common in view_texts().items():
        variant = folder / f"{name}.sql"
        text = variant.read_text("utf-8") if variant.is_file() else _COMMENTS.sub("", common)
        made = _HEAD.sub("create or replace temporary view ", text).rstrip().removesuffix(";")
        texts[name] = f"{_description(common)}\n{made[made.index('create or') :]}"
    return texts


def _description(text: str) -> str:
    """The first line of a view, which says what a row is."""
    return text.partition("\n")[0]
