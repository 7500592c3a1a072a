"""Finds lines of a server that a client rejected, in the errors that clients written in JavaScript log."""

import re
from typing import Final

from orjson import JSONDecodeError, dumps, loads

_QUOTED: Final = re.compile(r'"(?P<text>.*)"(?P<more>\.\.\.)? is not valid JSON$', re.DOTALL).search
_MIDDLE: Final = '..."'
_UNQUOTED: Final = re.compile(r"Unexpected end of JSON input|(?:in|after) JSON at position \d").search
_UNEXPECTED: Final = re.compile(
    r"Received a (?:progress notification for an unknown token|response for an unknown message ID): (?P<json>\{.*\})$",
    re.DOTALL,
).search


def rejected_line(text: str) -> bytes | None:
    """Returns the line of stdout that the JSON parser of a client rejected.

    Args:
        text: the message of the error, such as `Unexpected token 'L', "Loading .."... is not valid JSON`.

    Returns:
        The part of the line that the error quotes, with `...` at the end if it is only the beginning; empty if the
        error does not quote the beginning; None if the error is about something else.
    """
    match = _QUOTED(text)
    if match is None:
        return b"" if _UNQUOTED(text) else None
    if text[: match.start() + 1].endswith(_MIDDLE):
        return b""
    return (match["text"] + (match["more"] or "")).encode("utf-8", "replace")


def unexpected_message(text: str) -> bytes | None:
    """Returns the message that an SDK did not expect, if an error is about one."""
    match = _UNEXPECTED(text)
    try:
        message = loads(match["json"]) if match else None
    except JSONDecodeError:
        return None
    return dumps({"jsonrpc": "2.0", **message}) if isinstance(message, dict) else None
