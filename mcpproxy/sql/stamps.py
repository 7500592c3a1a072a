"""Converts DuckDB timestamps to those of mcpproxy's JSON: UTC with a Z, also in lists, structs and maps.

JSON with timestamps is scanned, not decoded, so everything else in it stays unchanged. Text that DuckDB would not have
written is left unchanged.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_TIMESTAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:\+00)?")


def json_timestamp(text: str) -> str:
    """Returns a timestamp as it is written in JSON."""
    match = _TIMESTAMP.fullmatch(text)
    return f"{match[1]}T{match[2]}Z" if match else text


class TimestampPaths(NamedTuple):
    """The positions of timestamps in the JSON of an SQL type."""

    members: "Mapping[str, TimestampPaths | None]"
    """The positions in members by their names, or in elements by their numbers."""
    others: "TimestampPaths | None" = None
    """The positions in all other members or elements."""
    are_keys: bool = False
    """Whether the names of members are timestamps."""


_TYPE_TOKENS: Final = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*'|[^\s"'(),\[\]]+|[(),\[\]])""")
_DECODER: Final = json.JSONDecoder()
_IS_TIMESTAMP: Final = TimestampPaths({})
"""The paths of a type that is itself a timestamp."""


def timestamp_paths(type_: str) -> TimestampPaths | None:
    """Where timestamps are in values of a type, or None if there are none or the type is unreadable."""
    if "TIMESTAMP" not in type_:
        return None
    try:
        return _read_type(_TYPE_TOKENS.findall(type_)[::-1])
    except (IndexError, KeyError, RecursionError):
        return None


def _read_type(words: list[str]) -> TimestampPaths | None:
    """Read the type at the end of the words, and remove those words; returns where timestamps are in its values."""
    name = words.pop()
    paths = _IS_TIMESTAMP if name.startswith("TIMESTAMP") else None
    while words and words[-1] not in ("(", ")", ",", "["):
        words.pop()  # WITH TIME ZONE
    if words and words[-1] == "(":
        parts = _read_parts(name, words)
        is_map = name == "MAP"
        paths = (
            TimestampPaths({}, parts["1"], are_keys=parts["0"] is _IS_TIMESTAMP) if is_map else TimestampPaths(parts)
        )
        if not any([*paths.members.values(), paths.others, paths.are_keys]):
            paths = None
    while words and words[-1] == "[":
        while words.pop() != "]":
            pass
        paths = paths and TimestampPaths({}, paths)
    return paths


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


def with_json_timestamps(text: str, inside: TimestampPaths) -> str:
    """Returns JSON with the timestamps at the positions in `inside` converted."""
    pieces: list[str] = []
    try:
        end = _convert_value(text, 0, inside, pieces)
    except (IndexError, RecursionError, TypeError, ValueError):
        return text
    return "".join(pieces) if end == len(text) else text


def _convert_value(text: str, position: int, inside: TimestampPaths | None, pieces: list[str]) -> int:
    """Add the value that begins at `position` to `pieces`, with its timestamps converted; returns where the value ends.

    Everything else stays unchanged: decoding would lose digits of numbers and, of members with the same name, all but
    the last.
    """
    if inside is None or inside is _IS_TIMESTAMP or text[position] not in "[{":
        value, end = _DECODER.raw_decode(text, position)
        is_stamp = inside is _IS_TIMESTAMP and isinstance(value, str) and _TIMESTAMP.fullmatch(value)
        pieces.append(f'"{json_timestamp(value)}"' if is_stamp else text[position:end])
        return end
    is_list = text[position] == "["
    closing = "]" if is_list else "}"
    count = 0
    # Skip the bracket first, then each comma.
    while text[position] != closing:
        pieces.append(text[position])
        position += 1
        if text[position] == closing:
            break
        name = str(count)
        if not is_list:
            name = _DECODER.raw_decode(text, position)[0]
            position = _convert_value(text, position, _IS_TIMESTAMP if inside.are_keys else None, pieces)
            pieces.append(text[position])
            position += 1
        position = _convert_value(text, position, inside.members.get(name, inside.others), pieces)
        count += 1
    pieces.append(closing)
    return position + 1
