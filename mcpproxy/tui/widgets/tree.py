"""JSON as lines that fold: exact digits, members that come twice, and no more lines than a person can read."""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.message import Number
from mcpproxy.report.text import Span
from mcpproxy.sanitise import sanitise

MOST_LINES: Final = 20_000
"""Lines of one value; the rest is in the raw bytes."""
LONGEST: Final = 4096
"""Characters of one string."""
_INDENT: Final = 2


class Pairs(list[tuple[str, Any]]):
    """The members of an object, in order, twice where they come twice."""


class Branch(NamedTuple):
    """A line."""

    depth: int
    spans: tuple[Span, ...]
    end: int = -1
    """Of a line that opens an object or array: the line that closes it."""
    folded: tuple[Span, ...] = ()
    """What stands in its place when it is folded."""


def parse(text: str) -> Any:
    """A JSON text with its members as they stand, and its numbers as they are written.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text,
        object_pairs_hook=Pairs,
        parse_float=Number,
        parse_int=Number,
        parse_constant=lambda token: Number(token.replace("Infinity", "inf")),
    )


def branches(value: Any) -> list[Branch]:
    """The lines of a parsed value."""
    made: list[Branch] = []
    opened: list[tuple[int, str, Iterator[tuple[str | None, Any]], str]] = []
    _put(made, opened, 0, None, value, last=True)
    while opened:
        at, closing, rest, comma = opened[-1]
        found = next(rest, _END)
        if found is _END or len(made) > MOST_LINES:
            opened.pop()
            depth = made[at].depth
            if found is not _END and found is not None:
                made.append(Branch(depth + 1, (Span("… more: see raw", "dim"),)))
            made[at] = made[at]._replace(end=len(made))
            made.append(Branch(depth, (Span(closing + comma, "dim"),)))
            continue
        assert isinstance(found, tuple)
        _put(made, opened, made[at].depth + 1, found[0], found[1], last=False)
    return made


_END: Final = object()


def _put(
    made: list[Branch],
    opened: list[tuple[int, str, Iterator[Any], str]],
    depth: int,
    name: str | None,
    value: Any,
    *,
    last: bool,
) -> None:
    comma = "" if last else ","
    label = (Span(f'"{sanitise(name, 200)}"', "accent"), Span(": ", "dim")) if name is not None else ()
    is_object = isinstance(value, Pairs)
    if not isinstance(value, list) or not value:
        text = ("{}" if is_object else "[]") if isinstance(value, list) else _scalar(value)
        made.append(Branch(depth, (*label, Span(text), Span(comma, "dim"))))
        return
    opening, closing = ("{", "}") if is_object else ("[", "]")
    if is_object:
        names = ", ".join(sanitise(one, 40) for one, _ in value[:6]) + (", …" if len(value) > 6 else "")
        folded = f"{{ {names} }}"
        rest: Iterator[Any] = iter(value)
    else:
        folded, rest = f"[ {len(value):,} ]", ((None, one) for one in value)
    made.append(Branch(depth, (*label, Span(opening, "dim")), 0, (*label, Span(folded, "dim"), Span(comma, "dim"))))
    opened.append((len(made) - 1, closing, rest, comma))


def _scalar(value: object) -> str:
    if isinstance(value, Number):
        return sanitise(value.token, LONGEST)
    if isinstance(value, str):
        more = f"… ({len(value):,} characters)" if len(value) > LONGEST else ""
        return sanitise(json.dumps(value[:LONGEST], ensure_ascii=False), None) + more
    return {True: "true", False: "false"}.get(value, "null") if isinstance(value, bool) else "null"


class Tree:
    """The lines of a value, some of them folded."""

    def __init__(self, lines: list[Branch]) -> None:
        self.lines = lines
        self.folded: set[int] = set()
        self.visible: list[int] = []
        self._count()

    def toggle(self, place: int, *, fold: bool | None = None) -> int:
        """Fold or unfold the object or array that a visible line opens or lies in; the line where that now stands.

        Args:
            place: number of the line among the visible ones.
            fold: True to fold, False to unfold, None for what it is not.
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
