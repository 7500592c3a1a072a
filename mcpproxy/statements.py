"""What is text, name or comment in SQL: it decides where a statement ends, and what it is in one line.

Nothing here understands SQL. It is as much of DuckDB's lexer as tells which semicolons and line ends are no more than
characters of something quoted. All of it takes time in proportion to the text, whatever that is.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

_BEGIN: Final = re.compile(r"'|\"|--|/\*|\$\w*\$")
_LINE_END: Final = re.compile(r"[\r\n]")


class _Piece(NamedTuple):
    """A piece of a statement; all of them together are the statement."""

    kind: Literal["bare", "quoted", "comment", "remark"]
    """A remark is a comment that ends with its line."""
    text: str
    is_closed: bool = True


def is_whole(text: str) -> bool:
    """Whether a statement is complete: a semicolon ends it that stands in no text, name or comment."""
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
    """A statement in one line, without the comments that need the end of theirs.

    Returns:
        None where it would not be the same statement. That is so where a line ends inside of a text or a name, for
        there is no other way to write it that is valid everywhere; and where a text goes on in another line, as
        `'a'` and `'b'` below it are one text, and no SQL beside each other.
    """
    made: list[str] = []
    outside, before = "", ""
    for kind, piece, _ in _pieces(text):
        if kind != "quoted":
            outside += "" if kind == "remark" else piece
            continue
        goes_on = before.endswith("'") and piece.startswith("'") and outside.isspace() and _LINE_END.search(outside)
        if goes_on or _LINE_END.search(piece):
            return None
        made += [_joined(outside), piece]
        outside, before = "", piece
    return "".join([*made, _joined(outside)]).strip()


def _joined(text: str) -> str:
    """Lines as one."""
    return re.sub(r"\s+", lambda blanks: " " if _LINE_END.search(blanks[0]) else blanks[0], text)


def _pieces(text: str) -> Iterator[_Piece]:
    at = 0
    while begin := _BEGIN.search(text, at):
        if begin.start() > at:
            yield _Piece("bare", text[at : begin.start()])
        opening, end = begin[0], _end(text, begin)
        at = len(text) if end is None else end
        kind: Literal["quoted", "comment", "remark"] = (
            "remark" if opening == "--" else "comment" if opening == "/*" else "quoted"
        )
        yield _Piece(kind, text[begin.start() : at], end is not None)
    if at < len(text):
        yield _Piece("bare", text[at:])


def _end(text: str, begin: re.Match[str]) -> int | None:
    """Where it ends what begins there."""
    opening, at = begin[0], begin.end()
    if opening == "--":
        found = _LINE_END.search(text, at)
        return found.start() if found else len(text)
    # A quote within quotes is written twice. That is the same here as two texts beside each other.
    closing = "*/" if opening == "/*" else opening
    end = text.find(closing, at)
    return end + len(closing) if end >= 0 else None
