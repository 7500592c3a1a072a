"""The base of screens that filter rows by words: typing filters at once; Esc in the box shows all rows again."""

from textual import on
from textual.widgets import Input

from mcpproxy.tui.screens.list_screen import ListScreen
from mcpproxy.tui.widgets.filter_box import FilterBox


class WordFilterScreen(ListScreen):
    """A screen with a list and a box for words."""

    words = ""
    """The words searched for."""

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
        self.leave_box()

    @on(FilterBox.Left)
    def _show_all(self) -> None:
        self.look_for("")

    def clear_filter(self) -> bool:
        """Show all rows again; False if all are shown."""
        had_words = bool(self.words)
        if had_words:
            self.look_for("")
        return had_words
