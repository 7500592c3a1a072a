"""Highlighting of SQL: which parts of a text are keywords, strings, numbers, comments and known names.

A word is a keyword or a name only if a list says so, so a misspelt one stands out. Time is linear in the length of the
text, and nothing in it is an error: a string that is not closed is one up to the end.
"""

import re
from collections.abc import Container, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from mcpproxy.sql.statements import statement_pieces

TokenKind: TypeAlias = Literal["keyword", "string", "number", "comment", "name"]
_WORD: Final = re.compile(r"(?P<word>[^\W\d]\w*)|(?P<number>\d\w*+(?:\.\d\w*+)?)")


class Token(NamedTuple):
    """A part of a text that is drawn in a style of its own."""

    kind: TokenKind
    start: int
    """The number of its first character."""
    end: int
    """The number of the character after its last."""


def tokens_of(text: str, keywords: Container[str], names: Container[str]) -> Iterator[Token]:
    """Yields the highlighted parts of SQL, in order.

    Args:
        text: the statements.
        keywords: the keywords, in lower case.
        names: the names of tables, views and columns, in lower case.
    """
    start = 0
    for piece in statement_pieces(text):
        end = start + len(piece.text)
        if piece.kind == "bare":
            yield from _words_in(text, start, end, keywords, names)
        elif piece.kind != "quoted":
            yield Token("comment", start, end)
        elif not piece.text.startswith('"'):
            yield Token("string", start, end)
        elif piece.text.strip('"').lower() in names:
            yield Token("name", start, end)
        start = end


def _words_in(text: str, start: int, end: int, keywords: Container[str], names: Container[str]) -> Iterator[Token]:
    for match in _WORD.finditer(text, start, end):
        if match["number"]:
            yield Token("number", *match.span())
            continue
        word = match[0].lower()
        # A column may have the name of a keyword, such as `first`; its place would tell, but this does not parse.
        if word in keywords:
            yield Token("keyword", *match.span())
        elif word in names:
            yield Token("name", *match.span())


def is_keyword_due(before: str, keywords: Container[str]) -> bool:
    """Whether a keyword is likelier to follow a text than a name: at its start, and after a name, a value or `)`.

    Args:
        before: the statements up to the word.
        keywords: the keywords, in lower case.
    """
    before = before.rstrip()
    word = re.search(r"\w+$", before)
    if word is not None:
        return word[0].lower() not in keywords
    return not before or before[-1] in ";*)\"'"
