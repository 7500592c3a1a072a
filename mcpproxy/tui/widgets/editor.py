"""Editor: lines of SQL. Enter runs them, Ctrl+J begins a new line, Tab completes, ↑ and ↓ go through the history.

Keywords, strings, numbers, comments and the names that can be queried are highlighted as they are typed, and so is the
place of an error until the text changes.

Textual's text area draws its content unchanged, so all text is sanitised before it enters this one: typed characters
are always printable, and pasted text and the history go through `sanitise`, line by line.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar, Final

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from mcpproxy.sanitise import sanitise
from mcpproxy.sql.error_place import ErrorPlace
from mcpproxy.sql.highlighting import tokens_of
from mcpproxy.tui.completion import Completion, completion_of

MAX_PASTE_CHARS: Final = 65_536
"""The maximum number of characters of a text that is pasted or set."""
NEW_LINE_KEYS: Final = ("ctrl+j", "shift+enter", "alt+enter")


class Editor(TextArea):
    """An input for SQL."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "editor--keyword", "editor--string", "editor--number", "editor--comment", "editor--name", "editor--error",
    }  # fmt: skip
    DEFAULT_CSS = """
    Editor {
        height: auto; min-height: 1; max-height: 40%; padding: 0 1; background: $panel;
        & .editor--keyword { color: $accent; text-style: bold; }
        & .editor--string { color: $text-warning; }
        & .editor--number { color: $text-warning; }
        & .editor--comment { color: $dim; text-style: italic; }
        & .editor--name { color: $text-success; }
        & .editor--error { color: $text-error; text-style: bold underline; }
    }
    Editor:focus { border: none; }
    """

    class Submitted(Message):
        """Enter was pressed, to run the text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Tabbed(Message):
        """Tab was pressed. Contains the matches, or None if there is nothing to complete."""

        def __init__(self, completion: Completion | None) -> None:
            super().__init__()
            self.completion = completion

    def __init__(self, names: Callable[[str, str], Sequence[str]], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        """Create an empty editor.

        Args:
            names: returns the candidates for a text and the part of it before the word, the likeliest first.
            id: the id of the widget.
        """
        super().__init__("", id=id, compact=True, highlight_cursor_line=False)
        self._names = names
        self.earlier_inputs: list[str] = []
        """Earlier inputs, the newest last."""
        self._history_position = 0
        self._draft = ""
        self._keywords: Collection[str] = ()
        self._known_names: Collection[str] = ()
        self._highlighted_text: str | None = None
        """The text to which the highlights belong."""
        self._highlights_by_line: dict[int, list[tuple[str, int, int]]] = {}
        """The component class and the characters of each highlight."""
        self._error: tuple[str, ErrorPlace] | None = None
        """The text with an error, and its place."""

    # ---- highlights

    def show_names(self, keywords: Collection[str], names: Collection[str]) -> None:
        """Highlight other keywords and names, which are in lower case."""
        if keywords != self._keywords or names != self._known_names:
            self._keywords, self._known_names = keywords, names
            self._draw_highlights_again()

    def show_error(self, place: ErrorPlace) -> None:
        """Mark the place of an error until the text changes, and put the cursor there."""
        self._error = self.text, place
        self.move_cursor((place.line, place.start))
        self._draw_highlights_again()

    def get_line(self, line_index: int) -> Any:  # the type is rich's, which only `safe_text` imports
        """Returns a line with its highlights."""
        text, line = self.text, super().get_line(line_index)
        if text != self._highlighted_text:
            self._highlighted_text, self._highlights_by_line = text, {}
            for name, number, start, end in self._highlight_places(text):
                self._highlights_by_line.setdefault(number, []).append((name, start, end))
        for name, start, end in self._highlights_by_line.get(line_index, ()):
            line.stylize(self.get_component_rich_style(f"editor--{name}", partial=True), start, end)
        return line

    def _highlight_places(self, text: str) -> Iterator[tuple[str, int, int, int]]:
        """Yields the name of each highlight, its line, its first character there, and the one after its last."""
        line = line_start = 0
        for token in tokens_of(text, self._keywords, self._known_names):
            start = token.start
            while (line_end := text.find("\n", line_start)) >= 0 and line_end < token.end:
                if start < line_end:
                    yield token.kind, line, max(0, start - line_start), line_end - line_start
                line, line_start = line + 1, line_end + 1
                start = max(start, line_start)
            if start < token.end:
                yield token.kind, line, start - line_start, token.end - line_start
        if self._error is not None and self._error[0] == text:
            place = self._error[1]
            yield "error", place.line, place.start, max(place.end, place.start + 1)

    def _draw_highlights_again(self) -> None:
        self._highlighted_text = None
        self._line_cache.clear()
        self.refresh()

    # ---- the text

    def set_text(self, text: str) -> None:
        """Replace the text."""
        self.load_text(_printable(text))
        self.move_cursor(self.document.end)

    def suggest_text(self, text: str) -> None:
        """Replace the text, and keep the current one in the history."""
        self._move_to_history()
        self.set_text(text)

    def insert_name(self, name: str) -> None:
        """Insert a name at the cursor, apart from the word before it."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        self.insert(f" {name}" if re.search(r"[\w\"']$", before) else name)

    def submit(self) -> None:
        """Run the text, and remember it."""
        self.post_message(self.Submitted(self._move_to_history()))

    def _move_to_history(self) -> str:
        """Move the text to the history; returns it."""
        text = self.text.strip()
        if text and self.earlier_inputs[-1:] != [text]:
            self.earlier_inputs.append(text)
        self._history_position, self._draft = 0, ""
        return text

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # Textual awaits it only if awaitable
        if event.key in NEW_LINE_KEYS:
            self.insert("\n")
        elif event.key == "enter":
            self.submit()
        elif event.key == "tab":
            self._complete()
        else:
            return
        event.stop()
        event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:  # type: ignore[override]
        event.stop()
        event.prevent_default()
        self.insert(_printable(event.text))

    def action_delete_to_start_of_line(self) -> None:
        """Delete the text up to the cursor; all of it while it has an error, to whose place the cursor was moved."""
        if self._error is not None and self._error[0] == self.text:
            self.clear()
        else:
            super().action_delete_to_start_of_line()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move one line up; on the first line, show the previous entry of the history."""
        if select or self.cursor_location[0] > 0 or not self._recall(1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move one line down; on the last line, show the next entry of the history."""
        if select or self.cursor_location[0] < self.document.line_count - 1 or not self._recall(-1):
            super().action_cursor_down(select)

    def _recall(self, by: int) -> bool:
        position = self._history_position + by
        if not 0 <= position <= len(self.earlier_inputs):
            return False
        if not self._history_position:
            self._draft = self.text
        self._history_position = position
        self.set_text(self.earlier_inputs[-position] if position else self._draft)
        return True

    def _complete(self) -> None:
        row, column = self.cursor_location
        line_start = self.document.get_line(row)[:column]
        match = re.search(r"\w*$", line_start)
        word = match[0] if match else ""
        before = self.get_text_range((0, 0), (row, column - len(word)))
        completion = completion_of(word, self._names(self.text, before)) if word else None
        if completion is not None and completion.text != word:
            self.replace(completion.text, (row, column - len(word)), (row, column))
            self.move_cursor((row, column - len(word) + len(completion.text)))
        self.post_message(self.Tabbed(completion if word else None))


def _printable(text: str) -> str:
    """Returns a text in which every character is visible, and only line feeds end a line."""
    lines = text[:MAX_PASTE_CHARS].expandtabs(4).splitlines()
    return "\n".join(sanitise(line, None) for line in lines)
