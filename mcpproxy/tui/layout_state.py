"""The user's layout: the size of the detail, the columns of lists, and the theme, kept for the next start.

Each has a line in a file in the state directory that only the user can read. The file is a convenience: damaged lines
are ignored, and if it cannot be written, the screens continue without it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from mcpproxy.history import history_path, read_lines, write_lines

MIN_DETAIL_PERCENT: Final = 20
MAX_DETAIL_PERCENT: Final = 80
RESIZE_PERCENT: Final = 5
"""By how many percent of the screen a key resizes the detail."""

_FILE: Final = "tui_layout"
_NAMES: Final = ("below", "beside", "full", "preview", "theme")
_COLUMNS_OF: Final = "columns."
"""What comes before the name of a list in the name of the line with its columns."""
_COLUMNS_NAME: Final = re.compile(r"columns\.[a-z]{1,20}")
_MAX_LISTS: Final = 30
"""The maximum number of lists whose columns are kept."""
_MAX_COLUMNS: Final = 30
"""The maximum number of columns of a list that are kept."""
_file_lock: Final = Lock()
"""Held while the file is read and written, because several threads change parts of it."""


@dataclass(frozen=True)
class Layout:
    """The size of the detail."""

    below_percent: int = 45
    """Its share of the height if it is below the list, in percent."""
    beside_percent: int = 40
    """Its share of the width if it is next to the list, in percent: rows need more room than most details."""
    is_full: bool = False
    """Whether it fills the whole screen."""
    has_preview: bool = True
    """Whether it is open from the start if it is next to the list."""


def saved_layout() -> Layout:
    """Returns the layout kept from the last run."""
    values, default = _saved_values(), Layout()
    return Layout(
        clamped(_percent(values.get("below", ""), default.below_percent)),
        clamped(_percent(values.get("beside", ""), default.beside_percent)),
        values.get("full") == "1",
        values.get("preview") != "0",
    )


def save_layout(layout: Layout) -> None:
    """Keep the layout for the next run, if possible."""
    _save_values(
        {
            "below": str(layout.below_percent),
            "beside": str(layout.beside_percent),
            "full": str(int(layout.is_full)),
            "preview": str(int(layout.has_preview)),
        }
    )


def saved_theme() -> str:
    """Returns the name of the last chosen theme, or an empty text if there is none. The file may contain any text."""
    return _saved_values().get("theme", "")


def save_theme(name: str) -> None:
    """Keep the theme for the next run, if possible."""
    _save_values({"theme": name})


def saved_columns(place: str) -> tuple[str, ...]:
    """Returns the names of the columns that were chosen for a list, or none if there is no choice.

    The file may contain any names.
    """
    return tuple(_saved_values().get(f"{_COLUMNS_OF}{place}", "").split()[:_MAX_COLUMNS])


def save_columns(place: str, names: Sequence[str]) -> None:
    """Keep the columns of a list for the next run, if possible; no names remove the choice."""
    _save_values({f"{_COLUMNS_OF}{place}": " ".join(names)})


def _saved_values() -> dict[str, str]:
    parts = [line.partition(" ") for line in read_lines(history_path(_FILE))]
    values = {name: value for name, _, value in parts if name in _NAMES}
    lists = [(name, value) for name, _, value in parts if _COLUMNS_NAME.fullmatch(name)]
    return values | dict(lists[:_MAX_LISTS])


def _save_values(changes: Mapping[str, str]) -> None:
    """Replace some of the lines."""
    with _file_lock:
        values = {**_saved_values(), **changes}
        names = [*_NAMES, *sorted(name for name in values if name not in _NAMES)]
        write_lines(history_path(_FILE), [f"{name} {values[name]}" for name in names if values.get(name)])


def _percent(value: str, default: int) -> int:
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 4 else default


def clamped(percent: int) -> int:
    """Returns the nearest allowed size."""
    return max(MIN_DETAIL_PERCENT, min(percent, MAX_DETAIL_PERCENT))


def resized(percent: int, by: int) -> int:
    """Returns the next larger or smaller size."""
    return clamped(percent + by * RESIZE_PERCENT)
