"""Filter box: one line of input, with a history for each screen."""

from collections import deque
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from mcpproxy.history import filters_of, remember_filter
from mcpproxy.sanitise import sanitise

MAX_INPUT_CHARS: Final = 4096
MAX_HISTORY_ENTRIES: Final = 50


class LineBox(Input):
    """One line of input. Text that is pasted into it is sanitised."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", show=False)]

    class Cancelled(Message):
        """Escape was pressed."""

    def __init__(self, placeholder: str, *, is_edited: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """Create an empty box.

        Args:
            placeholder: the text of the empty box.
            is_edited: whether typing adds to the text with which the box is opened; otherwise it replaces that text.
            id: the id of the widget.
        """
        super().__init__(
            placeholder=placeholder, id=id, max_length=MAX_INPUT_CHARS, compact=True, select_on_focus=not is_edited
        )

    def open(self, text: str = "") -> None:
        """Show the box with a text, and give it the focus."""
        self.value = sanitise(text, MAX_INPUT_CHARS)
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    def action_leave(self) -> None:
        """Leave the box."""
        self.post_message(self.Cancelled())

    def _on_paste(self, event: events.Paste) -> None:
        """Sanitise pasted text, which may contain anything."""
        event.prevent_default()
        event.stop()
        self.insert_text_at_cursor(sanitise(event.text.splitlines()[0] if event.text else "", MAX_INPUT_CHARS))


class FilterBox(LineBox):
    """One line for an expression; ↑ and ↓ go through earlier expressions, including those of previous runs."""

    DEFAULT_CSS = """
    FilterBox { height: 1; border: none; background: $panel; display: none; }
    FilterBox.-textual-compact { padding: 0 1; }
    FilterBox:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "apply"),
        Binding("escape", "leave", "cancel"),
        Binding("up", "earlier(1)", "earlier"),
        Binding("down", "earlier(-1)", "Later", show=False),
    ]

    def __init__(self, placeholder: str, *, of: str = "", is_edited: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """Create an empty box.

        Args:
            placeholder: the text of the empty box.
            of: the name of the history; empty for none.
            is_edited: whether typing adds to the text with which the box is opened; otherwise it replaces that text.
            id: the id of the widget.
        """
        super().__init__(placeholder, is_edited=is_edited, id=id)
        self._history_name = of
        self.history: deque[str] = deque(maxlen=MAX_HISTORY_ENTRIES)
        """Earlier expressions, the newest first."""
        self._history_position = -1

    def on_mount(self) -> None:
        """Load the history."""
        if self._history_name:
            self.history.extend(
                text[:MAX_INPUT_CHARS] for text in reversed(filters_of(self._history_name)[-MAX_HISTORY_ENTRIES:])
            )

    def open(self, text: str = "") -> None:
        """Show the box with a text, and give it the focus."""
        self._history_position = -1
        super().open(text)

    def remember(self, text: str) -> None:
        """Remember an expression."""
        if text in self.history:
            self.history.remove(text)
        if text:
            self.history.appendleft(text)
            if self._history_name:
                remember_filter(self._history_name, text)

    @property
    def text_before_cursor(self) -> str:
        """The text up to the cursor."""
        return self.value[: self.cursor_position]

    def complete(self, word: str, text: str) -> None:
        """Replace the word before the cursor with a text."""
        position = self.cursor_position
        self.value = self.value[: position - len(word)] + sanitise(text, MAX_INPUT_CHARS) + self.value[position:]
        self.cursor_position = position - len(word) + len(text)

    def action_earlier(self, by: int) -> None:
        """Show the previous or next expression."""
        position = self._history_position + by
        if -1 <= position < len(self.history):
            self._history_position = position
            self.value = sanitise(self.history[position], MAX_INPUT_CHARS) if position >= 0 else ""
            self.cursor_position = len(self.value)
