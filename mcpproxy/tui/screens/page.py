"""The base of the pages that are shown above a screen: lines of text in a frame, wrapped to its width."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.wording.spans import Span


class PageScreen(ModalScreen[None]):
    """A page."""

    DEFAULT_CSS = """
    PageScreen { align: center middle; }
    PageScreen Pane { width: 84; max-width: 96%; height: 90%; border: round $accent; padding: 0 1; }
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
        """Fill the page, and wrap its lines."""
        width = min(84, event.size.width * 96 // 100) - 5
        self.query_one("#page", Pane).show_lines(self.lines(max(20, width)))
