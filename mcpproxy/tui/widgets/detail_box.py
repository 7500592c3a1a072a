"""Detail box: tabs, one view of a row and, on a wide terminal, the row's exchange and findings beside it.

A thread reads the content from the file.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from mcpproxy.marks import Marks
from mcpproxy.report.text import Span
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.detail import VIEWS, Detail, detail, entry_name, exchange_lines
from mcpproxy.tui.finding_lines import short_lines
from mcpproxy.tui.messages import DetailRead
from mcpproxy.tui.safe_text import Words
from mcpproxy.tui.widgets.pane import Pane

SIDE_BY_SIDE: Final = 110
"""The terminal width from which there is room beside a list or a detail."""
BESIDE: Final = 41
"""Cells of a line beside the detail."""
MARGIN: Final = 4
"""Cells of a terminal line that the detail cannot use."""
MARGIN_BESIDE: Final = 50
"""The same if the exchange is shown beside it."""
NARROWEST: Final = 10
"""The least width for which the detail is laid out, in cells."""


class DetailBox(Vertical):
    """The detail of the row at the cursor; hidden at first."""

    DEFAULT_CSS = """
    DetailBox {
        height: 45%; display: none;
        & #tabs { height: 1; background: $panel; padding: 0 1; }
        & #text { width: 1fr; padding: 0 1; }
        & #beside { width: 44; display: none; padding: 0 1; border-left: solid $panel; }
    }
    """

    def __init__(
        self,
        reading: Reading,
        marks: Marks,
        entry: Callable[[], int | None],
        *,
        id: str,  # noqa: A002 - Textual's name
    ) -> None:
        """Create it hidden.

        Args:
            reading: the capture.
            marks: its marks.
            entry: returns the entry at the cursor.
            id: of the widget.
        """
        super().__init__(id=id)
        self.view, self.page, self.pages = VIEWS[0], 0, 1
        self._reading, self._marks, self._entry = reading, marks, entry
        self._shown: tuple[object, ...] = ()
        """Everything that determines the detail, as of the last reading."""
        self._silence: tuple[int, str] = -1, ""
        """The entry whose response was examined, and which content of it is empty."""
        self._thread = ThreadPoolExecutor(1, "detail")

    def compose(self) -> ComposeResult:
        """The tabs, the detail, and what is beside it."""
        yield Words(id="tabs")
        with Horizontal():
            yield Pane(id="text")
            yield Words(id="beside")

    def on_unmount(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def resize(self, width: int) -> None:
        """Fit it to the width of the terminal."""
        self.query_one("#beside").display = width >= SIDE_BY_SIDE
        self.show(again=True)

    def choose(self, view: str) -> None:
        """Show another view."""
        self.view, self.page = view, 0
        self.show()

    def turn(self, by: int) -> None:
        """Show the next or previous page of long content."""
        self.page = max(0, min(self.page + by, self.pages - 1))
        self.show()

    def show(self, *, again: bool = False) -> None:
        """Read what the box should show, in a thread, unless it already shows it.

        Args:
            again: read it even then.
        """
        if again:
            self._shown = ()
        reading, entry = self._reading, self._entry()
        if not self.display or entry is None:
            return
        screen_width = self.screen.size.width
        number = reading.exchange(entry)
        outcome = reading.outcome(number) if number is not None else None
        # A tree keeps its folds, whatever the rules find meanwhile.
        findings = reading.findings
        marks = (findings.at(entry), entry < findings.checked) if self.view == "findings" else None
        wanted = (entry, self.view, self.page, screen_width, outcome, entry < reading.understood, marks)
        if wanted == self._shown:
            return
        self._shown = wanted
        margin = MARGIN_BESIDE if self.query_one("#beside").display else MARGIN
        width = max(NARROWEST, screen_width - margin)

        def read(view: str = self.view, page: int = self.page) -> None:
            try:
                content = detail(reading, entry, view, page, width)
            except OSError as error:
                content = Detail([[Span(str(error), "bad")]])
            self.post_message(DetailRead(entry, content))

        self._thread.submit(read)

    @on(DetailRead)
    def _read(self, event: DetailRead) -> None:
        if event.row != self._entry() or not isinstance(event.item, Detail):
            return
        content, self.pages = event.item, event.item.pages
        self._silence = event.row, content.silence
        pane = self.query_one(Pane)
        if content.tree is not None:
            pane.show_tree(content.tree)
        else:
            pane.show_lines(content.lines)
        self._show_tabs(event.row, self.show_beside())

    def _show_tabs(self, entry: int, note: str | None) -> None:
        tabs = [Span(f"{entry_name(self._reading.index.entry(entry))}  ", "dim")]
        for number, view in enumerate(VIEWS, 1):
            tabs.append(Span(f"{number} {view}  ", "accent" if view == self.view else "dim"))
        if self.pages > 1:
            tabs.append(Span(f"page {self.page + 1:,} of {self.pages:,}  [ ]", "plain"))
        if note:
            tabs.append(Span(f"◆ {note}", "accent"))
        self.query_one("#tabs", Words).show(tabs)

    def show_beside(self) -> str | None:
        """Show the exchange and the findings of the row at the cursor; returns the user's note on it."""
        entry = self._entry()
        if entry is None:
            return None
        note = self._marks.notes.get(self._reading.index.entry(entry).seq)
        note_lines = [[Span(f"◆ {note}", "accent")]] if note else []
        silence = self._silence[1] if self._silence[0] == entry else ""
        exchange, findings = exchange_lines(self._reading, entry, silence), short_lines(self._reading, entry, BESIDE)
        self.query_one("#beside", Words).show_lines([*note_lines, *exchange, *findings])
        return note
