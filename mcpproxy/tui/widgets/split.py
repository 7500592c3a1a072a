"""Split: a list and its detail, below it or, on a wide terminal, beside it."""

from dataclasses import replace
from typing import Final

from textual import events
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from mcpproxy.tui.layout_state import Layout, kept_layout, resized, within

WIDE: Final = 160
"""The terminal width from which the detail is beside the list."""


class Split(Container):
    """Holds a list and its detail, in this order; the detail may be hidden."""

    DEFAULT_CSS = """
    Split { height: 1fr; layout: vertical; }
    Split.-wide { layout: horizontal; }
    Split.-wide > #below { border-left: solid $panel; }
    """

    class Dragged(Message):
        """The border was dragged, so the shape has changed."""

        def __init__(self, *, is_over: bool) -> None:
            super().__init__()
            self.is_over = is_over
            """Whether the border was let go."""

    def __init__(self, *children: Widget) -> None:
        """Create it with the layout of the last time.

        Args:
            children: the list and the detail.
        """
        super().__init__(*children)
        self.shape: Layout = kept_layout()
        self.screen_width = 0
        self._is_held, self._has_dragged = False, False
        """Whether the mouse holds the border, and whether it has moved it."""

    @property
    def is_wide(self) -> bool:
        """Whether the detail is beside the list."""
        return self.screen_width >= WIDE

    @property
    def is_full(self) -> bool:
        """Whether the detail takes all the room."""
        return self.shape.is_full and self.children[1].display

    @property
    def detail_width(self) -> int:
        """The width of the detail, in cells."""
        is_part = self.is_wide and not self.shape.is_full
        return self.screen_width * self.shape.beside // 100 if is_part else self.screen_width

    @property
    def list_width(self) -> int:
        """The width of the list, in cells."""
        is_part = self.is_wide and self.children[1].display and not self.shape.is_full
        return self.screen_width - self.detail_width if is_part else self.screen_width

    # ---- dragging

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag the border, which is the first line or column of the detail."""
        self._has_dragged = False
        detail = self.children[1]
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
            self._let_go()  # somewhere else
            return
        # Not before: while the mouse is captured, a click goes to no tab.
        self.capture_mouse()
        if self.is_wide:
            percent = 100 * (self.region.right - event.screen_x) / max(1, self.screen_width)
            shape = replace(self.shape, beside=within(round(percent)))
        else:
            percent = 100 * (self.region.bottom - event.screen_y) / max(1, self.region.height)
            shape = replace(self.shape, below=within(round(percent)))
        if shape != self.shape:
            self.shape, self._has_dragged = shape, True
            self.post_message(self.Dragged(is_over=False))

    def on_mouse_up(self) -> None:
        """Let go of the border."""
        if self._is_held:
            self._let_go()

    def _let_go(self) -> None:
        self._is_held = False
        self.release_mouse()
        if self._has_dragged:
            self.post_message(self.Dragged(is_over=True))

    def on_click(self, event: events.Click) -> None:
        """Keep the end of a drag from being a click on what is there."""
        if self._has_dragged:
            self._has_dragged = False
            event.stop()

    def fit(self, screen_width: int) -> None:
        """Lay out both for the width of the terminal, and for whether the detail is shown."""
        self.screen_width = screen_width
        content, detail = self.children
        self.set_class(self.is_wide and not self.shape.is_full, "-wide")
        content.display = not self.is_full
        content.styles.width = "1fr"
        content.styles.height = "1fr"
        if self.shape.is_full:
            detail.styles.width, detail.styles.height = "100%", "100%"
        elif self.is_wide:
            detail.styles.width, detail.styles.height = self.detail_width, "100%"
        else:
            detail.styles.width, detail.styles.height = "100%", f"{self.shape.below}%"

    def resize(self, by: int) -> None:
        """Make the detail larger or smaller."""
        if self.is_wide:
            self.shape = replace(self.shape, beside=resized(self.shape.beside, by), is_full=False)
        else:
            self.shape = replace(self.shape, below=resized(self.shape.below, by), is_full=False)

    def turn_full(self, *, is_full: bool) -> None:
        """Give the detail all the room, or only its share."""
        self.shape = replace(self.shape, is_full=is_full)
