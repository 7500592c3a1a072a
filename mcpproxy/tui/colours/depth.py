"""Colour depth: how many colours the terminal can show, by what its environment and its terminfo entry say."""

import os
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

MIN_INDEXED_COLOURS: Final = 256
"""The number of colours from which a theme's own colours can be approximated without becoming unreadable."""
MIN_PALETTE_COLOURS: Final = 8
_INDEXED_TERMINALS: Final = frozenset(
    {"alacritty", "contour", "foot", "ghostty", "kitty", "rio", "wezterm", "xterm-ghostty", "xterm-kitty"}
)
"""Terminals with at least 256 colours whose names do not say so, and whose terminfo entries other hosts often lack."""

_PALETTE_TERMINAL: Final = re.compile(r"linux|screen(\..*)?")
"""Terminals for which COLORTERM counts for nothing: what runs in them inherits it from the terminal around them."""


class ColourDepth(Enum):
    """Which colours the screens may use."""

    NONE = "none"
    """No colours: only bold, dim, underlined and reversed text."""
    PALETTE = "palette"
    """The names of 8 or 16 colours, for which the terminal has a palette of its own."""
    INDEXED = "256"
    """256 colours with fixed values."""
    TRUE = "truecolor"
    """Any colour."""


def colour_depth(
    environ: Mapping[str, str], terminfo_colours: Callable[[str], int | None] | None = None
) -> ColourDepth:
    """Returns the colours that the terminal can show.

    Args:
        environ: the environment: NO_COLOR (no-color.org), COLORTERM and TERM.
        terminfo_colours: returns the number of colours of a terminal by its name, as `colours_in_terminfo` does.
    """
    if environ.get("NO_COLOR"):
        return ColourDepth.NONE
    name = environ.get("TERM", "")
    is_promised = environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit")
    if name.endswith("-direct") or (is_promised and not _PALETTE_TERMINAL.fullmatch(name)):
        return ColourDepth.TRUE
    if name.endswith("-256color") or name in _INDEXED_TERMINALS:
        return ColourDepth.INDEXED
    count = (terminfo_colours or colours_in_terminfo)(name)
    if count is None:
        return ColourDepth.PALETTE
    if count < MIN_PALETTE_COLOURS:
        return ColourDepth.NONE
    return ColourDepth.INDEXED if count >= MIN_INDEXED_COLOURS else ColourDepth.PALETTE


def colours_in_terminfo(name: str) -> int | None:
    """Returns the number of colours in the terminfo entry of a terminal, or None if there is no entry.

    The library reads one entry per process; so this must be called for the same terminal each time.
    """
    try:
        import curses
    except ImportError:
        return None  # on systems without terminfo
    descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
        curses.setupterm(name or None, descriptor)
        return max(0, curses.tigetnum("colors"))
    except curses.error:
        return None
    finally:
        os.close(descriptor)
