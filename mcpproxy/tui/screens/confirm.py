"""Confirm: a question at the bottom of the screen, answered by `y`; anything else means no."""

from collections.abc import Iterable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.tui.safe_text import SafeText
from mcpproxy.wording.spans import Span


class ConfirmScreen(ModalScreen[bool]):
    """Asks a question; returns whether the user has typed `y`."""

    DEFAULT_CSS = """
    ConfirmScreen { align: center bottom; background: $background 30%; }
    ConfirmScreen SafeText { height: auto; background: $panel; border-top: solid $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(False)", "back", id="back")]

    def __init__(self, question: str, details: Iterable[str]) -> None:
        """Prepare the question.

        Args:
            question: the question, without the keys that answer it.
            details: lines below it.
        """
        super().__init__()
        self._question, self._details = question, list(details)

    def compose(self) -> ComposeResult:
        """The question."""
        yield SafeText(id="question")

    def on_mount(self) -> None:
        """Show the question and its details."""
        rows: list[list[Span]] = [[Span(f"{self._question} [y/N]", "accent")]]
        self.query_one("#question", SafeText).show_lines([*rows, *([Span(f"  {line}")] for line in self._details)])

    def on_key(self, event: events.Key) -> None:
        """Dismiss the question with the answer."""
        event.stop()
        self.dismiss(event.character == "y")
