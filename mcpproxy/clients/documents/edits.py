"""What can be changed in a configuration file, regardless of its format: a few operations on values at a path.

Each operation exists twice: here, on plain data, and in the modules of the formats, on text. `document.edited` applies
both and compares, so an edit that a format gets wrong is refused and never written.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Where a value is: member names and list positions, from the top."""


class ConfigError(Exception):
    """A file cannot be read, or not edited exactly; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The value at a path of the unedited file, with its spelling there."""

    path: Path


Item = str | Moved
"""A word to write: a new one, or one from elsewhere in the file."""


Value = Item | tuple[Item, ...]
"""A word, or a list of words."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """Replaces a value."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class ReplaceMember:
    """Gives a member of a map another name and another value."""

    path: Path
    key: str
    value: Value


@dataclass(frozen=True, slots=True)
class Prepend:
    """Puts words in front of a list."""

    path: Path
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class DropHead:
    """Removes the first words of a list."""

    path: Path
    count: int


@dataclass(frozen=True, slots=True)
class AddMember:
    """Adds a member right after another one of the same map."""

    after: Path
    key: str
    value: Value

    @property
    def path(self) -> Path:
        """The path of the new member."""
        return (*self.after[:-1], self.key)


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Removes a member of a map."""

    path: Path


Edit = SetValue | ReplaceMember | Prepend | DropHead | AddMember | RemoveMember


def value_at(data: Any, path: Path) -> Any:
    """The value at a path.

    Raises:
        LookupError: there is no value.
        TypeError: its parent is neither a map nor a list.
    """
    for key in path:
        data = data[key]
    return data


def value_or(data: Any, path: Path, default: Any = None) -> Any:
    """The value at a path, or a default if nothing is there."""
    try:
        return value_at(data, path)
    except (LookupError, TypeError):
        return default


def expected(data: Any, edits: list[Edit]) -> Any:
    """The data that a file must hold after the edits; `data` is its data before them."""
    after = copy.copy(data)

    def plain(value: Value) -> Any:
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        return value_at(data, value.path) if isinstance(value, Moved) else value

    for edit in edits:
        parent = _own(after, edit.path[:-1])
        key = edit.path[-1]
        match edit:
            case SetValue():
                parent[key] = plain(edit.value)
            case ReplaceMember():
                del parent[key]
                parent[edit.key] = plain(edit.value)
            case Prepend():
                parent[key] = [*plain(edit.items), *parent[key]]
            case DropHead():
                parent[key] = parent[key][edit.count :]
            case AddMember():
                parent[key] = plain(edit.value)
            case RemoveMember():
                del parent[key]
    return after


def _own(top: Any, path: Path) -> Any:
    """The value at a path, with everything on the way copied; parts that no edit concerns are shared, however large."""
    for key in path:
        top[key] = copy.copy(top[key])
        top = top[key]
    return top
