"""Columns: the columns in which a table shows its rows, and how wide each is drawn."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mcpproxy.wording.spans import Span

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    title: str
    width: int
    """Its width in cells; for a stretching column, the minimum."""
    right: bool = False
    """Whether its text is right-aligned."""
    stretch: int = 0
    """Its share of the remaining room."""
    drop: int = 0
    """Priority for dropping it if room is short: the highest first, 0 never."""


@dataclass(frozen=True)
class TableLine:
    """The content of one row."""

    cells: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """The content of each cell, by the name of its column."""
    wide: str = ""
    """The column whose text extends to the end of the row."""
    spills: str = ""
    """The column whose text extends over the empty cells after it."""


class TableRows(Protocol):
    """The source of rows. The drawing thread calls it, so it must return at once."""

    def __len__(self) -> int: ...

    def want(self, first: int, last: int) -> None:
        """Announces that the rows from `first` to before `last` are about to be requested."""

    def line(self, row: int) -> TableLine:
        """The content of a row; a short placeholder if not known yet."""


class MemoryRows(Generic[T]):
    """Rows that are all in memory, one for each item."""

    def __init__(self, items: Sequence[T] = ()) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def want(self, first: int, last: int) -> None:
        """Do nothing: all rows are in memory."""

    def at(self, row: int) -> T | None:
        """The item of a row, or None if there is no such row."""
        return self.items[row] if row < len(self.items) else None

    def line(self, row: int) -> TableLine:
        """The content of a row."""
        raise NotImplementedError


def layout(columns: Sequence[Column], width: int, gap: int = 1) -> list[tuple[Column, int]]:
    """The columns that fit, with their widths."""
    taken = sum(column.width for column in columns) + gap * (len(columns) - 1)
    gone = set()
    for number in sorted(range(len(columns)), key=lambda number: -columns[number].drop):
        if taken <= width or not columns[number].drop:
            break
        gone.add(number)
        taken -= columns[number].width + gap
    kept = [column for number, column in enumerate(columns) if number not in gone]
    left = max(0, width - taken)
    sized = []
    for number, column in enumerate(kept):
        share = left * column.stretch // sum(later.stretch for later in kept[number:]) if column.stretch else 0
        left -= share
        sized.append((column, column.width + share))
    return sized


def spread(columns: Sequence[tuple[Column, int]], line: TableLine, gap: int = 1) -> Iterator[tuple[Column, int]]:
    """The columns of a line: the column whose text spills extends over the empty ones after it."""
    rest = deque(columns)
    while rest:
        column, width = rest.popleft()
        while (
            column.name == line.spills and rest and not any(span.text for span in line.cells.get(rest[0][0].name, ()))
        ):
            width += gap + rest.popleft()[1]
        yield column, width
