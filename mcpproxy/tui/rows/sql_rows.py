"""SQL rows: the tables and views, the rows of a result, one of them in full, and the frame that a row is about."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from mcpproxy.sanitise import sanitise
from mcpproxy.sql.client import Relation, ResultTable
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording.cells import cells, fit, pieces
from mcpproxy.wording.spans import Span

MAX_COLUMN_CELLS: Final = 48
"""The maximum width of a column, in cells; a row in full shows everything."""
MIN_VALUE_CELLS: Final = 20
"""The minimum width of a value in the full row, in cells, regardless of how long the names are."""
MAX_MEASURED_ROWS: Final = 500
"""How many rows are measured to choose the widths of the columns."""
MAX_LAID_OUT_COLUMNS: Final = 500
"""The maximum number of columns that are laid out: more than fit on a terminal, but not all if there are thousands."""
FRAME_COLUMNS: Final = ("frame", "request", "seq", "response")
"""Columns that contain the number of a frame, the most important first."""
CAPTURE_COLUMN: Final = "capture"
"""The column that contains the id of a capture."""
_NUMBER: Final = re.compile(r"[0-9]{1,15}")


class ViewRows(MemoryRows[Relation]):
    """Table rows: the tables and views."""

    COLUMNS: ClassVar = (
        Column("name", "name", 20),
        Column("kind", "", 5, drop=1),
        Column("row", "each row is", 30, stretch=True),
    )

    def line(self, row: int) -> TableLine:
        """Returns the line of a table or view."""
        relation = self.items[row]
        kind = Span("view" if relation.is_view else "table", "dim")
        return TableLine({"name": (Span(relation.name, "accent"),), "kind": (kind,), "row": (Span(relation.row),)})


class ResultRows(MemoryRows[Sequence[str | None]]):
    """Table rows: the rows of a result, from the first visible column on."""

    def __init__(self, result: ResultTable, capture_names: Mapping[str, str]) -> None:
        """Show a result from its first column on.

        Args:
            result: the result.
            capture_names: the names of captures, by their ids, which are shown in place of the ids.
        """
        super().__init__(result.rows)
        self.result = result
        self._capture_names = capture_names
        self.first_column = 0
        """The first column that is shown."""
        self._widths: dict[int, int] = {}

    def show_capture_names(self, capture_names: Mapping[str, str]) -> None:
        """Show other names of captures."""
        self._capture_names, self._widths = capture_names, {}

    def _shown_columns(self) -> range:
        return range(self.first_column, min(self.first_column + MAX_LAID_OUT_COLUMNS, len(self.result.columns)))

    def _width(self, number: int) -> int:
        if number not in self._widths:
            name = cells(sanitise(self.result.columns[number][0], MAX_COLUMN_CELLS))
            self._widths[number] = min(
                MAX_COLUMN_CELLS,
                max([name, *(cells(self._value(row, number) or "NULL") for row in self.items[:MAX_MEASURED_ROWS])]),
            )
        return self._widths[number]

    def columns(self) -> tuple[Column, ...]:
        """Returns the columns to show; the last ones are dropped if there is not enough room."""
        return tuple(
            Column(
                str(number),
                sanitise(name, MAX_COLUMN_CELLS),
                self._width(number),
                is_right_aligned=right,
                drop=number - self.first_column,
            )
            for number in self._shown_columns()
            for name, right in (self.result.columns[number],)
        )

    def line(self, row: int) -> TableLine:
        """Returns the line of a row."""
        values = self.items[row]
        return TableLine({str(number): (cell(self._value(values, number)),) for number in self._shown_columns()})

    def _value(self, values: Sequence[str | None], number: int) -> str | None:
        """The value of a column in a row, with the name of a capture in place of its id."""
        value = values[number]
        is_capture = value is not None and self.result.columns[number][0].casefold() == CAPTURE_COLUMN
        return self._capture_names.get(value, value) if is_capture and value is not None else value


def cell(value: str | None) -> Span:
    """Returns a value as it is shown."""
    return Span("NULL", "dim") if value is None else Span(value)


class FrameRef(NamedTuple):
    """The frame that a row is about."""

    capture: str | None
    """The id of the capture; None if the row does not contain it."""
    frame: int


def frame_ref_of(result: ResultTable, row: int) -> FrameRef | None:
    """Returns the frame that a row is about, or None if the row names no frame."""
    values: dict[str, str] = {}
    for (name, _), value in zip(result.columns, result.rows[row], strict=True):
        if value is not None:
            values.setdefault(name.casefold(), value)
    frame = next((values[name] for name in FRAME_COLUMNS if _NUMBER.fullmatch(values.get(name, ""))), None)
    return None if frame is None else FrameRef(values.get(CAPTURE_COLUMN), int(frame))


def row_lines(result: ResultTable, row: int, width: int, capture_files: Mapping[str, str]) -> list[list[Span]]:
    """Returns a row in full: a line for each value, or more if the value needs them.

    Args:
        result: the result.
        row: the row.
        width: the width of a line, in cells.
        capture_files: the files of captures, by their ids, which are shown after the ids.
    """
    names = [sanitise(name, MAX_COLUMN_CELLS) for name, _ in result.columns]
    margin = max(0, min(max(map(cells, names)), width - MIN_VALUE_CELLS))
    value_width = max(MIN_VALUE_CELLS, width - margin)
    lines: list[list[Span]] = []
    for name, value in zip(names, result.rows[row], strict=True):
        value_span = cell(value)
        file = capture_files.get(value or "") if name.casefold() == CAPTURE_COLUMN else None
        if file is not None:
            value_span = Span(f"{value_span.text}  {file}")
        for number, piece in enumerate(pieces(value_span.text, value_width)):
            label = "" if number else fit(name, margin)
            lines.append([Span(label + " " * (margin - cells(label) + 2), "dim"), Span(piece, value_span.role)])
    return lines
