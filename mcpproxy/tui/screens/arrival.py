"""Arrival: where a screen with rows goes first: to an entry, to a record by its number, to the place of a finding."""

from textual import on

from mcpproxy.tui.details.tree_place import line_of
from mcpproxy.tui.messages import DetailRead
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture
from mcpproxy.tui.screens.detail_screen import DetailScreen


class ArrivalScreen(DetailScreen):
    """A screen that may be opened at a row, which may not be understood yet."""

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture.

        Args:
            capture: the capture, and where to go first.
        """
        super().__init__(capture.reading)
        self.goal: OpenCapture | None = capture if capture.row is not None or capture.frame is not None else None
        """Where to go first; None once that is done."""
        self._finding = capture.finding

    def go_to_goal(self) -> None:
        """Go to the row with which the screen was opened, as soon as it is understood."""
        goal = self.goal
        entry = goal.entry if goal is not None else None
        if goal is not None and entry is not None and self.reading.understood > entry:
            self.goal = None
            self.reach(entry)
            if self._finding is not None:
                self.detail.view = "pretty"  # where its place can be shown
            if goal.is_detailed:
                self.action_into()
        elif goal is not None and self.reading.has_ended:
            self.goal = None
            notify(
                self.app, f"record {goal.frame:,} is not in the traffic" if goal.frame is not None else "no such row"
            )

    @on(DetailRead)
    def _select_place(self, event: DetailRead) -> None:
        """Select the place of the finding from which the screen was opened, once its row is shown as a tree."""
        tree, finding = self.pane.branching, self._finding
        if finding is not None and tree is not None and self.reading.findings.row(finding) == event.row == self.entry:
            self._finding = None
            self.pane._go(tree.visible.index(line_of(tree.lines, finding)))
