"""Word box: filters rows by words as they are typed; Esc shows all rows again, Enter and Tab keep the words."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from mcpproxy.tui.completion import completion_of
from mcpproxy.tui.widgets.filter_box import FilterBox, LineBox


class WordBox(FilterBox):
    """A line for words."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", "complete", show=False, id="panes")]

    words = ""
    """The words that the rows must contain; empty if all rows are shown."""
    known_words: Callable[[], Iterable[str]] = staticmethod(tuple)
    """Returns the words that can complete one, in lower case."""

    class WordsChanged(Message):
        """The words have changed."""

    class Confirmed(Message):
        """Enter or Tab was pressed: the words stay, and the box is no longer needed."""

    def edit(self) -> None:
        """Show the box with the current words."""
        self.open(self.words)

    def set_words(self, words: str) -> None:
        """Filter by other words."""
        self.words = words
        self.post_message(self.WordsChanged())

    def clear_words(self) -> bool:
        """Show all rows again, and hide the box; returns False if there is neither a word nor the box."""
        had_any = bool(self.words) or self.display
        self.display, self.value = False, ""
        if self.words:
            self.set_words("")
        return had_any

    def action_complete(self) -> None:
        """Complete the word before the cursor; if there is nothing to complete, keep the words as they are."""
        word = ["", *self.text_before_cursor.split(" ")][-1]
        completion = completion_of(word, self.known_words()) if word else None
        if completion is not None and completion.text != word:
            self.complete(word, completion.text)
        else:
            self._confirm()

    def _confirm(self) -> None:
        self.remember(self.value)
        self.post_message(self.Confirmed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.set_words(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._confirm()

    @on(LineBox.Cancelled)
    def _show_all(self) -> None:
        self.set_words("")
