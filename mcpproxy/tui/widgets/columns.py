"""Columns: the columns of a table, and how wide each of them is drawn."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mcpproxy.tui.colours.rules import RowLook
from mcpproxy.wording.spans import Span

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    title: str
    width: int
    """The width in cells; for a stretching column, the minimum."""
    is_right_aligned: bool = False
    """Whether the text is right-aligned."""
    stretch: int = 0
    """The column's share of the remaining room, relative to the other columns; 0 if it does not stretch."""
    drop: int = 0
    """The order in which columns are dropped if room is short: the highest first, 0 never."""


@dataclass(frozen=True)
class TableLine:
    """The content of one row."""

    cells: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """The content of each cell, by the name of its column."""
    wide_column: str = ""
    """The column whose text extends to the end of the row."""
    spilling_column: str = ""
    """The column whose text extends over the empty cells after it."""
    look: RowLook | None = None
    """What the user's colour rules make of the row; None if none selects it."""


class TableRows(Protocol):
    """The source of rows. The drawing thread calls it, so it must return at once."""

    def __len__(self) -> int: ...

    def prefetch(self, first: int, last: int) -> None:
        """Announces that the rows from `first` to before `last` are about to be requested."""

    def line(self, row: int) -> TableLine:
        """The content of a row; a short placeholder if not known yet."""


class MemoryRows(Generic[T]):
    """Rows that are all in memory, one for each item."""

    def __init__(self, items: Sequence[T] = ()) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def prefetch(self, first: int, last: int) -> None:
        """Do nothing: all rows are in memory."""

    def at(self, row: int) -> T | None:
        """The item of a row, or None if there is no such row."""
        return self.items[row] if row < len(self.items) else None

    def line(self, row: int) -> TableLine:
        """The content of a row."""
        raise NotImplementedError


def layout(columns: Sequence[Column], width: int, gap: int = 1) -> list[tuple[Column, int]]:
    """Returns the columns that fit, with their widths."""
    used_cells = sum(column.width for column in columns) + gap * (len(columns) - 1)
    dropped_numbers = set()
    for number in sorted(range(len(columns)), key=lambda number: -columns[number].drop):
        if used_cells <= width or not columns[number].drop:
            break
        dropped_numbers.add(number)
        used_cells -= columns[number].width + gap
    kept_columns = [column for number, column in enumerate(columns) if number not in dropped_numbers]
    cells_left = max(0, width - used_cells)
    column_widths = []
    for number, column in enumerate(kept_columns):
        share = (
            cells_left * column.stretch // sum(later_column.stretch for later_column in kept_columns[number:])
            if column.stretch
            else 0
        )
        cells_left -= share
        column_widths.append((column, column.width + share))
    return column_widths


def line_layout(columns: Sequence[tuple[Column, int]], line: TableLine, gap: int = 1) -> Iterator[tuple[Column, int]]:
    """Yields the columns of a line and their widths; the spilling column extends over the empty ones after it."""
    later_columns = deque(columns)
    while later_columns:
        column, width = later_columns.popleft()
        while (
            column.name == line.spilling_column
            and later_columns
            and not any(span.text for span in line.cells.get(later_columns[0][0].name, ()))
        ):
            width += gap + later_columns.popleft()[1]
        yield column, width
