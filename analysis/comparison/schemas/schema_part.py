"""Part: the values of one JSON type that a schema accepts, in a form in which equal meaning looks equal.

Schemas that mean the same are often written differently: `{"type": ["string", "null"]}` or an `anyOf` of two schemas,
`const` or an `enum` of one value, a `$ref` or what it refers to. All these have the same parts. Schemas of members and
items remain as they are written, until they are needed.

What cannot be expressed in this way (`not`, `if`, a `oneOf` whose schemas overlap, and so on) is kept as a rule, which
can only be compared with other rules.
"""

import json
from fractions import Fraction
from typing import Any, Final, NamedTuple

from analysis.store.content import with_integers

TYPES: Final = ("string", "number", "boolean", "object", "array", "null")


class Undecidable(Exception):
    """Raised if a schema has no normal form here. Its text is a clause that says why."""


class Rule(NamedTuple):
    """A constraint that has no other form."""

    keyword: str
    schema: Any
    """The value of the keyword; for some, an object with those that belong to it."""


class Part(NamedTuple):
    """One alternative: the values of one JSON type that a schema accepts."""

    type: str
    """One of `TYPES`; integers are numbers."""
    is_integer: bool = False
    values: tuple[Any, ...] | None = None
    """All values that it may have, in the order of the schema; None if it has no such list."""
    limits: dict[str, tuple[float, bool]] = {}  # noqa: RUF012 - never changed
    """Limits by keyword, each with whether the limit itself is excluded; `uniqueItems` is one."""
    patterns: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    properties: dict[str, Any] = {}  # noqa: RUF012 - never changed
    """The schemas of members by their names."""
    pattern_properties: dict[str, Any] = {}  # noqa: RUF012 - never changed
    additional: Any = True
    """The schema of all other members."""
    prefix: tuple[Any, ...] = ()
    """The schemas of the first items."""
    items: Any = True
    """The schema of all other items."""
    rules: tuple[Rule, ...] = ()

    @property
    def accepts_all(self) -> bool:
        """Whether it accepts all values of its type."""
        return self == Part(self.type)

    @property
    def has_only_values(self) -> bool:
        """Whether it is a list of values, without further constraints."""
        return self.values is not None and self == Part(self.type, values=self.values)

    def accepts_scalar(self, value: Any) -> bool:
        """Whether a string, number, boolean or null of its type may fit; patterns and rules are not examined."""
        if self.values is not None and json_key(value) not in {json_key(other) for other in self.values}:
            return False
        if self.is_integer and value != value // 1:
            return False
        size = len(value) if isinstance(value, str) else value
        return all(_is_within(size, keyword, limit) for keyword, limit in self.limits.items())

    def schema_of_member(self, name: str) -> Any:
        """Returns the schema of a member, or that of all others; what `patternProperties` adds is left out."""
        return self.properties.get(name, self.additional)

    def item(self, index: int) -> Any:
        """Returns the schema of an item."""
        return self.prefix[index] if index < len(self.prefix) else self.items


def json_key(value: Any) -> str:
    """Returns a text that is the same for values that are the same JSON: 1 and 1.0 are, true and 1 are not."""
    if isinstance(value, str):
        return json.dumps(value)
    text: str = json.dumps(with_integers(value), sort_keys=True)
    return text


def json_type(value: Any) -> str:
    """Returns the JSON type of a value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "null"


def is_tighter(keyword: str, limit: tuple[float, bool], other: tuple[float, bool]) -> bool:
    """Whether a limit excludes more values than another one of the same keyword, which is not `multipleOf`."""
    if limit[0] == other[0]:
        return limit[1] and not other[1]
    return limit[0] > other[0] if keyword.startswith("min") else limit[0] < other[0]


def is_multiple(number: float, step: float) -> bool:
    """Whether a number is a multiple of another one, as the decimal numbers that they were written as."""
    return step > 0 and Fraction(str(number)) % Fraction(str(step)) == 0


def _is_within(size: Any, keyword: str, limit: tuple[float, bool]) -> bool:
    if not isinstance(size, int | float):
        return True
    if keyword == "multipleOf":
        return is_multiple(size, limit[0])
    if size == limit[0]:
        return not limit[1]
    return size > limit[0] if keyword.startswith("min") else size < limit[0]
