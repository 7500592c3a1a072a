"""Foot: the keys of a screen on one line, as many as fit.

First what this screen does, what people need most of it first; then how to get to other screens; and last, but always
there, the help, which lists all keys, and how to leave.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from textual.app import ComposeResult
from textual.widgets import Footer, Input
from textual.widgets._footer import FooterKey

from mcpproxy.report.text import cells
from mcpproxy.tui.widgets.editor import Editor

ALWAYS: Final = ("app.help", "app.quit", "back", "app.pop_screen")
"""The actions whose keys are kept however narrow the line is, and are at its end, in this order."""
FIRST: Final = ("choose", "run", "filter", "find")
"""The actions whose keys come first, in this order."""
NEXT: Final = ("errors", "sort", "slowest", "match", "pair", "follow", "exchanges")
"""The actions whose keys come next, in this order: most people look for what failed, what was slow, and its answer."""
LAST: Final = ("mark", "copy", "export", "new_line", "turn", "anew", "app.enter", "app.switch")
"""The actions whose keys come last, before those of `ALWAYS`. All others are before them, in the order in which they
are bound."""


class _Key(NamedTuple):
    """A key in the line."""

    key: str
    display: str
    description: str
    action: str
    is_disabled: bool


class Foot(Footer):
    """The line with the keys. If room is short, the last keys are dropped whole."""

    def __init__(self) -> None:
        """Create it without the palette's key, which only experienced users need."""
        super().__init__(compact=True, show_command_palette=False)
        self._keys: Sequence[_Key] = ()

    def compose(self) -> ComposeResult:
        """The keys that fit."""
        self._keys = self._fitting()
        yield from map(_made, self._keys)

    async def recompose(self) -> None:
        """Show the keys that fit now, in the widgets of those before.

        To make new ones took a quarter of the time between a key and the screen that it changes.
        """
        if not self.is_attached or (keys := self._fitting()) == self._keys:
            return
        made = list(self.query_children(FooterKey))
        self._keys = keys
        for widget, key in zip(made, keys, strict=False):
            _put(widget, key)
        if len(made) < len(keys):
            await self.mount_all(map(_made, keys[len(made) :]))
        else:
            await self.remove_children(made[len(keys) :])

    def on_resize(self) -> None:
        """Fit the keys to the new width."""
        self.call_after_refresh(self.recompose)

    def _fitting(self) -> Sequence[_Key]:
        if not self._bindings_ready:
            return ()
        keys: dict[str, _Key] = {}
        is_typing = isinstance(self.screen.focused, Input | Editor)
        for _, binding, is_enabled, _ in self.screen.active_bindings.values():
            display = self.app.get_key_display(binding)
            is_typed = is_typing and len(display) == 1 and binding.key != "enter"
            if binding.show and binding.action not in keys and not is_typed:
                keys[binding.action] = _Key(binding.key, display, binding.description, binding.action, not is_enabled)
        fitting, left = [], self.app.size.width
        for key in sorted(keys.values(), key=_rank):
            left -= cells(f"{key.display} {key.description}")
            if left < 0:
                break
            fitting.append(key)
            left -= 1
        return sorted(fitting, key=_is_always)


def _made(key: _Key) -> FooterKey:
    """The widget of a key."""
    # Textual would add this class on mounting, and compute the styles again.
    return FooterKey(*key, classes="-compact")


def _put(widget: FooterKey, key: _Key) -> None:
    """Have a widget show another key."""
    if (widget.key, widget.key_display, widget.description, widget.action, widget._disabled) != key:
        widget.key, widget.key_display, widget.description, widget.action, widget._disabled = key
        widget.set_class(key.is_disabled, "-disabled")
        widget.refresh(layout=True)


def _rank(key: _Key) -> int:
    """How soon a key gets a place in the line."""
    action = key.action.partition("(")[0]
    order = (*ALWAYS, *FIRST, *NEXT, "", *LAST)
    return order.index(action if action in order else "")


def _is_always(key: _Key) -> bool:
    return key.action in ALWAYS
