"""JSON as foldable lines: digits and duplicate members as written, and a limited number of lines."""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.message import Number
from mcpproxy.report.text import Span
from mcpproxy.sanitise import sanitise

MOST_LINES: Final = 20_000
"""Lines of one value; the rest is in the raw bytes."""
LONGEST: Final = 4096
"""Characters of one string."""
_INDENT: Final = 2


class Pairs(list[tuple[str, Any]]):
    """The members of an object, in order, duplicates included."""


class Branch(NamedTuple):
    """A line."""

    depth: int
    spans: tuple[Span, ...]
    end: int = -1
    """For a line that opens an object or array, the line that closes it."""
    folded: tuple[Span, ...] = ()
    """What is shown instead when it is folded."""


def parse(text: str) -> Any:
    """Parse a JSON text, keeping its members and its numbers exactly as written.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text,
        object_pairs_hook=Pairs,
        parse_float=Number,
        parse_int=Number,
        parse_constant=Number,
    )


def branches(value: Any) -> list[Branch]:
    """The lines of a parsed value."""
    lines: list[Branch] = []
    levels: list[_Level] = []
    _put(lines, levels, 0, _Item(None, value, is_last=True))
    while levels:
        level = levels[-1]
        depth = lines[level.line].depth
        item = next(level.rest, None) if len(lines) <= MOST_LINES else None
        if item is not None:
            _put(lines, levels, depth + 1, item)
            continue
        levels.pop()
        if next(level.rest, None) is not None:
            lines.append(Branch(depth + 1, (Span("… more: see raw", "dim"),)))
        lines[level.line] = lines[level.line]._replace(end=len(lines))
        lines.append(Branch(depth, (Span(level.closing, "dim"),)))
    return lines


class _Item(NamedTuple):
    """A member of an object, or an element of an array."""

    name: str | None
    value: Any
    is_last: bool


class _Level(NamedTuple):
    """An object or array whose lines are being made."""

    line: int
    closing: str
    rest: Iterator[_Item]


def _items(value: list[Any]) -> Iterator[_Item]:
    last = len(value) - 1
    for number, item in enumerate(value):
        name, inner = item if isinstance(value, Pairs) else (None, item)
        yield _Item(name, inner, is_last=number == last)


def _put(lines: list[Branch], levels: list[_Level], depth: int, item: _Item) -> None:
    """The line of a value, or the one that opens it."""
    name, value, is_last = item
    comma = "" if is_last else ","
    label = (Span(_quoted(name[:200]), "accent"), Span(": ", "dim")) if name is not None else ()
    is_object = isinstance(value, Pairs)
    if not isinstance(value, list) or not value:
        text = ("{}" if is_object else "[]") if isinstance(value, list) else _scalar(value)
        lines.append(Branch(depth, (*label, Span(text), Span(comma, "dim"))))
        return
    opening, closing = ("{", "}") if is_object else ("[", "]")
    folded = f"[ {len(value):,} ]"
    if is_object:
        folded = f"{{ {', '.join(sanitise(key, 40) for key, _ in value[:6])}{', …' if len(value) > 6 else ''} }}"
    lines.append(Branch(depth, (*label, Span(opening, "dim")), 0, (*label, Span(folded, "dim"), Span(comma, "dim"))))
    levels.append(_Level(len(lines) - 1, closing + comma, _items(value)))


def _scalar(value: object) -> str:
    if isinstance(value, Number):
        return sanitise(value.token, LONGEST)
    if isinstance(value, str):
        more = f"… ({len(value):,} characters)" if len(value) > LONGEST else ""
        return _quoted(value[:LONGEST]) + more
    return {True: "true", False: "false"}.get(value, "null") if isinstance(value, bool) else "null"


def _quoted(text: str) -> str:
    return sanitise(json.dumps(text, ensure_ascii=False), None)


class Tree:
    """The lines of a value, some of them folded."""

    def __init__(self, lines: list[Branch]) -> None:
        self.lines = lines
        self.folded: set[int] = set()
        self.visible: list[int] = []
        self._count()

    def toggle(self, place: int, *, fold: bool | None = None) -> int:
        """Fold or unfold the object or array that a visible line opens or belongs to; returns its line now.

        Args:
            place: number of the line among the visible ones.
            fold: True to fold, False to unfold, None to toggle.
        """
        if not 0 <= place < len(self.visible):
            return place
        line = self.visible[place]
        if self.lines[line].end <= line and fold is not False:
            line = self._around(line)
        if self.lines[line].end > line:
            is_folded = line in self.folded
            if fold is None or fold != is_folded:
                (self.folded.discard if is_folded else self.folded.add)(line)
                self._count()
        return self.visible.index(line)

    def spans(self, place: int) -> tuple[Span, ...]:
        """A visible line."""
        line = self.visible[place]
        branch, is_folded = self.lines[line], line in self.folded
        mark = ("▸ " if is_folded else "▾ ") if branch.end > line else "  "
        return (Span(" " * (_INDENT * branch.depth) + mark, "dim"), *(branch.folded if is_folded else branch.spans))

    def _around(self, line: int) -> int:
        return next((at for at in range(line - 1, -1, -1) if self.lines[at].end >= line), line)

    def _count(self) -> None:
        self.visible, at = [], 0
        while at < len(self.lines):
            self.visible.append(at)
            at = self.lines[at].end + 1 if at in self.folded else at + 1
