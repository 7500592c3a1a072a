"""Traffic: every frame of one capture as it arrives, with filters, and the detail of one row below."""

from bisect import bisect_left, bisect_right
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from mcpproxy.report.text import Span
from mcpproxy.tui.detail import VIEWS
from mcpproxy.tui.finding_lines import losses_text
from mcpproxy.tui.messages import Checked, Grown
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screen_entries import OpenCapture, bind
from mcpproxy.tui.screens.list_screen import TO_DETAIL
from mcpproxy.tui.screens.traffic_filter import TrafficFilterScreen
from mcpproxy.tui.screens.traffic_title import Place, title
from mcpproxy.tui.widgets.detail_box import DetailBox
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Table


class TrafficScreen(TrafficFilterScreen):
    """The frames or exchanges of one capture."""

    DEFAULT_CSS = """
    TrafficScreen {
        & #lost { height: auto; max-height: 3; display: none; padding: 0 1; }
        & #traffic { height: 1fr; }
        & #nothing { height: 1fr; display: none; padding: 1 2; }
        &.-none #traffic { height: 1; }
        &.-none #nothing { display: block; }
        & #wrong { height: auto; max-height: 4; display: none; padding: 0 1; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pair", "pair", id="pair"),
        Binding("f", "follow", "follow", id="follow"),
        Binding("n", "match(1)", "next", id="next"),
        Binding("N", "match(-1)", "previous", show=False, id="previous"),
        TO_DETAIL,
        Binding("1", "view(0)", "pretty", show=False, id="view-1"),
        Binding("2", "view(1)", "raw", show=False, id="view-2"),
        Binding("3", "view(2)", "hex", show=False, id="view-3"),
        Binding("4", "view(3)", "headers", show=False, id="view-4"),
        Binding("5", "view(4)", "exchange", show=False, id="view-5"),
        Binding("6", "view(5)", "findings", show=False, id="view-6"),
        Binding("left_square_bracket", "turn(-1)", "previous page", show=False, id="before"),
        Binding("right_square_bracket", "turn(1)", "next page", show=False, id="after"),
        Binding("right,l", "into", "detail", show=False, id="detail"),
        Binding("left,h", "outof", "list", show=False, id="list"),
    ]
    LIST = "#traffic"
    DETAIL = "#text"

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture.

        Args:
            capture: the capture; if it names a row, that row is shown first.
        """
        super().__init__(capture.reading, capture.only)
        self._first = capture.row
        self._finding_count = 0
        """The number of findings when the rows were last drawn."""
        bind(self._bindings, "traffic")

    def compose(self) -> ComposeResult:
        """The list, and the detail below."""
        yield Words(id="title")
        yield Words(id="lost")
        yield Table((), id="traffic")
        yield Words(id="nothing")
        yield DetailBox(self.reading, self.marks, lambda: self.entry, id="below")
        yield Words(id="wrong")
        yield FilterBox("method:tools/call latency>100ms …", of="traffic", is_edited=True, id="filter")
        yield Foot()

    def on_mount(self) -> None:
        """Show the rows so far."""
        self.set_columns()
        self.table.show(self._rows)
        self.table.focus()
        self.table.following = self.reading.is_live and self._first is None
        self._grown()
        self.set_interval(1.0, self._renew_ages)
        if self._only is not None:
            self.select(self._only)

    @property
    def detail(self) -> DetailBox:
        """The detail, and what is beside it."""
        return self.query_one(DetailBox)

    @property
    def capture(self) -> OpenCapture:
        """The capture, and where the cursor is."""
        return OpenCapture(self.reading, self.entry)

    # ---- updates

    def _renew_ages(self) -> None:
        """Update the waiting times of unanswered requests."""
        if self.reading.is_live and self.is_current:
            self.table.renew()

    @on(Grown)
    @on(events.ScreenResume)
    def _grown(self) -> None:
        self._rows.forget()
        self.fit_columns()
        if self._first is not None and self.reading.understood > self._first:
            self.reach(self._first)
            self._first = None
        self.table.renew()
        self.show_place()

    @on(Checked)
    @on(events.ScreenResume)
    def _checked(self) -> None:
        count = sum(self.reading.findings.tally)
        if count != self._finding_count:
            self._finding_count = count
            self.table.renew()
            self.detail.show_beside()
        self.show_place()

    @on(Table.Moved)
    def _moved(self) -> None:
        self.detail.page = 0
        self.show_place()

    def show_place(self) -> None:
        """Show the title and the detail for the row at the cursor."""
        self.show_title()
        self.detail.show()

    def show_title(self) -> None:
        """Show the title for what the screen shows now."""
        place = Place(self._paused(), self._scan, self.is_searching, self.beside, self.order_text, self.exporting)
        self.set_title(title(self.reading, place, self.app.size.width - 2))
        warnings = [losses_text(self.reading.losses)] if self.reading.losses else []
        warnings += [f"▲ {text}" for text in self.reading.forgotten]
        lost = self.query_one("#lost", Words)
        lost.display = bool(warnings)
        if warnings:
            lost.show_lines([[Span(text, "bad")] for text in warnings])

    def _paused(self) -> int | None:
        """The number of rows since following was paused; None while the end is followed."""
        count = len(self._rows)
        if self.table.following and self.table.cursor >= count - 1:
            self._seen = count
            return None
        return max(0, count - self._seen)

    # ---- moving

    def action_pair(self) -> None:
        """Go from a request to its response, or back."""
        entry = self.entry
        partner = self.reading.partner(entry) if entry is not None else None
        if partner is None:
            notify(
                self.app, "this row has no request or response to go to" if entry is not None else "nothing is selected"
            )
            return
        if self._rows.is_exchanges:
            self.action_exchanges()
        self.reach(partner)

    def action_follow(self) -> None:
        """Follow the end, or stop following it; sorted rows go back to the order of the capture first."""
        if self.is_sorted:
            self.restore_order()
        super().action_follow()

    def show_marks(self) -> None:
        """Redraw, as the marks of rows may have changed."""
        if self._rows.marks is not self.marks.notes:
            self._rows.marks = self.marks.notes
            self.detail.show(again=True)
        self.table.renew()
        self.show_title()

    def action_match(self, by: int) -> None:
        """Go to the next row that the filter selects or, without a filter, to the next error or finding."""
        entry = self.entry
        if self._scan is None:
            self._go_wrong(entry, by)
            return
        rows = self._scan.rows
        at = 0 if entry is None else bisect_right(rows, entry) if by > 0 else bisect_left(rows, entry) - 1
        while 0 <= at < len(rows):
            if self._go_on_to(rows[at], entry, by):
                return
            at += by
        notify(self.app, f"no match {'below' if by > 0 else 'above'}")

    def _go_wrong(self, entry: int | None, by: int) -> None:
        """Go to the next row with an error or a finding."""
        row = self.reading.next_wrong(-1 if entry is None else entry, by)
        while row is not None:
            if self._go_on_to(row, entry, by):
                return
            row = self.reading.next_wrong(row, by)
        notify(self.app, f"no error {'below' if by > 0 else 'above'}")

    def _go_on_to(self, row: int, entry: int | None, by: int) -> bool:
        """Go to a row, or to its exchange; False if no line beyond the current line shows it."""
        row = self.line_of(row)
        return (entry is None or (row - entry) * by > 0) and self.go_to(row)

    # ---- the detail

    @on(Table.Chosen)
    def action_into(self) -> None:
        """Show the detail, and move the focus to it."""
        # New rows must not replace the row that is being read.
        self.table.following = False
        self.detail.display = True
        self.show_place()
        self.pane.focus()

    def action_outof(self) -> None:
        """Go back to the list."""
        self.table.focus()

    def action_panes(self) -> None:
        """Move between the list and the detail; in the filter, complete the term."""
        if self.query_one(FilterBox).display:
            self.complete()
        else:
            super().action_panes()

    def close_detail(self) -> bool:
        """Hide the detail; False if it was not shown."""
        was_shown = self.detail.display
        self.detail.display = False
        return was_shown

    def leave(self) -> None:
        """Go back to the screen below, or to another capture from which this one was opened."""
        self.app.leave()

    def action_view(self, number: int) -> None:
        """Show one of the views of the detail."""
        self.detail.display = True
        self.detail.choose(VIEWS[number])

    def action_turn(self, by: int) -> None:
        """Show the next or previous page of long content."""
        self.detail.turn(by)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the columns, the title, and the exchange beside the detail."""
        self.set_columns()
        self.show_title()
        self.detail.resize(event.size.width)
