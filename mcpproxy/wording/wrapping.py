"""Wraps text for a terminal. The text is already sanitised, as everywhere in this package."""

import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.wording.cells import cells, fit

_BREAK: Final = re.compile(r"(?<!`[<>])(?<!\d min)(?<!\d [hd])(?:(?<!\d) | (?!(?:ms|s|min|h|d|[kMG]?B)\b))")
"""A space, except one within a duration or a size, or between the sign of a direction and the code that crosses."""


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yields lines of at most `width` cells, broken at spaces, and within words that are longer than a line."""
    line = ""
    used_cells = 0
    for word in _words(text, width):
        size = cells(word)
        if line and used_cells + 1 + size > width:
            yield line
            line, used_cells = word, size
        else:
            line, used_cells = (f"{line} {word}", used_cells + 1 + size) if line else (word, size)
    yield line


def _words(text: str, width: int) -> Iterator[str]:
    for word in _BREAK.split(text):
        remainder = word
        while cells(remainder) > width:
            # A character takes at most two cells and has at most eight marks, so every piece is nonempty and fits.
            piece = fit(remainder, width).removesuffix("…") or remainder[:1]
            yield piece
            remainder = remainder[len(piece) :]
        yield remainder
