"""Which statements would change what a capture holds: the sandbox refuses them, though the rows are only copies."""

import re
from collections.abc import Collection
from typing import Final

import duckdb

from analysis.store.renamed import words
from analysis.store.sandbox.protocol import QueryError

_CHANGE: Final = re.compile(
    r"(?<![^ ])(?P<what>(?:insert|merge)(?: or \w+)? into|delete from|update(?: or \w+)?|truncate(?: table)?"
    r"|(?:drop|alter) \w+(?: if exists)?|comment on \w+) (?:(?:memory|main|temp) \. )*(?P<name>\w+)"
)
"""A change of a relation. It may also stand in a WITH, an EXPLAIN or a PREPARE."""


def refuse_changes(sql: str, relations: Collection[str]) -> None:
    """Refuses to change the tables and views of captures; a query may change only what it made itself.

    Args:
        sql: the query, of one or more statements.
        relations: the names of those tables and views, in lower case.

    Raises:
        QueryError: it would change one of them.
    """
    for change in _CHANGE.finditer(" ".join(words(sql, duckdb.token_type.operator))):
        if change["name"] in relations:
            text = f"captures are read-only, so no query can {change['what']} {change['name']}"
            raise QueryError("read only", text)
