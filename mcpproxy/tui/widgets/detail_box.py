"""Detail box: tabs, one view of a row and, on a wide terminal, the row's exchange and findings next to it.

A thread reads the content from the file.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from mcpproxy.marks import Marks
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.detail import VIEWS, Detail, Lines, detail, entry_name
from mcpproxy.tui.details.exchange_view import wrapped_facts
from mcpproxy.tui.host import Host
from mcpproxy.tui.messages import DetailRead
from mcpproxy.tui.rows.finding_lines import short_lines
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.clickable_line import ClickableLine, Piece
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.reader import Reader
from mcpproxy.wording.spans import Span

MIN_SIDE_BY_SIDE_WIDTH: Final = 110
"""The minimum terminal width at which there is room next to a list or a detail, in cells."""
SIDE_WIDTH: Final = 41
"""The width of a line next to the detail, in cells."""
MARGIN: Final = 4
"""The number of cells of a terminal line that the detail cannot use."""
SIDE_MARGIN: Final = 50
"""The number of cells that the detail cannot use if the exchange is shown next to it."""
MIN_BOTH_WIDTH: Final = 150
"""The minimum width at which the findings are next to a view of the exchange, in cells; else they are below it."""
TABS_MARGIN: Final = 3
"""The number of cells that the line of tabs cannot use: its padding, and the border next to a list."""
NEEDED_VIEWS: Final = ("text", "exchange", "findings", "pretty", "raw", "hex", "headers")
"""The views in the order in which they get room for their names."""
WAIT_STEP_NS: Final = 1_000_000_000
"""How often the exchange of a call that waits is read again: what is known about its wait changes with time."""
MIN_DETAIL_WIDTH: Final = 10
"""The minimum width for which the detail is laid out, in cells."""


class DetailBox(Vertical):
    """The detail of the row at the cursor; hidden at first."""

    app: Host

    DEFAULT_CSS = """
    DetailBox {
        display: none;
        & #text { padding: 0 0 0 1; }
        & #beside { width: 44; display: none; padding: 0 1; border-left: solid $line; }
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
        """Create the box, hidden.

        Args:
            reading: the capture.
            marks: its marks.
            entry: returns the entry at the cursor.
            id: the id of the widget.
        """
        super().__init__(id=id)
        self.view, self.page, self.pages = VIEWS[0], 0, 1
        self._reading, self._marks, self._entry = reading, marks, entry
        self.width = 0
        """The width of the box, in cells, which is known before the layout."""
        self._drawn_state: tuple[object, ...] = ()
        """Everything that determines the detail, as of the last reading."""
        self._shown_place: tuple[object, ...] = ()
        """The entry, view, page and width of the text in the box."""
        self._exchange: tuple[int, Lines] = -1, ()
        """An entry, and a short text of its exchange."""
        self._thread = ThreadPoolExecutor(1, "detail")
        self.pending_read: Future[None] | None = None
        """The last reading; keys for the detail wait for it."""

    def compose(self) -> ComposeResult:
        """The tabs, the detail, and the pane next to it."""
        yield ClickableLine(id="tabs")
        with Horizontal():
            yield Reader(id="reader", pane="text")
            yield SafeText(id="beside")

    def on_unmount(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def reader(self) -> Reader:
        """The reader that shows the detail, and searches it."""
        return self.query_one(Reader)

    @property
    def pane(self) -> Pane:
        """The pane that shows the detail."""
        return self.reader.pane

    def set_width(self, width: int) -> None:
        """Fit the box to a new width."""
        self.width = width
        self.show(again=True)

    def _has_side(self, entry: int) -> bool:
        """Whether there is something to show next to the detail, and room for it."""
        if self.view != "exchange":
            return self.width >= MIN_SIDE_BY_SIDE_WIDTH
        return self.width >= MIN_BOTH_WIDTH and self._reading.findings.worst_level_and_count(entry)[1] > 0

    def choose_view(self, view: str) -> None:
        """Show another view."""
        self.view, self.page = view, 0
        self.show()

    def turn_page(self, by: int) -> None:
        """Show the next or previous page of long content."""
        self.page = max(0, min(self.page + by, self.pages - 1))
        self.show()

    @on(Reader.PageChanged)
    def _on_page_change(self, event: Reader.PageChanged) -> None:
        """Show the page with a match; keys wait for it."""
        event.stop()
        self.page = event.page
        self.show()
        if self.pending_read is not None:
            self.app.key_queue.wait_for(self.pending_read)

    def show(self, *, again: bool = False) -> None:
        """Read what the box should show, in a thread, unless it already shows it.

        Args:
            again: whether to read it even then.
        """
        if again:
            self._drawn_state = ()
        reading, entry = self._reading, self._entry()
        if not self.display or entry is None:
            return
        if entry != self._exchange[0]:
            # If the cursor comes back before this row is read, the previous tree must not stay as the user left it.
            self._exchange = -1, ()
        number = reading.call(entry)
        outcome = reading.outcome(number) if number is not None else None
        findings = reading.findings
        login = reading.logins.login_shown_in(entry)
        finding_state = (
            (findings.worst_level_and_count(entry), entry < findings.checked_count)
            if self.view in ("exchange", "findings")
            else None
            if login is None
            else len(findings)
        )
        login_state = None if login is None else reading.logins.state(login)
        waited_ns = reading.waited_ns(number) if number is not None and self.view == "exchange" else None
        content_state = (
            *(outcome, entry < reading.interpreted_count, finding_state, login_state),
            None if waited_ns is None else waited_ns // WAIT_STEP_NS,
        )
        state = (entry, self.view, self.page, self.width, content_state)
        if state == self._drawn_state:
            return
        self._drawn_state = state
        has_beside = self.query_one("#beside").display = self._has_side(entry)
        width = max(MIN_DETAIL_WIDTH, self.width - (SIDE_MARGIN if has_beside else MARGIN))

        def read_detail(view: str = self.view, page: int = self.page) -> None:
            if self._drawn_state is not state:
                return  # the cursor has moved on
            try:
                content = detail(reading, entry, view, page, width, with_findings=not has_beside)
            except OSError as error:
                content = Detail([[Span(str(error), "bad")]])
            self.post_message(DetailRead(entry, content))

        self.pending_read = self._thread.submit(read_detail)

    @on(DetailRead)
    def _read(self, event: DetailRead) -> None:
        if event.row != self._entry() or not isinstance(event.item, Detail):
            return
        content, self.pages = event.item, event.item.pages
        is_same_row, self._exchange = self._exchange[0] == event.row, (event.row, content.exchange)
        # When more becomes known about a message, its tree stays as the user has folded it.
        place, self._shown_place = self._shown_place, self._drawn_state[:4]
        if is_same_row and self.view == "exchange" and place == self._shown_place:
            self.reader.renew(content.lines)
        elif not (is_same_row and content.tree is not None and content.tree.is_like(self.pane.folding_tree)):
            self.reader.show(content.tree if content.tree is not None else content.lines)
        self._show_tabs(event.row, self.show_side())

    def _show_tabs(self, entry: int, note: str | None) -> None:
        page = f"page {self.page + 1:,} of {self.pages:,}  [ ]" if self.pages > 1 else ""
        tabs = [Piece(Span(f"{entry_name(self._reading.index.entry(entry))}  ", "dim"))]
        cells_left = self.width - TABS_MARGIN - sum(len(tab.span.text) for tab in tabs) - len(page)
        # The last name needs no space after it, unless the number of the page follows.
        spans = tab_spans(self.view, cells_left if page else cells_left + 1)
        if not page:
            spans[-1] = spans[-1]._replace(text=spans[-1].text.rstrip())
        tabs += (Piece(span, view) for span, view in zip(spans, VIEWS, strict=True))
        if page:
            tabs.append(Piece(Span(page, "plain")))
        if note:
            tabs.append(Piece(Span(f"  ◆ {note}", "accent")))
        self.query_one("#tabs", ClickableLine).show_pieces(tabs)

    def show_side(self) -> str | None:
        """Show the exchange and the findings of the row at the cursor; returns the user's note on it."""
        entry = self._entry()
        if entry is None:
            return None
        note = self._marks.notes.get(self._reading.index.entry(entry).seq)
        note_lines = [[Span(f"◆ {note}", "accent")]] if note else []
        # What the view itself shows is not shown twice.
        exchange = self._exchange[1] if self._exchange[0] == entry and self.view != "exchange" else ()
        findings = short_lines(self._reading, entry, SIDE_WIDTH) if self.view != "findings" else []
        self.query_one("#beside", SafeText).show_lines([*note_lines, *wrapped_facts(exchange, SIDE_WIDTH), *findings])
        return note


def tab_spans(chosen_view: str, width: int) -> list[Span]:
    """The views with their keys; if there is no room for all names, those that are needed most are named."""
    separator = "  " if sum(map(len, _tab_texts(VIEWS, "  "))) <= width else " "
    named_views = [chosen_view]
    for view in NEEDED_VIEWS:
        if view != chosen_view and sum(map(len, _tab_texts([*named_views, view], separator))) <= width:
            named_views.append(view)
    return [
        Span(text, "accent" if view == chosen_view else "dim")
        for view, text in zip(VIEWS, _tab_texts(named_views, separator), strict=True)
    ]


def _tab_texts(named_views: Sequence[str], separator: str) -> list[str]:
    return [f"{number}{f' {view}' if view in named_views else ''}{separator}" for number, view in enumerate(VIEWS, 1)]
