"""Wraps text for a terminal. The text is already sanitised, as everywhere in this package."""

import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.wording.cells import cells, fit

_BREAK: Final = re.compile(r"(?<!`[<>])(?<!\d min)(?<!\d [hd])(?:(?<!\d) | (?!(?:ms|s|min|h|d|[kMG]?B)\b))")
"""A space, but none within a duration or a size, and not the one between the sign of a direction and the code that
crosses."""


def wrapped(text: str, width: int) -> Iterator[str]:
    """Lines of at most `width` cells, broken at spaces, and within words that are longer than a line."""
    line = ""
    used = 0
    for word in _words(text, width):
        size = cells(word)
        if line and used + 1 + size > width:
            yield line
            line, used = word, size
        else:
            line, used = (f"{line} {word}", used + 1 + size) if line else (word, size)
    yield line


def _words(text: str, width: int) -> Iterator[str]:
    for word in _BREAK.split(text):
        rest = word
        while cells(rest) > width:
            # Two cells a character at most, and eight marks on one: progress is certain, and the piece fits.
            piece = fit(rest, width).removesuffix("…") or rest[:1]
            yield piece
            rest = rest[len(piece) :]
        yield rest
