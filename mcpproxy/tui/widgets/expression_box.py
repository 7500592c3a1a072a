"""Expression box: a line for a filter expression, and above it what is wrong with it, or suggested completions.

Each change of the text is reported, so that the filter applies while it is typed. What is wrong with an unfinished
expression is said quietly, in one line that is always there, so that the list above does not move.
"""

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from analysis.filter import FilterError, parse
from mcpproxy.history import save_filter, saved_filters
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.completion import filter_completion
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.saved_filters import expanded, is_name
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screens.prompts import LineScreen
from mcpproxy.tui.widgets.filter_box import FilterBox, LineBox
from mcpproxy.wording.cells import fit
from mcpproxy.wording.spans import Span

MAX_SUGGESTIONS_WIDTH: Final = 300
"""The maximum width of Tab's suggestions, in cells."""
HINT: Final = "Enter keeps, Esc restores, Tab completes, Ctrl+S saves, @ uses a saved one"


class ExpressionBox(Vertical):
    """The box for the filter of the traffic."""

    DEFAULT_CSS = """
    ExpressionBox {
        height: auto;
        & #wrong { height: auto; max-height: 4; display: none; padding: 0 1; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", "save", id="save-filter")]

    class Typed(Message):
        """The text has changed; it may be invalid."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Entered(Message):
        """A valid or empty expression was entered."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Cancelled(Message):
        """The box was left without an expression."""

    def __init__(self, reading: Reading) -> None:
        """Create the box, hidden.

        Args:
            reading: the capture, which has the names that can complete a term.
        """
        super().__init__()
        self._reading = reading
        self._line = FilterBox("method:tools/call latency>100ms …", of="traffic", is_edited=True, id="filter")
        self._message_box = SafeText(id="wrong")
        self._suggested_for = ""
        self._saved: dict[str, str] = {}
        """The saved filters by their names, as of when the box was opened."""

    def compose(self) -> ComposeResult:
        """The line, and the message about it."""
        yield self._message_box
        yield self._line

    @property
    def is_open(self) -> bool:
        """Whether the box is shown."""
        return self._line.display

    def open(self, text: str) -> None:
        """Show the box with an expression, and give it the focus."""
        self._saved = saved_filters()
        self._say([Span(HINT, "dim")])
        self._line.open(text)

    def close(self) -> None:
        """Hide the box."""
        self._line.display = self._message_box.display = False

    def complete(self) -> None:
        """Complete the term before the cursor."""
        term, completion = filter_completion(self._line.text_before_cursor, self._reading.kinds.all, self._saved)
        if completion is not None and completion.text != term:
            self._line.complete(term, completion.text)
        if completion is not None and completion.options:
            self._say([Span(fit("  ".join(map(sanitise, completion.options)), MAX_SUGGESTIONS_WIDTH), "dim")])
            self._suggested_for = self._line.value

    def action_save(self) -> None:
        """Prompt for a name and save the expression under it, or delete the filter of that name if it is empty."""
        text = self._expression(self._line.value.strip())
        if text is not None:
            label = "save this filter as @" if text else "delete the saved filter @"
            self.app.push_screen(LineScreen(label), lambda name: self._save(name, text))

    def _save(self, entered_name: str | None, text: str) -> None:
        name = (entered_name or "").strip().removeprefix("@")
        if not name:
            return
        if not is_name(name):
            notify(self.app, "expected a name of letters, digits, - and _", bad=True)
        elif not text and name not in self._saved:
            notify(self.app, f"no filter is saved as @{name}", bad=True)
        else:
            save_filter(name, text)
            self._saved = saved_filters()
            is_kept = self._saved.get(name, "") == text
            outcome = f"saved as @{name}" if text else f"@{name} is deleted"
            notify(self.app, outcome if is_kept else "cannot write to the state directory", bad=not is_kept)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if not self.is_open:
            return
        # An error in the unfinished expression does not hide Tab's suggestions.
        if event.value != self._suggested_for:
            self._suggested_for = ""
            self._say([Span(HINT, "dim")])
            text = self._expression(event.value.strip(), is_finished=False)
        else:
            text = self._expression(event.value.strip(), is_told=False)
        if text is not None:
            self.post_message(self.Typed(text))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = self._expression(event.value.strip())
        if text is not None:
            self._line.remember(text)
            self.post_message(self.Entered(text))

    @on(LineBox.Cancelled)
    def _cancelled(self, event: LineBox.Cancelled) -> None:
        event.stop()
        self.post_message(self.Cancelled())

    def _expression(self, text: str, *, is_finished: bool = True, is_told: bool = True) -> str | None:
        """Returns an expression with saved filters in place of their names, or None if it is invalid.

        Args:
            text: the expression.
            is_finished: whether to point at what is wrong; otherwise, it is only mentioned.
            is_told: whether to say what is wrong at all.
        """
        try:
            expression = expanded(text, self._saved)
            if expression:
                parse(expression)
        except FilterError as error:
            if is_told and is_finished:
                self._message_box.show_lines([[Span(line, "bad")] for line in str(error).splitlines()])
            elif is_told:
                self._say([Span(error.problem, "dim")])
            return None
        return expression

    def _say(self, spans: list[Span]) -> None:
        """Show one line above the text."""
        self._message_box.show_lines([spans])
        self._message_box.display = True
