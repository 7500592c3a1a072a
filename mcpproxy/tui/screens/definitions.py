"""Tools: every tool that the server listed, what its definition costs, its calls, and changes of the definition."""

from collections.abc import Mapping
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.tool_definitions import ShownDefinition, Tool, Tools
from mcpproxy.tui.messages import Progressed
from mcpproxy.tui.rows.tool_rows import COLUMNS, ToolRows
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.limit import TO_LIMIT, Limit
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_SORT, descending
from mcpproxy.tui.widgets.clickable_line import ClickableLine, Piece
from mcpproxy.tui.widgets.detail_box import MARGIN, MIN_DETAIL_WIDTH
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.reader import Reader
from mcpproxy.tui.widgets.split import MIN_WIDE_WIDTH
from mcpproxy.tui.widgets.table import Table
from mcpproxy.wording import units
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

VIEWS: Final = ("text", "pretty")
"""The views of a definition."""
MIN_BELOW_LINES: Final = 8
"""The height that the list must leave for the definition to be always shown below it, in lines."""


class ToolsScreen(CaptureScreen):
    """The tools of one capture."""

    DEFAULT_CSS = """
    ToolsScreen {
        & #split { height: 1fr; layout: vertical; }
        & #split.-wide { layout: horizontal; }
        & #tools { width: 1fr; height: 1fr; }
        & #box { height: 55%; display: none; }
        & #box.-open { display: block; }
        & #split.-below > #box { height: 1fr; display: block; }
        & #split.-wide > #box { width: 50%; height: 100%; display: block; border-left: solid $line; }
        & #reader { height: 1fr; }
        & #definition { padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "calls", "calls", id="calls"),
        Binding("left_square_bracket", "turn(-1)", "versions", key_display="[ ]", id="before"),
        Binding("right_square_bracket", "turn(1)", "next version", show=False, id="after"),
        TO_SORT,
        TO_DETAIL,
        TO_LIMIT,
        Binding("slash", "find", "find", show=False, id="filter"),
        Binding("n", "match(1)", "next", show=False, id="next"),
        Binding("N", "match(-1)", "previous", show=False, id="previous"),
        Binding("1", "view(0)", "text", show=False, id="view-1"),
        Binding("2", "view(1)", "pretty", show=False, id="view-2"),
    ]
    LIST = "#tools"
    DETAIL = "#definition"
    SORTS = ("size", "calls", "err", "p95", "name")
    SORT_COLUMNS: ClassVar[Mapping[str, str]] = {
        **{name: name for name in ("size", "calls", "p95", "name")},
        "tokens": "size",
        "errors": "err",
    }

    def __init__(self, capture: OpenCapture) -> None:
        """Create the screen of a capture."""
        super().__init__(capture.reading)
        self.limit = Limit(capture.limit)
        self.tools = Tools(capture.reading, self.limit.selection(capture.reading))
        self._rows = ToolRows()
        self.view = VIEWS[0]
        self._version: int | None = None
        """The number of the definition to show; None for the latest."""
        self._requested: object = None
        self._shown: tuple[ShownDefinition, str] | None = None
        bind_switches(self._bindings, "tools")

    def compose(self) -> ComposeResult:
        """The tools, and the definition of one of them."""
        yield ClickableLine(id="title")
        with Container(id="split"):
            yield Table(COLUMNS, place="tools", id="tools")
            with Vertical(id="box"):
                yield ClickableLine(id="below")
                yield Reader(id="reader", pane="definition")
        yield Foot()

    def on_mount(self) -> None:
        """Start reading."""
        self.table.show(self._rows)
        self.table.focus()
        self.update_rows()
        self.start_thread(self.tools.step, "tools")

    def on_unmount(self) -> None:
        """Stop reading."""
        self.stop_thread()
        self.tools.close()

    @property
    def selected(self) -> Tool | None:
        """The tool at the cursor."""
        return self._rows.at(self.table.cursor)

    @property
    def is_wide(self) -> bool:
        """Whether the definition of the tool at the cursor is next to the list."""
        return self.size.width >= MIN_WIDE_WIDTH

    @property
    def is_always_shown(self) -> bool:
        """Whether the definition of the tool at the cursor is always shown, next to the list or below a short one."""
        return self.is_wide or self.split.has_class("-below")

    @property
    def split(self) -> Container:
        """The list with the definition."""
        return self.query_one("#split", Container)

    @property
    def is_shown(self) -> bool:
        """Whether the definition is shown."""
        return self.is_always_shown or self.box.has_class("-open")

    @property
    def box(self) -> Vertical:
        """The definition, with the line above it."""
        return self.query_one("#box", Vertical)

    @property
    def reader(self) -> Reader:
        """The reader that shows the definition, and searches it."""
        return self.query_one(Reader)

    # ---- updates

    @on(Progressed)
    def update_rows(self) -> None:
        """Show the tools that have been read so far."""
        self.replace_rows(self._rows, sorted(self.tools.rows, key=self._order), key=lambda tool: tool.name)
        self._fit()
        self.table.set_columns(self._rows.fit_columns(self.table.room.width or self.size.width))
        self.show_title()
        self._show()

    def _fit(self) -> None:
        """Show the definition below the list if its rows leave enough room."""
        list_lines = len(self._rows) + 1
        has_room = len(self._rows) > 0 and self.split.size.height - list_lines >= MIN_BELOW_LINES
        is_below = not self.is_wide and has_room
        if not is_below and self.pane.has_focus:
            self.box.add_class("-open")
        self.split.set_class(is_below, "-below")
        self.table.styles.height = list_lines if is_below else "1fr"

    def _order(self, tool: Tool) -> tuple[int, str]:
        values: dict[str, int | None] = {
            "size": tool.last.size if tool.last is not None else None,
            "calls": tool.calls,
            "err": tool.errors,
            "p95": tool.p95_ns,
        }
        return descending(values.get(self.order, 0), tool.name)

    def show_title(self) -> None:
        """Update the title to match the screen."""
        rows = self._rows.items
        listed_tools = [tool for tool in rows if tool.last is not None]
        size = sum(tool.last.size for tool in listed_tools if tool.last is not None)
        tokens = sum(tool.last.tokens_estimate for tool in listed_tools if tool.last is not None)
        spans = self.limit.title_spans(self.size.width, is_searching=self.tools.is_searching)
        spans.append(Span(f"  {count_text(len(rows), 'tool')}"))
        if listed_tools:
            spans.append(Span(f"  {units.size(size)}  ~{tokens:,} tokens (estimate)"))
        never_called_count, changed_count = (
            sum(tool.number is None for tool in listed_tools),
            sum(len(tool.versions) > 1 for tool in listed_tools),
        )
        spans += [Span(f"  {changed_count:,} changed", "bad")] if changed_count else []
        spans += [Span(f"  {never_called_count:,} never called", "dim")] if never_called_count else []
        spans += [Span(f"  {self.tools.omitted_count:,} more not listed", "bad")] if self.tools.omitted_count else []
        spans.append(Span(f"  by {self.order}", "dim"))
        self.set_title(spans)

    # ---- the definition

    def _show(self) -> None:
        """Show the definition of the tool at the cursor; request it if it is not loaded."""
        tool = self.selected
        if not self.is_shown or tool is None:
            return
        last_version = tool.versions.index(tool.last) if tool.last in tool.versions else len(tool.versions) - 1
        version = last_version if self._version is None else max(0, min(self._version, len(tool.versions) - 1))
        name_and_version = tool.name, version
        box_width = self.size.width // 2 if self.is_wide else self.size.width
        width = max(MIN_DETAIL_WIDTH, box_width - MARGIN)
        if (*name_and_version, width) != self._requested:
            self._requested = (*name_and_version, width)
            self.tools.choose_definition(*name_and_version, width)
        definition = self.tools.shown_definition
        if definition is None or (definition.name, definition.version) != name_and_version:
            return
        count = len(tool.versions)
        pieces = [Piece(Span(sanitise(tool.name, 60), "accent"))]
        for number, view in enumerate(VIEWS, 1):
            pieces.append(Piece(Span(f"  {number} {view}", "plain" if view == self.view else "dim"), view))
        spans: list[Span] = []
        if count > 1:
            spans.append(Span(f"  definition {version + 1} of {count}  [ ]"))
        if definition.changed_members:
            spans.append(Span(f"  changed: {sanitise(', '.join(definition.changed_members), 100)}", "bad"))
        if count:
            seq = self.reading.index.entry(tool.versions[version].row).seq
            spans.append(Span(f"  from frame {seq:,}", "dim"))
        self.query_one("#below", ClickableLine).show_pieces([*pieces, *map(Piece, spans)])
        if (definition, self.view) == self._shown:
            return
        self._shown = definition, self.view
        if definition.tree is not None and self.view == "pretty":
            self.reader.show(definition.tree)
        elif definition.tree is not None:
            self.reader.show(definition.lines)
        else:
            reason = (
                "gone: its recorder has deleted this part of the capture" if count else "not in any tools/list response"
            )
            self.reader.show([[Span(reason, "bad")]])

    @on(Table.RowHighlighted)
    def _moved(self) -> None:
        self._version = None
        self._show()

    # ---- keys

    @on(Table.RowSelected)
    def action_into(self) -> None:
        """Show the definition, and move the focus to it."""
        if self.selected is None:
            return
        self.box.add_class("-open")
        self._show()
        self.pane.focus()

    def action_turn(self, by: int) -> None:
        """Show the previous or next definition."""
        tool = self.selected
        if tool is None or not tool.versions:
            return
        last_version = tool.versions.index(tool.last) if tool.last in tool.versions else len(tool.versions) - 1
        self._version = max(
            0, min((last_version if self._version is None else self._version) + by, len(tool.versions) - 1)
        )
        self.action_into()

    def action_find(self) -> None:
        """Let the user type a text to find in the definition."""
        if self.selected is not None:
            self.action_into()
            self.reader.open_box()

    def action_match(self, by: int) -> None:
        """Go to the next or previous match."""
        self.reader.change_match(by)

    def action_back(self) -> None:
        """End the search, or else close the definition or leave the screen."""
        if not (self.is_shown and self.reader.end_search()):
            super().action_back()

    @on(ClickableLine.Clicked, "#below")
    def _choose_view(self, event: ClickableLine.Clicked) -> None:
        if event.target in VIEWS:
            self.action_view(VIEWS.index(str(event.target)))

    def action_view(self, number: int) -> None:
        """Show the text of the definition, or its JSON."""
        self.view = VIEWS[number]
        self.action_into()

    def on_resize(self) -> None:
        """Put the definition next to the list or below it, and wrap it again."""
        self.split.set_class(self.is_wide, "-wide")
        self.draw_later(self.update_rows)

    def action_calls(self) -> None:
        """Show the calls of a tool."""
        tool = self.selected
        if tool is None or tool.number is None:
            notify(self.app, "this tool was never called" if tool is not None else "nothing is selected")
            return
        text = self.reading.kinds.all[tool.number].filter_expression
        if text is not None:
            self.app.select(self.limit.narrowed(text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key for the limit if there is none."""
        return self.limit.row_filter is not None if action == "limit" else super().check_action(action, parameters)

    def action_limit(self) -> None:
        """Count all calls, or again only those that the filter of the traffic selects."""
        self.stop_thread()
        self.tools.close()
        self.limit.toggle()
        self.tools = Tools(self.reading, self.limit.selection(self.reading))
        self._requested = None
        self.start_thread(self.tools.step, "tools")

    def close_detail(self) -> bool:
        """Hide the definition; returns False if it was not shown, or is always shown and the list has the focus."""
        was_open = not self.table.has_focus if self.is_always_shown else self.is_shown
        self.box.remove_class("-open")
        return was_open


ENTRY: Final = ScreenEntry("O", "tools", ToolsScreen, help="tools: definitions, sizes, changes")
