"""Describes edits of a configuration file, regardless of its format, as a few operations on the value at a path.

Each operation is implemented twice: here on plain data, and in the modules of the formats on text. `Document.edited`
runs both and compares the results, so an edit that a format gets wrong is refused and never written.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""The path of a value: member names and list indices, from the top."""


class ConfigError(Exception):
    """A file cannot be read, or cannot be edited exactly; the text says where and why."""


@dataclass(frozen=True, slots=True)
class MovedValue:
    """The value at a path of the unedited file, spelled as it is there."""

    path: Path


Item = str | MovedValue
"""A word to write: a new one, or one from elsewhere in the same file."""


Value = Item | tuple[Item, ...]
"""A word, or a list of words."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """Replaces a value."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class ReplaceMember:
    """Replaces both the name and the value of a member of a map."""

    path: Path
    key: str
    value: Value


@dataclass(frozen=True, slots=True)
class PrependItems:
    """Inserts words at the front of a list."""

    path: Path
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class DropFirstItems:
    """Removes the first words of a list."""

    path: Path
    count: int


@dataclass(frozen=True, slots=True)
class AddMember:
    """Adds a member directly after another one in the same map."""

    after: Path
    key: str
    value: Value

    @property
    def path(self) -> Path:
        """The path of the new member."""
        return (*self.after[:-1], self.key)


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Removes a member from a map."""

    path: Path


Edit = SetValue | ReplaceMember | PrependItems | DropFirstItems | AddMember | RemoveMember


def value_at(data: Any, path: Path) -> Any:
    """Returns the value at a path.

    Raises:
        LookupError: there is no value.
        TypeError: its parent is neither a map nor a list.
    """
    for key in path:
        data = data[key]
    return data


def value_or(data: Any, path: Path, default: Any = None) -> Any:
    """Returns the value at a path, or a default if there is none."""
    try:
        return value_at(data, path)
    except (LookupError, TypeError):
        return default


def data_after_edits(data: Any, edits: list[Edit]) -> Any:
    """Returns the data that a file must contain after the edits; `data` is its data before them."""
    edited_data = copy.copy(data)

    def plain_value(value: Value) -> Any:
        if isinstance(value, tuple):
            return [plain_value(item) for item in value]
        return value_at(data, value.path) if isinstance(value, MovedValue) else value

    for edit in edits:
        parent = _copy_on_path(edited_data, edit.path[:-1])
        key = edit.path[-1]
        match edit:
            case SetValue():
                parent[key] = plain_value(edit.value)
            case ReplaceMember():
                del parent[key]
                parent[edit.key] = plain_value(edit.value)
            case PrependItems():
                parent[key] = [*plain_value(edit.items), *parent[key]]
            case DropFirstItems():
                parent[key] = parent[key][edit.count :]
            case AddMember():
                parent[key] = plain_value(edit.value)
            case RemoveMember():
                del parent[key]
    return edited_data


def _copy_on_path(data: Any, path: Path) -> Any:
    """Copy every container on a path and returns the last one; everything off the path stays shared."""
    for key in path:
        data[key] = copy.copy(data[key])
        data = data[key]
    return data
