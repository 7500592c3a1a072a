"""Arrival: where the traffic screen goes first: to an entry, a record by its number, or the place of a finding."""

from collections.abc import Callable

from mcpproxy.tui.details.tree_place import line_of
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture
from mcpproxy.tui.widgets.split import Split


class Arrival:
    """Takes a screen to the row that it was opened for, once that row is understood."""

    def __init__(self, capture: OpenCapture, split: Split, reach: Callable[[int], None]) -> None:
        """Prepare to go to the row.

        Args:
            capture: the capture, and where to go first.
            split: the list and the detail.
            reach: puts the cursor on an entry, regardless of the filter.
        """
        self._goal = capture if capture.row is not None or capture.frame is not None else None
        self._finding = capture.finding
        self._reading = capture.reading
        self._split, self._reach = split, reach

    @property
    def is_over(self) -> bool:
        """Whether the screen has arrived, has given up, or had no row to go to."""
        return self._goal is None

    def go(self) -> None:
        """Go to the row if it is understood by now; give up if the capture ends without it."""
        goal = self._goal
        entry = goal.entry if goal is not None else None
        if goal is not None and entry is not None and self._reading.interpreted_count > entry:
            self._goal = None
            self._reach(entry)
            if self._finding is not None:
                self._split.detail.view = "pretty"  # the only view that can show the place of a finding
            if goal.is_detailed:
                self._split.action_into()
        elif goal is not None and self._reading.has_ended:
            self._goal = None
            notify(
                self._split.app,
                f"record {goal.frame:,} is not in the traffic" if goal.frame is not None else "no such row",
            )

    def select_place(self, row: int) -> None:
        """Select the place of the finding, once its row is at the cursor and is shown as a tree.

        Args:
            row: the row whose detail is shown.
        """
        pane, finding = self._split.detail.pane, self._finding
        if finding is None or pane.folding_tree is None:
            return
        if self._reading.findings.row(finding) == row == self._split.listing.entry:
            self._finding = None
            pane.go_to_line(line_of(pane.folding_tree.lines, finding))
