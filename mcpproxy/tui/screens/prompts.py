"""Prompts at the bottom of the screen: for a line of text, or for one of several choices."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from mcpproxy.tui.copies.copy_forms import CopyForm
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span


class LineScreen(ModalScreen[str | None]):
    """Prompts for a line of text; returns None if cancelled."""

    DEFAULT_CSS = """
    LineScreen { align: center bottom; background: $background 30%; }
    LineScreen Vertical { height: 3; background: $panel; border-top: solid $accent; }
    LineScreen FilterBox { display: block; }
    """

    def __init__(self, label: str, text: str = "") -> None:
        """Prepare the prompt.

        Args:
            label: the text of the prompt.
            text: the initial text.
        """
        super().__init__()
        self._label, self._text = label, text

    def compose(self) -> ComposeResult:
        """The label and the line."""
        with Vertical():
            yield SafeText(id="label")
            yield FilterBox("")

    def on_mount(self) -> None:
        """Offer the initial text."""
        self.query_one("#label", SafeText).show(
            [Span(f" {self._label}", "accent"), Span("   Enter accepts, Esc cancels", "dim")]
        )
        self.query_one(FilterBox).open(self._text)

    @on(Input.Submitted)
    def _accept(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    @on(FilterBox.Cancelled)
    def _cancel(self) -> None:
        self.dismiss(None)


class ChoiceScreen(ModalScreen[CopyForm | None]):
    """Prompts for one of several forms, by key; returns None if cancelled."""

    # In a tiny terminal, a scroll bar would take so much room that none is needed, and would come and go for ever.
    DEFAULT_CSS = """
    ChoiceScreen { align: center bottom; background: $background 30%; overflow: hidden; }
    ChoiceScreen SafeText { max-height: 100%; height: auto; }
    ChoiceScreen SafeText { background: $panel; border-top: solid $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "back", id="back")]

    def __init__(self, label: str, forms: Sequence[CopyForm], *, to_file: bool = False) -> None:
        """Prepare the prompt.

        Args:
            label: the text of the prompt.
            forms: the choices.
            to_file: whether a capital letter chooses a file instead of the clipboard.
        """
        super().__init__()
        self._label, self._forms, self._to_file = label, forms, to_file

    def compose(self) -> ComposeResult:
        """The forms."""
        yield SafeText(id="forms")

    def on_mount(self) -> None:
        """Show the forms."""
        hint = ", a capital letter writes a file" if self._to_file else ""
        rows: list[list[Span]] = [[Span(self._label, "accent"), Span(f"   Esc cancels{hint}", "dim")]]
        width = max((cells(form.word) for form in self._forms), default=0)
        for form in self._forms:
            key = Span(f"  {form.key or ' '}  ", "accent" if form.text else "dim")
            remark = f"{' ' * (width - cells(form.word))}   {form.remark}" if form.remark else ""
            rows.append([key, Span(form.word), Span(remark, "dim")])
        self.query_one("#forms", SafeText).show_lines(rows)

    def on_click(self, event: events.Click) -> None:
        """Choose the form that was clicked."""
        offset = event.get_content_offset(self.query_one("#forms"))
        number = offset.y - 1 if offset is not None else -1
        if 0 <= number < len(self._forms) and self._forms[number].text:
            self.dismiss(self._forms[number])

    def on_key(self, event: events.Key) -> None:
        """Choose the form of a key; Enter chooses the first."""
        is_first = event.key == "enter"
        form = next((form for form in self._forms if form.text and (is_first or form.key == event.character)), None)
        if form is None and self._to_file:
            form = next((form for form in self._forms if form.text and form.key.upper() == event.character), None)
            form = form._replace(wants_file=True) if form is not None else None
        if form is not None:
            event.stop()
            self.dismiss(form)
