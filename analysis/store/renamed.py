"""Finds the tables that a failed query is about, and the current name of a column that it calls by a former one."""

from collections.abc import Iterable
from itertools import pairwise

import duckdb

from analysis.store.columns import RENAMED_COLUMNS


def current_name(sql: str, column: str, qualifier: str) -> tuple[str, str] | None:
    """Returns the table whose column a query calls by a former name, and the current name of the column.

    Returns None unless the query names a table or view that had a column of this name. If the query qualifies the
    column, the qualifier must be the name or alias of that table or view.

    Args:
        sql: the query.
        column: the name that was not found.
        qualifier: the name or alias of a table before it; empty if there is none.
    """
    current_names = {table: name for (table, former), name in RENAMED_COLUMNS.items() if former == column}
    return next(((table, current_names[table]) for table in tables_in(sql, current_names, qualifier)), None)


def tables_in(sql: str, tables: Iterable[str], qualifier: str = "") -> list[str]:
    """Returns which of some tables and views a query names.

    Args:
        sql: the query.
        tables: their names, in lower case.
        qualifier: the name or alias of the only one to return; empty for all.
    """
    words_in_query = [word for word in words(sql) if word != "as"]
    named_tables = [table for table in tables if table in words_in_query]
    return [
        table for table in named_tables if qualifier in ("", table) or (table, qualifier) in pairwise(words_in_query)
    ]


def words(sql: str, *other_kinds: duckdb.token_type) -> list[str]:
    """The names and keywords in a query, and its tokens of `other_kinds`, in lower case and without quotes."""
    raw = sql.encode()
    tokens = duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]] + [len(raw)]
    kinds = (duckdb.token_type.identifier, duckdb.token_type.keyword, *other_kinds)
    return [
        raw[start:end].decode().strip().strip("'" if kind == duckdb.token_type.string_const else '"').lower()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind in kinds
    ]
