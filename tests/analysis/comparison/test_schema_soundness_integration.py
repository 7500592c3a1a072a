"""What breaks is never called unchanged or only noted, however a schema hides it."""

import json
from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import assume, given

from analysis.comparison.change import Change
from analysis.comparison.kind import Severity
from analysis.comparison.schemas.schema_changes import MAX_DIFFERENCES, SchemaRole, schema_changes
from tests.analysis.comparison.odd_pairs import odd_pairs
from tests.examples import examples

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


MANY = {f"p{number:03}": TEXT for number in range(70)}
"""More members than the search for any witness tries."""
CASES: Final[dict[str, Pair]] = {
    "a pattern beside an enum": (
        an_object(**MANY, z={"enum": ["a", "b"]}),
        an_object(**MANY, z={"enum": ["a", "b"], "pattern": "^a$"}),
    ),
    "a `not` beside an enum": (
        an_object(**MANY, z={"enum": ["a", "b"]}),
        an_object(**MANY, z={"enum": ["a", "b"], "not": {"const": "b"}}),
    ),
    "a member's schema beside an enum": (
        an_object(**MANY, z={"enum": [{"m": 1}, {"m": "a"}]}),
        an_object(**MANY, z={"enum": [{"m": 1}, {"m": "a"}], "properties": {"m": TEXT}}),
    ),
    "a member that a `not` no longer describes": (
        an_object(**MANY, z={"type": "object", "not": an_object("a", a={"const": 1})}),
        an_object(**MANY, z={"type": "object", "not": {"type": "object", "required": ["a"]}}),
    ),
    "a member that an `if` no longer describes": (
        an_object(**MANY, z={"if": an_object("m", m={"const": "a"}), "then": {"required": ["x"]}}),
        an_object(**MANY, z={"if": {"type": "object", "required": ["m"]}, "then": {"required": ["x"]}}),
    ),
    "a new limit for names": (
        {"type": "object", "propertyNames": {"maxLength": 9}},
        {"type": "object", "propertyNames": {"maxLength": 3}},
    ),
    "a new member whose name a pattern described": (
        an_object(**MANY) | {"patternProperties": {"^f": INTEGER}},
        an_object(**MANY, foo=TEXT) | {"patternProperties": {"^f": INTEGER}},
    ),
    "a required member that gets a schema": (
        {"type": "object", "required": ["z"], "properties": MANY},
        {"type": "object", "required": ["z"], "properties": {**MANY, "z": TEXT}},
    ),
}
"""Pairs of arguments; what the old schema accepts and the new one refuses has a witness."""


@pytest.mark.parametrize("name", CASES)
def test_a_hidden_constraint_is_breaking_with_a_witness(name: str) -> None:
    old, new = CASES[name]
    assert_witnesses(bad_changes(old, new, "arguments"), old, new)


def test_listed_values_that_a_pattern_excludes_are_none() -> None:
    old, new = {"enum": ["a", "b"], "pattern": "^a$"}, {"const": "a"}
    assert schema_changes(an_object(z=old), an_object(z=new), "arguments", "tool t") == []


def test_a_pattern_does_not_keep_open_what_is_closed_otherwise() -> None:
    old = {**an_object(**MANY, b={}), "patternProperties": {"^x-": {}}, "additionalProperties": False}
    new = {**old, "properties": MANY}
    [change] = schema_changes(old, new, "arguments", "tool t")
    assert (change.kind.id, change.severity) == ("arguments/removed", Severity.BREAKING)
    assert change.message.endswith("is no longer accepted")
    [change] = schema_changes(old, new, "result", "tool t")
    assert (change.severity, change.unproved) == (Severity.MAY_BREAK, "results without it were possible before")
    named = {**old, "properties": {**MANY, "x-b": {}}}
    [change] = schema_changes(named, new, "arguments", "tool t")
    assert (change.severity, change.unproved) == (Severity.MAY_BREAK, "the schema still accepts it, with any value")


def test_a_required_member_of_the_result_that_loses_its_schema_breaks() -> None:
    inner_old, inner_new = an_object("a", a=TEXT), {"type": "object", "required": ["a"]}
    for old, new in ((inner_old, inner_new), (an_object("n", n=inner_old), an_object("n", n=inner_new))):
        found = schema_changes(old, new, "result", "tool t")
        assert [change.kind.id for change in found] == ["result/removed"]
        assert_witnesses(found, new, old)


def described(text: str, kind: str) -> dict[str, Any]:
    return {f"p{number:03}": {"type": kind, "description": text} for number in range(MAX_DIFFERENCES + 5)}


def test_many_notes_do_not_hide_what_breaks() -> None:
    old, new = an_object(**described("1", "string"), z=TEXT), an_object(**described("2", "string"), z=INTEGER)
    found = schema_changes(old, new, "arguments", "tool t")
    assert len(found) == MAX_DIFFERENCES + 1
    assert [change.pointer for change in found if change.severity is Severity.BREAKING] == ["/properties/z"]
    assert (found[-1].severity, found[-1].times) == (Severity.NOTE, 6)
    assert found[-1].message == "the schema of the arguments has further differences: 6"
    found = schema_changes(an_object(**described("1", "string")), an_object(**described("2", "string")), "result", "t")
    assert (len(found), found[-1].severity, found[-1].times) == (MAX_DIFFERENCES + 1, Severity.NOTE, 5)


def test_more_that_breaks_than_is_judged_is_undecided() -> None:
    old, new = an_object(**described("1", "string")), an_object(**described("1", "integer"))
    found = schema_changes(old, new, "arguments", "tool t")
    assert (len(found), found[-1].severity, found[-1].times) == (MAX_DIFFERENCES + 1, Severity.UNKNOWN, 5)


def test_a_new_member_in_one_of_two_new_alternatives_is_noted() -> None:
    old = an_object(a=TEXT)
    new = {**old, "oneOf": [{"properties": {"c": {"type": "boolean"}}}, an_object("a", "c", a=INTEGER, c={"const": 1})]}
    found = schema_changes(old, new, "arguments", "tool t")
    assert [(change.kind.id, change.pointer) for change in found] == [("arguments/added", "/properties/c")]


@examples(150)
@given(odd_pairs())
def test_nothing_that_is_refused_now_goes_unnoticed(drawn: tuple[Any, Any, list[Any]]) -> None:
    old, new, values = drawn
    try:
        accepting, refusing = jsonschema_rs.Draft202012Validator(old), jsonschema_rs.Draft202012Validator(new)
    except ValueError:
        assume(False)
    found = schema_changes(old, new, "arguments", "tool t")
    if any(change.severity not in (Severity.NOTE, Severity.WORSE) for change in found):
        return
    # That a call may already have had a new argument, which the schema did not describe, does not count.
    added = {change.pointer.rpartition("/")[2] for change in found if change.kind.id == "arguments/added"}
    for value in values:
        if not added & names_in(value) and accepting.is_valid(value) and not refusing.is_valid(value):
            pytest.fail(f"{json.dumps(value)} between {json.dumps(old)} and {json.dumps(new)}")


def names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return value.keys() | {name for member in value.values() for name in names_in(member)}
    return {name for item in value for name in names_in(item)} if isinstance(value, list) else set()


def assert_witnesses(found: list[Change], accepting: Any, refusing: Any) -> None:
    assert found
    assert {change.severity for change in found} == {Severity.BREAKING}
    for change in found:
        assert change.witness is not None
        assert jsonschema_rs.is_valid(accepting, change.witness.value), json.dumps(change.witness.value)
        assert not jsonschema_rs.is_valid(refusing, change.witness.value), json.dumps(change.witness.value)


DIALECTS: Final = ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema")


def test_a_reference_beside_which_other_words_count_now_is_breaking() -> None:
    schema = {**an_object(**MANY, a={"$ref": "#/definitions/A", "minLength": 5}), "definitions": {"A": TEXT}}
    old, new = ({**schema, "$schema": dialect} for dialect in DIALECTS)
    assert [change.kind.id for change in bad_changes(old, new, "arguments")] == ["arguments/range-narrowed"]


def test_a_word_that_another_dialect_reads_otherwise_is_undecided() -> None:
    schema = an_object(**MANY, a={"type": "object", "dependentRequired": {"b": ["c"]}})
    old, new = ({**schema, "$schema": dialect} for dialect in DIALECTS)
    assert [change.severity for change in bad_changes(old, new, "arguments")] == [Severity.UNKNOWN]
    assert bad_changes({**an_object(a=TEXT), "$schema": DIALECTS[0]}, an_object(a=TEXT), "arguments") == []
