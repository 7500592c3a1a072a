"""Spans: pieces of a line, coloured by their role."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TextIO, TypeAlias

from mcpproxy.wording.cells import cells, fit

Role: TypeAlias = Literal["plain", "accent", "server", "dim", "warm", "bad"]
"""Why a text is coloured. There is one accent, also for what the client sent; `server` is for what the server sent,
`dim` for what repeats, `warm` for what is slow, `bad` for what is wrong."""

_CODES: Final[dict[Role, str]] = {"accent": "36", "server": "35", "dim": "2", "warm": "33", "bad": "1;31"}


class Span(NamedTuple):
    """A piece of a line and its role."""

    text: str
    role: Role = "plain"


class Style:
    """Draws text with or without colours. Colour is never the only carrier of a meaning."""

    def __init__(self, *, colour: bool = False) -> None:
        """If `colour` is false, paint only the text itself."""
        self.colour = colour

    @classmethod
    def for_stream(cls, stream: TextIO, environ: Mapping[str, str]) -> "Style":
        """The style for a stream: colours on a terminal, unless NO_COLOR or TERM=dumb say otherwise (no-color.org)."""
        return cls(colour=stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb")

    @classmethod
    def for_choice(cls, choice: str, stream: TextIO, environ: Mapping[str, str]) -> "Style":
        """The style for a choice of `--color`: `always`, `never`, or `auto` for the one that suits the stream."""
        return cls.for_stream(stream, environ) if choice == "auto" else cls(colour=choice == "always")

    def paint(self, spans: Iterable[Span]) -> str:
        """The spans as one text."""
        return "".join(self._painted(span) for span in spans)

    def _painted(self, span: Span) -> str:
        if not self.colour or span.role == "plain" or not span.text.strip():
            return span.text
        return f"\x1b[{_CODES[span.role]}m{span.text}\x1b[0m"


def fit_spans(spans: Iterable[Span], width: int) -> tuple[list[Span], int]:
    """The spans that fit in `width` cells, the last one cut if necessary, and how many cells they take."""
    fitting_spans: list[Span] = []
    used_cells = 0
    for span in spans:
        size = cells(span.text)
        if used_cells + size > width:
            cut_text = fit(span.text, width - used_cells)
            fitting_spans.append(Span(cut_text, span.role))
            return fitting_spans, used_cells + cells(cut_text)
        fitting_spans.append(span)
        used_cells += size
    return fitting_spans, used_cells
