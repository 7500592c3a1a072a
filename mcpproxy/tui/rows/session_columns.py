"""Session columns: columns of the list of sessions that are as wide as what the sessions say.

The name of the capture gets its room first; then the bars get the rest, up to a limit.

A column that once was wide stays wide, so that the columns do not jump while sessions are being recorded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from mcpproxy.tui.widgets.columns import Column, TableLine, columns_to_show, layout
from mcpproxy.wording.cells import cells

MAX_NAME_CELLS: Final = 40
"""The maximum width of the name of a server or a client, in cells."""
NAME_COLUMNS: Final = ("server", "client")
"""The columns with names."""
MAX_USUAL_DROP: Final = 7
"""The columns that are dropped before this one are shown only if there is room for whole names, too."""
BAR_COLUMN: Final = "traffic"
"""The column that gets the room that the others leave."""
MAX_BARS: Final = 40
"""The maximum width of the bars, in cells: more would only stretch them."""
MIN_BARS: Final = 20
"""The minimum width of the bars next to a reason, in cells; in less room, the reason replaces them."""
CAPTURE_COLUMN: Final = "capture"
MAX_CAPTURE_CELLS: Final = 60
"""The maximum width of the name of a capture, in cells."""


class SessionColumns:
    """The columns of the list of sessions, fitted to the sessions."""

    def __init__(self, columns: Sequence[Column]) -> None:
        """Fit nothing yet.

        Args:
            columns: the columns, with the widths that texts of the usual length need.
        """
        self._columns = columns
        self._text_cells = {column.name: cells(column.title) for column in columns}
        self._reason_cells = 0
        """The width of the longest text that takes the place of bars."""

    def bars_width(self, column_width: int) -> int:
        """Returns the width of the bars in their column: what the longest reason leaves, if both fit."""
        cells_left = column_width - self._reason_cells - 1
        return min(MAX_BARS, cells_left if self._reason_cells and cells_left >= MIN_BARS else column_width)

    def fitted(self, lines: Iterable[TableLine], width: int) -> list[Column]:
        """Returns the columns for a table.

        Args:
            lines: the lines whose texts count.
            width: the width of the table, in cells.
        """
        return self._with_shared_rest(self._with_names(lines, width), width)

    def _with_shared_rest(self, columns: Sequence[Column], width: int) -> list[Column]:
        """Returns the columns with room for the names of captures before the bars, and no more than these can use."""
        by_name = {column.name: column for column in columns}
        sizes = {column.name: size for column, size in layout(columns_to_show(columns, ()), width)}
        bars, capture = by_name[BAR_COLUMN], by_name[CAPTURE_COLUMN]
        bar_cells = sizes.get(BAR_COLUMN, 0)
        if bar_cells and CAPTURE_COLUMN in sizes:
            missing_cells = min(MAX_CAPTURE_CELLS, self._text_cells[CAPTURE_COLUMN]) - capture.width
            moved_cells = max(0, min(missing_cells, bar_cells - bars.width))
            by_name[CAPTURE_COLUMN] = replace(capture, width=capture.width + moved_cells)
            bar_cells -= moved_cells
        limit = MAX_BARS + (self._reason_cells + 1 if self._reason_cells else 0)
        if bar_cells > limit:
            by_name[BAR_COLUMN] = replace(bars, width=limit, stretch=0)
        return list(by_name.values())

    def _with_names(self, lines: Iterable[TableLine], width: int) -> list[Column]:
        """Returns the columns, of which the bars get the rest."""
        for line in lines:
            if not line.wide_column:
                self._measure(line)
        columns = [self._fitted(column) for column in self._columns]
        full_columns = [self._with_whole_names(column) for column in columns]
        shown_names = {column.name for column, _ in layout(full_columns, width)}
        if all(column.name in shown_names for column in columns if column.drop <= MAX_USUAL_DROP):
            return full_columns
        # Whole names are more useful than the columns that only wide terminals have room for.
        columns = [replace(column, is_extra=column.drop > MAX_USUAL_DROP) for column in columns]
        sizes = {column.name: column.width for column, _ in layout(columns_to_show(columns, ()), width)}
        cells_left = max(0, width - sum(sizes.values()) - len(sizes) + 1)
        missing = {name: self._name_cells(name) - sizes[name] for name in NAME_COLUMNS if name in sizes}
        for name in sorted(missing, key=lambda name: missing[name]):
            # What one name does not need, the other one gets.
            share = min(missing.pop(name), cells_left // (len(missing) + 1))
            sizes[name] += share
            cells_left -= share
        return [replace(column, width=sizes.get(column.name, column.width)) for column in columns]

    def _measure(self, line: TableLine) -> None:
        for name, spans in line.cells.items():
            # Bars are as wide as their column.
            size = sum(cells(span.text) for span in spans if name != BAR_COLUMN or span.role not in ("accent", "dim"))
            self._text_cells[name] = max(self._text_cells[name], size)
            if name == BAR_COLUMN:
                self._reason_cells = max(self._reason_cells, size)

    def _name_cells(self, name: str) -> int:
        return min(MAX_NAME_CELLS, self._text_cells[name])

    def _with_whole_names(self, column: Column) -> Column:
        return replace(column, width=self._name_cells(column.name)) if column.name in NAME_COLUMNS else column

    def _fitted(self, column: Column) -> Column:
        width = min(column.width, max(1, self._text_cells[column.name]))
        return replace(column, width=width, stretch=int(column.name == BAR_COLUMN))
