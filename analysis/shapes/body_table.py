"""The bodies that the protocol defines, and the shape of each in a revision.

They are stored in `body_table.json`, which `make body-table` generates from mcp-types (`mcp_types_adapter.py`): loading
those types takes half a second, loading the table a millisecond. Revisions that mcp-types does not know follow from it
by their changes (`revision_changes.py`).
"""

from collections.abc import Mapping
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

import orjson

from analysis.protocol.features import CORE_TASKS
from analysis.protocol.result_types import COMPLETE, INTERIM, INTERIM_MEMBER, RESULT_TYPES, is_defined
from analysis.protocol.revisions import FIRST_MODERN_RANK, NEWEST_RANK, REVISIONS
from analysis.shapes.extension_table import extension_objects
from analysis.shapes.revision_changes import CHANGES, Declaration, MemberDeclaration, RevisionChanges
from analysis.shapes.shape import Alternatives, Choice, Json, List, Map, Member, Object, Scalar, Shape
from analysis.shapes.since import (
    ALSO_REQUIRED_MEMBERS,
    ENVELOPE_MEMBERS,
    LIST_CONTENT_SINCE,
    MEMBERS_SINCE,
    NULLABLE_MEMBERS,
    TYPES_SINCE,
    UNCHECKED_MEMBERS,
    Kind,
    format_of,
)

TABLE_FILE: Final = Path(__file__).with_name("body_table.json")

Part: TypeAlias = Literal["params", "result", "notification"]
AnswerKind: TypeAlias = str
"""The kind of result, if the protocol has several: a value of `resultType`, or `task` in the handshake era."""


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


TASKS_RANK: Final = CORE_TASKS.first
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
        if body.get(INTERIM_MEMBER) is not None and RESULT_TYPES[INTERIM].may_answer(method, rank):
            return INTERIM
        kind = body.get("resultType", COMPLETE)
        kind = kind if isinstance(kind, str) else COMPLETE
        return kind if is_defined(kind, rank) else None
    if rank == TASKS_RANK:
        task = request_params.get("task") if isinstance(request_params, dict) else None
        if isinstance(task, dict) and method in TASK_METHODS and "task" in body:
            return "task"
    return "complete"


@cache
def shape_of(body: Body) -> Shape:
    """The shape of a body in its revision."""
    shape = _shape(declaration_of(body), body.rank)
    assert shape is not None, "no body is declared as any"
    return shape


def object_shape(key: str) -> Shape:
    """The shape of an object of the newest revision or of an extension, by its key."""
    return _object(key, NEWEST_RANK)


@cache
def _table() -> dict[str, Any]:
    return cast("dict[str, Any]", orjson.loads(TABLE_FILE.read_bytes()))


def is_known_to_mcp_types(rank: int) -> bool:
    """Whether mcp-types has types for a revision."""
    return rank < _known_count()


def declaration_of(body: Body) -> Declaration:
    """The declaration of a body that exists."""
    return _bodies()[body]


@cache
def members_of(type_key: str, rank: int) -> dict[str, MemberDeclaration]:
    """The members of a type in a revision, by name; also those that only a newer revision of mcp-types has."""
    members = dict(_table()["objects"].get(type_key, {}))
    for changes in _changes_until(rank):
        members = _changed(members, changes.types.get(type_key, {}))
    return members


@cache
def _known_count() -> int:
    return len(_table()["revisions"])


def _changes_until(rank: int) -> list[RevisionChanges]:
    """The changes of the revisions that mcp-types does not know, up to one of them, oldest first."""
    return [CHANGES[version] for version in REVISIONS[_known_count() : rank + 1] if version in CHANGES]


_Value = TypeVar("_Value")


def _changed(rows: Mapping[str, _Value], changes: Mapping[str, _Value | None]) -> dict[str, _Value]:
    """Returns rows after changes; None removes a row."""
    return {name: value for name, value in {**rows, **changes}.items() if value is not None}


@cache
def _bodies() -> dict[Body, Declaration]:
    """The declaration of each body."""
    bodies: dict[Body, Declaration] = {}
    for rank in range(len(REVISIONS)):
        for row, declaration in _rows_of(rank).items():
            part, method, answer = row.split()
            bodies[Body(cast("Part", part), method, rank, answer)] = declaration
    return bodies


def _rows_of(rank: int) -> dict[str, Declaration]:
    known_rank = min(rank, _known_count() - 1)
    rows: dict[str, Declaration] = _changed({}, {row: kinds[known_rank] for row, kinds in _table()["bodies"].items()})
    for changes in _changes_until(rank):
        rows = _changed(rows, changes.bodies)
    return rows


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


def _declared_members(type_key: str, rank: int) -> Mapping[str, Any]:
    """The members of a type of an extension, or of a revision."""
    objects = extension_objects(type_key.partition("/")[0])
    return cast("dict[str, Any]", objects[type_key]) if objects else members_of(type_key, rank)


@cache
def _object(type_key: str, rank: int) -> Shape:
    name, members, required = _name(type_key), {}, set[str]()
    for member, declaration in _declared_members(type_key, rank).items():
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
