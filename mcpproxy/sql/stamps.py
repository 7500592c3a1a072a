"""Converts DuckDB timestamps to those of mcpproxy's JSON: UTC with a Z, also in lists, structs and maps.

JSON with timestamps is scanned, not decoded, so everything else in it stays unchanged. Text that is not as DuckDB
writes it is left unchanged.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:\+00)?")


def stamp(text: str) -> str:
    """A timestamp as it is written in JSON."""
    match = _STAMP.fullmatch(text)
    return f"{match[1]}T{match[2]}Z" if match else text


class TimestampPaths(NamedTuple):
    """The positions of timestamps in the JSON of a type."""

    members: "Mapping[str, TimestampPaths | None]"
    """The positions in members, by name, or in elements, by number."""
    each: "TimestampPaths | None" = None
    """The positions in all other members or elements."""
    are_keys: bool = False
    """Whether the names of members are timestamps."""


_WORDS: Final = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*'|[^\s"'(),\[\]]+|[(),\[\]])""")
_DECODER: Final = json.JSONDecoder()
_HERE: Final = TimestampPaths({})
"""The paths of a type that is itself a timestamp."""


def inside_of(type_: str) -> TimestampPaths | None:
    """Where timestamps are in values of a type, or None if there are none or the type is unreadable."""
    if "TIMESTAMP" not in type_:
        return None
    try:
        return _read_type(_WORDS.findall(type_)[::-1])
    except (IndexError, KeyError, RecursionError):
        return None


def _read_type(words: list[str]) -> TimestampPaths | None:
    """Read the type at the end of the words, and remove those words; returns where timestamps are in its values."""
    name = words.pop()
    zone = _HERE if name.startswith("TIMESTAMP") else None
    while words and words[-1] not in ("(", ")", ",", "["):
        words.pop()  # WITH TIME ZONE
    if words and words[-1] == "(":
        parts = _read_parts(name, words)
        is_map = name == "MAP"
        zone = TimestampPaths({}, parts["1"], are_keys=parts["0"] is _HERE) if is_map else TimestampPaths(parts)
        if not any([*zone.members.values(), zone.each, zone.are_keys]):
            zone = None
    while words and words[-1] == "[":
        while words.pop() != "]":
            pass
        zone = zone and TimestampPaths({}, zone)
    return zone


def _read_parts(name: str, words: list[str]) -> dict[str, TimestampPaths | None]:
    """The content of the parentheses after the name of a type: members, or digits and values, which are not types."""
    parts: dict[str, TimestampPaths | None] = {}
    while words.pop() != ")":
        label = str(len(parts))
        if name in ("STRUCT", "UNION"):
            label = words.pop()
            label = label[1:-1].replace('""', '"') if label.startswith('"') else label
        if name in ("STRUCT", "UNION", "MAP", "TUPLE"):
            parts[label] = _read_type(words)
        else:
            words.pop()
    return parts


def stamped(text: str, inside: TimestampPaths) -> str:
    """JSON of such a type, with its timestamps converted."""
    pieces: list[str] = []
    try:
        end = _walk(text, 0, inside, pieces)
    except (IndexError, RecursionError, TypeError, ValueError):
        return text
    return "".join(pieces) if end == len(text) else text


def _walk(text: str, at: int, inside: TimestampPaths | None, pieces: list[str]) -> int:
    """Write the value that begins there, with its timestamps converted; returns where it ends.

    Everything else stays unchanged: decoding would lose digits of numbers, and all but the last of members with the
    same name.
    """
    if inside is None or inside is _HERE or text[at] not in "[{":
        value, end = _DECODER.raw_decode(text, at)
        is_stamp = inside is _HERE and isinstance(value, str) and _STAMP.fullmatch(value)
        pieces.append(f'"{stamp(value)}"' if is_stamp else text[at:end])
        return end
    is_list = text[at] == "["
    closing = "]" if is_list else "}"
    count = 0
    # Skip the bracket first, then each comma.
    while text[at] != closing:
        pieces.append(text[at])
        at += 1
        if text[at] == closing:
            break
        name = str(count)
        if not is_list:
            name = _DECODER.raw_decode(text, at)[0]
            at = _walk(text, at, _HERE if inside.are_keys else None, pieces)
            pieces.append(text[at])
            at += 1
        at = _walk(text, at, inside.members.get(name, inside.each), pieces)
        count += 1
    pieces.append(closing)
    return at + 1
