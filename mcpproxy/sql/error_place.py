"""The place of an error in SQL: found from DuckDB's message, which quotes a part of a line and marks it with `^`."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from mcpproxy.wording.cells import cells

_QUOTED_LINE: Final = re.compile(r"(LINE ([0-9]{1,9}): )(.*)", re.DOTALL)
_MARK: Final = re.compile(r"( *)(\^+)\s*")
_CUT: Final = "..."
"""What DuckDB puts in place of the beginning or end of a long line."""


class ErrorPlace(NamedTuple):
    """Where an error is in a text."""

    line: int
    """The number of the line, from 0."""
    start: int
    """The number of the first wrong character in the line, from 0."""
    end: int
    """The number of the character after the last wrong one."""


def error_place(sql: str, message: Sequence[str]) -> ErrorPlace | None:
    """Returns the place that the lines of an error message point to; None if they point nowhere, or not into the text.

    Args:
        sql: the statements that failed.
        message: the lines of the message.
    """
    for quote_line, mark_line in pairwise(message):
        quote, mark = _QUOTED_LINE.fullmatch(quote_line), _MARK.fullmatch(mark_line)
        if quote is not None and mark is not None:
            # The mark is aligned by width.
            first_cell = len(mark[1]) - len(quote[1])
            start = _character_at(quote[3], first_cell)
            end = _character_at(quote[3], first_cell + len(mark[2]))
            return _place_in(sql.split("\n"), int(quote[2]) - 1, quote[3], start, end)
    return None


def _character_at(text: str, cell: int) -> int:
    """Returns the number of the character at a cell; the length of the text if it ends before."""
    width = 0
    for number, character in enumerate(text):
        if width >= cell:
            return number
        width += cells(character)
    return len(text)


def _place_in(lines: Sequence[str], line: int, quote: str, start: int, end: int) -> ErrorPlace | None:
    """Returns the place of a part of a quote; if its line does not contain the quote, the first line that does."""
    # A part that is cut is compared without the dots; a line may begin or end with dots itself.
    cut_start = len(_CUT) if quote.startswith(_CUT) else 0
    variants = [(quote, 0), (quote[cut_start:].removesuffix(_CUT), cut_start)]
    for number in [line, *range(len(lines))]:
        for text, skipped in variants:
            offset = lines[number].find(text.rstrip()) if 0 <= number < len(lines) else -1
            if offset >= 0:
                size = len(lines[number])
                place_start, place_end = offset + start - skipped, offset + min(end, skipped + len(text)) - skipped
                return ErrorPlace(number, max(0, min(place_start, size)), max(0, min(place_end, size)))
    return None
