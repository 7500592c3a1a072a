"""Tells a query that asks for a column by a former name what the column is called now."""

from itertools import pairwise

import duckdb

from analysis.store.columns import RENAMED


def present_name(sql: str, column: str, qualifier: str) -> tuple[str, str] | None:
    """The table that a query means by a column that was not found, and the present name of that column.

    None unless the query names a table or view that had a column of this name, and, if it says whose column it wants,
    says that one.

    Args:
        sql: the query.
        column: the name that was not found.
        qualifier: the name of the table before it, or what the query calls a table; empty if there is none.
    """
    words = [word for word in _words(sql) if word != "as"]
    for (table, former), present in RENAMED.items():
        is_meant = qualifier in ("", table) or (table, qualifier) in pairwise(words)
        if column == former and table in words and is_meant:
            return table, present
    return None


def _words(sql: str) -> list[str]:
    """The names and keywords in a query, in lower case and without quotes."""
    raw = sql.encode()
    tokens = duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]] + [len(raw)]
    kinds = (duckdb.token_type.identifier, duckdb.token_type.keyword)
    return [
        raw[start:end].decode().strip().strip('"').lower()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind in kinds
    ]
