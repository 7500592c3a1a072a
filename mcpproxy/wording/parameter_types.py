"""Types of parameters: what a JSON Schema says about a value, as far as that fits on a line.

Like the values of `exact_json`, these words are not sanitised.
"""

from collections.abc import Iterator
from typing import Any, Final

from mcpproxy.wording.exact_json import Pairs, is_array, member, members_without, scalar

WORDED_MEMBERS: Final = ("type", "enum", "const", "format", "default", "anyOf", "oneOf", "$ref")
"""The members of a schema that words can express."""


def is_expressible(schema: Pairs, word: str) -> bool:
    """Whether `type_words` expresses all of a member of a schema."""
    value = member(schema, word)
    if word in ("anyOf", "oneOf"):
        return _alternatives(value) is not None
    if word == "enum":
        return is_array(value) and not any(isinstance(part, list) for part in value)
    if word == "type":
        return isinstance(value, str) or (is_array(value) and all(isinstance(part, str) for part in value))
    return not isinstance(value, list) and "\n" not in scalar(value)


def type_words(schema: Pairs) -> Iterator[str]:
    """The type of a parameter in words: `string`, `one of a, b`, `default 3`; texts of a peer are not sanitised."""
    names = {name for name, _ in schema}
    kind, items = member(schema, "type"), member(schema, "items")
    if "type" in names and is_expressible(schema, "type"):
        word = " or ".join(kind) if is_array(kind) else str(kind)
        inner = member(items, "type")
        yield f"{word} of {inner}" if isinstance(inner, str) and "\n" not in inner else word
    for name in ("anyOf", "oneOf"):
        if name in names and (options := _alternatives(member(schema, name))) is not None:
            yield " or ".join(options)
    if "enum" in names and is_expressible(schema, "enum"):
        yield "one of " + ", ".join(map(scalar, member(schema, "enum")))
    for name, words in (("const", "always "), ("format", ""), ("$ref", "as "), ("default", "default ")):
        if name in names and is_expressible(schema, name):
            yield words + scalar(member(schema, name))


def _alternatives(value: Any) -> list[str] | None:
    """Returns the alternative types, or None if the schema says more about any of them."""
    kinds = [member(part, "type") for part in value] if is_array(value) else []
    are_all_plain = (
        kinds
        and all(isinstance(kind, str) for kind in kinds)
        and not any(members_without(part, "type") for part in value)
    )
    return kinds if are_all_plain else None
