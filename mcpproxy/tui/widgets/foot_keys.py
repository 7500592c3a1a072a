"""Foot keys: the keys that the foot of a screen shows, and where each is.

The keys of the place come first, those that most people look for before the others. The general keys, which are the
same everywhere, are at the right. The places are the screens of a capture and the list of sessions: always in the same
order, and each always in the same cells, on every screen.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Input

from mcpproxy.tui.keys.spelling import key_text
from mcpproxy.tui.screen_entries import places, word_of
from mcpproxy.tui.widgets.editor import Editor
from mcpproxy.wording.cells import cells

GENERAL_ACTIONS: Final = ("app.help", "app.places", "app.quit", "back", "app.pop_screen")
"""The actions whose keys are at the right, in this order, and are shown even if there is little room."""
FIRST_ACTIONS: Final = ("choose", "run", "errors", "sort", "slowest", "pair", "filter", "compare", "find", "waiting")
"""The actions whose keys come first, in this order: most people look for what failed, what was slow, and its answer."""
NEXT_ACTIONS: Final = ("limit", "match", "search", "follow", "exchanges")
"""The actions whose keys come next, in this order."""
LAST_ACTIONS: Final = ("mark", "copy", "calls_of_turn", "export", "new_line", "turn", "anew", "app.switch")
"""The actions whose keys come last. The keys of actions in none of these lists come before them, in the order in which
they are bound."""
PLACE_ACTIONS: Final = ("app.enter", "app.switch", "app.sessions")
"""The actions that lead to another place."""
SESSIONS_PLACE: Final = ("sessions", "H")
"""The name and the default key of the list of sessions, which is not a screen of a capture."""
HERE_SIGN: Final = "▸"
"""The sign before the place that is shown."""
GAP: Final = 2
"""The cells before the general keys and, if there is room, between the places."""


class FootKey(NamedTuple):
    """A key in the foot."""

    key: str
    display: str
    """How the key is written; empty if no key leads to the place."""
    description: str
    action: str
    is_disabled: bool = False
    is_here: bool = False
    """Whether it leads to the place that is shown."""

    @property
    def text(self) -> str:
        """The key as text."""
        return f"{self.display} {self.description}" if self.display else self.description


class PlacedKey(NamedTuple):
    """A key, and the cell of a row where it begins."""

    first_cell: int
    key: FootKey


FootRow = Sequence[PlacedKey]


def keys_of(screen: Screen[object]) -> Sequence[FootKey]:
    """Returns the active keys of a screen, the most useful first, except those that lead to places.

    Those that a screen calls urgent now (`urgent_actions`) come before all others.
    """
    keys: dict[str, FootKey] = {}
    is_typing = isinstance(screen.focused, Input | Editor)
    place_names = {SESSIONS_PLACE[0], *(entry.word for entry in places())}
    for _, binding, is_enabled, _ in screen.active_bindings.values():
        display = screen.app.get_key_display(binding)
        is_typed = is_typing and len(display) == 1 and binding.key != "enter"
        if binding.show and binding.action not in keys and not is_typed and binding.id not in place_names:
            keys[binding.action] = FootKey(binding.key, display, binding.description, binding.action, not is_enabled)
    urgent_actions = getattr(screen, "urgent_actions", ())
    return sorted(keys.values(), key=lambda key: (key.action not in urgent_actions, rank_of(key.action)))


def places_of(screen: Screen[object], keymap: Mapping[str, str]) -> Sequence[FootKey]:
    """Returns the places, the list of sessions first; a place is disabled if no key leads from this screen to it.

    Args:
        screen: the screen that is shown.
        keymap: the user's keys, by the names of their actions.
    """
    is_typing = isinstance(screen.focused, Input | Editor)
    active_bindings = [binding for _, binding, is_enabled, _ in screen.active_bindings.values() if is_enabled]
    leading_bindings = {binding.id: binding for binding in active_bindings if _name(binding) in PLACE_ACTIONS}
    used_keys = {binding.key for binding in active_bindings}
    here = word_of(screen)
    keys: list[FootKey] = []
    for word, default_key in (SESSIONS_PLACE, *((entry.word, entry.key) for entry in places())):
        binding = leading_bindings.get(word)
        if binding is None:
            key = key_text(keymap.get(word, default_key).partition(",")[0])
            is_free = word == here or key not in used_keys
            keys.append(FootKey("", key if is_free else "", word, "", is_disabled=word != here, is_here=word == here))
        else:
            display = screen.app.get_key_display(binding)
            keys.append(FootKey(binding.key, display, word, binding.action, is_typing, is_here=word == here))
    return keys


def key_row(keys: Iterable[FootKey], width: int, *, are_places_shown: bool) -> FootRow:
    """Returns the row with the keys of the place and the general keys; keys without room are left out whole.

    Args:
        keys: the keys, the most useful first.
        width: the width of the row, in cells.
        are_places_shown: whether another row shows the places, so that no key for them is needed.
    """
    wanted_keys = [key for key in keys if not (are_places_shown and key.action == "app.places")]
    margin = 1 if are_places_shown else 0  # as in the row of the places
    general_row = _row([key for key in wanted_keys if key.action in GENERAL_ACTIONS], 0, width - 2 * margin)
    general_width = _end(general_row) + margin
    own_keys = [key for key in wanted_keys if key.action not in GENERAL_ACTIONS]
    own_row = _row(own_keys, margin, width - general_width - (GAP if general_row else 0))
    return [*own_row, *(PlacedKey(width - general_width + first_cell, key) for first_cell, key in general_row)]


def place_rows(places: Sequence[FootKey], width: int) -> Sequence[FootRow]:
    """Returns as many rows as the places need, each place with a cell for its sign."""
    rows: list[list[PlacedKey]] = [[]]
    is_wide = sum(GAP + cells(place.text) for place in places) <= width
    for place in places:
        first_cell = _end(rows[-1]) + (GAP if is_wide and rows[-1] else 1)
        if rows[-1] and first_cell + cells(place.text) > width:
            rows.append([])
            first_cell = 1
        rows[-1].append(PlacedKey(first_cell, place))
    return rows


def _row(keys: Iterable[FootKey], first_cell: int, width: int) -> list[PlacedKey]:
    """Returns the first keys for which there is room, with a cell between them."""
    row: list[PlacedKey] = []
    for key in keys:
        if first_cell + cells(key.text) > width:
            break
        row.append(PlacedKey(first_cell, key))
        first_cell += cells(key.text) + 1
    return row


def _end(row: FootRow) -> int:
    """Returns the cell after the last key of a row."""
    return row[-1].first_cell + cells(row[-1].key.text) if row else 0


def rank_of(action: str) -> int:
    """Returns the position of an action among others; the lowest number is the first to get room."""
    action = action.partition("(")[0]
    order = (*GENERAL_ACTIONS, *FIRST_ACTIONS, *NEXT_ACTIONS, "", *LAST_ACTIONS)
    return order.index(action if action in order else "")


def _name(binding: Binding) -> str:
    """Returns the action of a binding without its arguments."""
    return binding.action.partition("(")[0]
