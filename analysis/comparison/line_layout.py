"""Lays out JSON in lines for version control: what fits in a line has one of its own, so that few lines change."""

import json
from collections.abc import Iterator
from typing import Any, Final

MAX_LINE_CHARS: Final = 160
"""The most characters of a line with a list or an object; texts may be longer."""
_TO_JSON: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, check_circular=False).encode


def laid_out(value: Any, indent: str = "") -> Iterator[str]:
    """Yields the lines of a JSON value, without line ends; the first has no indent.

    Args:
        value: the value; it is nested a few levels deep. Members are sorted by name.
        indent: the spaces before the other lines.
    """
    text = _TO_JSON(value)
    if len(text) <= MAX_LINE_CHARS or not isinstance(value, (dict, list)):
        yield text
        return
    deeper = f"{indent} "
    if isinstance(value, dict):
        items = [_labelled(name, value[name], deeper) for name in sorted(value)]
    elif all(isinstance(element, (int, float)) for element in value):
        items = [[line] for line in _filled(value)]
    else:
        items = [[*laid_out(element, deeper)] for element in value]
    brackets = "{}" if isinstance(value, dict) else "[]"
    yield brackets[0]
    for number, (first, *others) in enumerate(items, 1):
        *lines, last = f"{deeper}{first}", *others
        yield from lines
        yield last if number == len(items) else f"{last},"
    yield f"{indent}{brackets[1]}"


def _labelled(name: str, member: Any, indent: str) -> list[str]:
    first, *others = laid_out(member, indent)
    return [f"{_TO_JSON(name)}:{first}", *others]


def _filled(numbers: list[int | float]) -> Iterator[str]:
    """Yields lines with as many numbers as fit."""
    line = ""
    for number in map(_TO_JSON, numbers):
        if line and len(line) + len(number) >= MAX_LINE_CHARS:
            yield line
            line = ""
        line = f"{line},{number}" if line else number
    yield line
