"""Search: the sessions whose messages contain a text, newest first, while a process searches them.

Below the sessions are the first messages with the text in the session at the cursor, if there is room.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from analysis.filter import FilterError, parse
from analysis.filter.text_search import TextSearch
from mcpproxy.tui.data.capture_list import CaptureList, ListedCapture
from mcpproxy.tui.data.search_run import SearchResult, SearchRun
from mcpproxy.tui.data.session_search import MatchedMessage, text_term
from mcpproxy.tui.messages import CaptureUnreadable, OpenRequested, Progressed
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screens.list_screen import TO_SORT, ListScreen
from mcpproxy.tui.screens.prompts import LineScreen
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Column, MemoryRows, Table, TableLine
from mcpproxy.wording.cells import fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.lines import TO_CLIENT, TO_SERVER
from mcpproxy.wording.spans import Span

COLUMNS: Final = (
    Column("mark", "", 1),
    Column("matches", "matches", 8, is_right_aligned=True),
    Column("server", "server", 14),
    Column("age", "age", 7, is_right_aligned=True),
    Column("excerpt", "first match", 40, stretch=1),
    Column("client", "client", 18, drop=1),
    Column("frames", "frames", 7, is_right_aligned=True, drop=2),
    Column("capture", "capture", 40, drop=3),
)
MATCH_COLUMNS: Final = (
    Column("seq", "#", 7, is_right_aligned=True),
    Column("dir", "", 1),
    Column("subject", "message", 26),
    Column("excerpt", "", 30, stretch=1),
)
MIN_MATCHES_HEIGHT: Final = 16
"""The minimum height of a terminal in which the messages are shown, in lines."""
RENEWAL_INTERVAL_S: Final = 1.0
"""How often the ages are updated."""
MAX_TEXT_CELLS: Final = 30
"""The maximum width of the text in the title, in cells."""


class SearchRows(MemoryRows[SearchResult]):
    """Sessions with matches as the rows of a table."""

    def __init__(self, capture_list: CaptureList, session_line: Callable[[ListedCapture], TableLine]) -> None:
        """Start without rows.

        Args:
            capture_list: reads what is shown about the sessions.
            session_line: returns the cells of a session in the list of sessions.
        """
        super().__init__()
        self.search = TextSearch("", is_literal=False)
        """The text that is marked in the excerpts."""
        self._capture_list, self._session_line = capture_list, session_line

    def prefetch(self, first: int, last: int) -> None:
        """Request that the captures of these rows are read before all others."""
        self._capture_list.in_view = [result.capture for result in self.items[first:last]]

    def line(self, row: int) -> TableLine:
        """The cells of a session."""
        result = self.items[row]
        line = self._session_line(result.capture)
        if result.problem:
            cells = {**line.cells, "matches": (Span("–", "dim"),), "excerpt": (Span(result.problem, "bad"),)}
            return TableLine(cells, wide_column="excerpt")
        found = {
            "matches": (Span(f"{result.found_count:,}", "accent"),),
            "excerpt": _marked(result.excerpt, self.search),
        }
        return TableLine({**line.cells, **found})


class MatchRows(MemoryRows[MatchedMessage]):
    """Messages with the text as the rows of a table."""

    def __init__(self, rows: SearchRows) -> None:
        """Start without rows; `rows` has the text."""
        super().__init__()
        self._rows = rows

    def line(self, row: int) -> TableLine:
        """The cells of a message."""
        message = self.items[row]
        cells: dict[str, Sequence[Span]] = {
            "seq": (Span(f"{message.seq:,}", "dim"),),
            "dir": (TO_SERVER if message.dir == "c2s" else TO_CLIENT,),
            "subject": (Span(message.subject),),
            "excerpt": _marked(message.excerpt, self._rows.search),
        }
        return TableLine(cells)


def _marked(excerpt: str, search: TextSearch) -> Sequence[Span]:
    """An excerpt with the text in it marked."""
    start = (excerpt.lower() if search.ignores_case else excerpt).find(search.text)
    end = start + len(search.text)
    if start < 0:
        return (Span(excerpt, "dim"),)
    return (Span(excerpt[:start], "dim"), Span(excerpt[start:end], "accent"), Span(excerpt[end:], "dim"))


class SearchScreen(ListScreen):
    """A search for a text in all sessions listed."""

    DEFAULT_CSS = """
    SearchScreen {
        & #nothing { padding: 1 2; display: none; height: 1fr; }
        & #messages { height: 1fr; border-top: solid $line; display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_SORT,
        Binding("slash", "filter", "new search", id="filter"),
    ]
    LIST = "#found"
    SORTS = ("newest", "matches")
    SORT_COLUMNS: ClassVar[dict[str, str]] = {"age": "newest", "matches": "matches"}

    def __init__(
        self,
        text: str,
        captures: Sequence[ListedCapture],
        capture_list: CaptureList,
        session_line: Callable[[ListedCapture], TableLine],
    ) -> None:
        """Create the screen of a search, which begins when it is shown.

        Args:
            text: the text.
            captures: the captures to search, newest first.
            capture_list: reads what is shown about them.
            session_line: returns the cells of a session in the list of sessions.
        """
        super().__init__()
        self.run = SearchRun(text, captures, self._report_progress)
        self._rows = SearchRows(capture_list, session_line)
        self._match_rows = MatchRows(self._rows)
        self._capture_list = capture_list
        self._is_on_top = True

    def compose(self) -> ComposeResult:
        """The list."""
        yield ClickableLine(id="title")
        yield Table(COLUMNS, id="found")
        yield Table(MATCH_COLUMNS, id="messages")
        yield SafeText(id="nothing")
        yield Foot()

    def on_mount(self) -> None:
        """Start the search."""
        self.table.show(self._rows)
        self._messages.show(self._match_rows)
        self._messages.can_focus = False
        self.table.focus()
        self._start()
        self.set_interval(RENEWAL_INTERVAL_S, self.table.renew)
        self.update_rows()

    def _start(self) -> None:
        """Start the search, unless the text is impossible."""
        self._rows.search = TextSearch(self.run.text, is_literal=False)
        try:
            parse(text_term(self.run.text))
        except FilterError as error:
            self.run.trouble = error.problem
            notify(self.app, f"cannot search for this text: {error.problem}", bad=True)
        else:
            self.run.start()

    def on_unmount(self) -> None:
        """End the search."""
        self.run.close()

    def on_screen_resume(self) -> None:
        """Show the results that came in while the screen was hidden."""
        self._is_on_top, self._capture_list.is_paused = True, False
        self.update_rows()

    def on_screen_suspend(self) -> None:
        """Stop drawing: a lower screen's output would be drawn over the top one."""
        self._is_on_top, self._capture_list.is_paused = False, True

    def _report_progress(self) -> None:
        if self._is_on_top:
            self.post_message(Progressed())

    @property
    def _messages(self) -> Table:
        """The messages of the session at the cursor."""
        return self.query_one("#messages", Table)

    @property
    def selected(self) -> SearchResult | None:
        """The session at the cursor."""
        return self._rows.at(self.table.cursor)

    @on(Progressed)
    def update_rows(self) -> None:
        """Show the results so far."""
        results = self.run.results
        if self.order == "matches":
            results.sort(key=lambda result: -result.found_count)
        self.replace_rows(self._rows, results, key=lambda result: result.capture.path)
        has_nothing = not results and not self.run.is_busy
        nothing = self.query_one("#nothing", SafeText)
        nothing.display = has_nothing
        if has_nothing:
            nothing.show(self._nothing_spans())
        self.display_table(is_shown=not has_nothing)
        self._show_messages()
        self.show_title()

    @on(Table.RowHighlighted)
    def _show_messages(self) -> None:
        """Show the messages of the session at the cursor, below as many sessions as there are, if there is room."""
        result, height = self.selected, self.app.size.height
        self._match_rows.items = result.first if result is not None else ()
        has_room = bool(self._match_rows.items) and height >= MIN_MATCHES_HEIGHT
        self._messages.display = has_room
        if result is not None:
            title = f"first {len(result.first)} of {result.found_count:,}"
            self._messages.set_columns([*MATCH_COLUMNS[:-1], replace(MATCH_COLUMNS[-1], title=title)])
        self.table.styles.height = min(len(self._rows) + 1, height // 2) if has_room else "1fr"
        self._messages.renew()

    def _nothing_spans(self) -> list[Span]:
        if self.run.trouble:
            return [Span(f"nothing found so far: {self.run.trouble}", "dim")]
        hint = "" if self.run.text == self.run.text.lower() else "; case matters, as the text has a capital letter"
        spans = [Span("no message contains ", "dim"), Span(self.run.text, "accent"), Span(hint, "dim")]
        return [*spans, Span("; stderr is not searched", "dim")]

    def show_title(self) -> None:
        """Update the title to match the screen."""
        run, results = self.run, self._rows.items
        found_count, session_count = (
            sum(result.found_count for result in results),
            sum(not result.problem for result in results),
        )
        spans = [
            Span(f"  {fit(run.text, MAX_TEXT_CELLS)}", "accent"),
            Span(f"  {found_count:,} in {count_text(session_count, 'session')}"),
        ]
        if run.searched_count < len(run.captures):
            state = "searched" if run.is_busy else run.trouble
            spans.append(
                Span(f"  {run.searched_count:,} of {len(run.captures):,} {state}", "dim" if run.is_busy else "bad")
            )
        spans.append(Span("  newest first" if self.order == self.SORTS[0] else f"  by {self.order}", "dim"))
        self.set_title(spans)

    # ---- keys

    def action_filter(self) -> None:
        """Prompt for another text, and search the same sessions for it."""
        label = f"find in {count_text(len(self.run.captures), 'session')}"
        self.app.push_screen(LineScreen(label, self.run.text), self._search)

    def _search(self, text: str | None) -> None:
        if text:
            self.run.close()
            self.run = SearchRun(text, self.run.captures, self._report_progress)
            self._start()
            self.update_rows()
            self.table.go(0)

    @on(Table.RowSelected)
    def _open(self) -> None:
        """Open the session at the cursor, with the messages that contain the text."""
        result = self.selected
        if result is None:
            return
        if result.problem:
            notify(self.app, result.problem, bad=True)
        else:
            self.post_message(OpenRequested(result.capture.path, filter_text=text_term(self.run.text)))

    def interrupt(self) -> bool:
        """Stop the search; returns False if it has ended."""
        if not self.run.is_busy:
            return False
        self.run.stop()
        self.update_rows()
        return True

    def on_resize(self, _: events.Resize) -> None:
        """Fit the title and the list."""
        self._show_messages()
        self.show_title()

    @on(CaptureUnreadable)
    def _failed(self, event: CaptureUnreadable) -> None:
        notify(self.app, event.reason, bad=True)
