"""Shapes: what is wrong with the params and results of a message, by the official types and what those cannot see.

`problems` never raises, quotes no value of the traffic, and takes bounded time: of a body whose arrays and maps have
more than `ELEMENTS` items in all only the first are looked at, and at most `MOST` problems of a message are told.

Two passes. The first is ours: it follows the declarations of mcp-types as they were in the revision, and finds what
those types take although no schema does: null for an optional member, scalars of another type, URIs and base64 that
are none, kinds of content that came later. The second is the types themselves. They know two shapes of the protocol
only, one an era, so what they refuse in a member that the revision has not is no problem: there it is an extra member.

mcp-types takes a third of a second to load, so it is loaded at the first message that is looked at.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from analysis.message import MISSING
from analysis.revisions import MODERN, REVISIONS
from analysis.session import CLIENT_CAPABILITIES, PROTOCOL_VERSION

ELEMENTS: Final = 10_000
"""Items of arrays and maps that are looked at in one body."""
MOST: Final = 20
"""Problems told of one message."""

Part: TypeAlias = Literal["params", "result", "notification"]
Kind: TypeAlias = Literal["shape", "null", "scalar", "uri", "resource-uri", "base64", "both"]
Path: TypeAlias = "tuple[Any, str | int] | None"
"""A place: the one around it, and the member or item. Made at every step down, so it must be cheap."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    pointer: str
    """Where, in the message: a JSON Pointer."""
    text: str
    """What, in words without values."""
    kind: Kind = "shape"
    """Which rule it is for; `shape` is what does not fit the schema."""


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


def _absent(arm: Any, rank: int) -> list[Problem]:
    form = _form(arm, rank)
    needs = sorted(form.required) if isinstance(form, _Object) else ["message"]
    if not needs or "_meta" in needs:
        return []
    return [Problem("/params", f"params are missing: it needs {', '.join(needs)}")]


def _problems(arm: Any, rank: int, value: dict[str, Any], at: str) -> list[Problem]:
    form, validate = _judge(arm, rank)
    look = _Look(at)
    form.look(value, None, look)
    if look.left < 0 or look.has_json:
        value = form.cut(value, _Budget())
    try:
        validate(value, by_name=False)
    except ValueError as error:  # that of pydantic is one
        if len(look.found) < MOST:
            return [*look.found, *_refused(error, form, value, look)][:MOST]
    except RecursionError:
        pass
    return look.found


# ---- the official types


def _refused(error: Any, form: "_Form", value: object, look: "_Look") -> Iterator[Problem]:
    """What the types of the era refuse of what the revision has; one problem for each place that is not told of yet."""
    if not hasattr(error, "errors"):
        return
    told = {one.pointer for one in look.found}
    for refusal in error.errors(include_input=False, include_url=False, include_context=False):
        place = _place(form, value, refusal["loc"], refusal["type"])
        if place is None:
            continue
        path, text = place
        pointer = _pointer(look.at, path)
        if pointer not in told:
            told.add(pointer)
            yield Problem(pointer, text)
        if len(told) > MOST:
            return


@cache
def _judge(arm: Any, rank: int) -> "tuple[_Form, Callable[..., object]]":
    """What either pass goes by."""
    from pydantic import TypeAdapter

    return _form(arm, rank), TypeAdapter(arm).validator.validate_python


def _place(form: "_Form", value: Any, loc: tuple[str | int, ...], type_: str) -> tuple[Path, str] | None:
    """Where a refusal belongs, and its text; None where it is about another arm, or nothing that the revision has."""
    at = _At(form, value)
    if not all(at.step(step) for step in loc):
        return None
    if at.member is not None and at.member.is_elsewhere:
        return None
    if type_ == "missing":
        both = at.owner == "TextResourceContents" and _name(at.path) == "text"
        return at.path, "text and blob are both missing" if both else f"{_name(at.path)} is missing"
    if at.form is None or isinstance(at.form, _Union | _Json):
        return None  # anything goes there, or the first pass has told of it
    if isinstance(at.form, _Scalar) and type(at.value) in at.form.exact and type_ not in _RANGES:
        return None  # of the right type, and refused for a limit of Python's: half a surrogate pair, a huge number
    text = _text(at.path, at.form, type_)
    return None if text is None else (at.path, text)


class _At:
    """A place that a location of pydantic leads to: names and numbers, and between them the arms of unions."""

    def __init__(self, form: "_Form", value: Any) -> None:
        self.form: _Form | None = form
        self.value = value
        self.path: Path = None
        self.member: _Member | None = None
        self.owner = ""
        """The type that declares the member."""

    def step(self, step: str | int) -> bool:
        """Go on; whether there is such a place, in the arm that is meant."""
        form, value = self.form, self.value
        if isinstance(form, _Union):
            self.form = form.pick(value)
            return self.form is not None and self.form.is_meant(step)
        if isinstance(form, _Scalar):
            return True  # the name of a type that it might have been
        if isinstance(form, _Object):
            self.member, self.owner = form.members.get(str(step)), form.name
            if self.member is None:
                return False
            self.form = self.member.form
        elif isinstance(form, _List | _Map):
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


def _text(path: Path, form: "_Form", type_: str) -> str | None:
    name = _name(path)
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
            arms = _arms(model.model_fields["params"].annotation)
            if method == "elicitation/create" and rank < _RANK["2025-11-25"]:
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
        return _modern_result(method, kind) if kind in ("complete", "input_required") else None
    if _has_tasks(rank):
        asked = request_params.get("task") if isinstance(request_params, dict) else None
        if isinstance(asked, dict) and method in _TASK_METHODS and "task" in body:
            return _tasks()["result", "task"]
    return _handshake_result(method, rank)


@cache
def _modern_result(method: str, kind: str) -> Any:
    from mcp_types import methods

    arms = _arms(methods.SERVER_RESULTS.get((method, _version(MODERN))))
    if len(arms) < 2:
        return arms[0] if arms else None
    return next(arm for arm in arms if (arm.__name__ == "InputRequiredResult") is (kind == "input_required"))


@cache
def _handshake_result(method: str, rank: int) -> Any:
    from mcp_types import methods

    key = method, _version(rank)
    own = _tasks().get(("result", method)) if _has_tasks(rank) else None
    return methods.SERVER_RESULTS.get(key) or methods.CLIENT_RESULTS.get(key) or own


def _arms(annotation: Any) -> list[Any]:
    """The types that an annotation admits, null left out."""
    if annotation is None:
        return []
    if get_origin(annotation) in (Union, UnionType):
        return [arm for arm in get_args(annotation) if arm is not type(None)]
    return [annotation]


_RANK: Final = {version: rank for rank, version in enumerate(REVISIONS)}
_TASK_METHODS: Final = frozenset({"tools/call", "sampling/createMessage", "elicitation/create"})


def _has_tasks(rank: int) -> bool:
    return rank == _RANK["2025-11-25"]


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


# ---- what the revisions have


def _since(version: str, **members: str) -> dict[tuple[str, str], int]:
    return {(name, member): _RANK[version] for name, all_ in members.items() for member in all_.split()}


MEMBERS_SINCE: Final = {
    **_since(
        "2025-03-26",
        ProgressNotificationParams="message",
        ServerCapabilities="completions",
        Tool="annotations",
    ),
    **_since(
        "2025-06-18",
        Annotations="lastModified",
        AudioContent="_meta",
        BlobResourceContents="_meta",
        CallToolResult="structuredContent",
        ClientCapabilities="elicitation",
        CompleteRequestParams="context",
        EmbeddedResource="_meta",
        ImageContent="_meta",
        Implementation="title",
        Prompt="_meta title",
        PromptArgument="title",
        PromptReference="title",
        Resource="_meta title",
        ResourceTemplate="_meta title",
        Root="_meta",
        TextContent="_meta",
        TextResourceContents="_meta",
        Tool="_meta outputSchema title",
    ),
    **_since(
        "2025-11-25",
        CallToolRequestParams="task",
        ClientCapabilities="tasks",
        CreateMessageRequestParams="task tools toolChoice",
        ElicitRequestFormParams="mode task",
        Elicitation="form url",
        Implementation="description icons websiteUrl",
        InputSchema="$schema",
        OutputSchema="$schema",
        Prompt="icons",
        RequestedSchema="$schema",
        Resource="icons",
        ResourceLink="icons",
        ResourceTemplate="icons",
        Sampling="context tools",
        SamplingMessage="_meta",
        ServerCapabilities="tasks",
        Tool="execution icons",
    ),
}
"""Members that the handshake era got on its way, by the type of mcp-types: the rank of their first revision."""

_TYPES_SINCE: Final = {
    "AudioContent": _RANK["2025-03-26"],
    "ResourceLink": _RANK["2025-06-18"],
    "ToolUseContent": _RANK["2025-11-25"],
    "ToolResultContent": _RANK["2025-11-25"],
}
_LISTS_SINCE: Final = _RANK["2025-11-25"]
"""Since when the content of sampling may be an array."""

_ANYTHING: Final = frozenset(
    {
        *(("Meta", "progressToken"), ("RequestMetaObject", "progressToken")),
        *(("ClientCapabilities", "extensions"), ("ServerCapabilities", "extensions")),
    }
)
"""Members that rules of their own judge, at all depths."""
_NULLABLE: Final = frozenset({("TaskMetadata", "ttl")})
"""Optional members for which null is a value, whatever the schema says."""
_REQUIRED: Final = frozenset({("CancelledNotificationParams", "requestId")})
"""What the pages require and the types of the era do not."""
_ELSEWHERE: Final = frozenset({"_meta", "resultType", PROTOCOL_VERSION, CLIENT_CAPABILITIES})
"""Members of the modern envelope: rules of their own tell where they are missing or of another type."""

_URIS: Final = frozenset(
    {("Root", "uri"), ("Implementation", "websiteUrl"), ("Icon", "src"), ("ElicitRequestURLParams", "url")}
)
_RESOURCES: Final = frozenset(
    {
        *("Resource", "ResourceLink", "TextResourceContents", "BlobResourceContents", "ReadResourceRequestParams"),
        *("SubscribeRequestParams", "UnsubscribeRequestParams", "ResourceUpdatedNotificationParams"),
    }
)
_BASE64: Final = frozenset({("BlobResourceContents", "blob"), ("ImageContent", "data"), ("AudioContent", "data")})


def _format(name: str, member: str) -> Kind | None:
    if (name, member) in _BASE64:
        return "base64"
    if member == "uri" and name in _RESOURCES:
        return "resource-uri"
    return "uri" if (name, member) in _URIS else None


# ---- the first pass


class _Look:
    """What the first pass has found, and how far it may still go."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.left = ELEMENTS
        self.has_json = False
        """Whether there is JSON of any depth in a place that the types descend into."""
        self.found: list[Problem] = []

    def tell(self, path: Path, text: str, kind: Kind) -> None:
        """Something is wrong at a place."""
        if len(self.found) < MOST:
            self.found.append(Problem(_pointer(self.at, path), text, kind))


class _Budget:
    """How many items a copy may still have."""

    def __init__(self) -> None:
        self.left = ELEMENTS


class _Form:
    """What a value should be. A place where anything goes has None."""

    words = "something else"

    def look(self, value: Any, path: Path, look: _Look) -> None:
        """The first pass over a value."""

    def cut(self, value: Any, _budget: _Budget) -> Any:
        """The declared part of a value, up to a number of items."""
        return value

    def is_meant(self, _step: str | int) -> bool:
        """Whether mcp-types means this arm of a union by a step of a location."""
        return False


class _Scalar(_Form):
    def __init__(self, types: frozenset[type], format_: Kind | None = None) -> None:
        self.types, self.format = types, format_
        self.exact = frozenset({*types, int}) if float in types else types
        self.words = _listed([_WORDS[type_] for type_ in _WORDS if type_ in types - {int if float in types else None}])

    def look(self, value: Any, path: Path, look: _Look) -> None:
        type_ = type(value)
        if type_ in self.exact:
            if self.format is not None and type_ is str:
                text = _wrong_base64(value) if self.format == "base64" else _wrong_uri(value)
                if text is not None:
                    look.tell(path, f"{_name(path)} {text}", self.format)
        elif _is_lax(value, type_, self.types):
            look.tell(path, f"{_name(path)} is {_WORDS.get(type_, 'a number')} and should be {self.words}", "scalar")

    def is_meant(self, step: str | int) -> bool:
        return isinstance(step, str) and not step.startswith(("list[", "dict["))


class _Choice(_Form):
    """One of some constants."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = frozenset(value for value in values if isinstance(value, str))
        self.words = _listed([f'"{value}"' for value in values])


class _Json(_Form):
    """Any JSON, of which mcp-types looks at every level: it gets null instead."""

    def look(self, value: Any, _path: Path, look: _Look) -> None:
        look.has_json = look.has_json or isinstance(value, dict | list)

    def cut(self, _value: Any, _budget: _Budget) -> Any:
        return None


class _List(_Form):
    words = "an array"

    def __init__(self, item: _Form | None) -> None:
        self.item = item

    def look(self, value: Any, path: Path, look: _Look) -> None:
        if not isinstance(value, list):
            return
        if self.item is None:
            look.left -= len(value)
            return
        for index, one in enumerate(value):
            look.left -= 1
            if look.left < 0:
                return
            self.item.look(one, (path, index), look)

    def cut(self, value: Any, budget: _Budget) -> Any:
        if not isinstance(value, list):
            return value
        kept = []
        for one in value:
            if budget.left <= 0:
                break
            budget.left -= 1
            kept.append(one if self.item is None else self.item.cut(one, budget))
        return kept

    def is_meant(self, step: str | int) -> bool:
        return isinstance(step, str) and step.startswith("list[")


class _Map(_Form):
    words = "an object"

    def __init__(self, item: _Form | None) -> None:
        self.item = item

    def look(self, value: Any, path: Path, look: _Look) -> None:
        if self.item is None or not isinstance(value, dict):
            return
        for name, one in value.items():
            look.left -= 1
            if look.left < 0:
                return
            self.item.look(one, (path, name), look)

    def cut(self, value: Any, budget: _Budget) -> Any:
        if self.item is None or not isinstance(value, dict):
            return value
        kept = {}
        for name, one in value.items():
            if budget.left <= 0:
                break
            budget.left -= 1
            kept[name] = self.item.cut(one, budget)
        return kept

    def is_meant(self, step: str | int) -> bool:
        return isinstance(step, str) and step.startswith("dict[")


class _Member(NamedTuple):
    form: _Form | None
    is_optional: bool
    """Whether it may be absent, and null is not one of its values."""
    is_elsewhere: bool
    """Whether rules of their own tell that it is missing."""
    is_plain: bool
    """Whether the first pass has nothing to look at."""


class _Object(_Form):
    words = "an object"

    def __init__(self, name: str, members: dict[str, _Member], required: frozenset[str]) -> None:
        self.name, self.members, self.required = name, members, required
        self.ours = tuple(member for member in required if (name, member) in _REQUIRED)

    def likeness(self, value: dict[str, Any]) -> float:
        """How much of what this requires a value has, from 0 to 1."""
        return sum(name in value for name in self.required) / (len(self.required) or 1)

    def look(self, value: Any, path: Path, look: _Look) -> None:
        if not isinstance(value, dict):
            return
        members = self.members
        for name, inner in value.items():
            member = members.get(name)
            if member is None:
                continue
            if inner is None:
                if member.is_optional:
                    look.tell((path, name), f"{name} is null: leave it out", "null")
                elif isinstance(member.form, _Union):
                    member.form.look(None, (path, name), look)
            elif not member.is_plain and member.form is not None:
                member.form.look(inner, (path, name), look)
        for name in self.ours:
            if value.get(name) is None:
                look.tell((path, name), f"{name} is missing", "shape")

    def cut(self, value: Any, budget: _Budget) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: value[name] if member.form is None else member.form.cut(value[name], budget)
            for name, member in self.members.items()
            if name in value
        }

    def is_meant(self, step: str | int) -> bool:
        return step == self.name


class _Union(_Form):
    """One of several; which, is told by a member with a constant, else by what is there."""

    def __init__(self, arms: list[_Form]) -> None:
        self.objects = [arm for arm in arms if isinstance(arm, _Object)]
        self.map = next((arm for arm in arms if isinstance(arm, _Map)), None)
        self.list = next((arm for arm in arms if isinstance(arm, _List)), None)
        self.scalar = next((arm for arm in arms if isinstance(arm, _Scalar)), None)
        self.tag = next((tag for tag in ("type", "method", "mode") if self._tells(tag)), None)
        self.untagged = next((arm for arm in self.objects if self.tag not in arm.required), None)
        self.tagged = {value: arm for arm in self.objects for value in self._constants(arm)}
        self.has_both = any(arm.name == "TextResourceContents" for arm in self.objects)
        self.words = _listed([*dict.fromkeys(arm.words for arm in arms)])

    def _tells(self, tag: str) -> bool:
        forms = [arm.members[tag].form if tag in arm.members else None for arm in self.objects]
        return bool(forms) and all(isinstance(form, _Choice) for form in forms)

    def _constants(self, arm: _Object) -> frozenset[str]:
        form = arm.members[self.tag].form if self.tag is not None else None
        return form.values if isinstance(form, _Choice) else frozenset()

    def pick(self, value: Any) -> _Form | None:
        """The arm that a value is meant to be; None where it fits none."""
        if isinstance(value, list):
            return self.list
        if not isinstance(value, dict):
            return self.scalar
        if not self.objects:
            return self.map
        if self.tag is None:
            return max(self.objects, key=lambda arm: arm.likeness(value))
        tag = value.get(self.tag, MISSING)
        if tag is MISSING:
            return self.untagged
        return self.tagged.get(tag) if isinstance(tag, str) else None

    def look(self, value: Any, path: Path, look: _Look) -> None:
        arm = self.pick(value)
        if arm is not None:
            arm.look(value, path, look)
            if self.has_both and value.get("text") is not None and value.get("blob") is not None:
                look.tell(path, "a content has both text and blob", "both")
        elif not isinstance(value, dict) or self.tag is None:
            look.tell(path, f"{_name(path)} should be {self.words}", "shape")
        elif self.tag in value:
            known = _listed([f'"{one}"' for one in self.tagged])
            look.tell((path, self.tag), f"{self.tag} should be {known}", "shape")
        else:
            look.tell((path, self.tag), f"{self.tag} is missing", "shape")

    def cut(self, value: Any, budget: _Budget) -> Any:
        arm = self.pick(value)
        return None if arm is None else arm.cut(value, budget)


# ---- forms from declarations


@cache
def _form(arm: Any, rank: int) -> _Form:
    form = _of(arm, rank, None)
    return form if form is not None else _Object("", {}, frozenset())


def _of(annotation: Any, rank: int, format_: Kind | None) -> _Form | None:
    """What an annotation declares; None where anything goes."""
    arms = _arms(annotation)
    if Any in arms:
        return None
    if len(arms) > 1:
        return _of_arms(arms, rank)
    (arm,) = arms
    origin = get_origin(arm)
    if origin is Literal:
        return _Choice(get_args(arm))
    if arm in _WORDS:
        return _Scalar(frozenset({arm}), format_)
    if origin is list:
        return _List(_of(get_args(arm)[0], rank, None))
    if origin is dict:
        return _Map(_of(get_args(arm)[1], rank, None))
    return _object(arm, rank) if hasattr(arm, "model_fields") else _Json()


def _of_arms(arms: list[Any], rank: int) -> _Form | None:
    scalars = frozenset(arm for arm in arms if arm in _WORDS)
    forms: list[_Form] = [_Scalar(scalars)] if scalars else []
    has_objects = any(hasattr(arm, "model_fields") for arm in arms)
    for arm in arms:
        is_early = rank < _LISTS_SINCE and has_objects and get_origin(arm) is list
        if arm in scalars or is_early or rank < _TYPES_SINCE.get(getattr(arm, "__name__", ""), 0):
            continue
        form = _of(arm, rank, None)
        if form is not None:
            forms.append(form)
    return forms[0] if len(forms) == 1 and scalars else _Union(forms)


def _object(model: Any, rank: int) -> _Form:
    name, members, required = model.__name__, {}, set[str]()
    for field_name, field in model.model_fields.items():
        member = field.alias or field_name
        key = name, member
        if rank < MEMBERS_SINCE.get(key, 0):
            continue
        must = field.is_required() or (key in _REQUIRED and rank < MODERN)
        form = None if key in _ANYTHING else _of(field.annotation, rank, _format(name, member))
        is_nullable = form is None or isinstance(form, _Json) or key in _NULLABLE
        is_elsewhere = (
            rank >= MODERN and must and member in _ELSEWHERE and (member != "_meta" or name.endswith("Params"))
        )
        is_plain = isinstance(form, _Choice) or (isinstance(form, _Scalar) and form.types == {str} and not form.format)
        members[member] = _Member(form, not must and not is_nullable, is_elsewhere, is_plain)
        if must:
            required.add(member)
    return _Object(name, members, frozenset(required))


# ---- words and scalars

_WORDS: Final[dict[Any, str]] = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}
_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?\s*", re.ASCII).fullmatch
_BOOLEANS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0"})
_LONGEST_NUMBER: Final = 100
_LONGEST_STEP: Final = 60


def _is_lax(value: Any, type_: type, wanted: frozenset[type]) -> bool:
    """Whether a lenient parser takes a scalar for one of another type."""
    wants_number = int in wanted or float in wanted
    if type_ is bool:
        return wants_number
    if type_ is str:
        if len(value) > _LONGEST_NUMBER:
            return False
        return (wants_number and _NUMBER(value) is not None) or (bool in wanted and value.lower() in _BOOLEANS)
    return isinstance(value, int | float) and bool in wanted and value in (0, 1)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII).match
_OUTSIDE: Final = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]|%(?![0-9A-Fa-f]{2})", re.ASCII).search


def _wrong_uri(value: str) -> str | None:
    if _SCHEME(value) is None:
        return "is no absolute URI: it has no scheme"
    return None if _OUTSIDE(value) is None else "is no URI: it has characters that are to be percent-encoded"


_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _wrong_base64(value: str) -> str | None:
    raw = value.encode("utf-8", "surrogatepass")
    if not raw:
        return None
    rest = raw.translate(None, _ALPHABET)
    if rest == raw[len(raw) - len(rest) :] and rest in (b"", b"=", b"=="):
        return None if len(raw) % 4 == 0 else "is base64 of a wrong length"
    odd = set(rest) - {0x3D}
    if odd and odd <= set(b" \t\r\n"):
        return "is base64 with white space in it"
    if odd and odd <= set(b"-_"):
        return "is base64 in the alphabet for URLs"
    return "is not base64"


def _listed(words: list[str]) -> str:
    *rest, last = words or ["something else"]
    return f"{', '.join(rest)} or {last}" if rest else str(last)


def _name(path: Path) -> str:
    """What stands at a place, in a word: the name of the member, where a schema gave it."""
    if path is None:
        return "the body"
    step = path[1]
    return step if isinstance(step, str) and len(step) <= _LONGEST_STEP else "an item"


def _steps(path: Path) -> Iterator[str]:
    while path is not None:
        path, step = path
        text = str(step)
        if len(text) > _LONGEST_STEP:
            text = f"{text[: _LONGEST_STEP - 1]}…"
        yield text.replace("~", "~0").replace("/", "~1")


def _pointer(at: str, path: Path) -> str:
    return "/".join(["", at, *reversed([*_steps(path)])])
