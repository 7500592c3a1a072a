"""Converts values of a capture for columns, so that no untrusted value makes an insert or a later query fail."""

import json
from itertools import accumulate
from typing import Any, Final

import orjson

MAX_NAME_CHARS: Final = 256
"""The most characters of an untrusted name that are kept."""
MAX_JSON_DEPTH: Final = 100
"""The most levels of arrays and objects. DuckDB's functions on JSON fail a little above that, some with an internal
error after which the database refuses every statement (2.0: `json_structure`)."""

MAX_BIGINT: Final = 2**63 - 1
"""The largest BIGINT."""
_PLAUSIBLE_WALL_NS: Final = range(-(2**62), 2**62)
"""Nanoseconds since 1970: some 146 years to either side."""
MAX_CLOCK_NS: Final = 2**61
"""The largest stamp that is converted to wall-clock time; the sum of both stays within the range of a TIMESTAMP_NS."""


def integer(value: object) -> int | None:
    """Returns an integer in the range of a BIGINT, or None for anything else."""
    return value if type(value) is int and -MAX_BIGINT <= value <= MAX_BIGINT else None


def wall(value: object) -> int | None:
    """Returns a plausible wall-clock time, in nanoseconds since 1970, or None for anything else."""
    return value if type(value) is int and value in _PLAUSIBLE_WALL_NS else None


def text(value: object, max_chars: int | None = MAX_NAME_CHARS) -> str | None:
    """Returns a text as valid Unicode, truncated, or None if it is not a text.

    Args:
        value: anything.
        max_chars: how many characters to keep; None for all.
    """
    if not isinstance(value, str):
        return None
    value = value[:max_chars]
    # A lone surrogate has no encoding. Nearly all texts pass this quick test.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def json_text(value: Any) -> str | None:
    """Returns a parsed value as compact JSON that DuckDB accepts, or None if it is nested too deeply."""
    try:
        raw = orjson.dumps(value)
    except orjson.JSONEncodeError:
        # It contains lone surrogates, integers beyond 64 bits, or numbers that are kept as their tokens.
        try:
            raw = _dump(value).encode("utf-8", "replace")
        except (ValueError, RecursionError):
            return None
    return raw.decode() if is_shallow(raw) else None


def _dump(value: Any) -> str:
    # NaN and the infinities, which JSON lacks, become null as with orjson.
    plain = json.loads(json.dumps(value), parse_constant=lambda _: None)
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def is_shallow(raw: bytes) -> bool:
    """Whether a JSON text is nested no deeper than DuckDB supports."""
    if len(raw) <= 2 * MAX_JSON_DEPTH or raw.count(b"[") + raw.count(b"{") <= MAX_JSON_DEPTH:
        return True
    return _depth(raw) <= MAX_JSON_DEPTH


_NOT_STRUCTURAL: Final = bytes(set(range(256)) - set(b'[]{}"'))
_DEPTH_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def _depth(raw: bytes) -> int:
    """The depth to which arrays and objects are nested, found in one pass without recursion."""
    structure = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_STRUCTURAL)
    outside = b"".join(structure.split(b'"')[::2])
    return max(accumulate(memoryview(outside.translate(_DEPTH_STEPS)).cast("b")), default=0)
