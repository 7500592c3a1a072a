"""Foot: the keys of a screen in one line, as many as fit; help comes first, so that the others can be found."""

from typing import Final

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from mcpproxy.report.text import cells

FIRST: Final = (("app.help",), ("filter", "app.quit", "app.enter"), ("choose", "back", "app.pop_screen"))
"""The actions whose keys come first; all others come behind, in the order in which they are bound."""


class Foot(Footer):
    """The line with the keys. The last ones go where room is short, whole."""

    def __init__(self) -> None:
        """Without the palette: that is a key for those who know it."""
        super().__init__(compact=True, show_command_palette=False)
        self._room = 0

    def compose(self) -> ComposeResult:
        """The keys that fit."""
        self._room = left = self.app.size.width
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        for key in sorted(keys, key=_rank):
            left -= cells(f"{key.key_display} {key.description}")
            if left < 0:
                return
            yield key
            left -= 1

    def on_resize(self) -> None:
        """There is room for more keys, or for fewer."""
        if self._room not in (0, self.app.size.width):
            self.call_after_refresh(self.recompose)


def _rank(key: FooterKey) -> int:
    action = key.action.partition("(")[0]
    return next((rank for rank, actions in enumerate(FIRST) if action in actions), len(FIRST))
