"""The base of screens with a list of rows and the detail of one of them, below or beside it."""

from abc import abstractmethod
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from mcpproxy.tui.details.detail import VIEWS
from mcpproxy.tui.layout_state import keep_layout
from mcpproxy.tui.screens.list_screen import TO_DETAIL
from mcpproxy.tui.screens.row_actions import RowActionsScreen
from mcpproxy.tui.widgets.detail_box import DetailBox
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.pointed_line import PointedLine
from mcpproxy.tui.widgets.reader import Reader
from mcpproxy.tui.widgets.split import Split
from mcpproxy.tui.widgets.table import Table


class DetailScreen(RowActionsScreen):
    """Composes a `Split` with a table and a `DetailBox`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        TO_DETAIL,
        Binding("1", "view(0)", "text", show=False, id="view-1"),
        Binding("2", "view(1)", "pretty", show=False, id="view-2"),
        Binding("3", "view(2)", "raw", show=False, id="view-3"),
        Binding("4", "view(3)", "hex", show=False, id="view-4"),
        Binding("5", "view(4)", "headers", show=False, id="view-5"),
        Binding("6", "view(5)", "exchange", show=False, id="view-6"),
        Binding("7", "view(6)", "findings", show=False, id="view-7"),
        Binding("left_square_bracket", "turn(-1)", "previous page", show=False, id="before"),
        Binding("right_square_bracket", "turn(1)", "next page", show=False, id="after"),
        Binding("z", "full", "full screen", show=False, id="full"),
        Binding("less_than_sign", "resize(-1)", "smaller detail", show=False, id="smaller"),
        Binding("greater_than_sign", "resize(1)", "larger detail", show=False, id="larger"),
        Binding("right,l", "into", "detail", show=False, id="detail"),
        Binding("left,h", "outof", "list", show=False, id="list"),
    ]
    DETAIL = "#text"

    @property
    def detail(self) -> DetailBox:
        """The detail, and what is beside it."""
        return self.query_one(DetailBox)

    @property
    def split(self) -> Split:
        """The list and the detail."""
        return self.query_one(Split)

    @abstractmethod
    def fit_list(self, width: int) -> None:
        """Fit the list to its width, in cells."""

    @abstractmethod
    def show_place(self) -> None:
        """Show the title and the detail for the row at the cursor."""

    @on(Table.Chosen)
    def action_into(self) -> None:
        """Show the detail, and move the focus to it."""
        # New rows must not replace the row that is being read.
        self.table.following = False
        self.detail.display = True
        self._lay_out()
        self.show_place()
        self.pane.focus()
        self._await_detail()

    def _await_detail(self) -> None:
        """Have keys wait until the detail is read: a key for it must not go to what it showed before."""
        if self.detail.work is not None:
            self.app.key_queue.wait_for(self.detail.work)

    @on(Pane.Left)
    def action_outof(self) -> None:
        """Go back to the list."""
        if self.split.is_full:
            self.action_full()
        self.table.focus()

    def _lay_out(self) -> None:
        """Lay out list and detail, and fit what they show to their widths."""
        split = self.split
        split.fit(self.size.width)
        self.fit_list(split.list_width)
        if split.detail_width != self.detail.width:
            self.detail.resize(split.detail_width)

    def _keep_layout(self) -> None:
        self._lay_out()
        shape = self.split.shape
        self._files.submit(lambda: keep_layout(shape))

    def action_full(self) -> None:
        """Give the detail the whole screen, or only its share."""
        is_full = not self.split.is_full
        self.split.turn_full(is_full=is_full)
        self.action_into()
        self._keep_layout()

    def action_resize(self, by: int) -> None:
        """Make the detail smaller or larger."""
        if self.detail.display:
            self.split.resize(by)
            self._keep_layout()

    def action_panes(self) -> None:
        """Move between the list and the detail."""
        if self.split.is_full:
            self.action_outof()
        else:
            super().action_panes()

    def action_back(self) -> None:
        """Find nothing any more, or else close the detail, clear the filter, or leave the screen."""
        if not (self.detail.display and self.detail.reader.leave()):
            super().action_back()

    def close_detail(self) -> bool:
        """Hide the detail; False if it was not shown."""
        was_shown = self.detail.display
        self.detail.display = False
        self._lay_out()
        self.show_title()
        return was_shown

    def action_view(self, number: int) -> None:
        """Show one of the views of the detail."""
        self.detail.display = True
        self._lay_out()
        self.show_title()
        self.detail.choose(VIEWS[number])
        self._await_detail()
        if self.split.is_full:
            self.pane.focus()

    @on(PointedLine.Pointed, "#tabs")
    def _choose_tab(self, event: PointedLine.Pointed) -> None:
        if event.target in VIEWS:
            self.action_view(VIEWS.index(event.target))

    @on(Split.Dragged)
    def _dragged(self, event: Split.Dragged) -> None:
        """Lay out for the size so far, and keep the last one."""
        if event.is_over:
            self._keep_layout()
        else:
            self._lay_out()

    def action_turn(self, by: int) -> None:
        """Show the next or previous page of long content."""
        self.detail.turn(by)
        self._await_detail()

    def on_resize(self) -> None:
        """Fit list and detail to the terminal."""
        self._lay_out()
        self.detail.show(again=True)

    # ---- finding

    @on(Reader.Sought)
    def _mark_in_list(self, event: Reader.Sought) -> None:
        """Mark what is looked for in the detail in the list, too."""
        self.table.mark(event.pattern)

    def go_to_found(self, by: int) -> bool:
        """Go to the next or previous match in the detail; False if it has not the focus, or nothing is to be found."""
        if self.pane.has_focus and self.detail.reader.is_finding:
            self.detail.reader.go(by)
            return True
        return False
