"""Values as text: a JSON value in the way of YAML with its strings unfolded, or as indented JSON."""

import re
from collections.abc import Iterator
from typing import Any, Final

from analysis.conversation.message import Number
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.widgets.tree import Pairs, parse, quoted

STEP: Final = 2
"""Cells by which what is inside is indented."""
NAME: Final = 200
"""Characters of the name of a member."""

_PLAIN_NAME: Final = re.compile(r"[\w.$/-]+", re.ASCII)
_OTHER_JSON: Final = re.compile(r"""true|false|null|[-"'\[{].*|[\d.].*|""", re.DOTALL)
"""Strings that could be taken for another value."""
_LARGEST_INNER: Final = 8 << 20
"""Characters. Larger text is not looked at for JSON."""
MOST_VALUES: Final = 1_000_000
"""Brackets, braces and commas; with more, its values would take too much memory."""


def member(value: Any, name: str) -> Any:
    """The last member of this name, as peers take it; None if there is none."""
    found = None
    for key, inner in value if isinstance(value, Pairs) else ():
        if key == name:
            found = inner
    return found


def without(value: Any, *names: str) -> Pairs:
    """The members with other names, and those that come a second time."""
    rest, seen = Pairs(), set()
    for key, inner in reversed(value if isinstance(value, Pairs) else Pairs()):
        if key in names and key not in seen:
            seen.add(key)
        else:
            rest.append((key, inner))
    rest.reverse()
    return rest


def write_value(lines: TextLines, value: Any, indent: int = 0, *, in_full: bool = False) -> None:
    """A value: a line for each member, strings with their line ends.

    Args:
        lines: where to write it.
        value: as `parse` returns it.
        indent: cells.
        in_full: whether members `_meta` are text, as in arguments; in messages they are not.
    """
    levels: list[Iterator[tuple[int, str | None, Any]]] = [iter([(indent, None, value)])]
    while levels:
        item = next(levels[-1], None)
        if item is None:
            levels.pop()
            continue
        at, label, inner = item
        if label is not None:
            if not (isinstance(inner, list) and inner) and not (isinstance(inner, str) and "\n" in inner):
                lines.labelled(label, scalar(inner), at)
                continue
            lines.labelled(label, "", at)
            at += STEP
        if isinstance(inner, list) and inner:
            levels.append(_inside(at, inner, in_full=in_full))
        elif isinstance(inner, str):
            lines.foreign(inner, at)
        else:
            lines.add(scalar(inner), "plain", at)


def _inside(at: int, value: list[Any], *, in_full: bool) -> Iterator[tuple[int, str | None, Any]]:
    if not isinstance(value, Pairs):
        yield from ((at, "-", part) for part in value)
        return
    yield from ((at, f"{name_text(name)}:", part) for name, part in value if in_full or name != "_meta")


def name_text(name: str) -> str:
    """The name of a member; quoted if it could be misread."""
    return name if _PLAIN_NAME.fullmatch(name) and len(name) <= NAME else quoted(name[:NAME])


def scalar(value: Any) -> str:
    """A value in one line; a string that looks like another value is quoted."""
    if isinstance(value, str):
        is_clear = value.strip() == value and not _OTHER_JSON.fullmatch(value)
        return value if is_clear else quoted(value)
    if isinstance(value, Number):
        return value.token
    if isinstance(value, list):
        return "{}" if isinstance(value, Pairs) else "[]"
    return {True: "true", False: "false"}.get(value, "null") if isinstance(value, bool) else "null"


# ---- JSON


def json_in(text: str) -> Any:
    """The object or array that a text is; None if it is another text."""
    start = text[:64].lstrip()[:1]
    if start not in ("{", "[") or len(text) > _LARGEST_INNER:
        return None
    if len(text) > MOST_VALUES and sum(map(text.count, "[{,")) > MOST_VALUES:
        return None
    try:
        return parse(text)
    except (ValueError, RecursionError):
        return None


def json_lines(value: Any) -> Iterator[tuple[int, str]]:
    """The lines of indented JSON, and how deep each is; tokens as written."""
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
    last = len(value) - 1
    for number, part in enumerate(value):
        name, inner = part if isinstance(value, Pairs) else (None, part)
        yield "" if name is None else f"{quoted(name)}: ", inner, "" if number == last else ","


def write_json(lines: TextLines, value: Any, indent: int = 0) -> None:
    """A value as indented JSON."""
    for depth, text in json_lines(value):
        lines.json_line(text, indent + STEP * depth)
