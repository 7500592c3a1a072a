"""Row comparison view: the lines of a comparison of two rows: side by side or, if narrow, one above the other."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from mcpproxy.tui.details.change_view import Lines, one_above_other, side_by_side
from mcpproxy.tui.details.row_comparison import RowComparison, RowFact
from mcpproxy.wording.aligned_json import AlignedLine
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

MIN_WIDTH: Final = 20
"""The minimum width of a line, in cells."""
MIN_SIDE_BY_SIDE_CELLS: Final = 96
"""The minimum width of a line to show both sides next to each other, in cells; 100 columns have enough room."""
SIGN_CELLS: Final = 2
"""The width of the sign before a line if one side is above the other, in cells."""
_SEPARATOR_CELLS: Final = 3
_NAME_CELLS: Final = 9
"""The width of the name of a fact."""


class ComparisonText(NamedTuple):
    """A comparison as lines."""

    lines: Lines
    difference_lines: list[int]
    """The numbers of the lines where a run of differences begins, ascending."""


def comparison_text(comparison: RowComparison, width: int) -> ComparisonText:
    """Returns a comparison as lines: first whether there is a difference and what is missing, then facts and parts.

    Args:
        comparison: the comparison.
        width: the width of a line, in cells.
    """
    width = max(MIN_WIDTH, width)
    is_wide = width >= MIN_SIDE_BY_SIDE_CELLS
    side_cells = (width - _SEPARATOR_CELLS) // 2
    lines: Lines = [[Span(line, "bad")] for remark in comparison.remarks for line in wrapped(f"▲ {remark}", width)]
    if not comparison.difference_count:
        text = "no difference" if comparison.is_whole else "no difference in what was compared"
        lines = [[Span(text, "accent")], *lines]
    if is_wide:
        lines.append([Span(f"{'old':<{side_cells}}", "dim"), Span(" │ ", "dim"), Span("new", "dim")])
    difference_lines: list[int] = []
    is_in_run = False
    for line, is_difference in _aligned_rows(comparison):
        if is_difference and not is_in_run:
            difference_lines.append(len(lines))
        is_in_run = is_difference
        if isinstance(line, RowFact):
            lines += _fact_lines(line, width, side_cells if is_wide else None)
        elif isinstance(line, AlignedLine):
            lines += side_by_side(line, side_cells) if is_wide else one_above_other(line, width)
        else:
            lines += [[], line]
    return ComparisonText([fit_spans(line, width)[0] for line in lines], difference_lines)


def _aligned_rows(comparison: RowComparison) -> Iterator[tuple[RowFact | AlignedLine | list[Span], bool]]:
    """Yields each fact and line of a comparison, or the heading of a part, and whether it is a difference."""
    for fact in comparison.facts:
        yield fact, fact.is_difference
    for part in comparison.parts:
        yield [Span(part.name, "accent")], False
        for line in part.lines:
            yield line, not line.is_equal
        if not part.is_whole:
            yield [Span("… more: see the frames", "bad")], False


def _fact_lines(fact: RowFact, width: int, side_cells: int | None) -> Lines:
    """Returns a fact as lines; each side keeps its own colour, and only a difference that counts has coloured signs.

    Args:
        fact: the fact.
        width: the width of a line, in cells.
        side_cells: the width of each side, in cells; None if one is above the other.
    """
    is_equal = fact.old == fact.new
    text_cells = max(1, (side_cells or width - SIGN_CELLS) - _NAME_CELLS - 1)
    old, new = (
        [
            [Span(f"{'' if number else fact.name:<{_NAME_CELLS}} "), Span(piece, role)]
            for number, piece in enumerate(wrapped(text or "–", text_cells))
        ]
        for text, role in ((fact.old, fact.old_role), (fact.new, fact.new_role))
    )
    if side_cells is not None:
        separator = Span(" ≠ ", "bad") if fact.is_difference else Span(" │ ", "dim")
        blank = [Span("")]
        return [
            [*left, Span(" " * (side_cells - sum(cells(span.text) for span in left))), separator, *right]
            for left, right in zip_longest(old, new, fillvalue=blank)
        ]
    sides: tuple[tuple[str, Role, Lines], ...] = (
        ((" ", "plain", old),) if is_equal else (("-", "bad", old), ("+", "accent", new))
    )
    return [
        [Span(f"{' ' if number else sign} ", role if fact.is_difference else "dim"), *line]
        for sign, role, lines in sides
        for number, line in enumerate(lines)
    ]
