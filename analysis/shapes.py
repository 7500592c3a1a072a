"""Shapes: what is wrong with the params and results of a message, by the official types and what those cannot see.

`problems` never raises, quotes no value of the traffic, and takes bounded time: of a body whose arrays and maps have
more than `ELEMENTS` items in all only the first are looked at, and at most `MOST` problems of a message are told.

Two passes. The first is ours: it follows the declarations of mcp-types as they were in the revision, and finds what
those types take although no schema does: null for an optional member, scalars of another type, URIs and base64 that
are none, kinds of content that came later. Nearly all bodies are proved flawless by it, in a quarter of the time that
the types take. The second is the types themselves. They know two shapes of the protocol only, one an era, so what they
refuse in a member that the revision has not is no problem: there it is an extra member.

mcp-types takes a third of a second to load, so it is loaded at the first message that is looked at.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, Literal, TypeAlias, Union

from analysis.declared import RANK
from analysis.forms import (
    MOST,
    Alternatives,
    Budget,
    Form,
    Json,
    List,
    Look,
    Map,
    Member,
    Object,
    Path,
    Problem,
    Scalar,
    arms_of,
    form_of,
    name_of,
    pointer_of,
)
from analysis.message import MISSING
from analysis.revisions import MODERN, REVISIONS

Part: TypeAlias = Literal["params", "result", "notification"]


def problems(part: Part, method: str, rank: int, value: object, request_params: object = None) -> list[Problem]:
    """What is wrong with a body.

    Args:
        part: what it is; of a notification, its params.
        method: of the request or notification.
        rank: of the revision that it is checked against.
        value: the params or the result, or MISSING.
        request_params: those of the request that a result answers.

    Returns:
        The problems in the order of the body; nothing for methods that the revision has not.
    """
    at = "result" if part == "result" else "params"
    arm = _result_arm(method, rank, value, request_params) if part == "result" else _params_arm(part, method, rank)
    if arm is None:
        return []
    if value is MISSING and part != "result":
        return _absent(arm, rank)
    if not isinstance(value, dict):
        return []  # the envelope's matter
    found = _problems(arm, rank, value, at)
    if rank >= MODERN and part == "result" and found and "resultType" not in value:
        # An older server answers without it, and owes nothing that only this revision asks for.
        older = _result_arm(method, MODERN - 1, value, request_params)
        known = {one.pointer for one in _problems(older, MODERN - 1, value, at)} if older is not None else None
        found = [one for one in found if known is None or one.pointer in known]
    return found


def usual_proof(
    part: Part, method: str, rank: int, known: frozenset[str] = frozenset()
) -> Callable[[Any], bool] | None:
    """What proves quickly that `problems` has nothing to say of the body of a request, notification or usual result.

    None where there is no shape.

    Args:
        part: as `problems` has it, and so are the others.
        method: of the message.
        rank: of the revision.
        known: members of `_meta` that are right.
    """
    arm = _result_arm(method, rank, None, None) if part == "result" else _params_arm(part, method, rank)
    if arm is None:
        return None
    form = form_of(arm, rank)
    proves = form.sparing("_meta", known).proves if known and isinstance(form, Object) else form.proves
    if part != "result":
        return proves
    return lambda value: "inputRequests" not in value and "task" not in value and proves(value)


def _absent(arm: Any, rank: int) -> list[Problem]:
    form = form_of(arm, rank)
    needs = sorted(form.required) if isinstance(form, Object) else ["message"]
    if not needs or "_meta" in needs:
        return []
    return [Problem("/params", f"params are missing: it needs {', '.join(needs)}")]


def _problems(arm: Any, rank: int, value: dict[str, Any], at: str) -> list[Problem]:
    form, validate = _judge(arm, rank)
    if form.proves(value):
        return []
    look = Look(at)
    form.look(value, None, look)
    if look.left < 0 or look.has_json:
        value = form.cut(value, Budget())
    try:
        validate(value, by_name=False)
    except ValueError as error:  # that of pydantic is one
        if len(look.found) < MOST:
            return [*look.found, *_refused(error, form, value, look)][:MOST]
    except RecursionError:
        pass
    return look.found


# ---- the official types


def _refused(error: Any, form: "Form", value: object, look: "Look") -> Iterator[Problem]:
    """What the types of the era refuse of what the revision has; one problem for each place that is not told of yet."""
    if not hasattr(error, "errors"):
        return
    told = {one.pointer for one in look.found}
    for refusal in error.errors(include_input=False, include_url=False, include_context=False):
        place = _place(form, value, refusal["loc"], refusal["type"])
        if place is None:
            continue
        path, text = place
        pointer = pointer_of(look.at, path)
        if pointer not in told:
            told.add(pointer)
            yield Problem(pointer, text)
        if len(told) > MOST:
            return


@cache
def _judge(arm: Any, rank: int) -> "tuple[Form, Callable[..., object]]":
    """What either pass goes by."""
    from pydantic import TypeAdapter

    return form_of(arm, rank), TypeAdapter(arm).validator.validate_python


def _place(form: "Form", value: Any, loc: tuple[str | int, ...], type_: str) -> tuple[Path, str] | None:
    """Where a refusal belongs, and its text; None where it is about another arm, or nothing that the revision has."""
    at = _At(form, value)
    if not all(at.step(step) for step in loc):
        return None
    if at.member is not None and at.member.is_elsewhere:
        return None
    if type_ == "missing":
        both = at.owner == "TextResourceContents" and name_of(at.path) == "text"
        return at.path, "text and blob are both missing" if both else f"{name_of(at.path)} is missing"
    if at.form is None or isinstance(at.form, Alternatives | Json):
        return None  # anything goes there, or the first pass has told of it
    if isinstance(at.form, Scalar) and type(at.value) in at.form.exact and type_ not in _RANGES:
        return None  # of the right type, and refused for a limit of Python's: half a surrogate pair, a huge number
    text = _text(at.path, at.form, type_)
    return None if text is None else (at.path, text)


class _At:
    """A place that a location of pydantic leads to: names and numbers, and between them the arms of unions."""

    def __init__(self, form: "Form", value: Any) -> None:
        self.form: Form | None = form
        self.value = value
        self.path: Path = None
        self.member: Member | None = None
        self.owner = ""
        """The type that declares the member."""

    def step(self, step: str | int) -> bool:
        """Go on; whether there is such a place, in the arm that is meant."""
        form, value = self.form, self.value
        if isinstance(form, Alternatives):
            self.form = form.pick(value)
            return self.form is not None and self.form.is_meant(step)
        if isinstance(form, Scalar):
            return True  # the name of a type that it might have been
        if isinstance(form, Object):
            self.member, self.owner = form.members.get(str(step)), form.name
            if self.member is None:
                return False
            self.form = self.member.form
        elif isinstance(form, List | Map):
            self.form = form.item
        else:
            return False
        if isinstance(value, list):
            self.value = value[step] if isinstance(step, int) else MISSING
        else:
            self.value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
        self.path = (self.path, step)
        return True


_SILENT: Final = frozenset({"finite_number", "int_parsing_size"})
"""Refusals that are about limits of Python."""
_RANGES: Final = frozenset({"greater_than_equal", "less_than_equal"})


def _text(path: Path, form: "Form", type_: str) -> str | None:
    name = name_of(path)
    if type_ in _SILENT or (type_ == "too_long" and name == "values"):
        return None  # how many values a completion may have is a rule of its own
    return f"{name} is out of its range" if type_ in _RANGES else f"{name} should be {form.words}"


# ---- which type


def _version(rank: int) -> str:
    return REVISIONS[rank]


@cache
def _params_arm(part: Part, method: str, rank: int) -> Any:
    """The type of the params of a request or notification; None where the revision has no such method."""
    from mcp_types import methods

    maps = (
        (methods.CLIENT_NOTIFICATIONS, methods.SERVER_NOTIFICATIONS)
        if part == "notification"
        else (methods.CLIENT_REQUESTS, methods.SERVER_REQUESTS)
    )
    for known in maps:
        model = known.get((method, _version(rank)))
        if model is not None:
            arms = arms_of(model.model_fields["params"].annotation)
            if method == "elicitation/create" and rank < RANK["2025-11-25"]:
                return next(arm for arm in arms if arm.__name__ == "ElicitRequestFormParams")
            return arms[0] if len(arms) == 1 else Union[tuple(arms)]  # noqa: UP007 - of a computed tuple
    return _tasks().get(("notification" if part == "notification" else "params", method)) if _has_tasks(rank) else None


def _result_arm(method: str, rank: int, value: object, request_params: object) -> Any:
    """The type that a result should be of; None where that is not known."""
    body = value if isinstance(value, dict) else {}
    if rank >= MODERN:
        kind = body.get("resultType", "complete")
        if not isinstance(kind, str):
            kind = "complete"
        if body.get("inputRequests") is not None and method in INTERIM:
            kind = "input_required"  # it is meant so, whatever it says
        return _modern_result(method, kind) if kind in ("complete", "input_required") else None
    if _has_tasks(rank):
        asked = request_params.get("task") if isinstance(request_params, dict) else None
        if isinstance(asked, dict) and method in _TASK_METHODS and "task" in body:
            return _tasks()["result", "task"]
    return _handshake_result(method, rank)


@cache
def _modern_result(method: str, kind: str) -> Any:
    from mcp_types import methods

    arms = arms_of(methods.SERVER_RESULTS.get((method, _version(MODERN))))
    if len(arms) < 2:
        return arms[0] if arms and kind == "complete" else None
    return next(arm for arm in arms if (arm.__name__ == "InputRequiredResult") is (kind == "input_required"))


@cache
def _handshake_result(method: str, rank: int) -> Any:
    from mcp_types import methods

    key = method, _version(rank)
    own = _tasks().get(("result", method)) if _has_tasks(rank) else None
    return methods.SERVER_RESULTS.get(key) or methods.CLIENT_RESULTS.get(key) or own


INTERIM: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that an interim result may answer (2026-07-28)."""
_TASK_METHODS: Final = frozenset({"tools/call", "sampling/createMessage", "elicitation/create"})


def _has_tasks(rank: int) -> bool:
    return rank == RANK["2025-11-25"]


@cache
def _tasks() -> dict[tuple[str, str], Any]:
    """The types of tasks in 2025-11-25, which mcp-types leaves out."""
    from pydantic import Field, create_model

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
    one: Any = make("Task", **task)
    named = make("TaskParams", taskId=(str, ...), **meta)
    state = make("TaskState", **task, **meta)
    page = make("ListTasksParams", cursor=(str | None, None), **meta)
    listed = make("ListTasksResult", tasks=(list[one], ...), nextCursor=(str | None, None), **meta)
    return {
        ("params", "tasks/get"): named,
        ("params", "tasks/result"): named,
        ("params", "tasks/cancel"): named,
        ("params", "tasks/list"): page,
        ("result", "tasks/get"): state,
        ("result", "tasks/cancel"): state,
        ("result", "tasks/list"): listed,
        ("result", "task"): make("CreateTaskResult", task=(one, ...), **meta),
        ("notification", "notifications/tasks/status"): state,
    }
