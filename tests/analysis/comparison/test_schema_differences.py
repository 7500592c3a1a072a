"""Schemas that mean the same have no differences, however they are written; the walk is bounded."""

from typing import Any

from analysis.comparison.schemas.schema_difference import Direction
from analysis.comparison.schemas.schema_differences import differences
from analysis.comparison.schemas.schema_document import Document

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}}}
CAT = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]}
DOG = {"type": "object", "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}}, "required": ["kind"]}
EQUAL: dict[str, tuple[Any, Any]] = {
    "a list of one type": ({"type": ["string"]}, {"type": "string"}),
    "the order of types": ({"type": ["string", "null"]}, {"type": ["null", "string"]}),
    "types or alternatives": ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    "limits in alternatives": (
        {"type": ["string", "null"], "minLength": 1},
        {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 1}]},
    ),
    "constants or an enum": ({"anyOf": [{"const": "a"}, {"const": "b"}]}, {"enum": ["a", "b"]}),
    "the order of an enum": ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
    "an enum with its type": ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    "an enum twice": ({"enum": ["a", "a"]}, {"const": "a"}),
    "both booleans": ({"enum": [True, False]}, {"type": "boolean"}),
    "only null": ({"const": None}, {"type": "null"}),
    "the order of required members": ({"required": ["a", "b"]}, {"required": ["b", "a"]}),
    "the order of members": ({"properties": {"a": {}, "b": {}}}, {"properties": {"b": {}, "a": {}}}),
    "anything": ({}, True),
    "nothing": ({"not": {}}, False),
    "an explicit default": ({"type": "object"}, {"type": "object", "additionalProperties": True, "required": []}),
    "any other members": ({"additionalProperties": {}}, {"additionalProperties": True}),
    "a limit that limits nothing": ({"type": "array"}, {"type": "array", "minItems": 0}),
    "a size that other keywords imply": (
        {"type": "object", "required": ["a", "b"], "minProperties": 2},
        {"type": "object", "required": ["a", "b"]},
    ),
    "1 and 1.0": ({"minimum": 1, "const": 5}, {"minimum": 1.0, "const": 5.0}),
    "exclusive limits of integers": (
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 9.5},
        {"type": "integer", "minimum": 1, "maximum": 9},
    ),
    "an exclusive limit as in draft 4": (
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        {"type": "number", "exclusiveMinimum": 0},
    ),
    "multiples of 1": ({"type": "number", "multipleOf": 1}, {"type": "integer"}),
    "a definition in its place": (
        {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}},
        {"properties": {"a": {"type": "string"}}},
    ),
    "definitions with other names": (
        {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#/definitions/y"}}, "definitions": {"y": {"type": "string"}}},
    ),
    "definitions that nothing uses": ({"type": "string", "$defs": {"x": {"type": "null"}}}, {"type": "string"}),
    "recursive definitions with other names": (
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {
            "$ref": "#/$defs/item",
            "$defs": {
                "item": {
                    "type": "object",
                    "properties": {"next": {"$ref": "#/$defs/item"}, "value": {"type": "integer"}},
                }
            },
        },
    ),
    "schemas that must all fit": (
        {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "string"}}}]},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
    ),
    "the order of alternatives": ({"anyOf": [CAT, DOG]}, {"anyOf": [DOG, CAT]}),
    "one of several that exclude each other": ({"oneOf": [CAT, DOG]}, {"anyOf": [DOG, CAT]}),
    "the items of a tuple before 2020-12": (
        {"items": [{"type": "string"}], "additionalItems": False},
        {"prefixItems": [{"type": "string"}], "items": False},
    ),
    "negated types": (
        {"not": {"type": ["string", "null"]}},
        {"type": ["number", "boolean", "object", "array"]},
    ),
    "equal negations": ({"not": {"const": 1}}, {"not": {"enum": [1]}}),
    "equal conditions": (
        {"if": {"required": ["a"]}, "then": {"properties": {"b": {"const": 1}}}},
        {"if": {"required": ["a"]}, "then": {"properties": {"b": {"enum": [1]}}}},
    ),
}


def test_equal_meaning_is_no_difference() -> None:
    for what, (old, new) in EQUAL.items():
        assert differences(Document(old), Document(new)) == [], what
        assert differences(Document(new), Document(old)) == [], what


def test_values_of_other_types_are_not_equal() -> None:
    for old, new in (({"const": 1}, {"const": True}), ({"const": 0}, {"const": False}), ({"const": 1}, {"const": "1"})):
        names = [difference.name for difference in differences(Document(old), Document(new))]
        assert names == ["enum-narrowed", "enum-widened"]


def test_a_recursive_schema_has_each_difference_once() -> None:
    changed = {"type": "object", "properties": {**NODE["properties"], "value": {"type": "string"}}}  # type: ignore[dict-item]
    old, new = ({"$ref": "#/$defs/node", "$defs": {"node": node}} for node in (NODE, changed))
    found = differences(Document(old), Document(new))
    assert [(difference.name, difference.pointer) for difference in found] == [("type-changed", "/properties/value")]


def test_names_in_pointers_are_encoded() -> None:
    old, new = ({"properties": {"a/b~c": {"type": name}}} for name in ("string", "null"))
    assert [difference.pointer for difference in differences(Document(old), Document(new))] == ["/properties/a~1b~0c"]


def test_many_levels_are_undecided() -> None:
    old: Any = {"type": "string"}
    new: Any = {"type": "null"}
    for _ in range(100):
        old, new = {"items": old}, {"items": new}
    found = differences(Document(old), Document(new))
    assert [difference.direction for difference in found] == [Direction.UNDECIDED]


MEDIA: dict[str, Any] = {
    "type": "object",
    "properties": {"type": {"enum": ["image", "audio", "blob"]}, "data": {"type": "string"}},
    "required": ["type", "data"],
    "additionalProperties": False,
}
FEWER_MEDIA = {**MEDIA, "properties": {"type": {"enum": ["image", "audio"]}, "data": {"type": "string"}}}
EMBEDDED = {
    "type": "object",
    "properties": {"type": {"const": "resource"}, "resource": {"type": "object"}},
    "required": ["type", "resource"],
    "additionalProperties": False,
}


def test_an_alternative_is_compared_with_the_one_that_it_became() -> None:
    """One schema becomes two alternatives, as in `read_media_file` of the server of files: the nearest is its own."""
    old, new = Document(MEDIA), Document({"anyOf": [FEWER_MEDIA, EMBEDDED]})
    texts = [(difference.name, difference.pointer) for difference in differences(old, new)]
    assert texts == [("enum-narrowed", "/properties/type"), ("alternatives-widened", "")]
    texts = [(difference.name, difference.pointer) for difference in differences(new, old)]
    assert texts == [("enum-widened", "/properties/type"), ("alternatives-narrowed", "")]
