"""Validates the params and results of messages, by the official types and by checks that the types lack.

`problems` never raises, quotes no value from the traffic, and takes bounded time: if the arrays and maps of a body have
more than `ELEMENTS` items in all, only the first are examined, and at most `MAX_PROBLEMS` problems of a message are
reported.

There are two passes. The first pass follows the declarations of mcp-types as they were in the revision. It finds values
that those types accept although no schema does: null for an optional member, scalars of another type, invalid URIs and
base64, kinds of content from later revisions. It proves nearly all bodies valid, in a quarter of the time that the
types take. The second pass uses the types themselves. They have only two shapes of the protocol, one per era. If they
refuse a member that the revision does not have, that is not a problem: in that revision, it is an extra member.

mcp-types takes half a second to load, so it is loaded only for the second pass; a capture that does not need it is
checked in half the time.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from analysis.conversation.message import MISSING
from analysis.protocol.result_types import COMPLETE, INTERIM_MEMBER
from analysis.protocol.revisions import FIRST_MODERN_RANK
from analysis.shapes.body_table import TASK_METHODS, TASKS_RANK, Body, Part, body_of, shape_of
from analysis.shapes.shape import (
    MAX_PROBLEMS,
    Alternatives,
    BodyPath,
    ItemBudget,
    Json,
    List,
    Map,
    Member,
    Object,
    Problem,
    ProblemCollector,
    Scalar,
    Shape,
    name_of,
    pointer_of,
)


def problems(part: Part, method: str, rank: int, value: object, request_params: object = None) -> list[Problem]:
    """The problems in a body.

    Args:
        part: which part it is; for a notification, its params.
        method: the method of the request or notification.
        rank: the rank of the revision that the body is checked against.
        value: the params or the result, or MISSING.
        request_params: the params of the request that a result answers.

    Returns:
        The problems in the order of the body; none for methods that the revision does not have.
    """
    body_name = "result" if part == "result" else "params"
    body = body_of(part, method, rank, value, request_params)
    if body is None:
        return []
    if value is MISSING and part != "result":
        return _absence_problems(body)
    if not isinstance(value, dict):
        return []  # the rules about the envelope report it
    body_problems = _problems(body, value, body_name)
    if rank >= FIRST_MODERN_RANK and part == "result" and body_problems and "resultType" not in value:
        # An older server answers without it, and need not meet requirements that are new in this revision.
        older_body = body_of(part, method, FIRST_MODERN_RANK - 1, value, request_params)
        older_pointers = (
            {problem.pointer for problem in _problems(older_body, value, body_name)} if older_body is not None else None
        )
        body_problems = [
            problem for problem in body_problems if older_pointers is None or problem.pointer in older_pointers
        ]
    return body_problems


def usual_proof(
    part: Part, method: str, rank: int, valid_members: frozenset[str] = frozenset()
) -> Callable[[Any], bool] | None:
    """A quick proof that `problems` would find nothing in the body of a request, notification or usual result.

    Returns None if the body has no shape.

    Args:
        part: as in `problems`, like `method` and `rank`.
        method: the method of the message.
        rank: the rank of the revision.
        valid_members: members of `_meta` known to be valid.
    """
    body = body_of(part, method, rank, None)
    if body is None:
        return None
    shape = shape_of(body)
    fits = (
        shape.without_checks("_meta", valid_members).certainly_fits
        if valid_members and isinstance(shape, Object)
        else shape.certainly_fits
    )
    if part != "result":
        return fits
    if rank >= FIRST_MODERN_RANK:
        return lambda value: (
            INTERIM_MEMBER not in value and value.get("resultType", COMPLETE) == COMPLETE and fits(value)
        )
    if rank == TASKS_RANK and method in TASK_METHODS:
        return lambda value: "task" not in value and fits(value)
    return fits


def may_be_absent(part: Part, method: str, rank: int) -> bool:
    """Whether `problems` finds nothing in a request or notification without params."""
    body = body_of(part, method, rank, MISSING)
    return part != "result" and (body is None or not _absence_problems(body))


def _absence_problems(body: Body) -> list[Problem]:
    shape = shape_of(body)
    required_names = sorted(shape.required) if isinstance(shape, Object) else ["message"]
    if not required_names or "_meta" in required_names:
        return []
    return [Problem("/params", f"params are missing: it needs {', '.join(required_names)}")]


def _problems(body: Body, value: dict[str, Any], body_name: str) -> list[Problem]:
    shape = shape_of(body)
    if shape.certainly_fits(value):
        return []
    collector = ProblemCollector(body_name)
    shape.collect_problems(value, None, collector)
    if collector.remaining_items < 0 or collector.has_json:
        value = shape.declared_part(value, ItemBudget())
    try:
        _validator(body)(value, by_name=False)
    except ValueError as error:  # pydantic's error is one
        if len(collector.problems) < MAX_PROBLEMS:
            return [*collector.problems, *_refusals(error, shape, value, collector)][:MAX_PROBLEMS]
    except RecursionError:
        pass
    return collector.problems


# ---- the official types


def _refusals(error: Any, shape: "Shape", value: object, collector: "ProblemCollector") -> Iterator[Problem]:
    """Yields the problems in members that the revision has and the era's types refuse, one per new place."""
    if not hasattr(error, "errors"):
        return
    reported_pointers = {problem.pointer for problem in collector.problems}
    for refusal in error.errors(include_input=False, include_url=False, include_context=False):
        path_and_text = _place(shape, value, refusal["loc"], refusal["type"])
        if path_and_text is None:
            continue
        path, text = path_and_text
        pointer = pointer_of(collector.body_name, path)
        if pointer not in reported_pointers:
            reported_pointers.add(pointer)
            yield Problem(pointer, text)
        if len(reported_pointers) > MAX_PROBLEMS:
            return


@cache
def _validator(body: Body) -> Callable[..., object]:
    from analysis.shapes.mcp_types_adapter import validator

    return validator(body)


def _place(shape: "Shape", value: Any, loc: tuple[str | int, ...], type_: str) -> tuple[BodyPath, str] | None:
    """Returns the place and text of a refusal, or None if it concerns another arm or a member of another revision."""
    cursor = _LocationCursor(shape, value)
    if not all(cursor.step(step) for step in loc):
        return None
    if cursor.member is not None and cursor.member.is_reported_by_rules:
        return None
    if type_ == "missing":
        are_both_missing = cursor.owner == "TextResourceContents" and name_of(cursor.path) == "text"
        return (
            cursor.path,
            "text and blob are both missing" if are_both_missing else f"{name_of(cursor.path)} is missing",
        )
    if cursor.shape is None or isinstance(cursor.shape, Alternatives | Json):
        return None  # anything is allowed there, or the first pass has reported it
    if isinstance(cursor.shape, Scalar) and type(cursor.value) in cursor.shape.exact and type_ not in _RANGE_ERRORS:
        return None  # of the right type, but beyond a limit of Python: a lone surrogate, a huge number
    text = _problem_text(cursor.path, cursor.shape, type_)
    return None if text is None else (cursor.path, text)


class _LocationCursor:
    """Follows a pydantic location in a body: names and indexes, with the arms of unions between them."""

    def __init__(self, shape: "Shape", value: Any) -> None:
        self.shape: Shape | None = shape
        self.value = value
        self.path: BodyPath = None
        self.member: Member | None = None
        self.owner = ""
        """The type that declares the member."""

    def step(self, step: str | int) -> bool:
        """Follow one step; return whether there is such a place, in the intended arm."""
        shape, value = self.shape, self.value
        if isinstance(shape, Alternatives):
            self.shape = shape.arm_for(value)
            return self.shape is not None and self.shape.matches_location(step)
        if isinstance(shape, Scalar):
            return True  # the name of a possible type
        if isinstance(shape, Object):
            self.member, self.owner = shape.members.get(str(step)), shape.name
            if self.member is None:
                return False
            self.shape = self.member.shape
        elif isinstance(shape, List | Map):
            self.shape = shape.item
        else:
            return False
        if isinstance(value, list):
            self.value = value[step] if isinstance(step, int) else MISSING
        else:
            self.value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
        self.path = (self.path, step)
        return True


_PYTHON_LIMITS: Final = frozenset({"finite_number", "int_parsing_size"})
"""Refusals caused by limits of Python."""
_RANGE_ERRORS: Final = frozenset({"greater_than_equal", "less_than_equal"})


def _problem_text(path: BodyPath, shape: "Shape", type_: str) -> str | None:
    name = name_of(path)
    if type_ in _PYTHON_LIMITS or (type_ == "too_long" and name == "values"):
        return None  # a separate rule limits the values of a completion
    return f"{name} is out of its range" if type_ in _RANGE_ERRORS else f"{name} should be {shape.words}"
