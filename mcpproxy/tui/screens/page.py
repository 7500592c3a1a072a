"""The base of the pages that are shown above a screen: lines of text in a frame that is as large as they need."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span

MAX_TEXT_CELLS: Final = 100
"""The maximum width of a line, in cells; longer ones are hard to read."""
FRAME_CELLS: Final = 5
"""The width of the border, the padding and the scroll bar, in cells."""
BORDER_LINES: Final = 2
"""The height of the border, in lines."""


class PageScreen(ModalScreen[None]):
    """A page."""

    DEFAULT_CSS = """
    PageScreen { align: center middle; }
    PageScreen Pane { border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,r", "app.pop_screen", "back", id="back")]

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        """Returns the text, in lines of at most this width."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The page."""
        yield Pane(id="page")

    def on_mount(self) -> None:
        """Focus the page, so that keys scroll it."""
        self.query_one("#page", Pane).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fill the page, and make its frame as large as its lines."""
        pane, size = self.query_one("#page", Pane), event.size
        lines = self.lines(max(20, min(MAX_TEXT_CELLS, size.width - FRAME_CELLS)))
        text_cells = max((sum(cells(span.text) for span in line) for line in lines), default=0)
        pane.styles.width = min(size.width, text_cells + FRAME_CELLS)
        pane.styles.height = min(size.height, len(lines) + BORDER_LINES)
        pane.show_lines(lines)
