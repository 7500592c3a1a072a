"""The heading of `mcpproxy show`: what the capture's header and the handshakes say about the conversation below it."""

from collections.abc import Iterator

from analysis.conversation.fold import Fold
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.names import peer_text
from mcpproxy.wording.text import Span, Style, cells, count_text, fit_spans


def heading_lines(fold: Fold, style: Style, width: int, *, date: str | None, file: str) -> Iterator[str]:
    """The heading as far as known: one line, more if narrow.

    Args:
        fold: of the capture.
        style: paints the lines.
        width: of the terminal, in cells.
        date: of the recording, if times are shown by the clock.
        file: of the capture; empty to leave it out.
    """
    row: list[Span] = []
    used = 0
    for piece in _pieces(fold, date, file):
        if row and used + 2 + cells(piece.text) > width:
            yield style.paint(row)
            row = []
        row, used = fit_spans([*row, Span("  "), piece] if row else [piece], width)
    if row:
        yield style.paint(row)


def _pieces(fold: Fold, date: str | None, file: str) -> Iterator[Span]:
    client, server = fold.client, fold.server
    if fold.name:
        yield Span(sanitise(fold.name, 60), "accent")
    if fold.revision:
        yield Span(sanitise(fold.revision, 40))
    if client is not None or server is not None:
        yield Span(f"{peer_text(client) if client else '?'} → {peer_text(server) if server else '?'}")
    if fold.routing.count > 1:
        # The heading names the latest participants; the others appear only in their lines.
        yield Span(count_text(fold.routing.count, "session"))
    if date:
        yield Span(date)
    if file:
        yield Span(sanitise(file, 200), "dim")
