"""Split: a list and the detail of one of its rows, below it or, on a wide terminal, next to it.

Next to the list, the detail is a preview: it is there from the start, and follows the cursor. Below the list, it is
shown once the user has opened it.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.timer import Timer

from mcpproxy.tui.details.detail import VIEWS
from mcpproxy.tui.host import Host
from mcpproxy.tui.layout_state import MIN_DETAIL_PERCENT, Layout, clamped, resized, save_layout, saved_layout
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.detail_box import DetailBox
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.reader import Reader
from mcpproxy.tui.widgets.table import Table
from mcpproxy.tui.widgets.traffic_list import TrafficList

MIN_WIDE_WIDTH: Final = 160
"""The minimum terminal width at which the detail is next to the list, in cells."""

PREVIEW_DELAY_S: Final = 0.06
"""How long the cursor must stay on a row before its preview is read, so that a held key costs nothing."""
FOLLOWING_DELAY_S: Final = 0.5
"""The same while the end is followed."""
MAX_FOLLOWING_DELAY_S: Final = 5.0
"""How long a preview is put off while the end is followed and rows keep coming, in seconds."""


class Split(Container):
    """A list and its detail, which may be hidden, with the keys for the detail."""

    app: Host

    DEFAULT_CSS = """
    Split { height: 1fr; layout: vertical; }
    Split.-wide { layout: horizontal; }
    Split.-wide > #below { border-left: solid $line; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
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

    class Opened(Message):
        """The detail was opened or closed."""

    def __init__(self, listing: TrafficList, detail: DetailBox) -> None:
        """Create the split with the layout of the last run."""
        super().__init__(listing, detail)
        self.listing, self.detail = listing, detail
        self.layout_settings: Layout = saved_layout()
        self.screen_width = 0
        self._layout_writer = ThreadPoolExecutor(1, "layout")
        self._is_entered = False
        """Whether the user has opened the detail: then it is shown even where there is no preview."""
        self._previewed_entry: int | None = None
        """The entry whose preview was read last."""
        self._preview_timer: Timer | None = None
        """Runs until the next preview is read; None if none is due."""
        self._due_since_s = 0.0
        """When that preview became due."""
        self._is_held, self._has_dragged = False, False
        """Whether the mouse holds the border, and whether it has moved it."""

    @property
    def is_wide(self) -> bool:
        """Whether the detail is next to the list."""
        return self.screen_width >= MIN_WIDE_WIDTH

    @property
    def has_preview(self) -> bool:
        """Whether the detail is shown regardless of whether the user has opened it."""
        return self.is_wide and self.layout_settings.has_preview and not self.layout_settings.is_full

    @property
    def is_preview(self) -> bool:
        """Whether the detail only previews the row at the cursor, which the user moves."""
        return self.has_preview and not self.detail.has_focus_within

    @property
    def is_full(self) -> bool:
        """Whether the detail fills the screen."""
        return self.layout_settings.is_full and self.detail.display

    @property
    def detail_width(self) -> int:
        """The width of the detail, in cells."""
        is_part = self.is_wide and not self.layout_settings.is_full
        return self.screen_width * self.layout_settings.beside_percent // 100 if is_part else self.screen_width

    @property
    def list_width(self) -> int:
        """The width of the list, in cells."""
        is_part = self.is_wide and self.detail.display and not self.layout_settings.is_full
        return self.screen_width - self.detail_width if is_part else self.screen_width

    def on_unmount(self) -> None:
        """Stop saving layouts, once the last one is saved."""
        self._layout_writer.shutdown(wait=False)

    # ---- the detail

    @on(Table.RowSelected)
    def action_into(self) -> None:
        """Show the detail, and move the focus to it."""
        # New rows must not replace the row that is being read.
        self.listing.table.following = False
        self._open()
        self._show_now()
        self.detail.pane.focus()
        self._await_detail()

    def _open(self) -> None:
        self._is_entered = True
        self.fit()
        self.post_message(self.Opened())

    def show_view(self, view: str) -> None:
        """Show a view of the detail; the list keeps the focus."""
        self.action_view(VIEWS.index(view))

    def show_row(self) -> None:
        """Show the row at the cursor in the detail; a preview is read once the cursor stays on the row."""
        entry, is_following = self.listing.entry, self.listing.table.following
        if not self.is_preview or entry == self._previewed_entry or self._previewed_entry is None:
            self._show_now()
            return
        now_s = time.monotonic()
        if self._preview_timer is None:
            self._due_since_s = now_s
        elif is_following and now_s - self._due_since_s >= MAX_FOLLOWING_DELAY_S:
            return
        self._stop_timer()
        self._preview_timer = self.set_timer(FOLLOWING_DELAY_S if is_following else PREVIEW_DELAY_S, self._show_now)

    def _show_now(self) -> None:
        self._stop_timer()
        self._previewed_entry = self.listing.entry
        self.detail.show()

    def _stop_timer(self) -> None:
        if self._preview_timer is not None:
            self._preview_timer.stop()
            self._preview_timer = None

    def _await_detail(self) -> None:
        """Have keys wait until the detail is read: a key must not act on the row that it showed before."""
        if self.detail.pending_read is not None:
            self.app.key_queue.wait_for(self.detail.pending_read)

    @on(Pane.LeaveRequested)
    def action_outof(self) -> None:
        """Go back to the list."""
        if self.is_full:
            self.action_full()
        self.listing.table.focus()
        self.post_message(self.Opened())

    def switch_focus(self) -> None:
        """Move between the list and the detail."""
        if self.listing.table.has_focus and not self.is_full:
            self.action_into()
        else:
            self.action_outof()

    def close_detail(self) -> bool:
        """Hide the detail, or leave a preview; returns False if it was not open."""
        was_open = self.detail.has_focus_within if self.has_preview else self._is_entered
        if was_open:
            self.listing.table.focus()
        self._is_entered = False
        self.fit()
        self.post_message(self.Opened())
        return was_open

    def action_view(self, number: int) -> None:
        """Show one of the views of the detail."""
        self._open()
        self.detail.choose_view(VIEWS[number])
        self._await_detail()
        if self.is_full:
            self.detail.pane.focus()

    @on(ClickableLine.Clicked, "#tabs")
    def _choose_tab(self, event: ClickableLine.Clicked) -> None:
        if event.target in VIEWS:
            self.action_view(VIEWS.index(event.target))

    def action_turn(self, by: int) -> None:
        """Show the next or previous page of long content."""
        self.detail.turn_page(by)
        self._await_detail()

    @on(Reader.PatternChanged)
    def _mark_in_list(self, event: Reader.PatternChanged) -> None:
        """Mark the text of the search in the list, too."""
        self.listing.table.mark_matches(event.pattern)

    def change_match(self, by: int) -> bool:
        """Go to the next or previous match in the detail; returns False if it lacks the focus or a search."""
        if self.detail.pane.has_focus and self.detail.reader.is_finding:
            self.detail.reader.change_match(by)
            return True
        return False

    # ---- dragging

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag the border, which is the first line or column of the detail."""
        self._has_dragged = False
        detail = self.detail
        if not detail.display or self.is_full:
            return
        x, y = event.screen_x, event.screen_y
        if x == detail.region.x if self.is_wide else y == detail.region.y:
            self._is_held = True

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the border."""
        if not self._is_held:
            return
        if not event.button:
            self._end_drag()  # the button was released outside
            return
        # The mouse is not captured before it moves, because clicks would not reach the tabs.
        self.capture_mouse()
        if self.is_wide:
            percent = 100 * (self.region.right - event.screen_x) / max(1, self.screen_width)
            shape = replace(self.layout_settings, beside_percent=clamped(round(percent)))
        else:
            percent = 100 * (self.region.bottom - event.screen_y) / max(1, self.region.height)
            shape = replace(self.layout_settings, below_percent=clamped(round(percent)))
        if shape != self.layout_settings:
            self.layout_settings, self._has_dragged = shape, True
            self.fit()

    def on_mouse_up(self) -> None:
        """End dragging the border."""
        if self._is_held:
            self._end_drag()

    def _end_drag(self) -> None:
        self._is_held = False
        self.release_mouse()
        if self._has_dragged:
            self._apply_and_save()

    def on_click(self, event: events.Click) -> None:
        """Do not treat the end of a drag as a click."""
        if self._has_dragged:
            self._has_dragged = False
            event.stop()

    # ---- the layout

    def fit(self) -> None:
        """Lay out the list and the detail for the width of the terminal, and fit their content."""
        self.screen_width = self.screen.size.width
        listing, detail = self.listing, self.detail
        detail.display = self._is_entered or self.has_preview
        self.set_class(self.is_wide and not self.layout_settings.is_full, "-wide")
        listing.display = not self.is_full
        listing.styles.width = "1fr"
        listing.styles.height = "1fr"
        if self.layout_settings.is_full:
            detail.styles.width, detail.styles.height = "100%", "100%"
        elif self.is_wide:
            detail.styles.width, detail.styles.height = self.detail_width, "100%"
        else:
            detail.styles.width, detail.styles.height = "100%", f"{self.layout_settings.below_percent}%"
        listing.fit_columns(self.list_width)
        if self.detail_width != detail.width:
            detail.set_width(self.detail_width)

    def _apply_and_save(self) -> None:
        """Apply another layout, and keep it for the next run."""
        self.fit()
        shape = self.layout_settings
        self._layout_writer.submit(lambda: save_layout(shape))

    def action_resize(self, by: int) -> None:
        """Make the detail smaller or larger; next to the list, smaller than the smallest hides it."""
        shape = self.layout_settings
        if not self.is_wide:
            if not self.detail.display:
                return
            shape = replace(shape, below_percent=resized(shape.below_percent, by), is_full=False)
        elif not self.detail.display:
            if by < 0:
                return
            shape = replace(shape, has_preview=True, is_full=False)
        elif by < 0 and shape.beside_percent == MIN_DETAIL_PERCENT and not shape.is_full:
            shape = replace(shape, has_preview=False)
            self._is_entered = False
            self.listing.table.focus()
        else:
            shape = replace(shape, beside_percent=resized(shape.beside_percent, by), is_full=False)
        self.layout_settings = shape
        self._apply_and_save()
        self.post_message(self.Opened())

    def show_full(self) -> None:
        """Give the detail the whole screen, for this run."""
        self.layout_settings = replace(self.layout_settings, is_full=True)
        self.action_into()
        self.fit()

    def action_full(self) -> None:
        """Give the detail the whole screen, or only its share."""
        self.layout_settings = replace(self.layout_settings, is_full=not self.is_full)
        self.action_into()
        self._apply_and_save()
