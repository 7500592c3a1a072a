"""Splits SQL into strings, names and comments, to find where a statement ends and to write it on one line.

Nothing here understands SQL. It covers as much of DuckDB's lexer as is needed to determine which semicolons and line
ends are quoted. Time is linear in the length of the text, regardless of its content.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

_SIGN: Final = r"\s\x00-#%-/:-@\[-^`{-\x7f"
"""What cannot occur in a name: whitespace and symbols, except dollar signs."""
_TOKEN: Final = re.compile(
    rf"'|\"|--|/\*|[eE]'|\$(?:[^{_SIGN}0-9$][^{_SIGN}$]*)?\$|(?P<name>[^{_SIGN}0-9$][^{_SIGN}]*)"
)
"""What begins a quoted piece. A dollar sign within a name begins nothing."""
_OF_ESCAPES: Final = re.compile(r"''|\\.|'", re.DOTALL)
_OF_COMMENTS: Final = re.compile(r"/\*|\*/")
_LINE_END: Final = re.compile(r"[\r\n]")
KEYWORDS: Final = (
    "select from where group by order having limit offset join left inner full cross on using as distinct with "
    "recursive union all except intersect case when then else end and or not in between like ilike is null true "
    "false asc desc nulls first last filter over partition window qualify describe summarize pivot unpivot exclude "
    "replace count sum avg min max median quantile_cont cast "
)
"""What the prompt and the screen complete in addition to names."""


class _Piece(NamedTuple):
    """A piece of a statement; all of them together are the statement."""

    kind: Literal["bare", "quoted", "comment", "remark"]
    """A remark is a comment that ends with its line."""
    text: str
    is_closed: bool = True


def is_whole(text: str) -> bool:
    """Whether a statement is complete: ended by a semicolon outside strings, quoted names and comments."""
    if ";" not in text:
        return False
    has_ended = False
    for kind, piece, is_closed in _pieces(text):
        if not is_closed:
            return False
        if kind == "quoted":
            has_ended = False
        elif kind == "bare" and (bare := piece.rstrip()):
            has_ended = bare.endswith(";")
    return has_ended


def in_one_line(text: str) -> str | None:
    """A statement on one line, without the comments that need a line end.

    Returns:
        The statement, or None if it would not be the same one. That is so if a line ends inside a string or a quoted
        name, for which no other spelling is valid everywhere, and if a string continues on another line: `'a'` with
        `'b'` on the line below is one string, but the two are not valid SQL on one line.
    """
    parts: list[str] = []
    outside, before = "", ""
    for kind, piece, _ in _pieces(text):
        if kind != "quoted":
            outside += "" if kind == "remark" else piece
            continue
        goes_on = before.endswith("'") and piece.startswith("'") and outside.isspace() and _LINE_END.search(outside)
        if goes_on or _LINE_END.search(piece):
            return None
        parts += [_joined(outside), piece]
        outside, before = "", piece
    return "".join([*parts, _joined(outside)]).strip()


def _joined(text: str) -> str:
    """Lines as one line."""
    return re.sub(r"\s+", lambda blanks: " " if _LINE_END.search(blanks[0]) else blanks[0], text)


def _pieces(text: str) -> Iterator[_Piece]:
    done = at = 0
    while token := _TOKEN.search(text, at):
        if token["name"]:
            at = token.end()
            continue
        if token.start() > done:
            yield _Piece("bare", text[done : token.start()])
        opening, end = token[0], _end(text, token)
        done = at = len(text) if end is None else end
        kind: Literal["quoted", "comment", "remark"] = (
            "remark" if opening == "--" else "comment" if opening == "/*" else "quoted"
        )
        yield _Piece(kind, text[token.start() : at], end is not None)
    if done < len(text):
        yield _Piece("bare", text[done:])


def _end(text: str, token: re.Match[str]) -> int | None:
    """The end of the piece that a token begins."""
    opening, at = token[0], token.end()
    if opening == "--":
        match = _LINE_END.search(text, at)
        return match.start() if match else len(text)
    if opening == "/*":
        depth = 1
        for match in _OF_COMMENTS.finditer(text, at):
            depth += 1 if match[0] == "/*" else -1
            if not depth:
                return match.end()
        return None
    if opening in ("e'", "E'"):
        return next((match.end() for match in _OF_ESCAPES.finditer(text, at) if match[0] == "'"), None)
    # A quote within quotes is written twice. Here, that is the same as two adjacent strings.
    end = text.find(opening, at)
    return end + len(opening) if end >= 0 else None
