"""The normal form of a JSON Schema: which values of each JSON type it accepts, as alternatives without references.

Schemas that mean the same are often written differently: `{"type": ["string", "null"]}` or an `anyOf` of two schemas,
`const` or an `enum` of one value, a `$ref` or what it refers to. All these have the same parts. A part is one
alternative for the values of one type. Schemas of members and items remain as they are written, until somebody asks.

What cannot be expressed in this way (`not`, `if`, an `oneOf` whose schemas overlap, and so on) is kept as a rule, which
can only be compared with other rules.
"""

import json
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Final, NamedTuple

from analysis.json_schema.dialects import dialect_of
from analysis.protocol.json_pointer import decode_steps
from analysis.store.content import with_integers

MAX_ALTERNATIVES: Final = 64
"""The most alternatives of a schema, over all types."""
MAX_REFERENCES: Final = 64
"""How deeply schemas that apply to the same value are nested, such as the target of a `$ref` in an `allOf`."""

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
TYPES: Final = ("string", "number", "boolean", "object", "array", "null")
_LOWER_LIMITS: Final = {"string": ("minLength",), "array": ("minItems",), "object": ("minProperties",)}
_UPPER_LIMITS: Final = {"string": ("maxLength",), "array": ("maxItems",), "object": ("maxProperties",)}
_RULES: Final[dict[str, tuple[str, ...]]] = {
    "array": ("contains", "unevaluatedItems"),
    "object": ("propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"),
}
"""Keywords that are kept as rules, by the type that they are about."""
_IN_PLACE: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"})
"""Keywords whose schemas apply to the same value."""


class Undecidable(Exception):
    """Raised if a schema has no normal form here. Its text is a clause that says why."""


class Rule(NamedTuple):
    """A constraint that has no other form."""

    keyword: str
    schema: Any
    """The value of the keyword; for some, an object with those that belong to it."""


class Part(NamedTuple):
    """One alternative: the values of one JSON type that a schema accepts."""

    type: str
    """One of `TYPES`; integers are numbers."""
    is_integer: bool = False
    values: tuple[Any, ...] | None = None
    """All values that it may have, in the order of the schema; None if it has no such list."""
    limits: dict[str, tuple[float, bool]] = {}  # noqa: RUF012 - never changed
    """Limits by keyword, each with whether the limit itself is excluded; `uniqueItems` is one."""
    patterns: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    properties: dict[str, Any] = {}  # noqa: RUF012 - never changed
    """The schemas of members by their names."""
    pattern_properties: dict[str, Any] = {}  # noqa: RUF012 - never changed
    additional: Any = True
    """The schema of all other members."""
    prefix: tuple[Any, ...] = ()
    """The schemas of the first items."""
    items: Any = True
    """The schema of all other items."""
    rules: tuple[Rule, ...] = ()

    @property
    def accepts_all(self) -> bool:
        """Whether it accepts all values of its type."""
        return self == Part(self.type)

    def accepts_scalar(self, value: Any) -> bool:
        """Whether a string, number, boolean or null of its type may fit; patterns and rules are not examined."""
        if self.values is not None and json_key(value) not in {json_key(other) for other in self.values}:
            return False
        if self.is_integer and value != value // 1:
            return False
        size = len(value) if isinstance(value, str) else value
        return all(_is_within(size, keyword, limit) for keyword, limit in self.limits.items())

    def schema_of_member(self, name: str) -> Any:
        """Returns the schema of a member, or that of all others; what `patternProperties` adds is left out."""
        return self.properties.get(name, self.additional)

    def item(self, index: int) -> Any:
        """Returns the schema of an item."""
        return self.prefix[index] if index < len(self.prefix) else self.items


def json_key(value: Any) -> str:
    """Returns a text that is the same for values that are the same JSON: 1 and 1.0 are, true and 1 are not."""
    text: str = json.dumps(with_integers(value), sort_keys=True)
    return text


def json_type(value: Any) -> str:
    """Returns the JSON type of a value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "null"


class Document:
    """A schema with what its references need."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        dialect = dialect_of(schema)
        if isinstance(schema, dict) and "$schema" in schema and dialect is None:
            raise Undecidable("its dialect is not known")
        self._ignores_siblings = dialect in ("4", "6", "7")
        self._parts: dict[int, tuple[Any, tuple[Part, ...]]] = {}
        """The parts of each schema by its identity. The schema is kept, so that no other gets the same identity."""
        self._depth = 0

    def parts(self, schema: Any) -> tuple[Part, ...]:
        """Returns the alternatives of a schema of this document; none if it accepts nothing.

        Raises:
            Undecidable: it has no normal form.
        """
        if isinstance(schema, bool):
            return _ANYTHING if schema else ()
        if not isinstance(schema, dict):
            raise Undecidable("a schema in it is neither an object nor a boolean")
        known = self._parts.get(id(schema))
        if known is not None:
            return known[1]
        if self._depth >= MAX_REFERENCES:
            raise Undecidable("its references form a circle, or are nested too deeply")
        self._depth += 1
        try:
            parts = self._parts_of(schema)
        finally:
            self._depth -= 1
        self._parts[id(schema)] = schema, parts
        return parts

    def named(self, schema: Any) -> Any:
        """Returns the definition that a schema names and does not constrain further, or else the schema itself."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(schema, dict) or "$ref" not in schema or (CONSTRAINTS - {"$ref"}) & schema.keys():
                break
            try:
                schema = self.target(schema)
            except Undecidable:
                break
        return schema

    def target(self, schema: dict[str, Any]) -> Any:
        """Returns the schema that a `$ref` names.

        Raises:
            Undecidable: it is not in this document.
        """
        reference = schema["$ref"]
        root_id = self.schema.get("$id") if isinstance(self.schema, dict) else None
        if isinstance(reference, str) and isinstance(root_id, str) and root_id:
            reference = reference.removeprefix(root_id.removesuffix("#"))
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise Undecidable("it refers to something outside of itself")
        found = self.schema
        for step in decode_steps(reference[1:]):
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
                found = found[int(step)]
            else:
                raise Undecidable("it refers to a definition that it does not have")
        if reference != "#" and not reference.startswith("#/"):
            raise Undecidable("it refers to an anchor")
        return found

    def _parts_of(self, schema: dict[str, Any]) -> tuple[Part, ...]:
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            raise Undecidable("it has a dynamic reference")
        if "$ref" in schema and self._ignores_siblings:
            return self.parts(self.target(schema))
        parts = _own_parts(schema)
        if "$ref" in schema:
            parts = self._both(parts, self.parts(self.target(schema)))
        for branch in _schemas(schema, "allOf"):
            parts = self._both(parts, self.parts(branch))
        if "anyOf" in schema:
            parts = self._both(parts, self._any(_schemas(schema, "anyOf")))
        if "oneOf" in schema:
            branches = [self.parts(branch) for branch in _schemas(schema, "oneOf")]
            if _pairwise(branches, self._are_disjoint):
                parts = self._both(parts, _merged([part for branch in branches for part in branch]))
            else:
                parts = _with_rule(parts, Rule("oneOf", schema["oneOf"]))
        if "not" in schema:
            parts = self._without(parts, schema["not"])
        if "if" in schema and ("then" in schema or "else" in schema):
            parts = _with_rule(parts, Rule("if", {name: schema.get(name, True) for name in ("if", "then", "else")}))
        return parts

    def _any(self, branches: list[Any]) -> tuple[Part, ...]:
        return _merged([part for branch in branches for part in self.parts(branch)])

    def _without(self, parts: tuple[Part, ...], excluded: Any) -> tuple[Part, ...]:
        excluded_parts = self.parts(excluded)
        whole_types = {part.type for part in excluded_parts if part.accepts_all}
        parts = tuple(part for part in parts if part.type not in whole_types)
        others = {part.type for part in excluded_parts} - whole_types
        rule = Rule("not", excluded)
        return tuple(part._replace(rules=(*part.rules, rule)) if part.type in others else part for part in parts)

    def _both(self, parts: tuple[Part, ...], others: tuple[Part, ...]) -> tuple[Part, ...]:
        pairs = [(part, other) for part in parts for other in others if part.type == other.type]
        if len(pairs) > MAX_ALTERNATIVES:
            raise Undecidable("it has too many combinations of alternatives")
        return _merged([both for part, other in pairs if (both := intersection(part, other)) is not None])

    def _are_disjoint(self, parts: tuple[Part, ...], others: tuple[Part, ...], depth: int = 3) -> bool:
        """Whether it is certain that no value fits an alternative of both."""
        return all(
            part.type != other.type or self._are_parts_disjoint(part, other, depth)
            for part in parts
            for other in others
        )

    def _are_parts_disjoint(self, part: Part, other: Part, depth: int) -> bool:
        both = intersection(part, other)
        if both is None:
            return True
        if part.type != "object" or depth == 0:
            return False
        for name in both.required:
            schemas = part.schema_of_member(name), other.schema_of_member(name)
            if part.pattern_properties or other.pattern_properties or True in schemas:
                continue
            if self._are_disjoint(self.parts(schemas[0]), self.parts(schemas[1]), depth - 1):
                return True
        return False


# ---- one schema without references


def _own_parts(schema: dict[str, Any]) -> tuple[Part, ...]:
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
        simple_part = _simplified(part._replace(rules=(*part.rules, *rules)))
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
                limits[keyword] = _tighter(keyword, limits.get(keyword, limit), limit)
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
    if "unevaluatedProperties" in schema and not _IN_PLACE & schema.keys() and "additionalProperties" not in schema:
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
        return schema if _IN_PLACE & schema.keys() else {keyword: schema[keyword]}
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


def _schemas(schema: dict[str, Any], keyword: str) -> list[Any]:
    branches: list[Any] = _typed(schema, keyword, list) if keyword in schema else []
    if len(branches) > MAX_ALTERNATIVES:
        raise Undecidable("it has too many alternatives")
    return branches


# ---- combinations


def _with_rule(parts: tuple[Part, ...], rule: Rule) -> tuple[Part, ...]:
    return tuple(part._replace(rules=(*part.rules, rule)) for part in parts)


def _merged(parts: list[Part]) -> tuple[Part, ...]:
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
            both = _simplified(Part(name, values=tuple(values.values())))
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
            limits[keyword] = _tighter(keyword, known, limit)
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
    return _simplified(both)


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


def _simplified(part: Part) -> Part | None:
    """Returns an alternative in its shortest form, or None if it certainly accepts nothing."""
    limits = _integer_limits(part.limits) if part.is_integer else part.limits
    if part.values is not None:
        values = part.values
        if part.type not in ("object", "array"):
            filtered = part._replace(limits=limits)
            values = tuple(value for value in values if filtered.accepts_scalar(value))
            limits = {}
        part = part._replace(values=values, is_integer=False)
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
    if any(part.properties.get(name, True) is False for name in part.required):
        return None
    if part.additional is False and not part.pattern_properties and not part.required <= part.properties.keys():
        return None
    return part._replace(limits=limits)


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


def _tighter(keyword: str, limit: tuple[float, bool], other: tuple[float, bool]) -> tuple[float, bool]:
    return other if is_tighter(keyword, other, limit) else limit


def is_tighter(keyword: str, limit: tuple[float, bool], other: tuple[float, bool]) -> bool:
    """Whether a limit excludes more values than another one of the same keyword, which is not `multipleOf`."""
    if limit[0] == other[0]:
        return limit[1] and not other[1]
    return limit[0] > other[0] if keyword.startswith("min") else limit[0] < other[0]


def is_multiple(number: float, step: float) -> bool:
    """Whether a number is a multiple of another one, as the decimal numbers that they were written as."""
    return step > 0 and Fraction(str(number)) % Fraction(str(step)) == 0


def _is_within(size: Any, keyword: str, limit: tuple[float, bool]) -> bool:
    if not isinstance(size, int | float):
        return True
    if keyword == "multipleOf":
        return is_multiple(size, limit[0])
    if size == limit[0]:
        return not limit[1]
    return size > limit[0] if keyword.startswith("min") else size < limit[0]


def _pairwise(items: list[Any], check: Callable[[Any, Any], bool]) -> bool:
    pairs: Iterable[tuple[Any, Any]] = (
        (item, other) for index, item in enumerate(items) for other in items[index + 1 :]
    )
    return all(check(item, other) for item, other in pairs)


_ANYTHING: Final = tuple(Part(name) for name in TYPES)
