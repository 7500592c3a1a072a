"""User key bindings: `keys.toml` in the configuration directory assigns keys to named actions.

    [keys]
    pair = "P"
    next = ["n", "ctrl+n"]

The names are the ids of the screens' bindings. An invalid line is reported, and the others apply.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final, NamedTuple

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import _character_to_key

from mcpproxy.tui.configuration import read_table
from mcpproxy.tui.screen_entries import entries

KEYS_FILE: Final = "keys.toml"
REQUIRED_BINDINGS: Final = frozenset(
    ("quit", "back", "help", "open", "up", "down", "page-up", "page-down", "first", "last", "panes", "filter")
)
"""Bindings that every screen needs: no other binding may use their keys, unless the user assigns other keys to them."""
_KEY: Final = re.compile(r"(?:(?:ctrl|alt|shift|super|meta|hyper)\+)*(?:\S|[a-z][a-z0-9_]*)")


class KeyBindings(NamedTuple):
    """The user's key bindings."""

    keymap: Mapping[str, str]
    """The keys of each binding, by its name, as Textual expects them."""
    errors: str = ""
    """What is invalid in the file; empty if nothing is."""


def read_keys() -> KeyBindings:
    """Read the user's key bindings; returns none if there is no such file."""
    table = read_table(KEYS_FILE, "keys", 'pair = "P"')
    defaults, keymap, errors = default_keys(), {}, []
    for name, value in table.entries.items():
        keys = value if isinstance(value, list) else [value]
        if name not in defaults:
            errors.append(f"there is no action {name}")
        elif not keys or not all(isinstance(key, str) and _KEY.fullmatch(key) and key != "," for key in keys):
            errors.append(f'{name} needs a key such as "P", or keys such as ["n", "ctrl+n"]')
        else:
            keymap[name] = ",".join(keys)
    errors += _remove_clashes(keymap, defaults)
    own_errors = [f"{KEYS_FILE}: {'; '.join(errors)}"] if errors else []
    return KeyBindings(keymap, "; ".join([*table.errors, *own_errors]))


def _remove_clashes(keymap: dict[str, str], defaults: Mapping[str, str]) -> list[str]:
    """Remove bindings that would leave a screen without a key that it needs; returns the reasons."""
    errors: list[str] = []
    while True:
        # Bindings that the user did not set come last, and win.
        required_names = sorted(REQUIRED_BINDINGS, key=lambda name: (name not in keymap, name))
        required_keys = {name: keymap.get(name) or {**defaults, "back": "escape"}[name] for name in required_names}
        owners = {_textual_key(key): name for name, keys in required_keys.items() for key in keys.split(",")}
        clashes = [
            (name, _textual_key(key))
            for name in keymap
            for key in keymap[name].split(",")
            if owners.get(_textual_key(key), name) != name
        ]
        if not clashes:
            return errors
        name, key = clashes[0]
        del keymap[name]
        errors.append(f"{name} keeps {defaults[name]}, because {key} belongs to {owners[key]}")


def _textual_key(text: str) -> str:
    """Returns Textual's name for a key."""
    return _character_to_key(text) if len(text) == 1 else text


def default_keys() -> dict[str, str]:
    """Returns the names of the bindings that the user can change, with their default keys."""
    keys: dict[str, str] = {}
    for binding in _bindings():
        if binding.id:
            keys.setdefault(binding.id, binding.key)
    return keys | {entry.word: entry.key for entry in entries()}


def _bindings() -> Iterator[Binding]:
    for package in ("mcpproxy.tui.screens", "mcpproxy.tui.widgets"):
        for module in iter_modules(import_module(package).__path__):
            for member in vars(import_module(f"{package}.{module.name}")).values():
                if isinstance(member, type) and issubclass(member, DOMNode) and member.__module__.startswith(package):
                    for binding in vars(member).get("BINDINGS", ()):
                        if isinstance(binding, Binding):
                            yield binding
