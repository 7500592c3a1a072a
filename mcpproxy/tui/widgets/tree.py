"""JSON as lines: objects and arrays fold, strings unfold; tokens and duplicates as written; up to a limit."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.message import Number
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.text.lines import TextLimitReached, TextLines
from mcpproxy.wording.exact_json import Pairs, quoted
from mcpproxy.wording.spans import Span

MAX_TREE_LINES: Final = 20_000
"""The maximum number of lines of one value; the rest is in the raw bytes."""
MAX_STRING_CHARS: Final = 4096
"""How many characters of one string are shown."""
_INDENT: Final = 2
_UNKNOWN: Final = 80
"""How many cells a line is assumed to have if its width is unknown."""


class Branch(NamedTuple):
    """A line."""

    depth: int
    spans: tuple[Span, ...]
    end: int = -1
    """For a line that opens an object or array, the line that closes it."""
    folded: tuple[Span, ...] = ()
    """What is shown instead when it is folded."""
    value: str | None = None
    """The string on the line; None for any other value."""
    label: tuple[Span, ...] = ()
    """The text before the string."""


def branches(value: Any) -> list[Branch]:
    """The lines of a parsed value."""
    lines: list[Branch] = []
    levels: list[_Level] = []
    _put(lines, levels, 0, _Item(None, value, is_last=True))
    while levels:
        level = levels[-1]
        depth = lines[level.line].depth
        item = next(level.rest, None) if len(lines) <= MAX_TREE_LINES else None
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
    """Add the line of a value, or the line that opens it."""
    name, value, is_last = item
    comma = "" if is_last else ","
    label = (Span(quoted(name[:200]), "accent"), Span(": ", "dim")) if name is not None else ()
    is_object = isinstance(value, Pairs)
    if not isinstance(value, list) or not value:
        text = ("{}" if is_object else "[]") if isinstance(value, list) else _scalar(value)
        string = value if isinstance(value, str) else None
        lines.append(Branch(depth, (*label, Span(text), Span(comma, "dim")), value=string, label=label))
        return
    opening, closing = ("{", "}") if is_object else ("[", "]")
    folded = f"[ {len(value):,} ]"
    if is_object:
        folded = f"{{ {', '.join(sanitise(key, 40) for key, _ in value[:6])}{', …' if len(value) > 6 else ''} }}"
    lines.append(Branch(depth, (*label, Span(opening, "dim")), 0, (*label, Span(folded, "dim"), Span(comma, "dim"))))
    levels.append(_Level(len(lines) - 1, closing + comma, _items(value)))


def _scalar(value: object) -> str:
    if isinstance(value, Number):
        return sanitise(value.token, MAX_STRING_CHARS)
    if isinstance(value, str):
        more = f"… ({len(value):,} characters)" if len(value) > MAX_STRING_CHARS else ""
        return quoted(value[:MAX_STRING_CHARS]) + more
    return {True: "true", False: "false"}.get(value, "null") if isinstance(value, bool) else "null"


class Tree:
    """The lines of a value; objects and arrays fold, strings unfold."""

    def __init__(self, lines: list[Branch]) -> None:
        self.lines = lines
        self.width = 0
        """The width of a line in cells; 0 if unknown. A string that does not fit unfolds."""
        self.folded: set[int] = set()
        self.unfolded: dict[int, TextLines] = {}
        """By line: the text of its string, with its line ends."""
        self.visible: list[int] = []
        """The line of each visible line."""
        self.parts: list[int] = []
        """For each visible line: which line of an unfolded string it is; -1 for the line itself."""
        self._count()

    def __len__(self) -> int:
        return len(self.visible)

    def __bool__(self) -> bool:
        return True

    def is_like(self, other: "Tree | None") -> bool:
        """Whether another tree has the same lines and width, however it is folded."""
        return other is not None and self.width == other.width and self.lines == other.lines

    def fit(self, width: int) -> None:
        """Wrap unfolded strings at a width."""
        if width != self.width:
            self.width = width
            self.unfolded = {line: self._text(line) for line in self.unfolded}
            self._count()

    def toggle(self, place: int, *, fold: bool | None = None) -> int:
        """Fold or unfold the string, object or array that a visible line opens or belongs to; returns its line now.

        Args:
            place: number of the line among the visible ones.
            fold: True to fold, False to unfold, None to toggle.
        """
        if not 0 <= place < len(self.visible):
            return place
        line = self.visible[place]
        if line in self.unfolded:
            if fold is not False:
                del self.unfolded[line]
                self._count()
            return self.place(line) if fold is not False else place
        if fold is not True and self.unfolds(line):
            self.unfold(line)
            return self.place(line)
        if self.lines[line].end <= line and fold is not False:
            line = self._around(line)
        if self.lines[line].end > line:
            is_folded = line in self.folded
            if fold is None or fold != is_folded:
                (self.folded.discard if is_folded else self.folded.add)(line)
                self._count()
        return self.place(line)

    def unfolds(self, line: int) -> bool:
        """Whether the string of a line is worth unfolding: it has escapes, or does not fit."""
        branch = self.lines[line]
        if branch.value is None:
            return False
        text = branch.spans[-2].text
        size = _INDENT * (branch.depth + 1) + sum(len(span.text) for span in branch.spans)
        return len(text) - 2 != len(branch.value) or "\\" in text or 0 < self.width < size

    def unfold(self, line: int) -> None:
        """Show the string of a line with its line ends."""
        self.unfolded[line] = self._text(line)
        self._count()

    def reveal(self, line: int) -> None:
        """Unfold all objects and arrays around a line."""
        around = [at for at in self.folded if at < line <= self.lines[at].end]
        if around:
            self.folded.difference_update(around)
            self._count()

    def place(self, line: int, part: int = -1) -> int:
        """Where a line is among the visible ones."""
        return bisect_left(self.visible, line) + part + 1

    def is_on_sign(self, place: int, cell: int) -> bool:
        """Whether a cell of a visible line belongs to the sign `▸` or `▾`."""
        line, part = self.visible[place], self.parts[place]
        begin = _INDENT * self.lines[line].depth
        folds = self.lines[line].end > line or line in self.unfolded or self.unfolds(line)
        return part < 0 and folds and begin <= cell < begin + _INDENT

    def spans(self, place: int) -> tuple[Span, ...]:
        """A visible line."""
        line, part = self.visible[place], self.parts[place]
        branch, is_folded = self.lines[line], line in self.folded
        if part >= 0:
            return (Span(" " * (_INDENT * (branch.depth + 2)), "dim"), *self.unfolded[line][part])
        indent = " " * (_INDENT * branch.depth)
        if line in self.unfolded:
            count = f"{len(branch.value or ''):,} characters"
            return (Span(f"{indent}▾ ", "dim"), *branch.label, Span(count, "dim"))
        mark = ("▸ " if is_folded else "▾ ") if branch.end > line else "▸ " if self.unfolds(line) else "  "
        return (Span(indent + mark, "dim"), *(branch.folded if is_folded else branch.spans))

    def text(self, line: int) -> TextLines:
        """The text of the string of a line, with its line ends."""
        return self.unfolded.get(line) or self._text(line)

    def _text(self, line: int) -> TextLines:
        branch = self.lines[line]
        lines = TextLines((self.width or _UNKNOWN) - _INDENT * (branch.depth + 2))
        try:
            lines.foreign(branch.value or "")
        except TextLimitReached:
            lines.cut()
        return lines

    def _around(self, line: int) -> int:
        return next((at for at in range(line - 1, -1, -1) if self.lines[at].end >= line), line)

    def _count(self) -> None:
        self.visible, self.parts, at = [], [], 0
        while at < len(self.lines):
            self.visible.append(at)
            self.parts.append(-1)
            text = self.unfolded.get(at)
            if text is not None:
                self.visible += [at] * len(text)
                self.parts += range(len(text))
            at = self.lines[at].end + 1 if at in self.folded else at + 1
