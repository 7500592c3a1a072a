"""Changes of schemas: a mutation has one kind; witnesses prove what is breaking; hostile schemas are judged in time."""

import json
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

import jsonschema_rs
import pytest

from analysis.comparison.change import ABSENT, MAX_QUOTED_CHARS
from analysis.comparison.kind import Severity
from analysis.comparison.schemas.schema_changes import SchemaRole, schema_changes
from analysis.comparison.schemas.witness import MAX_WITNESS_BYTES, NO_TIME, TryBudget
from tests.analysis.comparison.schema_pairs import REAL_TOOLS

Mutation = Callable[[Any], Any]
SEARCH: Final = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for.", "minLength": 1},
        "limit": {"type": "integer", "default": 10, "minimum": 1, "maximum": 100},
        "order": {"type": "string", "enum": ["asc", "desc"]},
        "path": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
        "filter": {"$ref": "#/$defs/filter"},
        "target": {"anyOf": [{"$ref": "#/$defs/file"}, {"$ref": "#/$defs/url"}]},
    },
    "required": ["query", "order"],
    "additionalProperties": False,
    "$defs": {
        "filter": {"type": "object", "properties": {"date": {"type": "string", "format": "date"}}},
        "file": {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
        "url": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    },
}


def within(*steps: str, **members: Any) -> Mutation:
    """Sets members of the object that some steps lead to; ABSENT removes one."""

    def mutate(schema: Any) -> None:
        for step in steps:
            schema = schema[step]
        for name, value in members.items():
            if value is ABSENT:
                del schema[name]
            else:
                schema[name] = value

    return mutate


def member(name: str, **members: Any) -> Mutation:
    return within("properties", name, **members)


NEW_ALTERNATIVE: Final = [{"$ref": "#/$defs/file"}, {"$ref": "#/$defs/url"}, {"type": "object", "required": ["id"]}]
ROLES: Final[tuple[SchemaRole, ...]] = ("arguments", "result")
B, M, N, U = Severity.BREAKING, Severity.MAY_BREAK, Severity.NOTE, Severity.UNKNOWN
MUTATIONS: Final[list[tuple[Mutation, str, Severity, str, Severity]]] = [
    # the mutation; kind and severity for arguments; for results
    (within(required=["query", "order", "path"]), "arguments/newly-required", B, "result/newly-required", N),
    (within(required=["query"]), "arguments/no-longer-required", N, "result/no-longer-required", B),
    (within("properties", limit=ABSENT), "arguments/removed", B, "result/removed", M),
    (within("properties", page={"type": "integer"}), "arguments/added", N, "result/added-to-closed", M),
    (within("$defs", "filter", "properties", tag={}), "arguments/added", N, "result/added", N),
    (within("$defs", "filter", "properties", date=ABSENT), "arguments/removed", M, "result/removed", M),
    (member("path", type="string"), "arguments/type-narrowed", B, "result/type-narrowed", N),
    (member("query", type=["string", "null"]), "arguments/type-widened", N, "result/type-widened", B),
    (member("limit", type="number"), "arguments/type-widened", N, "result/type-widened", B),
    (member("path", type=["integer", "null"]), "arguments/type-changed", B, "result/type-changed", B),
    (member("order", enum=["asc"]), "arguments/enum-narrowed", B, "result/enum-narrowed", N),
    (member("order", enum=["desc", "none", "asc"]), "arguments/enum-widened", N, "result/enum-widened", B),
    (member("order", enum=ABSENT), "arguments/enum-widened", N, "result/enum-widened", B),
    (member("path", const=None), "arguments/type-narrowed", B, "result/type-narrowed", N),
    (member("limit", maximum=50), "arguments/range-narrowed", B, "result/range-narrowed", N),
    (member("limit", maximum=ABSENT), "arguments/range-widened", N, "result/range-widened", B),
    (member("limit", multipleOf=10), "arguments/constraint-added", B, "result/constraint-added", N),
    (member("query", minLength=3), "arguments/range-narrowed", B, "result/range-narrowed", N),
    (member("query", minLength=0), "arguments/range-widened", N, "result/range-widened", B),
    (member("tags", maxItems=2), "arguments/range-narrowed", B, "result/range-narrowed", N),
    (member("tags", uniqueItems=True), "arguments/constraint-added", B, "result/constraint-added", N),
    (member("tags", items={"type": "integer"}), "arguments/type-changed", B, "result/type-changed", B),
    (within(additionalProperties=True), "arguments/opened", N, "result/opened", M),
    (within("$defs", "filter", additionalProperties=False), "arguments/closed", M, "result/closed", N),
    (member("target", anyOf=NEW_ALTERNATIVE), "arguments/alternatives-widened", N, "result/alternatives-widened", B),
    (
        member("target", anyOf=NEW_ALTERNATIVE[:1]),
        "arguments/alternatives-narrowed",
        B,
        "result/alternatives-narrowed",
        N,
    ),
    (member("query", pattern="^[a-z]+$"), "arguments/constraint-added", B, "result/constraint-added", N),
    (within("$defs", "filter", minProperties=1), "arguments/range-narrowed", B, "result/range-narrowed", N),
    (within(dependentRequired={"limit": ["path"]}), "arguments/constraint-added", B, "result/constraint-added", N),
    (member("limit", default=20), "arguments/default-changed", M, "schema/annotation-changed", N),
    (
        member("query", description="The text to look for."),
        "schema/description-changed",
        N,
        "schema/description-changed",
        N,
    ),
    (
        within("$defs", "filter", "properties", "date", format="date-time"),
        "schema/format-changed",
        N,
        "schema/format-changed",
        N,
    ),
    (member("path", deprecated=True), "schema/annotation-changed", N, "schema/annotation-changed", N),
    (member("filter", **{"$ref": "https://a.example/filter"}), "schema/undecided", U, "schema/undecided", U),
    (within(**{"$schema": "https://a.example/dialect"}), "schema/undecided", U, "schema/undecided", U),
]


def mutated(schema: Any, mutation: Mutation) -> Any:
    new = json.loads(json.dumps(schema))
    mutation(new)
    return new


def test_each_mutation_is_exactly_one_change_of_its_kind() -> None:
    assert len(MUTATIONS) >= 30
    for mutation, arguments_kind, arguments_severity, result_kind, result_severity in MUTATIONS:
        new = mutated(SEARCH, mutation)
        expected = {"arguments": (arguments_kind, arguments_severity), "result": (result_kind, result_severity)}
        for role in ROLES:
            found = schema_changes(SEARCH, new, role, "tool search", "/inputSchema")
            assert [(change.kind.id, change.severity) for change in found] == [expected[role]], found


def test_members_that_are_not_described_are_worded_for_who_sends_them() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    closed = schema | {"additionalProperties": False}
    texts = schema | {"additionalProperties": {"type": "string"}}
    for old, new, message in (
        (schema, closed, "the object of arguments no longer accepts members that it does not describe"),
        (schema, texts, "the object of arguments accepts fewer members that it does not describe"),
        (closed, schema, "the object of arguments now accepts members that it does not describe"),
        (texts, schema, "the object of arguments now accepts more members that it does not describe"),
        (closed, closed | {"properties": {}}, "argument `a` is no longer accepted"),
    ):
        (change,) = schema_changes(old, new, "arguments", "tool t")
        assert change.message == message
    (change,) = schema_changes(closed, closed | {"properties": {}}, "result", "tool t")
    assert change.message == "`a` in the result can no longer be there"


def test_a_new_argument_that_is_required_is_one_change() -> None:
    for closed in ({}, {"additionalProperties": False}):
        old: Any = {"type": "object", "properties": {"a": {}}, **closed}
        new = {**old, "properties": {"a": {}, "b": {}}, "required": ["b"]}
        found = schema_changes(old, new, "arguments", "tool t")
        assert [change.kind.id for change in found] == ["arguments/newly-required"]


MITIGATED: Final[list[tuple[Mutation, str, str]]] = [
    # the mutation, with the kind for arguments; what generators of schemas write changes nothing in practice
    (member("count", maximum=2**53 - 1), "arguments/range-narrowed", "±9007199254740991"),
    (member("count", exclusiveMaximum=2**53), "arguments/range-narrowed", "±9007199254740991"),
    (member("count", minimum=-(2**53 - 1)), "arguments/range-narrowed", "±9007199254740991"),
    (within(required=["name", "verbose"]), "arguments/newly-required", "has a default"),
    (within(required=["name", "mode"]), "arguments/newly-required", "has a default"),
]
NOT_MITIGATED: Final[list[Mutation]] = [
    member("count", maximum=2**53 - 2),
    member("count", minimum=2**53 - 1),
    member("name", maxLength=2**53 - 1, type="integer"),
    within(required=["name", "count"]),
]
GENERATED: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "verbose": {"type": "boolean", "default": False},
        "mode": {"$ref": "#/$defs/mode"},
    },
    "required": ["name"],
    "$defs": {"mode": {"enum": ["fast", "slow"], "default": "fast"}},
}


def test_what_refuses_hardly_any_value_in_practice_may_break() -> None:
    for mutation, kind, reason in MITIGATED:
        (change,) = schema_changes(GENERATED, mutated(GENERATED, mutation), "arguments", "tool search")
        assert (change.kind.id, change.severity, change.witness) == (kind, Severity.MAY_BREAK, None)
        assert reason in change.unproved
    for mutation in NOT_MITIGATED:
        found = schema_changes(GENERATED, mutated(GENERATED, mutation), "arguments", "tool search")
        assert Severity.BREAKING in {change.severity for change in found}, found


def test_a_result_whose_largest_integers_are_no_longer_excluded_may_break() -> None:
    old = mutated(GENERATED, member("count", maximum=2**53 - 1))
    (change,) = schema_changes(old, GENERATED, "result", "tool search")
    assert (change.kind.id, change.severity) == ("result/range-widened", Severity.MAY_BREAK)


def test_all_that_is_breaking_has_a_small_witness() -> None:
    for mutation, *_ in MUTATIONS:
        new = mutated(SEARCH, mutation)
        for role in ROLES:
            for change in schema_changes(SEARCH, new, role, "tool search"):
                witness = change.witness
                assert (witness is not None) is (change.severity is Severity.BREAKING), change
                if witness is None:
                    continue
                assert witness.fits_old is (role == "arguments")
                accepting, refusing = (SEARCH, new) if witness.fits_old else (new, SEARCH)
                assert jsonschema_rs.is_valid(accepting, witness.value), change
                assert not jsonschema_rs.is_valid(refusing, witness.value), change
                assert len(json.dumps(witness.value)) <= MAX_WITNESS_BYTES


def permuted(value: Any, random: Random) -> Any:
    """The schema with the members of its objects, and the lists whose order means nothing, in another order."""
    if isinstance(value, dict):
        members = [
            (name, sorted(member, key=lambda _: random.random()) if _is_set(name, member) else member)
            for name, member in value.items()
        ]
        random.shuffle(members)
        return {name: permuted(member, random) for name, member in members}
    return [permuted(item, random) for item in value] if isinstance(value, list) else value


def _is_set(name: str, member: Any) -> bool:
    return isinstance(member, list) and name in ("required", "enum", "anyOf", "oneOf", "allOf", "type", "examples")


def test_real_schemas_in_another_order_are_no_change() -> None:
    random = Random(50)
    schemas = [schema for tool in json.loads(REAL_TOOLS.read_text("utf-8")).values() for schema in tool.values()]
    assert len(schemas) > 50
    for schema in [*schemas, SEARCH]:
        for role in ROLES:
            assert schema_changes(schema, permuted(schema, random), role, "tool t") == []


def test_a_result_that_loses_its_schema_breaks() -> None:
    [change] = schema_changes(SEARCH, ABSENT, "result", "tool search", "/outputSchema")
    assert (change.kind.id, change.severity) == ("result/schema-removed", Severity.BREAKING)
    assert change.witness is not None
    assert not jsonschema_rs.is_valid(SEARCH, change.witness.value)
    [change] = schema_changes(ABSENT, SEARCH, "result", "tool search")
    assert (change.kind.id, change.severity) == ("result/schema-added", Severity.NOTE)
    assert schema_changes(ABSENT, ABSENT, "result", "tool search") == []


def test_what_the_walk_does_not_foresee_is_found_by_a_witness() -> None:
    # The same text means something else in another dialect.
    found = schema_changes(tuple_in("draft/2020-12"), tuple_in("draft-07"), "result", "tool t")
    assert [change.kind.id for change in found] == ["schema/annotation-changed", "result/widened"]
    assert found[1].witness is not None
    found = schema_changes(tuple_in("draft-07"), tuple_in("draft/2020-12"), "arguments", "tool t")
    assert [change.kind.id for change in found] == ["schema/annotation-changed", "arguments/narrowed"]


def tuple_in(dialect: str) -> Any:
    return {"$schema": f"http://json-schema.org/{dialect}/schema", "prefixItems": [{"type": "string"}]}


def test_texts_that_match_patterns_are_found() -> None:
    old = {
        "type": "object",
        "properties": {"id": {"type": "string", "pattern": "^project_[0-9]{4}$"}},
        "required": ["id"],
    }
    [change] = schema_changes(old, {**old, "required": ["id", "name"]}, "arguments", "tool t")
    assert change.severity is Severity.BREAKING
    assert change.witness is not None
    assert change.witness.value == {"id": "project_0000"}


def test_without_tries_nothing_is_breaking() -> None:
    new = mutated(SEARCH, within(required=["query", "order", "path"]))
    [change] = schema_changes(SEARCH, new, "arguments", "tool search", budget=TryBudget(0))
    assert (change.severity, change.unproved) == (Severity.MAY_BREAK, NO_TIME)


def test_patterns_that_cannot_be_decided_are_unknown() -> None:
    old, new = ({"properties": {"a": {"type": "string", "pattern": f"^(?={letter})"}}} for letter in "ab")
    for role in ROLES:
        [change] = schema_changes(old, new, role, "tool t")
        assert change.kind.id == "schema/undecided"


def test_undecided_parts_do_not_hide_other_changes() -> None:
    old = {"type": "object", "properties": {"a": {"$ref": "https://a.example/x"}, "b": {}}}
    new = {"type": "object", "properties": {"a": {"$ref": "https://a.example/y"}, "b": {}}, "required": ["b"]}
    found = schema_changes(old, new, "arguments", "tool t")
    assert sorted(change.kind.id for change in found) == ["arguments/newly-required", "schema/undecided"]
    same = {**old, "description": "text"}
    assert [change.kind.id for change in schema_changes(old, same, "arguments", "t")] == ["schema/description-changed"]


def deep(levels: int, innermost: Any) -> Any:
    for _ in range(levels):
        innermost = {"type": "object", "properties": {"a": innermost}}
    return innermost


HOSTILE: Final[list[tuple[Callable[[], Any], Callable[[], Any]]]] = [
    (lambda: 42, lambda: "text"),
    (lambda: None, list),
    (lambda: {"type": 5}, lambda: {"type": ["string", 5]}),
    (lambda: {"properties": []}, lambda: {"required": "a", "items": 3}),
    (lambda: {"required": [1, None, {}]}, lambda: {"required": ["a"]}),
    (lambda: {"enum": {}}, lambda: {"enum": [float("1e308"), 10**400, True, 1]}),
    (lambda: {"minimum": 10**400}, lambda: {"minimum": "1"}),
    (lambda: {"minimum": 10**30, "type": "integer"}, lambda: {"minimum": 10**31, "type": "integer"}),
    (lambda: {"const": "\ud800"}, lambda: {"const": "\ud801"}),
    (
        lambda: {"properties": {"\ud800": {}}},
        lambda: {"properties": {"\ud800": {"type": "null"}}, "required": ["\ud800"]},
    ),
    (lambda: {"$ref": "#"}, lambda: {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    (lambda: {"allOf": [{"$ref": "#"}]}, lambda: {"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]}),
    (lambda: {"$ref": "#/a/99999999999999999999", "a": []}, lambda: {"$ref": 5}),
    (lambda: {"$dynamicRef": "#a"}, lambda: {"$dynamicRef": "#b"}),
    (lambda: {"anyOf": [{"const": n} for n in range(5_000)]}, lambda: {"enum": list(range(1, 5_000))}),
    (lambda: {"allOf": [{"anyOf": [{"minimum": n}, {"maximum": n}]} for n in range(40)]}, lambda: {"type": "object"}),
    (lambda: {"type": "string", "minLength": 10**9}, lambda: {"type": "string", "minLength": 10**9 + 1}),
    (lambda: {"type": "array", "minItems": 10**9, "items": {"type": "null"}}, lambda: {"type": "array", "maxItems": 1}),
    (lambda: {"pattern": "(a+)+$"}, lambda: {"pattern": "(a{1,1000}){1,1000}"}),
    (lambda: {"x" * 100_000: 1, "properties": {"y" * 100_000: {}}}, lambda: {"required": ["z" * 100_000]}),
    (lambda: union("string"), lambda: union("null")),
    (lambda: deep(10_000, {}), lambda: deep(10_000, {"type": "null"})),
    (lambda: deep(240, {}), lambda: deep(240, {"type": "null"})),
    (
        lambda: {"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(30_000)}},
        lambda: {"type": "object", "properties": {f"a{n}": {"type": "null"} for n in range(30_000)}},
    ),
    (
        lambda: {"type": "object", "properties": {f"a{n}": {"enum": ["x" * 30]} for n in range(20_000)}},
        lambda: {"type": "object", "required": [f"a{n}" for n in range(20_000)]},
    ),
]


def union(value_type: str) -> Any:
    """A schema whose sixty alternatives have four hundred members each, of which one changes."""
    members = {f"a{number}": {"type": "string", "maxLength": 5} for number in range(400)}
    alternatives = [
        {"type": "object", "required": [f"b{number}"], "properties": {**members, "z": {"type": value_type}}}
        for number in range(60)
    ]
    return {"anyOf": alternatives}


@pytest.mark.costly("schemas as large and as deep as they may be")
def test_hostile_schemas_are_judged_in_time() -> None:
    for old_maker, new_maker in HOSTILE:
        old, new = old_maker(), new_maker()
        for before, after in ((old, new), (new, old)):
            for role in ROLES:
                begun = time.process_time()
                found = schema_changes(before, after, role, "tool t", "/inputSchema")
                assert time.process_time() - begun < 20, "ten times what it may take"
                assert found, "it is not clean"
                assert all(len(change.message) <= MAX_QUOTED_CHARS for change in found)


def test_equal_schemas_are_no_change_however_hostile() -> None:
    for old_maker, new_maker in HOSTILE:
        for make in (old_maker, new_maker):
            assert schema_changes(make(), make(), "arguments", "tool t") == []


def test_equal_schemas_cost_next_to_nothing() -> None:
    text = json.dumps(SEARCH)
    pairs = [(json.loads(text), json.loads(text)) for _ in range(1_000)]
    begun = time.process_time()
    for old, new in pairs:
        assert schema_changes(old, new, "arguments", "tool t") == []
    assert time.process_time() - begun < 1, "ten times what it may take"
