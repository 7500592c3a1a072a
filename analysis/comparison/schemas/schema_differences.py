"""Walks two schemas together and lists their differences."""

from collections.abc import Iterator
from typing import Any, Final

from analysis.comparison.change import ABSENT
from analysis.comparison.schemas.keyword_differences import (
    all_values,
    constraint_difference,
    member_difference,
    multiple_direction,
    own_differences,
    removed_member,
    type_differences,
    value_differences,
)
from analysis.comparison.schemas.pattern_matches import matches
from analysis.comparison.schemas.schema_annotations import annotation_differences
from analysis.comparison.schemas.schema_difference import (
    Difference,
    DifferenceName,
    Direction,
    Path,
    Step,
    narrows,
    narrows_strictly,
    widens,
    widens_strictly,
)
from analysis.comparison.schemas.schema_document import Document
from analysis.comparison.schemas.schema_part import Part, Rule, Undecidable, json_key
from analysis.json_schema.dialects import DEFAULT_DIALECT

MAX_LEVELS: Final = 60
"""The most levels of members and items that are compared."""

MAX_MATCHES: Final = 1_000
"""The most names that are matched with patterns of names for one pair of documents."""
_DIALECT_KEYWORDS: Final = (
    *("additionalItems", "contains", "dependencies", "dependentRequired", "dependentSchemas", "maxContains"),
    *("minContains", "prefixItems", "unevaluatedItems", "unevaluatedProperties"),
)
"""Keywords that not all dialects have, or that mean something else in some of them. References are resolved as the
dialect asks, and what `exclusiveMaximum` means shows in its value."""


def differences(old: Document, new: Document) -> list[Difference]:
    """Returns the differences between two schemas; at most one if they cannot be compared at all."""
    return _Walk(old, new).differences()


def has_other_dialect(old: Document, new: Document) -> bool:
    """Whether the same words may mean something else in the new schema."""
    return (old.dialect or DEFAULT_DIALECT) != (new.dialect or DEFAULT_DIALECT)


def ambiguous_keyword(old: Document, new: Document) -> str | None:
    """Returns a keyword that both schemas have and that their dialects may read differently; None if there is none."""
    if not has_other_dialect(old, new):
        return None
    texts = json_key(old.schema), json_key(new.schema)
    return next((word for word in _DIALECT_KEYWORDS if all(f'"{word}": ' in text for text in texts)), None)


class _Walk:
    """Compares two documents, in bounded time."""

    def __init__(self, old: Document, new: Document) -> None:
        self._old, self._new = old, new
        self._steps = old.steps
        self._value_differences: dict[tuple[tuple[int, ...], ...], list[Difference]] = {}
        """What differs between lists of values, by their identity: many schemas may refer to the same long list."""
        self._matches = 0
        self._under_way: set[tuple[int, int]] = set()
        """The pairs of schemas that are being compared: a recursive schema comes back to one of them."""
        self._has_other_dialect = has_other_dialect(old, new)
        self._has_same_definitions = all(
            json_key(_member(old.schema, name)) == json_key(_member(new.schema, name))
            for name in ("$defs", "definitions")
        )

    def differences(self) -> list[Difference]:
        found = self._schemas(self._old.schema, self._new.schema, ())
        # Alternatives of several types may share a difference.
        distinct = {(difference.name, difference.path, difference.text): difference for difference in found}
        return list(distinct.values())

    def _schemas(self, old: Any, new: Any, path: Path) -> list[Difference]:
        self._steps.take()
        if self._are_same(old, new):
            return []
        key = id(self._old.named(old)), id(self._new.named(new))
        if key in self._under_way and isinstance(old, dict) and isinstance(new, dict):
            return []
        self._under_way.add(key)
        try:
            if len(path) > MAX_LEVELS:
                raise Undecidable("it is nested too deeply")
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
        if self._has_other_dialect and '"$ref": ' in key:
            return False
        here = "" if self._old.embedded or self._new.embedded else "#"  # else a reference may name an embedded schema
        references = key.count(f'"$ref": "{here}') + key.count('"$dynamicRef"') + key.count('"$recursiveRef"')
        if here:
            to_definitions = key.count('"$ref": "#/$defs/') + key.count('"$ref": "#/definitions/')
            return references == 0 or (references == to_definitions and self._has_same_definitions)
        return references == 0

    # ---- alternatives

    def _parts(
        self, old: tuple[Part, ...], new: tuple[Part, ...], path: Path, schemas: tuple[Any, Any]
    ) -> list[Difference]:
        if all(part.has_only_values for part in (*old, *new)) and old and new:
            return self._values(old, new, path, schemas)
        found = list(type_differences(old, new, path, schemas))
        for name in dict.fromkeys(part.type for part in old):
            old_parts = [part for part in old if part.type == name]
            new_parts = [part for part in new if part.type == name]
            if new_parts:
                found += self._alternatives(old_parts, new_parts, path, schemas)
        return found

    def _values(
        self, old: tuple[Part, ...], new: tuple[Part, ...], path: Path, schemas: tuple[Any, Any]
    ) -> list[Difference]:
        """Compare alternatives that accept only listed values."""
        key = tuple(id(part.values) for part in old), tuple(id(part.values) for part in new)
        if key not in self._value_differences:
            self._steps.take_for(*old, *new)
            found = value_differences(all_values(old), all_values(new), path, schemas)
            self._value_differences[key] = list(found)
        return [difference._replace(path=path, schemas=schemas) for difference in self._value_differences[key]]

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
        for at, other_at in by_cost:  # one that is contained in a new one has become it, or the reverse
            pair = compared[at, other_at]
            has_become = other_at in new_left and not any(map(narrows, pair))
            if has_become or (at in old_left and not any(map(widens, pair))):
                found += pair
                old_left.discard(at)
                new_left.discard(other_at)
        is_one_to_one = len(old_left) == len(new_left)
        for at, other_at in by_cost:
            if is_one_to_one and at in old_left and other_at in new_left:
                found += compared[at, other_at]
                old_left.discard(at)
                new_left.discard(other_at)
        if not found:  # what contains another only because a new or removed member is a note shows that note
            for at in sorted(contained):
                pairs = [compared[pair] for pair in by_cost if pair[0] == at and not any(map(narrows, compared[pair]))]
                if all(any(map(narrows_strictly, pair)) for pair in pairs):
                    found += [difference for difference in pairs[0] if difference.name == "added"]
        if old_left:
            text = f"no longer accepts {len(old_left)} of {len(old)} alternatives"
            found.append(Difference("alternatives-narrowed", Direction.NARROWED, path, text, schemas=schemas))
        if new_left:
            text = f"accepts {_count(len(new_left))} now"
            found.append(Difference("alternatives-widened", Direction.WIDENED, path, text, schemas=schemas))
        return found

    def _part(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> list[Difference]:
        """Compare two alternatives for the same type."""
        self._steps.take()
        if old.values is not None and new.values is not None:
            self._steps.take_for(old, new)
        found = list(own_differences(old, new, path, schemas))
        found += self._rules(old, new, path, schemas)
        if old.has_only_values and new.has_only_values:
            return found
        if old.type == "object":
            members = list(self._members(old, new, path, schemas))
            found += members
            if old.values is not None and any(difference.name == "added" for difference in members):
                # A listed value may have the member already.
                found.append(
                    constraint_difference(Direction.CHANGED, "properties", ABSENT, new.properties, path, schemas)
                )
        elif old.type == "array":
            found += self._items(old, new, path)
        return found

    def _members(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
        for name in sorted(old.required & new.properties.keys() - new.required):
            yield member_difference("no-longer-required", Direction.WIDENED, path, name, schemas)
        for name in sorted(new.required - old.required):
            yield member_difference("newly-required", Direction.NARROWED, path, name, schemas)
        for name, schema in old.properties.items():
            step = (*path, Step("properties", name))
            if name in new.properties:
                yield from self._schemas(schema, new.properties[name], step)
            else:
                yield from self._removed_member(old, new, path, name, schemas)
        for name in sorted(old.required - new.required - old.properties.keys() - new.properties.keys()):
            yield member_difference("no-longer-required", Direction.WIDENED, path, name, schemas)
        yield from self._new_members(old, new, path, schemas)
        yield from self._other_members(old, new, path, schemas)

    def _removed_member(
        self, old: Part, new: Part, path: Path, name: str, schemas: tuple[Any, Any]
    ) -> Iterator[Difference]:
        schema, step = old.properties[name], (*path, Step("properties", name))
        remaining = self._matching_patterns(new, name)
        other = new.additional if not remaining else remaining[0] if len(remaining) == 1 else True
        found = self._schemas(schema, other, step)
        is_excluded = new.additional is False and not remaining
        is_widened = any(map(widens, found))
        yield removed_member(old, new, path, name, schemas, is_excluded=is_excluded, is_widened=is_widened)
        if isinstance(new.additional, dict) and not remaining:
            yield from found

    def _new_members(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
        for name, schema in new.properties.items():
            if name in old.properties:
                continue
            step, known = (*path, Step("properties", name)), self._matching_patterns(old, name)
            if old.additional is False and not known:
                yield member_difference("added-to-closed", Direction.WIDENED, path, name, schemas)
                continue
            if name not in new.required:
                yield member_difference("added", Direction.NEITHER, path, name, schemas)
            if known:  # the patterns themselves are compared elsewhere
                yield from filter(narrows, self._schemas(known[0], schema, step))
            elif old.additional is not True or name in old.required:
                yield from self._schemas(old.additional, schema, step)

    def _matching_patterns(self, part: Part, name: str) -> list[Any]:
        """Returns the schemas of the patterns that certainly match a name."""
        found = []
        for pattern, schema in part.pattern_properties.items():
            self._matches += 1
            if self._matches <= MAX_MATCHES and matches(pattern, name):
                found.append(schema)
        return found

    def _other_members(self, old: Part, new: Part, path: Path, schemas: tuple[Any, Any]) -> Iterator[Difference]:
        step = (*path, Step("additionalProperties"))
        if isinstance(old.additional, dict) and isinstance(new.additional, dict):
            yield from self._schemas(old.additional, new.additional, step)
        elif old.additional is not new.additional:
            is_closed = old.additional is True or (new.additional is False and old.additional is not False)
            name: DifferenceName = "closed" if is_closed else "opened"
            direction = Direction.NARROWED if is_closed else Direction.WIDENED
            is_part = isinstance(new.additional if is_closed else old.additional, dict)
            verb = ("accepts fewer" if is_part else "no longer accepts") if is_closed else "now accepts"
            text = f"{verb} {'more ' if is_part and not is_closed else ''}members that it does not describe"
            yield Difference(name, direction, path, text, old.additional, new.additional, schemas=schemas)
        for pattern, schema in old.pattern_properties.items():
            if pattern in new.pattern_properties:
                other = new.pattern_properties[pattern]
                yield from self._schemas(schema, other, (*path, Step("patternProperties", pattern)))
        if old.pattern_properties.keys() != new.pattern_properties.keys():
            yield constraint_difference(
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
                yield constraint_difference(Direction.WIDENED, rule.keyword, rule.schema, ABSENT, path, schemas)
                continue
            come.remove(other)
            direction = self._rule_direction(rule, other, path)
            if direction is not None:
                yield constraint_difference(direction, rule.keyword, rule.schema, other.schema, path, schemas)
        for rule in come:
            yield constraint_difference(Direction.NARROWED, rule.keyword, ABSENT, rule.schema, path, schemas)
        for key in old_rules.keys() & new_rules.keys():
            rule = old_rules[key]
            if not self._are_same(rule.schema, new_rules[key].schema):
                yield constraint_difference(Direction.CHANGED, rule.keyword, rule.schema, rule.schema, path, schemas)

    def _rule_direction(self, old: Rule, new: Rule, path: Path) -> Direction | None:
        """Returns what the change of a rule does, or None if both mean the same."""
        if old.keyword == "multipleOf":
            return multiple_direction(old.schema, new.schema)
        if old.keyword in ("not", "propertyNames"):
            found = self._schemas(old.schema, new.schema, path)
            does_narrow, does_widen = any(map(narrows_strictly, found)), any(map(widens_strictly, found))
            if old.keyword == "not":
                does_narrow, does_widen = does_widen, does_narrow
            if any(difference.direction is Direction.UNDECIDED for difference in found) or (does_narrow and does_widen):
                return Direction.CHANGED
            return Direction.NARROWED if does_narrow else Direction.WIDENED if does_widen else None
        if old.keyword == "oneOf" and self._has_same_branches(old.schema, new.schema, path):
            return None
        if old.keyword == "if" and self._has_same_branches(
            [*old.schema.values()], [*new.schema.values()], path, is_ordered=True
        ):
            return None
        return Direction.CHANGED

    def _has_same_branches(self, old: list[Any], new: list[Any], path: Path, is_ordered: bool = False) -> bool:
        """Whether the schemas of both lists mean the same, one by one."""
        if len(old) != len(new):
            return False
        if not is_ordered:
            old, new = sorted(old, key=json_key), sorted(new, key=json_key)
        found = [
            difference
            for branch, other in zip(old, new, strict=True)
            for difference in self._schemas(branch, other, path)
        ]
        return not any(map(narrows_strictly, found)) and not any(map(widens_strictly, found))


def _count(alternatives: int) -> str:
    return "a new alternative" if alternatives == 1 else f"{alternatives} new alternatives"


def _cost(found: list[Difference]) -> tuple[int, int]:
    return sum(narrows(difference) or widens(difference) for difference in found), len(found)


def _member(schema: Any, name: str) -> Any:
    return schema.get(name) if isinstance(schema, dict) else None
