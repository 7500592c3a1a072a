"""Tool definitions as text: the whole description, and each parameter with its type and its own description."""

from typing import Any, Final

from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.text.values import STEP, write_value
from mcpproxy.wording.exact_json import Pairs, member, name_text, scalar, without
from mcpproxy.wording.parameter_types import TYPES, is_in_words, type_words

MAX_PARAMETER_DEPTH: Final = 6
"""How many levels of nested parameters are written; deeper ones are written as values."""


def write_definition(lines: TextLines, tool: Any, indent: int = 0) -> None:
    """Write one definition: name, description, parameters, result, and all its other members."""
    title, description = member(tool, "title"), member(tool, "description")
    names = ["name"]
    if isinstance(title, str):
        lines.foreign(title, indent, "accent")
        names.append("title")
    if isinstance(description, str):
        names.append("description")
        if description:
            lines.foreign(description, indent)
    if not description:
        lines.write_line("no description", "bad", indent)
    for name, words, none in (
        ("inputSchema", "parameters", "no parameters"),
        ("outputSchema", "result", "no members in the result"),
    ):
        schema = member(tool, name)
        if isinstance(schema, Pairs):
            names.append(name)
            lines.write_line("", "plain")
            _schema(lines, schema, words, none, indent)
    rest = without(tool, *names, "_meta")
    if rest:
        lines.write_line("", "plain")
        write_value(lines, rest, indent)
    if member(tool, "_meta") is not None:
        lines.write_line("_meta is in pretty", "dim", indent)


def _schema(lines: TextLines, schema: Pairs, words: str, none: str, indent: int) -> None:
    properties = member(schema, "properties")
    if isinstance(properties, Pairs) and properties:
        lines.write_line(f"{words} ({len(properties):,})", "dim", indent)
    else:
        lines.write_line(none, "dim", indent)
    _members(lines, schema, indent + STEP, 0)


def _members(lines: TextLines, schema: Pairs, indent: int, depth: int) -> None:
    """Write the parameters of an object, and the rest of its schema."""
    properties, required = member(schema, "properties"), member(schema, "required")
    known = ["type"] if scalar(member(schema, "type")) == "object" else []
    if isinstance(properties, Pairs):
        known.append("properties")
        needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        if isinstance(required, list) and needed <= {name for name, _ in properties}:
            known.append("required")
        for name, part in properties:
            _parameter(lines, name, part, is_required=name in needed, indent=indent, depth=depth)
    rest = without(schema, *known)
    if rest:
        write_value(lines, rest, indent)


def _parameter(lines: TextLines, name: str, schema: Any, *, is_required: bool, indent: int, depth: int) -> None:
    if not isinstance(schema, Pairs):
        lines.labelled(name_text(name), scalar(schema), indent)
        return
    described = [part for part in type_words(schema) if part]
    lines.labelled(name_text(name), ", ".join([*described, *(["required"] if is_required else [])]), indent)
    description = member(schema, "description")
    known = ["description"] if isinstance(description, str) else []
    if isinstance(description, str) and description:
        lines.foreign(description, indent + STEP)
    known += [word for word in TYPES if is_in_words(schema, word)]
    items = member(schema, "items")
    if isinstance(items, Pairs) and not without(items, "type"):
        known.append("items")
    rest = without(schema, *known)
    if isinstance(member(rest, "properties"), Pairs) and depth < MAX_PARAMETER_DEPTH:
        _members(lines, rest, indent + STEP, depth + 1)
    elif rest:
        write_value(lines, rest, indent + STEP)
