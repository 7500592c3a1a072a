"""Digests of JSON values: equal values have equal digests, regardless of the order of object members."""

import json
from hashlib import blake2b
from typing import Final

import orjson

MAX_PLAIN_DIGEST_BYTES: Final = 256
"""The most bytes of a JSON text that is its own digest."""


def json_digest(value: object) -> bytes | None:
    """Returns a JSON value's digest (its text if that is short, else 16 bytes), or None if it cannot be computed."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # The value contains integers beyond 64 bits, or lone surrogates.
        try:
            text = json.dumps(value, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError):
            return None
    return text if len(text) <= MAX_PLAIN_DIGEST_BYTES else blake2b(text, digest_size=16).digest()
