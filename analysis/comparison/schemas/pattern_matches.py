"""Decides which texts a pattern matches. The validator does, because a pattern may be made to take forever."""

from functools import lru_cache
from typing import Final

from analysis.json_schema.validator import schema_of

MAX_MATCHED_CHARS: Final = 1_000
"""The longest pattern and the longest text that are matched."""


def matches(pattern: str, text: str) -> bool | None:
    """Returns whether a pattern of JSON Schema matches a text, or None if this cannot be decided."""
    if len(pattern) > MAX_MATCHED_CHARS or len(text) > MAX_MATCHED_CHARS:
        return None
    return _matches(pattern, text)


@lru_cache(2_048)
def _matches(pattern: str, text: str) -> bool | None:
    schema = schema_of({"type": "string", "pattern": pattern})
    return None if schema is None else schema.fits(text)
