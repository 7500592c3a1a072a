"""Values as text: a JSON value in the style of YAML with its strings unfolded, or as indented JSON."""

from collections.abc import Iterator
from typing import Any, Final

from mcpproxy.tui.text.lines import TextLines
from mcpproxy.wording.exact_json import Pairs, name_text, scalar, value_lines

INDENT: Final = 2
"""The number of cells by which nested values are indented."""


def write_value(lines: TextLines, value: Any, indent: int = 0, *, in_full: bool = False) -> None:
    """Write a value: a line for each member, strings with their line ends.

    Args:
        lines: where to write it.
        value: as `parse` returns it.
        indent: the indentation, in cells.
        in_full: whether `_meta` members are written, as in arguments; in messages they are not.
    """
    levels: list[Iterator[tuple[int, str | None, Any]]] = [iter([(indent, None, value)])]
    while levels:
        item = next(levels[-1], None)
        if item is None:
            levels.pop()
            continue
        inner_indent, label, inner = item
        if label is not None:
            if not (isinstance(inner, list) and inner) and not (isinstance(inner, str) and "\n" in inner):
                lines.write_labelled(label, scalar(inner), inner_indent)
                continue
            lines.write_labelled(label, "", inner_indent)
            inner_indent += INDENT
        if isinstance(inner, list) and inner:
            levels.append(_nested_items(inner_indent, inner, in_full=in_full))
        elif isinstance(inner, str):
            lines.write_foreign(inner, inner_indent)
        else:
            lines.write_line(scalar(inner), "plain", inner_indent)


def _nested_items(indent: int, value: list[Any], *, in_full: bool) -> Iterator[tuple[int, str | None, Any]]:
    if not isinstance(value, Pairs):
        yield from ((indent, "-", inner) for inner in value)
        return
    yield from ((indent, f"{name_text(name)}:", inner) for name, inner in value if in_full or name != "_meta")


def write_json(lines: TextLines, value: Any, indent: int = 0) -> None:
    """Write a value as indented JSON."""
    for depth, text in value_lines(value):
        lines.write_json_line(text, indent + INDENT * depth)
