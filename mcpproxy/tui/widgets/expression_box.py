"""Expression box: a line for a filter expression, and above it the expression's error or suggested completions."""

from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from analysis.filter import FilterError, parse
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.completion import filter_completion
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.wording.cells import fit
from mcpproxy.wording.spans import Span

MAX_SUGGESTIONS_WIDTH: Final = 300
"""The maximum width of Tab's suggestions, in cells."""


class ExpressionBox(Vertical):
    """The box for the filter of the traffic."""

    DEFAULT_CSS = """
    ExpressionBox {
        height: auto;
        & #wrong { height: auto; max-height: 4; display: none; padding: 0 1; background: $panel; }
    }
    """

    class Entered(Message):
        """A valid or empty expression was entered."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

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
        self._line.open(text)

    def close(self) -> None:
        """Hide the box."""
        self._line.display = self._message_box.display = False

    def complete(self) -> None:
        """Complete the term before the cursor."""
        term, completion = filter_completion(self._line.text_before_cursor, self._reading.kinds.all)
        if completion is not None and completion.text != term:
            self._line.complete(term, completion.text)
        if completion is not None and completion.options:
            self._message_box.show(
                [Span(fit("  ".join(map(sanitise, completion.options)), MAX_SUGGESTIONS_WIDTH), "dim")]
            )
            self._message_box.display = True
            self._suggested_for = self._line.value

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        # An error in the unfinished expression does not hide Tab's suggestions.
        if event.value != self._suggested_for:
            self._suggested_for = ""
            self._check(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if self._check(text):
            self._line.remember(text)
            self.post_message(self.Entered(text))

    def _check(self, text: str) -> bool:
        """Check an expression, and show where it is wrong; returns whether it is valid."""
        try:
            if text.strip():
                parse(text)
        except FilterError as error:
            self._message_box.show_lines([[Span(line, "bad")] for line in str(error).splitlines()])
            self._message_box.display = True
            return False
        self._message_box.display = False
        return True
