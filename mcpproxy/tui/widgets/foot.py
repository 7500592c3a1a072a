"""Foot: the keys of a screen on one line, as many as fit.

The keys for actions on this screen come first, the most useful before the others. Then come the keys that open other
screens. The keys for help, which lists all keys, and for leaving come last, but are always shown.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from rich.style import Style
from textual import events
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from mcpproxy.tui.safe_text import segments, strip
from mcpproxy.tui.widgets.editor import Editor
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span

ALWAYS_SHOWN_ACTIONS: Final = ("app.help", "app.quit", "back", "app.pop_screen")
"""The actions whose keys are always shown, even on a narrow line, and are at its end, in this order."""
FIRST_ACTIONS: Final = ("choose", "run", "filter", "find")
"""The actions whose keys come first, in this order."""
NEXT_ACTIONS: Final = ("errors", "sort", "slowest", "match", "pair", "follow", "exchanges")
"""The actions whose keys come next, in this order: most people look for what failed, what was slow, and its answer."""
LAST_ACTIONS: Final = ("mark", "copy", "calls_of_turn", "export", "new_line", "turn", "anew", "app.enter", "app.switch")
"""The actions whose keys come last, before those of `ALWAYS_SHOWN_ACTIONS`. The keys of actions in none of these lists
come before them, in the order in which they are bound."""


class _Key(NamedTuple):
    """A key in the line."""

    key: str
    display: str
    description: str
    action: str
    is_disabled: bool

    @property
    def text(self) -> str:
        """The key as text."""
        return f"{self.display} {self.description}"


class Foot(Widget):
    """The line with the keys, in one widget. If room is short, the last keys are dropped whole."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar = {"foot--key", "foot--disabled", "foot--hover"}
    DEFAULT_CSS = """
    Foot {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $footer-background;
        & > .foot--key { color: $footer-key-foreground; text-style: bold; }
        & > .foot--disabled { text-style: dim; }
        & > .foot--hover { color: $footer-key-foreground; background: $block-hover-background; }
    }
    """

    def __init__(self) -> None:
        """Create the line without keys; the screen adds them when it knows them."""
        super().__init__()
        self._keys: Sequence[_Key] = ()
        self._hovered_key: _Key | None = None
        """The key under the mouse pointer."""
        self._is_stale = False

    @property
    def texts(self) -> list[str]:
        """The keys that the line shows, each with its description."""
        return [key.text for key in self._keys]

    def on_mount(self) -> None:
        """Subscribe to changes of the active keys."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def on_unmount(self) -> None:
        """Unsubscribe."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def on_resize(self) -> None:
        """Fit the keys to the new width."""
        self._renew_soon()

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if screen.app.app_focus and screen is self.screen:
            self._renew_soon()

    def _renew_soon(self) -> None:
        """Update the keys once, after everything that a key press changes."""
        if not self._is_stale:
            self._is_stale = self.call_after_refresh(self._renew)

    def _renew(self) -> None:
        self._is_stale = False
        if self.is_attached and (keys := self._fitting_keys()) != self._keys:
            self._keys, self._hovered_key = keys, None
            self.refresh()

    # ---- drawing

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - it is one line high
        """Draw the line. If each key were a widget, most widgets that a screen styles and lays out would be keys."""
        width, background, base = self.size.width, Style(bgcolor=self.rich_style.bgcolor), self.rich_style
        parts = []
        cells_left = width
        for key in self._keys:
            style, key_style = base, self.get_component_rich_style("foot--key", partial=True)
            if key is self._hovered_key:
                style += self.get_component_rich_style("foot--hover", partial=True)
            if key.is_disabled:
                style += self.get_component_rich_style("foot--disabled", partial=True)
            styles: dict[Role, Style] = {"accent": style + key_style, "plain": style}
            size = min(cells_left, cells(key.text))
            parts += segments((Span(key.display, "accent"), Span(f" {key.description}")), size, styles)
            cells_left -= size
            if cells_left > 0:
                parts += segments((), 1, {"plain": background})
                cells_left -= 1
        return strip([*parts, *segments((), cells_left, {"plain": background})], width)

    # ---- the mouse

    def _key_at(self, x: int) -> _Key | None:
        """The key at a cell of the line, or None if there is none."""
        for key in self._keys:
            size = cells(key.text)
            if x < size:
                return key
            x -= size + 1
            if x < 0:
                return None
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Run the action of the key that was clicked."""
        key = self._key_at(event.x)
        if key is not None:
            self.app.simulate_key(key.key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Highlight the key that a click would press."""
        self._highlight(self._key_at(event.x))

    def on_leave(self) -> None:
        """Highlight no key."""
        self._highlight(None)

    def _highlight(self, key: _Key | None) -> None:
        if key is not self._hovered_key:
            self._hovered_key = key
            self.styles.pointer = "default" if key is None else "pointer"
            self.refresh()

    def _fitting_keys(self) -> Sequence[_Key]:
        keys: dict[str, _Key] = {}
        is_typing = isinstance(self.screen.focused, Input | Editor)
        for _, binding, is_enabled, _ in self.screen.active_bindings.values():
            display = self.app.get_key_display(binding)
            is_typed = is_typing and len(display) == 1 and binding.key != "enter"
            if binding.show and binding.action not in keys and not is_typed:
                keys[binding.action] = _Key(binding.key, display, binding.description, binding.action, not is_enabled)
        fitting_keys, cells_left = [], self.app.size.width
        for key in sorted(keys.values(), key=_rank):
            cells_left -= cells(key.text)
            if cells_left < 0:
                break
            fitting_keys.append(key)
            cells_left -= 1
        return sorted(fitting_keys, key=_is_always)


def _rank(key: _Key) -> int:
    """The priority of a key in the line; the lowest number is the first to get room."""
    action = key.action.partition("(")[0]
    order = (*ALWAYS_SHOWN_ACTIONS, *FIRST_ACTIONS, *NEXT_ACTIONS, "", *LAST_ACTIONS)
    return order.index(action if action in order else "")


def _is_always(key: _Key) -> bool:
    return key.action in ALWAYS_SHOWN_ACTIONS
