"""Split: a list and its detail, below it or, on a wide terminal, beside it."""

from dataclasses import replace
from typing import Final

from textual.containers import Container
from textual.widget import Widget

from mcpproxy.tui.layout_state import Layout, kept_layout, resized

WIDE: Final = 160
"""The terminal width from which the detail is beside the list."""


class Split(Container):
    """Holds a list and its detail, in this order; the detail may be hidden."""

    DEFAULT_CSS = """
    Split { height: 1fr; layout: vertical; }
    Split.-wide { layout: horizontal; }
    Split.-wide > #below { border-left: solid $panel; }
    """

    def __init__(self, *children: Widget) -> None:
        """Create it with the layout of the last time.

        Args:
            children: the list and the detail.
        """
        super().__init__(*children)
        self.shape: Layout = kept_layout()
        self.screen_width = 0

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
