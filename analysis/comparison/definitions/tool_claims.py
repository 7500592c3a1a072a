"""Judges what a tool says about its behaviour: its annotations, and whether it can be called as a task."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.comparison.change import ABSENT, Change
from analysis.comparison.kinds import definitions as kinds
from analysis.comparison.members import changed_members, how_changed, is_object_or_absent, members_of, step_to
from analysis.comparison.requests import bounded


class _Hint(NamedTuple):
    harmless: bool
    """The value that says that the tool is harmless."""
    default: bool
    """The value if it is absent."""
    claim: str


_HINTS: Final = {
    "readOnlyHint": _Hint(harmless=True, default=False, claim="only reads"),
    "destructiveHint": _Hint(harmless=False, default=True, claim="destroys nothing"),
    "idempotentHint": _Hint(harmless=True, default=False, claim="has no further effect when it is repeated"),
    "openWorldHint": _Hint(harmless=False, default=True, claim="stays within a closed world"),
}
_TASK_SUPPORT: Final = ("forbidden", "optional", "required")


def annotation_changes(subject: str, before: Any, after: Any) -> Iterator[Change]:
    """Yields the changes of a tool's annotations.

    Args:
        subject: `Change.subject`.
        before: the annotations on the old side; `ABSENT` if there are none.
        after: the annotations on the new side.
    """
    if not is_object_or_absent(before) or not is_object_or_absent(after):
        message = how_changed("the member 'annotations'", before, after)
        yield Change(kinds.MEMBER, subject, message, "/annotations", before, after)
        if not isinstance(before, dict) and not isinstance(after, dict):
            return
    for name, old, new in changed_members(members_of(before), members_of(after)):
        pointer, hint = f"/annotations{step_to(name)}", _HINTS.get(name)
        if hint is not None:
            was, now = _effective(old, hint), _effective(new, hint)
            if was != now and was == hint.harmless:
                message = f"the tool no longer says that it {hint.claim}"
                yield Change(kinds.ANNOTATION_WEAKENED, subject, message, pointer, old, new)
            elif was != now:
                message = f"the tool now says that it {hint.claim}"
                yield Change(kinds.ANNOTATION_STRENGTHENED, subject, message, pointer, old, new)
        elif name == "title":
            yield Change(kinds.TITLE, subject, how_changed("the title", old, new), pointer, old, new)
        else:
            message = how_changed(f"the annotation {bounded(name)!r}", old, new)
            yield Change(kinds.MEMBER, subject, message, pointer, old, new)


def execution_changes(subject: str, before: Any, after: Any) -> Iterator[Change]:
    """Yields the changes of how a tool can be called; arguments as of `annotation_changes`."""
    if not is_object_or_absent(before) or not is_object_or_absent(after):
        message = how_changed("the member 'execution'", before, after)
        yield Change(kinds.MEMBER, subject, message, "/execution", before, after)
    for name, old, new in changed_members(members_of(before), members_of(after)):
        pointer = f"/execution{step_to(name)}"
        if name != "taskSupport" or new not in (ABSENT, *_TASK_SUPPORT):
            message = how_changed(f"the member {bounded(name)!r} of `execution`", old, new)
            yield Change(kinds.MEMBER, subject, message, pointer, old, new)
            continue
        was, now = _task_support(old), _task_support(new)
        if was == now:
            continue
        if now == "required":
            kind, message = kinds.TASK_REQUIRED, "the tool can be called only as a task now"
        elif now == "forbidden":
            kind, message = kinds.TASK_REFUSED, "the tool can no longer be called as a task"
        else:
            kind, message = kinds.TASK_ALLOWED, "the tool can be called with or without a task now"
        yield Change(kind, subject, message, pointer, old, new)


def _effective(value: Any, hint: _Hint) -> bool:
    return value if isinstance(value, bool) else hint.default


def _task_support(value: Any) -> str:
    return value if isinstance(value, str) and value in _TASK_SUPPORT else "forbidden"
