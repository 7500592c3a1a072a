"""Which of some known names a misspelt one probably stands for."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from mcpproxy.sanitise import sanitise

NAME: Final = 64
"""Characters of a name that are shown, and compared."""


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Returns the known name that is most like another, regardless of case, or None if none is similar.

    Args:
        name: any text.
        known: the names.
        likeness: how much of the two must agree, from 0 to 1.
    """
    by_case = {one.lower(): one for one in known}
    close = get_close_matches(name[:NAME].lower(), by_case, 1, likeness)
    return by_case[close[0]] if close else None


def hint(name: str, known: Iterable[str]) -> str:
    """What an error about an unknown name adds to it: ` (did you mean check?)`, or nothing."""
    close = nearest(name, known)
    return "" if close is None else f" (did you mean {sanitise(close, NAME)}?)"
