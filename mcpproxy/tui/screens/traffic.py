"""Traffic: every frame of one capture as it arrives, with filters, and the detail of one row below."""

from bisect import bisect_left, bisect_right
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from mcpproxy.tui.details.detail import entry_name
from mcpproxy.tui.messages import CaptureGrown, Checked, DetailRead, Progressed
from mcpproxy.tui.rows.incompleteness import incompleteness_texts
from mcpproxy.tui.rows.row_calls import no_partner_text
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screen_entries import OpenCapture, bind_screens
from mcpproxy.tui.screens.arrival import Arrival
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.exporting import Exporter, row_choices
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_FILTER, TO_SORT
from mcpproxy.tui.screens.longest_wait import LongestWait
from mcpproxy.tui.screens.marking import RowMarker
from mcpproxy.tui.screens.prompts import LineScreen
from mcpproxy.tui.screens.row_actions import RowActions
from mcpproxy.tui.screens.row_comparison_choice import RowComparisonChoice
from mcpproxy.tui.screens.traffic_filter import TrafficFilter
from mcpproxy.tui.screens.traffic_title import (
    TitleState,
    filling_spans,
    title_spans,
    waiting_pieces_of,
)
from mcpproxy.tui.screens.turn import show_turn
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.detail_box import DetailBox
from mcpproxy.tui.widgets.expression_box import ExpressionBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.split import Split
from mcpproxy.tui.widgets.table import Table
from mcpproxy.tui.widgets.traffic_list import TrafficList
from mcpproxy.wording.spans import Span

MAX_LOSS_LINES: Final = 3
"""The maximum number of lines about losses."""
MIN_LIST_HEIGHT: Final = 5
"""The height of title, heading, two rows and footer, in lines."""


class TrafficScreen(CaptureScreen):
    """The frames or exchanges of one capture.

    A list and the detail of one of its rows share a `Split`, which has the keys for the detail. All other keys are
    bound here; most of their actions call one of the parts of the screen.
    """

    DEFAULT_CSS = """
    TrafficScreen {
        & #lost { height: auto; display: none; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # the list
        TO_SORT,
        Binding("x", "exchanges", "exchanges", id="exchanges"),
        Binding("b", "beside", "records", id="beside"),
        Binding("t", "times", "time", id="times"),
        Binding("f", "follow", "follow", id="follow"),
        Binding("colon", "go_to", "go to", show=False, id="go-to"),
        Binding("p", "pair", "answer", id="pair"),
        Binding("P", "calls_of_turn", "turn", id="turn"),
        Binding("w", "waiting", "waiting", id="waiting"),
        Binding("n", "match(1)", "next", id="next"),
        Binding("N", "match(-1)", "previous", show=False, id="previous"),
        # the filter
        TO_FILTER,
        Binding("exclamation_mark", "errors", "errors", id="errors"),
        Binding("plus", "point(False)", "only these", show=False, id="include"),
        Binding("minus", "point(True)", "without these", show=False, id="exclude"),
        # one row
        Binding("equals_sign", "compare", "compare", id="compare"),
        Binding("m", "mark", "mark", id="mark"),
        Binding("M", "note", "note", show=False, id="note"),
        Binding("apostrophe", "next_mark", "next mark", show=False, id="next-mark"),
        Binding("c", "copy", "copy", id="copy"),
        Binding("o", "save", "save", show=False, id="save"),
        Binding("r", "rule", "rule", show=False, id="rule"),
        Binding("e", "export", "export", id="export"),
        # the detail; `Split` has the other keys
        TO_DETAIL,
    ]
    LIST = "#traffic"
    DETAIL = "#text"

    def __init__(self, capture: OpenCapture) -> None:
        """Create the screen of a capture.

        Args:
            capture: the capture, where to go first, and the filter that the screen is opened with, if any.
        """
        super().__init__(capture.reading)
        self.marking = RowMarker(self, self.reading, self._show_marks)
        self.listing = TrafficList(self.reading)
        self.detail = DetailBox(self.reading, self.marking.marks, lambda: self.entry, id="below")
        self.split = Split(self.listing, self.detail)
        self.box = ExpressionBox(self.reading)
        self.row_actions = RowActions(self, self.reading, lambda: self.entry)
        self.comparison_choice = RowComparisonChoice(self, self.reading, self.row_actions)
        self.exporting = Exporter(self, self.show_title)
        self.filter = TrafficFilter(self, self.listing, self.marking.marks, capture.filter_text)
        self.arrival = Arrival(capture, self.split, self.go_to_entry)
        self.longest_wait = LongestWait(self.reading, self.split, self.go_to_entry, is_goal=capture.is_at_longest_wait)
        self._shown_urgent_actions: tuple[str, ...] = ()
        self._finding_count = 0
        """The number of findings when the rows were last drawn."""
        bind_screens(self._bindings, "traffic")

    def compose(self) -> ComposeResult:
        """The list, and the detail below it or next to it."""
        yield ClickableLine(id="title")
        yield SafeText(id="lost")
        yield self.split
        yield self.box
        yield Foot()

    def on_mount(self) -> None:
        """Show the rows that have been read so far."""
        self.marking.load()
        self.table.focus()
        self.table.following = self.reading.is_live and self.arrival.is_over
        self._grown()
        self.set_interval(1.0, self._renew_ages)
        self.filter.apply_opening_filter()

    def on_unmount(self) -> None:
        """Cancel work in progress."""
        self.filter.stop()
        for part in (self.marking, self.row_actions, self.exporting):
            part.close()

    @property
    def table(self) -> Table:
        """The table of the list."""
        return self.listing.table

    @property
    def entry(self) -> int | None:
        """The entry at the cursor."""
        return self.listing.entry

    @property
    def capture(self) -> OpenCapture:
        """The capture, where the cursor is, and the filter."""
        return OpenCapture(self.reading, self.entry, limit=self.filter.text)

    # ---- the place

    @property
    def is_capture_itself(self) -> bool:
        """Whether the name of the capture is the crumb of this screen, which it is."""
        return True

    @property
    def session(self) -> int | None:
        """The number of the session at the cursor, or None if the capture has only one."""
        return self.reading.session_of(self.entry) if self.entry is not None else None

    @property
    def part(self) -> str:
        """The row whose detail is open."""
        entry = self.entry if self.detail.display and not self.split.is_preview else None
        return entry_name(self.reading.index.entry(entry)) if entry is not None else ""

    # ---- updates

    @property
    def urgent_actions(self) -> tuple[str, ...]:
        """The actions whose keys come first now: to go to what waits, while anything has waited for a while."""
        return ("waiting",) if waiting_pieces_of(self.reading) else ()

    def _renew_ages(self) -> None:
        """Update the waiting times of unanswered requests, and how long the session has lasted."""
        if self.reading.is_live and self.is_current:
            self.app.announce_growth()

    @on(CaptureGrown)
    @on(events.ScreenResume)
    def _grown(self) -> None:
        self.listing.renew()
        self.arrival.go()
        self.longest_wait.arrive()
        self._show_place()

    @on(Checked)
    @on(events.ScreenResume)
    def _checked(self) -> None:
        count = sum(self.reading.findings.tally)
        if count != self._finding_count:
            self._finding_count = count
            self.listing.renew()
            self.detail.show_side()
        self._show_place()

    @on(Progressed)
    def _matched(self) -> None:
        self.filter.renew()
        self._show_place()

    @on(Table.RowHighlighted)
    def _moved(self) -> None:
        self.detail.page = 0
        self.split.show_row()

    @on(DetailRead)
    def _detail_read(self, event: DetailRead) -> None:
        self.arrival.select_place(event.row)

    def _show_marks(self) -> None:
        """Redraw the rows, as their marks may have changed."""
        notes = self.marking.marks.notes
        if self.listing.rows.marks is not notes:
            self.listing.rows.marks = notes
            self.detail.show(again=True)
        self.table.renew()
        self.show_title()

    @on(TrafficList.Reordered)
    @on(Split.Opened)
    def _show_place(self) -> None:
        """Show the title and the detail for the row at the cursor."""
        self.show_title()
        self.split.show_row()

    def show_title(self) -> None:
        """Update the title to match the screen."""
        listing, traffic_filter = self.listing, self.filter
        state = TitleState(
            listing.new_rows,
            traffic_filter.scan,
            traffic_filter.is_searching,
            listing.record_choice,
            listing.order_text,
            self.exporting.progress,
            self.comparison_choice.sign,
        )
        if self.urgent_actions != self._shown_urgent_actions:
            self._shown_urgent_actions = self.urgent_actions
            self.refresh_bindings()
        self.listing.rows.compared_row = self.comparison_choice.marked
        self.set_title(
            title_spans(self.reading, state),
            lambda room: filling_spans(self.reading, state.scan, self.session, room),
        )
        warnings = list(incompleteness_texts(self.reading))
        warning_box = self.query_one("#lost", SafeText)
        # In a low terminal, two rows of the list take precedence over these lines.
        room = min(MAX_LOSS_LINES, self.size.height - MIN_LIST_HEIGHT)
        warning_box.display = bool(warnings) and room > 0
        if warning_box.display:
            warning_box.styles.max_height = room
            warning_box.show_lines([[Span(f"▲ {text}", "bad")] for text in warnings])

    def on_resize(self) -> None:
        """Fit list and detail to the terminal, and give the lines about losses as much room as there is."""
        self.split.fit()
        self.detail.show(again=True)
        self.show_title()

    # ---- the list

    def go_to_entry(self, entry: int) -> None:
        """Put the cursor on an entry, even if the filter does not select it or its kind of record is not shown."""
        if not self.listing.go_to(entry):
            self.filter.drop()
            self.listing.reveal(entry)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.listing.sort()

    def action_exchanges(self) -> None:
        """Switch between frames and exchanges."""
        self.filter.switch_exchanges()
        self._show_place()

    def action_beside(self) -> None:
        """Show only messages, or all records."""
        if not self.listing.switch_records():
            notify(self.app, f"{self.listing.record_choice or 'messages and records'}, once all frames are shown")
        self.show_title()

    def action_times(self) -> None:
        """Switch between times since the start, times since the row above, and the wall clock."""
        self.listing.switch_times()

    def action_follow(self) -> None:
        """Follow the end, or stop following it; sorted rows go back to the order of the capture first."""
        if self.listing.is_sorted:
            self.listing.restore_order()
        super().action_follow()

    def action_go_to(self) -> None:
        """Prompt for the number of a frame, and go there."""
        self.app.push_screen(LineScreen("go to frame"), self._go_to_number)

    def _go_to_number(self, text: str | None) -> None:
        digits = (text or "").strip().lstrip("#:").replace(",", "")
        if not digits:
            return
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            notify(self.app, f"expected the number of a frame, such as 123, not {text}", bad=True)
            return
        index, shown_entries, seq = self.reading.index, self.reading.shown_rows, int(digits)
        entry = index.entry_of_seq(seq)
        position = bisect_left(shown_entries, entry) if entry is not None else len(shown_entries)
        has_row = position < len(shown_entries) and shown_entries[position] == entry
        if entry is not None and (has_row or self.reading.logins.login_of(entry) is not None):
            self.go_to_entry(entry)
            return
        next_position = bisect_left(shown_entries, seq, key=lambda row: index.entry(row).seq)
        neighbour_seqs = [
            index.entry(shown_entries[neighbour]).seq
            for neighbour in (next_position - 1, next_position)
            if 0 <= neighbour < len(shown_entries)
        ]
        if not neighbour_seqs:
            notify(self.app, "there are no rows yet")
            return
        nearest_seq = min(neighbour_seqs, key=lambda neighbour_seq: abs(neighbour_seq - seq))
        last_seq = index.entry(shown_entries[-1]).seq
        problem = f"no record {seq:,}" if entry is None else f"record {seq:,} has no row of its own"
        notify(self.app, f"{problem}; the {'last' if nearest_seq == last_seq else 'nearest'} is {nearest_seq:,}")

    def action_pair(self) -> None:
        """Go from a request to its response, or back."""
        entry = self.entry
        partner = self.reading.partner(entry) if entry is not None else None
        if partner is None:
            notify(self.app, "nothing is selected" if entry is None else no_partner_text(self.reading, entry))
            return
        if self.listing.rows.is_exchanges:
            self.action_exchanges()
        self.go_to_entry(partner)

    def action_calls_of_turn(self) -> None:
        """Query the calls that the same prompt of the user caused, on all servers."""
        show_turn(self, self.reading, self.row_actions)

    def action_match(self, by: int) -> None:
        """Go to the next row that the filter selects or, without a filter, to the next error or finding.

        In the detail, go to the next match there.
        """
        if self.split.change_match(by):
            return
        entry, scan = self.entry, self.filter.scan
        if scan is None:
            self._go_to_next_wrong(entry, by)
            return
        rows = scan.rows
        position = 0 if entry is None else bisect_right(rows, entry) if by > 0 else bisect_left(rows, entry) - 1
        while 0 <= position < len(rows):
            if self._try_go_beyond(rows[position], entry, by):
                return
            position += by
        notify(self.app, f"no match {'below' if by > 0 else 'above'}")

    def action_waiting(self) -> None:
        """Go to the call that has waited longest, with its exchange open; pressed again, to the next."""
        self.longest_wait.go()

    def _go_to_next_wrong(self, entry: int | None, by: int) -> None:
        """Go to the next row with an error or a finding; in a login that failed, first to the leg that failed."""
        logins = self.reading.logins
        row = self.reading.next_bad_row(-1 if entry is None else entry, by)
        while row is not None:
            is_passed_over = by > 0 and logins.is_passed_over(row, entry)
            if not is_passed_over and self._try_go_beyond(row, entry, by):
                return
            row = self.reading.next_bad_row(row, by)
        notify(self.app, f"no error {'below' if by > 0 else 'above'}")

    def _try_go_beyond(self, row: int, entry: int | None, by: int) -> bool:
        """Go to a row, or to its exchange; returns False if no line beyond the current line shows it."""
        return (entry is None or (self.listing.line_of(row) - entry) * by > 0) and self.listing.go_to(row)

    # ---- the filter

    def action_filter(self) -> None:
        """Let the user type an expression, or edit the current one."""
        self.box.open(self.filter.begin_typing())

    @on(ExpressionBox.Typed)
    def _preview(self, event: ExpressionBox.Typed) -> None:
        self.filter.preview(event.text)

    @on(ExpressionBox.Entered)
    def _select(self, event: ExpressionBox.Entered) -> None:
        self.filter.confirm(event.text)

    @on(ExpressionBox.Cancelled)
    def _restore(self) -> None:
        self.filter.restore()

    def leave_box(self) -> None:
        """Hide the filter box, and go back to the list."""
        self.box.close()
        self.table.focus()

    def action_errors(self) -> None:
        """Restrict the rows to errors and requests without a response, or undo this."""
        self.filter.toggle_failures()

    def action_point(self, excludes: bool) -> None:
        """Restrict the rows to those with a value of this row, or to those without it."""
        self.filter.restrict_by_row(self.row_actions, excludes=excludes)

    def clear_filter(self) -> bool:
        """Remove the mark for a comparison, or else undo the order, or the filter's last term.

        Returns False if there was nothing to undo: the screen was opened with these rows.
        """
        if self.comparison_choice.clear():
            self._show_compared()
            return True
        if self.listing.is_sorted:
            self.listing.restore_order()
            return True
        return self.filter.undo_last_term()

    # ---- one row

    def action_compare(self) -> None:
        """Mark the row for a comparison, or compare it with the marked one."""
        self.comparison_choice.choose(self.entry)
        self._show_compared()

    def _show_compared(self) -> None:
        """Show which row is marked for a comparison."""
        self.show_title()
        self.table.renew()

    def action_mark(self) -> None:
        """Mark the row, or remove its mark; a row with a note keeps both."""
        self.marking.toggle_mark(self.entry)

    def action_note(self) -> None:
        """Add a note to the row."""
        self.marking.edit_note(self.entry)

    def action_next_mark(self) -> None:
        """Go to the next marked row; after the last, to the first."""
        row = self.marking.find_next(self.entry)
        if row is not None:
            self.go_to_entry(row)

    def action_copy(self) -> None:
        """Copy the row, in a chosen form."""
        self.row_actions.copy()

    def action_save(self) -> None:
        """Save an image, a sound or a blob of the row to a new file."""
        self.row_actions.save()

    def action_rule(self) -> None:
        """Show the pages of the rules with findings in the row, the worst first."""
        self.row_actions.show_rules()

    def action_export(self) -> None:
        """Prompt for a file, and export the shown or the marked rows to it."""
        choices = row_choices(self.listing.entries, self.marking.marked_rows, self.filter.text)
        self.exporting.prompt_for_rows(self.reading, choices)

    # ---- the detail, and back

    def action_panes(self) -> None:
        """Move between the list and the detail; in the filter, complete the term."""
        if self.box.is_open:
            self.box.complete()
        else:
            self.split.switch_focus()

    def action_back(self) -> None:
        """End the search, or else close the detail, clear the filter, or leave the screen."""
        if not (self.detail.display and self.detail.reader.end_search()):
            super().action_back()

    def close_detail(self) -> bool:
        """Hide the detail; returns False if it was not shown."""
        return self.split.close_detail()

    def leave(self) -> None:
        """Go back to the screen below, or to another capture from which this one was opened."""
        self.app.leave()
