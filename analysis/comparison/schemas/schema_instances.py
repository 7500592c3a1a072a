"""Creates small values that probably fit a schema. The validator decides whether they do (`witness.py`).

The values contain nothing of the traffic but names of members, enumerated values and limits of the schema.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from analysis.comparison.schemas.pattern_sample import sample_of, sample_with_length
from analysis.comparison.schemas.schema_combinations import intersection
from analysis.comparison.schemas.schema_difference import Path, Step
from analysis.comparison.schemas.schema_document import Document
from analysis.comparison.schemas.schema_part import Part, Undecidable, json_key
from analysis.json_schema.validator import schema_of

MAX_LEVELS: Final = 8
"""How deeply created values are nested."""
MAX_MEMBERS: Final = 40
"""The most members and items that are created for one object or array."""
MAX_SMALLEST_LEVELS: Final = 32
"""How deeply the smallest values of schemas are nested."""
MAX_NODES: Final = 1_000
"""The most values in the smallest value of a schema, itself included; a witness has fewer, because it is printed."""
MAX_STEPS: Final = 20_000
"""The most alternatives of schemas that are visited to create values for one document."""
MAX_MEMBER_VALUES: Final = 6
"""The most values that are tried for a member that came or went: one of each type, if it accepts them."""
MAX_TEXT_CHARS: Final = 300
"""The longest text that is created."""
_TEXTS: Final = (
    *("a", "A", "0", "1", "a1", "A1", "aa", "ab", "abc", "abcd", "AB", "ABC", "00", "000", "1234", "12345", "a-b"),
    *("a_b", "a.b", "a/b", "/a", "./a", "a b", "a:b", "#a", "#ffffff", "@a", "en", "en-US", "1.0", "1.0.0", "v1.0.0"),
    *("2020-01-01", "12:00", "12:00:00", "2020-01-01T00:00:00Z", "P1D", "a@b.example", "https://a.example/"),
    *("http://a.example", "file:///a", "a.example", "127.0.0.1", "a/b/c", "a=b", "a,b", "-", "_", " ", "\n"),
    *("00000000-0000-4000-8000-000000000000", "0" * 24, "0" * 32, "0" * 40, "0" * 64, "a" * 11, "a" * 24, "é"),
)
"""Texts of many forms, of which some match the patterns that people write."""


class NoInstance(Exception):
    """Raised if no value was created, because there is none or it would be large."""


class Instances:
    """Creates values for the schemas of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._smallest: dict[int, tuple[Any, Any]] = {}
        """The smallest value of each schema by the schema's identity; `NoInstance` if there is none, or not yet."""
        self._level = 0
        self._steps_left = MAX_STEPS

    @property
    def is_exhausted(self) -> bool:
        """Whether creating values took so many steps that no more are created."""
        return self._steps_left <= 0

    def smallest(self, schema: Any) -> Any:
        """Returns a small value.

        Raises:
            NoInstance: none was created.
        """
        known = self._smallest.get(id(schema))
        if known is None and self._level < MAX_SMALLEST_LEVELS:
            self._smallest[id(schema)] = schema, NoInstance
            self._level += 1
            try:
                known = self._smallest[id(schema)] = schema, self._smallest_of_any(schema)
            finally:
                self._level -= 1
        if known is None or known[1] is NoInstance:
            raise NoInstance
        return known[1]

    def _smallest_of_any(self, schema: Any) -> Any:
        for part in self._parts(schema):
            with suppress(NoInstance):
                value = self._smallest_of(part)
                if _nodes(value) <= MAX_NODES:
                    return value
        raise NoInstance

    def containing(self, schema: Any, path: Path, values: Iterable[Any]) -> Iterator[Any]:
        """Yields values of a schema that contain one of some values at a path."""
        if not path:
            yield from values
            return
        listed, step = list(values), path[0]
        for part in self._parts(schema):
            try:
                if part.type == "object" and step.keyword not in ("items", "prefixItems"):
                    name = step.name if step.keyword == "properties" else _free_name(part, step)
                    whole = self._smallest_of(part)
                    for value in self.containing(_member_schema(part, step), path[1:], listed):
                        yield {**whole, name: value}
                elif part.type == "array" and step.keyword in ("items", "prefixItems"):
                    index = int(step.name) if step.keyword == "prefixItems" else len(part.prefix)
                    whole = self._smallest_of(part)
                    if index > MAX_MEMBERS:
                        continue
                    whole = [*whole, *(self.smallest(part.item(place)) for place in range(len(whole), index))]
                    for value in self.containing(part.item(index), path[1:], listed):
                        yield [*whole[:index], value, *whole[index + 1 :]]
            except NoInstance:
                continue

    def objects(self, schema: Any, member: str, with_member: bool) -> Iterator[Any]:
        """Yields objects of a schema, first those with a member or those without it."""
        for part in self._parts(schema):
            if part.type != "object":
                continue
            try:
                whole = self._smallest_of(part)
            except NoInstance:
                continue
            without = {name: value for name, value in whole.items() if name != member}
            if not with_member:
                yield without
            if member in part.properties or member in part.required:
                values = islice(self.variants(part.schema_of_member(member)), MAX_MEMBER_VALUES)
                yield from ({**whole, member: value} for value in values)
            yield without
            yield from self._with_optional(part, whole)

    def variants(self, schema: Any, others: tuple[Part, ...] = (), level: int = 0) -> Iterator[Any]:
        """Yields different values of a schema, and some around its limits that do not fit.

        Args:
            schema: the schema.
            others: alternatives whose limits are of interest, too.
            level: how deeply they are nested in what is created.
        """
        yield from _turns([self._variants_of(part, others, level) for part in self._parts(schema)])

    # ---- one alternative

    def _parts(self, schema: Any) -> list[Part]:
        if self.is_exhausted:
            return []
        self._steps_left -= 1
        try:
            return [branch for part in self._document.parts(schema) for branch in self._branches(part)]
        except Undecidable:
            return []

    def _branches(self, part: Part) -> Iterator[Part]:
        """Yields an alternative for each schema of an `oneOf` that could not be merged into it."""
        rule = next((rule for rule in part.rules if rule.keyword == "oneOf"), None)
        if rule is None:
            yield part
            return
        rest = part._replace(rules=tuple(other for other in part.rules if other is not rule))
        for schema in rule.schema:
            for branch in self._document.parts(schema):
                both = intersection(rest, branch) if branch.type == part.type else None
                if both is not None:
                    yield both

    def _smallest_of(self, part: Part) -> Any:
        if part.values is not None:
            return part.values[0]
        if part.type == "object":
            if len(part.required) > MAX_MEMBERS:
                raise NoInstance
            names = [name for name in part.properties if name in part.required]
            names += sorted(part.required - part.properties.keys())
            whole = {name: self.smallest(part.schema_of_member(name)) for name in names}
            return self._filled(part, whole, int(part.limits.get("minProperties", (0, False))[0]))
        if part.type == "array":
            return self._array(part, int(part.limits.get("minItems", (0, False))[0]))
        if part.type == "string":
            return _smallest_text(part)
        return {"number": _smallest_number(part), "boolean": False}.get(part.type)

    def _filled(self, part: Part, whole: dict[str, Any], size: int) -> dict[str, Any]:
        """Returns an object with more members, up to a size; others than the schema names only if these do not do."""
        if size > MAX_MEMBERS:
            raise NoInstance
        whole = dict(whole)
        for name, schema in part.properties.items():
            if len(whole) >= size:
                break
            if name not in whole:
                with suppress(NoInstance):
                    whole[name] = self.smallest(schema)
        for name in _TEXTS:
            if len(whole) >= size:
                break
            if name not in whole and name not in part.properties and not part.pattern_properties:
                whole[name] = self.smallest(part.additional)
        return whole

    def _array(self, part: Part, size: int) -> list[Any]:
        if size > MAX_MEMBERS:
            raise NoInstance
        items = [self.smallest(part.item(index)) for index in range(min(size, len(part.prefix)))]
        if len(items) == size:
            return items
        if "uniqueItems" in part.limits and size > 1:
            distinct = {json_key(value): value for value in islice(self.variants(part.items), 2 * MAX_MEMBERS)}
            return [*items, *distinct.values()][:size]
        return [*items, *([self.smallest(part.items)] * (size - len(items)))]

    def _variants_of(self, part: Part, others: tuple[Part, ...], level: int) -> Iterator[Any]:
        alike = [part, *(other for other in others if other.type == part.type)]
        if part.values is not None:
            yield from part.values[:MAX_MEMBERS]
        if part.type == "number":
            yield from _numbers(alike)
        elif part.type == "string":
            yield from _strings(alike)
        elif part.type == "boolean":
            yield from (False, True)
        elif part.type == "null":
            yield None
        elif level < MAX_LEVELS:
            yield from self._nested_variants(part, alike, level)

    def _nested_variants(self, part: Part, alike: list[Part], level: int) -> Iterator[Any]:
        if part.type == "object":
            try:
                whole = self._smallest_of(part)
            except NoInstance:
                return
            yield whole
            for size in _sizes(alike, "Properties")[2:]:
                with suppress(NoInstance):
                    yield self._filled(part, whole, size)
            yield from self._with_optional(part, whole)
            members = [
                _wrapped(whole, name, self.variants(schema, (), level + 1))
                for name, schema in islice(part.properties.items(), MAX_MEMBERS)
            ]
            yield from _turns([*members, *self._other_members(part, alike, whole, level)])
            return
        for size in _sizes(alike, "Items"):
            try:
                yield self._array(part, size)
                if size > 1:
                    yield self._array(part._replace(limits={}), size)
            except NoInstance:
                continue
        for value in self.variants(part.items, (), level + 1):
            yield [value]

    def _other_members(
        self, part: Part, alike: list[Part], whole: dict[str, Any], level: int
    ) -> Iterator[Iterator[Any]]:
        """Yields objects with members that the schema does not describe: names that match a pattern, or of a rule."""
        for name in islice(dict.fromkeys(self._names_in_rules(alike, level)), MAX_MEMBERS):
            if name not in part.properties:
                yield _wrapped(whole, name, self.variants(part.additional, (), level + 1))
        steps = [Step("patternProperties", pattern) for pattern in islice(part.pattern_properties, MAX_MEMBERS)]
        if isinstance(part.additional, dict):
            steps.append(Step("additionalProperties"))
        for step in steps:
            with suppress(NoInstance):
                yield _wrapped(whole, _free_name(part, step), self.variants(_member_schema(part, step), (), level + 1))

    def _names_in_rules(self, alike: list[Part], level: int) -> Iterator[str]:
        """Yields names of members that rules such as `not`, `if` and `propertyNames` may be about."""
        for rule in (rule for part in alike for rule in part.rules):
            if rule.keyword == "propertyNames":
                names = self.variants(rule.schema, (), level + 1)
                yield from islice((name for name in names if isinstance(name, str)), MAX_MEMBER_VALUES)
            elif rule.keyword in ("not", "if"):
                for schema in rule.schema.values() if rule.keyword == "if" else (rule.schema,):
                    for keyword in ("required", "properties"):
                        named = schema.get(keyword) if isinstance(schema, dict) else None
                        yield from (name for name in named or () if isinstance(name, str))

    def _with_optional(self, part: Part, whole: dict[str, Any]) -> Iterator[Any]:
        """Yields an object with each optional member, and with all."""
        complete = dict(whole)
        for name, schema in islice(part.properties.items(), MAX_MEMBERS):
            if name in whole:
                continue
            try:
                complete[name] = self.smallest(schema)
            except NoInstance:
                continue
            yield {**whole, name: complete[name]}
        if len(complete) > len(whole) + 1:
            yield complete


def _nodes(value: Any) -> int:
    """Returns how many values are in a value, itself included; not exactly if it is more than `MAX_NODES`."""
    pending, count = [value], 0
    while pending and count <= MAX_NODES:
        value = pending.pop()
        count += 1
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return count


# ---- scalars


def _numbers(alike: list[Part]) -> Iterator[Any]:
    for part in alike:
        for keyword, (limit, _) in part.limits.items():
            if keyword == "multipleOf":
                yield from (limit, 2 * limit, 3 * limit, 5 * limit, limit / 2)
            else:
                yield from (limit, limit - 1, limit + 1, limit + 0.5, limit - 0.5)
    yield from (0, 1, -1, 2, 0.5, 1000, -1000, 1.5)


def _smallest_number(part: Part) -> Any:
    step = part.limits.get("multipleOf", (0, False))[0]
    if step <= 0:
        step = 0
    for number in (0, *_numbers([part])):
        candidates = [number]
        if step:
            candidates += [(number // step) * step, (number // step + 1) * step]
        for candidate in candidates:
            if part.accepts_scalar(candidate):
                return candidate
    raise NoInstance


def _strings(alike: list[Part]) -> Iterator[str]:
    patterns = sorted({pattern for other in alike for pattern in other.patterns})
    sizes = _sizes(alike, "Length")
    for pattern in patterns:
        yield from _matching_texts(pattern)[:3]
        yield from filter(None, (sample_with_length(pattern, size) for size in sizes))
    if patterns:
        yield from islice(_TEXTS, 0, None, 4)
    for size in sizes:
        if size <= MAX_TEXT_CHARS:
            yield "a" * size
    yield from ("", "a")


def _smallest_text(part: Part) -> str:
    if not part.patterns:
        size = int(part.limits.get("minLength", (0, False))[0])
        if size > MAX_TEXT_CHARS:
            raise NoInstance
        return "a" * size
    matching = [_matching_texts(pattern) for pattern in sorted(part.patterns)]
    for text in matching[0]:
        if part.accepts_scalar(text) and all(text in texts for texts in matching):
            return text
    raise NoInstance


@lru_cache(256)
def _matching_texts(pattern: str) -> tuple[str, ...]:
    """Returns texts that match, judged by the validator, because a pattern may be made to take forever."""
    schema = schema_of({"type": "string", "pattern": pattern})
    if schema is None or schema.fits(_TEXTS[0]) is None:
        return ()
    sample = sample_of(pattern)
    texts = _TEXTS if sample is None or sample in _TEXTS else (sample, *_TEXTS)
    return tuple(text for text in texts if schema.fits(text) is True)


def _sizes(alike: list[Part], suffix: str) -> list[int]:
    """Returns sizes of texts and arrays around the limits."""
    sizes = [0, 1]
    for part in alike:
        for keyword in (f"min{suffix}", f"max{suffix}"):
            if keyword in part.limits:
                size = int(part.limits[keyword][0])
                sizes += [size, size - 1, size + 1]
        if "uniqueItems" in part.limits:
            sizes.append(2)
    return [size for size in dict.fromkeys(sizes) if size >= 0]


# ---- steps


def _member_schema(part: Part, step: Step) -> Any:
    if step.keyword == "properties":
        return part.schema_of_member(step.name)
    return part.additional if step.keyword == "additionalProperties" else part.pattern_properties.get(step.name, True)


def _free_name(part: Part, step: Step) -> str:
    """Returns a name for a member that the schema does not name.

    Raises:
        NoInstance: there is none.
    """
    for name in _TEXTS:
        is_free = name not in part.properties
        if step.keyword == "patternProperties":
            is_free = is_free and name in _matching_texts(step.name)
        elif part.pattern_properties:
            is_free = is_free and not any(name in _matching_texts(pattern) for pattern in part.pattern_properties)
        if is_free:
            return name
    raise NoInstance


def _wrapped(whole: dict[str, Any], name: str, values: Iterator[Any]) -> Iterator[Any]:
    return ({**whole, name: value} for value in values)


def _turns(sources: list[Iterator[Any]]) -> Iterator[Any]:
    """Yields a value of each source in turn, until all are empty."""
    while sources:
        remaining = []
        for source in sources:
            for value in source:
                yield value
                remaining.append(source)
                break
        sources = remaining
