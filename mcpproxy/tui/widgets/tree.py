"""JSON as lines, up to a limit: objects and arrays fold, strings unfold; tokens and duplicate names stay as written."""

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
"""The maximum number of characters of a string that are shown."""
_INDENT: Final = 2
_DEFAULT_WIDTH: Final = 80
"""The assumed width of a line, in cells, if its width is unknown."""


class TreeLine(NamedTuple):
    """A line of a tree."""

    depth: int
    spans: tuple[Span, ...]
    end: int = -1
    """For a line that opens an object or array, the line that closes it."""
    folded_spans: tuple[Span, ...] = ()
    """The spans that are shown instead when the line is folded."""
    value: str | None = None
    """The string on the line; None for any other value."""
    label: tuple[Span, ...] = ()
    """The text before the string."""


def tree_lines(value: Any) -> list[TreeLine]:
    """The lines of a parsed value."""
    lines: list[TreeLine] = []
    levels: list[_Level] = []
    _append_line(lines, levels, 0, _Item(None, value, is_last=True))
    while levels:
        level = levels[-1]
        depth = lines[level.line].depth
        item = next(level.items, None) if len(lines) <= MAX_TREE_LINES else None
        if item is not None:
            _append_line(lines, levels, depth + 1, item)
            continue
        levels.pop()
        if next(level.items, None) is not None:
            lines.append(TreeLine(depth + 1, (Span("… more: see raw", "dim"),)))
        lines[level.line] = lines[level.line]._replace(end=len(lines))
        lines.append(TreeLine(depth, (Span(level.closing, "dim"),)))
    return lines


class _Item(NamedTuple):
    """A member of an object, or an element of an array."""

    name: str | None
    value: Any
    is_last: bool


class _Level(NamedTuple):
    """An object or array whose lines are being written."""

    line: int
    closing: str
    items: Iterator[_Item]


def _items(value: list[Any]) -> Iterator[_Item]:
    last_number = len(value) - 1
    for number, item in enumerate(value):
        name, inner = item if isinstance(value, Pairs) else (None, item)
        yield _Item(name, inner, is_last=number == last_number)


def _append_line(lines: list[TreeLine], levels: list[_Level], depth: int, item: _Item) -> None:
    """Add the line of a value, or the line that opens it."""
    name, value, is_last = item
    comma = "" if is_last else ","
    label = (Span(quoted(name[:200]), "accent"), Span(": ", "dim")) if name is not None else ()
    is_object = isinstance(value, Pairs)
    if not isinstance(value, list) or not value:
        text = ("{}" if is_object else "[]") if isinstance(value, list) else _scalar(value)
        string = value if isinstance(value, str) else None
        lines.append(TreeLine(depth, (*label, Span(text), Span(comma, "dim")), value=string, label=label))
        return
    opening, closing = ("{", "}") if is_object else ("[", "]")
    folded_text = f"[ {len(value):,} ]"
    if is_object:
        folded_text = f"{{ {', '.join(sanitise(key, 40) for key, _ in value[:6])}{', …' if len(value) > 6 else ''} }}"
    lines.append(
        TreeLine(depth, (*label, Span(opening, "dim")), 0, (*label, Span(folded_text, "dim"), Span(comma, "dim")))
    )
    levels.append(_Level(len(lines) - 1, closing + comma, _items(value)))


def _scalar(value: object) -> str:
    if isinstance(value, Number):
        return sanitise(value.token, MAX_STRING_CHARS)
    if isinstance(value, str):
        ellipsis = f"… ({len(value):,} characters)" if len(value) > MAX_STRING_CHARS else ""
        return quoted(value[:MAX_STRING_CHARS]) + ellipsis
    return {True: "true", False: "false"}.get(value, "null") if isinstance(value, bool) else "null"


class Tree:
    """The lines of a value; objects and arrays fold, strings unfold."""

    def __init__(self, lines: list[TreeLine]) -> None:
        self.lines = lines
        self.width = 0
        """The width of a line in cells; 0 if unknown. A string that does not fit unfolds."""
        self.folded_lines: set[int] = set()
        self.unfolded_texts: dict[int, TextLines] = {}
        """The texts of unfolded strings, with their line ends, by line."""
        self.visible_lines: list[int] = []
        """The numbers of the visible lines."""
        self.parts: list[int] = []
        """For each visible line, which line of an unfolded string it is; -1 for a line of the tree itself."""
        self._update_visible()

    def __len__(self) -> int:
        return len(self.visible_lines)

    def __bool__(self) -> bool:
        return True

    def is_like(self, other: "Tree | None") -> bool:
        """Whether another tree has the same lines and width, however it is folded."""
        return other is not None and self.width == other.width and self.lines == other.lines

    def fit(self, width: int) -> None:
        """Wrap unfolded strings at a width."""
        if width != self.width:
            self.width = width
            self.unfolded_texts = {line: self._text(line) for line in self.unfolded_texts}
            self._update_visible()

    def toggle(self, index: int, *, fold: bool | None = None) -> int:
        """Fold or unfold the string, object or array that a visible line opens or belongs to; returns its line now.

        Args:
            index: the index of the line among the visible ones.
            fold: True to fold, False to unfold, None to toggle.
        """
        if not 0 <= index < len(self.visible_lines):
            return index
        line = self.visible_lines[index]
        if line in self.unfolded_texts:
            if fold is not False:
                del self.unfolded_texts[line]
                self._update_visible()
            return self.visible_index(line) if fold is not False else index
        if fold is not True and self.is_unfoldable(line):
            self.unfold(line)
            return self.visible_index(line)
        if self.lines[line].end <= line and fold is not False:
            line = self._enclosing_line(line)
        if self.lines[line].end > line:
            is_folded = line in self.folded_lines
            if fold is None or fold != is_folded:
                (self.folded_lines.discard if is_folded else self.folded_lines.add)(line)
                self._update_visible()
        return self.visible_index(line)

    def is_unfoldable(self, line: int) -> bool:
        """Whether the string of a line is worth unfolding: it has escapes, or does not fit."""
        branch = self.lines[line]
        if branch.value is None:
            return False
        text = branch.spans[-2].text
        size = _INDENT * (branch.depth + 1) + sum(len(span.text) for span in branch.spans)
        return len(text) - 2 != len(branch.value) or "\\" in text or 0 < self.width < size

    def unfold(self, line: int) -> None:
        """Show the string of a line with its line ends."""
        self.unfolded_texts[line] = self._text(line)
        self._update_visible()

    def reveal(self, line: int) -> None:
        """Unfold all objects and arrays around a line."""
        folded_ancestors = [ancestor for ancestor in self.folded_lines if ancestor < line <= self.lines[ancestor].end]
        if folded_ancestors:
            self.folded_lines.difference_update(folded_ancestors)
            self._update_visible()

    def visible_index(self, line: int, part: int = -1) -> int:
        """The index of a line among the visible ones."""
        return bisect_left(self.visible_lines, line) + part + 1

    def is_on_sign(self, index: int, cell: int) -> bool:
        """Whether a cell of a visible line belongs to the sign `▸` or `▾`."""
        line, part = self.visible_lines[index], self.parts[index]
        start = _INDENT * self.lines[line].depth
        folds = self.lines[line].end > line or line in self.unfolded_texts or self.is_unfoldable(line)
        return part < 0 and folds and start <= cell < start + _INDENT

    def spans(self, index: int) -> tuple[Span, ...]:
        """The spans of a visible line."""
        line, part = self.visible_lines[index], self.parts[index]
        branch, is_folded = self.lines[line], line in self.folded_lines
        if part >= 0:
            return (Span(" " * (_INDENT * (branch.depth + 2)), "dim"), *self.unfolded_texts[line][part])
        indent = " " * (_INDENT * branch.depth)
        if line in self.unfolded_texts:
            count = f"{len(branch.value or ''):,} characters"
            return (Span(f"{indent}▾ ", "dim"), *branch.label, Span(count, "dim"))
        sign = ("▸ " if is_folded else "▾ ") if branch.end > line else "▸ " if self.is_unfoldable(line) else "  "
        return (Span(indent + sign, "dim"), *(branch.folded_spans if is_folded else branch.spans))

    def text(self, line: int) -> TextLines:
        """The text of the string of a line, with its line ends."""
        return self.unfolded_texts.get(line) or self._text(line)

    def _text(self, line: int) -> TextLines:
        branch = self.lines[line]
        lines = TextLines((self.width or _DEFAULT_WIDTH) - _INDENT * (branch.depth + 2))
        try:
            lines.write_foreign(branch.value or "")
        except TextLimitReached:
            lines.write_cut_notice()
        return lines

    def _enclosing_line(self, line: int) -> int:
        return next((ancestor for ancestor in range(line - 1, -1, -1) if self.lines[ancestor].end >= line), line)

    def _update_visible(self) -> None:
        self.visible_lines, self.parts, line = [], [], 0
        while line < len(self.lines):
            self.visible_lines.append(line)
            self.parts.append(-1)
            text = self.unfolded_texts.get(line)
            if text is not None:
                self.visible_lines += [line] * len(text)
                self.parts += range(len(text))
            line = self.lines[line].end + 1 if line in self.folded_lines else line + 1
