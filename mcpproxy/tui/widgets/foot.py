"""Foot: the keys of a screen and, in a second row, the places to which keys lead.

Where there is too little room for the second row, a key shows the places in its stead until the next key.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from mcpproxy.tui.host import Host
from mcpproxy.tui.safe_text import segments, strip
from mcpproxy.tui.toasts import keep_toasts_above
from mcpproxy.tui.widgets.foot_keys import HERE_SIGN, FootKey, FootRow, key_row, keys_of, place_rows, places_of
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span

MIN_PLACES_WIDTH: Final = 100
"""The minimum width of a terminal in which the places always have a row, in cells."""
MIN_PLACES_HEIGHT: Final = 20
"""The minimum height of such a terminal, in lines."""


class Foot(Widget):
    """The keys, in one widget. If room is short, the last keys are dropped whole."""

    app: Host

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar = {"foot--key", "foot--disabled", "foot--hover", "foot--here"}
    DEFAULT_CSS = """
    Foot {
        dock: bottom;
        height: auto;
        color: $footer-foreground;
        background: $footer-background;
        & > .foot--key { color: $footer-key-foreground; text-style: bold; }
        & > .foot--disabled { color: $dim; text-style: not bold; }
        & > .foot--hover { color: $footer-key-foreground; background: $block-hover-background; }
        & > .foot--here { text-style: bold; }
    }
    """

    def __init__(self) -> None:
        """Create the rows without keys; the screen adds them when it knows them."""
        super().__init__()
        self._rows: Sequence[FootRow] = ()
        self._hovered_key: FootKey | None = None
        """The key under the mouse pointer."""
        self._is_stale = False
        self.has_only_places = False
        """Whether the places are shown instead of the keys."""

    @property
    def texts(self) -> list[str]:
        """The keys that are shown, each with its description."""
        return [key.text for row in self._rows for _, key in row]

    def on_mount(self) -> None:
        """Subscribe to changes of the active keys."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def on_unmount(self) -> None:
        """Unsubscribe."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def on_resize(self) -> None:
        """Fit the keys to the new size."""
        keep_toasts_above(self)
        self._renew_soon()

    def toggle_places(self) -> bool:
        """Show the places instead of the keys, or the keys again; returns whether the places are shown now.

        If the places have a row of their own, nothing changes.
        """
        self.has_only_places = not self.has_only_places and not _has_room_for_both(self.app.size)
        self.refresh(layout=True)
        self._renew()
        return self.has_only_places

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if screen.app.app_focus and screen is self.screen:
            self._renew_soon()

    def _renew_soon(self) -> None:
        """Update the keys once, after everything that a key press changes."""
        if not self._is_stale:
            self._is_stale = self.call_after_refresh(self._renew)

    def _renew(self) -> None:
        self._is_stale = False
        if self.is_attached and (rows := self._current_rows(self.app.size)) != self._rows:
            self._rows, self._hovered_key = rows, None
            self.refresh()

    def _current_rows(self, size: Size) -> Sequence[FootRow]:
        """Returns the rows for a terminal of this size."""
        has_both = _has_room_for_both(size)
        if self.has_only_places and not has_both:
            return place_rows(self.places, size.width)
        keys = key_row(keys_of(self.screen), size.width, are_places_shown=has_both)
        return [keys, *(place_rows(self.places, size.width)[:1] if has_both else ())]

    @property
    def places(self) -> Sequence[FootKey]:
        """The places, and which of them is shown."""
        return places_of(self.screen, self.app.keys.keymap)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's
        """Return how many rows there are in a terminal of the size of `viewport`."""
        if self.has_only_places and not _has_room_for_both(viewport):
            return min(len(place_rows(self.places, viewport.width)), max(1, viewport.height // 2))
        return 2 if _has_room_for_both(viewport) else 1

    # ---- drawing

    def render_line(self, y: int) -> Strip:
        """Draw a row. If each key were a widget, most widgets that a screen styles and lays out would be keys."""
        width, background = self.size.width, Style(bgcolor=self.rich_style.bgcolor)
        parts = []
        position = 0
        for first_cell, key in self._rows[y] if y < len(self._rows) else ():
            size = min(width - first_cell, cells(key.text))
            if size <= 0:
                break
            styles = self._styles(key)
            gap = first_cell - position
            sign = (Span(" " * (gap - 1)), Span(HERE_SIGN, "accent")) if key.is_here and gap else ()
            parts += segments(sign, gap, styles if sign else {"plain": background})
            parts += segments((Span(key.display, "accent"), Span(key.text[len(key.display) :])), size, styles)
            position = first_cell + size
        return strip([*parts, *segments((), width - position, {"plain": background})], width)

    def _styles(self, key: FootKey) -> dict[Role, Style]:
        """Returns the styles of a key: accent for the key itself, and plain for its description."""
        base, key_style = self.rich_style, self.get_component_rich_style("foot--key", partial=True)
        if key.is_disabled:
            disabled_style = base + self.get_component_rich_style("foot--disabled", partial=True)
            return {"accent": disabled_style, "plain": disabled_style}
        if key is self._hovered_key:
            base += self.get_component_rich_style("foot--hover", partial=True)
        if key.is_here:
            base += self.get_component_rich_style("foot--here", partial=True)
        return {"accent": base + key_style, "plain": base}

    # ---- the mouse

    def _key_at(self, x: int, y: int) -> FootKey | None:
        """The key at a cell, or None if there is none that can be pressed."""
        for first_cell, key in self._rows[y] if 0 <= y < len(self._rows) else ():
            if first_cell <= x < first_cell + cells(key.text):
                return key if key.key and not key.is_disabled else None
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key that was clicked."""
        key = self._key_at(event.x, event.y)
        if key is not None:
            self.app.simulate_key(key.key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Highlight the key that a click would press."""
        self._highlight(self._key_at(event.x, event.y))

    def on_leave(self) -> None:
        """Highlight no key."""
        self._highlight(None)

    def _highlight(self, key: FootKey | None) -> None:
        if key is not self._hovered_key:
            self._hovered_key = key
            self.styles.pointer = "default" if key is None else "pointer"
            self.refresh()


def _has_room_for_both(size: Size) -> bool:
    """Returns whether a terminal of this size has room for the keys and the places."""
    return size.width >= MIN_PLACES_WIDTH and size.height >= MIN_PLACES_HEIGHT
