"""Saved filters: filters that the user has saved under a name, and that `@name` stands for in a filter box."""

import re
from collections.abc import Mapping
from typing import Final

from analysis.filter import FilterError

MAX_NAME_CHARS: Final = 40
"""The maximum length of a name, in characters."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PLACES: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|(?<![^\s()])@([^\s()"]*)')
"""A quoted text, or a reference to a saved filter, which begins a term."""


def is_name(text: str) -> bool:
    """Returns whether a text can be the name of a saved filter."""
    return len(text) <= MAX_NAME_CHARS and _NAME.fullmatch(text) is not None


def expanded(text: str, saved: Mapping[str, str]) -> str:
    """Returns an expression with each `@name` replaced by the filter that is saved under that name.

    Args:
        text: the expression.
        saved: the saved filters by their names. A reference within one is not replaced.

    Raises:
        FilterError: no filter has such a name.
    """

    def filter_of(match: re.Match[str]) -> str:
        name: str | None = match[1]
        if name is None:
            return match[0]
        if name not in saved:
            names = ", ".join(f"@{other}" for other in list(saved)[-10:]) or "none: Ctrl+S saves one"
            raise FilterError(
                f"expected the name of a saved filter ({names}), or quotes around a text", text, match.start()
            )
        return saved[name] if match[0] == text.strip() else f"({saved[name]})"

    return _PLACES.sub(filter_of, text)
