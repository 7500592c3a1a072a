"""Rule: the page of a rule, as `mcpproxy rule` prints it."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.tui.finding_lines import page_lines
from mcpproxy.tui.widgets.pane import Pane


class RuleScreen(ModalScreen[None]):
    """The page of a rule: what it requires, why, how a violation looks on the wire, and what to do instead."""

    DEFAULT_CSS = """
    RuleScreen { align: center middle; }
    RuleScreen Pane { width: 84; max-width: 96%; height: 90%; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,r", "app.pop_screen", "back", id="back")]

    def __init__(self, rule: str) -> None:
        """The page of a rule, by its id."""
        super().__init__()
        self.rule = rule

    def compose(self) -> ComposeResult:
        """The page."""
        yield Pane(id="page")

    def on_mount(self) -> None:
        """Focus it, so that it can be read."""
        self.query_one("#page", Pane).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fill it."""
        width = min(84, event.size.width * 96 // 100) - 5
        self.query_one("#page", Pane).show_lines(page_lines(self.rule, max(20, width)))
