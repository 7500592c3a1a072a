"""Reads a flawless message: a request, notification, result or error with nothing odd about it, judged by itself.

Either of two proofs shows that no member of the envelope occurs twice or has an odd spelling:

* orjson would write the same bytes. This is the cheaper proof, and most peers write JSON like that;
* a regular expression matches the envelope (`jsonrpc`, `id` and `method`, in any order, before and after the value),
  and the remaining text is one JSON object. The expression matches one spelling of each member, and each member once.

Promises: `flawless_verdict` and `read_flawless` never raise, regardless of the bytes; they return the verdict of
`exact_judge` on the same bytes, or None if that is not certain. The recorder and every reader use it.
"""

import re
from typing import Any, Final, TypeAlias

from orjson import dumps, loads

from captures.exact_judge import nesting_depth
from captures.limits import MAX_DEPTH, MAX_SAFE_INTEGER, MAX_SHORT_CHARS, NOTIFICATION_PREFIX, RESERVED_PREFIX
from captures.stdlib_judge import kind_of
from captures.verdict import Envelope, Kind

FlawlessMessage: TypeAlias = tuple[Envelope, dict[str, Any], bool]
"""The verdict, the message with its members in the order of the bytes, and whether orjson would write the same bytes:
if so, no object in it, at any depth, has a duplicate member."""

MAX_METHOD_NAMES: Final = 256
"""The most method names that are kept; see `_Methods`."""

_SPACE: Final = rb"[ \t\r\n]*+"
_VERSION: Final = b'"jsonrpc"' + _SPACE + b":" + _SPACE + rb'"2\.0"()'
# Integers of at most 15 digits are safe, and strings of at most 60 bytes are short.
_TEXT: Final = rb"[ !#-\[\]-~]"
_ID: Final = b'"id"' + _SPACE + b":" + _SPACE + rb'(0|-?[1-9]\d{0,14}|"' + _TEXT + rb'{0,60}")'
_METHOD: Final = b'"method"' + _SPACE + b":" + _SPACE + b'"(' + _TEXT + rb'{1,60})"'
# `(?(1)(?!))` fails if the group has matched before: each member matches once.
_MEMBER: Final = b"(?:(?(1)(?!))" + _VERSION + b"|(?(2)(?!))" + _ID + b"|(?(3)(?!))" + _METHOD + b")"
_match_head: Final = re.compile(
    b"{"
    + _SPACE
    + b"(?:"
    + _MEMBER
    + _SPACE
    + b"(?:,"
    + _SPACE
    + rb"|}\Z))*+(?:"
    + b'"(params|result|error)"'
    + _SPACE
    + b":)?"
).match
_match_tail: Final = re.compile(_SPACE + b"(?:," + _SPACE + _MEMBER + _SPACE + b")*+}").fullmatch
_WHITE_SPACE: Final = b" \t\r\n"
_FIRST, _QUOTE, _END = b'j"}'
_MAX_SHALLOW_BYTES: Final = 2 * MAX_DEPTH
"""The size in bytes up to which no message can nest too deeply."""
_SEARCHED_BYTES: Final = 14
"""How many bytes at the beginning are searched for a space after a colon, which orjson never writes."""


class _Methods(dict[bytes, str]):
    """Method names by their bytes: a peer uses few, so each is created once, and equal names are usually one object.

    A name that must be examined more closely raises ValueError. If a peer invents names, the first `MAX_METHOD_NAMES`
    are kept.
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


_request_methods: Final = _Methods(NOTIFICATION_PREFIX, RESERVED_PREFIX)
_notification_methods: Final = _Methods(RESERVED_PREFIX)


def flawless_verdict(raw: bytes) -> Envelope | None:
    """Returns the verdict on a whole frame if it is a flawless message; None for others and some flawless ones."""
    message = read_flawless(raw)
    return message and message[0]


def read_flawless(raw: bytes) -> FlawlessMessage | None:
    """Returns a whole frame as a flawless message; None for all others, and for some flawless ones.

    Args:
        raw: the bytes of the frame, without the delimiter; at most a million values.
    """
    if raw.find(b'": ', 0, _SEARCHED_BYTES) < 0:
        try:
            body = loads(raw)
            if type(body) is dict and dumps(body) == raw:
                return _read_as_written(raw, body)
        except (TypeError, ValueError):  # orjson raises TypeError for values that it cannot write
            return None
    return _read_by_cutting(raw)


def _read_as_written(raw: bytes, body: dict[str, Any]) -> FlawlessMessage | None:
    """Read a message that orjson would write with the same bytes."""
    if (
        body.get("jsonrpc") != "2.0"
        or "error" in body
        or (len(raw) > _MAX_SHALLOW_BYTES and nesting_depth(raw) > MAX_DEPTH)
    ):
        return _read_by_cutting(raw) if "error" in body else None
    token = None
    if "id" in body:
        raw_id = body["id"]
        if not (
            -MAX_SAFE_INTEGER <= raw_id <= MAX_SAFE_INTEGER
            if type(raw_id) is int
            else type(raw_id) is str and len(raw_id) <= MAX_SHORT_CHARS
        ):
            return None
        # Bytes from orjson keep their whole buffer of a kilobyte alive, so this keeps a copy instead.
        token = b"%b" % dumps(raw_id)
    kind = kind_of(body, has_id=token is not None)
    return kind and (_envelope(kind, token, body.get("method"), None), body, True)


def _read_by_cutting(raw: bytes) -> FlawlessMessage | None:
    """Read a message by cutting off its envelope with the regular expression."""
    text = raw.strip(_WHITE_SPACE)
    head = _match_head(text)
    if head is None or text[-1] != _END or (len(text) > _MAX_SHALLOW_BYTES and nesting_depth(text) > MAX_DEPTH):
        return None
    version, token, name, value_name = head.groups()
    start, end = head.end(), 0
    value: Any = None
    try:
        if value_name is not None:
            # The value is an object, which ends with a brace. Only the last brace follows it, unless an id contains
            # one.
            end = text.rfind(b"}", 0, -1) + 1
            value = loads(text[start:end])
            if end < len(text) - 1:
                version, token, name = _join_members((version, token, name), _match_tail(text, end))
            if type(value) is not dict:
                return None
        elif start != len(text):
            return None
        kind, method, code = _kind(version, token, name, value_name, value)
    except (KeyError, ValueError):
        return None
    # Most messages have the order of members used below. For all others, and those without a value, parse the text.
    if (
        value_name is None
        or text[2] != _FIRST
        or end < len(text) - 1
        or (token and name and head.start(2) > head.start(3))
    ):
        body = loads(text)
    elif token is None:
        body = {"jsonrpc": "2.0", "method": method, "params": value}
    else:
        id_ = token[1:-1].decode() if token[0] == _QUOTE else int(token)
        if name is None:
            body = {"jsonrpc": "2.0", "id": id_, value_name.decode(): value}
        else:
            body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": value}
    return _envelope(kind, token, method, code), body, False


def _envelope(kind: Kind, token: bytes | None, method: str | None, code: int | None) -> Envelope:
    # This takes half the time of the named tuple's own __new__.
    return tuple.__new__(Envelope, (kind, token, method, code, None, ()))


def _kind(
    version: bytes | None, token: bytes | None, name: bytes | None, value_name: bytes | None, value: Any
) -> tuple[Kind, str | None, int | None]:
    """Returns kind, method and code of a message by its members; raises KeyError or ValueError if they do not match."""
    if version is None:
        raise ValueError
    if name is not None and value_name in (None, b"params"):
        return (
            ("notification", _notification_methods[name], None)
            if token is None
            else ("request", _request_methods[name], None)
        )
    if name is not None or token is None or value_name in (None, b"params"):
        raise ValueError
    if value_name == b"result":
        return "response", None, None
    code = value["code"]
    if type(code) is not int or not -MAX_SAFE_INTEGER <= code <= MAX_SAFE_INTEGER or type(value["message"]) is not str:
        raise ValueError
    return "error", None, code


def _join_members(
    head_members: tuple[bytes | None, ...], tail: re.Match[bytes] | None
) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Returns the members on both sides of an envelope's value; raises ValueError if any is repeated or unknown."""
    if tail is None:
        raise ValueError
    pairs = list(zip(head_members, tail.groups(), strict=True))
    if any(from_head is not None is not from_tail for from_head, from_tail in pairs):
        raise ValueError
    version, token, name = (from_tail if from_head is None else from_head for from_head, from_tail in pairs)
    return version, token, name
