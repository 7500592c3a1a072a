"""The official types of mcp-types, and the type of each body.

They judge what the shapes cannot prove (`validation.py`), and the shapes are generated from their declarations:

    python -m analysis.shapes.mcp_types_adapter analysis/shapes/body_table.json

regenerates the file. Importing this module takes half a second.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import orjson
from mcp_types import methods
from pydantic import Field, TypeAdapter, create_model

from analysis.protocol.result_types import INTERIM, INTERIM_RESULT_METHODS
from analysis.protocol.revisions import FIRST_MODERN_RANK, REVISIONS
from analysis.shapes.body_table import TASKS_RANK, Body, Part, is_known_to_mcp_types
from analysis.shapes.declared_types import declared_type
from analysis.shapes.revision_changes import Declaration

_KNOWN_REVISIONS: Final = [
    version for version in REVISIONS if any(key[1] == version for key in methods.CLIENT_REQUESTS)
]
"""The revisions that mcp-types knows: all up to one."""


def validator(body: Body) -> Callable[..., object]:
    """Returns a function that raises ValueError, with pydantic's `errors()`, for a value that the types refuse."""
    type_ = type_of(body) if is_known_to_mcp_types(body.rank) else declared_type(body)
    return TypeAdapter(type_).validator.validate_python


@cache
def type_of(body: Body) -> Any:
    """Returns the type of a body, or None if the revision has no such method or no such response."""
    if body.part != "result":
        return _params_type(body.part, body.method, body.rank)
    if body.rank >= FIRST_MODERN_RANK:
        return _modern_result_type(body)
    if body.answer == "task":
        return _task_types()["result", "task"] if body.rank == TASKS_RANK else None
    return _handshake_result_type(body.method, body.rank) if body.answer == "complete" else None


def _params_type(part: Part, method: str, rank: int) -> Any:
    maps = (
        (methods.CLIENT_NOTIFICATIONS, methods.SERVER_NOTIFICATIONS)
        if part == "notification"
        else (methods.CLIENT_REQUESTS, methods.SERVER_REQUESTS)
    )
    for models in maps:
        model = models.get((method, REVISIONS[rank]))
        if model is not None:
            arms = _arms(model.model_fields["params"].annotation)
            if method == "elicitation/create" and rank < TASKS_RANK:
                return next(arm for arm in arms if arm.__name__ == "ElicitRequestFormParams")
            return arms[0] if len(arms) == 1 else Union[tuple(arms)]  # noqa: UP007 - of a computed tuple
    return _task_types().get((part, method)) if rank == TASKS_RANK else None


def _modern_result_type(body: Body) -> Any:
    arms = _arms(methods.SERVER_RESULTS.get((body.method, REVISIONS[body.rank])))
    if len(arms) < 2:
        return arms[0] if arms and body.answer == "complete" else None
    is_interim = body.answer == INTERIM
    return next((arm for arm in arms if (arm.__name__ == "InputRequiredResult") is is_interim), None)


def _handshake_result_type(method: str, rank: int) -> Any:
    key = method, REVISIONS[rank]
    task_result = _task_types().get(("result", method)) if rank == TASKS_RANK else None
    return methods.SERVER_RESULTS.get(key) or methods.CLIENT_RESULTS.get(key) or task_result


@cache
def _task_types() -> dict[tuple[str, str], Any]:
    """The types of tasks in 2025-11-25, which mcp-types leaves out."""
    make: Any = create_model
    status = Literal["working", "input_required", "completed", "failed", "cancelled"]
    meta = {"meta": (dict[str, Any] | None, Field(default=None, alias="_meta"))}
    task = {
        "taskId": (str, ...),
        "status": (status, ...),
        "statusMessage": (str | None, None),
        "createdAt": (str, ...),
        "lastUpdatedAt": (str, ...),
        "ttl": (int | None, ...),
        "pollInterval": (int | None, None),
    }
    task_type: Any = make("Task", **task)
    by_id = make("TaskParams", taskId=(str, ...), **meta)
    state = make("TaskState", **task, **meta)
    list_params = make("ListTasksParams", cursor=(str | None, None), **meta)
    task_list = make("ListTasksResult", tasks=(list[task_type], ...), nextCursor=(str | None, None), **meta)
    return {
        ("params", "tasks/get"): by_id,
        ("params", "tasks/result"): by_id,
        ("params", "tasks/cancel"): by_id,
        ("params", "tasks/list"): list_params,
        ("result", "tasks/get"): state,
        ("result", "tasks/cancel"): state,
        ("result", "tasks/list"): task_list,
        ("result", "task"): make("CreateTaskResult", task=(task_type, ...), **meta),
        ("notification", "notifications/tasks/status"): state,
    }


# ---- the table


def table() -> dict[str, Any]:
    """The content of `body_table.json`: each body's declaration per revision, and the objects they name."""
    objects: dict[str, dict[str, Any]] = {}
    types_by_key: dict[str, Any] = {}
    bodies: dict[str, list[Declaration | None]] = {}
    for body in _bodies():
        type_ = type_of(body)
        if type_ is not None:
            row = bodies.setdefault(body.row, [None] * len(_KNOWN_REVISIONS))
            row[body.rank] = _declaration(
                type_, "modern" if body.rank >= FIRST_MODERN_RANK else "handshake", objects, types_by_key
            )
    return {
        "mcp-types": version("mcp-types"),
        "revisions": _KNOWN_REVISIONS,
        "bodies": dict(sorted(bodies.items())),
        "objects": dict(sorted(objects.items())),
    }


def _bodies() -> list[Body]:
    names: dict[Part, set[str]] = {
        "params": {method for method, _ in (*methods.CLIENT_REQUESTS, *methods.SERVER_REQUESTS)},
        "notification": {method for method, _ in (*methods.CLIENT_NOTIFICATIONS, *methods.SERVER_NOTIFICATIONS)},
        "result": {method for method, _ in (*methods.SERVER_RESULTS, *methods.CLIENT_RESULTS)},
    }
    names["params"] |= {method for part, method in _task_types() if part == "params"}
    names["notification"] |= {method for part, method in _task_types() if part == "notification"}
    names["result"] |= {method for part, method in _task_types() if part == "result" and method != "task"}
    ranks = range(len(_KNOWN_REVISIONS))
    bodies = [Body(part, method, rank) for part, methods in names.items() for method in methods for rank in ranks]
    bodies += [
        Body("result", method, rank, INTERIM) for method in INTERIM_RESULT_METHODS for rank in ranks[FIRST_MODERN_RANK:]
    ]
    return bodies + [Body("result", method, TASKS_RANK, "task") for method in names["result"]]


_WORDS: Final[dict[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean", Any: "any"}


def _arms(annotation: Any) -> list[Any]:
    """The types that an annotation allows, except null."""
    if annotation is None:
        return []
    if get_origin(annotation) in (Union, UnionType):
        return [arm for arm in get_args(annotation) if arm is not type(None)]
    return [annotation]


def _allows_null(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and type(None) in get_args(annotation)


def _declaration(
    annotation: Any, era: str, objects: dict[str, dict[str, Any]], types_by_key: dict[str, Any]
) -> Declaration:
    arms = _arms(annotation)
    if Any in arms:
        return "any"
    if len(arms) > 1:
        return {"any of": [_declaration(arm, era, objects, types_by_key) for arm in arms]}
    (arm,) = arms
    origin = get_origin(arm)
    if origin is Literal:
        return {"choice": [*get_args(arm)]}
    if arm in _WORDS:
        return _WORDS[arm]
    if origin is list:
        return {"array": _declaration(get_args(arm)[0], era, objects, types_by_key)}
    if origin is dict:
        return {"map": _declaration(get_args(arm)[1], era, objects, types_by_key)}
    if not hasattr(arm, "model_fields"):
        return "json"
    key = f"{era}/{arm.__name__}"
    if types_by_key.setdefault(key, arm) is not arm:
        raise ValueError(f"two types are called {key}")
    if key not in objects:
        objects[key] = members = {}
        for name, field in arm.model_fields.items():
            members[field.alias or name] = {
                "is": _declaration(field.annotation, era, objects, types_by_key),
                **({"required": True} if field.is_required() else {}),
                **({"nullable": True} if field.is_required() and _allows_null(field.annotation) else {}),
                **_range(field.metadata),
            }
    return key


def _range(metadata: list[Any]) -> dict[str, float]:
    """The least and greatest number that a declaration allows; a separate rule checks the length of lists."""
    lows = [bound.ge for bound in metadata if hasattr(bound, "ge")]
    highs = [bound.le for bound in metadata if hasattr(bound, "le")]
    return {**({"least": max(lows)} if lows else {}), **({"most": min(highs)} if highs else {})}


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(orjson.dumps(table(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
