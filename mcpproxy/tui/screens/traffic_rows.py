"""The base of the traffic screen: which rows of a capture it lists, in which order and columns."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType

from mcpproxy.tui.data.sorting import Sorting
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.messages import Failed, RowsRead, Sorted
from mcpproxy.tui.rows.traffic_columns import CAPTURE_ORDER, ORDERS, Needs, Order, needs_of, next_times, traffic_columns
from mcpproxy.tui.rows.traffic_table import TrafficRows
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture
from mcpproxy.tui.screens.arrival import ArrivalScreen
from mcpproxy.tui.screens.list_screen import TO_SORT
from mcpproxy.tui.screens.prompts import LineScreen
from mcpproxy.tui.widgets.table import Table
from mcpproxy.wording.counts import count_text

FOLDED: Final = ""
ALL: Final = "all records"
MESSAGES: Final = "messages only"


class TrafficRowsScreen(ArrivalScreen):
    """A screen that lists the frames or exchanges of a capture."""

    BINDINGS: ClassVar[list[BindingType]] = [
        TO_SORT,
        Binding("x", "exchanges", "exchanges", id="exchanges"),
        Binding("b", "beside", "records", id="beside"),
        Binding("t", "times", "time", id="times"),
        Binding("colon", "go_to", "go to", show=False, id="go-to"),
    ]

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture."""
        super().__init__(capture)
        self._rows = TrafficRows(self.reading, self._report_rows)
        self._rows.view = self.reading.folded
        self._needs = Needs()
        self._list_width = 0
        """Cells of a line of the list; 0 until it is laid out."""
        self.row_order = CAPTURE_ORDER
        """The order of the rows."""
        self.sorted_count = 0
        """If they are sorted: how many rows there were then."""
        self._sorting: tuple[Sorting, StepThread, Order] | None = None
        self.beside = FOLDED
        """Which records are shown beside the messages."""
        self._seen = 0
        """The number of rows when the end was last followed."""

    def on_unmount(self) -> None:
        """Stop reading."""
        self._end_sorting()
        self._rows.close()

    @property
    def entry(self) -> int | None:
        """The entry at the cursor."""
        return self._rows.entry(self.table.cursor)

    def _report_rows(self) -> None:
        self.post_message(RowsRead())

    @on(RowsRead)
    def _rows_read(self) -> None:
        self.table.renew()

    # ---- which rows

    @property
    def unsorted(self) -> Sequence[int]:
        """The rows to list, in the order of the capture."""
        if self._rows.is_exchanges:
            return self.reading.calls.request
        return {ALL: self.reading.shown, MESSAGES: self.reading.frames_only}.get(self.beside, self.reading.folded)

    @property
    def is_sorted(self) -> bool:
        """Whether the rows are in an order other than the capture's."""
        return self.row_order != CAPTURE_ORDER

    def drop_filter(self) -> None:
        """Forget the filter."""

    def show_view(self, entry: int | None) -> None:
        """List the rows as they are to be listed now, with the cursor on an entry, or near it."""
        self._end_sorting()
        self.row_order, self.sorted_count = CAPTURE_ORDER, 0
        self._rows.view = self.unsorted
        following = self.table.following
        self.set_columns()
        self.table.show(self._rows)
        if entry is not None and not self.go_to(self.line_of(entry)):
            self.table.go(bisect_right(self._rows.view, entry) - 1)
        self.table.following = following
        self._seen = len(self._rows)

    def line_of(self, row: int) -> int:
        """The row whose line shows another row: among exchanges, the row of its request."""
        number = self.reading.call(row) if self._rows.is_exchanges else None
        return row if number is None else self.reading.calls.request[number]

    def go_to(self, entry: int) -> bool:
        """Put the cursor on an entry; False if no row shows it."""
        view = self._rows.view
        if isinstance(view, array) and self.is_sorted:
            try:
                at = view.index(entry)
            except ValueError:
                return False
        else:
            at = bisect_left(view, entry)
            if at == len(view) or view[at] != entry:
                return False
        self.table.following = False
        self.table.go(at)
        return True

    def reach(self, entry: int) -> None:
        """Put the cursor on an entry, whatever the filter and the records that are left out."""
        if self.go_to(self.line_of(entry)):
            return
        self._rows.is_exchanges = False
        self.drop_filter()
        self.show_view(entry)
        if self.entry != entry:
            self.beside = ALL
            self.show_view(entry)
        self.table.following = False

    def rows_shown(self) -> Sequence[int]:
        """The entries shown, ascending; for an exchange, both of its entries."""
        view = self._rows.view
        if not self._rows.is_exchanges:
            return sorted(view) if self.is_sorted else view
        others = (self.reading.partner(row) for row in view)
        return sorted({*view, *(row for row in others if row is not None)})

    def action_exchanges(self) -> None:
        """Switch between frames and exchanges."""
        entry = self.entry
        self._rows.is_exchanges = not self._rows.is_exchanges
        self.drop_filter()
        self.show_view(entry)
        self.show_place()

    def action_beside(self) -> None:
        """Show only messages, or all records."""
        entry, reading = self.entry, self.reading
        kinds = [FOLDED, MESSAGES] if len(reading.folded) == len(reading.shown) else [FOLDED, ALL, MESSAGES]
        self.beside = kinds[(kinds.index(self.beside) + 1) % len(kinds)] if self.beside in kinds else FOLDED
        if not self._rows.is_exchanges and self._is_whole:
            self.show_view(entry)
        else:
            notify(self.app, f"{self.beside or 'messages and records'}, once all frames are shown")
        self.show_title()

    @property
    def _is_whole(self) -> bool:
        """Whether no filter selects the rows."""
        return True

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
        index, shown, wanted = self.reading.index, self.reading.shown, int(digits)
        entry = index.of_seq(wanted)
        place = bisect_left(shown, entry) if entry is not None else len(shown)
        if entry is not None and place < len(shown) and shown[place] == entry:
            self.reach(entry)
            return
        after = bisect_left(shown, wanted, key=lambda row: index.entry(row).seq)
        numbers = [index.entry(shown[at]).seq for at in (after - 1, after) if 0 <= at < len(shown)]
        if not numbers:
            notify(self.app, "there are no rows yet")
            return
        nearest, last = min(numbers, key=lambda number: abs(number - wanted)), index.entry(shown[-1]).seq
        what = f"no record {wanted:,}" if entry is None else f"record {wanted:,} has no row of its own"
        notify(self.app, f"{what}; the {'last' if nearest == last else 'nearest'} is {nearest:,}")

    # ---- columns

    def action_times(self) -> None:
        """Switch times: since the start, since the row above, wall clock."""
        self._rows.times = next_times(self._rows.times)
        self.set_columns()

    def set_columns(self) -> None:
        """Show the columns that the rows need now."""
        self._needs = needs_of(self.reading)
        width = (self._list_width or self.app.size.width) - 1
        rows = self._rows
        columns = traffic_columns(width, self._needs, rows.times, self.row_order, is_exchanges=rows.is_exchanges)
        rows.fit(columns, width)
        self.table.set_columns(columns)

    def fit_list(self, width: int) -> None:
        """Fit the columns to the width of the list."""
        self._list_width = width
        self.set_columns()

    def fit_columns(self) -> None:
        """The same, if that has changed."""
        if needs_of(self.reading) != self._needs:
            self.set_columns()

    # ---- order

    def action_sort(self) -> None:
        """Sort by the next column."""
        now = self._sorting[2] if self._sorting is not None else self.row_order
        column = ORDERS[(ORDERS.index(now.column) + 1) % len(ORDERS)]
        self.sort_by(Order(column, column != ORDERS[0]))

    @on(Table.HeadClicked, "#traffic")
    def _sort_by_head(self, event: Table.HeadClicked) -> None:
        """Sort by a column; the other way round if the rows are sorted by it already."""
        if event.column in ORDERS:
            same = event.column == self.row_order.column
            self.sort_by(Order(event.column, not self.row_order.is_down if same else True))

    def sort_by(self, order: Order) -> None:
        """Put the rows that are there now in an order."""
        self._end_sorting()
        if order == CAPTURE_ORDER:
            self.restore_order()
            return
        view = self.view_to_sort
        sorting = Sorting(self.reading, view, order.column, is_down=order.is_down, is_exchanges=self._rows.is_exchanges)
        self._sorting = (
            sorting,
            StepThread(sorting.step, self._report_sort, self._report_failed_sort, "sort"),
            order,
        )
        self.show_title()

    @property
    def view_to_sort(self) -> Sequence[int]:
        """The rows to sort."""
        return self.unsorted

    def restore_order(self) -> None:
        """Go back to the order of the capture."""
        self.show_view(self.entry)
        self.show_place()

    def _report_sort(self) -> None:
        self.post_message(Sorted())

    def _report_failed_sort(self, reason: str) -> None:
        self.post_message(Failed(self.reading.path, reason))

    @on(Sorted)
    def _sorted(self) -> None:
        if self._sorting is None:
            return
        sorting, _, order = self._sorting
        if sorting.has_ended:
            self._end_sorting()
            self.row_order, self.sorted_count = order, sorting.count
            self._rows.view = sorting.rows
            self.table.following = False
            self.set_columns()
            self.table.show(self._rows)
            self.show_place()
        self.show_title()

    def _end_sorting(self) -> None:
        if self._sorting is not None:
            self._sorting[1].stop()
            self._sorting = None

    @property
    def order_text(self) -> str:
        """The order of the rows, for the title; empty if it is that of the capture."""
        if self._sorting is not None:
            sorting, _, order = self._sorting
            return f"sorting by {order.column} {int(100 * sorting.progress)}%"
        if not self.is_sorted:
            return ""
        text = f"by {self.row_order.column} {self.row_order.arrow}"
        new = len(self.view_to_sort) - self.sorted_count
        return f"{text} · {count_text(new, 'newer row')} not listed" if new > 0 else text
