"""Widths in cells of a terminal: how wide a text is, and how much of it fits.

All input is already sanitised (mcpproxy.sanitise), and only `…` is added.
"""

import re
from collections.abc import Iterator
from typing import Final
from unicodedata import category, east_asian_width

from mcpproxy.sanitise import EMOJI_JOINER

UNLIMITED_WIDTH: Final = 10_000
"""The width of an output that is not a terminal, in cells: layouts do not pad lines to it, and cut only longer ones."""

# Characters that may not take exactly one cell: all except Latin, Greek, Cyrillic, and the signs that mcpproxy writes.
_NOT_NARROW: Final = re.compile("[^ -~\u00a0-\u02ff\u0370-\u0482\u048a-\u0558\u2010-\u2027\u2190-\u2199■▲✗]")


def is_narrow(text: str) -> bool:
    """Whether each of its characters certainly takes one cell."""
    return not _NOT_NARROW.search(text)


def cells(text: str) -> int:
    """Returns how many columns a text takes on a terminal.

    Terminals disagree about symbols with U+FE0F, and about emoji that are joined. They count as two here, and as all of
    the joined emoji, so that no line becomes longer than it should.
    """
    return sum(_char_cells(text)) if _NOT_NARROW.search(text) else len(text)


def _char_cells(text: str) -> Iterator[int]:
    previous_size = 0
    for char in text:
        if char == "\ufe0f":
            yield 2 - previous_size if previous_size else 0
            previous_size = 0
            continue
        if char.isascii():
            previous_size = 1
        elif (
            char == EMOJI_JOINER
            or category(char)[0] == "M"
            or "\u1160" <= char <= "\u11ff"
            or "\ud7b0" <= char <= "\ud7ff"
        ):
            yield 0
            continue
        else:
            previous_size = 2 if east_asian_width(char) in "WF" else 1
        yield previous_size


def fit(text: str, width: int) -> str:
    """The text, or as much of it as leaves room for a `…`, in at most `width` cells."""
    if len(text) <= width and cells(text) <= width:
        return text
    if width <= 0:
        return ""
    if not _NOT_NARROW.search(text, 0, width):
        return text if len(text) <= width else text[: width - 1] + "…"
    used_cells = cut_index = 0
    for index, size in enumerate(_char_cells(text)):
        used_cells += size
        if used_cells > width:
            return text[:cut_index].rstrip(EMOJI_JOINER) + "…"
        if used_cells <= width - 1:
            cut_index = index + 1
    return text


def pieces(text: str, width: int) -> Iterator[str]:
    """All of the text in pieces of at most `width` cells, each as full as possible.

    Combining marks stay attached, and emoji stay joined, even if they are wider than a piece.
    """
    if not _NOT_NARROW.search(text):
        yield from (text[start : start + width] for start in range(0, max(1, len(text)), width))
        return
    piece_start = base_index = used_cells = base_cells = 0
    for index, size in enumerate(_char_cells(text)):
        if size and text[index] != "\ufe0f" and text[index - 1 : index] != EMOJI_JOINER:
            base_index, base_cells = index, 0
        base_cells += size
        used_cells += size
        if used_cells > width and base_index > piece_start:
            yield text[piece_start:base_index]
            piece_start, used_cells = base_index, base_cells
    yield text[piece_start:]


def fit_end(text: str, width: int) -> str:
    """The text, or as much of its end as leaves room for a `…`, in at most `width` cells."""
    if cells(text) <= width:
        return text
    start = max(1, len(text) - width)
    # A combining mark at the beginning would join the `…`.
    while start < len(text) and (cells(text[start:]) > width - 1 or not cells(text[start])):
        start += 1
    return f"…{text[start:]}" if width > 0 else ""


def fit_ends(text: str, width: int) -> str:
    """The text in at most `width` cells; if it is too long, it is cut in the middle, so that its end stays visible."""
    if width < 3 or cells(text) <= width:
        return fit(text, width)
    start = max(0, len(text) - width // 2)
    # A combining mark at the beginning would join the character that now precedes it.
    while cells(text[start:]) > width // 2 or (start < len(text) and not cells(text[start])):
        start += 1
    end = text[start:]
    return fit(text, width - cells(end)) + end
