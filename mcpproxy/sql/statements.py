"""Splits SQL into strings, names and comments, to find where a statement ends and to write it on one line.

Nothing here understands SQL. It covers as much of DuckDB's lexer as is needed to determine which semicolons and line
ends are quoted. Time is linear in the length of the text, regardless of its content.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

_NON_NAME_CHARS: Final = r"\s\x00-#%-/:-@\[-^`{-\x7f"
"""The characters that cannot occur in a name: whitespace and symbols, except dollar signs."""
_TOKEN: Final = re.compile(
    rf"'|\"|--|/\*|[eE]'|\$(?:[^{_NON_NAME_CHARS}0-9$][^{_NON_NAME_CHARS}$]*)?\$|(?P<name>[^{_NON_NAME_CHARS}0-9$][^{_NON_NAME_CHARS}]*)"
)
"""The beginning of a quoted piece, or a name, because a dollar sign within a name begins nothing."""
_ESCAPE_STRING_PART: Final = re.compile(r"''|\\.|'", re.DOTALL)
_COMMENT_DELIMITER: Final = re.compile(r"/\*|\*/")
_LINE_END: Final = re.compile(r"[\r\n]")
KEYWORDS: Final = (
    "select from where group by order having limit offset join left inner full cross on using as distinct with "
    "recursive union all except intersect case when then else end and or not in between like ilike is null true "
    "false asc desc nulls first last filter over partition window qualify describe summarize pivot unpivot exclude "
    "replace count sum avg min max median quantile_cont cast "
)
"""The words that the prompt and the screen complete in addition to names."""


class StatementPiece(NamedTuple):
    """A piece of a statement; the pieces together are the whole statement."""

    kind: Literal["bare", "quoted", "comment", "remark"]
    """A remark is a comment that ends with its line."""
    text: str
    is_closed: bool = True


def is_complete(text: str) -> bool:
    """Whether a statement is complete: ended by a semicolon outside strings, quoted names and comments."""
    if ";" not in text:
        return False
    has_ended = False
    for kind, piece, is_closed in statement_pieces(text):
        if not is_closed:
            return False
        if kind == "quoted":
            has_ended = False
        elif kind == "bare" and (bare := piece.rstrip()):
            has_ended = bare.endswith(";")
    return has_ended


def in_one_line(text: str) -> str | None:
    """Write a statement on one line, without the comments that need a line end.

    Returns:
        The line, or None if it would not be the same statement: if a line ends inside a string or a quoted name, for
        which no other spelling is valid everywhere, or if a string continues on another line. `'a'` with `'b'` on the
        line below is one string, but the two are not valid SQL on one line.
    """
    parts: list[str] = []
    bare_text, last_quoted = "", ""
    for kind, piece, _ in statement_pieces(text):
        if kind != "quoted":
            bare_text += "" if kind == "remark" else piece
            continue
        continues_string = (
            last_quoted.endswith("'") and piece.startswith("'") and bare_text.isspace() and _LINE_END.search(bare_text)
        )
        if continues_string or _LINE_END.search(piece):
            return None
        parts += [_joined_lines(bare_text), piece]
        bare_text, last_quoted = "", piece
    return "".join([*parts, _joined_lines(bare_text)]).strip()


def _joined_lines(text: str) -> str:
    """Returns lines as one line."""
    return re.sub(r"\s+", lambda blanks: " " if _LINE_END.search(blanks[0]) else blanks[0], text)


def statement_pieces(text: str) -> Iterator[StatementPiece]:
    """Yields the strings, quoted names and comments of SQL, and what is between them; joined, they are the SQL."""
    piece_start = position = 0
    while token := _TOKEN.search(text, position):
        if token["name"]:
            position = token.end()
            continue
        if token.start() > piece_start:
            yield StatementPiece("bare", text[piece_start : token.start()])
        opening, end = token[0], _piece_end(text, token)
        piece_start = position = len(text) if end is None else end
        kind: Literal["quoted", "comment", "remark"] = (
            "remark" if opening == "--" else "comment" if opening == "/*" else "quoted"
        )
        yield StatementPiece(kind, text[token.start() : position], end is not None)
    if piece_start < len(text):
        yield StatementPiece("bare", text[piece_start:])


def _piece_end(text: str, token: re.Match[str]) -> int | None:
    """The end of the piece that a token begins."""
    opening, start = token[0], token.end()
    if opening == "--":
        match = _LINE_END.search(text, start)
        return match.start() if match else len(text)
    if opening == "/*":
        depth = 1
        for match in _COMMENT_DELIMITER.finditer(text, start):
            depth += 1 if match[0] == "/*" else -1
            if not depth:
                return match.end()
        return None
    if opening in ("e'", "E'"):
        return next((match.end() for match in _ESCAPE_STRING_PART.finditer(text, start) if match[0] == "'"), None)
    # A quote within quotes is written twice. Here, that is the same as two adjacent strings.
    end = text.find(opening, start)
    return end + len(opening) if end >= 0 else None
