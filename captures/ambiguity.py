"""Finds anything in a JSON text that parsers can read differently.

Several parsers read parts of one message, and must not see different messages. If an object has two members with the
same name, most parsers keep the last, but DuckDB keeps the first. Some parsers accept NaN, a comma before a bracket, or
half of a surrogate pair.
"""

from json.decoder import JSONDecoder
from typing import Any, Final, Literal, TypeAlias

from orjson import JSONDecodeError, JSONEncodeError, dumps, loads

from captures.exact_judge import has_lone_surrogate

Ambiguity: TypeAlias = Literal["not JSON", "too deep", "duplicate member"]

NOT_JSON: Final = "not JSON"
"""Not JSON by RFC 8259 in UTF-8; also a text with a byte order mark or a string that UTF-8 cannot represent."""
TOO_DEEP: Final = "too deep"
"""Nested more deeply than mcpproxy's own parsers can follow: hundreds of levels."""
DUPLICATE_MEMBER: Final = "duplicate member"
"""An object, at any depth, has two members with the same name."""


def ambiguity(raw: bytes, value: object = None) -> Ambiguity | None:
    """Returns what parsers can read differently in a text, or None if all that accept it read the same.

    It never raises, and takes linear time: about 1 µs for 100 bytes.

    Args:
        raw: the text.
        value: the text as parsed by orjson; None if unknown.
    """
    # orjson keeps the last of two members with the same name, and writes a colon only after a name or inside a string.
    # So if its output has as many colons as the text, no member was dropped, unless the text contains an escaped colon.
    if b"\\u003" not in raw:
        try:
            if dumps(loads(raw) if value is None else value).count(b":") == raw.count(b":"):
                return None
        except (JSONDecodeError, JSONEncodeError):
            pass  # orjson also refuses numbers that are too large for a float
    return _examined_ambiguity(raw)


def _examined_ambiguity(raw: bytes) -> Ambiguity | None:
    """Returns the same as `ambiguity`, but examines each object."""
    is_repeated = False

    def check_members(pairs: list[tuple[str, Any]]) -> None:
        nonlocal is_repeated
        is_repeated = is_repeated or len(dict(pairs)) < len(pairs)

    try:
        text = raw.decode()
        # Numbers stay text, as int() refuses those of more than 4,300 digits.
        JSONDecoder(object_pairs_hook=check_members, parse_int=str, parse_float=str, parse_constant=_refuse).decode(
            text
        )
    except ValueError:
        return NOT_JSON
    except RecursionError:
        return TOO_DEEP
    if has_lone_surrogate(text):
        return NOT_JSON
    return DUPLICATE_MEMBER if is_repeated else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)
