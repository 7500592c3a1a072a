"""Traffic: every frame of one capture as it arrives, with filters, and the detail of one row below."""

from bisect import bisect_left, bisect_right
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from mcpproxy.tui.details.detail import entry_name
from mcpproxy.tui.messages import Checked, Grown
from mcpproxy.tui.rows.finding_lines import losses_text
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screen_entries import OpenCapture, bind
from mcpproxy.tui.screens.traffic_filter import TrafficFilterScreen
from mcpproxy.tui.screens.traffic_title import Place, peers, title
from mcpproxy.tui.widgets.detail_box import DetailBox
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pointed_line import PointedLine
from mcpproxy.tui.widgets.split import Split
from mcpproxy.tui.widgets.table import Table
from mcpproxy.wording.text import Span, begins_text, guesses_text, unrecorded_text

MOST_LOST: Final = 3
"""Lines about losses that are shown."""
LOWEST: Final = 5
"""Lines of title, heading, two rows and footer."""


class TrafficScreen(TrafficFilterScreen):
    """The frames or exchanges of one capture."""

    DEFAULT_CSS = """
    TrafficScreen {
        & #lost { height: auto; display: none; padding: 0 1; }
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
    ]
    LIST = "#traffic"

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture.

        Args:
            capture: the capture; if it names a row, that row is shown first.
        """
        super().__init__(capture)
        self._finding_count = 0
        """The number of findings when the rows were last drawn."""
        bind(self._bindings, "traffic")

    def compose(self) -> ComposeResult:
        """The list, and the detail below it or beside it."""
        yield PointedLine(id="title")
        yield Words(id="lost")
        with Split():
            with Vertical():
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
        self.table.following = self.reading.is_live and self.goal is None
        self._grown()
        self.set_interval(1.0, self._renew_ages)
        if self._only is not None:
            self.select(self._only)

    @property
    def capture(self) -> OpenCapture:
        """The capture, and where the cursor is."""
        return OpenCapture(self.reading, self.entry)

    @property
    def is_capture_itself(self) -> bool:
        """Whether the name of the capture stands for this screen: it does."""
        return True

    @property
    def session(self) -> int | None:
        """The number of the session at the cursor; None if the capture has only one."""
        # A screen above asks too, perhaps before this one has a list.
        entry = self.entry if self.query(self.LIST) else None
        return self.reading.session_of(entry) if entry is not None else None

    @property
    def part(self) -> str:
        """The row whose detail is open."""
        entry = self.entry if self.detail.display else None
        return entry_name(self.reading.index.entry(entry)) if entry is not None else ""

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
        self.set_title(title(self.reading, place), lambda room: peers(self.reading, room))
        capture, unrecorded = self.reading.conversation.capture, self.reading.conversation.losses.bodies
        begins_at, guesses = capture.begins_at, capture.guesses
        warnings = [f"▲ {begins_text(begins_at)}"] if begins_at else []
        warnings += [losses_text(self.reading.conversation.missing)] if self.reading.conversation.missing else []
        warnings += [f"▲ {unrecorded_text(unrecorded)}"] if unrecorded else []
        warnings += [f"▲ {guesses_text(guesses)}"] if guesses else []
        warnings += [f"▲ {text}" for text in self.reading.forgotten]
        lost = self.query_one("#lost", Words)
        # In a low terminal, two rows of the list come before these lines.
        room = min(MOST_LOST, self.size.height - LOWEST)
        lost.display = bool(warnings) and room > 0
        if lost.display:
            lost.styles.max_height = room
            lost.show_lines([[Span(text, "bad")] for text in warnings])

    def on_resize(self) -> None:
        """Give the lines about losses as much room as there is."""
        self.show_title()

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
        """Go to the next row that the filter selects or, without a filter, to the next error or finding.

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
        row = self.line_of(row)
        return (entry is None or (row - entry) * by > 0) and self.go_to(row)

    def action_panes(self) -> None:
        """Move between the list and the detail; in the filter, complete the term."""
        if self.query_one(FilterBox).display:
            self.complete()
        else:
            super().action_panes()

    def leave(self) -> None:
        """Go back to the screen below, or to another capture from which this one was opened."""
        self.app.leave()
