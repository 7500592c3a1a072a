"""Find: the search for a text in the detail of a row.

A thread searches, because a detail can be 8 MB of text. In wrapped text, a match may extend over the end of a line.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.widgets.tree import Tree
from mcpproxy.wording.spans import Span

MAX_MATCHES: Final = 10_000
"""The maximum number of matches."""

Lines: TypeAlias = Sequence[Sequence[Span]]
Ranges: TypeAlias = dict[int, list[tuple[int, int]]]
"""By line: the first character of each match, and the one after its last."""


class MatchPosition(NamedTuple):
    """Where a match begins."""

    line: int
    part: int = -1
    """In a tree: the number of the line of an unfolded string; -1 for the line itself."""
    start: int = 0
    """The number of the character in the line."""
    page: int = 0
    """For a row that is shown in pages: the number of the page, from 0."""


class Matches(NamedTuple):
    """The matches of a search."""

    pattern: re.Pattern[str] | None = None
    """What was searched for; None for nothing."""
    positions: Sequence[MatchPosition] = ()
    ranges: Ranges | None = None
    """Where the matches are; None if each line must be searched as it is drawn, as in a tree."""
    is_cut: bool = False
    """Whether there are more matches."""

    def ranges_in_line(self, line: int, text: str) -> Iterable[tuple[int, int]]:
        """Returns the matches in a line to draw.

        Args:
            line: the number of the line.
            text: the whole line.
        """
        if self.pattern is None:
            return ()
        if self.ranges is not None:
            return self.ranges.get(line, ())
        return [match.span() for match in self.pattern.finditer(text)]


def pattern_of(text: str) -> re.Pattern[str] | None:
    """Returns the pattern for a typed text, which matches the text itself in upper or lower case."""
    return re.compile(re.escape(text), re.IGNORECASE) if text else None


def find(content: Lines | Tree, pattern: re.Pattern[str] | None) -> Matches:
    """Returns all matches of a pattern, in order."""
    if pattern is None:
        return Matches()
    if isinstance(content, Tree):
        return _in_tree(content, pattern)
    if isinstance(content, TextLines):
        return _in_text(content, pattern)
    return _in_lines(content, pattern)


class FlowingText:
    """Wrapped lines as one text, in which a match may extend over the end of a line."""

    def __init__(self, lines: TextLines) -> None:
        """Join the lines."""
        texts, starts, position = [], array("Q"), 0
        for number in range(len(lines)):
            if number and not lines.is_continuation(number):
                texts.append("\n")
                position += 1
            starts.append(position)
            texts.append(lines.text(number))
            position += len(texts[-1])
        self.text = "".join(texts)
        self._lines, self._starts = lines, starts

    def position_of(self, start: int) -> MatchPosition:
        """Returns the line of a character of the text, and its position there."""
        line = max(0, bisect_right(self._starts, start) - 1)
        return MatchPosition(line, start=start - self._starts[line] + self._lines.indent(line))

    def add_ranges(self, ranges: Ranges, start: int, end: int) -> None:
        """Add a match to the ranges of its lines."""
        lines, starts = self._lines, self._starts
        line = max(0, bisect_right(starts, start) - 1)
        while line < len(lines) and starts[line] < end:
            first, indent = max(start, starts[line]) - starts[line], lines.indent(line)
            last = min(end - starts[line], len(lines.text(line)))
            ranges.setdefault(line, []).append((first + indent, last + indent))
            line += 1


def _in_text(lines: TextLines, pattern: re.Pattern[str]) -> Matches:
    flow = FlowingText(lines)
    positions: list[MatchPosition] = []
    ranges: Ranges = {}
    for match in pattern.finditer(flow.text):
        if len(positions) >= MAX_MATCHES:
            return Matches(pattern, positions, ranges, is_cut=True)
        positions.append(flow.position_of(match.start()))
        flow.add_ranges(ranges, *match.span())
    return Matches(pattern, positions, ranges)


def _in_lines(lines: Lines, pattern: re.Pattern[str]) -> Matches:
    positions: list[MatchPosition] = []
    ranges: Ranges = {}
    for number, spans in enumerate(lines):
        for match in pattern.finditer("".join(span.text for span in spans)):
            if len(positions) >= MAX_MATCHES:
                return Matches(pattern, positions, ranges, is_cut=True)
            positions.append(MatchPosition(number, start=match.start()))
            ranges.setdefault(number, []).append(match.span())
    return Matches(pattern, positions, ranges)


def _in_tree(tree: Tree, pattern: re.Pattern[str]) -> Matches:
    positions: list[MatchPosition] = []
    for line, branch in enumerate(tree.lines):
        if branch.value is not None and tree.is_unfoldable(line):
            label = "".join(span.text for span in branch.label)
            positions += [MatchPosition(line) for _ in pattern.finditer(label)]
            text_matches = _in_text(tree.text(line), pattern)
            positions += [MatchPosition(line, position.line, position.start) for position in text_matches.positions]
        else:
            spans = "".join(span.text for span in branch.spans)
            positions += [MatchPosition(line) for _ in pattern.finditer(spans)]
        if len(positions) > MAX_MATCHES:
            return Matches(pattern, positions[:MAX_MATCHES], is_cut=True)
    return Matches(pattern, positions)
