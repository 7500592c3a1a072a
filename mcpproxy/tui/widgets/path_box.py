"""Path box: a line for the name of a file. The name without its extension is selected, so that typing replaces it.

Tab completes the names of folders; the box asks for them, because a disk must not be read while the screen is drawn.
"""

from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets.input import Selection

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.widgets.filter_box import MAX_INPUT_CHARS, LineBox


class PathBox(LineBox):
    """One line for the name of a file."""

    DEFAULT_CSS = """
    PathBox { height: 1; border: none; background: $panel; }
    PathBox.-textual-compact { padding: 0 1; }
    PathBox:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", "complete", show=False, id="panes")]

    class CompletionRequested(Message):
        """Tab was pressed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text
            """The text up to the cursor."""

    def __init__(self) -> None:
        super().__init__("the name of a new file", is_edited=True)

    def open(self, text: str = "") -> None:
        """Show the box with a name, and give it the focus."""
        super().open(text)
        self.select_stem()

    def select_stem(self) -> None:
        """Select the name of the file without its folder and its extension."""
        start = self.value.rfind("/") + 1
        suffix = Path(self.value[start:]).suffix
        self.selection = Selection(start, len(self.value) - len(suffix))

    def complete(self, typed: str, text: str) -> None:
        """Replace a text before the cursor by a longer one, unless the user has typed on."""
        if self.value[: self.cursor_position].endswith(typed):
            position = self.cursor_position
            self.value = sanitise(self.value[: position - len(typed)] + text, MAX_INPUT_CHARS) + self.value[position:]
            self.cursor_position = position - len(typed) + len(text)

    def action_delete_left_all(self) -> None:
        """Delete all up to the cursor; all of the name while part of it is selected."""
        if self.selection.is_empty:
            super().action_delete_left_all()
        else:
            self.value = ""

    def action_complete(self) -> None:
        """Ask for the folders that begin with the text up to the cursor."""
        position = self.cursor_position if self.selection.is_empty else len(self.value)
        self.cursor_position = position
        self.post_message(self.CompletionRequested(self.value[:position]))
