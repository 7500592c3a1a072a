"""Which statements would change what a capture holds: the sandbox refuses them, though the rows are only copies."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import duckdb

from analysis.store.sandbox.protocol import QueryError

_CHANGE: Final = re.compile(
    r"(?<![^ ])(?P<what>(?:insert|merge)(?: or \w+)? into|delete from|update(?: or \w+)?|truncate(?: table)?"
    r"|drop (?:table|view)(?: if exists)?|alter (?:table|view)(?: if exists)?|comment on (?:table|view|column)"
    r"|create or replace (?:temp |temporary |recursive )*(?:table|view)) (?:(?:memory|main) \. )*(?P<name>\S+)"
)
"""A change of a relation. It may also stand in a WITH, an EXPLAIN or a PREPARE."""
_BLANK: Final = re.compile("[\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]")
"""What DuckDB's parser takes for a space, but its tokenizer for a part of a word."""
_NAMES: Final = (duckdb.token_type.identifier, duckdb.token_type.keyword, duckdb.token_type.operator)


def refuse_changes(statements: Iterable[duckdb.Statement], relations: Collection[str]) -> None:
    """Refuses to change the tables and views of captures; a query may change only what it made itself.

    Args:
        statements: those of the query.
        relations: the names of those tables and views, in lower case.

    Raises:
        QueryError: one of them would.
    """
    for statement in statements:
        # In a SELECT, such words may also be names of columns; only behind a bracket can they be a statement.
        start = r"\( " if str(statement.type).endswith(".SELECT") else ""
        for change in re.finditer(start + _CHANGE.pattern, " ".join(_words(statement.query))):
            if change["name"] in relations:
                text = f"captures are read-only, so no query can {change['what']} {change['name']}"
                raise QueryError("read only", text)


def _words(sql: str) -> Iterator[str]:
    """The words of a statement, in lower case and without quotes: DuckDB takes a string for a name where one is due."""
    raw = _BLANK.sub(" ", sql).encode()
    tokens = duckdb.tokenize(raw.decode())
    ends = [start for start, _ in tokens[1:]] + [len(raw)]
    for (start, kind), end in zip(tokens, ends, strict=True):
        word = raw[start:end].decode().strip().lower()
        if kind in _NAMES:
            yield word.strip('"').replace(" ", "\0")
        elif kind == duckdb.token_type.string_const:
            yield word.strip("'").replace(" ", "\0")
