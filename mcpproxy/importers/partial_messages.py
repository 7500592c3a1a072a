"""Composes JSON-RPC messages from the parts that a log contains. Missing values are left out, never invented.

The import records the frames of such messages as partial.
"""

import re
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

_TOKEN: Final = re.compile(
    r"""[ \t\n\r]++
    | (?P<open>[{\[]) | (?P<close>[}\]]) | (?P<comma>,) | (?P<colon>:)
    | (?P<text>"(?:[^"\\]|\\.)*+") | (?P<cut>"(?:[^"\\]|\\.)*+)\\?+ | (?P<word>[^ \t\n\r{}\[\],:"]++)""",
    re.VERBOSE | re.DOTALL,
)
_HALF_ESCAPE: Final = re.compile(r"(?:\\u[0-9a-fA-F]{0,3}|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{0,3})?)$")
"""Matches what a cut may leave at the end of a text: an unfinished escape, or the first half of a surrogate pair."""
_ID_AT_END: Final = re.compile(r'"id": ?("(?:[^"\\]|\\.){0,256}+"|-?[0-9]{1,40}|null)\}$').search
_CLOSERS: Final = {"{": "}", "[": "]"}


def complete_message(head: str, omission: str, tail: str = "") -> bytes | None:
    """Complete a message with a missing part; returns None if too little is left to show its kind.

    A text that was cut ends in `omission`. Values that begin in the missing part are absent. An id at the very end is
    used, because many programs write it there.

    Args:
        head: the beginning of the message.
        omission: the text that the log has in place of the missing part.
        tail: the end of the message after that, if the log has it.
    """
    joined_message = (head + omission + tail).encode("utf-8", "replace")
    if _message(joined_message):
        return joined_message
    message = _message(_close_json(head, omission).encode("utf-8", "replace"))
    id_match = _ID_AT_END(tail)
    if id_match and "id" not in message:
        message["id"] = loads(id_match[1])
    return dumps(message) if message.keys() & {"method", "result", "error"} else None


def request(request_id: object, method: str, params: dict[str, Any] | None = None) -> bytes:
    """Returns a request with a method, and its params if they are known."""
    return _message_with({"jsonrpc": "2.0", "id": request_id, "method": method}, "params", params)


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """Returns a notification with a method, and its params if they are known."""
    return _message_with({"jsonrpc": "2.0", "method": method}, "params", params)


def result(request_id: object, content: dict[str, Any] | None = None) -> bytes:
    """Returns a response with a result, which is empty if its content is unknown."""
    return _message_with({"jsonrpc": "2.0", "id": request_id}, "result", content or {})


def error(request_id: object, code: int | None, text: str = "") -> bytes:
    """Returns an error response, with its code if that is known."""
    code_member = {} if code is None else {"code": code}
    return _message_with({"jsonrpc": "2.0", "id": request_id}, "error", {**code_member, "message": text})


def _message_with(members: dict[str, Any], name: str, value: dict[str, Any] | None) -> bytes:
    return dumps(members if value is None else {**members, name: value})


def _message(raw: bytes) -> dict[str, Any]:
    """Returns the object in a text; empty if the text is not an object."""
    try:
        value = loads(raw)
    except JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _close_json(head: str, omission: str) -> str:
    """Close a JSON text that was cut. It ends in the string that was cut, or else after the last complete value."""
    open_brackets: list[str] = []
    end, is_name = 0, False
    for match in _TOKEN.finditer(head):
        kind = match.lastgroup
        if kind == "open":
            open_brackets.append(match[0])
            is_name = match[0] == "{"
        elif kind == "close":
            if not open_brackets:
                break
            open_brackets.pop()
        elif kind == "comma":
            is_name = open_brackets[-1:] == ["{"]
            continue
        elif kind == "colon":
            is_name = False
            continue
        elif kind == "cut" and not is_name:
            text = _HALF_ESCAPE.sub("", match["cut"]) + dumps(omission).decode()[1:]
            return head[: match.start()] + text + _closing_brackets(open_brackets)
        elif kind != "text" and not (kind == "word" and match.end() < len(head)):
            continue
        if kind != "text" or not is_name:
            end = match.end()
    return head[:end] + _closing_brackets(open_brackets)


def _closing_brackets(open_brackets: list[str]) -> str:
    return "".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
