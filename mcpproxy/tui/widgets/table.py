"""Table: rows drawn line by line on demand, so a million rows cost as much as a screenful.

The table owns no rows. A `TableRows` object says how many there are and what each contains; the table lays them out,
drops columns if the terminal is narrow, and keeps the cursor. It follows the end while the cursor is on the last row;
moving or scrolling away pauses that, and going to the end resumes it. The mouse scrolls without moving the cursor.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, Self

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollTo
from textual.strip import Strip

from mcpproxy.tui.colours.row_styles import painted_styles
from mcpproxy.tui.layout_state import saved_columns
from mcpproxy.tui.safe_text import STYLES, cursor_styles, marked_strip, role_styles, segments, strip
from mcpproxy.tui.widgets.columns import (
    Column,
    MemoryRows,
    TableLine,
    TableRows,
    columns_to_show,
    layout,
    line_layout,
)
from mcpproxy.wording.spans import Role, Span

__all__ = ["Column", "MemoryRows", "Table", "TableLine", "TableRows", "layout"]

BAR_STEPS_PER_LINE: Final = 8
"""How many positions of a scroll bar can be told apart in a line: it is drawn with eighths of a cell."""


class Table(ScrollView, can_focus=True):
    """Rows in columns, with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--plain", "table--accent", "table--server", "table--dim", "table--warm", "table--bad",
        "table--head", "table--cursor", "table--blurred", "table--found",
    }  # fmt: skip
    DEFAULT_CSS = """
    Table {
        background: $surface; color: $foreground; overflow-x: hidden; scrollbar-size-vertical: 1;
        & .table--plain { color: $foreground; }
        & .table--accent { color: $accent; }
        & .table--server { color: $server; }
        & .table--dim { color: $dim; }
        & .table--warm { color: $text-warning; text-style: bold; }
        & .table--bad { color: $text-error; text-style: bold; }
        & .table--head { color: $dim; text-style: bold; background: $panel; }
        & .table--cursor { background: $primary-muted; text-style: bold; }
        & .table--blurred { background: $panel; }
        & .table--found { text-style: underline; color: $foreground; background: $primary-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="up"),
        Binding("down,j", "move(1)", "Down", show=False, id="down"),
        Binding("pageup,ctrl+u,ctrl+b", "page(-1)", "Page up", show=False, id="page-up"),
        Binding("pagedown,ctrl+d,ctrl+f,space", "page(1)", "Page down", show=False, id="page-down"),
        Binding("home,g", "edge(-1)", "First", show=False, id="first"),
        Binding("end,G", "edge(1)", "Last", show=False, id="last"),
        Binding("enter", "choose", "open", id="open"),
        Binding("vertical_line", "choose_columns", "columns", show=False, id="columns"),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)
    following: reactive[bool] = reactive(False, repaint=False)

    class RowHighlighted(Message):
        """The cursor is on another row."""

        def __init__(self, table: "Table", row: int) -> None:
            super().__init__()
            self.table, self.row = table, row

        @property
        def control(self) -> "Table":
            """The table."""
            return self.table

        def can_replace(self, message: Message) -> bool:
            """Whether another message may replace this one: if keys come quickly, only the last position counts."""
            return isinstance(message, Table.RowHighlighted) and message.table is self.table

    class RowSelected(Message):
        """Enter was pressed on a row, or it was clicked a second time."""

        def __init__(self, table: "Table", row: int) -> None:
            super().__init__()
            self.table, self.row = table, row

        @property
        def control(self) -> "Table":
            """The table."""
            return self.table

    class HeadClicked(Message):
        """A click on the heading of a column."""

        def __init__(self, table: "Table", column: str) -> None:
            super().__init__()
            self.table, self.column = table, column

        @property
        def control(self) -> "Table":
            """The table."""
            return self.table

    class ColumnsRequested(Message):
        """The user wants to choose the columns."""

        def __init__(self, table: "Table") -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> "Table":
            """The table."""
            return self.table

    class ColumnsChosen(Message):
        """The user has chosen other columns."""

        def __init__(self, table: "Table") -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> "Table":
            """The table."""
            return self.table

    class CellClicked(Message):
        """A click on a cell of a row."""

        def __init__(self, table: "Table", row: int, column: str) -> None:
            super().__init__()
            self.table, self.row, self.column = table, row, column

        @property
        def control(self) -> "Table":
            """The table."""
            return self.table

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        place: str = "",
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        """Create the table, without rows.

        Args:
            columns: all columns that it can show.
            place: the name of the list in the file that keeps the user's choice of columns; empty if there is none.
            id: the id of the widget.
        """
        super().__init__(id=id)
        self.columns = tuple(columns)
        """All columns that it can show."""
        self.place = place
        """The name of the list for the choice of columns; empty if its columns cannot be chosen."""
        self.chosen_names = saved_columns(place) if place else ()
        """The names of the columns that the user has chosen; empty without a choice."""
        self.report_columns: Callable[[], None] | None = None
        """Called when other columns may fit, while the user chooses columns."""
        self.rows: TableRows = MemoryRows()
        self._count = 0
        self._layout: list[tuple[Column, int]] = []
        self._layout_width = -1
        self._lines: dict[int, TableLine | None] = {}
        """The content that was drawn, by line of the widget; None where there was no row."""
        self._drawn_top = 0
        """The first row of the list when lines were drawn last."""
        self._marked_pattern: re.Pattern[str] | None = None
        """The pattern whose matches are marked in the rows."""
        self._plain_styles: dict[Role, Style] = {}
        self._cursor_styles: dict[Role, Style] = {}
        self._strips: dict[int, Strip] = {}
        """The lines as they were drawn, unless they have to be drawn again."""
        self._bar_look: object = None
        """What the scroll bar looked like when it was moved last."""
        self._look: object = None
        """What all of these lines depend on."""

    # ---- rows

    def show(self, rows: TableRows, *, cursor: int = 0) -> None:
        """Show other rows."""
        self.rows = rows
        self._count = -1
        self.cursor = max(0, cursor)
        self.renew()
        self.go(self.cursor, keep_following=True)

    def set_place(self, place: str) -> None:
        """Use the choice of columns for another list."""
        if place != self.place:
            self.place, self.chosen_names = place, saved_columns(place)
            self._layout_width = -1
            self.refresh()

    def choose(self, names: Sequence[str]) -> None:
        """Show the columns with these names, in this order; without names, those that fit the width."""
        self.chosen_names = tuple(names)
        self._layout_width = -1
        self.refresh()
        self.post_message(self.ColumnsChosen(self))

    def widths(self, width: int) -> dict[str, int]:
        """Returns the widths of the columns that a table of this width shows, by their names, in cells."""
        return {column.name: size for column, size in self._layout_for(width)}

    def _layout_for(self, width: int) -> list[tuple[Column, int]]:
        return layout(columns_to_show(self.columns, self.chosen_names), width)

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show these columns, or those of them that the user has chosen."""
        if tuple(columns) == self.columns:
            return
        self.columns = tuple(columns)
        self._layout_width = -1
        self.refresh()
        if self.report_columns is not None:
            self.report_columns()

    def renew(self) -> None:
        """Redraw the rows, as there may be more of them, or their text may have changed."""
        count = len(self.rows)
        if count != self._count:
            self._set_count(count)
            self.cursor = max(0, min(self.cursor, count - 1))
        if self.following:
            self.go(count - 1, keep_following=True)
        self._draw_changes()

    def _set_count(self, count: int) -> None:
        """Set the height of the content; the screen is laid out again only if the scroll bar appears or disappears."""
        has_grown, self._count = count > self._count >= 0, count
        size = Size(1, count + 1)
        if has_grown and (size.height > self.container_size.height) == self.show_vertical_scrollbar:
            self.set_reactive(Table.virtual_size, size)
            self._move_bar()
        else:
            self.virtual_size = size

    def _move_bar(self) -> None:
        """Move the scroll bar, unless the difference is invisible: drawing it costs as much as drawing several rows."""
        if not self.show_vertical_scrollbar:
            return
        bar, height, content_height = self.vertical_scrollbar, self.container_size.height, self.virtual_size.height
        steps = BAR_STEPS_PER_LINE * height / max(1, content_height)
        look = height, int(steps * height), int(steps * self.scroll_y)
        if look != self._bar_look:
            self._bar_look = look
            bar.window_virtual_size, bar.position = content_height, self.scroll_y

    @property
    def shown_columns(self) -> Sequence[Column]:
        """The columns that fit."""
        return [column for column, _ in self._layout_for(self.room.width)]

    @property
    def room(self) -> Size:
        """The size without the scroll bar."""
        return self.scrollable_content_region.size

    @property
    def page_rows(self) -> int:
        """The number of rows that fit below the heading."""
        return max(1, self.room.height - 1)

    def go(self, row: int, *, keep_following: bool = False) -> None:
        """Put the cursor on a row, and show it."""
        count = len(self.rows)
        if count > self._count:
            self._set_count(count)
        row = max(0, min(row, count - 1))
        if not keep_following:
            self.following = self.following and row == count - 1
        has_moved = row != self.cursor
        self.cursor = row
        top = int(self.scroll_y)
        if row < top:
            self._scroll(row)
        elif row >= top + self.page_rows:
            self._scroll(row - self.page_rows + 1)
        if has_moved:
            self.post_message(self.RowHighlighted(self, row))

    def shift(self, row: int) -> None:
        """Put the cursor on the row where its content is now, at the same place of the screen."""
        # Rows that are added above the first one must not be out of sight.
        top = int(self.scroll_y) + row - self.cursor if self.scroll_y else max(0, row - self.page_rows + 1)
        self._count = len(self.rows)
        self.virtual_size = Size(1, self._count + 1)
        self.cursor = row
        self._scroll(top)

    def go_centered(self, row: int) -> None:
        """Put the cursor on a row, in the middle of the page; near the beginning, show all rows before it."""
        half_page = self.page_rows // 2
        is_near_start = row + half_page // 2 < self.page_rows
        self.go(0 if is_near_start else row + half_page)
        self.go(row if is_near_start else row - half_page)
        self.go(row)

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=max(0, top), animate=False, immediate=True, force=True)

    # ---- keys and mouse

    def action_move(self, by: int) -> None:
        """Move one row up or down."""
        self.go(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move one screenful up or down."""
        self.go(self.cursor + by * self.page_rows)

    def action_edge(self, direction: int) -> None:
        """Go to the first or the last row; on the last row, the end is followed again."""
        self.go(0 if direction < 0 else len(self.rows) - 1)
        if direction > 0:
            self.following = True

    def action_choose(self) -> None:
        """Open the row."""
        if len(self.rows):
            self.post_message(self.RowSelected(self, self.cursor))

    def action_choose_columns(self) -> None:
        """Let the user choose the columns."""
        self.post_message(self.ColumnsRequested(self))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """Whether an action is possible: the columns of some tables cannot be chosen."""
        return action != "choose_columns" or bool(self.place)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row; another click opens the row."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < 1:
            self._click_head(offset.x)
            return
        row = int(self.scroll_y) + offset.y - 1
        if row >= len(self.rows):
            return
        if row == self.cursor and event.chain > 1:
            self.action_choose()
        self.go(row)
        column = self._column_at(offset.x)
        if column is not None:
            self.post_message(self.CellClicked(self, row, column))

    def _click_head(self, x: int) -> None:
        column = self._column_at(x)
        if column is not None:
            self.post_message(self.HeadClicked(self, column))

    def _column_at(self, x: int) -> str | None:
        """The name of the column at a cell of a line, or None if there is none."""
        right_edge = 0
        for column, width in self._layout_for(self.room.width):
            right_edge += width + 1
            if x < right_edge:
                return column.name
        return None

    def on_mouse_scroll_up(self) -> None:
        """Pause following, as the user scrolls away from the end."""
        self.following = False

    def on_scroll_up(self) -> None:
        """Pause following, as the user clicks above the thumb of the scroll bar."""
        self.following = False

    def on_scroll_to(self, event: ScrollTo) -> None:
        """Pause following if the scroll bar is dragged away from the end."""
        self.following = self.following and event.y is not None and event.y >= self.max_scroll_y

    def watch_cursor(self, old_row: int, new_row: int) -> None:
        """Draw the row that the cursor has left, and the row that it is on."""
        top = int(self.scroll_y)
        self._redraw_lines((old_row - top + 1, new_row - top + 1))

    def validate_scroll_y(self, value: float) -> float:
        """Start at a whole line: a dragged scroll bar may stop within one, which would leave lines undrawn."""
        return round(super().validate_scroll_y(value))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the rows that are in sight now; the cursor may be out of sight until the next key that moves it."""
        self._move_bar()
        if new_value != old_value:
            self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self.call_after_refresh(self._stay_in_sight)
        if self.report_columns is not None:
            self.report_columns()

    def _stay_in_sight(self) -> None:
        # The cursor may have moved since the resize.
        self.go(self.cursor, keep_following=True)

    def on_focus(self) -> None:
        """Redraw the cursor, which looks different with the focus."""
        self.refresh()

    def on_blur(self) -> None:
        """Redraw the cursor, which looks different without the focus."""
        self.refresh()

    # ---- drawing

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw regions again, or everything."""
        if regions:
            for y in (y for region in regions for y in region.line_range):
                self._strips.pop(y, None)
        else:
            self._strips.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines of a region. All rows are announced first, so that they are read together.

        Textual's own method also prepares each line for a border, which most tables do not have, and for effects, which
        none has.
        """
        self._drawn_top = int(self.scroll_y)
        self._prefetch(self._drawn_top)
        base = self.rich_style
        self._plain_styles = role_styles(self, base, "table")
        if self.has_focus:
            self._cursor_styles = cursor_styles(self, base, "table")
        else:
            blurred = self.get_component_rich_style("table--blurred", partial=True)
            self._cursor_styles = role_styles(self, base + blurred, "table")
        if any(self.gutter):
            return super().render_lines(crop)
        look = self.size, self._drawn_top, self._plain_styles, self._cursor_styles
        if look != self._look:
            self._look = look
            self._strips.clear()
        missing = [y for y in crop.line_range if y not in self._strips]
        filters, background = self.get_line_filters(), self.background_colors[1]
        for y in missing:
            line_strip = self.render_line(y)
            for line_filter in filters:
                line_strip = line_strip.apply_filter(line_filter, background)
            self._strips[y] = line_strip
        strips = [self._strips[y] for y in crop.line_range]
        is_whole = crop.column_span == (0, self.size.width)
        return strips if is_whole else [line_strip.crop(*crop.column_span) for line_strip in strips]

    def render_line(self, y: int) -> Strip:
        """Draw one line: the heading, a row, or an empty line."""
        width = self.room.width
        if width != self._layout_width:
            self._layout, self._layout_width = self._layout_for(width), width
        if y == 0:
            return self._heading_strip(width)
        row = int(self.scroll_y) + y - 1
        line = self._lines[y] = self._line(row)
        if line is None:
            return strip(segments((), width, self._plain_styles), width)
        is_cursor = row == self.cursor
        styles = self._cursor_styles if is_cursor else self._plain_styles
        if line.look is not None:
            styles = painted_styles(self, styles, line.look, is_cursor=is_cursor)
        line_strip = self._line_strip(line, width, styles)
        if self._marked_pattern is None:
            return line_strip
        text, style = line_strip.text, self.get_component_rich_style("table--found", partial=True)
        return marked_strip(line_strip, text, [(*match.span(), style) for match in self._marked_pattern.finditer(text)])

    def mark_matches(self, pattern: re.Pattern[str] | None) -> None:
        """Mark the matches of a pattern in the rows."""
        if pattern != self._marked_pattern:
            self._marked_pattern = pattern
            self.refresh()

    def _draw_changes(self) -> None:
        """Draw the rows whose content differs from what was drawn.

        Everything that is drawn goes to the terminal, perhaps over a network, which takes longer than a comparison.
        """
        top = int(self.scroll_y)
        if top != self._drawn_top:
            return  # all rows will be drawn, as they have been scrolled
        self._prefetch(top)
        self._redraw_lines(
            y for y, line in self._lines.items() if y <= self.page_rows and line != self._line(top + y - 1)
        )

    def _redraw_lines(self, screen_lines: Iterable[int]) -> None:
        regions = [Region(0, y, self.room.width, 1) for y in screen_lines if 0 < y <= self.page_rows]
        if regions:
            self.refresh(*regions)

    def _prefetch(self, top: int) -> None:
        self.rows.prefetch(top, min(len(self.rows), top + self.page_rows))

    def _line(self, row: int) -> TableLine | None:
        return self.rows.line(row) if row < len(self.rows) else None

    def _heading_strip(self, width: int) -> Strip:
        style = self.rich_style + self.get_component_rich_style("table--head", partial=True)
        cells = {column.name: (Span(column.title),) for column, _ in self._layout}
        return self._line_strip(TableLine(cells), width, dict.fromkeys(STYLES, style))

    def _line_strip(self, line: TableLine, width: int, styles: dict[Role, Style]) -> Strip:
        parts = []
        cells_left = width
        for number, (column, size) in enumerate(line_layout(self._layout, line)):
            if number:
                parts += segments((), min(1, cells_left), styles)
                cells_left -= 1
            if cells_left <= 0:
                break
            if column.name == line.wide_column:
                parts += segments(line.cells.get(column.name, ()), cells_left, styles)
                cells_left = 0
                break
            size = min(size, cells_left)
            parts += segments(line.cells.get(column.name, ()), size, styles, right=column.is_right_aligned)
            cells_left -= size
        if cells_left > 0:
            parts += segments((), cells_left, styles)
        return strip(parts, width)
