"""Shapes: what is wrong with the params and results of a message, by the official types and what those cannot see.

`problems` never raises, quotes no value of the traffic, and takes bounded time: of a body whose arrays and maps have
more than `ELEMENTS` items in all only the first are looked at, and at most `MOST` problems of a message are told.

Two passes. The first is ours: it follows the declarations of mcp-types as they were in the revision, and finds what
those types take although no schema does: null for an optional member, scalars of another type, URIs and base64 that
are none, kinds of content that came later. Nearly all bodies are proved flawless by it, in a quarter of the time that
the types take. The second is the types themselves. They know two shapes of the protocol only, one an era, so what they
refuse in a member that the revision has not is no problem: there it is an extra member.

mcp-types takes half a second to load, so it is loaded for the second pass only: a capture without such a problem is
checked in half the time.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from analysis.conversation.message import MISSING
from analysis.protocol.revisions import MODERN
from analysis.shapes.declarations import Body, Part, body_of, form_of
from analysis.shapes.forms import (
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
    name_of,
    pointer_of,
)


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
    body = body_of(part, method, rank, value, request_params)
    if body is None:
        return []
    if value is MISSING and part != "result":
        return _absent(body)
    if not isinstance(value, dict):
        return []  # the envelope's matter
    found = _problems(body, value, at)
    if rank >= MODERN and part == "result" and found and "resultType" not in value:
        # An older server answers without it, and owes nothing that only this revision asks for.
        older = body_of(part, method, MODERN - 1, value, request_params)
        known = {one.pointer for one in _problems(older, value, at)} if older is not None else None
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
    body = body_of(part, method, rank, None)
    if body is None:
        return None
    form = form_of(body)
    proves = form.sparing("_meta", known).proves if known and isinstance(form, Object) else form.proves
    if part != "result":
        return proves
    return lambda value: "inputRequests" not in value and "task" not in value and proves(value)


def _absent(body: Body) -> list[Problem]:
    form = form_of(body)
    needs = sorted(form.required) if isinstance(form, Object) else ["message"]
    if not needs or "_meta" in needs:
        return []
    return [Problem("/params", f"params are missing: it needs {', '.join(needs)}")]


def _problems(body: Body, value: dict[str, Any], at: str) -> list[Problem]:
    form = form_of(body)
    if form.proves(value):
        return []
    look = Look(at)
    form.look(value, None, look)
    if look.left < 0 or look.has_json:
        value = form.cut(value, Budget())
    try:
        _validator(body)(value, by_name=False)
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
def _validator(body: Body) -> Callable[..., object]:
    from analysis.shapes.official import validator

    return validator(body)


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
