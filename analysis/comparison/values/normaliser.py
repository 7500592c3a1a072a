"""Normalises results: replaces what varies by itself by its kind, so that two recordings of the same thing are equal.

Nothing is dropped. An id stays an id of its JSON type, a list keeps its length, `_meta` keeps its names; so an id whose
type changes, a time that becomes null and a lost member are still differences. A text that is JSON is normalised as
JSON, in an object with the only member `@json`; a pointer into it contains that name as a step.

Normalising is idempotent, takes linear time, and accepts any JSON.
"""

from typing import Any, Final, NamedTuple
from zlib import crc32

import orjson

from analysis.comparison.canonical import canonical_json, json_digest
from analysis.comparison.values.varying_members import is_passed_over, rule_of_member
from analysis.comparison.values.varying_text import MAX_TEXT_CHARS, TAG_IN_BASE64, Rule, normalised_text, placeholder

JSON_IN_TEXT: Final = "@json"
"""The step of a pointer from a text to the JSON in it."""
MAX_DEPTH: Final = 64
"""What is nested deeper is compared by its digest, without normalising it."""

_BLOBS: Final = frozenset({"data", "blob"})
_JSON_STARTS: Final = frozenset("{[")
_MAX_NAMES: Final = 10_000
_TYPES: Final = {str: "string", bool: "boolean", type(None): "null", dict: "object", list: "array"}
_PLACEHOLDER_TYPES: Final = ("number", "boolean", "null", "object", "array")
_TYPE_SUFFIXES: Final = tuple(f": {type_}⟩" for type_ in _PLACEHOLDER_TYPES)


class PassedValue(NamedTuple):
    """A value that a rule or a pointer passed over."""

    rule: str
    checksum: int
    """A checksum of the value: of two equal values, it is the same."""


class Normalised(NamedTuple):
    """A normalised value, and what was passed over in it."""

    value: Any
    passed: list[PassedValue]
    """In an order that depends only on names and places."""
    cursors: tuple[str, ...]
    """The cursors in it, which a request for the next page repeats. Untrusted text."""


def normalise(value: Any) -> Normalised:
    """Returns a parsed JSON value with everything that varies by itself replaced by its kind."""
    walk = _Walk()
    return Normalised(walk.normalised(value, 0), walk.passed, tuple(walk.cursors))


def json_type(value: Any) -> str:
    """Returns the JSON type of a normalised value: of what was passed over, the type that it had."""
    if isinstance(value, str):
        if value.startswith("⟨") and value.endswith(_TYPE_SUFFIXES):
            return value.rpartition(": ")[2][:-1]
        return "string"
    if isinstance(value, dict) and is_json_in_text(value):
        return "string"
    return _TYPES.get(type(value), "number")


def is_json_in_text(value: dict[str, Any]) -> bool:
    """Whether a normalised object stands for a text that is JSON."""
    return len(value) == 1 and JSON_IN_TEXT in value


class _Walk:
    """Walks through one value."""

    __slots__ = ("cursors", "passed")

    def __init__(self) -> None:
        self.passed: list[PassedValue] = []
        self.cursors: list[str] = []

    def normalised(self, value: Any, depth: int) -> Any:
        """Returns a value normalised; it is in no member, or in an array."""
        if isinstance(value, str):
            return normalised_text(value, self._note_text)
        if isinstance(value, dict):
            return self._object(value, depth)
        if isinstance(value, list):
            if depth >= MAX_DEPTH:
                return _too_deep(value)
            return [self.normalised(element, depth + 1) for element in value]
        return value

    def _object(self, value: dict[str, Any], depth: int) -> Any:
        if depth >= MAX_DEPTH:
            return _too_deep(value)
        result = {}
        renamed: list[tuple[str, Any]] = []
        for name in sorted(value):
            known = _MEMBERS.get(name) or _member(name)
            child = self._member_value(name, known.rule, value[name], depth + 1)
            if known.name == name:
                result[name] = child
            else:
                self._note("id", name)
                renamed.append((known.name, child))
        return result | dict(_numbered(renamed, result)) if renamed else result

    def _member_value(self, name: str, rule: Rule | None, value: Any, depth: int) -> Any:
        if rule is not None:
            if rule == "_meta":
                return self._meta(value, depth)
            if isinstance(value, str | int | float) and not isinstance(value, bool) and is_passed_over(rule, value):
                return self._passed_over(rule, value)
        if isinstance(value, str):
            if value[:1] in _JSON_STARTS or (value[:1].isspace() and value.lstrip()[:1] in _JSON_STARTS):
                return self._json_text(value, depth)
            if name in _BLOBS and " " not in value[:200] and not value.startswith(TAG_IN_BASE64):
                return value
            return normalised_text(value, self._note_text)
        return self.normalised(value, depth)

    def _json_text(self, text: str, depth: int) -> Any:
        if len(text) <= MAX_TEXT_CHARS:
            try:
                return {JSON_IN_TEXT: self.normalised(orjson.loads(text), depth + 1)}
            except ValueError:
                pass
        return normalised_text(text, self._note_text)

    def _meta(self, value: Any, depth: int) -> Any:
        """Returns `_meta` with its names and the types of its values."""
        if isinstance(value, dict):
            if depth >= MAX_DEPTH:
                return _too_deep(value)
            return {name: self._meta(value[name], depth + 1) for name in sorted(value)}
        if isinstance(value, list):
            return _too_deep(value) if depth >= MAX_DEPTH else [self._meta(element, depth + 1) for element in value]
        return value if value is None else self._passed_over("_meta", value)

    def _passed_over(self, rule: Rule, value: Any) -> str:
        type_ = json_type(value)
        result = placeholder(rule, type_)
        if value == result or (isinstance(value, str) and type_ != "string"):
            return str(value)  # it is normalised already
        self._note(rule, value)
        if rule == "cursor" and isinstance(value, str):
            self.cursors.append(value)
        return result

    def _note_text(self, rule: Rule, text: str) -> None:
        self._note(rule, text)

    def _note(self, rule: str, value: Any) -> None:
        self.passed.append(PassedValue(rule, checksum(value)))


def checksum(value: Any) -> int:
    """Returns a checksum of a JSON value."""
    if isinstance(value, str):
        return crc32(value.encode("utf-8", "surrogatepass"))
    return crc32(canonical_json(value))


class _Member(NamedTuple):
    name: str
    """The normalised name: a name may be an id, as in a map of ids to objects."""
    rule: Rule | None


_MEMBERS: Final[dict[str, _Member]] = {}


def _member(name: str) -> _Member:
    """Returns what a name says; what was found out is kept for the next time."""
    new_name = normalised_text(name, _ignore)
    member = _Member(new_name, rule_of_member(name))
    if len(_MEMBERS) >= _MAX_NAMES:
        _MEMBERS.clear()
    if len(name) <= 100:
        _MEMBERS[name] = member
    return member


def _ignore(rule: str, text: str) -> None:
    """Ignore what a name contains."""


def _numbered(renamed: list[tuple[str, Any]], others: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns members whose names were ids, under different names that do not depend on the ids or their order."""
    if len(renamed) > 1:
        renamed.sort(key=lambda member: (member[0], canonical_json(member[1])))
    counts: dict[str, int] = {}
    result = []
    for name, child in renamed:
        number = counts.get(name, 0)
        new_name = name if not number else f"{name} {number + 1}"
        while new_name in others:
            number += 1
            new_name = f"{name} {number + 1}"
        counts[name] = number + 1
        result.append((new_name, child))
    return result


def _too_deep(value: Any) -> str:
    """Returns what stands for a value that is nested too deeply, with its type."""
    digest = json_digest(value)
    # In groups, as a long digest would itself be passed over as an id.
    groups = " ".join(digest[start : start + 8] for start in range(0, len(digest), 8))
    return placeholder(f"nested deeply, {groups}", "object" if isinstance(value, dict) else "array")
