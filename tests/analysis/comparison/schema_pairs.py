"""Random pairs of JSON Schemas: an old one, and a new one that is a mutation of it or unrelated."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

REAL_TOOLS: Final = Path(__file__).with_name("real_tools.json")
"""The schemas of the tools of six servers of the MCP project, as they listed them in November 2026."""
NAMES: Final = ("a", "b", "c")
TYPES: Final = ("string", "integer", "number", "boolean", "null")


def schema(random: Random, depth: int = 2) -> dict[str, Any]:
    """Returns a schema of the keywords that the oracle knows."""
    share = random.random()
    if depth == 0 or share < 0.5:
        return _scalar(random)
    if share < 0.75:
        return _object(random, depth)
    if share < 0.87:
        array: dict[str, Any] = {"type": "array", "items": schema(random, depth - 1)}
        _maybe(random, 0.3, array, "minItems", (0, 1, 2))
        _maybe(random, 0.3, array, "maxItems", (1, 2, 3))
        _maybe(random, 0.1, array, "uniqueItems", (True,))
        return array
    if share < 0.9:
        return {"not": schema(random, depth - 1)}
    keyword = random.choice(("anyOf", "anyOf", "allOf", "oneOf"))
    return {keyword: [schema(random, depth - 1) for _ in range(random.randint(2, 3))]}


def mutation(random: Random, old: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy with one or two changes."""
    new: dict[str, Any] = json.loads(json.dumps(old))
    for _ in range(random.randint(1, 2)):
        place, other, share = random.choice([*places(new)]), schema(random, 1), random.random()
        if share < 0.35:
            place.clear()
            place.update(other)
        elif share < 0.65:
            if gone := [keyword for keyword in place if keyword not in ("type", "$defs", "$schema")]:
                del place[random.choice(gone)]
        elif share < 0.8 and "properties" in place:
            place["properties"][random.choice(NAMES)] = other
        else:
            place.update({keyword: value for keyword, value in other.items() if keyword not in place})
    return new


def places(whole: Any) -> Iterator[dict[str, Any]]:
    """Yields all schemas in a schema."""
    if not isinstance(whole, dict):
        return
    yield whole
    for keyword, value in whole.items():
        if keyword in ("properties", "patternProperties", "$defs"):
            for member in value.values():
                yield from places(member)
        elif keyword in ("items", "not", "additionalProperties", "if", "then", "else", "propertyNames", "contains"):
            yield from places(value)
        elif keyword in ("anyOf", "oneOf", "allOf"):
            for branch in value:
                yield from places(branch)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """An old and a new schema."""
    random = draw(st.randoms(use_true_random=False))
    old = schema(random)
    return old, mutation(random, old) if random.random() < 0.75 else schema(random)


@st.composite
def real_pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """The schema of a real tool, and a mutation of it."""
    tools = json.loads(REAL_TOOLS.read_text("utf-8"))
    schemas = [listed for tool in tools.values() for listed in tool.values()]
    random, old = draw(st.randoms(use_true_random=False)), draw(st.sampled_from(schemas))
    return old, mutation(random, old)


def _scalar(random: Random) -> dict[str, Any]:
    name = random.choice(TYPES)
    if random.random() < 0.1:
        return {"const": random.choice(("x", "y", 1, 2, None, True))}
    if name == "string" and random.random() < 0.3:
        listed = {"enum": random.sample(["w", "x", "y", "z"], random.randint(1, 3))}
        return {"type": name, **listed} if random.random() < 0.5 else listed
    scalar: dict[str, Any] = {"type": name}
    if name == "string":
        _maybe(random, 0.3, scalar, "minLength", (0, 1, 2, 3))
        _maybe(random, 0.3, scalar, "maxLength", (2, 3, 4, 5))
        _maybe(random, 0.2, scalar, "pattern", ("^a", "^[a-z]+$", "^a$"))
    elif name in ("integer", "number"):
        _maybe(random, 0.4, scalar, "minimum", (-2, -1, 0, 1, 2, 3))
        _maybe(random, 0.4, scalar, "maximum", (3, 4, 5, 6))
        _maybe(random, 0.15, scalar, "multipleOf", (1, 2, 4, 5))
        _maybe(random, 0.1, scalar, "exclusiveMinimum", (-2, 0, 2))
    if random.random() < 0.15:
        scalar["type"] = [name, random.choice([other for other in TYPES if other != name])]
    return scalar


def _object(random: Random, depth: int) -> dict[str, Any]:
    members = random.sample(NAMES, random.randint(0, 3))
    whole: dict[str, Any] = {"type": "object", "properties": {name: schema(random, depth - 1) for name in members}}
    if required := [name for name in NAMES if random.random() < 0.3]:
        whole["required"] = required
    share = random.random()
    if share < 0.6:
        whole["additionalProperties"] = False if share < 0.5 else schema(random, depth - 1)
    _maybe(random, 0.08, whole, "minProperties", (0, 1, 2))
    _maybe(random, 0.08, whole, "maxProperties", (1, 2, 3))
    return whole


def _maybe(random: Random, share: float, whole: dict[str, Any], keyword: str, values: tuple[Any, ...]) -> None:
    if random.random() < share:
        whole[keyword] = random.choice(values)
