"""Random pairs of schemas that use what is hard to compare: negations, conditions, patterns, embedded definitions."""

import json
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from tests.analysis.comparison.schema_pairs import NAMES, mutation, places, schema

_PATTERNS: Final = ("^a", "b", "^[ab]$", "^d")
_SCALARS: Final = ("", "a", "b", "w", "x", "y", "abc", "d", 0, 1, 2, 3, 4, 6, 7, -1, 0.5, 2.5, True, False, None)
VALUES: Final = 60
"""How many values are tried for a pair."""


@st.composite
def odd_pairs(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """An old schema, a mutation of it, and values that may fit them."""
    random = Random(draw(st.integers(0, 2**64 - 1)))  # each value drawn by itself would take most of the time
    old = _odd_schema(random)
    new = mutation(random, old) if random.random() < 0.3 else _with_one_change(random, old)
    listed = [value for whole in (old, new) for place in places(whole) for value in place.get("enum", [])]
    values = [random.choice(listed) if listed and random.random() < 0.1 else _value(random) for _ in range(VALUES)]
    return old, new, values


def _with_one_change(random: Random, old: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy in which one keyword came, went or has another value, as often as not within a rule."""
    new: dict[str, Any] = json.loads(json.dumps(old))
    place = random.choice([*places(new)])
    keywords = [keyword for keyword in place if keyword not in ("$defs", "$id", "$ref")]
    if keywords and random.random() < 0.6:
        keyword = random.choice(keywords)
        if random.random() < 0.5 and isinstance(place[keyword], dict | list) and place[keyword]:
            place[keyword].pop(random.choice([*place[keyword]]) if isinstance(place[keyword], dict) else -1)
        else:
            del place[keyword]
    else:
        place.update(_constraint(random))
    return new


def _odd_schema(random: Random) -> dict[str, Any]:
    whole: dict[str, Any] = {"type": "object", "properties": {name: schema(random, 1) for name in NAMES[:2]}}
    for place in [*places(whole)]:
        while random.random() < 0.4:
            place.update(_constraint(random))
    if random.random() < 0.25:
        definition = schema(random, 1)
        embedded = random.random() < 0.6
        whole["$defs"] = {"x": {"$id": "urn:x", **definition} if embedded else definition}
        whole["properties"]["c"] = {"$ref": "urn:x" if embedded else "#/$defs/x"}
        if random.random() < 0.5:
            whole["not"] = {"type": "object", "properties": {"a": whole["properties"]["c"]}, "required": ["a"]}
    copy: dict[str, Any] = json.loads(json.dumps(whole))
    return copy


def _constraint(random: Random) -> dict[str, Any]:
    """Returns keywords that may stand next to any others."""
    other = schema(random, 1)
    values: dict[str, Any] = {
        "not": _condition(random),
        "patternProperties": {random.choice(_PATTERNS): other},
        "propertyNames": {"maxLength": random.randint(0, 2)} if random.random() < 0.5 else {"pattern": "^a"},
        "enum": [_value(random, 1) if random.random() < 0.3 else random.choice(_SCALARS) for _ in range(4)],
        "pattern": random.choice(_PATTERNS),
        "required": [random.choice(NAMES)],
        "additionalProperties": random.choice((False, True, other)),
        "oneOf": [_condition(random), other],
        "dependentRequired": {"a": ["b"]},
        "contains": other,
        "allOf": [other, _condition(random)],
    }
    keyword = random.choice(("if", *values))
    if keyword == "if":
        return {"if": _condition(random), random.choice(("then", "else")): _condition(random)}
    return {keyword: values[keyword]}


def _condition(random: Random) -> dict[str, Any]:
    condition: dict[str, Any] = {}
    if random.random() < 0.7:
        condition["required"] = [random.choice(NAMES)]
    if random.random() < 0.7:
        condition["properties"] = {random.choice(NAMES): schema(random, 0)}
    return condition or {"const": random.choice(_SCALARS)}


def _value(random: Random, depth: int = 2) -> Any:
    share = random.random()
    if depth and share < 0.6:
        names = random.sample((*NAMES, "d", "ab"), random.randint(0, 3))
        return {name: _value(random, depth - 1) for name in names}
    if depth and share < 0.7:
        return [_value(random, depth - 1) for _ in range(random.randint(0, 2))]
    return random.choice(_SCALARS)
