"""Fitted columns: columns as wide as what they contain, so that no text is cut next to an empty column."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mcpproxy.tui.widgets.columns import Column, TableLine, layout
from mcpproxy.wording.cells import cells


def fitted_columns(columns: Sequence[Column], lines: Iterable[TableLine], width: int) -> list[Column]:
    """Returns the columns that fit, none of which is wider than its heading and its texts.

    A column that does not stretch is as wide as its texts. Those that stretch share what is left.

    Args:
        columns: the columns; the width of one that stretches is the minimum if its texts are wider.
        lines: the lines whose texts count.
        width: the width of the table, in cells.
    """
    text_cells = {column.name: cells(column.title) for column in columns}
    for line in lines:
        for name, spans in line.cells.items():
            text_cells[name] = max(text_cells.get(name, 0), sum(cells(span.text) for span in spans))
    fitted = [
        replace(
            column,
            width=min(column.width, text_cells[column.name]) if column.stretch else max(1, text_cells[column.name]),
        )
        for column in columns
    ]
    # A column that gets more than its texts need leaves the rest to the others, one of which may then need no more.
    while True:
        too_wide = {column.name for column, size in layout(fitted, width) if size > text_cells[column.name]}
        too_wide &= {column.name for column in fitted if column.stretch}
        if not too_wide:
            return [replace(column, width=size, stretch=0, drop=0) for column, size in layout(fitted, width)]
        fitted = [
            replace(column, width=text_cells[column.name], stretch=0) if column.name in too_wide else column
            for column in fitted
        ]
