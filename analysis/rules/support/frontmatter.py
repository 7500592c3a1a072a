"""The YAML frontmatter of a `SKILL.md`, and whether it certainly differs from its rendering as JSON.

YAML parsers disagree on what a plain word such as `yes`, `1e3` or a date is, and on the newline at the end of a block.
So the comparison is three-valued: it names only the members that differ for every parser. Frontmatter with anchors,
aliases, tags, repeated keys, or of more than `MAX_FRONTMATTER_CHARS`, is not compared at all.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

MAX_FRONTMATTER_CHARS: Final = 16_384
"""The most characters of frontmatter that are compared; parsing as many takes less than a second."""
MAX_DEPTH: Final = 20
"""The most levels of lists and objects that are compared."""


class _Plain(str):
    """A plain scalar, which a parser may read as a number, a truth value, a date or nothing."""

    __slots__ = ()


class _Block(str):
    """A block scalar; how many newlines it ends with depends on how the frontmatter was cut out."""

    __slots__ = ()


_Value: TypeAlias = str | list["_Value"] | dict[str, "_Value"]

_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_begins_as_text: Final = re.compile(r"[^\W\d_]").match
_find_surrogate: Final = re.compile("[\ud800-\udfff]").search
_NEXT_LINE: Final = "\x85"
"""A line end in YAML 1.1, and text in YAML 1.2."""
_is_whole_number: Final = re.compile(r"0|-?[1-9][0-9]{0,14}").fullmatch


class UndecidableError(Exception):
    """The frontmatter cannot be compared with certainty."""


def frontmatter_of(text: str) -> str | None:
    """Returns the frontmatter at the beginning of a text, or None if there is none or it does not end.

    A byte order mark before it is accepted.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != "---":
        return None
    for index, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return "\n".join(line.removesuffix("\r") for line in lines[1:index]) + "\n"
    return None


def differing_members(frontmatter: str, rendering: dict[str, Any]) -> list[str]:
    """Returns the names of the members that certainly differ between frontmatter and its rendering.

    Raises:
        UndecidableError: the frontmatter is not simple or not valid.
    """
    members = _parse(frontmatter)
    return [
        *(name for name, value in members.items() if not _may_be(value, rendering.get(name))),
        *(name for name in rendering if name not in members),
    ]


def member_names(frontmatter: str) -> frozenset[str]:
    """Returns the names of the members of frontmatter.

    Raises:
        UndecidableError: the frontmatter is not simple or not valid.
    """
    return frozenset(_parse(frontmatter))


@lru_cache(maxsize=4)
def _parse(frontmatter: str) -> dict[str, _Value]:
    if len(frontmatter) > MAX_FRONTMATTER_CHARS or _NEXT_LINE in frontmatter:
        raise UndecidableError
    import yaml  # not needed by most captures

    try:
        # The parser in C is not used, because deep nesting could exhaust its stack.
        events = iter(yaml.parse(frontmatter, Loader=yaml.SafeLoader))
        value = _Composer(yaml, events).document()
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UndecidableError from None
    if not isinstance(value, dict):
        raise UndecidableError
    return value


class _Composer:
    """Makes values of the events of a YAML parser, in which plain scalars are kept apart from other text."""

    def __init__(self, yaml: Any, events: Iterator[Any]) -> None:
        self._yaml, self._events = yaml, events

    def document(self) -> _Value:
        next(self._events)  # the start of the stream
        if not isinstance(next(self._events), self._yaml.DocumentStartEvent):
            return {}
        value = self._value(next(self._events), 0)
        for expected in (self._yaml.DocumentEndEvent, self._yaml.StreamEndEvent):
            if not isinstance(next(self._events), expected):
                raise UndecidableError
        return value

    def _value(self, event: Any, depth: int) -> _Value:
        if isinstance(event, self._yaml.AliasEvent) or event.anchor is not None or event.tag not in (None, "!"):
            raise UndecidableError
        if depth > MAX_DEPTH or event.tag == "!":
            raise UndecidableError
        if isinstance(event, self._yaml.ScalarEvent):
            if not event.value.isascii() and _find_surrogate(event.value):
                raise UndecidableError  # some parsers join the two halves of a pair that is escaped
            return _scalar(event.value, event.style)
        if isinstance(event, self._yaml.SequenceStartEvent):
            return [self._value(item, depth + 1) for item in self._until(self._yaml.SequenceEndEvent)]
        members: dict[str, _Value] = {}
        for key in self._until(self._yaml.MappingEndEvent):
            name = self._value(key, depth + 1)
            if not isinstance(name, str) or (isinstance(name, _Plain) and name not in ("y", "n")) or name in members:
                raise UndecidableError
            members[str(name)] = self._value(next(self._events), depth + 1)
        return members

    def _until(self, end: type) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event


def _scalar(value: str, style: str | None) -> str:
    if style in ("|", ">"):
        return _Block(value)
    is_text = style is not None or (_begins_as_text(value) and value.lower() not in _WORDS)
    return value if is_text else _Plain(value)


def _may_be(value: _Value, rendering: Any) -> bool:
    """Whether a value may be rendered so; None stands for a missing member, too."""
    if isinstance(value, dict):
        return isinstance(rendering, dict) and (
            all(_may_be(inner, rendering.get(name)) for name, inner in value.items())
            and all(name in value for name in rendering)
        )
    if isinstance(value, list):
        return isinstance(rendering, list) and len(value) == len(rendering) and all(map(_may_be, value, rendering))
    if isinstance(value, _Plain):
        if _is_whole_number(value):
            return rendering == value or (not isinstance(rendering, bool) and rendering == int(value))
        return not isinstance(rendering, list | dict)
    if not isinstance(rendering, str):
        return False
    return value.rstrip("\n") == rendering.rstrip("\n") if isinstance(value, _Block) else value == rendering
