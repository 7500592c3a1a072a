"""Expression box: a line for a filter expression, and above it what is wrong with it, or suggested completions.

Each change of the text is reported, so that the filter applies while it is typed, without what is half-typed at its
end. What can follow, or what is wrong, is said in one line that is always there, so that the list above does not move.
"""

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from analysis.filter import KEYS, FilterError, parse
from mcpproxy.history import save_filter, saved_filters
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.completion import Completion, filter_completion, finished_part
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
        & #typed { height: 1; display: none; padding: 0 1; background: $panel; }
        & #typed-label { width: auto; }
        & #filter { width: 1fr; padding: 0; }
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
        self._saved: dict[str, str] = {}
        """The saved filters by their names, as of when the box was opened."""

    def compose(self) -> ComposeResult:
        """The line, and the message about it."""
        yield self._message_box
        with Horizontal(id="typed"):
            yield SafeText(id="typed-label")
            yield self._line

    def on_mount(self) -> None:
        """Name the line."""
        self.query_one("#typed-label", SafeText).show([Span("filter ", "accent")])

    @property
    def is_open(self) -> bool:
        """Whether the box is shown."""
        return self._line.display

    def open(self, text: str) -> None:
        """Show the box with an expression, and give it the focus."""
        self._saved = saved_filters()
        self._say([Span(HINT, "dim")])
        self.query_one("#typed").display = True
        self._line.open(text)

    def close(self) -> None:
        """Hide the box."""
        self._line.display = self._message_box.display = self.query_one("#typed").display = False

    def complete(self) -> None:
        """Complete the term before the cursor; if there is nothing to complete, enter the expression."""
        term, completion = self._completion()
        if completion is None:
            self._enter()
        elif completion.text != term:
            self._line.complete(term, completion.text)
        else:
            self._say(_suggestion(completion))

    def _completion(self) -> tuple[str, Completion | None]:
        return filter_completion(self._line.text_before_cursor, self._reading.kinds.all, self._saved)

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
        try:
            expression = self._parsed(finished_part(event.value))
        except FilterError as error:
            self._say(self._remark(error))
        else:
            self._say(self._remark(None))
            self.post_message(self.Typed(expression))

    def _remark(self, error: FilterError | None) -> list[Span]:
        """How the term before the cursor can go on, or what is wrong."""
        term, completion = self._completion()
        if term and completion is not None and (error is None or self._is_valid_without(term)):
            return _suggestion(completion)
        if error is None:
            return [Span(HINT, "dim")]
        return [Span(error.problem, "dim" if term.endswith((":", "=", "<", ">")) else "bad")]

    def _is_valid_without(self, term: str) -> bool:
        """Whether only the term before the cursor can be wrong."""
        before = self._line.text_before_cursor
        try:
            self._parsed(finished_part(before[: len(before) - len(term)]))
        except FilterError:
            return False
        return True

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._enter()

    def _enter(self) -> None:
        text = self._expression(self._line.value.strip())
        if text is not None:
            self._line.remember(self._line.value.strip())
            self.post_message(self.Entered(text))

    @on(LineBox.Cancelled)
    def _cancelled(self, event: LineBox.Cancelled) -> None:
        event.stop()
        self.post_message(self.Cancelled())

    def _expression(self, text: str) -> str | None:
        """Returns an expression with saved filters in place of their names, or points at what is wrong."""
        try:
            return self._parsed(text)
        except FilterError as error:
            self._message_box.show_lines([[Span(line, "bad")] for line in str(error).splitlines()])
            return None

    def _parsed(self, text: str) -> str:
        """Returns a valid expression with saved filters in place of their names.

        Raises:
            FilterError: the expression is invalid.
        """
        expression = expanded(text, self._saved)
        if expression:
            parse(expression)
        return expression

    def _say(self, spans: list[Span]) -> None:
        """Show one line above the text."""
        self._message_box.show_lines([spans])
        self._message_box.display = True


def _suggestion(completion: Completion) -> list[Span]:
    """What a term can become, in one line; if that is a single key, also what the key is about."""
    options = fit("  ".join(map(sanitise, completion.options or (completion.text,))), MAX_SUGGESTIONS_WIDTH)
    key = None if completion.options else KEYS.get(completion.text.rstrip(":>"))
    meaning = f"  {key.meaning}" if key is not None else ""
    return [Span("Tab ", "dim"), Span(options), Span(meaning, "dim")]
