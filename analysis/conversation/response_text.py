"""The gist of a response that is not an MCP message: the line that says what happened.

A JSON error says so in a member, an HTML page in its title, and other text in its first line. The text is untrusted:
the gist is short, but not safe on a screen.
"""

import re
from html import unescape
from typing import Any, Final

from orjson import JSONDecodeError, loads

MAX_GIST_CHARS: Final = 160
"""The most characters of a gist."""
_MAX_EXAMINED_CHARS: Final = 16 << 10
"""The most characters of a text that are examined: a page has its title near the beginning."""
_ERROR_MEMBERS: Final = (
    "error_description",
    "detail",
    "message",
    "error_message",
    "title",
    "error",
    "errors",
    "reason",
    "msg",
)
"""Members that say what went wrong (RFC 6749 §5.2, RFC 9457 §3.1, common frameworks), the most specific first."""
_MAX_DOCUMENT_DEPTH: Final = 4
_TITLES: Final = tuple(
    re.compile(rf"(?is)<{tag}\b[^<>]{{0,500}}>([^<]{{1,1000}})") for tag in ("title", "h1", "h2", "p")
)
_LONG_ENTITY: Final = re.compile(r"&#(?:\d{7}|x[0-9a-fA-F]{6})")
"""The beginning of an invalid entity, which Python would be slow to parse or fail to parse."""
_HIDDEN_MARKUP: Final = re.compile(
    r"(?is)<!--(?:[^-]|-(?!->)){0,16384}+-->|<(?:style|script)(?:[^<]|<(?!/style|/script)){0,16384}+"
)
_TAG: Final = re.compile(r"<[^<>]{0,2000}>")
_SPACE: Final = re.compile(r"\s+")


def gist(text: str) -> str:
    """Returns the gist of a text, in at most `MAX_GIST_CHARS` characters, or an empty string if it has none."""
    text = _LONG_ENTITY.sub("", text[:_MAX_EXAMINED_CHARS]).strip()
    if text[:1] in ("{", "["):
        try:
            message = _document_message(loads(text))
        except JSONDecodeError:
            message = ""
        if message:
            return _gist_line(message)
    if text[:1] == "<":
        for pattern in _TITLES:
            match = pattern.search(text)
            if match and (message := _gist_line(unescape(match[1]))):
                return message
        text = unescape(_TAG.sub(" ", _HIDDEN_MARKUP.sub(" ", text)))
    return next((line for line in map(_gist_line, text.splitlines()) if line), "")


def _document_message(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth >= _MAX_DOCUMENT_DEPTH:
        return ""
    if isinstance(value, list):
        return next((message for item in value[:3] if (message := _document_message(item, depth + 1))), "")
    if not isinstance(value, dict):
        return ""
    return next(
        (
            message
            for name in _ERROR_MEMBERS
            if name in value and (message := _document_message(value[name], depth + 1))
        ),
        "",
    )


def _gist_line(text: str) -> str:
    line = _SPACE.sub(" ", text[: 4 * MAX_GIST_CHARS]).strip()
    return line if len(line) <= MAX_GIST_CHARS else f"{line[: MAX_GIST_CHARS - 1]}…"
