"""Compares two parts of schemas in the keywords that contain no schemas, and words the differences."""

from collections.abc import Iterator
from typing import Any, Final, Literal

from analysis.comparison.change import ABSENT
from analysis.comparison.schemas.schema_difference import (
    MEMBER_TEXTS,
    Difference,
    DifferenceName,
    Direction,
    Path,
    Step,
)
from analysis.comparison.schemas.schema_part import Part, is_multiple, is_tighter, json_key

_CONSTRAINT_NAMES: Final[dict[Direction, DifferenceName]] = {
    Direction.NARROWED: "constraint-added",
    Direction.WIDENED: "constraint-removed",
    Direction.CHANGED: "constraint-changed",
}


def type_differences(
    old: tuple[Part, ...], new: tuple[Part, ...], path: Path, schemas: tuple[Any, Any]
) -> Iterator[Difference]:
    """Yields which types came and went, or which values, if a type had or has only listed ones."""
    old_types, new_types = {part.type for part in old}, {part.type for part in new}
    lost = [part for part in old if part.type not in new_types]
    gained = [part for part in new if part.type not in old_types]
    # A type of which only some values were accepted is as good as those values.
    if lost and all(part.values is not None for part in lost):
        yield _enum("enum-narrowed", all_values(lost), path, schemas)
        lost = []
    if gained and all(part.values is not None for part in gained):
        yield _enum("enum-widened", all_values(gained), path, schemas)
        gained = []
    has_both = "number" in old_types & new_types
    does_narrow = bool(lost) or (has_both and _is_integer(new) and not _has_only_integers(old))
    does_widen = bool(gained) or (has_both and _is_integer(old) and not _has_only_integers(new))
    if does_narrow or does_widen:
        direction = (
            Direction.CHANGED
            if does_narrow and does_widen
            else Direction.NARROWED
            if does_narrow
            else Direction.WIDENED
        )
        names: dict[Direction, DifferenceName] = {
            Direction.CHANGED: "type-changed",
            Direction.NARROWED: "type-narrowed",
            Direction.WIDENED: "type-widened",
        }
        before, after = type_names(old), type_names(new)
        text = f"has type {_list(after)} instead of {_list(before)}"
        yield Difference(names[direction], direction, path, text, before, after, "type", schemas)


def type_names(parts: tuple[Part, ...]) -> list[str]:
    """Returns the types that alternatives accept, as JSON Schema names them."""
    names = dict.fromkeys(part.type for part in parts)
    return ["integer" if name == "number" and _is_integer(parts) else name for name in names]


def _is_integer(parts: tuple[Part, ...]) -> bool:
    """Whether the numbers that alternatives accept have the type of integers."""
    return all(part.is_integer for part in parts if part.type == "number")


def _has_only_integers(parts: tuple[Part, ...]) -> bool:
    """Whether it is certain that the numbers that alternatives accept are integers, whatever their type."""
    for part in parts:
        if part.type == "number" and not part.is_integer:
            step = part.limits.get("multipleOf", (0.5, False))[0]
            if not is_multiple(step, 1) and not all(value == value // 1 for value in part.values or (0.5,)):
                return False
    return True


def _list(names: list[str]) -> str:
    return "any" if len(names) == 6 and "integer" not in names else " or ".join(names) if names else "none"


def all_values(parts: Any) -> list[Any]:
    """Returns the listed values of all parts."""
    return [value for part in parts for value in part.values or ()]


def own_differences(old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
    """Yields what differs in the keywords that contain no schemas."""
    if old.type == "boolean":
        old, new = _with_listed_booleans(old), _with_listed_booleans(new)
    is_listed, was_listed = new.values is not None, old.values is not None
    scalar = old.type not in ("object", "array")
    if was_listed and is_listed:
        yield from value_differences(list(old.values or ()), list(new.values or ()), path, schemas)
    elif is_listed:
        yield _enum("enum-narrowed", None, path, schemas)
    elif was_listed:
        lost = [value for value in old.values or () if scalar and not new.accepts_scalar(value)]
        if lost:
            yield _enum("enum-narrowed", lost, path, schemas)
        yield _enum("enum-widened", None, path, schemas)
    if not (scalar and (was_listed or is_listed)):
        for keyword in dict.fromkeys((*old.limits, *new.limits)):
            yield from _limit_differences(keyword, old, new, path, schemas)
    if old.patterns != new.patterns:
        come, gone = sorted(new.patterns - old.patterns), sorted(old.patterns - new.patterns)
        direction = Direction.CHANGED if come and gone else Direction.NARROWED if come else Direction.WIDENED
        before, after = gone[0] if gone else ABSENT, come[0] if come else ABSENT
        yield constraint_difference(direction, "pattern", before, after, path, schemas)


def _with_listed_booleans(part: Part) -> Part:
    return part if part.values is not None else part._replace(values=(False, True))


def value_differences(old: list[Any], new: list[Any], path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
    """Yields which of the listed values came and went."""
    old_keys, new_keys = set(map(json_key, old)), set(map(json_key, new))
    lost = [value for value in old if json_key(value) not in new_keys]
    gained = [value for value in new if json_key(value) not in old_keys]
    if lost:
        yield _enum("enum-narrowed", lost, path, schemas)
    if gained:
        yield _enum("enum-widened", gained, path, schemas)


def _enum(
    name: Literal["enum-narrowed", "enum-widened"], values: list[Any] | None, path: Path, schemas: tuple[Any, Any]
) -> Difference:
    """Create the difference for values that came or went; None if others than a list came or went."""
    is_narrowed = name == "enum-narrowed"
    direction = Direction.NARROWED if is_narrowed else Direction.WIDENED
    if values is None:
        text = "accepts only listed values now" if is_narrowed else "accepts more than the listed values now"
    else:
        listed = ", ".join(quoted(value) for value in values[:_MAX_LISTED])
        more = f" and {len(values) - _MAX_LISTED} more" if len(values) > _MAX_LISTED else ""
        text = f"no longer accepts {listed}{more}" if is_narrowed else f"accepts {listed}{more} now"
    before = ABSENT if values is None or not is_narrowed else values
    after = ABSENT if values is None or is_narrowed else values
    return Difference(name, direction, path, text, before, after, "enum", schemas)


def _limit_differences(
    keyword: str, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]
) -> Iterator[Difference]:
    before, after = old.limits.get(keyword), new.limits.get(keyword)
    if before == after:
        return
    if before is None or after is None:
        direction = Direction.NARROWED if before is None else Direction.WIDENED
    elif keyword == "multipleOf":
        direction = multiple_direction(before[0], after[0])
    else:
        direction = Direction.NARROWED if is_tighter(keyword, after, before) else Direction.WIDENED
    old_value, new_value = _limit_value(keyword, before), _limit_value(keyword, after)
    text = _limit_text(keyword, before, after)
    if keyword in ("multipleOf", "uniqueItems"):
        name = _CONSTRAINT_NAMES[direction]
    else:
        name = "range-narrowed" if direction is Direction.NARROWED else "range-widened"
    yield Difference(name, direction, path, text, old_value, new_value, keyword, schemas)


def multiple_direction(old: float, new: float) -> Direction:
    """Returns what another `multipleOf` does."""
    if is_multiple(new, old):
        return Direction.NARROWED
    return Direction.WIDENED if is_multiple(old, new) else Direction.CHANGED


def _limit_value(keyword: str, limit: tuple[float, bool] | None) -> Any:
    if limit is None:
        return ABSENT
    return True if keyword == "uniqueItems" else limit[0]


def _limit_text(keyword: str, before: tuple[float, bool] | None, after: tuple[float, bool] | None) -> str:
    if after is None:
        return f"no longer has {keyword}"
    if keyword == "uniqueItems":
        return f"has {keyword} now"
    text = f"has {keyword} {quoted(after[0])}{' (exclusive)' if after[1] else ''}"
    return f"{text} now" if before is None else f"{text} instead of {quoted(before[0])}"


def constraint_difference(
    direction: Direction, keyword: str, before: Any, after: Any, path: Path, schemas: tuple[Any, Any]
) -> Difference:
    """Create the difference for a constraint that came (nothing is before), went, or changed."""
    if before is ABSENT:
        text = f"has a new constraint, `{keyword}`"
    elif after is ABSENT:
        text = f"has lost a constraint, `{keyword}`"
    else:
        text = f"has another `{keyword}`"
    return Difference(_CONSTRAINT_NAMES[direction], direction, path, text, before, after, keyword, schemas)


def removed_member(
    old: Part, new: Part, path: Path, member: str, schemas: tuple[Any, Any], *, is_excluded: bool, is_widened: bool
) -> Difference:
    """Create the difference for a member that is no longer described.

    Args:
        old: the old schema of the object.
        new: the new one.
        path: the place of the object.
        member: the member's name.
        schemas: the schemas of the object.
        is_excluded: whether the new schema does not accept the member.
        is_widened: whether it may have other values now, if it is accepted.
    """
    may_be_missing = member in old.required - new.required
    if is_excluded:
        direction = Direction.CHANGED if may_be_missing else Direction.NARROWED
        return member_difference("removed-from-closed", direction, path, member, schemas)
    is_still_required = member in old.required & new.required
    direction = Direction.WIDENED if may_be_missing or (is_still_required and is_widened) else Direction.NEITHER
    return member_difference("removed", direction, path, member, schemas)


def member_difference(
    name: DifferenceName, direction: Direction, path: Path, member: str, schemas: tuple[Any, Any]
) -> Difference:
    """Create the difference for a member that came, went, or need no longer be there."""
    return Difference(name, direction, (*path, Step("properties", member)), MEMBER_TEXTS[name], schemas=schemas)


_MAX_LISTED: Final = 3

_MAX_VALUE_CHARS: Final = 40


def quoted(value: Any) -> str:
    """Returns a value as JSON, truncated."""
    text = json_key(value)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"
