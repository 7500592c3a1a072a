"""Messages of which a log holds only a part, as JSON-RPC: what is missing is left out, and no value is invented.

Frames of them are recorded as not whole.
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
"""Where a text was cut: an unfinished escape, or the first half of a character outside of the basic plane."""
_ID_AT_END: Final = re.compile(r'"id": ?("(?:[^"\\]|\\.){0,256}+"|-?[0-9]{1,40}|null)\}$').search
_CLOSERS: Final = {"{": "}", "[": "]"}


def completed(head: str, omission: str, tail: str = "") -> bytes | None:
    """Returns a message whose beginning is known as JSON, or None if it is too little to tell what it is.

    A text that was cut ends in `omission`; values that begin in the missing part are absent. An id at the very end is
    kept, because many programs write it there.

    Args:
        head: the beginning.
        omission: what the log has in place of the missing part.
        tail: what follows that, if the end is known.
    """
    whole = (head + omission + tail).encode("utf-8", "replace")
    if _message(whole):
        return whole
    message = _message(_closed(head, omission).encode("utf-8", "replace"))
    ident = _ID_AT_END(tail)
    if ident and "id" not in message:
        message["id"] = loads(ident[1])
    return dumps(message) if message.keys() & {"method", "result", "error"} else None


def request(ident: object, method: str, params: dict[str, Any] | None = None) -> bytes:
    """Returns a request of which little more than the method is known."""
    return _written({"jsonrpc": "2.0", "id": ident, "method": method}, "params", params)


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """Returns a notification of which little more than the method is known."""
    return _written({"jsonrpc": "2.0", "method": method}, "params", params)


def result(ident: object, content: dict[str, Any] | None = None) -> bytes:
    """Returns a response of which little more is known than that it is a result."""
    return _written({"jsonrpc": "2.0", "id": ident}, "result", content or {})


def error(ident: object, code: int | None, text: str = "") -> bytes:
    """Returns an error response with a code, if that is known."""
    known = {} if code is None else {"code": code}
    return _written({"jsonrpc": "2.0", "id": ident}, "error", {**known, "message": text})


def _written(members: dict[str, Any], name: str, value: dict[str, Any] | None) -> bytes:
    return dumps(members if value is None else {**members, name: value})


def _message(raw: bytes) -> dict[str, Any]:
    """The object in a text; empty if it is something else."""
    try:
        value = loads(raw)
    except JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _closed(head: str, omission: str) -> str:
    """The beginning of a JSON text up to where it was cut, or the last complete value, with all brackets closed."""
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
            return head[: match.start()] + text + _closing(open_brackets)
        elif kind != "text" and not (kind == "word" and match.end() < len(head)):
            continue
        if kind != "text" or not is_name:
            end = match.end()
    return head[:end] + _closing(open_brackets)


def _closing(open_brackets: list[str]) -> str:
    return "".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
