"""Tool definitions as text: the whole description, and each parameter with its type and its own description."""

from typing import Any, Final

from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.text.values import INDENT, write_value
from mcpproxy.wording.exact_json import Pairs, member, members_without, name_text, scalar
from mcpproxy.wording.parameter_types import WORDED_MEMBERS, is_expressible, type_words

MAX_PARAMETER_DEPTH: Final = 6
"""The number of levels of nested parameters that are written as parameters; deeper levels are written as values."""


def write_definition(lines: TextLines, tool: Any, indent: int = 0) -> None:
    """Write one definition: name, description, parameters, result, and all its other members."""
    title, description = member(tool, "title"), member(tool, "description")
    written_names = ["name"]
    if isinstance(title, str):
        lines.write_foreign(title, indent, "accent")
        written_names.append("title")
    if isinstance(description, str):
        written_names.append("description")
        if description:
            lines.write_foreign(description, indent)
    if not description:
        lines.write_line("no description", "bad", indent)
    for name, words, empty_text in (
        ("inputSchema", "parameters", "no parameters"),
        ("outputSchema", "result", "no members in the result"),
    ):
        schema = member(tool, name)
        if isinstance(schema, Pairs):
            written_names.append(name)
            lines.write_line("", "plain")
            _write_schema(lines, schema, words, empty_text, indent)
    other_members = members_without(tool, *written_names, "_meta")
    if other_members:
        lines.write_line("", "plain")
        write_value(lines, other_members, indent)
    if member(tool, "_meta") is not None:
        lines.write_line("_meta is in pretty", "dim", indent)


def _write_schema(lines: TextLines, schema: Pairs, words: str, empty_text: str, indent: int) -> None:
    properties = member(schema, "properties")
    if isinstance(properties, Pairs) and properties:
        lines.write_line(f"{words} ({len(properties):,})", "dim", indent)
    else:
        lines.write_line(empty_text, "dim", indent)
    _write_members(lines, schema, indent + INDENT, 0)


def _write_members(lines: TextLines, schema: Pairs, indent: int, depth: int) -> None:
    """Write the parameters of an object, and the rest of its schema."""
    properties, required = member(schema, "properties"), member(schema, "required")
    written_names = ["type"] if scalar(member(schema, "type")) == "object" else []
    if isinstance(properties, Pairs):
        written_names.append("properties")
        required_names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        if isinstance(required, list) and required_names <= {name for name, _ in properties}:
            written_names.append("required")
        for name, parameter_schema in properties:
            _write_parameter(
                lines, name, parameter_schema, is_required=name in required_names, indent=indent, depth=depth
            )
    other_members = members_without(schema, *written_names)
    if other_members:
        write_value(lines, other_members, indent)


def _write_parameter(lines: TextLines, name: str, schema: Any, *, is_required: bool, indent: int, depth: int) -> None:
    if not isinstance(schema, Pairs):
        lines.write_labelled(name_text(name), scalar(schema), indent)
        return
    type_texts = [part for part in type_words(schema) if part]
    lines.write_labelled(name_text(name), ", ".join([*type_texts, *(["required"] if is_required else [])]), indent)
    description = member(schema, "description")
    written_names = ["description"] if isinstance(description, str) else []
    if isinstance(description, str) and description:
        lines.write_foreign(description, indent + INDENT)
    written_names += [word for word in WORDED_MEMBERS if is_expressible(schema, word)]
    items = member(schema, "items")
    if isinstance(items, Pairs) and not members_without(items, "type"):
        written_names.append("items")
    other_members = members_without(schema, *written_names)
    if isinstance(member(other_members, "properties"), Pairs) and depth < MAX_PARAMETER_DEPTH:
        _write_members(lines, other_members, indent + INDENT, depth + 1)
    elif other_members:
        write_value(lines, other_members, indent + INDENT)
