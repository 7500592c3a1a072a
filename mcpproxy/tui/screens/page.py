"""The base of the pages that are shown above a screen: lines of text in a frame that is as large as they need."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from mcpproxy.tui.host import Host
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span, fit_spans

MAX_TEXT_CELLS: Final = 100
"""The maximum width of a line, in cells; longer ones are hard to read."""
FRAME_CELLS: Final = 5
"""The width of the border, the padding and the scroll bar, in cells."""
FRAME_LINES: Final = 4
"""The height of the border, the title and the empty line below it, in lines."""
KEYS: Final = (Span("  ↑↓ scroll  Esc back", "dim"),)


class PageScreen(ModalScreen[None]):
    """A page, with its own line of keys in the place of those of the screen below."""

    app: Host

    DEFAULT_CSS = """
    PageScreen {
        align: center middle;
        & #frame { background: $surface; border: round $accent; padding: 0 0 0 1; max-height: 100%; }
        & #heading { height: 2; }
        & Pane { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,r", "app.pop_screen", "back", id="back"),
        Binding("question_mark", "help", "help", id="help"),
    ]

    @property
    def title_spans(self) -> Sequence[Span]:
        """What the page is about."""
        raise NotImplementedError

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        """Returns the text, in lines of at most this width."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The page."""
        with Vertical(id="frame"):
            yield SafeText(id="heading")
            yield Pane(id="page")
        yield Foot()

    def on_mount(self) -> None:
        """Focus the page, so that keys scroll it."""
        self.query_one("#page", Pane).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fill the page, and make its frame as large as its lines."""
        frame, size = self.query_one("#frame"), event.size
        lines = self.lines(max(20, min(MAX_TEXT_CELLS, size.width - FRAME_CELLS)))
        heading = self._heading(size.width - FRAME_CELLS)
        text_cells = max(sum(cells(span.text) for span in line) for line in (heading, *lines))
        frame.styles.width = min(size.width, text_cells + FRAME_CELLS)
        frame.styles.height = len(lines) + FRAME_LINES
        self.query_one("#heading", SafeText).show(heading)
        self.query_one("#page", Pane).show_lines(lines)

    def _heading(self, width: int) -> list[Span]:
        """Returns the title and, if there is room, the keys."""
        title, title_cells = fit_spans(self.title_spans, width)
        return [*title, *fit_spans(KEYS, width - title_cells)[0]]

    def action_help(self) -> None:
        """Show every key, those of pages first."""
        self.app.push_screen(HelpScreen("page"))
