"""Walks two schemas together and lists their differences, each with whether it excludes or admits values."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis.comparison.change import ABSENT
from analysis.comparison.schema_annotations import AnnotationName, annotation_differences
from analysis.comparison.schema_parts import Document, Part, Rule, Undecidable, is_multiple, is_tighter, json_key
from analysis.protocol.json_pointer import encode_step

MAX_STEPS: Final = 20_000
"""The most pairs of schemas that are compared for one pair of documents."""
MAX_LEVELS: Final = 60
"""The most levels of members and items that are compared."""
MAX_DIFFERENCES: Final = 200
"""The most differences of one pair of documents that are listed."""


class Direction(Enum):
    """What a difference does to the values that are accepted."""

    NARROWED = "narrowed"
    """The new schema excludes values."""
    WIDENED = "widened"
    """The new schema admits values."""
    CHANGED = "changed"
    """Both, or it is not known which."""
    NEITHER = "neither"
    """The same values are accepted; an annotation changed."""
    UNDECIDED = "undecided"
    """One of the schemas cannot be compared."""


DifferenceName: TypeAlias = (
    Literal[
        "newly-required",
        "no-longer-required",
        "removed",
        "removed-from-closed",
        "added",
        "added-to-closed",
        "type-narrowed",
        "type-widened",
        "type-changed",
        "enum-narrowed",
        "enum-widened",
        "range-narrowed",
        "range-widened",
        "closed",
        "opened",
        "alternatives-narrowed",
        "alternatives-widened",
        "constraint-added",
        "constraint-removed",
        "constraint-changed",
        "undecided",
    ]
    | AnnotationName
)


class Step(NamedTuple):
    """One step from a schema to the schema of a part of its values."""

    keyword: Literal["properties", "patternProperties", "additionalProperties", "prefixItems", "items"]
    name: str = ""
    """The name of the member, the pattern of names, or the index of the item."""

    @property
    def pointer(self) -> str:
        """The step as part of a JSON Pointer into the schema."""
        has_name = self.keyword in ("properties", "patternProperties", "prefixItems")
        return f"/{self.keyword}/{encode_step(self.name)}" if has_name else f"/{self.keyword}"


Path: TypeAlias = tuple[Step, ...]
_MEMBER_TEXTS: Final[dict[str, str]] = {
    "newly-required": "is required now",
    "no-longer-required": "is no longer required",
    "removed": "is no longer described",
    "removed-from-closed": "is no longer accepted",
    "added": "is new",
    "added-to-closed": "is new",
}


class Difference(NamedTuple):
    """One difference between two schemas."""

    name: DifferenceName
    direction: Direction
    path: Path
    """Where it is; for a member that comes or goes, the path of the member."""
    text: str
    """What differs, to complete a sentence that begins with the name of the place. It quotes untrusted text."""
    before: Any = ABSENT
    after: Any = ABSENT
    keyword: str = ""
    """The keyword that differs, if it is not clear from the name."""
    schemas: tuple[Any, Any] = (True, True)
    """The schemas of the place on both sides; of the whole object, if a member comes or goes."""

    @property
    def is_about_member(self) -> bool:
        """Whether a member came, went, or need no longer be there; its path ends with the member."""
        return self.name in _MEMBER_TEXTS

    @property
    def pointer(self) -> str:
        """The place as a JSON Pointer into the schema, as if all references were replaced by what they name."""
        return "".join(step.pointer for step in self.path)


def differences(old: Document, new: Document) -> list[Difference]:
    """Returns the differences between two schemas; at most one if they cannot be compared at all."""
    return _Walk(old, new).differences()


class _Walk:
    """Compares two documents, in bounded time."""

    def __init__(self, old: Document, new: Document) -> None:
        self._old, self._new = old, new
        self._steps = 0
        self._under_way: set[tuple[int, int]] = set()
        """The pairs of schemas that are being compared: a recursive schema comes back to one of them."""
        self._has_same_definitions = all(
            json_key(_member(old.schema, name)) == json_key(_member(new.schema, name))
            for name in ("$defs", "definitions")
        )

    def differences(self) -> list[Difference]:
        found = self._schemas(self._old.schema, self._new.schema, ())
        # Alternatives of several types may share a difference.
        distinct = {(difference.name, difference.path, difference.text): difference for difference in found}
        return list(distinct.values())[:MAX_DIFFERENCES]

    def _schemas(self, old: Any, new: Any, path: Path) -> list[Difference]:
        if self._are_same(old, new):
            return []
        key = id(self._old.named(old)), id(self._new.named(new))
        if key in self._under_way and isinstance(old, dict) and isinstance(new, dict):
            return []
        self._steps += 1
        self._under_way.add(key)
        try:
            if self._steps > MAX_STEPS or len(path) > MAX_LEVELS:
                raise Undecidable("it is too large, or nested too deeply")
            old_parts, new_parts = self._old.parts(old), self._new.parts(new)
            found = [
                Difference(name, Direction.NEITHER, path, text, before, after)
                for name, text, before, after in annotation_differences(self._old, old, self._new, new)
            ]
            return [*found, *self._parts(old_parts, new_parts, path, (old, new))]
        except Undecidable as reason:
            text = f"cannot be compared: {reason}"
            return [Difference("undecided", Direction.UNDECIDED, path, text, old, new)]
        finally:
            self._under_way.discard(key)

    def _are_same(self, old: Any, new: Any) -> bool:
        """Whether two schemas are certainly the same, with all that they refer to."""
        if isinstance(old, bool) or isinstance(new, bool):
            return old is new
        if old != new:
            return False
        key = json_key(old)
        if key != json_key(new):
            return False
        references = key.count('"$ref": "#') + key.count('"$dynamicRef"') + key.count('"$recursiveRef"')
        to_definitions = key.count('"$ref": "#/$defs/') + key.count('"$ref": "#/definitions/')
        return references == 0 or (references == to_definitions and self._has_same_definitions)

    # ---- alternatives

    def _parts(
        self, old: tuple[Part, ...], new: tuple[Part, ...], path: Path, schemas: tuple[Any, Any]
    ) -> list[Difference]:
        if all(part.values is not None for part in (*old, *new)) and old and new:
            return list(_value_differences(_all_values(old), _all_values(new), path, schemas))
        found = list(_type_differences(old, new, path, schemas))
        for name in dict.fromkeys(part.type for part in old):
            old_parts = [part for part in old if part.type == name]
            new_parts = [part for part in new if part.type == name]
            if new_parts:
                found += self._alternatives(old_parts, new_parts, path, schemas)
        return found

    def _alternatives(self, old: list[Part], new: list[Part], path: Path, schemas: tuple[Any, Any]) -> list[Difference]:
        if len(old) == len(new) == 1:
            return self._part(old[0], new[0], path, schemas)
        compared = {
            (at, other_at): self._part(old_part, new_part, path, schemas)
            for at, old_part in enumerate(old)
            for other_at, new_part in enumerate(new)
        }
        by_cost = sorted(compared, key=lambda pair: (_cost(compared[pair]), pair))
        contained = {at for at, other_at in compared if not any(map(narrows, compared[at, other_at]))}
        covered = {other_at for at, other_at in compared if not any(map(widens, compared[at, other_at]))}
        old_left, new_left = set(range(len(old))) - contained, set(range(len(new))) - covered
        found: list[Difference] = []
        is_one_to_one = len(old_left) == len(new_left)
        for at, other_at in by_cost:
            if is_one_to_one and at in old_left and other_at in new_left:
                found += compared[at, other_at]
                old_left.discard(at)
                new_left.discard(other_at)
        for at, other_at in by_cost:  # one that is contained in a new one has become it, or the reverse
            pair = compared[at, other_at]
            has_become = other_at in new_left and not any(map(narrows, pair))
            if has_become or (at in old_left and not any(map(widens, pair))):
                found += pair
                old_left.discard(at)
                new_left.discard(other_at)
        if old_left:
            text = f"accepts {len(old_left)} of {len(old)} alternatives no longer"
            found.append(Difference("alternatives-narrowed", Direction.NARROWED, path, text, schemas=schemas))
        if new_left:
            text = f"accepts {len(new_left)} of {len(new)} alternatives that are new"
            found.append(Difference("alternatives-widened", Direction.WIDENED, path, text, schemas=schemas))
        return found

    def _part(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> list[Difference]:
        """Compare two alternatives for the same type."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Undecidable("it is too large, or nested too deeply")
        found = list(_own_differences(old, new, path, schemas))
        found += self._rules(old, new, path, schemas)
        if old.type == "object" and not (old.values is not None and new.values is not None):
            found += self._members(old, new, path, schemas)
        elif old.type == "array" and not (old.values is not None and new.values is not None):
            found += self._items(old, new, path)
        return found

    def _members(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
        for name in sorted(old.required & new.properties.keys() - new.required):
            yield _member_difference("no-longer-required", Direction.WIDENED, path, name, schemas)
        for name in sorted(new.required - old.required):
            yield _member_difference("newly-required", Direction.NARROWED, path, name, schemas)
        for name, schema in old.properties.items():
            step = (*path, Step("properties", name))
            if name in new.properties:
                yield from self._schemas(schema, new.properties[name], step)
            else:
                yield _removed(old, new, path, name, schemas)
                if isinstance(new.additional, dict):
                    yield from self._schemas(schema, new.additional, step)
        for name in sorted(old.required - new.required - old.properties.keys() - new.properties.keys()):
            yield _member_difference("no-longer-required", Direction.WIDENED, path, name, schemas)
        yield from self._new_members(old, new, path, schemas)
        yield from self._other_members(old, new, path, schemas)

    def _new_members(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
        for name, schema in new.properties.items():
            if name in old.properties:
                continue
            if old.additional is False and not old.pattern_properties:
                yield _member_difference("added-to-closed", Direction.WIDENED, path, name, schemas)
                continue
            if name not in new.required:
                yield _member_difference("added", Direction.NEITHER, path, name, schemas)
            if old.additional is not True:
                yield from self._schemas(old.additional, schema, (*path, Step("properties", name)))

    def _other_members(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
        step = (*path, Step("additionalProperties"))
        if isinstance(old.additional, dict) and isinstance(new.additional, dict):
            yield from self._schemas(old.additional, new.additional, step)
        elif old.additional is not new.additional:
            is_closed = old.additional is True or (new.additional is False and old.additional is not False)
            name: DifferenceName = "closed" if is_closed else "opened"
            direction = Direction.NARROWED if is_closed else Direction.WIDENED
            text = "accepts other members no longer, or not all" if is_closed else "accepts other members now, or more"
            yield Difference(name, direction, path, text, old.additional, new.additional, schemas=schemas)
        for pattern, schema in old.pattern_properties.items():
            if pattern in new.pattern_properties:
                other = new.pattern_properties[pattern]
                yield from self._schemas(schema, other, (*path, Step("patternProperties", pattern)))
        if old.pattern_properties.keys() != new.pattern_properties.keys():
            yield _constraint(
                Direction.CHANGED, "patternProperties", old.pattern_properties, new.pattern_properties, path, schemas
            )

    def _items(self, old: Part, new: Part, path: Path) -> Iterator[Difference]:
        for index in range(max(len(old.prefix), len(new.prefix))):
            yield from self._schemas(old.item(index), new.item(index), (*path, Step("prefixItems", str(index))))
        yield from self._schemas(old.items, new.items, (*path, Step("items")))

    def _rules(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
        old_rules = {f"{rule.keyword} {json_key(rule.schema)}": rule for rule in old.rules}
        new_rules = {f"{rule.keyword} {json_key(rule.schema)}": rule for rule in new.rules}
        gone = [rule for key, rule in old_rules.items() if key not in new_rules]
        come = [rule for key, rule in new_rules.items() if key not in old_rules]
        for rule in gone:
            other = next((other for other in come if other.keyword == rule.keyword), None)
            if other is None:
                yield _constraint(Direction.WIDENED, rule.keyword, rule.schema, ABSENT, path, schemas)
                continue
            come.remove(other)
            direction = self._rule_direction(rule, other, path)
            if direction is not None:
                yield _constraint(direction, rule.keyword, rule.schema, other.schema, path, schemas)
        for rule in come:
            yield _constraint(Direction.NARROWED, rule.keyword, ABSENT, rule.schema, path, schemas)
        unchanged = old_rules.keys() & new_rules.keys()
        if unchanged and not self._has_same_definitions:
            for key in unchanged:
                if not self._are_same(old_rules[key].schema, new_rules[key].schema):
                    rule = old_rules[key]
                    yield _constraint(Direction.CHANGED, rule.keyword, rule.schema, rule.schema, path, schemas)

    def _rule_direction(self, old: Rule, new: Rule, path: Path) -> Direction | None:
        """Returns what the change of a rule does, or None if both mean the same."""
        if old.keyword == "multipleOf":
            return _multiple_direction(old.schema, new.schema)
        if old.keyword in ("not", "propertyNames"):
            found = self._schemas(old.schema, new.schema, path)
            does_narrow, does_widen = any(map(narrows, found)), any(map(widens, found))
            if old.keyword == "not":
                does_narrow, does_widen = does_widen, does_narrow
            if any(difference.direction is Direction.UNDECIDED for difference in found) or (does_narrow and does_widen):
                return Direction.CHANGED
            return Direction.NARROWED if does_narrow else Direction.WIDENED if does_widen else None
        if old.keyword == "oneOf" and len(old.schema) == len(new.schema):
            keys = [sorted(map(json_key, rule.schema)) for rule in (old, new)]
            if keys[0] == keys[1] and self._has_same_definitions:
                return None
        return Direction.CHANGED


def narrows(difference: Difference) -> bool:
    """Whether a difference may exclude values that were accepted."""
    return difference.direction in (Direction.NARROWED, Direction.CHANGED, Direction.UNDECIDED)


def widens(difference: Difference) -> bool:
    """Whether a difference may admit values that were not accepted."""
    return difference.direction in (Direction.WIDENED, Direction.CHANGED, Direction.UNDECIDED)


def _cost(found: list[Difference]) -> tuple[int, int]:
    return sum(narrows(difference) or widens(difference) for difference in found), len(found)


# ---- the differences of one place


def _type_differences(
    old: tuple[Part, ...], new: tuple[Part, ...], path: Path, schemas: tuple[Any, Any]
) -> Iterator[Difference]:
    old_types, new_types = {part.type for part in old}, {part.type for part in new}
    lost = [part for part in old if part.type not in new_types]
    gained = [part for part in new if part.type not in old_types]
    # A type of which only some values were accepted is as good as those values.
    if lost and all(part.values is not None for part in lost):
        yield _enum("enum-narrowed", _all_values(lost), path, schemas)
        lost = []
    if gained and all(part.values is not None for part in gained):
        yield _enum("enum-widened", _all_values(gained), path, schemas)
        gained = []
    integer_only, was_integer_only = _is_integer_only(new), _is_integer_only(old)
    has_both = "number" in old_types & new_types
    does_narrow = bool(lost) or (has_both and integer_only and not was_integer_only)
    does_widen = bool(gained) or (has_both and was_integer_only and not integer_only)
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
    return ["integer" if name == "number" and _is_integer_only(parts) else name for name in names]


def _is_integer_only(parts: tuple[Part, ...]) -> bool:
    numbers = [part for part in parts if part.type == "number" and part.values is None]
    return bool(numbers) and all(part.is_integer for part in numbers)


def _list(names: list[str]) -> str:
    return "any" if len(names) == 6 and "integer" not in names else " or ".join(names) if names else "none"


def _all_values(parts: Any) -> list[Any]:
    return [value for part in parts for value in part.values or ()]


def _own_differences(old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
    """Yields what differs in the keywords that contain no schemas."""
    is_listed, was_listed = new.values is not None, old.values is not None
    scalar = old.type not in ("object", "array")
    if was_listed and is_listed:
        yield from _value_differences(list(old.values or ()), list(new.values or ()), path, schemas)
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
        yield _constraint(direction, "pattern", before, after, path, schemas)


def _value_differences(old: list[Any], new: list[Any], path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
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
        text = "accepts only a list of values now" if is_narrowed else "accepts more than a list of values now"
    else:
        listed = ", ".join(quoted(value) for value in values[:_MAX_LISTED])
        more = f" and {len(values) - _MAX_LISTED} more" if len(values) > _MAX_LISTED else ""
        text = f"accepts {listed}{more} no longer" if is_narrowed else f"accepts {listed}{more} now"
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
        direction = _multiple_direction(before[0], after[0])
    else:
        direction = Direction.NARROWED if is_tighter(keyword, after, before) else Direction.WIDENED
    old_value, new_value = _limit_value(keyword, before), _limit_value(keyword, after)
    text = f"has {keyword} {_limit_text(after)} instead of {_limit_text(before)}"
    if direction is Direction.CHANGED:
        yield Difference("constraint-changed", direction, path, text, old_value, new_value, keyword, schemas)
    else:
        name: DifferenceName = "range-narrowed" if direction is Direction.NARROWED else "range-widened"
        yield Difference(name, direction, path, text, old_value, new_value, keyword, schemas)


def _multiple_direction(old: float, new: float) -> Direction:
    if is_multiple(new, old):
        return Direction.NARROWED
    return Direction.WIDENED if is_multiple(old, new) else Direction.CHANGED


def _limit_value(keyword: str, limit: tuple[float, bool] | None) -> Any:
    if limit is None:
        return ABSENT
    return True if keyword == "uniqueItems" else limit[0]


def _limit_text(limit: tuple[float, bool] | None) -> str:
    return "none" if limit is None else f"{quoted(limit[0])}{' (exclusive)' if limit[1] else ''}"


def _constraint(
    direction: Direction, keyword: str, before: Any, after: Any, path: Path, schemas: tuple[Any, Any]
) -> Difference:
    names: dict[Direction, DifferenceName] = {
        Direction.NARROWED: "constraint-added",
        Direction.WIDENED: "constraint-removed",
        Direction.CHANGED: "constraint-changed",
    }
    if before is ABSENT:
        text = f"has a `{keyword}` now"
    elif after is ABSENT:
        text = f"has no `{keyword}` any longer, or fewer"
    else:
        text = f"has another `{keyword}`"
    return Difference(names[direction], direction, path, text, before, after, keyword, schemas)


def _removed(old: Part, new: Part, path: Path, member: str, schemas: tuple[Any, Any]) -> Difference:
    is_excluded = new.additional is False and not new.pattern_properties
    may_be_missing = member in old.required - new.required
    if is_excluded:
        direction = Direction.CHANGED if may_be_missing else Direction.NARROWED
        return _member_difference("removed-from-closed", direction, path, member, schemas)
    direction = Direction.WIDENED if may_be_missing else Direction.NEITHER
    return _member_difference("removed", direction, path, member, schemas)


def _member_difference(
    name: DifferenceName, direction: Direction, path: Path, member: str, schemas: tuple[Any, Any]
) -> Difference:
    return Difference(name, direction, (*path, Step("properties", member)), _MEMBER_TEXTS[name], schemas=schemas)


_MAX_LISTED: Final = 3
_MAX_VALUE_CHARS: Final = 40


def quoted(value: Any) -> str:
    """Returns a value as JSON, truncated."""
    text = json_key(value)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"


def _member(schema: Any, name: str) -> Any:
    return schema.get(name) if isinstance(schema, dict) else None
