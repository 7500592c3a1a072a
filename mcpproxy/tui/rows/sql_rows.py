"""SQL rows: the tables and views, the rows of a result, one of them in full, and the frame that a row is about."""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from mcpproxy.sanitise import sanitise
from mcpproxy.sql.client import Relation, ResultTable
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording.cells import cells, fit, pieces
from mcpproxy.wording.spans import Span

WIDEST: Final = 48
"""The maximum width of a column, in cells; a row in full shows everything."""
NARROWEST: Final = 20
"""The least width of a value in the full row, in cells, however long the names are."""
PROBE: Final = 500
"""How many rows decide the widths of the columns."""
AT_ONCE: Final = 500
"""The maximum number of columns that are laid out: more than fit on a terminal, but not all if there are thousands."""
FRAMES: Final = ("frame", "request", "seq", "response")
"""Columns that hold the number of a frame, the most important first."""
_NUMBER: Final = re.compile(r"[0-9]{1,15}")


class ViewRows(MemoryRows[Relation]):
    """The rows: tables and views."""

    COLUMNS: ClassVar = (
        Column("name", "name", 18),
        Column("kind", "", 5, drop=1),
        Column("row", "each row is", 30, stretch=True),
    )

    def line(self, row: int) -> TableLine:
        """One table or view."""
        relation = self.items[row]
        kind = Span("view" if relation.is_view else "table", "dim")
        return TableLine({"name": (Span(relation.name, "accent"),), "kind": (kind,), "row": (Span(relation.row),)})


class AnswerRows(MemoryRows[Sequence[str | None]]):
    """The rows of a result, from a given column on."""

    def __init__(self, answer: ResultTable) -> None:
        super().__init__(answer.rows)
        self.answer = answer
        self.first = 0
        """The first column that is shown."""
        self._widths: dict[int, int] = {}

    def _shown(self) -> range:
        return range(self.first, min(self.first + AT_ONCE, len(self.answer.columns)))

    def _width(self, at: int) -> int:
        if at not in self._widths:
            name = cells(sanitise(self.answer.columns[at][0], WIDEST))
            self._widths[at] = min(WIDEST, max([name, *(cells(row[at] or "NULL") for row in self.answer.rows[:PROBE])]))
        return self._widths[at]

    def columns(self) -> tuple[Column, ...]:
        """The columns shown: the last ones are dropped if room is short."""
        return tuple(
            Column(str(at), sanitise(name, WIDEST), self._width(at), right=right, drop=at - self.first)
            for at in self._shown()
            for name, right in (self.answer.columns[at],)
        )

    def line(self, row: int) -> TableLine:
        """One row."""
        values = self.items[row]
        return TableLine({str(at): (cell(values[at]),) for at in self._shown()})


def cell(value: str | None) -> Span:
    """A value as it is shown."""
    return Span("NULL", "dim") if value is None else Span(value)


class FrameRef(NamedTuple):
    """The frame that a row is about."""

    capture: str | None
    """The id of the capture; None if the row does not say."""
    frame: int


def place_of(answer: ResultTable, row: int) -> FrameRef | None:
    """The frame that a row is about, or None if it names none."""
    values: dict[str, str] = {}
    for (name, _), value in zip(answer.columns, answer.rows[row], strict=True):
        if value is not None:
            values.setdefault(name.casefold(), value)
    frame = next((values[name] for name in FRAMES if _NUMBER.fullmatch(values.get(name, ""))), None)
    return None if frame is None else FrameRef(values.get("capture"), int(frame))


def row_lines(answer: ResultTable, row: int, room: int) -> list[list[Span]]:
    """A row in full: a line for each value, or as many as it needs."""
    names = [sanitise(name, WIDEST) for name, _ in answer.columns]
    margin = max(0, min(max(map(cells, names)), room - NARROWEST))
    width = max(NARROWEST, room - margin)
    lines: list[list[Span]] = []
    for name, value in zip(names, answer.rows[row], strict=True):
        shown = cell(value)
        for number, piece in enumerate(pieces(shown.text, width)):
            label = "" if number else fit(name, margin)
            lines.append([Span(label + " " * (margin - cells(label) + 2), "dim"), Span(piece, shown.role)])
    return lines
