"""Word box: filters rows by words as they are typed; Esc in the box shows all rows again."""

from textual import on
from textual.message import Message
from textual.widgets import Input

from mcpproxy.tui.widgets.filter_box import FilterBox, LineBox


class WordBox(FilterBox):
    """A line for words."""

    words = ""
    """The words that the rows must contain; empty if all rows are shown."""

    class WordsChanged(Message):
        """The words have changed."""

    class Confirmed(Message):
        """Enter was pressed: the words stay, and the box is no longer needed."""

    def edit(self) -> None:
        """Show the box with the current words."""
        self.open(self.words)

    def set_words(self, words: str) -> None:
        """Filter by other words."""
        self.words = words
        self.post_message(self.WordsChanged())

    def clear_words(self) -> bool:
        """Show all rows again; returns False if they all are shown already."""
        had_words = bool(self.words)
        if had_words:
            self.set_words("")
        return had_words

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.set_words(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.remember(event.value)
        self.post_message(self.Confirmed())

    @on(LineBox.Cancelled)
    def _show_all(self) -> None:
        self.set_words("")
