"""The heading of `mcpproxy show`: what the capture's header and the handshakes say about the conversation below it."""

from collections.abc import Iterator
from typing import NamedTuple

from analysis.conversation.fold import Fold
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.names import peer_text, revisions_text
from mcpproxy.wording.spans import Span, Style, fit_spans


class Heading(NamedTuple):
    """Who talks to whom, in which revisions, as far as known; sanitised."""

    name: str
    revisions: str
    peers: str
    sessions: int
    """The number of sessions. The peers are those of the latest session; other peers appear only in their lines."""


def heading_of(fold: Fold) -> Heading:
    """Returns the heading with what is known now."""
    client, server = fold.client, fold.server
    peers = f"{peer_text(client) if client else '?'} → {peer_text(server) if server else '?'}"
    return Heading(
        sanitise(fold.name or "", 60),
        revisions_text(fold.revisions),
        peers if client is not None or server is not None else "",
        fold.routing.count,
    )


def heading_lines(heading: Heading, style: Style, width: int, date: str | None, file: str) -> Iterator[str]:
    """Yields the heading: one line, or more if the terminal is narrow.

    Args:
        heading: the heading of the capture.
        style: paints the lines.
        width: the width of the terminal, in cells.
        date: the date of the recording, if times are shown by the clock.
        file: the name of the file of the capture; empty to leave it out.
    """
    row: list[Span] = []
    used_cells = 0
    for piece in _pieces(heading, date, file):
        if row and used_cells + 2 + cells(piece.text) > width:
            yield style.paint(row)
            row = []
        row, used_cells = fit_spans([*row, Span("  "), piece] if row else [piece], width)
    if row:
        yield style.paint(row)


def _pieces(heading: Heading, date: str | None, file: str) -> Iterator[Span]:
    sessions = count_text(heading.sessions, "session") if heading.sessions > 1 else ""
    pieces = (Span(heading.name, "accent"), *map(Span, (heading.revisions, heading.peers, sessions, date or "")))
    yield from (piece for piece in (*pieces, Span(sanitise(file, 200), "dim")) if piece.text)
