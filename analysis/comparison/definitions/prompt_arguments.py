"""Judges the arguments of a prompt, which have names and no schemas."""

from collections.abc import Iterator
from typing import Any

from analysis.comparison.change import ABSENT, Change
from analysis.comparison.kinds import definitions as kinds
from analysis.comparison.members import changed_members, how_changed, members_of
from analysis.comparison.requests import bounded

_POINTER = "/arguments"


def argument_changes(subject: str, before: Any, after: Any) -> Iterator[Change]:
    """Yields the changes of a prompt's arguments. Their order does not count.

    Args:
        subject: `Change.subject`.
        before: the list of arguments on the old side; `ABSENT` if there is none.
        after: the list on the new side.
    """
    old, new = _by_name(before), _by_name(after)
    if old is None or new is None:
        message = how_changed("the member 'arguments'", before, after)
        yield Change(kinds.MEMBER, subject, message, _POINTER, before, after)
        return
    for name in sorted({*old, *new}):
        argument, quoted = f"the argument {bounded(name)!r}", bounded(name)
        if name not in new:
            message = f"{argument} was removed"
            yield Change(kinds.PROMPT_ARGUMENT_REMOVED, subject, message, _POINTER, before=old[name])
        elif name in old:
            yield from _argument_changes(subject, argument, old[name], new[name])
        elif _is_required(new[name]):
            message = f"{argument} was added and is required"
            yield Change(kinds.PROMPT_ARGUMENT_REQUIRED, subject, message, _POINTER, after=new[name])
        else:
            message = f"the optional argument {quoted!r} was added"
            yield Change(kinds.PROMPT_ARGUMENT_ADDED, subject, message, _POINTER, after=new[name])


def _argument_changes(subject: str, argument: str, old: Any, new: Any) -> Iterator[Change]:
    for name, before, after in changed_members(members_of(old), members_of(new)):
        if name == "required":
            was, now = _is_required(old), _is_required(new)
            if was != now and now:
                message = f"{argument} is required now"
                yield Change(kinds.PROMPT_ARGUMENT_REQUIRED, subject, message, _POINTER, before, after)
            elif was != now:
                message = f"{argument} is no longer required"
                yield Change(kinds.PROMPT_ARGUMENT_OPTIONAL, subject, message, _POINTER, before, after)
            continue
        kind = {"description": kinds.DESCRIPTION, "title": kinds.TITLE}.get(name, kinds.MEMBER)
        what = f"the {name if kind is not kinds.MEMBER else f'member {bounded(name)!r}'} of {argument}"
        verb = "was reworded" if kind is kinds.DESCRIPTION else "changed"
        yield Change(kind, subject, how_changed(what, before, after, verb), _POINTER, before, after)


def _by_name(arguments: Any) -> dict[str, Any] | None:
    """Returns the arguments by name, or None if they are not a list of objects with different names."""
    if arguments is ABSENT:
        return {}
    if not isinstance(arguments, list):
        return None
    by_name = {
        argument["name"]: argument
        for argument in arguments
        if isinstance(argument, dict) and isinstance(argument.get("name"), str)
    }
    return by_name if len(by_name) == len(arguments) else None


def _is_required(argument: Any) -> bool:
    return members_of(argument).get("required") is True
