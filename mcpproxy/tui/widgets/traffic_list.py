"""Traffic list: which rows of a capture are listed, in which order and columns."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from mcpproxy.tui.colours.row_looks import RowLooks
from mcpproxy.tui.data.login_folds import LoginFolds
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.sorting import RowSorter
from mcpproxy.tui.data.stderr_folds import StderrFolds
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.data.waiting_first_rows import WaitingFirstRows
from mcpproxy.tui.host import Host
from mcpproxy.tui.messages import CaptureUnreadable, RowsRead, Sorted
from mcpproxy.tui.rows.traffic_columns import (
    CAPTURE_ORDER,
    ORDERS,
    ColumnNeeds,
    NameCells,
    RowOrder,
    needs_of,
    next_times,
    traffic_columns,
)
from mcpproxy.tui.rows.traffic_table import TrafficRows
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.table import Table
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

DEFAULT_RECORDS: Final = ""
ALL_RECORDS: Final = "all records"
MESSAGES_ONLY: Final = "messages only"
FRAMES_PLACE: Final = "traffic"
EXCHANGES_PLACE: Final = "exchanges"
"""The names of the two lists in the file that keeps the columns of lists."""


class TrafficList(Vertical):
    """The frames or exchanges of a capture: all of them, or the ones that a filter selects."""

    DEFAULT_CSS = """
    TrafficList {
        & #traffic { height: 1fr; }
        & #nothing { height: 1fr; display: none; padding: 1 2; }
        &.-none #traffic { height: 1; }
        &.-none #nothing { display: block; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "fold(True)", "unfold", show=False, id="unfold-login"),
        Binding("left,h", "fold(False)", "fold", show=False, id="fold-login"),
    ]

    app: Host

    class Reordered(Message):
        """The rows are in another order, are being sorted, folded or unfolded."""

    def __init__(self, reading: Reading) -> None:
        """List all rows of a capture."""
        super().__init__()
        self.reading = reading
        self.table = Table((), place=FRAMES_PLACE, id="traffic")
        self._nothing = SafeText(id="nothing")
        self.rows = TrafficRows(reading, self._report_rows)
        self.folds = LoginFolds(reading)
        """Which logins are folded, and the rows to list then."""
        self.stderr_folds = StderrFolds(reading)
        """Which runs of lines of stderr are folded, and the rows to list then."""
        self.rows.folds, self.rows.stderr_folds = self.folds, self.stderr_folds
        self.rows.view = reading.folded_rows
        self.selected_rows: Sequence[int] | None = None
        """The rows that a filter selects, to which later ones may be added; None without a filter."""
        self.record_choice = DEFAULT_RECORDS
        """Which records are shown with the messages."""
        self.order = CAPTURE_ORDER
        """The order of the rows."""
        self._sorted_count = 0
        """The number of rows when they were sorted; 0 if they are not sorted."""
        self._sorting: tuple[RowSorter, StepThread, RowOrder] | None = None
        self._needs, self._names = ColumnNeeds(), NameCells(reading)
        self._width = 0
        """The width of the list, in cells; 0 until it is laid out."""
        self._followed_rows = 0
        """The number of rows when the end was last followed, or when what had been recorded before was read."""
        self._has_caught_up = False
        """Whether what had been recorded before the list was opened is read: only later rows are new."""
        self._has_moved = False
        """Whether the cursor has left the line where it was first, or that line was opened."""

    def compose(self) -> ComposeResult:
        """The rows, and the message if a filter selects none."""
        yield self.table
        yield self._nothing

    def on_mount(self) -> None:
        """Show the rows that have been read so far."""
        self.rows.looks = RowLooks(self.reading, self.app.colour_rules.rules)
        self._set_columns()
        self.table.show(self.rows)

    def on_unmount(self) -> None:
        """Stop reading."""
        self._end_sorting()
        self.rows.close()

    @property
    def entry(self) -> int | None:
        """The entry at the cursor."""
        return self.rows.entry(self.table.cursor)

    @on(Table.RowHighlighted)
    @on(Table.RowSelected)
    def _note_move(self) -> None:
        self._has_moved = True

    def _report_rows(self) -> None:
        self.post_message(RowsRead())

    @on(RowsRead)
    def _rows_read(self) -> None:
        self.table.renew()

    def renew(self) -> None:
        """Update the rows with everything that is known about them by now."""
        self.rows.forget()
        self._renew_folds()
        if self._current_needs() != self._needs:
            self._set_columns()
        self.table.renew()

    def _renew_folds(self) -> None:
        """List the rows that have been added, folded or unfolded since the last call; the cursor stays on its row."""
        if self.rows.folds is None:
            return
        entry = self.entry
        self.folds.grow(entry if self._has_moved else None)
        self.stderr_folds.grow()
        self.rows.stderr_folds = self.stderr_folds if self._folds_stderr else None
        self.rows.view = self.all_rows
        if self._has_moved and entry is not None and self.entry != entry:
            self.table.shift(max(0, bisect_right(self.rows.view, entry) - 1))

    # ---- which rows

    @property
    def all_rows(self) -> Sequence[int]:
        """The rows to list without a filter, in the order of the capture."""
        if self.rows.is_exchanges:
            return self.reading.calls.request
        return self.stderr_folds.rows if self._folds_stderr else self._rows_with_lines

    @property
    def _folds_stderr(self) -> bool:
        """Whether long runs of lines of stderr are folded: over HTTP, where there are logins, there are no lines."""
        return self.record_choice == DEFAULT_RECORDS and not len(self.reading.logins)

    @property
    def _rows_with_lines(self) -> Sequence[int]:
        """The frames and records to list, with all lines of stderr."""
        return self.folds.rows(self._base_rows, omits_successes=self.record_choice == MESSAGES_ONLY)

    @property
    def _base_rows(self) -> Sequence[int]:
        """The rows to list by the choice of records, without folds."""
        return {ALL_RECORDS: self.reading.shown_rows, MESSAGES_ONLY: self.reading.message_rows}.get(
            self.record_choice, self.reading.folded_rows
        )

    @property
    def _unsorted_rows(self) -> Sequence[int]:
        """The rows to list, in the order of the capture."""
        return self.selected_rows if self.selected_rows is not None else self.all_rows

    @property
    def _sortable_rows(self) -> Sequence[int]:
        """The rows to sort: lines of stderr are not folded then."""
        is_folded = self.selected_rows is None and not self.rows.is_exchanges
        return self._rows_with_lines if is_folded else self._unsorted_rows

    def show(self, entry: int | None) -> None:
        """List the rows by the current settings, with the cursor on an entry, or near it."""
        self._end_sorting()
        self.order, self._sorted_count = CAPTURE_ORDER, 0
        self.rows.view = self._unsorted_rows
        has_folds = not self.rows.is_exchanges and self.selected_rows is None
        self.rows.folds = self.folds if has_folds else None
        self.rows.stderr_folds = self.stderr_folds if has_folds and self._folds_stderr else None
        is_following = self.table.following
        self._set_columns()
        self.table.show(self.rows)
        if entry is not None and not self.go_to(entry):
            self.table.go(bisect_right(self.rows.view, entry) - 1 if self.is_ascending else 0)
        self.table.following = is_following
        self._followed_rows = len(self.rows)

    def renew_selection(self) -> None:
        """Show the rows that a filter has selected by now; in another order than the capture's, keep the cursor."""
        view = self.rows.view
        if isinstance(view, WaitingFirstRows):
            entry = self.entry
            view.renew(self.reading.waiting.request_rows())
            line = None if entry is None or not self._has_moved else view.line_of(entry)
            if line is not None and line != self.table.cursor:
                self.table.shift(line)
        self.table.renew()

    def show_nothing(self, spans: Sequence[Span]) -> None:
        """Show why nothing is listed; an empty text hides the message."""
        self.set_class(bool(spans), "-none")
        if spans:
            self._nothing.show(spans)

    def line_of(self, row: int) -> int:
        """The row whose line shows another row: among exchanges, the row of its request."""
        if self.rows.folds is not None:
            return self.reading.logins.line_of(row)
        number = self.reading.call(row) if self.rows.is_exchanges else None
        return row if number is None else self.reading.calls.request[number]

    def go_to(self, entry: int) -> bool:
        """Put the cursor on the line that shows an entry, and unfold its login; returns False if there is none."""
        row = self.line_of(entry)
        if self.rows.folds is not None:
            self.folds.reveal(row)
        if self.rows.stderr_folds is not None:
            self.stderr_folds.reveal(row)
        view = self.rows.view
        if isinstance(view, WaitingFirstRows):
            waiting_line = view.line_of(row)
            if waiting_line is None:
                return False
            line = waiting_line
        elif isinstance(view, array) and self.is_sorted:
            try:
                line = view.index(row)
            except ValueError:
                return False
        else:
            line = bisect_left(view, row)
            if line == len(view) or view[line] != row:
                return False
        self.table.following = False
        self.table.go(line)
        return True

    def reveal(self, entry: int) -> None:
        """List all frames, and all records if the entry is not a frame, with the cursor on the entry."""
        self.rows.is_exchanges = False
        self.show(entry)
        if self.entry != self.line_of(entry):
            self.record_choice = ALL_RECORDS
            self.show(entry)
        self.table.following = False

    def entries(self) -> Sequence[int]:
        """The entries shown, ascending; for an exchange, both of its entries; those of logins in any case."""
        view = self.rows.view
        if self.rows.folds is not None:
            return self._base_rows
        if not self.rows.is_exchanges:
            return view if self.is_ascending else sorted(view)
        partners = (self.reading.partner(row) for row in view)
        return sorted({*view, *(row for row in partners if row is not None)})

    # ---- folds

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Whether an action is possible: keys that cannot fold or unfold the row at the cursor have other meanings."""
        if action != "fold":
            return True
        is_unfolded = bool(parameters[0])
        has_login = self._login_to_fold(is_unfolded=is_unfolded) is not None
        return has_login or self._run_to_fold(is_unfolded=is_unfolded) is not None

    def _login_to_fold(self, *, is_unfolded: bool) -> int | None:
        """The number of the login at the cursor, if it can be folded or unfolded."""
        entry = self.entry
        number = None if entry is None or self.rows.folds is None else self.reading.logins.login_shown_in(entry)
        return None if number is None or self.folds.is_unfolded(number) == is_unfolded else number

    def _run_to_fold(self, *, is_unfolded: bool) -> int | None:
        """The first line of the run of stderr at the cursor, if it can be folded or unfolded."""
        entry, folds = self.entry, self.rows.stderr_folds
        first_line = None if entry is None or folds is None else folds.first_line_of(entry)
        is_same = first_line is not None and self.stderr_folds.is_unfolded(first_line) == is_unfolded
        return None if is_same else first_line

    def action_fold(self, is_unfolded: bool) -> None:
        """Unfold the login or the lines of stderr at the cursor, or fold them again."""
        number = self._login_to_fold(is_unfolded=is_unfolded)
        first_line = self._run_to_fold(is_unfolded=is_unfolded)
        if number is not None:
            self._set_fold(number, is_unfolded=is_unfolded)
        elif first_line is not None:
            self._set_stderr_fold(first_line, is_unfolded=is_unfolded)

    def _set_stderr_fold(self, first_line: int, *, is_unfolded: bool) -> None:
        """Fold or unfold a run of lines of stderr, with the cursor on its first line."""
        self.stderr_folds.fold(first_line, is_unfolded=is_unfolded)
        self.table.renew()
        self.go_to(first_line)
        self.post_message(self.Reordered())

    def _set_fold(self, number: int, *, is_unfolded: bool) -> None:
        """Fold or unfold a login, with the cursor on its head."""
        self.folds.fold(number, is_unfolded=is_unfolded)
        self.table.renew()
        self.go_to(self.reading.logins.head(number))
        self.post_message(self.Reordered())

    @on(Table.CellClicked)
    def _fold_by_click(self, event: Table.CellClicked) -> None:
        """Fold or unfold the login, or the lines of stderr, on whose fold sign the user clicked."""
        entry = self.rows.entry(event.row)
        if entry is not None and event.column == "way" and self.rows.stderr_folds is not None:
            first_line = self.stderr_folds.first_line_of(entry)
            if first_line == entry:
                self._set_stderr_fold(entry, is_unfolded=not self.stderr_folds.is_unfolded(entry))
        number = None if entry is None or event.column != "way" else self.rows.head_at(entry)
        if number is not None:
            self._set_fold(number, is_unfolded=not self.folds.is_unfolded(number))

    def switch_records(self) -> bool:
        """Show only messages, or all records; returns False if that is invisible until all frames are shown."""
        entry, reading = self.entry, self.reading
        choices = (
            [DEFAULT_RECORDS, MESSAGES_ONLY]
            if len(reading.folded_rows) == len(reading.shown_rows) and not self.stderr_folds
            else [DEFAULT_RECORDS, ALL_RECORDS, MESSAGES_ONLY]
        )
        self.record_choice = (
            choices[(choices.index(self.record_choice) + 1) % len(choices)]
            if self.record_choice in choices
            else DEFAULT_RECORDS
        )
        is_visible = not self.rows.is_exchanges and self.selected_rows is None
        if is_visible:
            self.show(entry)
        return is_visible

    @property
    def new_rows(self) -> int | None:
        """The number of rows since following was paused; None while the list shows all new rows."""
        if isinstance(self.rows.view, WaitingFirstRows):
            return None  # its newest rows are not at its end
        count = len(self.rows)
        if self.table.following and self.table.cursor >= count - 1:
            self._followed_rows = count
            return None
        if not self._has_caught_up:
            self._has_caught_up = self.reading.index.tail.is_at_end
            self._followed_rows = count
        return max(0, count - self._followed_rows)

    # ---- columns

    def switch_times(self) -> None:
        """Switch between times since the start, times since the row above, and the wall clock."""
        self.rows.times = next_times(self.rows.times)
        self._set_columns()

    def fit_columns(self, width: int) -> None:
        """Fit the columns to the width of the list, in cells."""
        self._width = width
        self._set_columns()

    def _current_needs(self) -> ColumnNeeds:
        has_marks = bool(self.rows.marks) or self.rows.compared_row is not None
        return needs_of(self.reading, self._names)._replace(has_marks=has_marks)

    @on(Table.ColumnsChosen)
    def _set_columns(self) -> None:
        """Show the columns that the rows need now, or those of them that the user has chosen."""
        self._needs = self._current_needs()
        width, rows, table = (self._width or self.app.size.width) - 1, self.rows, self.table
        columns = traffic_columns(width, self._needs, rows.times, self.order, is_exchanges=rows.is_exchanges)
        table.set_place(EXCHANGES_PLACE if rows.is_exchanges else FRAMES_PLACE)
        table.set_columns(columns)
        rows.fit(table.widths(width), self._needs.name)
        table.renew()

    # ---- order

    @property
    def is_sorted(self) -> bool:
        """Whether the rows are in an order other than the capture's."""
        return self.order != CAPTURE_ORDER

    @property
    def is_ascending(self) -> bool:
        """Whether the rows are in the order of the capture."""
        return not (self.is_sorted or isinstance(self.rows.view, WaitingFirstRows))

    def sort(self) -> None:
        """Sort by the next column."""
        current_order = self._sorting[2] if self._sorting is not None else self.order
        column = ORDERS[(ORDERS.index(current_order.column) + 1) % len(ORDERS)]
        self.sort_by(RowOrder(column, column != ORDERS[0]))

    @on(Table.HeadClicked)
    def _sort_by_head(self, event: Table.HeadClicked) -> None:
        """Sort by a column, in reverse order if the rows are sorted by it already."""
        if event.column in ORDERS:
            is_same_column = event.column == self.order.column
            self.sort_by(RowOrder(event.column, not self.order.is_descending if is_same_column else True))

    def sort_by(self, order: RowOrder) -> None:
        """Sort the current rows."""
        self._end_sorting()
        if order == CAPTURE_ORDER:
            self.restore_order()
            return
        # The rows are copied if a filter or a fold may drop some of them later.
        view = self._sortable_rows
        if self.selected_rows is not None or self.rows.folds is not None:
            view = array("I", view)
        sorting = RowSorter(
            self.reading, view, order.column, is_down=order.is_descending, is_exchanges=self.rows.is_exchanges
        )
        self._sorting = sorting, StepThread(sorting.step, self._report_sort, self._report_failed_sort, "sort"), order
        self.post_message(self.Reordered())

    def restore_order(self) -> None:
        """Go back to the order of the capture."""
        self.show(self.entry)
        self.post_message(self.Reordered())

    def _report_sort(self) -> None:
        self.post_message(Sorted())

    def _report_failed_sort(self, reason: str) -> None:
        self.post_message(CaptureUnreadable(self.reading.path, reason))

    @on(Sorted)
    def _sorted(self) -> None:
        if self._sorting is None:
            return
        sorting, _, order = self._sorting
        if sorting.has_ended:
            self._end_sorting()
            self.order, self._sorted_count = order, sorting.count
            self.rows.view, self.rows.folds, self.rows.stderr_folds = sorting.rows, None, None
            self.table.following = False
            self._set_columns()
            self.table.show(self.rows)
            self._followed_rows = len(self.rows)
        self.post_message(self.Reordered())

    def _end_sorting(self) -> None:
        if self._sorting is not None:
            self._sorting[1].stop()
            self._sorting = None

    @property
    def order_text(self) -> str:
        """The order of the rows, for the title, or an empty text for the order of the capture."""
        if self._sorting is not None:
            sorting, _, order = self._sorting
            return f"sorting by {order.column} {int(100 * sorting.progress)}%"
        if not self.is_sorted:
            return "waiting first" if isinstance(self.rows.view, WaitingFirstRows) else ""
        text = f"by {self.order.column} {self.order.arrow}"
        new_count = len(self._sortable_rows) - self._sorted_count
        return f"{text} · {count_text(new_count, 'newer row')} not listed" if new_count > 0 else text
