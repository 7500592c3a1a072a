"""What breaks is never called unchanged or only noted, however a schema hides it."""

import json
from typing import Any, Final

import jsonschema_rs
import pytest

from analysis.comparison.change import Change
from analysis.comparison.kind import Severity
from analysis.comparison.schemas.schema_changes import SchemaRole, schema_changes

Pair = tuple[Any, Any]


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    return {**whole, "required": [*required]} if required else whole


def bad_changes(old: Any, new: Any, role: SchemaRole) -> list[Change]:
    found = schema_changes(old, new, role, "tool t")
    return [change for change in found if change.severity not in (Severity.NOTE, Severity.WORSE)]


def embedded(uri: str, reference: str, definition: dict[str, Any]) -> dict[str, Any]:
    return {**an_object(a={"$ref": reference}), "$defs": {"A": {"$id": uri, **definition}}}


TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
EMBEDDED: Final[dict[str, Pair]] = {
    "an absolute path": (
        embedded("/a", "/a", an_object(s=TEXT)),
        embedded("/a", "/a", an_object(s=INTEGER)),
    ),
    "relative to the whole": (
        {"$id": "http://a.example/s", **embedded("a", "a", {"required": []})},
        {"$id": "http://a.example/s", **embedded("a", "a", {"required": ["q"]})},
    ),
    "a name": (embedded("urn:x:a", "urn:x:a", TEXT), embedded("urn:x:a", "urn:x:a", INTEGER)),
    "a reference within it": tuple(
        {
            **an_object(a={"$ref": "#/$defs/A"}),
            "$defs": {
                "A": {"$id": "urn:q", "$ref": "#/$defs/B", "$defs": {"B": inner}},
                "B": {"type": "boolean"},
            },
        }
        for inner in (TEXT, INTEGER)
    ),  # type: ignore[dict-item]
}
"""Pairs of arguments that differ only in a definition that has an `$id` of its own."""


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_definition_with_an_id_of_its_own_is_followed(name: str) -> None:
    old, new = EMBEDDED[name]
    assert_witnesses(bad_changes(old, new, "arguments"), old, new)


def test_a_definition_whose_id_occurs_twice_is_undecided() -> None:
    old, new = ({**embedded("urn:a", "urn:a", TEXT), "definitions": {"B": {"$id": "urn:a", **b}}} for b in (TEXT, {}))
    assert [change.severity for change in bad_changes(old, new, "arguments")] == [Severity.UNKNOWN]


def assert_witnesses(found: list[Change], accepting: Any, refusing: Any) -> None:
    assert found
    assert {change.severity for change in found} == {Severity.BREAKING}
    for change in found:
        assert change.witness is not None
        assert jsonschema_rs.is_valid(accepting, change.witness.value), json.dumps(change.witness.value)
        assert not jsonschema_rs.is_valid(refusing, change.witness.value), json.dumps(change.witness.value)
