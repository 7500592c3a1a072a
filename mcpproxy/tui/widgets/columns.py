"""Columns: the columns of a table, and how wide each of them is drawn."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    is_extra: bool = False
    """Whether it is shown only if the user has chosen it."""
    label: str = ""
    """What the list of columns to choose from calls it, if the title does not say it."""


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


def columns_to_show(columns: Sequence[Column], chosen_names: Sequence[str]) -> tuple[Column, ...]:
    """Returns the columns that a user has chosen, in the chosen order; if room is short, the last are dropped first.

    Names of columns that do not exist are ignored. Without a name of one that does, all columns that are not extra
    are returned.

    Args:
        columns: all columns that there are.
        chosen_names: the names of those chosen; empty without a choice.
    """
    by_name = {column.name: column for column in columns}
    chosen = [by_name[name] for name in dict.fromkeys(chosen_names) if name in by_name]
    if not chosen:
        return tuple(column for column in columns if not column.is_extra)
    return tuple(replace(column, drop=number) for number, column in enumerate(chosen))


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
