"""The base of screens with a title and a list; most have a detail pane for the row at the cursor.

A screen composes a `ClickableLine` with the id `title` and a `Table`, and may compose a `FilterBox`, and a `Pane` for
the detail.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, TypeVar

from textual import on
from textual.binding import Binding, BindingType

from mcpproxy.tui.screens.column_choice import choose_columns
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.table import MemoryRows, Table
from mcpproxy.tui.widgets.word_box import WordBox

T = TypeVar("T")

TO_DETAIL: Final = Binding("tab", "panes", "pane", show=False, priority=True, id="panes")
"""The key of screens with a detail pane."""
TO_FILTER: Final = Binding("slash", "filter", "filter", id="filter")
"""The key of screens with a filter box."""
TO_SORT: Final = Binding("s", "sort", "sort", id="sort")
"""The key of screens with `SORTS`."""


class ListScreen(TitledScreen):
    """A list, and on most screens the detail of the row at the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="back"),
        Binding("q", "app.quit", "quit", id="quit"),
        Binding("question_mark", "app.help", "help", id="help"),
    ]
    LIST: ClassVar[str]
    """The selector of the list."""
    DETAIL: ClassVar[str] = ""
    """The selector of the detail pane; empty if there is none."""
    SORTS: ClassVar[Sequence[str]] = ("",)
    """The orders of the list; the first is the default."""

    SORT_COLUMNS: ClassVar[Mapping[str, str]] = {}
    """The orders, by the columns whose headings select them."""

    def __init__(self) -> None:
        super().__init__()
        self.order = self.SORTS[0]
        self.has_moved = False
        """Whether the user has moved the cursor: until then it stays on its line, regardless of the row there."""

    @property
    def table(self) -> Table:
        """The list."""
        return self.query_one(self.LIST, Table)

    @property
    def pane(self) -> Pane:
        """The detail."""
        return self.query_one(self.DETAIL, Pane)

    @property
    def position(self) -> str:
        """The number of the row at the cursor, and how many are listed."""
        row_count = len(self.table.rows)
        return f"{self.table.cursor + 1:,}/{row_count:,}" if row_count else ""

    def update_rows(self) -> None:
        """Show the current rows in the current order."""
        self.table.renew()

    def display_table(self, *, is_shown: bool) -> None:
        """Show or hide the list; a list that is shown again gets the focus if nothing else has it."""
        self.table.display = is_shown
        if is_shown and self.focused is None:
            self.table.focus()

    def replace_rows(self, rows: MemoryRows[T], items: Sequence[T], key: Callable[[T], object]) -> None:
        """Replace the rows. Once the user has moved the cursor, it stays on the row with the same key."""
        selected = rows.at(self.table.cursor)
        rows.items = items
        if self.has_moved and selected is not None:
            selected_key = key(selected)
            self.table.cursor = next(
                (n for n, item in enumerate(items) if key(item) == selected_key), self.table.cursor
            )
        self.table.renew()

    @on(Table.RowHighlighted)
    def _note_move(self) -> None:
        self.has_moved = True
        self.show_title()

    # ---- keys

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.order = self.SORTS[(self.SORTS.index(self.order) + 1) % len(self.SORTS)]
        self.update_rows()

    @on(Table.ColumnsRequested)
    def _choose_columns(self, event: Table.ColumnsRequested) -> None:
        """Let the user choose the columns of a list."""
        choose_columns(self, event.table)

    @on(Table.HeadClicked)
    def _sort_by_heading(self, event: Table.HeadClicked) -> None:
        """Sort by the column whose heading was clicked."""
        order = self.SORT_COLUMNS.get(event.column)
        if order is not None and event.table is self.table:
            self.order = order
            self.update_rows()

    def action_follow(self) -> None:
        """Follow the end, or stop following it."""
        table = self.table
        table.following = not table.following
        if table.following:
            table.go(len(table.rows) - 1, keep_following=True)
        self.show_title()

    def action_panes(self) -> None:
        """Move between the list and the detail; in a box for words, complete the word."""
        if isinstance(self.focused, WordBox):
            self.focused.action_complete()
        elif self.table.has_focus:
            self.action_into()
        else:
            self.table.focus()

    def action_into(self) -> None:
        """Move the focus to the detail, and open it if it is closed."""
        self.pane.focus()

    def action_back(self) -> None:
        """Close the detail, or else clear the filter, or else leave the screen."""
        if self.close_detail():
            self.table.focus()
        elif not self.clear_filter():
            self.leave()

    def close_detail(self) -> bool:
        """Hide the detail; returns False if it was not shown, or is always shown."""
        return False

    def clear_filter(self) -> bool:
        """Show all rows again; returns False if no filter was applied since the screen was opened."""
        return False

    def leave(self) -> None:
        """Go back to the screen below."""
        self.app.pop_screen()

    @on(FilterBox.Cancelled)
    @on(WordBox.Confirmed)
    def _box_left(self) -> None:
        self.leave_box()

    def leave_box(self) -> None:
        """Hide the filter box, and go back to the list."""
        self.query_one(FilterBox).display = False
        self.table.focus()


def descending(value: int | None, name: str) -> tuple[int, str]:
    """A sort key: the largest value first, unknown values last, equal values by name."""
    return -(value if value is not None else -1), name
