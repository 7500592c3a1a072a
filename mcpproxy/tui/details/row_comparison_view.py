"""Row comparison view: the lines of a comparison of two rows: side by side or, if narrow, one above the other."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpproxy.tui.details.change_view import Lines, one_above_other, side_by_side
from mcpproxy.tui.details.row_comparison import RowComparison, RowFact
from mcpproxy.wording.aligned_json import AlignedLine
from mcpproxy.wording.spans import Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

MIN_WIDTH: Final = 20
"""The minimum width of a line, in cells."""
MIN_SIDE_BY_SIDE_CELLS: Final = 96
"""The minimum width of a line to show both sides next to each other, in cells; 100 columns have enough room."""
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
    for line, is_difference in _aligned_rows(comparison, is_wide=is_wide):
        if is_difference and not is_in_run:
            difference_lines.append(len(lines))
        is_in_run = is_difference
        if isinstance(line, AlignedLine):
            lines += side_by_side(line, side_cells) if is_wide else one_above_other(line, width)
        else:
            lines += [[], line]
    return ComparisonText([fit_spans(line, width)[0] for line in lines], difference_lines)


def _aligned_rows(comparison: RowComparison, *, is_wide: bool) -> Iterator[tuple[AlignedLine | list[Span], bool]]:
    """Yields each line of a comparison, or the heading of a part, and whether it is a difference."""
    for fact in comparison.facts:
        yield _fact_line(fact, is_wide=is_wide), fact.is_difference
    for part in comparison.parts:
        yield [Span(part.name, "accent")], False
        for line in part.lines:
            yield line, not line.is_equal
        if not part.is_whole:
            yield [Span("… more: see the frames", "bad")], False


def _fact_line(fact: RowFact, *, is_wide: bool) -> AlignedLine:
    """Returns a fact as a line; if a difference of it does not count, it has no sign."""
    texts = [fact.old or "–", fact.new or "–"]
    if not (is_wide or fact.is_compared) and fact.old != fact.new:
        texts = [" → ".join(texts)] * 2
    old, new = (f"{fact.name:<{_NAME_CELLS}} {text}" for text in texts)
    return AlignedLine(0, old, new, not fact.is_difference)
