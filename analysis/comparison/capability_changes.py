"""Judges the capabilities that a server declares: what is gone breaks the clients that used it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.comparison.change import ABSENT, Change
from analysis.comparison.kind import Kind
from analysis.comparison.kinds import session as kinds
from analysis.comparison.members import changed_members, is_same, members_of, step_to
from analysis.comparison.requests import bounded

MAX_FLAG_DEPTH: Final = 8
"""How many levels below a capability are compared flag by flag; deeper ones are compared as a whole."""


class _Group(NamedTuple):
    removed: Kind
    added: Kind
    what: str


_CAPABILITIES: Final = _Group(kinds.CAPABILITY_REMOVED, kinds.CAPABILITY_ADDED, "the capability")
_GROUPS: Final = {
    "extensions": _Group(kinds.EXTENSION_REMOVED, kinds.EXTENSION_ADDED, "the extension"),
    "experimental": _Group(kinds.EXPERIMENT_REMOVED, kinds.EXPERIMENT_ADDED, "the experimental capability"),
}
"""Capabilities that contain others, by name."""


def capability_changes(subject: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    """Yields the changes of a server's capabilities, without places.

    Args:
        subject: `Change.subject`.
        old: the capabilities on the old side.
        new: those on the new side.
    """
    for name, before, after in changed_members(old, new):
        pointer, group = f"/capabilities{step_to(name)}", _GROUPS.get(name)
        if group is None:
            yield from _declaration_changes(_CAPABILITIES, subject, name, pointer, before, after)
            continue
        for member, old_value, new_value in changed_members(members_of(before), members_of(after)):
            yield from _declaration_changes(group, subject, member, f"{pointer}{step_to(member)}", old_value, new_value)


def _declaration_changes(
    group: _Group, subject: str, name: str, pointer: str, before: Any, after: Any
) -> Iterator[Change]:
    """Yields the changes of one capability, extension or experimental capability."""
    what = f"{group.what} {bounded(name)!r}"
    if _is_declared(before) and _is_declared(after):
        yield from _flag_changes(subject, what, pointer, before, after, 0)
    elif _is_declared(before):
        yield Change(group.removed, subject, f"{what} is no longer declared", pointer, before, after)
    elif _is_declared(after):
        yield Change(group.added, subject, f"{what} is declared now", pointer, before, after)


def _flag_changes(subject: str, what: str, pointer: str, before: Any, after: Any, depth: int) -> Iterator[Change]:
    """Yields the changes of what a capability contains."""
    if not isinstance(before, dict) or not isinstance(after, dict) or depth == MAX_FLAG_DEPTH:
        if not is_same(before, after):
            yield Change(kinds.CAPABILITY_CHANGED, subject, f"the settings of {what} changed", pointer, before, after)
        return
    for name, old, new in changed_members(before, after):
        place = f"{pointer}{step_to(name)}"
        if _is_declared(old) and _is_declared(new):
            yield from _flag_changes(subject, what, place, old, new, depth + 1)
        elif _is_declared(old):
            is_subscribe = place == "/capabilities/resources/subscribe"
            kind = kinds.SUBSCRIPTIONS_REMOVED if is_subscribe else kinds.CAPABILITY_NARROWED
            yield Change(kind, subject, f"{bounded(name)!r} of {what} is no longer declared", place, old, new)
        elif _is_declared(new):
            message = f"{bounded(name)!r} of {what} is declared now"
            yield Change(kinds.CAPABILITY_WIDENED, subject, message, place, old, new)


def _is_declared(value: Any) -> bool:
    """Whether a capability or flag with this value is declared; false and null do not declare it."""
    return value is not ABSENT and value is not None and value is not False
