"""Canonical JSON: equal values give equal bytes, whatever the order of members and the way numbers are written.

`1` and `1.0` are the same JSON number; `true` is another value. Depth, integers beyond 64 bits and lone surrogates do
not matter.
"""

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, Final

import orjson

from analysis.conversation.message import Number, number_text

_MAY_BE_WHOLE: Final = re.compile(rb"[0-9](?:\.0|e)")
"""Occurs in JSON that contains a float without a fraction."""
_EMPTY_DIGEST: Final = blake2b(digest_size=16)
_MAX_WHOLE: Final = float(1 << 64)
"""From here on, whole numbers are compared as floats: frames that break no rule are parsed in this way."""


def canonical_json(value: Any) -> bytes:
    """Returns a parsed JSON value as canonical JSON."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return b"".join(_pieces(value))
    return b"".join(_pieces(value)) if _MAY_BE_WHOLE.search(text) else text


def json_digest(value: Any) -> str:
    """Returns a digest of a parsed JSON value, in hexadecimal: equal values have equal digests."""
    return digest_of_json(canonical_json(value))


def digest_of_json(text: bytes) -> str:
    """Returns a digest of canonical JSON, in hexadecimal."""
    digest = _EMPTY_DIGEST.copy()  # faster than a new one with that size
    digest.update(text)
    return digest.hexdigest()


def _pieces(value: Any) -> Sequence[bytes]:
    """Returns the canonical JSON in pieces, as orjson writes it; a loop, because a peer decides how deep a value is."""
    pieces: list[bytes] = []
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, bytes):  # never a JSON value: a piece that was put here
            pieces.append(item)
        elif isinstance(item, dict):
            waiting.append(b"}")
            for name in sorted(item, reverse=True):
                waiting += (item[name], _scalar(name) + b":", b",")
            if item:
                waiting.pop()
            pieces.append(b"{")
        elif isinstance(item, list):
            waiting.append(b"]")
            for element in reversed(item):
                waiting += (element, b",")
            if item:
                waiting.pop()
            pieces.append(b"[")
        else:
            pieces.append(_scalar(item))
    return pieces


def _scalar(value: Any) -> bytes:
    if isinstance(value, Number) and not isfinite(value):
        return number_text(value.token).encode()
    if isinstance(value, float):
        is_exact = value.is_integer() and abs(value) < _MAX_WHOLE
        return b"%d" % int(value) if is_exact else orjson.dumps(float(value))
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, or a lone surrogate
        if not isinstance(value, int):
            return json.dumps(value).encode()
    try:
        return orjson.dumps(float(value))
    except OverflowError:
        return number_text(str(value)).encode()
