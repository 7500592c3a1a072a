"""Row comparison choice: the row that is marked in the traffic, to be compared with another one."""

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.row_comparison import previous_call_row
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.row_actions import RowActions
from mcpproxy.tui.screens.row_comparison import RowComparisonScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen


class RowComparisonChoice:
    """Chooses two rows for a screen that lists them, and opens their comparison."""

    def __init__(self, screen: TitledScreen, reading: Reading, row_actions: RowActions) -> None:
        """Start without a mark.

        Args:
            screen: the screen that lists the rows.
            reading: its capture.
            row_actions: its actions on the row at the cursor.
        """
        self.marked: int | None = None
        """The marked row."""
        self._screen, self._reading, self._row_actions = screen, reading, row_actions

    @property
    def sign(self) -> str:
        """The number of the marked row, as `= 9`; empty if there is none."""
        return "" if self.marked is None else f"= {self._reading.index.entry(self.marked).seq}"

    def choose(self, row: int | None) -> None:
        """Mark a row or, if one is marked, compare the two; the one that came first is the old side.

        If the marked row is chosen again, its call is compared with the previous one of the same method and name.

        Args:
            row: the row, or None if there is none at the cursor.
        """
        if row is None:
            notify(self._screen.app, "nothing is selected")
        elif self._reading.index.entry(row).dir is None:
            notify(self._screen.app, "only messages can be compared")
        elif self.marked is None:
            self.marked = row
            notify(self._screen.app, "= on another row compares both, = again with the call before; Esc ends this")
        elif row != self.marked and self._are_of_one_call(row, self.marked):
            notify(self._screen.app, "both rows are the same call: press = on another one")
        elif row != self.marked:
            self._compare(self.marked, row)
        elif self._reading.call(row) is None:
            notify(self._screen.app, "this row is not a call; press = on the row to compare it with")
        else:
            self._row_actions.run_on_row(self._find_previous)

    def _are_of_one_call(self, *rows: int) -> bool:
        """Whether rows are the request and the response of the same call."""
        numbers = {self._reading.call(row) for row in rows}
        return len(numbers) == 1 and None not in numbers

    def _find_previous(self, row: int) -> None:
        """Find the call before that of a row, and compare both; runs in the thread of the row actions."""
        previous_row = previous_call_row(self._reading, row)
        self._screen.call_later(self._compare_with_previous, previous_row, row)

    def _compare_with_previous(self, previous_row: int | None, row: int) -> None:
        if previous_row is None:
            notify(self._screen.app, "no earlier call of this method and name; press = on the row to compare it with")
        else:
            self._compare(previous_row, row)

    def _compare(self, *rows: int) -> None:
        self.marked = None
        old_row, new_row = sorted(rows)
        self._screen.app.push_screen(RowComparisonScreen(self._reading, old_row, new_row))

    def clear(self) -> bool:
        """Remove the mark; returns False if there was none."""
        was_marked = self.marked is not None
        self.marked = None
        return was_marked
