"""Stderr: the lines that the server wrote to stderr, and the traffic around the line at the cursor."""

from bisect import bisect_left
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.stderr_lines import LogRows, LogSearch, line_text_of, rows_around
from mcpproxy.tui.messages import CaptureGrown, Progressed, RowsRead
from mcpproxy.tui.rows.traffic_columns import NameCells, columns_with_fitted_times, next_times
from mcpproxy.tui.rows.traffic_table import TrafficRows
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.list_screen import TO_FILTER
from mcpproxy.tui.screens.titled_screen import PADDING
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.detail_box import MIN_SIDE_BY_SIDE_WIDTH
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Column, Table
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span
from mcpproxy.wording.wrapping import wrapped

LINE_COLUMNS: Final = (
    Column("time", "time", 12, is_right_aligned=True, drop=1),
    Column("what", "stderr", 20, stretch=True),
)
NEARBY_COLUMNS: Final = (
    Column("time", "time", 12, is_right_aligned=True, drop=2),
    Column("way", "", 2),
    Column("what", "meanwhile", 16, stretch=True),
    Column("status", "status", 12, drop=1),
)
FRAMES_MARGIN: Final = 2
"""The cells of the traffic that are not text: its scroll bar and its border."""
MAX_ROOMY_WIDTH: Final = 72
"""The most cells that the traffic takes if its names need fewer."""
MIN_HEIGHT: Final = 12
"""The height of the terminal, in lines, from which a cut line is shown in full below the list."""
MIN_FULL_LINES: Final = 5
"""How many lines of the terminal a cut line may take, at least; where the list leaves room, it may take half of all."""


class StderrScreen(CaptureScreen):
    """What one server wrote to stderr."""

    DEFAULT_CSS = """
    StderrScreen {
        & #log { width: 1fr; }
        & #meanwhile { width: 40%; max-width: 50%; display: none; border-left: solid $line; }
        & #full { height: auto; display: none; padding: 0 1; background: $panel; }
        & #nothing { padding: 1 2; display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_FILTER,
        Binding("f", "follow", "follow", id="follow"),
        Binding("t", "times", "time", id="times"),
    ]
    LIST = "#log"

    def __init__(self, capture: OpenCapture) -> None:
        """Create the screen of a capture.

        Args:
            capture: the capture; the line at its row is shown first.
        """
        super().__init__(capture.reading)
        self._first_row = capture.row
        self._rows = LogRows(self.reading, self._report_rows)
        self._frames = TrafficRows(self.reading, self._report_rows)
        self._names = NameCells(self.reading)
        self._frames_width = 0
        self._search: LogSearch | None = None
        self._nearby_state: tuple[int, int] | None = None
        bind_switches(self._bindings, "stderr")

    def compose(self) -> ComposeResult:
        """The stderr lines, and the frames next to them."""
        yield ClickableLine(id="title")
        yield SafeText(id="nothing")
        with Horizontal():
            yield Table(LINE_COLUMNS, place="stderr", id="log")
            yield Table(NEARBY_COLUMNS, id="meanwhile")
        yield SafeText(id="full")
        yield FilterBox("words that a line must contain", of="stderr", id="filter")
        yield Foot()

    def on_mount(self) -> None:
        """Show the lines that have been read so far."""
        self.frames.can_focus = False
        self.frames.show(self._frames)
        self.table.show(self._rows)
        self.table.focus()
        is_at_end = self._first_row is None or self._first_row >= len(self.reading.index) - 1
        self.table.following = self.reading.is_live and is_at_end
        self._fit_columns()
        self._grown()

    def on_unmount(self) -> None:
        """Stop reading."""
        self.stop_thread()
        self._rows.close()
        self._frames.close()

    @property
    def frames(self) -> Table:
        """The frames next to the lines."""
        return self.query_one("#meanwhile", Table)

    @property
    def entry(self) -> int | None:
        """The row of the line at the cursor."""
        return self._rows.entry(self.table.cursor)

    # ---- updates

    def _report_rows(self) -> None:
        self.post_message(RowsRead())

    @on(RowsRead)
    def _rows_read(self) -> None:
        self.table.renew()
        self.frames.renew()

    @on(CaptureGrown)
    @on(events.ScreenResume)
    def _grown(self) -> None:
        if self._first_row is not None and len(self.reading.index) > self._first_row:
            first_row, self._first_row = self._first_row, None
            self.table.go(bisect_left(self.reading.stderr_rows, first_row), keep_following=self.table.following)
        self._frames.forget()
        self.update_rows()

    @on(Progressed)
    def update_rows(self) -> None:
        """Show the lines that have been read so far."""
        self._fit_columns()
        self.table.renew()
        empty_box = self.query_one("#nothing", SafeText)
        is_http, is_empty = self.reading.conversation.capture.transport == "http", not len(self.reading.stderr_rows)
        has_no_match = self._search is not None and not (self.is_working or len(self._rows))
        empty_box.display = has_no_match or (is_empty and (is_http or self.reading.index.has_ended))
        if has_no_match and not (is_empty and is_http):
            empty_box.show("no line contains all of these words; Esc shows all")
        elif empty_box.display:
            empty_box.show(
                "over HTTP, mcpproxy cannot see the server's stderr"
                if is_http
                else "the server wrote nothing to stderr"
            )
        self.show_title()
        self._show_nearby()

    def show_title(self) -> None:
        """Update the title to match the screen."""
        reading, table = self.reading, self.table
        spans = list[Span]()
        if reading.is_live and table.following and table.cursor >= len(self._rows) - 1:
            spans.append(Span("  ● following", "accent"))
        elif reading.is_live and reading.index.tail.is_at_end:
            spans.append(Span("  ● live", "dim"))
        if self._search is not None:
            spans.append(Span(f"  {sanitise(self._search.words, 60)}", "accent"))
            spans.append(
                Span(
                    f"  {len(self._search.rows):,} of {self._search.searched_count:,}{' …' if self.is_working else ''}"
                )
            )
        else:
            spans.append(Span(f"  {count_text(len(reading.stderr_rows), 'line')}", "dim"))
        self.set_title(spans)

    # ---- next to a line

    @on(Table.RowHighlighted)
    def _moved(self, event: Table.RowHighlighted) -> None:
        if event.table is self.table:
            self.show_title()
            self._show_nearby()

    def on_resize(self, event: events.Resize) -> None:
        """Show the frames next to the lines if there is room for them."""
        self.frames.display = event.size.width >= MIN_SIDE_BY_SIDE_WIDTH
        self._fit_columns()
        self._nearby_state = None
        self.draw_later(self._show_nearby)

    def _show_nearby(self) -> None:
        """Show the traffic around the line at the cursor, and the whole line if it is cut."""
        entry, full_box = self.entry, self.query_one("#full", SafeText)
        state = None if entry is None else (entry, len(self.reading.shown_rows))
        if state == self._nearby_state:
            return
        self._nearby_state = state
        if entry is None:
            full_box.display = False
            self._frames.view = ()
            self.frames.renew()
            return
        full_lines = self._full_lines(entry)
        full_box.show_lines(full_lines)
        is_resized = (len(full_lines) or None) != (full_box.size.height if full_box.display else None)
        full_box.display = bool(full_lines)
        if self.frames.display:
            self._frames.view, line = rows_around(self.reading, entry)
            self.frames.renew()
            self.frames.go_centered(line)
            if is_resized:
                self.draw_later(lambda: self.frames.go_centered(self.frames.cursor))

    def _full_lines(self, entry: int) -> list[str]:
        """The whole line, wrapped, if it does not fit the list and the terminal is high enough."""
        height, width = self.size.height, max(1, self.size.width - PADDING)
        room = self.table.room.width - self.table.columns[0].width - 1
        if height < MIN_HEIGHT or 0 < self.reading.index.entry(entry).size <= room:
            return []
        max_lines = max(MIN_FULL_LINES, min(height // 2, height - MIN_FULL_LINES - len(self._rows)))
        try:
            line_text = line_text_of(self.reading, entry, max_lines * width)
        except OSError:
            line_text = None
        if line_text is None or cells(line_text[0]) <= room:
            return []
        lines = list(wrapped(line_text[0], width))
        return lines if len(lines) <= max_lines else [*lines[: max_lines - 1], "… more: Enter shows it in the traffic"]

    # ---- keys

    @on(Table.RowSelected)
    def _choose(self, event: Table.RowSelected) -> None:
        """Show the traffic at that time."""
        entry = self.entry if event.table is self.table else self._frames.entry(event.row)
        if entry is not None:
            self.app.show(entry)

    def action_times(self) -> None:
        """Switch between times since the start, times since the row above, and the wall clock."""
        times = next_times(self._rows.times)
        self._rows.times = self._frames.times = times
        self._fit_columns()
        self._rows_read()

    def _fit_columns(self) -> None:
        """Make times as wide as those of the capture, and the traffic wide enough for its names; lines get the rest."""
        for table, columns in ((self.table, LINE_COLUMNS), (self.frames, NEARBY_COLUMNS)):
            table.set_columns(columns_with_fitted_times(columns, self._rows.times, self.reading.index.last_ns))
        self._names.measure()
        other_cells = sum(column.width + 1 for column in self.frames.columns if column.name != "what") + FRAMES_MARGIN
        width = max(other_cells + self._names.widest, min(self.size.width * 2 // 5, MAX_ROOMY_WIDTH))
        if width != self._frames_width:
            self._frames_width = self.frames.styles.width = width
            self._nearby_state = None
            self.draw_later(self._show_nearby)

    def action_filter(self) -> None:
        """Let the user type words that a line must contain."""
        self.query_one(FilterBox).open(self._search.words if self._search is not None else "")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        self.query_one(FilterBox).remember(text)
        self.leave_box()
        self._filter_lines(text)

    def clear_filter(self) -> bool:
        """Show all lines again; returns False if they all are shown already."""
        had_words = self._search is not None
        if had_words:
            self._filter_lines("")
        return had_words

    def _filter_lines(self, text: str) -> None:
        """Show the lines that contain all words of a text, or all lines if the text is empty."""
        entry, is_following = self.entry, self.table.following
        self.stop_thread()
        self._search = LogSearch(self.reading, text) if text else None
        self._rows.view = self._search.rows if self._search is not None else self.reading.stderr_rows
        self.table.show(self._rows)
        if self._search is not None:
            self.start_thread(self._search.step, "stderr")
        elif entry is not None:
            self.table.go(bisect_left(self.reading.stderr_rows, entry))
        self.table.following = is_following
        self.update_rows()


ENTRY: Final = ScreenEntry("E", "stderr", StderrScreen, help="stderr of the server")
