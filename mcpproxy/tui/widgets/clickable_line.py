"""Clickable line: a line of words, some of which lead somewhere if they are clicked."""

from collections.abc import Sequence
from typing import NamedTuple

from textual import events
from textual.message import Message

from mcpproxy.tui.safe_text import SafeText
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span, fit_spans


class Piece(NamedTuple):
    """A piece of a line."""

    span: Span
    target: object = None
    """Where a click on it leads; None if nowhere."""


class ClickableLine(SafeText):
    """A line of pieces."""

    DEFAULT_CSS = """
    ClickableLine { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    ALLOW_SELECT = False

    class Clicked(Message):
        """A click on a piece that leads somewhere."""

        def __init__(self, line: "ClickableLine", target: object) -> None:
            super().__init__()
            self.line, self.target = line, target

        @property
        def control(self) -> "ClickableLine":
            """The line."""
            return self.line

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        """Create an empty line."""
        super().__init__(id=id)
        self._pieces: Sequence[Piece] = ()

    def show_pieces(self, pieces: Sequence[Piece], width: int | None = None) -> None:
        """Show pieces, in at most `width` cells."""
        self._pieces = pieces
        spans = [piece.span for piece in pieces]
        self.show(spans if width is None else fit_spans(spans, width)[0])

    def on_click(self, event: events.Click) -> None:
        """Report where the piece that was clicked leads."""
        offset, right_edge = event.get_content_offset(self), 0
        if offset is None:
            return
        for piece in self._pieces:
            right_edge += cells(piece.span.text)
            if offset.x < right_edge:
                if piece.target is not None:
                    self.post_message(self.Clicked(self, piece.target))
                return
