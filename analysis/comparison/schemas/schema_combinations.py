"""Combines the parts of schemas: those that fit one of several schemas, or all of them."""

from typing import Any, Final

from analysis.comparison.schemas.pattern_matches import matches
from analysis.comparison.schemas.schema_part import TYPES, Part, Rule, Undecidable, is_multiple, is_tighter, json_key

MAX_ALTERNATIVES: Final = 64
"""The most alternatives of a schema, over all types."""

MAX_MATCHED_VALUES: Final = 100
"""The most listed values that are matched with patterns next to them."""

ANYTHING: Final = tuple(Part(name) for name in TYPES)


def with_rule(parts: tuple[Part, ...], rule: Rule) -> tuple[Part, ...]:
    """Returns alternatives that must all keep a rule, too."""
    return tuple(part._replace(rules=(*part.rules, rule)) for part in parts)


def merged(parts: list[Part]) -> tuple[Part, ...]:
    """Returns alternatives without those that others contain, and with one list of values for each type."""
    merged: list[Part] = []
    for name in TYPES:
        alike = [part for part in parts if part.type == name]
        whole = next((part for part in alike if part.accepts_all), None)
        if whole is not None:
            merged.append(Part(name))
            continue
        integers = Part(name, is_integer=True)
        if integers in alike:
            alike = [integers, *(part for part in alike if not part.is_integer)]
        listed = [part for part in alike if part.values is not None and part._replace(values=None) == Part(name)]
        if len(listed) > 1:
            values = {json_key(value): value for part in listed for value in part.values or ()}
            alike = [part for part in alike if part not in listed]
            both = simplified(Part(name, values=tuple(values.values())))
            if both is not None:
                alike.insert(0, both)
        for part in alike:
            if part not in merged:
                merged.append(part)
    if len(merged) > MAX_ALTERNATIVES:
        raise Undecidable("it has too many alternatives")
    return tuple(merged)


def intersection(part: Part, other: Part) -> Part | None:
    """Returns the values that fit two alternatives for the same type, or None if there are certainly none."""
    if part == other or other == Part(part.type):
        return part
    if part == Part(part.type):
        return other
    values = part.values if other.values is None else other.values
    if part.values is not None and other.values is not None:
        keys = {json_key(value) for value in other.values}
        values = tuple(value for value in part.values if json_key(value) in keys)
    limits = dict(part.limits)
    rules = [*part.rules, *(rule for rule in other.rules if rule not in part.rules)]
    for keyword, limit in other.limits.items():
        known = limits.get(keyword, limit)
        if keyword == "multipleOf" and limit != known:
            rules.append(Rule(keyword, limit[0]))
        else:
            limits[keyword] = tighter(keyword, known, limit)
    both = Part(
        part.type,
        part.is_integer or other.is_integer,
        values,
        limits,
        part.patterns | other.patterns,
        part.required | other.required,
        rules=tuple(rules),
    )
    if part.type == "object":
        both = _with_both_members(both, part, other)
    elif part.type == "array":
        size = max(len(part.prefix), len(other.prefix))
        prefix = [_both_schemas(part.item(index), other.item(index)) for index in range(size)]
        both = both._replace(prefix=tuple(prefix), items=_both_schemas(part.items, other.items))
    return simplified(both)


def _with_both_members(both: Part, part: Part, other: Part) -> Part:
    excludes = part.additional is not True or other.additional is not True
    if excludes and (part.pattern_properties or other.pattern_properties) and part != other:
        # Which names the patterns match is not decided here.
        raise Undecidable("it combines `patternProperties` with schemas that exclude members")
    properties = {
        name: _both_schemas(part.schema_of_member(name), other.schema_of_member(name))
        for name in (*part.properties, *(name for name in other.properties if name not in part.properties))
    }
    patterns = dict(part.pattern_properties)
    for pattern, schema in other.pattern_properties.items():
        patterns[pattern] = _both_schemas(patterns.get(pattern, True), schema)
    return both._replace(
        properties=properties,
        pattern_properties=patterns,
        additional=_both_schemas(part.additional, other.additional),
    )


def _both_schemas(schema: Any, other: Any) -> Any:
    if schema is True or schema is other:
        return other
    if other is True:
        return schema
    if schema is False or other is False:
        return False
    return schema if schema == other and json_key(schema) == json_key(other) else {"allOf": [schema, other]}


def simplified(part: Part) -> Part | None:
    """Returns an alternative in its shortest form, or None if it certainly accepts nothing."""
    if part.limits.get("multipleOf") == (1, False):
        part = part._replace(is_integer=True)
    limits = _integer_limits(part.limits) if part.is_integer else part.limits
    if part.values is not None:
        values = part.values
        if part.type not in ("object", "array"):
            filtered = part._replace(values=None, limits=limits)
            values = tuple(value for value in values if filtered.accepts_scalar(value))
            limits = {}
        part = _with_matching_values(part._replace(values=values, is_integer=False))
        values = part.values or ()
        if not values:
            return None
    if part.type == "null" or (part.type == "boolean" and part.values is not None and len(part.values) == 2):
        part = part._replace(values=None)
    if "multipleOf" in limits and part.is_integer and is_multiple(1, limits["multipleOf"][0]):
        limits = {keyword: limit for keyword, limit in limits.items() if keyword != "multipleOf"}
    for lower, upper in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        if lower in limits and upper in limits:
            (low, excludes_low), (high, excludes_high) = limits[lower], limits[upper]
            if low > high or (low == high and (excludes_low or excludes_high)):
                return None
    if part.type == "object":
        if _has_no_object(part):
            return None
        limits = _object_limits(part)
    return part._replace(limits=limits)


def _with_matching_values(part: Part) -> Part:
    """Returns a part with only the listed values that match its patterns; the same if this cannot be decided."""
    values = part.values or ()
    if not part.patterns or len(values) > MAX_MATCHED_VALUES:
        return part
    answers = [[matches(pattern, value) for pattern in part.patterns] for value in values]
    if any(None in matched for matched in answers):
        return part
    kept = tuple(value for value, matched in zip(values, answers, strict=True) if all(matched))
    return part._replace(values=kept, patterns=frozenset())


def _object_limits(part: Part) -> dict[str, tuple[float, bool]]:
    """Returns the limits of the number of members without those that the other keywords imply."""
    limits = dict(part.limits)
    if limits.get("minProperties", (0, False))[0] <= len(part.required):
        limits.pop("minProperties", None)
    is_closed = part.additional is False and not part.pattern_properties
    if is_closed and "maxProperties" in limits and limits["maxProperties"][0] >= len(part.properties):
        del limits["maxProperties"]
    return limits


def _has_no_object(part: Part) -> bool:
    """Whether it is certain that the required members of an object cannot be there, or are too many or too few."""
    if any(part.properties.get(name, True) is False for name in part.required):
        return True
    if len(part.required) > part.limits.get("maxProperties", (len(part.required), False))[0]:
        return True
    if part.additional is not False or part.pattern_properties:
        return False
    possible = [name for name, schema in part.properties.items() if schema is not False]
    return not part.required <= set(possible) or len(possible) < part.limits.get("minProperties", (0, False))[0]


def _integer_limits(limits: dict[str, tuple[float, bool]]) -> dict[str, tuple[float, bool]]:
    """Returns limits of numbers for integers: whole numbers that are not excluded."""
    whole = dict(limits)
    for keyword, step in (("minimum", 1), ("maximum", -1)):
        if keyword in limits:
            limit, is_excluded = limits[keyword]
            floor = int(limit // 1)
            if limit != floor:
                whole[keyword] = floor + (step == 1), False
            else:
                whole[keyword] = floor + step * is_excluded, False
    return whole


def tighter(keyword: str, limit: tuple[float, bool], other: tuple[float, bool]) -> tuple[float, bool]:
    """Returns the limit that excludes more values."""
    return other if is_tighter(keyword, other, limit) else limit
