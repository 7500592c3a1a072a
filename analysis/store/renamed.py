"""Finds the tables that a failed query is about, and the current name of a column that it calls by a former one."""

from collections.abc import Iterable
from itertools import pairwise

import duckdb

from analysis.store.columns import RENAMED


def present_name(sql: str, column: str, qualifier: str) -> tuple[str, str] | None:
    """Returns the table whose column a query calls by a former name, and the current name of the column.

    Returns None unless the query names a table or view that had a column of this name and, if it qualifies the column,
    qualifies it by that one.

    Args:
        sql: the query.
        column: the name that was not found.
        qualifier: the name or alias of a table before it; empty if there is none.
    """
    present = {table: name for (table, former), name in RENAMED.items() if former == column}
    return next(((table, present[table]) for table in tables_in(sql, present, qualifier)), None)


def tables_in(sql: str, tables: Iterable[str], qualifier: str = "") -> list[str]:
    """Returns those of some tables and views that a query names.

    Args:
        sql: the query.
        tables: their names, in lower case.
        qualifier: only the one with this name or alias; empty for all.
    """
    named_in = [word for word in words(sql) if word != "as"]
    named = [table for table in tables if table in named_in]
    return [table for table in named if qualifier in ("", table) or (table, qualifier) in pairwise(named_in)]


def words(sql: str, *more: duckdb.token_type) -> list[str]:
    """The names and keywords in a query, in lower case and without quotes; and tokens of `more` kinds, likewise."""
    raw = sql.encode()
    tokens = duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]] + [len(raw)]
    kinds = (duckdb.token_type.identifier, duckdb.token_type.keyword, *more)
    return [
        raw[start:end].decode().strip().strip("'" if kind == duckdb.token_type.string_const else '"').lower()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind in kinds
    ]
