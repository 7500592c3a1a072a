"""Reads a flawless message: a request, notification, result or error with nothing odd about it, judged by itself.

Either of two proofs shows that no member of the envelope occurs twice or is spelt oddly:

* orjson would write the same bytes. This is the cheaper proof, and most peers write JSON like that;
* one regular expression cuts off the envelope (`jsonrpc`, `id` and `method`, in any order, before and after the
  value), and what is left is one JSON object. The expression matches one spelling of each member, and each member once.

Promises: it never raises, regardless of the bytes; it returns the verdict of `exact_judge` on the same bytes, or None
where it is not certain of that. The recorder and every reader use it.
"""

import re
from typing import Any, Final, TypeAlias

from orjson import dumps, loads

from captures.exact_judge import nesting_depth
from captures.limits import DEEP, NOTIFICATIONS, RESERVED, SAFE, SHORT
from captures.stdlib_judge import kind_of
from captures.verdict import Envelope, Kind

FlawlessMessage: TypeAlias = tuple[Envelope, dict[str, Any], bool]
"""The verdict, the message itself with its members in the order of the bytes, and whether orjson would write the same
bytes: then no object in it, at any depth, has a duplicate member."""

MAX_METHOD_NAMES: Final = 256
"""The most method names that are kept; see `_Methods`."""

_W: Final = rb"[ \t\r\n]*+"
_VERSION: Final = b'"jsonrpc"' + _W + b":" + _W + rb'"2\.0"()'
# Integers of at most 15 digits are safe, and texts of at most 60 bytes are short.
_TEXT: Final = rb"[ !#-\[\]-~]"
_ID: Final = b'"id"' + _W + b":" + _W + rb'(0|-?[1-9]\d{0,14}|"' + _TEXT + rb'{0,60}")'
_METHOD: Final = b'"method"' + _W + b":" + _W + b'"(' + _TEXT + rb'{1,60})"'
# `(?(1)(?!))` fails if the group has matched before: each member matches once.
_MEMBER: Final = b"(?:(?(1)(?!))" + _VERSION + b"|(?(2)(?!))" + _ID + b"|(?(3)(?!))" + _METHOD + b")"
_head_of: Final = re.compile(
    b"{" + _W + b"(?:" + _MEMBER + _W + b"(?:," + _W + rb"|}\Z))*+(?:" + b'"(params|result|error)"' + _W + b":)?"
).match
_tail_of: Final = re.compile(_W + b"(?:," + _W + _MEMBER + _W + b")*+}").fullmatch
_WHITE: Final = b" \t\r\n"
_FIRST, _QUOTE, _END = b'j"}'
_SHALLOW: Final = 2 * DEEP
"""Bytes. No shorter message can nest too deeply."""
_SIGHT: Final = 14
"""How many of the first bytes are searched for a space after a colon, which orjson never writes."""


class _Methods(dict[bytes, str]):
    """Method names by their bytes: a peer uses few, so each is created once, and equal ones are usually one object.

    A name that needs a closer look raises ValueError. If a peer invents names, the first `MAX_METHOD_NAMES` are kept.
    """

    def __init__(self, *odd: str) -> None:
        super().__init__()
        self._odd = odd

    def __missing__(self, raw: bytes) -> str:
        name = raw.decode()
        if name.startswith(self._odd):
            raise ValueError(name)
        if len(self) < MAX_METHOD_NAMES:
            self[raw] = name
        return name


_requested: Final = _Methods(NOTIFICATIONS, RESERVED)
_notified: Final = _Methods(RESERVED)


def verdict(raw: bytes) -> Envelope | None:
    """The verdict on a whole frame if it is a flawless message; None for all others, and for some that are flawless."""
    message = read(raw)
    return message and message[0]


def read(raw: bytes) -> FlawlessMessage | None:
    """A whole frame as a flawless message; None for all others, and for some that are flawless.

    Args:
        raw: its bytes, without the delimiter; at most a million values.
    """
    if raw.find(b'": ', 0, _SIGHT) < 0:
        try:
            body = loads(raw)
            if type(body) is dict and dumps(body) == raw:
                return _as_written(raw, body)
        except (TypeError, ValueError):  # orjson raises TypeError for values that it cannot write
            return None
    return _cut(raw)


def _as_written(raw: bytes, body: dict[str, Any]) -> FlawlessMessage | None:
    """Read a message that orjson would write with the same bytes."""
    if body.get("jsonrpc") != "2.0" or "error" in body or (len(raw) > _SHALLOW and nesting_depth(raw) > DEEP):
        return _cut(raw) if "error" in body else None
    token = None
    if "id" in body:
        ident = body["id"]
        if not (-SAFE <= ident <= SAFE if type(ident) is int else type(ident) is str and len(ident) <= SHORT):
            return None
        # Bytes from orjson keep their whole buffer of a kilobyte alive, so a copy is kept instead.
        token = b"%b" % dumps(ident)
    kind = kind_of(body, has_id=token is not None)
    return kind and (_envelope(kind, token, body.get("method"), None), body, True)


def _cut(raw: bytes) -> FlawlessMessage | None:
    """Read a message by cutting off its envelope with the regular expression."""
    text = raw.strip(_WHITE)
    head = _head_of(text)
    if head is None or text[-1] != _END or (len(text) > _SHALLOW and nesting_depth(text) > DEEP):
        return None
    version, token, name, of = head.groups()
    start, end = head.end(), 0
    value: Any = None
    try:
        if of is not None:
            # The value is an object, so a brace ends it. After it comes only the last brace, unless an id contains one.
            end = text.rfind(b"}", 0, -1) + 1
            value = loads(text[start:end])
            if end < len(text) - 1:
                version, token, name = _joined((version, token, name), _tail_of(text, end))
            if type(value) is not dict:
                return None
        elif start != len(text):
            return None
        kind, method, code = _kind(version, token, name, of, value)
    except (KeyError, ValueError):
        return None
    # Most messages have the order of members used below; for others, or without a value, a parser determines it.
    if of is None or text[2] != _FIRST or end < len(text) - 1 or (token and name and head.start(2) > head.start(3)):
        body = loads(text)
    elif token is None:
        body = {"jsonrpc": "2.0", "method": method, "params": value}
    else:
        ident = token[1:-1].decode() if token[0] == _QUOTE else int(token)
        if name is None:
            body = {"jsonrpc": "2.0", "id": ident, of.decode(): value}
        else:
            body = {"jsonrpc": "2.0", "id": ident, "method": method, "params": value}
    return _envelope(kind, token, method, code), body, False


def _envelope(kind: Kind, token: bytes | None, method: str | None, code: int | None) -> Envelope:
    # This takes half the time of the named tuple's own __new__.
    return tuple.__new__(Envelope, (kind, token, method, code, None, ()))


def _kind(
    version: bytes | None, token: bytes | None, name: bytes | None, of: bytes | None, value: Any
) -> tuple[Kind, str | None, int | None]:
    """Kind, method and code of a message by its members; raises KeyError or ValueError if they do not fit together."""
    if version is None:
        raise ValueError
    if name is not None and of in (None, b"params"):
        return ("notification", _notified[name], None) if token is None else ("request", _requested[name], None)
    if name is not None or token is None or of in (None, b"params"):
        raise ValueError
    if of == b"result":
        return "response", None, None
    code = value["code"]
    if type(code) is not int or not -SAFE <= code <= SAFE or type(value["message"]) is not str:
        raise ValueError
    return "error", None, code


def _joined(
    before: tuple[bytes | None, ...], tail: re.Match[bytes] | None
) -> tuple[bytes | None, bytes | None, bytes | None]:
    """The members of an envelope from both sides of its value; raises ValueError if one is on both or unknown."""
    if tail is None:
        raise ValueError
    both = list(zip(before, tail.groups(), strict=True))
    if any(one is not None is not other for one, other in both):
        raise ValueError
    version, token, name = (other if one is None else one for one, other in both)
    return version, token, name
