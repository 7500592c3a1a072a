"""The base of screens that filter rows by words: typing filters at once, Esc in the box shows all rows again."""

from abc import abstractmethod

from textual import on
from textual.screen import Screen
from textual.widgets import Input

from mcpproxy.tui.widgets.bar import FilterBox
from mcpproxy.tui.widgets.table import Table


class WordingScreen(Screen[None]):
    """A screen with a list and a box for words."""

    words = ""
    """The words searched for."""

    @property
    @abstractmethod
    def table(self) -> Table:
        """The list."""

    @abstractmethod
    def renew(self) -> None:
        """Show what matches the words."""

    def look_for(self, words: str) -> None:
        """Keep the rows that contain some words; all rows if there are no words."""
        self.words = words
        self.renew()

    def action_filter(self) -> None:
        """Type words."""
        self.query_one(FilterBox).open(self.words)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self.query_one(FilterBox).display:
            self.look_for(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.query_one(FilterBox).keep(event.value)
        self._leave_box()

    @on(FilterBox.Left)
    def _left(self) -> None:
        self._leave_box()
        self.look_for("")

    def _leave_box(self) -> None:
        self.query_one(FilterBox).display = False
        self.table.focus()
