"""The user's layout: how large the detail is, kept for the next start.

A line for each size, in a file in the state directory that only the user can read. It is a convenience: what is damaged
in it is ignored, and if it cannot be written, the screens continue without it.
"""

from dataclasses import dataclass
from typing import Final

from mcpproxy.history import history_path, lines_of, write_lines

SMALLEST: Final = 20
LARGEST: Final = 80
STEP: Final = 5
"""Percent of the screen."""

_FILE: Final = "tui_layout"


@dataclass(frozen=True)
class Layout:
    """How large the detail is."""

    below: int = 45
    """Its share of the height if it is below the list, in percent."""
    beside: int = 50
    """Its share of the width if it is beside the list, in percent."""
    is_full: bool = False
    """Whether it takes the whole screen."""


def kept_layout() -> Layout:
    """The layout of the last time."""
    values: dict[str, int] = {}
    for line in lines_of(history_path(_FILE)):
        name, _, value = line.partition(" ")
        if value.isascii() and value.isdecimal() and len(value) < 4:
            values[name] = int(value)
    default = Layout()
    return Layout(
        _within(values.get("below", default.below)),
        _within(values.get("beside", default.beside)),
        values.get("full") == 1,
    )


def keep_layout(layout: Layout) -> None:
    """Keep the layout for the next time, if possible."""
    lines = [f"below {layout.below}", f"beside {layout.beside}", f"full {int(layout.is_full)}"]
    write_lines(history_path(_FILE), lines)


def _within(percent: int) -> int:
    return max(SMALLEST, min(percent, LARGEST))


def resized(percent: int, by: int) -> int:
    """The next larger or smaller size."""
    return _within(percent + by * STEP)
