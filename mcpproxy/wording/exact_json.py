"""JSON values exactly as they were written, with the order of members, duplicates and tokens; and values as lines.

Only `quoted` sanitises texts from a peer. The others are sanitised by the code that draws them, which expands tabs
first.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from analysis.conversation.message import Number
from mcpproxy.sanitise import sanitise

MAX_MEMBER_NAME_CHARS: Final = 200
"""The most characters of the name of a member."""
MAX_PARSED_VALUES: Final = 1_000_000
"""The most brackets, braces and commas in a text; with more, its values would take too much memory."""
_PLAIN_NAME: Final = re.compile(r"[\w.$/-]+", re.ASCII)
_OTHER_JSON: Final = re.compile(r"""true|false|null|[-"'\[{].*|[\d.].*|""", re.DOTALL)
"""Strings that could be taken for another value."""
_MAX_INNER_JSON_CHARS: Final = 8 << 20
"""The most characters of a text that is searched for JSON."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object, in order, duplicates included."""


def parse(text: str) -> Any:
    """Parse a JSON text, keeping its members and its numbers exactly as written.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text,
        object_pairs_hook=_pairs,
        parse_float=Number,
        parse_int=Number,
        parse_constant=Number,
    )


def _pairs(members: list[tuple[str, Any]]) -> Pairs:
    # A Python function lets the drawing thread run; the parser itself does not, and takes 0.2 s for 5 MB.
    return Pairs(members)


def member(value: Any, name: str) -> Any:
    """Returns the value of the last member with this name, which is the one that peers use, or None."""
    last_value = None
    for key, inner in value if isinstance(value, Pairs) else ():
        if key == name:
            last_value = inner
    return last_value


def members_without(value: Any, *names: str) -> Pairs:
    """The members with other names, and all except the last member with each of these names."""
    remaining, seen = Pairs(), set()
    for key, inner in reversed(value if isinstance(value, Pairs) else Pairs()):
        if key in names and key not in seen:
            seen.add(key)
        else:
            remaining.append((key, inner))
    remaining.reverse()
    return remaining


def is_array(value: Any) -> bool:
    """Whether a value is an array; an object is also a list, but not an array."""
    return isinstance(value, list) and not isinstance(value, Pairs)


def name_text(name: str) -> str:
    """The name of a member; quoted if it could be misread."""
    return (
        name
        if _PLAIN_NAME.fullmatch(name) and len(name) <= MAX_MEMBER_NAME_CHARS
        else quoted(name[:MAX_MEMBER_NAME_CHARS])
    )


def scalar(value: Any) -> str:
    """A value on one line; a string that looks like another value is quoted."""
    if isinstance(value, str):
        is_clear = value.strip() == value and not _OTHER_JSON.fullmatch(value)
        return value if is_clear else quoted(value)
    if isinstance(value, Number):
        return value.token
    if isinstance(value, list):
        return "{}" if isinstance(value, Pairs) else "[]"
    return {True: "true", False: "false"}.get(value, "null") if isinstance(value, bool) else "null"


def quoted(text: str) -> str:
    """A string as JSON, sanitised."""
    return sanitise(json.dumps(text, ensure_ascii=False), None)


def embedded_json(text: str) -> Any:
    """Returns the object or array that a text contains as JSON, or None if it contains neither."""
    start = text[:64].lstrip()[:1]
    if start not in ("{", "[") or len(text) > _MAX_INNER_JSON_CHARS:
        return None
    if len(text) > MAX_PARSED_VALUES and sum(map(text.count, "[{,")) > MAX_PARSED_VALUES:
        return None
    try:
        return parse(text)
    except (ValueError, RecursionError):
        return None


def value_lines(value: Any) -> Iterator[tuple[int, str]]:
    """The lines of indented JSON, each with its depth; tokens stay as they were written."""
    levels: list[tuple[Iterator[tuple[str, Any, str]], str]] = []
    item: tuple[str, Any, str] | None = ("", value, "")
    while item is not None:
        label, inner, comma = item
        if isinstance(inner, list) and inner:
            is_object = isinstance(inner, Pairs)
            yield len(levels), label + ("{" if is_object else "[")
            levels.append((_items(inner), ("}" if is_object else "]") + comma))
        else:
            yield len(levels), label + (quoted(inner) if isinstance(inner, str) else scalar(inner)) + comma
        item = None
        while levels and item is None:
            item = next(levels[-1][0], None)
            if item is None:
                yield len(levels) - 1, levels.pop()[1]


def _items(value: list[Any]) -> Iterator[tuple[str, Any, str]]:
    last_index = len(value) - 1
    for index, part in enumerate(value):
        name, inner = part if isinstance(value, Pairs) else (None, part)
        yield "" if name is None else f"{quoted(name)}: ", inner, "" if index == last_index else ","
