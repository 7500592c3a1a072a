"""Members of JSON objects on both sides: whether they are the same, and the words for how they changed."""

from typing import Any, Final

from analysis.comparison.canonical import canonical_json
from analysis.comparison.change import ABSENT
from analysis.protocol.json_pointer import encode_step

MAX_STEP_CHARS: Final = 200
"""The most characters of the name of a member in a pointer."""


def is_same(before: Any, after: Any) -> bool:
    """Whether both sides have the same JSON value, or both have none (`ABSENT`)."""
    if before is ABSENT or after is ABSENT:
        return before is after
    return canonical_json(before) == canonical_json(after)


def is_object_or_absent(value: Any) -> bool:
    """Whether a value is an object, or there is none."""
    return value is ABSENT or isinstance(value, dict)


def members_of(value: Any) -> dict[str, Any]:
    """Returns the members of an object; none if the value is something else."""
    return value if isinstance(value, dict) else {}


def changed_members(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Returns the members that differ, sorted by name, each with its values; `ABSENT` stands for none."""
    pairs = ((name, old.get(name, ABSENT), new.get(name, ABSENT)) for name in sorted({*old, *new}))
    return [(name, before, after) for name, before, after in pairs if not is_same(before, after)]


def how_changed(what: str, before: Any, after: Any, verb: str = "changed") -> str:
    """Returns what happened to a member: that it was added or removed, or changed in the way of `verb`."""
    if before is ABSENT:
        return f"{what} was added"
    return f"{what} was removed" if after is ABSENT else f"{what} {verb}"


def step_to(name: str) -> str:
    """Returns the step of a pointer to a member, with its slash. Untrusted text, truncated."""
    return f"/{encode_step(name, MAX_STEP_CHARS)}"
