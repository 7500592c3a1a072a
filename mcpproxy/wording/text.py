"""Text for a terminal: widths in cells, colours by role, numbers with their noun.

Its input is already sanitised (mcpproxy.sanitise); it adds only spaces, `…` and our own colour codes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TextIO, TypeAlias
from unicodedata import category, east_asian_width

from captures.gaps import MOST_LOST

Role: TypeAlias = Literal["plain", "accent", "dim", "warm", "bad"]
"""Why a text is coloured. There is one accent; `dim` is for what repeats, `warm` for what is slow, `bad` for what is
wrong."""

_CODES: Final[dict[Role, str]] = {"accent": "36", "dim": "2", "warm": "33", "bad": "1;31"}


class Span(NamedTuple):
    """A piece of a line and its role."""

    text: str
    role: Role = "plain"


class Style:
    """Colours or none. Colour is never the only carrier of a meaning."""

    def __init__(self, *, colour: bool = False) -> None:
        """With `colour` False nothing but the text itself is written."""
        self.colour = colour

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> "Style":
        """The style for a stream: colours on a terminal, unless NO_COLOR or TERM=dumb say otherwise (no-color.org)."""
        return cls(colour=stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb")

    @classmethod
    def chosen(cls, choice: str, stream: TextIO, environ: Mapping[str, str]) -> "Style":
        """The style that `--color` asks for: `always`, `never`, or `auto` for what suits the stream."""
        return cls.of(stream, environ) if choice == "auto" else cls(colour=choice == "always")

    def paint(self, spans: Iterable[Span]) -> str:
        """The spans as one text."""
        return "".join(self._painted(span) for span in spans)

    def _painted(self, span: Span) -> str:
        if not self.colour or span.role == "plain" or not span.text.strip():
            return span.text
        return f"\x1b[{_CODES[span.role]}m{span.text}\x1b[0m"


# Anything that may not take exactly one cell: beyond Latin, Greek, Cyrillic, and the signs that we write ourselves.
_ODD: Final = re.compile("[^ -~\u00a0-\u02ff\u0370-\u0482\u048a-\u0558\u2010-\u2027\u2190-\u2199■▲✗]")


def is_narrow(text: str) -> bool:
    """Whether each of its characters certainly takes one cell."""
    return not _ODD.search(text)


def cells(text: str) -> int:
    """Columns that a text takes on a terminal.

    Terminals disagree about symbols with U+FE0F. They count two here, so that no line becomes longer than it should.
    """
    return sum(_char_cells(text)) if _ODD.search(text) else len(text)


def _char_cells(text: str) -> Iterator[int]:
    before = 0
    for char in text:
        if char == "\ufe0f":
            yield 2 - before if before else 0
            before = 0
            continue
        if char.isascii():
            before = 1
        elif category(char)[0] == "M" or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff":
            yield 0
            continue
        else:
            before = 2 if east_asian_width(char) in "WF" else 1
        yield before


def fit(text: str, width: int) -> str:
    """The text, or as much of it as leaves room for a `…`, in at most `width` cells."""
    if len(text) <= width and cells(text) <= width:
        return text
    if width <= 0:
        return ""
    if not _ODD.search(text, 0, width):
        return text if len(text) <= width else text[: width - 1] + "…"
    used = cut = 0
    for number, size in enumerate(_char_cells(text)):
        used += size
        if used > width:
            return text[:cut] + "…"
        if used <= width - 1:
            cut = number + 1
    return text


def pieces(text: str, width: int) -> Iterator[str]:
    """All of the text in pieces of at most `width` cells, each as full as can be; marks stay on their letter."""
    if not _ODD.search(text):
        yield from (text[at : at + width] for at in range(0, max(1, len(text)), width))
        return
    begin = base = used = held = 0
    for number, size in enumerate(_char_cells(text)):
        if size and text[number] != "\ufe0f":
            base, held = number, 0
        held += size
        used += size
        if used > width and base > begin:
            yield text[begin:base]
            begin, used = base, held
    yield text[begin:]


def fit_ends(text: str, width: int) -> str:
    """The text in at most `width` cells: if it must be cut, in the middle, so that its end stays visible."""
    if width < 3 or cells(text) <= width:
        return fit(text, width)
    start = max(0, len(text) - width // 2)
    # A mark alone would join what stands before it now.
    while cells(text[start:]) > width // 2 or (start < len(text) and not cells(text[start])):
        start += 1
    end = text[start:]
    return fit(text, width - cells(end)) + end


def fit_spans(spans: Iterable[Span], width: int) -> tuple[list[Span], int]:
    """The same for a row of spans: those that fit, the last one cut where it must be, and how many cells they take."""
    fitting: list[Span] = []
    used = 0
    for span in spans:
        size = cells(span.text)
        if used + size > width:
            cut = fit(span.text, width - used)
            fitting.append(Span(cut, span.role))
            return fitting, used + cells(cut)
        fitting.append(span)
        used += size
    return fitting, used


WHOLE: Final = 10_000
"""The width of an output that is not a terminal, in cells: layouts put no padding up to there, and cut nothing
shorter."""


def ms_text(ns: int) -> str:
    """A duration in milliseconds: `0.42 ms`, `41.2 ms`, `1,920 ms`."""
    ms = ns / 1_000_000
    digits = 2 if ms < 0.995 else 1 if ms < 99.95 else 0
    return f"{ms:,.{digits}f} ms"


def lost_text(count: int) -> str:
    """How many records are lost; a capture can claim any number."""
    return f"{count_text(count, 'record')} lost" if count < MOST_LOST else f"more than {MOST_LOST - 1:,} records lost"


def begins_text(begins_at: int) -> str:
    """Where a capture begins whose first records are deleted; the number is that of its first record."""
    return f"begins at record {begins_at:,} (the ring has deleted what came before)"


def unrecorded_text(count: int) -> str:
    """How many bodies that may hold messages are not in a capture."""
    return f"{count_text(count, 'HTTP body', 'HTTP bodies')} missing (not decodable, or not in the import)"


def guesses_text(count: int) -> str:
    """How many sessions are guesses."""
    return f"{count_text(count, 'session')} of clients that cannot be told apart (one address, program and credentials)"


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 tool`, `11 tools`, `1,204 frames`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
