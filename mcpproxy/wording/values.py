"""Values from messages as text: excerpts, cut and sanitised."""

import json
from typing import Any, Final

from analysis.conversation.message import Number
from mcpproxy.sanitise import sanitise

MAX_EXCERPT_CHARS: Final = 300
"""The most characters of a payload that a line can show; wider terminals are rare."""


def excerpt(value: object) -> str:
    """A JSON value as compact JSON, clipped; a string by itself without quotes.

    It is encoded piece by piece up to the limit, so that the cost does not depend on the size of the payload.
    """
    if isinstance(value, str | Number):
        return sanitise(value if isinstance(value, str) else value.token, MAX_EXCERPT_CHARS)
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).iterencode(value):
        text += piece[: MAX_EXCERPT_CHARS + 1]
        if len(text) > MAX_EXCERPT_CHARS:
            break
    return sanitise(text, MAX_EXCERPT_CHARS)


def one_line(text: str) -> str:
    """The beginning of a text, with each run of white space as a space."""
    return sanitise(" ".join(text[: 4 * MAX_EXCERPT_CHARS].split()), MAX_EXCERPT_CHARS)


def value_at(value: object, *path: str) -> Any:
    """Returns the member at the end of a path of names, or None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def string(value: object, *path: str) -> str:
    """Returns the member at the end of a path if it is a string, not sanitised, or else an empty string."""
    text = value_at(value, *path) if path else None
    return text if isinstance(text, str) else ""
