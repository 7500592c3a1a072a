"""User key bindings: `keys.toml` in the configuration directory assigns keys to named actions.

    [keys]
    pair = "P"
    next = ["n", "ctrl+n"]

The names are the ids of the screens' bindings. An invalid line is reported, and the others apply.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final, NamedTuple

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import _character_to_key

from captures.paths import config_directory
from mcpproxy.tui.screen_entries import entries

MAX_KEYS_FILE_BYTES: Final = 64 << 10
NEEDED: Final = frozenset(
    ("quit", "back", "help", "open", "up", "down", "page-up", "page-down", "first", "last", "panes", "filter")
)
"""Bindings that every screen needs: no other binding may use their keys, unless the user assigns other keys to them."""
_KEY: Final = re.compile(r"(?:(?:ctrl|alt|shift|super|meta|hyper)\+)*(?:\S|[a-z][a-z0-9_]*)")


class Keys(NamedTuple):
    """The user's key bindings."""

    keymap: Mapping[str, str]
    """Keys by names, as Textual expects them."""
    wrong: str = ""
    """What is invalid; empty if nothing is."""


def keys_path() -> Path | None:
    """The file's path, or None if the home directory is unknown."""
    directory = config_directory()
    return Path(directory, "keys.toml") if directory is not None else None


def read() -> Keys:
    """The user's keys; empty if there is no such file."""
    path = keys_path()
    try:
        if path is None:
            return Keys({})
        # A pipe would keep the app waiting for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return Keys({}, f"{path} is not a regular file")
            text = file.read(MAX_KEYS_FILE_BYTES).decode()
        table = tomllib.loads(text)
    except FileNotFoundError:
        return Keys({})
    except OSError as error:
        return Keys({}, f"cannot read {path}: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return Keys({}, f"{path}: {error}")
    assigned = table.get("keys", {})
    if not isinstance(assigned, dict) or set(table) - {"keys"}:
        return Keys({}, f"{path}: expected one table, [keys]")
    defaults, keymap, wrong = names(), {}, []
    for name, value in assigned.items():
        keys = value if isinstance(value, list) else [value]
        if name not in defaults:
            wrong.append(f"there is no action {name}")
        elif not keys or not all(isinstance(key, str) and _KEY.fullmatch(key) and key != "," for key in keys):
            wrong.append(f'{name} needs a key such as "P", or keys such as ["n", "ctrl+n"]')
        else:
            keymap[name] = ",".join(keys)
    wrong += _refused(keymap, defaults)
    return Keys(keymap, f"{path.name}: {'; '.join(wrong)}" if wrong else "")


def _refused(keymap: dict[str, str], defaults: Mapping[str, str]) -> list[str]:
    """Remove bindings that would leave a screen without a key that it needs; returns the reasons."""
    wrong: list[str] = []
    while True:
        # Bindings that the user did not set come last, and win.
        order = sorted(NEEDED, key=lambda name: (name not in keymap, name))
        in_force = {name: keymap.get(name) or {**defaults, "back": "escape"}[name] for name in order}
        owners = {_key(key): name for name, keys in in_force.items() for key in keys.split(",")}
        clashes = [
            (name, _key(key))
            for name in keymap
            for key in keymap[name].split(",")
            if owners.get(_key(key), name) != name
        ]
        if not clashes:
            return wrong
        name, key = clashes[0]
        del keymap[name]
        wrong.append(f"{name} keeps {defaults[name]}, because {key} belongs to {owners[key]}")


def _key(text: str) -> str:
    """A key as Textual calls it."""
    return _character_to_key(text) if len(text) == 1 else text


def names() -> dict[str, str]:
    """The names that can be bound, with their default keys."""
    keys: dict[str, str] = {}
    for binding in _bindings():
        if binding.id:
            keys.setdefault(binding.id, binding.key)
    return keys | {entry.word: entry.key for entry in entries()}


def _bindings() -> Iterator[Binding]:
    for place in ("mcpproxy.tui.screens", "mcpproxy.tui.widgets"):
        for module in iter_modules(import_module(place).__path__):
            for member in vars(import_module(f"{place}.{module.name}")).values():
                if isinstance(member, type) and issubclass(member, DOMNode) and member.__module__.startswith(place):
                    for bound in vars(member).get("BINDINGS", ()):
                        if isinstance(bound, Binding):
                            yield bound
