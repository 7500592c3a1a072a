"""Shapes: the expected structure of a body in one revision; created by `body_table.py`.

A shape finds values that the types accept but no schema does: null for an optional member, scalars of another type,
invalid URIs and base64, content kinds from later revisions. A shape can also prove a body valid, and then the types are
not needed. It examines at most `MAX_ELEMENTS` items, keeps at most `MAX_PROBLEMS` problems, and quotes no value.
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from analysis.conversation.message import MISSING
from analysis.protocol.json_pointer import encode_step
from analysis.shapes.since import ALSO_REQUIRED_MEMBERS, Kind

MAX_ELEMENTS: Final = 10_000
"""The maximum number of array and map items examined in one body."""
MAX_PROBLEMS: Final = 1_000
"""The maximum number of problems reported for one message."""
BodyPath: TypeAlias = "tuple[Any, str | int] | None"
"""A place in a body: its parent, and the member or item. One is created at every step down, so it must be cheap."""


class Problem(NamedTuple):
    """One problem in a body."""

    pointer: str
    """Its place in the message, as a JSON Pointer."""
    text: str
    """The problem, in words that quote no value."""
    kind: Kind = "shape"
    """The rule it belongs to; `shape` means that the body does not fit the schema."""


# ---- the first pass


class ProblemCollector:
    """The problems that the first pass found, and its remaining budget."""

    def __init__(self, at: str) -> None:
        self.body_name = at
        self.remaining_items = MAX_ELEMENTS
        self.has_json = False
        """Whether JSON of arbitrary depth occurs in a place that the types would descend into."""
        self.problems: list[Problem] = []

    def report(self, path: BodyPath, text: str, kind: Kind) -> None:
        """Report a problem at a place."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(pointer_of(self.body_name, path), text, kind))


class ItemBudget:
    """The number of items that a copy may still have."""

    def __init__(self) -> None:
        self.remaining_items = MAX_ELEMENTS


class Shape:
    """The expected structure of a value. Where anything is allowed, there is None instead of a shape."""

    words = "something else"
    certain_types: frozenset[type] = frozenset()
    """Types whose values are all valid, so that no check is needed."""

    def certainly_fits(self, value: Any) -> bool:
        """Whether a value has the declared type, format and range throughout, so that neither pass can reject it."""
        raise NotImplementedError

    def collect_problems(self, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
        """Run the first pass over a value."""

    def declared_part(self, value: Any, _budget: ItemBudget) -> Any:
        """The declared part of a value, with no more items than the budget allows."""
        return value

    def matches_location(self, _step: str | int) -> bool:
        """Whether a step of a location in mcp-types refers to this arm of a union."""
        return False


class Scalar(Shape):
    """A string, number or boolean, possibly with a format."""

    def __init__(
        self, types: frozenset[type], format_: Kind | None = None, low: float = -inf, high: float = inf
    ) -> None:
        self.types, self.format, self.low, self.high = types, format_, low, high
        self.exact = frozenset({*types, int}) if float in types else types
        self.certain_types = frozenset() if format_ or (low, high) != (-inf, inf) else self.exact
        self.words = _list_text(
            [_WORDS[type_] for type_ in _WORDS if type_ in types - {int if float in types else None}]
        )

    def certainly_fits(self, value: Any) -> bool:
        type_ = type(value)
        if type_ not in self.exact:
            return False
        return self._format_problem(value) is None if type_ is str else self.low <= value <= self.high

    def _format_problem(self, value: str) -> str | None:
        """Returns the problem with the format of a string, or None if there is none."""
        if self.format is None:
            return None
        return _base64_problem(value) if self.format == "base64" else _uri_problem(value)

    def collect_problems(self, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
        type_ = type(value)
        if type_ in self.exact:
            text = self._format_problem(value) if type_ is str else None
            if text is not None and self.format is not None:
                collector.report(path, f"{name_of(path)} {text}", self.format)
            return
        if _is_leniently_accepted(value, type_, self.types):
            collector.report(
                path, f"{name_of(path)} is {_WORDS.get(type_, 'a number')} but should be {self.words}", "scalar"
            )

    def matches_location(self, step: str | int) -> bool:
        return isinstance(step, str) and not step.startswith(("list[", "dict["))


class Choice(Shape):
    """One of several constants."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = frozenset(value for value in values if isinstance(value, str))
        self.words = _list_text([f'"{value}"' for value in values])

    def certainly_fits(self, value: Any) -> bool:
        return type(value) is str and value in self.values


class Json(Shape):
    """Any JSON. mcp-types would examine every level of it, so `declared_part` replaces it with null."""

    def certainly_fits(self, value: Any) -> bool:
        return value is not None

    def collect_problems(self, value: Any, _path: BodyPath, collector: ProblemCollector) -> None:
        collector.has_json = collector.has_json or isinstance(value, dict | list)

    def declared_part(self, _value: Any, _budget: ItemBudget) -> Any:
        return None


class List(Shape):
    """An array of items of one shape."""

    words = "an array"

    def __init__(self, item: Shape | None) -> None:
        self.item = item

    def certainly_fits(self, value: Any) -> bool:
        if type(value) is not list or len(value) > MAX_ELEMENTS:
            return False
        return self.item is None or _certainly_fit(self.item, value)

    def collect_problems(self, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
        if not isinstance(value, list):
            return
        if self.item is None:
            collector.remaining_items -= len(value)
            return
        plain = self.item.certain_types
        for index, item in enumerate(value):
            collector.remaining_items -= 1
            if collector.remaining_items < 0:
                return
            if type(item) not in plain:
                self.item.collect_problems(item, (path, index), collector)

    def declared_part(self, value: Any, budget: ItemBudget) -> Any:
        if not isinstance(value, list):
            return value
        items = []
        for item in value:
            if budget.remaining_items <= 0:
                break
            budget.remaining_items -= 1
            items.append(item if self.item is None else self.item.declared_part(item, budget))
        return items

    def matches_location(self, step: str | int) -> bool:
        return isinstance(step, str) and step.startswith("list[")


def _certainly_fit(shape: Shape, values: Iterable[Any]) -> bool:
    plain = shape.certain_types
    for value in values:  # noqa: SIM110 - a generator for each of millions of lists costs more than the work itself
        if type(value) not in plain and not shape.certainly_fits(value):
            return False
    return True


class Map(Shape):
    """An object whose members have arbitrary names and the same shape."""

    words = "an object"

    def __init__(self, item: Shape | None) -> None:
        self.item = item

    def certainly_fits(self, value: Any) -> bool:
        if type(value) is not dict or len(value) > MAX_ELEMENTS:
            return False
        return self.item is None or _certainly_fit(self.item, value.values())

    def collect_problems(self, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
        if self.item is None or not isinstance(value, dict):
            return
        plain = self.item.certain_types
        for name, member in value.items():
            collector.remaining_items -= 1
            if collector.remaining_items < 0:
                return
            if type(member) not in plain:
                self.item.collect_problems(member, (path, name), collector)

    def declared_part(self, value: Any, budget: ItemBudget) -> Any:
        if self.item is None or not isinstance(value, dict):
            return value
        members = {}
        for name, member in value.items():
            if budget.remaining_items <= 0:
                break
            budget.remaining_items -= 1
            members[name] = self.item.declared_part(member, budget)
        return members

    def matches_location(self, step: str | int) -> bool:
        return isinstance(step, str) and step.startswith("dict[")


class Member(NamedTuple):
    """A member that a revision declares."""

    shape: Shape | None
    is_optional: bool
    """Whether it may be absent but may not be null."""
    is_reported_by_rules: bool
    """Whether separate rules report that it is missing."""
    plain: frozenset[type]
    """Types whose values are all valid."""


class Object(Shape):
    """An object with declared members; other members are allowed and ignored."""

    words = "an object"

    def __init__(self, name: str, members: dict[str, Member], required: frozenset[str]) -> None:
        self.name, self.members, self.required = name, members, required
        self.also_required = tuple(member for member in required if (name, member) in ALSO_REQUIRED_MEMBERS)
        self.checked_members = {
            name: (member.shape, member.plain) for name, member in members.items() if member.shape is not None
        }

    def likeness_to(self, value: dict[str, Any]) -> float:
        """The share of the required members that a value has, from 0 to 1."""
        return sum(name in value for name in self.required) / (len(self.required) or 1)

    def certainly_fits(self, value: Any) -> bool:
        if type(value) is not dict or not self.required <= value.keys():
            return False
        open_members = self.checked_members
        for name, inner in value.items():
            if name in open_members:
                shape, plain = open_members[name]
                if type(inner) not in plain and not shape.certainly_fits(inner):
                    return False
        return not self.also_required or all(value[name] is not None for name in self.also_required)

    def without_checks(self, name: str, valid_members: frozenset[str]) -> "Object":
        """Returns a copy whose `certainly_fits` skips the `valid_members` of the member `name`."""
        shape, plain = self.checked_members.get(name, (None, frozenset()))
        if not isinstance(shape, Object):
            return self
        inner, outer = copy(shape), copy(self)
        inner.checked_members = {
            name: member for name, member in shape.checked_members.items() if name not in valid_members
        }
        outer.checked_members = {**self.checked_members, name: (inner, plain)}
        return outer

    def collect_problems(self, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
        if not isinstance(value, dict):
            return
        members = self.members
        for name, inner in value.items():
            member = members.get(name)
            if member is None or type(inner) in member.plain:
                continue
            if inner is None:
                if member.is_optional:
                    collector.report((path, name), f"{name} is null: omit it instead", "null")
                elif isinstance(member.shape, Alternatives):
                    member.shape.collect_problems(None, (path, name), collector)
            elif member.shape is not None:
                member.shape.collect_problems(inner, (path, name), collector)
        for name in self.also_required:
            if value.get(name) is None:
                collector.report((path, name), f"{name} is missing", "shape")

    def declared_part(self, value: Any, budget: ItemBudget) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: value[name] if member.shape is None else member.shape.declared_part(value[name], budget)
            for name, member in self.members.items()
            if name in value
        }

    def matches_location(self, step: str | int) -> bool:
        return step == self.name


class Alternatives(Shape):
    """One of several shapes; a member with a constant decides which one, or else the members that are present."""

    def __init__(self, arms: list[Shape]) -> None:
        self.objects = [arm for arm in arms if isinstance(arm, Object)]
        self.map = next((arm for arm in arms if isinstance(arm, Map)), None)
        self.list = next((arm for arm in arms if isinstance(arm, List)), None)
        self.scalar = next((arm for arm in arms if isinstance(arm, Scalar | Choice)), None)
        self.tag = next((tag for tag in ("type", "method", "mode") if self._is_tag(tag)), None)
        self.untagged = next((arm for arm in self.objects if self.tag not in arm.required), None)
        self.tagged = {value: arm for arm in self.objects for value in self._constants(arm)}
        self.is_text_or_blob = any(arm.name == "TextResourceContents" for arm in self.objects)
        self.words = _list_text([*dict.fromkeys(arm.words for arm in arms)])

    def _is_tag(self, tag: str) -> bool:
        shapes = [arm.members[tag].shape if tag in arm.members else None for arm in self.objects]
        return bool(shapes) and all(isinstance(shape, Choice) for shape in shapes)

    def _constants(self, arm: Object) -> frozenset[str]:
        shape = arm.members[self.tag].shape if self.tag is not None else None
        return shape.values if isinstance(shape, Choice) else frozenset()

    def arm_for(self, value: Any) -> Shape | None:
        """Returns the arm that a value is meant for, or None if it matches no arm."""
        if isinstance(value, list):
            return self.list
        if not isinstance(value, dict):
            return self.scalar
        if not self.objects:
            return self.map
        if self.tag is None:
            return max(self.objects, key=lambda arm: arm.likeness_to(value))
        tag = value.get(self.tag, MISSING)
        if tag is MISSING:
            return self.untagged
        return self.tagged.get(tag) if isinstance(tag, str) else None

    def certainly_fits(self, value: Any) -> bool:
        arm = self.arm_for(value)
        if arm is None or not arm.certainly_fits(value):
            return False
        return not self.is_text_or_blob or value.get("text") is None or value.get("blob") is None

    def collect_problems(self, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
        arm = self.arm_for(value)
        if arm is not None:
            arm.collect_problems(value, path, collector)
            if self.is_text_or_blob and value.get("text") is not None and value.get("blob") is not None:
                collector.report(path, "the content has both text and blob", "both")
        elif not isinstance(value, dict) or self.tag is None:
            collector.report(path, f"{name_of(path)} should be {self.words}", "shape")
        elif self.tag in value:
            choices = _list_text([f'"{tag}"' for tag in self.tagged])
            collector.report((path, self.tag), f"{self.tag} should be {choices}", "shape")
        else:
            collector.report((path, self.tag), f"{self.tag} is missing", "shape")

    def declared_part(self, value: Any, budget: ItemBudget) -> Any:
        arm = self.arm_for(value)
        return None if arm is None else arm.declared_part(value, budget)


# ---- words and scalars

_WORDS: Final[dict[Any, str]] = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}
_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?\s*", re.ASCII).fullmatch
_BOOLEANS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0"})
_MAX_NUMBER_CHARS: Final = 100
_MAX_STEP_CHARS: Final = 60


def _is_leniently_accepted(value: Any, type_: type, expected_types: frozenset[type]) -> bool:
    """Whether a lenient parser accepts a scalar where another type is required."""
    accepts_number = int in expected_types or float in expected_types
    if type_ is bool:
        return accepts_number
    if type_ is str:
        if len(value) > _MAX_NUMBER_CHARS:
            return False
        return (accepts_number and _NUMBER(value) is not None) or (
            bool in expected_types and value.lower() in _BOOLEANS
        )
    return isinstance(value, int | float) and bool in expected_types and value in (0, 1)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII).match
_find_invalid_uri_part: Final = re.compile(
    r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]|%(?![0-9A-Fa-f]{2})", re.ASCII
).search


def _uri_problem(value: str) -> str | None:
    if _SCHEME(value) is None:
        return "is not an absolute URI: it has no scheme"
    return (
        None
        if _find_invalid_uri_part(value) is None
        else "is not a URI: it has characters that must be percent-encoded"
    )


_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _base64_problem(value: str) -> str | None:
    raw = value.encode("utf-8", "surrogatepass")
    if not raw:
        return None
    remainder = raw.translate(None, _ALPHABET)
    if remainder == raw[len(raw) - len(remainder) :] and remainder in (b"", b"=", b"=="):
        return None if len(raw) % 4 == 0 else "is base64 of an invalid length"
    invalid_bytes = set(remainder) - {0x3D}
    if invalid_bytes and invalid_bytes <= set(b" \t\r\n"):
        return "is base64 that contains white space"
    if invalid_bytes and invalid_bytes <= set(b"-_"):
        return "is base64 in the URL-safe alphabet"
    return "is not base64"


def _list_text(words: list[str]) -> str:
    *others, last = words or ["something else"]
    return f"{', '.join(others)} or {last}" if others else str(last)


def name_of(path: BodyPath) -> str:
    """A word for a place: the name of the member, if a schema defines it."""
    if path is None:
        return "the body"
    name = path[1]
    return name if isinstance(name, str) and len(name) <= _MAX_STEP_CHARS else "an item"


def _steps(path: BodyPath) -> Iterator[str]:
    while path is not None:
        path, inner = path
        text = str(inner)
        if len(text) > _MAX_STEP_CHARS:
            text = f"{text[: _MAX_STEP_CHARS - 1]}…"
        yield encode_step(text)


def pointer_of(body_name: str, path: BodyPath) -> str:
    """The JSON Pointer (RFC 6901) of a place in the params or the result."""
    return "/".join(["", body_name, *reversed([*_steps(path)])])
