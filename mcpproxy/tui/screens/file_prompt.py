"""File prompt: asks for the name of a new file, at the bottom of the screen.

A name that cannot be used stays in the box with the reason below it. Nothing is created here: the caller creates the
file, and must handle the case that it exists by then.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from mcpproxy.tui.completion import Completion
from mcpproxy.tui.copies.file_names import FileNameError, folder_completion, new_file_path
from mcpproxy.tui.host import Host
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.filter_box import LineBox
from mcpproxy.tui.widgets.path_box import PathBox
from mcpproxy.wording.spans import Span


class FileOffer(NamedTuple):
    """What can be written to a file."""

    label: str
    """The question, such as `export 12 rows to`."""
    name: str
    """The name of the file that is suggested."""
    other: str = ""
    """The hint for `Ctrl+T` while another offer is shown, such as `12 rows instead`."""
    labels: Mapping[str, str] = {}
    """The questions for extensions that have one of their own."""


class NewFile(NamedTuple):
    """The user's choice."""

    path: Path
    offer: int
    """The number of the offer."""


class FilePrompt(ModalScreen[NewFile | None]):
    """Prompts for the name of a new file; returns None if cancelled."""

    app: Host

    # In a tiny terminal, a scroll bar would take so much room that none is needed, and would come and go for ever.
    DEFAULT_CSS = """
    FilePrompt { align: center bottom; background: $background 30%; overflow: hidden; }
    FilePrompt Vertical { height: auto; max-height: 100%; background: $panel; border-top: solid $accent; }
    FilePrompt SafeText { height: auto; max-height: 3; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "other", "other rows", show=False, priority=True, id="other-rows")
    ]

    def __init__(self, offers: Sequence[FileOffer], formats: Mapping[str, str] | None = None) -> None:
        """Prepare the prompt.

        Args:
            offers: what can be written; the first is offered at first.
            formats: what each extension of a name means, or an empty text if it means the same as the one before; None
                if the name may have any.
        """
        super().__init__()
        self._offers, self._formats = list(offers), formats or {}
        self._number = 0
        """The number of the offer that is shown."""
        self._completed_text: str | None = None
        """The text after the last completion, whose continuations are shown."""
        self._thread = ThreadPoolExecutor(1, "names")

    def compose(self) -> ComposeResult:
        """The question, the name, and what its extension means or what is wrong."""
        with Vertical():
            yield SafeText(id="label")
            yield PathBox()
            yield SafeText(id="note")

    def on_mount(self) -> None:
        """Offer the first name."""
        self._show_label()
        self.box.open(self._offers[0].name)
        self._show_formats()

    def on_unmount(self) -> None:
        """Cancel what has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def box(self) -> PathBox:
        """The box for the name."""
        return self.query_one(PathBox)

    def _show_label(self) -> None:
        hints = "   Enter accepts, Esc cancels, Tab completes"
        offer = self._offers[self._number]
        label = Span(offer.labels.get(self._suffix, offer.label), "accent")
        other = self._offers[(self._number + 1) % len(self._offers)].other if len(self._offers) > 1 else ""
        self.query_one("#label", SafeText).show(
            [label, *([Span(f"   Ctrl+T: {other}")] * bool(other)), Span(hints, "dim")]
        )

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        """Show what the extensions mean, unless the text was completed and its continuations are shown."""
        self._show_label()
        if event.value != self._completed_text:
            self._completed_text = None
            self._show_formats()

    @property
    def _suffix(self) -> str:
        """The extension of the name, in lower case."""
        return Path(self.box.value).suffix.lower()

    def _show_formats(self) -> None:
        spans = [
            Span(f"{suffix} {meaning}   ", "accent" if suffix == self._suffix else "dim")
            for suffix, meaning in self._formats.items()
            if meaning
        ]
        self._show_note(spans)

    def _show_note(self, spans: Sequence[Span]) -> None:
        note = self.query_one("#note", SafeText)
        note.show(spans)
        note.display = bool(spans)

    # ---- keys

    def action_other(self) -> None:
        """Offer something else; a name that the user has typed stays."""
        is_typed = self.box.value != self._offers[self._number].name
        self._number = (self._number + 1) % len(self._offers)
        self._show_label()
        if not is_typed:
            self.box.open(self._offers[self._number].name)

    @on(PathBox.CompletionRequested)
    def _complete(self, event: PathBox.CompletionRequested) -> None:
        def search() -> None:
            self.call_later(self._show_completion, *folder_completion(event.text))

        self.app.key_queue.wait_for(self._thread.submit(search))

    def _show_completion(self, typed: str, completion: Completion | None) -> None:
        if completion is None:
            self._show_note([Span("no folder begins like that", "dim")])
            return
        self.box.complete(typed, completion.text)
        if completion.options:
            self._completed_text = self.box.value
            self._show_note([Span("  ".join(completion.options), "dim")])

    @on(Input.Submitted)
    def _accept(self, event: Input.Submitted) -> None:
        event.stop()

        def check() -> None:
            try:
                path = new_file_path(event.value, self._formats)
            except FileNameError as error:
                self.call_later(self._refuse, str(error))
            else:
                self.call_later(self._choose, NewFile(path, self._number))

        self.app.key_queue.wait_for(self._thread.submit(check))

    def _choose(self, file: NewFile) -> None:
        self.dismiss(file)

    def _refuse(self, reason: str) -> None:
        """Say what is wrong with the name, and select what to change."""
        self._show_note([Span(reason, "bad")])
        self.box.select_stem()

    @on(LineBox.Cancelled)
    def _cancel(self) -> None:
        self.dismiss(None)
