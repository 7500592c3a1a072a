"""Stderr: the lines that the server wrote to stderr, and the traffic around the line at the cursor."""

from bisect import bisect_left
from dataclasses import replace
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.stderr_lines import LogRows, LogSearch, line_text_of, rows_around
from mcpproxy.tui.messages import CaptureGrown, Progressed, RowsRead
from mcpproxy.tui.rows.traffic_columns import columns_with_times, next_times
from mcpproxy.tui.rows.traffic_table import TrafficRows
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.list_screen import TO_FILTER
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.detail_box import MIN_SIDE_BY_SIDE_WIDTH
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Column, Table
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import offset_text

CLOCK_CELLS: Final = 12
"""The width of a time of the wall clock, in cells."""
MIN_TIME_CELLS: Final = 6
"""The minimum width of the other times, in cells."""
LINE_COLUMNS: Final = (
    Column("time", "time", CLOCK_CELLS, is_right_aligned=True, drop=1),
    Column("what", "stderr", 20, stretch=True),
)
NEARBY_COLUMNS: Final = (
    Column("time", "time", CLOCK_CELLS, is_right_aligned=True, drop=2),
    Column("way", "", 2),
    Column("what", "meanwhile", 16, stretch=True),
    Column("status", "status", 12, drop=1),
)
MAX_FULL_LINE_CHARS: Final = 1000
"""The maximum length of a cut line that is shown in full, in characters."""


class StderrScreen(CaptureScreen):
    """What one server wrote to stderr."""

    DEFAULT_CSS = """
    StderrScreen {
        & #log { width: 3fr; }
        & #meanwhile { width: 2fr; display: none; border-left: solid $line; }
        & #full { height: auto; max-height: 5; display: none; padding: 0 1; background: $panel; }
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
        self._search: LogSearch | None = None
        self._nearby_state: tuple[int, int] | None = None
        self._fitted_times: tuple[str, int] | None = None
        """The kind of times to which their columns are fitted, and their width."""
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

    def _fit_times(self) -> None:
        """Make the columns of the times as wide as the longest of these."""
        times = self._rows.times
        time_cells = CLOCK_CELLS if times == "abs" else len(offset_text(self.reading.index.last_ns))
        if (times, time_cells) != self._fitted_times:
            self._fitted_times = times, time_cells
            for table, columns in ((self.table, LINE_COLUMNS), (self.frames, NEARBY_COLUMNS)):
                time_column = replace(columns[0], width=max(MIN_TIME_CELLS, time_cells))
                table.set_columns(columns_with_times((time_column, *columns[1:]), times))

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
        self._fit_times()
        self.update_rows()

    @on(Progressed)
    def update_rows(self) -> None:
        """Show the lines that have been read so far."""
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
        self._show_full_line(entry)
        if self.frames.display:
            self._frames.view, line = rows_around(self.reading, entry)
            self.frames.renew()
            self.frames.go_centered(line)

    def _show_full_line(self, entry: int) -> None:
        full_box = self.query_one("#full", SafeText)
        size = self.reading.index.entry(entry).size
        room = self.table.room.width - (self._fitted_times or ("", CLOCK_CELLS))[1] - 2
        if size <= room and room > 0:
            full_box.display = False
            return
        try:
            line_text = line_text_of(self.reading, entry, MAX_FULL_LINE_CHARS)
        except OSError:
            line_text = None
        full_box.display = line_text is not None and cells(line_text[0]) > room and self.size.height >= 12
        if line_text is not None and full_box.display:
            full_box.show(line_text[0])

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
        self._fit_times()
        self._rows_read()

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
