"""The beginning of a JSON value as compact JSON, in time and memory that do not depend on the value."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from analysis.conversation.message import Number

MAX_DEPTH: Final = 100
"""How many containers deep values are written."""
_MAX_INTEGER_BITS: Final = 4_096
"""The most bits of an integer that is written; Python refuses to convert those of 4,300 digits and more."""


class JsonText(NamedTuple):
    """A value as JSON, or the beginning of it. Not sanitised."""

    text: str
    is_whole: bool
    """Whether it is the whole value."""


def compact_json(value: Any, limit: int) -> JsonText:
    """Returns a JSON value as compact JSON, up to a limit.

    The order of members and the tokens of numbers stay as they are.

    Args:
        value: the value, as any parser of this program returns it.
        limit: the most characters of the result; a longer one is cut, and `…` is its last character.
    """
    pieces: list[str] = []
    size = 0
    for piece in _pieces(value, limit):
        if piece is None:
            return JsonText(f"{''.join(pieces)[: limit - 1]}…", is_whole=False)
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return JsonText(f"{''.join(pieces)[: limit - 1]}…", is_whole=False)
    return JsonText("".join(pieces), is_whole=True)


def _pieces(value: Any, limit: int) -> Iterator[str | None]:
    """Yields the tokens of a value, and None in place of something that is nested too deeply or is too long."""
    levels: list[tuple[Iterator[tuple[str, Any]], str]] = []
    label, item = "", value
    while True:
        if isinstance(item, dict | list | tuple) and item:
            if len(levels) == MAX_DEPTH:
                yield None
                return
            is_object = isinstance(item, dict)
            yield label + ("{" if is_object else "[")
            levels.append((_items(item, limit), "}" if is_object else "]"))
        else:
            yield label + _scalar(item, limit)
        while levels:
            member = next(levels[-1][0], None)
            if member is not None:
                label, item = member
                break
            yield levels.pop()[1]
        else:
            return


def _items(container: Any, limit: int) -> Iterator[tuple[str, Any]]:
    if isinstance(container, dict):
        items = ((f"{_string(str(name), limit)}:", item) for name, item in container.items())
    else:
        items = (("", item) for item in container)
    first = next(items)
    yield from chain((first,), ((f",{label}", item) for label, item in items))


def _scalar(value: Any, limit: int) -> str:
    if isinstance(value, str):
        return _string(value, limit)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if isinstance(value, Number):
        return value.token
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        return f"{'-' if value < 0 else ''}{hex(abs(value))[: limit + 2]}"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return _string(str(value), limit)


def _string(text: str, limit: int) -> str:
    return json.dumps(text[: limit + 1], ensure_ascii=False)
