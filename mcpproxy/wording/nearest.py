"""Finds the known name that a misspelt one probably means."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from mcpproxy.sanitise import sanitise

MAX_NAME_CHARS: Final = 64
"""The most characters of a name that are shown and compared."""


def nearest(name: str, known_names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Returns the known name that is most like another, regardless of case, or None if none is similar.

    Args:
        name: any text.
        known_names: the names to choose from.
        likeness: the share of the two names that must agree, from 0 to 1.
    """
    by_case = {known_name.lower(): known_name for known_name in known_names}
    matches = get_close_matches(name[:MAX_NAME_CHARS].lower(), by_case, 1, likeness)
    return by_case[matches[0]] if matches else None


def hint(name: str, known_names: Iterable[str]) -> str:
    """The text that an error about an unknown name appends: ` (did you mean check?)`, or an empty string."""
    suggestion = nearest(name, known_names)
    return "" if suggestion is None else f" (did you mean {sanitise(suggestion, MAX_NAME_CHARS)}?)"
