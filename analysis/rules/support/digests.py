"""Digests of JSON values: equal values have equal digests, whatever the order of object members."""

import json
from hashlib import blake2b

import orjson


def json_digest(value: object) -> bytes | None:
    """16 bytes that identify a JSON value; None if they cannot be computed."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Numbers beyond 64 bits, lone surrogates.
        try:
            text = json.dumps(value, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError):
            return None
    return blake2b(text, digest_size=16).digest()
