"""Types built from declarations judge as those of mcp-types do, from which the declarations come."""

from collections import defaultdict
from typing import Any

from orjson import JSONDecodeError, loads
from pydantic import TypeAdapter

from analysis.protocol.revisions import FIRST_MODERN_RANK, REVISIONS
from analysis.shapes.body_table import Body, Part, body_of, is_known_to_mcp_types
from analysis.shapes.declared_types import declared_type
from analysis.shapes.mcp_types_adapter import validator
from analysis.shapes.revision_changes import CHANGES
from tests.analysis.traces import corpus


def values() -> dict[tuple[Part, str], list[Any]]:
    """All params and results in the corpus, by part and method."""
    found: dict[tuple[Part, str], list[Any]] = defaultdict(list)
    for _, case in corpus():
        methods: dict[str, str] = {}
        for frame in case.members["frames"]:
            try:
                message = loads(frame.get("raw", ""))
            except JSONDecodeError:
                continue
            if not isinstance(message, dict):
                continue
            method, id_ = message.get("method"), str(message.get("id"))
            if isinstance(method, str):
                methods[id_] = method
                part: Part = "notification" if method.startswith("notifications/") else "params"
                found[part, method].append(message.get("params"))
            elif id_ in methods:
                found["result", methods[id_]].append(message.get("result"))
    return found


def refusals(validate: Any, value: object) -> set[tuple[Any, str]]:
    """The places that a type refuses, with the reasons."""
    try:
        validate(value, by_name=False)
    except ValueError as error:
        told: Any = error
        places = {(place["loc"], place["type"]) for place in told.errors(include_context=False, include_input=False)}
        return {place for place in places if place[1] != "too_long"}  # a separate rule limits the values
    return set()


def test_declared_types_refuse_what_the_types_of_mcp_types_refuse() -> None:
    judged: list[set[tuple[Any, str]]] = []
    for (part, method), bodies in values().items():
        body: Body | None = body_of(part, method, FIRST_MODERN_RANK, {})
        if body is None:
            continue
        declared, official = TypeAdapter(declared_type(body)).validator.validate_python, validator(body)
        for value in bodies:
            refused = refusals(official, value)
            assert refusals(declared, value) == refused, (body, value)
            judged.append(refused)
    assert sum(map(bool, judged)) > 100
    assert len(judged) > 1000


def test_only_revisions_that_mcp_types_does_not_know_have_changes() -> None:
    assert [version for version in CHANGES if is_known_to_mcp_types(REVISIONS.index(version))] == []
