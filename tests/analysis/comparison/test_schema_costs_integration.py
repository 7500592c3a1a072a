"""Schemas that are small to write and large to compare cost bounded work, and are never clean."""

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from analysis.comparison.kind import Severity
from analysis.comparison.schemas.schema_changes import schema_changes
from analysis.comparison.schemas.witness import TryBudget

Make = Callable[[Any, int], Any]


def nested_arrays(innermost: Any, levels: int) -> Any:
    """Arrays in arrays, each of forty items or more: the smallest value has 40 to the power of the levels."""
    for _ in range(levels):
        innermost = {"type": "array", "minItems": 40, "items": innermost}
    return {"type": "object", "properties": {"a": innermost}}


def doubling(innermost: Any, levels: int) -> Any:
    """Definitions that each apply the next one twice."""
    definitions = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": {**definitions, f"d{levels}": innermost},
    }


def wide_definitions(innermost: Any, levels: int) -> Any:
    """Objects whose thirty required members have the next definition each."""
    names = [f"m{number}" for number in range(30)]
    definitions = {
        f"d{at}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{at + 1}"} for name in names},
            "required": names,
        }
        for at in range(levels)
    }
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": {**definitions, f"d{levels}": innermost},
    }


EXPONENTIAL: Final[list[tuple[Make, int]]] = [
    (nested_arrays, 5),
    (nested_arrays, 8),
    (doubling, 22),
    (doubling, 31),
    (doubling, 100),
    (wide_definitions, 8),
]
GENEROUS_S: Final = 20
"""Ten times the processor time that one pair of schemas may take."""


@pytest.mark.costly("schemas that take as much work as is allowed")
def test_schemas_that_multiply_are_judged_in_time() -> None:
    for make, levels in EXPONENTIAL:
        begun = time.process_time()
        changes = schema_changes(make({"type": "string"}, levels), make({"type": "integer"}, levels), "arguments", "t")
        assert time.process_time() - begun < GENEROUS_S, (make, levels)
        assert changes, (make, levels)
        assert all(change.severity is not Severity.NOTE for change in changes), (make, levels)


def test_a_list_of_values_that_many_members_share_is_compared_once() -> None:
    def shared(values: list[int]) -> Any:
        members = {f"p{number}": {"$ref": "#/$defs/values"} for number in range(150)}
        return {"type": "object", "properties": members, "$defs": {"values": {"enum": values}}}

    changes = schema_changes(shared(list(range(10_000))), shared(list(range(9_999))), "arguments", "t")
    assert [change.kind.id for change in changes] == ["arguments/enum-narrowed"] * 150
    assert {change.pointer for change in changes} == {f"/properties/p{number}" for number in range(150)}


def test_the_steps_of_a_comparison_are_shared_by_its_schemas() -> None:
    budget = TryBudget()
    budget.steps.left = 100
    old, new = ({"type": "object", "properties": {"a": {"type": name}}} for name in ("string", "integer"))
    kinds: list[str] = []
    for _ in range(50):
        kinds += [change.kind.id for change in schema_changes(old, new, "arguments", "t", budget=budget)]
    assert kinds[0] == "arguments/type-changed"
    assert kinds[-1] == "schema/undecided"
    assert len(kinds) == 50
