"""Stream: the raw bytes of both sides in order: of the session or, over HTTP, of the exchange of the row at the cursor.

A thread finds the rows of the stream, and another reads the page that is shown, so a stream may be of any size.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from captures.paths import SUFFIX, safe_name
from captures.verdict import Direction
from mcpproxy.tui.copies.stream_export import StreamExport
from mcpproxy.tui.data.raw_stream import RawStream
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.details.stream_page import SIGNS, StreamPage
from mcpproxy.tui.messages import CaptureGrown, Progressed
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.exporting import Exporter
from mcpproxy.tui.screens.file_prompt import FileOffer, NewFile
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.reader import FindBox, Reader
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import offset_text, size

SIDES: Final[tuple[Direction | None, ...]] = (None, "c2s", "s2c")
"""The directions that the key goes through; None is both."""
_SENDERS: Final[dict[Direction, str]] = {"c2s": "the client", "s2c": "the server"}


class PageRead(Message):
    """A page has been read."""

    def __init__(self, stream: RawStream, page: StreamPage, line: int | None) -> None:
        super().__init__()
        self.stream, self.page = stream, page
        self.line = line
        """The line to show first; None for the one that is shown, and -1 for the last."""


class StreamScreen(TitledScreen):
    """The raw bytes of a stream, page by page."""

    DEFAULT_CSS = """
    StreamScreen Reader { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "side", "direction", id="direction"),
        Binding("s", "scope", "session", id="scope"),
        Binding("left_square_bracket", "page(-1)", "pages", key_display="[ ]", id="before"),
        Binding("right_square_bracket", "page(1)", "page after", show=False, id="after"),
        Binding("f", "follow", "follow", id="follow"),
        Binding("t", "times", "time", id="times"),
        Binding("n", "match(1)", "next", show=False, id="next"),
        Binding("N", "match(-1)", "previous", show=False, id="previous"),
        Binding("enter", "frame", "frame", priority=True, id="frame"),
        Binding("e", "export", "export", id="export"),
        Binding("o", "export", "export", show=False, id="save"),
        Binding("escape", "back", "back", id="back"),
        Binding("q", "app.quit", "quit", id="quit"),
        Binding("question_mark", "app.help", "help", id="help"),
    ]

    def __init__(self, capture: OpenCapture) -> None:
        """Create the screen of a capture.

        Args:
            capture: the capture; if it is live, its end is followed, and else the page with its row is shown first.
        """
        super().__init__()
        self.reading = capture.reading
        self.stream = RawStream(capture.reading)
        self._first_row: int | None = capture.entry
        """The row to go to once its page is known."""
        self._exchange: int | None = None
        """The HTTP exchange of the row from which the screen was opened."""
        self._session: int | None = None
        """The session of that row, if the capture has several."""
        self._page: StreamPage | None = None
        self._is_following = capture.reading.is_live
        self._is_scrolling = False
        """Whether the screen scrolls, and not the user."""
        self._has_times = True
        self._pending_read: Future[None] | None = None
        self._shown_pieces = -1
        """The number of pieces when the last page was read."""
        self._step_thread: StepThread | None = None
        self._thread = ThreadPoolExecutor(1, "stream")
        self._exporter = Exporter(self, self.show_title)
        bind_switches(self._bindings, "stream")

    @property
    def subject(self) -> Reading:
        """The capture."""
        return self.reading

    @property
    def entry(self) -> int | None:
        """The row of the first line in sight, or of the current match."""
        page, pane = self._page, self.reader.pane
        return page.row_at(pane.match_line if pane.match_line is not None else pane.top) if page is not None else None

    @property
    def reader(self) -> Reader:
        """The reader that shows a page, and searches all of them."""
        return self.query_one(Reader)

    def compose(self) -> ComposeResult:
        """The title and the text."""
        yield ClickableLine(id="title")
        yield Reader(id="stream", pane="bytes", what="a text in this stream")
        yield Foot()

    def on_mount(self) -> None:
        """Find out whose stream it is, and begin to search for its rows."""
        self.reader.pane.focus()
        self.watch(self.reader.pane, "scroll_y", self._scrolled, init=False)
        row = self._first_row

        def find_exchange() -> None:
            exchange = _exchange_of(self.reading, row) if row is not None else None
            self.call_later(self._begin, exchange)

        self.app.key_queue.wait_for(self._thread.submit(find_exchange))
        self.show_title()

    def on_unmount(self) -> None:
        """Stop reading."""
        if self._step_thread is not None:
            self._step_thread.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._exporter.close()

    # ---- the stream

    def _begin(self, exchange: int | None) -> None:
        row = self._first_row
        self._exchange = exchange
        self._session = self.reading.session_of(row) if row is not None else None
        self._start(RawStream(self.reading, exchange=exchange, session=self._session if exchange is None else None))

    def _start(self, stream: RawStream) -> None:
        """Show another stream, as far as it is known."""
        if self._step_thread is not None:
            self._step_thread.stop()
        self.stream, self._page, self._shown_pieces = stream, None, -1
        self._step_thread = StepThread(stream.step, self._report, self._fail, "stream")
        if self._is_following:
            self._first_row = None
        self._read(0)

    def _report(self) -> None:
        self.post_message(Progressed())

    def _fail(self, reason: str) -> None:
        self.call_later(lambda: notify(self.app, reason, bad=True))

    @on(Progressed)
    @on(CaptureGrown)
    @on(events.ScreenResume)
    def _grown(self) -> None:
        """Read the page again if there is more of it; go to the first row once it is found."""
        stream, first_row = self.stream, self._first_row
        is_known = first_row is not None and stream.searched_share * len(self.reading.index) > first_row
        if first_row is not None and is_known and len(stream):
            self._first_row = None
            self._read(stream.page_of_row(first_row), row=first_row)
        elif len(stream) != self._shown_pieces:
            page = self._page.page if self._page is not None else 0
            if self._is_following:
                self._read(stream.page_count - 1, line=-1)
            elif page >= stream.page_count - 2:
                self._read(page, line=None)
        self.show_title()

    def _read(self, number: int, line: int | None = 0, row: int | None = None) -> None:
        """Read a page in the thread, and show it.

        Args:
            number: the number of the page.
            line: the first line to show; None to stay, -1 for the last.
            row: the row to show first, in place of a line.
        """
        stream, width = self.stream, self.size.width - 3
        time_of = self._time_of if self._has_times else None
        self._shown_pieces = len(stream)

        def read() -> None:
            try:
                page = StreamPage(stream, number, width, time_of)
            except OSError as error:
                self._fail(error.strerror or str(error))
                return
            self.post_message(PageRead(stream, page, line if row is None else page.line_of_row(row)))

        self._pending_read = self._thread.submit(read)
        self.app.key_queue.wait_for(self._pending_read)

    def _time_of(self, row: int) -> str:
        return offset_text(self.reading.index.t_ns(row))

    @on(PageRead)
    def _page_read(self, event: PageRead) -> None:
        if event.stream is not self.stream or not self.query(Reader):
            return
        self._page, pane = event.page, self.reader.pane
        if event.line is None:
            self.reader.renew(event.page)
        else:
            self._is_scrolling = True
            self.reader.show(event.page)
            pane.scroll_to(
                y=len(event.page) if event.line < 0 else event.line, animate=False, immediate=True, force=True
            )
            self._is_scrolling = False
        self.show_title()

    def _scrolled(self) -> None:
        """Stop following once the user has scrolled up."""
        if self._is_following and not self._is_scrolling and not self.reader.pane.is_vertical_scroll_end:
            self._is_following = False
            self.show_title()

    @on(Reader.PageChanged)
    def _show_match(self, event: Reader.PageChanged) -> None:
        self._is_following = False
        self._read(event.page)

    # ---- the title

    def show_title(self) -> None:
        """Update the title to match the screen."""
        stream = self.stream
        spans = [Span(f"  exchange {stream.exchange:,}")] if stream.exchange is not None else []
        spans += [Span(f"  session {stream.session:,}")] if stream.session is not None else []
        if stream.side is not None:
            spans.append(Span(f"  {SIGNS[stream.side]} only {_SENDERS[stream.side]}", "accent"))
        spans.append(Span(f"  {size(stream.size)}", "dim"))
        if stream.page_count > 1 and self._page is not None:
            spans.append(Span(f"  page {self._page.page + 1:,} of {stream.page_count:,}", "dim"))
        if self._page is not None and self._page.has_gaps:
            spans.append(Span("  parts are gone", "bad"))
        if self._is_following:
            spans.append(Span("  ● following", "accent"))
        elif stream.searched_share < 1 and not self.reading.is_live:
            spans.append(Span(f"  {int(100 * stream.searched_share)}% …", "accent"))
        if self._exporter.progress:
            spans.append(Span(f"  {self._exporter.progress}", "accent"))
        self.set_title(spans)

    def on_resize(self) -> None:
        """Wrap lines for the new width."""
        if self._page is None:
            return
        row = self.entry
        if self._is_following:
            self._read(self._page.page, line=-1)
        else:
            self._read(self._page.page, row=row) if row is not None else self._read(self._page.page)

    # ---- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to the box for a search; there is a session to switch to only over HTTP."""
        if action == "frame":
            return not isinstance(self.focused, FindBox)
        if action == "scope":
            return self._exchange is not None
        if action == "page":
            return self.stream.page_count > 1
        return super().check_action(action, parameters)

    def _restart(self, *, exchange: int | None, side: Direction | None) -> None:
        """Show another part of the conversation, from the row in sight on."""
        self._first_row = self.entry if self.entry is not None else self._first_row
        session = self._session if exchange is None else None
        self._start(RawStream(self.reading, exchange=exchange, session=session, side=side))

    def action_side(self) -> None:
        """Show both directions, only the client's, or only the server's."""
        side = SIDES[(SIDES.index(self.stream.side) + 1) % len(SIDES)]
        self._restart(exchange=self.stream.exchange, side=side)

    def action_scope(self) -> None:
        """Switch between the HTTP exchange and the whole session."""
        self._restart(exchange=self._exchange if self.stream.exchange is None else None, side=self.stream.side)

    def action_page(self, by: int) -> None:
        """Show the next or previous page."""
        self._go_to_page(by, line=0)

    def _go_to_page(self, by: int, *, line: int) -> None:
        number = (self._page.page if self._page is not None else 0) + by
        if 0 <= number < self.stream.page_count:
            self._is_following = False
            self._read(number, line=line)

    @on(Pane.EndPassed)
    def _end_passed(self, event: Pane.EndPassed) -> None:
        """Continue on another page: the next or previous one, or the first or last one."""
        event.stop()
        if not event.to_edge:
            self._go_to_page(event.by, line=0 if event.by > 0 else -1)
            return
        self._is_following = event.by > 0 and self.reading.is_live
        self._read(self.stream.page_count - 1 if event.by > 0 else 0, line=0 if event.by < 0 else -1)

    def action_follow(self) -> None:
        """Follow the end, or stop following it."""
        self._is_following = not self._is_following
        if self._is_following:
            self._first_row = None
            self._read(self.stream.page_count - 1, line=-1)
        self.show_title()

    def action_times(self) -> None:
        """Show or hide the times."""
        self._has_times = not self._has_times
        self.on_resize()

    def action_match(self, by: int) -> None:
        """Go to the next or previous match."""
        self._is_following = False
        self.reader.change_match(by)

    def action_frame(self) -> None:
        """Show the traffic at the first message in sight, or at the current match."""
        row = self.entry
        if row is not None:
            self.app.show(row)

    def action_export(self) -> None:
        """Prompt for a file, and write the bytes of the stream to it."""
        path, stream = self.reading.path, self.stream
        part = f"-exchange-{stream.exchange}" if stream.exchange is not None else "-stream"
        sender = {"c2s": "-client", "s2c": "-server"}.get(stream.side or "", "")
        name = f"{safe_name(self.reading.name)}-{path.name.removesuffix(SUFFIX)}{part}{sender}.txt"
        offer = FileOffer(f"write the {size(stream.size)} of this stream to", name)

        def start(file: NewFile, report: Callable[[], None]) -> StreamExport:
            return StreamExport(stream, file.path, report)

        self._exporter.prompt([offer], None, start)

    def action_back(self) -> None:
        """End the search, or leave the screen."""
        if not self.reader.end_search():
            self.app.pop_screen()


def _exchange_of(reading: Reading, row: int) -> int | None:
    """Returns the number of the HTTP exchange of a row, or None if it has none. Reads the file."""
    record = reading.index.read_first_part(row)
    number = record.members.get("exchange") if record is not None else None
    return number if type(number) is int else None


ENTRY: Final = ScreenEntry("R", "stream", StreamScreen, "traffic", help="the raw bytes of both sides, in order")
