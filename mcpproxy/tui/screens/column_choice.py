"""Column choice: which columns a list shows, and in which order; kept for the next start, for each list of its own.

The list shows each change at once.
"""

from collections.abc import Callable, Sequence
from threading import Thread
from typing import ClassVar, Final, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen

from mcpproxy.tui.layout_state import save_columns
from mcpproxy.tui.rows.column_texts import MAX_TEXT_CELLS, column_text
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Column, MemoryRows, Table, TableLine
from mcpproxy.wording.spans import Span

HINT_LINES: Final = 3
"""The number of lines with what the column contains and the keys."""
MIN_HINT_HEIGHT: Final = 8
"""The minimum height of the terminal at which the keys are shown, in lines."""


class OfferedColumn(NamedTuple):
    """A column that the user may show or hide."""

    name: str
    label: str
    is_shown: bool
    text: str = ""
    """What it contains."""


class OfferedColumns(MemoryRows[OfferedColumn]):
    """The columns as the rows of a table."""

    COLUMNS = (Column("mark", "", 3), Column("label", "column", 20, stretch=1))

    def line(self, row: int) -> TableLine:
        """Returns the line of a column."""
        column = self.items[row]
        mark = Span("[x]" if column.is_shown else "[ ]", "accent" if column.is_shown else "dim")
        return TableLine({"mark": (mark,), "label": (Span(column.label, "plain" if column.is_shown else "dim"),)})


class ColumnChoiceScreen(ModalScreen[Sequence[str] | None]):
    """Lets the user choose columns.

    Returns their names in order, no names for the default columns, or None if cancelled.
    """

    DEFAULT_CSS = f"""
    ColumnChoiceScreen {{ align: right bottom; background: transparent; overflow: hidden; }}
    ColumnChoiceScreen Vertical {{
        width: {MAX_TEXT_CELLS + 4}; max-width: 100%; max-height: 100%;
        background: $surface; border: round $accent; padding: 0 1;
    }}
    ColumnChoiceScreen SafeText {{ height: {HINT_LINES}; dock: bottom; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "change_column", "show or hide", priority=True, id="show-column"),
        Binding("J,shift+down", "shift(1)", "move down", show=False, id="column-down"),
        Binding("K,shift+up", "shift(-1)", "move up", show=False, id="column-up"),
        Binding("r", "reset", "default columns", id="usual-columns"),
        Binding("escape,q", "dismiss(None)", "back", id="back"),
    ]

    def __init__(
        self,
        offered_columns: Sequence[OfferedColumn],
        show: Callable[[Sequence[str]], None] | None = None,
        below: Screen[None] | None = None,
    ) -> None:
        """Offer columns, in their present order.

        Args:
            offered_columns: the columns.
            show: called with the names of the chosen columns when they change.
            below: the screen with the list.
        """
        super().__init__()
        self._below = below
        self._show = show
        self._rows = OfferedColumns(list(offered_columns))
        self._initial_columns = tuple(offered_columns)

    def compose(self) -> ComposeResult:
        """The columns, and the keys."""
        with Vertical():
            yield Table(OfferedColumns.COLUMNS, id="offered")
            yield SafeText(id="hint")

    def on_mount(self) -> None:
        """Show the columns."""
        self.table.show(self._rows)
        self.table.focus()
        self._show_hint()

    @on(Table.RowHighlighted)
    def _show_hint(self) -> None:
        """Show what the column at the cursor contains, and the keys."""
        column = self._rows.at(self.table.cursor)
        keys = (("Space", "show, hide"), ("J K", "move")), (("Enter", "keep"), ("r", "default"), ("Esc", "cancel"))
        key_lines = [
            [span for key, word in line for span in (Span(key, "accent"), Span(f" {word}  "))] for line in keys
        ]
        self.query_one("#hint", SafeText).show_lines([[Span(column.text if column else "", "dim")], *key_lines])

    def on_resize(self, event: events.Resize) -> None:
        """Fit the box to the terminal."""
        self._fit(event.size.height)

    def _fit(self, height: int) -> None:
        """Make the box as high as its columns need, if there is room; in a low terminal, the columns come first."""
        self.query_one("#hint").display = height >= MIN_HINT_HEIGHT
        box, borders_and_heading = self.query_one(Vertical), 3
        # The keys of the screen below stay whole, if there is room.
        foot_lines = sum(foot.size.height for foot in self._below.query(Foot)) if self._below is not None else 0
        foot_lines = foot_lines if height - foot_lines >= MIN_HINT_HEIGHT else 0
        box.styles.margin = (0, 0, foot_lines, 0)
        box.styles.height = min(height - foot_lines, len(self._rows) + borders_and_heading + HINT_LINES)

    def renew(self, offered_columns: Sequence[OfferedColumn] | None) -> None:
        """Fit the box to what is below it, and offer other columns, as others fit now.

        Args:
            offered_columns: the columns; None if the user has chosen some.
        """
        if not self.is_mounted or not self.is_attached:
            return
        if offered_columns is not None and tuple(offered_columns) != self._initial_columns:
            self._initial_columns = tuple(offered_columns)
            self._rows.items = list(offered_columns)
            self.table.renew()
        self._fit(self.app.size.height)

    @property
    def table(self) -> Table:
        """The list of the columns."""
        return self.query_one("#offered", Table)

    @property
    def columns(self) -> list[OfferedColumn]:
        """The columns, as the user has arranged them so far."""
        return list(self._rows.items)

    def action_change_column(self) -> None:
        """Show or hide the column at the cursor; at least one column stays."""
        columns, position = self.columns, self.table.cursor
        columns[position] = columns[position]._replace(is_shown=not columns[position].is_shown)
        if not any(column.is_shown for column in columns):
            notify(self.app, "at least one column stays")
            return
        self._arrange(columns, position)

    def action_shift(self, by: int) -> None:
        """Move the column at the cursor up or down."""
        columns, position = self.columns, self.table.cursor
        if 0 <= position + by < len(columns):
            columns.insert(position + by, columns.pop(position))
            self._arrange(columns, position + by)

    def _arrange(self, columns: Sequence[OfferedColumn], position: int) -> None:
        self._rows.items = columns
        self.table.renew()
        self.table.go(position)
        self._show_hint()
        if self._show is not None:
            self._show(self._chosen_names)

    @property
    def _chosen_names(self) -> list[str]:
        return [column.name for column in self.columns if column.is_shown]

    def action_reset(self) -> None:
        """Go back to the default columns, which depend on the width."""
        self.dismiss(())

    @on(Table.RowSelected)
    def _accept(self, event: Table.RowSelected) -> None:
        event.stop()
        is_unchanged = tuple(self.columns) == self._initial_columns
        self.dismiss(None if is_unchanged else self._chosen_names)


def offered_columns(table: Table) -> list[OfferedColumn]:
    """Returns the columns of a table: those that it shows, in order, among those that it does not show."""
    shown_names = table.chosen_names or tuple(column.name for column in table.shown_columns)
    natural_names = [column.name for column in table.columns]
    if table.chosen_names:
        known_names = [name for name in dict.fromkeys(shown_names) if name in natural_names]
        natural_names = [*known_names, *(name for name in natural_names if name not in known_names)]
    columns = {column.name: column for column in table.columns}
    return [
        OfferedColumn(name, _label(columns[name]), name in shown_names, column_text(table.place, name))
        for name in natural_names
    ]


def _label(column: Column) -> str:
    return column.label or column.title.strip(" ▲▼") or column.name


def choose_columns(screen: Screen[None], table: Table) -> None:
    """Let the user choose the columns of a table on a screen, and keep the choice for the next start."""
    former_names = table.chosen_names

    def apply(names: Sequence[str] | None) -> None:
        table.report_columns = None
        table.choose(former_names if names is None else names)
        if names is not None:
            # The disk may be slow; a choice is made so rarely that a thread for each is good enough.
            Thread(target=save_columns, args=(table.place, tuple(names)), name="columns").start()

    def renew() -> None:
        choice.renew(None if table.chosen_names else offered_columns(table))

    choice = ColumnChoiceScreen(offered_columns(table), table.choose, screen)
    table.report_columns = renew
    screen.app.push_screen(choice, apply)
