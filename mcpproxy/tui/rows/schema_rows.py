"""Schema rows: the tables and views as a tree, whose branches are the columns of each, with types, and an example."""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from mcpproxy.sql.client import Relation
from mcpproxy.tui.rows.fitted_columns import fitted_columns
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording.spans import Span

MAX_WIDTH: Final = 48
"""The most cells that the tree takes."""
_FOLDED: Final = "▸"
_UNFOLDED: Final = "▾"


class SchemaLine(NamedTuple):
    """A line of the tree: a table or view, one of its columns, or its example."""

    relation: Relation
    column: tuple[str, str] | None = None
    """The name and type of a column."""
    is_example: bool = False

    @property
    def is_relation(self) -> bool:
        """Whether it is the line of the table or view itself, which folds."""
        return self.column is None and not self.is_example

    @property
    def name(self) -> str:
        """The name that it inserts into a query; empty for an example."""
        return "" if self.is_example else self.relation.name if self.column is None else self.column[0]


class SchemaRows(MemoryRows[SchemaLine]):
    """Table rows: the tree; only what is unfolded has lines."""

    FOLD_COLUMN: ClassVar = "fold"
    """The name of the column with the signs of the folds."""
    COLUMNS: ClassVar = (
        Column(FOLD_COLUMN, "", 1),
        Column("name", "tables and views", 18, stretch=True),
        Column("type", "", 12, drop=1),
    )

    def __init__(self, relations: Sequence[Relation] = ()) -> None:
        """Create a tree in which everything is folded."""
        super().__init__([SchemaLine(relation) for relation in relations])
        self.relations = relations
        self._unfolded_names: set[str] = set()

    def line(self, row: int) -> TableLine:
        """Returns the cells of a line."""
        schema_line = self.items[row]
        relation, column = schema_line.relation, schema_line.column
        if schema_line.is_example:
            return TableLine({"name": (Span("  "), Span("example", "warm"))})
        if column is not None:
            return TableLine({"name": (Span("  "), Span(column[0])), "type": (Span(column[1], "dim"),)})
        sign = _UNFOLDED if relation.name in self._unfolded_names else _FOLDED
        return TableLine(
            {
                self.FOLD_COLUMN: (Span(sign, "dim"),),
                "name": (Span(relation.name, "accent"),),
                "type": (Span("view" if relation.is_view else "table", "dim"),),
            }
        )

    def columns(self) -> list[Column]:
        """Returns the columns, as wide as the names and types of what is unfolded need."""
        return fitted_columns(self.COLUMNS, map(self.line, range(len(self))), MAX_WIDTH)

    def fold(self, row: int, *, is_folded: bool | None = None) -> int:
        """Fold or unfold the table or view to which a line belongs; returns the line of the table or view itself.

        Args:
            row: the line.
            is_folded: whether it is then folded; None for the opposite of what it is.
        """
        name = self.items[row].relation.name
        if is_folded if is_folded is not None else name in self._unfolded_names:
            self._unfolded_names.discard(name)
        else:
            self._unfolded_names.add(name)
        self.items = [line for relation in self.relations for line in self._lines_of(relation)]
        return next(number for number, line in enumerate(self.items) if line.relation.name == name)

    def _lines_of(self, relation: Relation) -> list[SchemaLine]:
        lines = [SchemaLine(relation)]
        if relation.name in self._unfolded_names:
            lines += [SchemaLine(relation, (name, type_)) for name, type_, _ in relation.columns]
            lines += [SchemaLine(relation, is_example=True)] if relation.example else []
        return lines
