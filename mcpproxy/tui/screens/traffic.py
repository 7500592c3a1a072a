"""Traffic: every frame of one capture as it arrives, with filters, and the detail of one row below."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from analysis.filter import FilterError, parse
from captures.errors import CaptureError
from mcpproxy.report.text import Span, fit
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.completion import filter_completion
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.finding_lines import losses_text
from mcpproxy.tui.messages import Checked, Grown, Progressed, RowsRead
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screen_entries import OpenCapture, bind
from mcpproxy.tui.screens.arrival import ArrivalScreen
from mcpproxy.tui.screens.list_screen import TO_FILTER
from mcpproxy.tui.screens.traffic_title import FOLLOWING, KILLED, LIVE, title
from mcpproxy.tui.traffic_table import EXCHANGE_COLUMNS, FRAME_COLUMNS, TrafficRows, columns_for, next_times
from mcpproxy.tui.widgets.detail_box import DetailBox
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.split import Split
from mcpproxy.tui.widgets.table import Table, layout

SUGGESTIONS: Final = 300
"""The maximum width of Tab's suggestions, in cells."""


class TrafficScreen(ArrivalScreen):
    """The frames or exchanges of one capture."""

    DEFAULT_CSS = """
    TrafficScreen {
        & #lost { height: auto; max-height: 3; display: none; padding: 0 1; }
        & #wrong { height: auto; max-height: 4; display: none; padding: 0 1; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_FILTER,
        Binding("p", "pair", "pair", id="pair"),
        Binding("f", "follow", "follow", id="follow"),
        Binding("n", "match(1)", "next", id="next"),
        Binding("N", "match(-1)", "previous", show=False, id="previous"),
        Binding("x", "exchanges", "exchanges", id="exchanges"),
        Binding("t", "times", "time", id="times"),
    ]
    LIST = "#traffic"

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture.

        Args:
            capture: the capture; if it names a row, that row is shown first.
        """
        super().__init__(capture)
        self._only = capture.only
        self._rows = TrafficRows(self.reading, self._report_rows)
        self._scan: Scan | None = None
        self._filtered, self._suggested = False, ""
        self._finding_count = 0
        """The number of findings when the rows were last drawn."""
        self._near: tuple[int, int] | None = None
        """The entry at the cursor before the filter, and the row nearest to it so far."""
        bind(self._bindings, "traffic")

    def compose(self) -> ComposeResult:
        """The list, and the detail below it or beside it."""
        yield Words(id="title")
        yield Words(id="lost")
        with Split():
            yield Table(FRAME_COLUMNS, id="traffic")
            yield DetailBox(self.reading, self.marks, lambda: self.entry, id="below")
        yield Words(id="wrong")
        yield FilterBox("method:tools/call latency>100ms …", of="traffic", id="filter")
        yield Foot()

    def on_mount(self) -> None:
        """Show the rows so far."""
        self.table.show(self._rows)
        self.table.focus()
        self.table.following = self.reading.is_live and self.goal is None
        self._grown()
        self.set_interval(1.0, self._renew_ages)
        if self._only is not None:
            self.select(self._only)

    def on_unmount(self) -> None:
        """Stop reading."""
        self._end_scan()
        self._rows.close()

    @property
    def entry(self) -> int | None:
        """The entry at the cursor."""
        return self._rows.entry(self.table.cursor)

    @property
    def capture(self) -> OpenCapture:
        """The capture, and where the cursor is."""
        return OpenCapture(self.reading, self.entry)

    # ---- updates

    def _report_rows(self) -> None:
        self.post_message(RowsRead())

    @on(RowsRead)
    def _rows_read(self) -> None:
        self.table.renew()

    def _renew_ages(self) -> None:
        """Update the waiting times of unanswered requests."""
        if self.reading.is_live and self.is_current:
            self.table.renew()

    @on(Grown)
    @on(events.ScreenResume)
    def _grown(self) -> None:
        self._rows.forget()
        self.go_to_goal()
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

    @on(Progressed)
    def _matched(self) -> None:
        if self._filtered:
            self.table.renew()
            self._go_near()
        self.show_place()

    def _go_near(self) -> None:
        """Keep the cursor near its entry before the filter, until the user moves it or the nearest row is known."""
        if self._near is None or self._scan is None:
            return
        (entry, placed), rows = self._near, self._scan.rows
        if self.table.cursor != placed or not rows:
            self._near = None if rows else self._near
            return
        after = bisect_left(rows, entry)
        near = [row for row in (after - 1, after) if 0 <= row < len(rows)]
        placed = min(near, key=lambda row: abs(rows[row] - entry))
        self._near = (entry, placed) if after == len(rows) and self.is_working else None
        self.table.go(placed)

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
        scan = self._scan if self._filtered else None
        is_searching = scan is not None and (self.is_working or scan.is_waiting)
        self.set_title(title(self.reading, scan, self._state(), self.exporting, is_searching=is_searching))
        warnings = [losses_text(self.reading.losses)] if self.reading.losses else []
        warnings += [f"▲ {text}" for text in self.reading.forgotten]
        lost = self.query_one("#lost", Words)
        lost.display = bool(warnings)
        if warnings:
            lost.show_lines([[Span(text, "bad")] for text in warnings])

    def _state(self) -> str:
        if self.reading.is_killed:
            return KILLED
        if not self.reading.is_live:
            return ""
        if self.table.following and self.table.cursor >= len(self._rows) - 1:
            return FOLLOWING
        return LIVE if self.reading.index.tail.is_at_end else ""

    # ---- moving

    def go_to(self, entry: int) -> bool:
        """Put the cursor on an entry; False if no row shows it."""
        view = self._rows.view
        at = bisect_left(view, entry)
        if at == len(view) or view[at] != entry:
            return False
        self.table.following = False
        self.table.go(at)
        return True

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

    def reach(self, entry: int) -> None:
        """Put the cursor on an entry, whatever the filter."""
        if not self.go_to(entry):
            self._show_all()
            self.go_to(entry)

    def rows_shown(self) -> Sequence[int]:
        """The entries shown; for an exchange, both of its entries."""
        view = self._rows.view
        if not self._rows.is_exchanges:
            return view
        others = (self.reading.partner(row) for row in view)
        return sorted({*view, *(row for row in others if row is not None)})

    def show_marks(self) -> None:
        """Redraw, as the marks of rows may have changed."""
        if self._rows.marks is not self.marks.notes:
            self._rows.marks = self.marks.notes
            self.detail.show(again=True)
        self.table.renew()
        self.show_title()

    def action_match(self, by: int) -> None:
        """Go to the next row that the last filter selects or, without a filter, to the next error or finding.

        In the detail, go to the next match there.
        """
        if self.go_to_found(by):
            return
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
        row = self._line_of(row)
        return (entry is None or (row - entry) * by > 0) and self.go_to(row)

    def _line_of(self, row: int) -> int:
        """The row whose line shows another row: among exchanges, the row of its request."""
        number = self.reading.exchange(row) if self._rows.is_exchanges else None
        return row if number is None else self.reading.exchanges.request[number]

    def action_exchanges(self) -> None:
        """Switch between frames and exchanges."""
        entry, rows = self.entry, self._rows
        rows.is_exchanges = not rows.is_exchanges
        self._filtered = False
        rows.view = self.reading.exchanges.request if rows.is_exchanges else self.reading.shown
        following = self.table.following
        self._set_columns()
        self.table.show(rows)
        if entry is not None and not self.go_to(self._line_of(entry)):
            # Not in an exchange: take the last exchange that began before it.
            self.table.go(bisect_right(rows.view, entry) - 1)
        self.table.following = following
        self.show_place()

    def action_times(self) -> None:
        """Switch times: since the start, since the row above, wall clock."""
        self._rows.times = next_times(self._rows.times)
        self._set_columns()

    def _set_columns(self) -> None:
        self.table.set_columns(
            columns_for(EXCHANGE_COLUMNS if self._rows.is_exchanges else FRAME_COLUMNS, self._rows.times)
        )

    # ---- the filter

    def action_filter(self) -> None:
        """Type an expression; in the detail, a text to find."""
        if self.find():
            return
        self.query_one(FilterBox).open(self._scan.only.text if self._scan is not None else "")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        # An error in the unfinished expression does not hide Tab's suggestions.
        if event.value != self._suggested:
            self._suggested = ""
            self._point(event.value)

    def _point(self, text: str) -> str | None:
        """Show where an expression is wrong; returns the error."""
        wrong = self.query_one("#wrong", Words)
        try:
            if text.strip():
                parse(text)
        except FilterError as error:
            wrong.show_lines([[Span(line, "bad")] for line in str(error).splitlines()])
            wrong.display = True
            return error.wrong
        wrong.display = False
        return None

    def _complete(self) -> None:
        box, wrong = self.query_one(FilterBox), self.query_one("#wrong", Words)
        term, completion = filter_completion(box.before, self.reading.calls.all)
        if completion is not None and completion.text != term:
            box.complete(term, completion.text)
        if completion is not None and completion.options:
            wrong.show([Span(fit("  ".join(map(sanitise, completion.options)), SUGGESTIONS), "dim")])
            wrong.display = True
            self._suggested = box.value

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if text and self._point(text) is not None:
            return
        self.query_one(FilterBox).keep(text)
        self.select(text)

    def select(self, text: str) -> None:
        """Show what an expression selects; everything if it is empty."""
        self.leave_box()
        self._end_scan()
        self._scan = None
        if not text:
            self._show_all()
            return
        try:
            self._scan = Scan(self.reading, parse(text), self.marks.notes)
        except (FilterError, CaptureError) as error:
            notify(self.app, str(error), bad=True)
            return
        entry, following = self.entry, self.table.following and self.reading.is_live
        self._near = (entry, 0) if entry is not None and not following else None
        self.table.following = following
        self._rows.is_exchanges, self._filtered = False, True
        self._rows.view = self._scan.rows
        self._set_columns()
        self.table.show(self._rows)
        self.begin(self._scan.step, "scan")
        self.show_title()

    @property
    def _is_as_opened(self) -> bool:
        """Whether the screen was opened with this filter: then there is no earlier view to go back to."""
        return self._scan is not None and self._scan.only.text == self._only

    def _end_scan(self) -> None:
        self.end()
        if self._scan is not None:
            self._scan.close()

    def _show_all(self) -> None:
        entry = self.entry
        self._filtered = self._rows.is_exchanges = False
        self._rows.view = self.reading.shown
        self._set_columns()
        self.table.show(self._rows)
        if entry is not None:
            self.go_to(entry)
        self.show_title()

    def leave_box(self) -> None:
        """Hide the filter box and the error in it, and go back to the list."""
        self.query_one("#wrong", Words).display = False
        super().leave_box()

    # ---- keys

    def action_panes(self) -> None:
        """Move between the list and the detail; in the filter, complete the term."""
        if self.query_one(FilterBox).display:
            self._complete()
        else:
            super().action_panes()

    def clear_filter(self) -> bool:
        """Show all rows again; False if all are shown, or the screen was opened with this filter."""
        can_clear = self._filtered and not self._is_as_opened
        if can_clear:
            self._show_all()
        return can_clear

    def leave(self) -> None:
        """Go back to the screen below, or to another capture from which this one was opened."""
        self.app.leave()

    def fit_list(self, width: int) -> None:
        """Fit the rows to the width of the list."""
        self._rows.is_narrow = all(column.name != "more" for column, _ in layout(FRAME_COLUMNS, width - 1))
        self.table.renew()
