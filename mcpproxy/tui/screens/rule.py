"""Rule: the page of a rule, as `mcpproxy rule` prints it, or the pages of several rules, one below the other."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.tui.rows.finding_lines import page_lines
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.wording.spans import Span


class RuleScreen(ModalScreen[None]):
    """The page of a rule: what it requires, why, how a violation looks on the wire, and what to do instead."""

    DEFAULT_CSS = """
    RuleScreen { align: center middle; }
    RuleScreen Pane { width: 84; max-width: 96%; height: 90%; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,r", "app.pop_screen", "back", id="back")]

    def __init__(self, *rules: str) -> None:
        """Create the pages of the rules with these ids."""
        super().__init__()
        self.rules = rules

    def compose(self) -> ComposeResult:
        """The page."""
        yield Pane(id="page")

    def on_mount(self) -> None:
        """Focus the page, so that keys scroll it."""
        self.query_one("#page", Pane).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fill the page, and wrap its lines."""
        width = min(84, event.size.width * 96 // 100) - 5
        lines: list[list[Span]] = []
        for rule in self.rules:
            lines += [
                *([[], [Span("─" * max(20, width), "dim")], []] if lines else []),
                *page_lines(rule, max(20, width)),
            ]
        self.query_one("#page", Pane).show_lines(lines)
