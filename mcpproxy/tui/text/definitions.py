"""Tool definitions as text: the whole description, and each parameter with its type and its own description."""

from collections.abc import Iterator
from typing import Any, Final

from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.text.values import STEP, member, name_text, scalar, without, write_value
from mcpproxy.tui.widgets.tree import Pairs

DEEPEST: Final = 6
"""Levels of parameters inside of parameters; deeper ones are written as values."""

_TYPES: Final = ("type", "enum", "const", "format", "default", "anyOf", "oneOf", "$ref")
"""The members of a schema that a line can say."""


def write_definition(lines: TextLines, tool: Any, indent: int = 0) -> None:
    """One definition: name, description, parameters, result, and all its other members."""
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
        lines.add("no description", "bad", indent)
    for name, words, none in (
        ("inputSchema", "parameters", "no parameters"),
        ("outputSchema", "result", "no members in the result"),
    ):
        schema = member(tool, name)
        if isinstance(schema, Pairs):
            names.append(name)
            lines.add("", "plain")
            _schema(lines, schema, words, none, indent)
    rest = without(tool, *names, "_meta")
    if rest:
        lines.add("", "plain")
        write_value(lines, rest, indent)
    if member(tool, "_meta") is not None:
        lines.add("_meta is in pretty", "dim", indent)


def _schema(lines: TextLines, schema: Pairs, words: str, none: str, indent: int) -> None:
    properties = member(schema, "properties")
    if isinstance(properties, Pairs) and properties:
        lines.add(f"{words} ({len(properties):,})", "dim", indent)
    else:
        lines.add(none, "dim", indent)
    _members(lines, schema, indent + STEP, 0)


def _members(lines: TextLines, schema: Pairs, indent: int, depth: int) -> None:
    """The parameters of an object, and what else its schema says."""
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
    described = [part for part in _type_words(schema) if part]
    lines.labelled(name_text(name), ", ".join([*described, *(["required"] if is_required else [])]), indent)
    description = member(schema, "description")
    known = ["description"] if isinstance(description, str) else []
    if isinstance(description, str) and description:
        lines.foreign(description, indent + STEP)
    known += [word for word in _TYPES if _is_said(schema, word)]
    items = member(schema, "items")
    if isinstance(items, Pairs) and not without(items, "type"):
        known.append("items")
    rest = without(schema, *known)
    if isinstance(member(rest, "properties"), Pairs) and depth < DEEPEST:
        _members(lines, rest, indent + STEP, depth + 1)
    elif rest:
        write_value(lines, rest, indent + STEP)


def _is_said(schema: Pairs, word: str) -> bool:
    """Whether the line of a parameter says all of this member."""
    value = member(schema, word)
    if word in ("anyOf", "oneOf"):
        return _options(value) is not None
    if word == "enum":
        return _is_array(value) and not any(isinstance(part, list) for part in value)
    if word == "type":
        return isinstance(value, str) or (_is_array(value) and all(isinstance(part, str) for part in value))
    return not isinstance(value, list) and "\n" not in scalar(value)


def _type_words(schema: Pairs) -> Iterator[str]:
    names = {name for name, _ in schema}
    kind, items = member(schema, "type"), member(schema, "items")
    if "type" in names and _is_said(schema, "type"):
        word = " or ".join(kind) if _is_array(kind) else str(kind)
        inner = member(items, "type")
        yield f"{word} of {inner}" if isinstance(inner, str) and "\n" not in inner else word
    for name in ("anyOf", "oneOf"):
        if name in names and (options := _options(member(schema, name))) is not None:
            yield " or ".join(options)
    if "enum" in names and _is_said(schema, "enum"):
        yield "one of " + ", ".join(map(scalar, member(schema, "enum")))
    for name, words in (("const", "always "), ("format", ""), ("$ref", "as "), ("default", "default ")):
        if name in names and _is_said(schema, name):
            yield words + scalar(member(schema, name))


def _options(value: Any) -> list[str] | None:
    """The types of which one holds, if nothing else is said of them."""
    kinds = [member(part, "type") for part in value] if _is_array(value) else []
    is_all = kinds and all(isinstance(kind, str) for kind in kinds) and not any(without(part, "type") for part in value)
    return kinds if is_all else None


def _is_array(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, Pairs)
