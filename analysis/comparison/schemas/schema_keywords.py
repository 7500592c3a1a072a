"""Reads the keywords of one schema that need no other schema: its own parts. It also lists what keywords there are."""

from typing import Any, Final

from analysis.comparison.schemas.schema_combinations import simplified, tighter
from analysis.comparison.schemas.schema_part import TYPES, Part, Rule, Undecidable, json_key, json_type

CONSTRAINTS: Final = frozenset(
    {
        *("type", "enum", "const", "properties", "patternProperties", "additionalProperties", "required"),
        *("items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "uniqueItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "propertyNames"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems"),
        *("dependentRequired", "dependentSchemas", "dependencies", "$ref", "$dynamicRef", "$recursiveRef"),
    }
)
"""Keywords that may reject values."""

DEFINITIONS: Final = frozenset({"$defs", "definitions", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$id", "id"})
"""Keywords that references lead to. All keywords that are in neither set are annotations."""

_LOWER_LIMITS: Final = {"string": ("minLength",), "array": ("minItems",), "object": ("minProperties",)}

_UPPER_LIMITS: Final = {"string": ("maxLength",), "array": ("maxItems",), "object": ("maxProperties",)}

_RULES: Final[dict[str, tuple[str, ...]]] = {
    "array": ("contains", "unevaluatedItems"),
    "object": ("propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"),
}
"""Keywords that are kept as rules, by the type that they are about."""

IN_PLACE: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"})
"""Keywords whose schemas apply to the same value."""


def own_parts(schema: dict[str, Any]) -> tuple[Part, ...]:
    """Returns the alternatives of the keywords that need no other schema's parts, one for each type."""
    accepted_types = _accepted_types(schema)
    values = _enumerated_values(schema)
    parts = []
    for name in TYPES:
        if name not in accepted_types:
            continue
        part = Part(name, accepted_types[name], None if values is None else _of_type(values, name))
        if name in _LIMITED_TYPES:
            part = part._replace(limits=_limits(schema, name))
        if name == "string" and "pattern" in schema:
            part = part._replace(patterns=frozenset([_typed(schema, "pattern", str)]))
        elif name == "object":
            part = _with_members(part, schema)
        elif name == "array":
            part = _with_items(part, schema)
        rules = [Rule(keyword, _rule_schema(schema, keyword)) for keyword in _RULES.get(name, ()) if keyword in schema]
        simple_part = simplified(part._replace(rules=(*part.rules, *rules)))
        if simple_part is not None:
            parts.append(simple_part)
    return tuple(parts)


def _accepted_types(schema: dict[str, Any]) -> dict[str, bool]:
    """Returns the types that `type` accepts, each with whether only integers of it."""
    if "type" not in schema:
        return dict.fromkeys(TYPES, False)
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not all(isinstance(name, str) and (name in TYPES or name == "integer") for name in names):
        raise Undecidable("it has a `type` that does not exist")
    accepted = dict.fromkeys(names, False)
    if accepted.pop("integer", None) is not None and "number" not in accepted:
        accepted["number"] = True
    return accepted


def _enumerated_values(schema: dict[str, Any]) -> list[Any] | None:
    values: list[Any] | None = None
    if "enum" in schema:
        values = list({json_key(value): value for value in _typed(schema, "enum", list)}.values())
    if "const" in schema:
        key = json_key(schema["const"])
        values = [schema["const"]] if values is None else [value for value in values if json_key(value) == key]
    return values


def _of_type(values: list[Any], name: str) -> tuple[Any, ...]:
    return tuple(value for value in values if json_type(value) == name)


MAX_BRANCHES: Final = 1_000
"""The most schemas in one `allOf`, `anyOf` or `oneOf`; most of so many are constants."""
_MAX_NUMBER: Final = 1e300

_LIMITED_TYPES: Final = ("string", "number", "array", "object")


def _limits(schema: dict[str, Any], type_name: str) -> dict[str, tuple[float, bool]]:
    limits: dict[str, tuple[float, bool]] = {}
    if type_name == "number":
        for keyword, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            is_exclusive = schema.get(exclusive) is True  # as in draft 4
            if keyword in schema:
                limits[keyword] = _number(schema, keyword), is_exclusive
            if exclusive in schema and not isinstance(schema[exclusive], bool):
                limit = _number(schema, exclusive), True
                limits[keyword] = tighter(keyword, limits.get(keyword, limit), limit)
        if "multipleOf" in schema:
            limits["multipleOf"] = _number(schema, "multipleOf"), False
        return limits
    for keyword in (*_LOWER_LIMITS[type_name], *_UPPER_LIMITS[type_name]):
        if keyword in schema and (_number(schema, keyword) > 0 or keyword.startswith("max")):
            limits[keyword] = _number(schema, keyword), False
    if type_name == "array" and schema.get("uniqueItems") is True:
        limits["uniqueItems"] = 1, False
    return limits


def _with_members(part: Part, schema: dict[str, Any]) -> Part:
    required = schema.get("required", [])
    if not isinstance(required, list):  # draft 3 has booleans here, and so have many schemas by mistake
        raise Undecidable("its `required` is not a list")
    additional = schema.get("additionalProperties", True)
    if "unevaluatedProperties" in schema and not IN_PLACE & schema.keys() and "additionalProperties" not in schema:
        additional = schema["unevaluatedProperties"]
    return part._replace(
        required=frozenset(name for name in required if isinstance(name, str)),
        properties=_typed(schema, "properties", dict) if "properties" in schema else {},
        pattern_properties=_typed(schema, "patternProperties", dict) if "patternProperties" in schema else {},
        additional=True if additional == {} else additional,
    )


def _with_items(part: Part, schema: dict[str, Any]) -> Part:
    prefix, items = schema.get("prefixItems", []), schema.get("items", True)
    if isinstance(items, list):  # before 2020-12
        prefix, items = items, schema.get("additionalItems", True)
    if not isinstance(prefix, list):
        raise Undecidable("its `prefixItems` are not a list")
    return part._replace(prefix=tuple(prefix), items=True if items == {} else items)


def _rule_schema(schema: dict[str, Any], keyword: str) -> Any:
    if keyword == "contains":
        return {name: schema[name] for name in ("contains", "minContains", "maxContains") if name in schema}
    if keyword.startswith("unevaluated"):  # it depends on everything next to it
        return schema if IN_PLACE & schema.keys() else {keyword: schema[keyword]}
    return schema[keyword]


def _typed(schema: dict[str, Any], keyword: str, expected: type) -> Any:
    value = schema[keyword]
    if not isinstance(value, expected):
        raise Undecidable(f"its `{keyword}` is malformed")
    return value


def _number(schema: dict[str, Any], keyword: str) -> float:
    value = schema[keyword]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Undecidable(f"its `{keyword}` is malformed")
    if not -_MAX_NUMBER < value < _MAX_NUMBER:
        raise Undecidable(f"its `{keyword}` is too large")
    return value


def branches_of(schema: dict[str, Any], keyword: str) -> list[Any]:
    """Returns the schemas of `allOf`, `anyOf` or `oneOf`."""
    branches: list[Any] = _typed(schema, keyword, list) if keyword in schema else []
    if len(branches) > MAX_BRANCHES:
        raise Undecidable("it has too many alternatives")
    return branches
