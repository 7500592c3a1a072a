"""Session columns: fits the columns of the list of sessions to their texts; the bars get the rest.

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


class SessionColumns:
    """The columns of the list of sessions, fitted to the sessions."""

    def __init__(self, columns: Sequence[Column]) -> None:
        """Fit nothing yet.

        Args:
            columns: the columns, with the widths that texts of the usual length need.
        """
        self._columns = columns
        self._text_cells = {column.name: cells(column.title) for column in columns}

    def fitted(self, lines: Iterable[TableLine], width: int) -> list[Column]:
        """Returns the columns for a table.

        Args:
            lines: the lines whose texts count.
            width: the width of the table, in cells.
        """
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
            texts = [span.text for span in spans if name != BAR_COLUMN or span.role == "bad"]
            self._text_cells[name] = max(self._text_cells[name], sum(map(cells, texts)))

    def _name_cells(self, name: str) -> int:
        return min(MAX_NAME_CELLS, self._text_cells[name])

    def _with_whole_names(self, column: Column) -> Column:
        return replace(column, width=self._name_cells(column.name)) if column.name in NAME_COLUMNS else column

    def _fitted(self, column: Column) -> Column:
        width = min(column.width, max(1, self._text_cells[column.name]))
        return replace(column, width=width, stretch=int(column.name == BAR_COLUMN))
