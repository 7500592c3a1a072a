"""Latency rows: the figures of each kind of request, in columns as wide as their texts; shapes get what is left."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import log2
from typing import Final

from analysis.conversation.durations import octave_ns
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.latencies import KindFigures
from mcpproxy.tui.rows.fitted_columns import fitted_columns
from mcpproxy.tui.rows.latency_lines import ABANDONED_COLUMN, abandoned_cell
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording.blocks import distribution_text
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.units import brief_duration

MIN_SHAPE_CELLS: Final = 10
"""The width that shapes get before names get all they need, in cells."""
MAX_SHAPE_CELLS: Final = 24
"""The maximum width of a shape, in cells."""
MAX_CELLS_PER_OCTAVE: Final = 3
"""The maximum width of the block for an octave, in cells."""
SINGLE_SIGN: Final = "│"
"""The shape of a single response."""
MIN_WIDE_CELLS: Final = 100
"""The minimum width of the table at which no heading is shortened, in cells."""
MAX_MEASURED_ROWS: Final = 200
"""How many rows are measured to fit the columns: the first ones, so that thousands of kinds cost no more."""
MAX_NAME_CHARS: Final = 200
"""The maximum length of a method with its name, in characters."""
UNANSWERED_COLUMN: Final = Column("unanswered", "unanswered", 10, is_right_aligned=True)
"""How many calls got no response. The column is left out if all got one."""
COLUMNS: Final = (
    Column("call", "method / name", 20, stretch=True),
    Column("asked", "n", 7, is_right_aligned=True),
    Column("errors", "err", 5, is_right_aligned=True, drop=1),
    UNANSWERED_COLUMN,
    ABANDONED_COLUMN,
    Column("p50", "p50", 6, is_right_aligned=True, drop=2),
    Column("p90", "p90", 6, is_right_aligned=True, drop=6),
    Column("p95", "p95", 6, is_right_aligned=True),
    Column("p99", "p99", 6, is_right_aligned=True, drop=4),
    Column("most", "max", 6, is_right_aligned=True, drop=3),
    Column("shape", "shape", MIN_SHAPE_CELLS, drop=5, label="shape"),
)
SORT_COLUMNS: Final[Mapping[str, str]] = {
    column.name: column.title for column in COLUMNS[1:-1] if column not in (ABANDONED_COLUMN, UNANSWERED_COLUMN)
} | {"call": "name", "unanswered": "unanswered"}
"""The orders of the rows, by the columns whose headings select them."""


class LatencyRows(MemoryRows[KindFigures]):
    """Kinds of requests as the rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.axis: tuple[int, int] | None = None
        """The first and last octave of the axis that all shapes share; None if each has its own."""
        self._shape_cells, self._octave_cells = MIN_SHAPE_CELLS, 1
        """The most blocks of a shape, and the width of each, in cells."""

    def line(self, row: int) -> TableLine:
        """The cells of a kind."""
        figures = self.items[row]
        return TableLine(
            {
                "call": (Span(sanitise(figures.kind.text, MAX_NAME_CHARS)),),
                "asked": (Span(f"{figures.requests:,}"),),
                "errors": (Span(f"{figures.errors:,}", "bad" if figures.errors else "dim"),),
                "unanswered": (Span(f"{figures.unanswered:,}", "bad" if figures.unanswered else "dim"),),
                "abandoned": abandoned_cell(figures.abandoned),
                "p50": (_duration_span(figures.p50_ns),),
                "p90": (_duration_span(figures.p90_ns),),
                "p95": (_duration_span(figures.p95_ns, "accent"),),
                "p99": (_duration_span(figures.p99_ns),),
                "most": (_duration_span(figures.max_ns),),
                "shape": (Span(self._shape(figures), "accent"),),
            }
        )

    def _shape(self, figures: KindFigures) -> str:
        """Returns the distribution of a kind; of a single response, a mark at its place on the axis."""
        if figures.answered == 1 and figures.max_ns is not None:
            low, high = self.axis or _octaves_of(figures)
            octave = log2(max(1, figures.max_ns) / octave_ns(0)[0])
            shape_cells = min(self._shape_cells, high - low + 1) * self._octave_cells
            position = int((octave - low) * shape_cells / (high - low + 1))
            return " " * max(0, min(shape_cells - 1, position)) + SINGLE_SIGN
        blocks = distribution_text(figures.octaves, self._shape_cells, self.axis)
        return "".join(block * self._octave_cells for block in blocks)

    def fit_columns(self, width: int) -> list[Column]:
        """Fit the columns to what the rows contain, and the shapes to what is left.

        Args:
            width: the width of the table, in cells.

        Returns:
            The columns.
        """
        axes = [self.axis] if self.axis is not None else map(_octaves_of, self.items)
        octaves = max((high - low + 1 for low, high in axes), default=1)
        self._shape_cells, self._octave_cells = MIN_SHAPE_CELLS, 1
        columns = fitted_columns(
            _present_columns(self.items, width), map(self.line, range(min(len(self.items), MAX_MEASURED_ROWS))), width
        )
        if not columns or columns[-1].name != "shape":
            return columns
        left_cells = max(0, width - sum(column.width for column in columns) - len(columns) + 1)
        room = min(MAX_SHAPE_CELLS, columns[-1].width + left_cells)
        self._shape_cells = max(1, min(octaves, room))
        self._octave_cells = max(1, min(MAX_CELLS_PER_OCTAVE, room // octaves))
        heading = self._shape_heading(self._shape_cells * self._octave_cells, room)
        shape_width = max(cells(heading), self._shape_cells * self._octave_cells)
        return [*columns[:-1], replace(columns[-1], title=heading, width=shape_width)]

    def _shape_heading(self, shape_cells: int, room: int) -> str:
        """Returns the range of the axis, its end above the end of the shapes if there is room."""
        if self.axis is None:
            return "shape"
        low, high = (brief_duration(ns) for ns in (octave_ns(self.axis[0])[0], octave_ns(self.axis[1])[1]))
        gap = shape_cells - cells(low + high)
        if gap > 0:
            return f"{low}{' ' * gap}{high}"
        return f"{low}–{high}" if cells(low + high) < room else "shape"


def _octaves_of(figures: KindFigures) -> tuple[int, int]:
    return min(figures.octaves, default=0), max(figures.octaves, default=0)


def _duration_span(ns: int | None, role: Role = "plain") -> Span:
    return Span(brief_duration(ns), "dim" if ns is None else role)


def _present_columns(items: Iterable[KindFigures], width: int) -> list[Column]:
    """Returns the columns, without those in which all rows would be 0."""
    has_unanswered = has_abandoned = False
    for figures in items:
        has_unanswered, has_abandoned = has_unanswered or figures.unanswered > 0, has_abandoned or figures.abandoned > 0
    absent_columns = [
        column
        for column, is_present in ((UNANSWERED_COLUMN, has_unanswered), (ABANDONED_COLUMN, has_abandoned))
        if not is_present
    ]
    return [
        replace(column, title="unans") if column is UNANSWERED_COLUMN and width < MIN_WIDE_CELLS else column
        for column in COLUMNS
        if column not in absent_columns
    ]
