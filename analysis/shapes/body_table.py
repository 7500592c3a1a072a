"""The bodies that the protocol defines, and the shape of each in a revision.

They are stored in `body_table.json`, which `make body-table` generates from mcp-types (`mcp_types_adapter.py`): loading
those types takes half a second, loading the table a millisecond.
"""

from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import orjson

from analysis.protocol.revisions import FIRST_MODERN_RANK, NEWEST_RANK
from analysis.shapes.extension_table import extension_objects
from analysis.shapes.shape import Alternatives, Choice, Json, List, Map, Member, Object, Scalar, Shape
from analysis.shapes.since import (
    ALSO_REQUIRED_MEMBERS,
    ENVELOPE_MEMBERS,
    LIST_CONTENT_SINCE,
    MEMBERS_SINCE,
    NULLABLE_MEMBERS,
    RANKS,
    TYPES_SINCE,
    UNCHECKED_MEMBERS,
    Kind,
    format_of,
)

TABLE_FILE: Final = Path(__file__).with_name("body_table.json")

Part: TypeAlias = Literal["params", "result", "notification"]
AnswerKind: TypeAlias = Literal["complete", "input_required", "task"]
"""The kind of result, if the protocol has several."""
Declaration: TypeAlias = str | dict[str, Any]
"""A word for a scalar, `any` or `json`; the era and name of an object; or a dict for array, map, choice or any of."""


class Body(NamedTuple):
    """One body of the protocol."""

    part: Part
    """Which part it is; for a notification, its params."""
    method: str
    """The method of the request or notification."""
    rank: int
    """The rank of the revision."""
    answer: AnswerKind = "complete"

    @property
    def row(self) -> str:
        """The key of its row in the table; a row has a declaration for each revision."""
        return f"{self.part} {self.method} {self.answer}"


INTERIM_RESULT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that an interim result may answer (2026-07-28)."""
TASKS_RANK: Final = RANKS["2025-11-25"]
"""The rank of the revision that has tasks in its core."""
TASK_METHODS: Final = frozenset({"tools/call", "sampling/createMessage", "elicitation/create"})
"""Methods whose requests may create a task in that revision."""


def body_of(part: Part, method: str, rank: int, value: object, request_params: object = None) -> Body | None:
    """Returns the body that a value should be, or None if that is unknown or the revision has no such method.

    Args:
        part: as in `Body`, like `method` and `rank`.
        method: the method of the message.
        rank: the rank of the revision.
        value: the value; a result may state its kind.
        request_params: the params of the request that a result answers.
    """
    answer = _answer_kind(method, rank, value, request_params) if part == "result" else "complete"
    if answer is None:
        return None
    body = Body(part, method, rank, answer)
    return body if body in _bodies() else None


def _answer_kind(method: str, rank: int, value: object, request_params: object) -> AnswerKind | None:
    body = value if isinstance(value, dict) else {}
    if rank >= FIRST_MODERN_RANK:
        if body.get("inputRequests") is not None and method in INTERIM_RESULT_METHODS:
            return "input_required"  # `inputRequests` decides, regardless of `resultType`
        kind = body.get("resultType", "complete")
        kind = kind if isinstance(kind, str) else "complete"
        return cast("AnswerKind", kind) if kind in ("complete", "input_required") else None
    if rank == TASKS_RANK:
        task = request_params.get("task") if isinstance(request_params, dict) else None
        if isinstance(task, dict) and method in TASK_METHODS and "task" in body:
            return "task"
    return "complete"


@cache
def shape_of(body: Body) -> Shape:
    """The shape of a body in its revision."""
    shape = _shape(_bodies()[body], body.rank)
    assert shape is not None, "no body is declared as any"
    return shape


def object_shape(key: str) -> Shape:
    """The shape of an object of the newest revision or of an extension, by its key."""
    return _object(key, NEWEST_RANK)


@cache
def _table() -> dict[str, Any]:
    return cast("dict[str, Any]", orjson.loads(TABLE_FILE.read_bytes()))


@cache
def _bodies() -> dict[Body, Declaration]:
    """The declaration of each body."""
    bodies: dict[Body, Declaration] = {}
    for row, declarations in _table()["bodies"].items():
        part, method, answer = row.split()
        for rank, declaration in enumerate(declarations):
            if declaration is not None:
                bodies[Body(part, method, rank, answer)] = declaration
    return bodies


# ---- shapes from declarations

_TYPES: Final[dict[str, type]] = {"string": str, "integer": int, "number": float, "boolean": bool}


def _shape(
    declaration: Declaration, rank: int, format_: Kind | None = None, low: float = -inf, high: float = inf
) -> Shape | None:
    """Returns the declared shape, or None if anything is allowed."""
    if isinstance(declaration, str):
        if declaration == "any":
            return None
        if "/" in declaration:
            return _object(declaration, rank)
        return Json() if declaration == "json" else Scalar(frozenset({_TYPES[declaration]}), format_, low, high)
    ((word, inner),) = declaration.items()
    if word == "any of":
        return _shape_of_arms(inner, rank)
    if word == "choice":
        return Choice(tuple(inner))
    return List(_shape(inner, rank)) if word == "array" else Map(_shape(inner, rank))


def _shape_of_arms(arms: list[Declaration], rank: int) -> Shape | None:
    scalars = frozenset(_TYPES[arm] for arm in arms if isinstance(arm, str) and arm in _TYPES)
    shapes: list[Shape] = [Scalar(scalars)] if scalars else []
    has_objects = any(isinstance(arm, str) and "/" in arm for arm in arms)
    for arm in arms:
        if isinstance(arm, str):
            is_absent = arm in _TYPES or rank < TYPES_SINCE.get(_name(arm), 0)
        else:
            is_absent = rank < LIST_CONTENT_SINCE and has_objects and "array" in arm
        shape = None if is_absent else _shape(arm, rank)
        if shape is not None:
            shapes.append(shape)
    return shapes[0] if len(shapes) == 1 and scalars else Alternatives(shapes)


def _name(key: str) -> str:
    """The name of a type, without the era in its key: most names exist in both eras."""
    return key.partition("/")[2]


def _declared_members(type_key: str) -> dict[str, Any]:
    objects = extension_objects(type_key.partition("/")[0]) or _table()["objects"]
    return cast("dict[str, Any]", objects[type_key])


@cache
def _object(type_key: str, rank: int) -> Shape:
    name, members, required = _name(type_key), {}, set[str]()
    for member, declaration in _declared_members(type_key).items():
        key = name, member
        if rank < MEMBERS_SINCE.get(key, 0):
            continue
        is_required = "required" in declaration or (key in ALSO_REQUIRED_MEMBERS and rank < FIRST_MODERN_RANK)
        low, high = declaration.get("least", -inf), declaration.get("most", inf)
        format_ = declaration.get("format") or format_of(name, member)
        shape = None if key in UNCHECKED_MEMBERS else _shape(declaration["is"], rank, format_, low, high)
        is_nullable = shape is None or isinstance(shape, Json) or key in NULLABLE_MEMBERS or "nullable" in declaration
        is_elsewhere = (
            rank >= FIRST_MODERN_RANK
            and is_required
            and member in ENVELOPE_MEMBERS
            and (member != "_meta" or name.endswith("Params"))
        )
        plain = _JSON_TYPES if shape is None else shape.certain_types
        if "nullable" in declaration:
            plain |= {type(None)}
        members[member] = Member(shape, not is_required and not is_nullable, is_elsewhere, plain)
        if is_required:
            required.add(member)
    return Object(name, members, frozenset(required))


_JSON_TYPES: Final = frozenset({str, int, float, bool, list, dict})
