"""Refuses statements that would change the tables and views of captures, although the rows are only copies."""

import re
from collections.abc import Collection, Iterable
from typing import Final

import duckdb

from analysis.store.renamed import words
from analysis.store.sandbox.protocol import QueryError

_CHANGE: Final = re.compile(
    r"(?<![^ ])(?P<what>(?:insert|merge)(?: or \w+)? into|delete from|update(?: or \w+)?|truncate(?: table)?"
    r"|drop (?:table|view)(?: if exists)?|alter (?:table|view)(?: if exists)?|comment on (?:table|view|column)"
    r"|create or replace (?:temp |temporary |recursive )*(?:table|view)) (?:(?:memory|main) \. )*(?P<name>\S+)"
)
"""A change of a relation, which may also be inside a WITH, an EXPLAIN or a PREPARE."""
_CHANGE_IN_SELECT: Final = re.compile(r"\( " + _CHANGE.pattern)
"""The same in a SELECT, where such words may also be names of columns: only after a parenthesis can they begin a
statement."""
_UNUSUAL_SPACE: Final = re.compile("[\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]")
"""Characters that DuckDB's parser treats as spaces, but its tokenizer as parts of a word."""
_OTHER_TOKENS: Final = (duckdb.token_type.operator, duckdb.token_type.string_const)
"""DuckDB accepts a string where it expects a name."""


def refuse_changes(statements: Iterable[duckdb.Statement], relations: Collection[str]) -> None:
    """Refuse statements that would change the tables and views of captures; a query may change only its own relations.

    Args:
        statements: the statements of the query.
        relations: the names of those tables and views, in lower case.

    Raises:
        QueryError: a statement would change one of these relations.
    """
    for statement in statements:
        pattern = _CHANGE_IN_SELECT if str(statement.type).endswith(".SELECT") else _CHANGE
        # A space within a name or a string does not separate words.
        tokens = (word.replace(" ", "\0") for word in words(_UNUSUAL_SPACE.sub(" ", statement.query), *_OTHER_TOKENS))
        for change in pattern.finditer(" ".join(tokens)):
            if change["name"] in relations:
                text = f"captures are read-only, so no query can {change['what']} {change['name']}"
                raise QueryError("read only", text)
