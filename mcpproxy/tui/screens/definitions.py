"""Tools: every tool that the server listed, the cost of its definition, its use, and whether it changed."""

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from mcpproxy.report import units
from mcpproxy.report.text import Role, Span, count_text
from mcpproxy.report.units import brief
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.tool_definitions import VERSIONS, Shown, Tool, Tools
from mcpproxy.tui.entries import Entry, Opened, bind_others
from mcpproxy.tui.messages import Matched
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_SORT, descending, title_name
from mcpproxy.tui.screens.pulsing import PulsingScreen
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.table import Column, Line, MemoryRows, Table

COLUMNS: Final = (
    Column("name", "tool", 16, stretch=True),
    Column("size", "size", 8, right=True),
    Column("tokens", "~tokens", 7, right=True, drop=3),
    Column("calls", "calls", 7, right=True, drop=1),
    Column("errors", "err", 5, right=True, drop=2),
    Column("p95", "p95", 6, right=True, drop=5),
    Column("note", "", 14, drop=4),
)
NAME: Final = 200
"""Characters of a name that a row can show."""


class ToolRows(MemoryRows[Tool]):
    """The rows: tools, sorted."""

    def line(self, row: int) -> Line:
        """One tool."""
        one = self.items[row]
        note, role = note_on(one)
        return Line(
            {
                "name": (Span(sanitise(one.name, NAME) or '""'),),
                "size": (Span(units.size(one.last.size) if one.last is not None else "–"),),
                "tokens": (Span(f"~{one.last.tokens_estimate:,}" if one.last is not None else "–", "dim"),),
                "calls": (Span(f"{one.calls:,}", "plain" if one.calls else "dim"),),
                "errors": (Span(f"{one.errors:,}", "bad" if one.errors else "dim"),),
                "p95": (Span(brief(one.p95_ns)),),
                "note": (Span(note, role),),
            }
        )


def note_on(tool: Tool) -> tuple[str, Role]:
    """The note about an unusual tool."""
    if tool.last is None:
        return "never listed", "bad"
    if len(tool.versions) > 1:
        times = len(tool.versions) - 1
        return ("changed" if times == 1 else f"changed {times}{'+' if times + 1 >= VERSIONS else ''} times"), "bad"
    return ("", "plain") if tool.calls else ("never called", "dim")


class ToolsScreen(PulsingScreen):
    """The tools of one capture."""

    DEFAULT_CSS = """
    ToolsScreen {
        & #tools { height: 1fr; }
        & #below { height: 1; background: $panel; padding: 0 1; display: none; }
        & #definition { height: 55%; padding: 0 1; display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "calls", "calls", id="calls"),
        Binding("left_square_bracket", "turn(-1)", "before", key_display="[ ]", id="before"),
        Binding("right_square_bracket", "turn(1)", "after", show=False, id="after"),
        TO_SORT,
        TO_DETAIL,
    ]
    LIST = "#tools"
    DETAIL = "#definition"
    SORTS = ("size", "calls", "err", "p95", "name")

    def __init__(self, opened: Opened) -> None:
        """The screen of a capture.

        Args:
            opened: the capture.
        """
        super().__init__(opened.reading)
        self.tools = Tools(opened.reading)
        self._rows = ToolRows()
        self._version: int | None = None
        """Which definition to show; None for the latest."""
        self._asked: object = None
        self._shown: Shown | None = None
        bind_others(self._bindings, "tools")

    def compose(self) -> ComposeResult:
        """The tools, and the definition of one of them."""
        yield Words(id="title")
        yield Table(COLUMNS, id="tools")
        yield Words(id="below")
        yield Pane(id="definition")
        yield Foot()

    def on_mount(self) -> None:
        """Start reading."""
        self.table.show(self._rows)
        self.table.focus()
        self.renew()
        self.begin(self.tools.step, "tools")

    @property
    def selected(self) -> Tool | None:
        """The tool at the cursor."""
        return self._rows.at(self.table.cursor)

    # ---- updates

    @on(Matched)
    def renew(self) -> None:
        """Show the tools so far."""
        self.put(self._rows, sorted(self.tools.rows, key=self._order), key=lambda tool: tool.name)
        self.show_title()
        self._show()

    def _order(self, one: Tool) -> tuple[int, str]:
        values: dict[str, int | None] = {
            "size": one.last.size if one.last is not None else None,
            "calls": one.calls,
            "err": one.errors,
            "p95": one.p95_ns,
        }
        return descending(values.get(self.order, 0), one.name)

    def show_title(self) -> None:
        """Show the title for what the screen shows now."""
        rows = self._rows.items
        told = [one for one in rows if one.last is not None]
        size = sum(one.last.size for one in told if one.last is not None)
        tokens = sum(one.last.tokens_estimate for one in told if one.last is not None)
        spans = [Span("tools ", "accent"), Span(title_name(self.reading)), Span(f"  {count_text(len(told), 'tool')}")]
        if told:
            spans.append(Span(f"  {units.size(size)}  ~{tokens:,} tokens (estimate)"))
        never, changed = sum(not one.calls for one in told), sum(len(one.versions) > 1 for one in told)
        spans += [Span(f"  {changed:,} changed", "bad")] if changed else []
        spans += [Span(f"  {never:,} never called", "dim")] if never else []
        spans += [Span(f"  {self.tools.left_out:,} too many", "bad")] if self.tools.left_out else []
        spans.append(Span(f"  by {self.order}", "dim"))
        self.say_title(spans)

    # ---- the definition

    def _show(self) -> None:
        """Show the definition at the cursor, if there is one; request it if it is not loaded."""
        one = self.selected
        if not self.pane.display or one is None:
            return
        last = one.versions.index(one.last) if one.last in one.versions else len(one.versions) - 1
        version = last if self._version is None else max(0, min(self._version, len(one.versions) - 1))
        wanted = one.name, version
        if wanted != self._asked:
            self._asked = wanted
            self.tools.choose(*wanted)
        shown = self.tools.shown
        if shown is None or (shown.name, shown.version) != wanted:
            return
        count = len(one.versions)
        spans = [Span(sanitise(one.name, 60), "accent")]
        if count:
            seq = self.reading.index.entry(one.versions[version].row).seq
            spans.append(Span(f"  told in frame {seq:,}", "dim"))
        if count > 1:
            spans.append(Span(f"  definition {version + 1} of {count}  [ ]"))
        if shown.changed:
            spans.append(Span(f"  changed: {sanitise(', '.join(shown.changed), 100)}", "bad"))
        self.query_one("#below", Words).say(spans)
        if shown is self._shown:
            return
        self._shown = shown
        if shown.tree is not None:
            self.pane.say_tree(shown.tree)
        else:
            word = "gone: its recorder has deleted this part of the capture" if count else "no list told of it"
            self.pane.say_lines([[Span(word, "bad")]])

    @on(Table.Moved)
    def _moved(self) -> None:
        self._version = None
        self._show()

    # ---- keys

    @on(Table.Chosen)
    def action_into(self) -> None:
        """Show the definition, and move the focus to it."""
        if self.selected is None:
            return
        self.pane.display = self.query_one("#below").display = True
        self._show()
        self.pane.focus()

    def action_turn(self, by: int) -> None:
        """Show the previous or next definition."""
        one = self.selected
        if one is None or not one.versions:
            return
        last = one.versions.index(one.last) if one.last in one.versions else len(one.versions) - 1
        self._version = max(0, min((last if self._version is None else self._version) + by, len(one.versions) - 1))
        self.action_into()

    def action_calls(self) -> None:
        """Show the calls of a tool."""
        one = self.selected
        if one is None or one.number is None:
            notify(self.app, "it has not been called" if one is not None else "nothing is selected")
            return
        text = self.reading.calls.all[one.number].filter
        if text is not None:
            self.app.select(text)

    def close_detail(self) -> bool:
        """Hide the definition; False if it was not shown."""
        was_shown = self.pane.display
        self.pane.display = self.query_one("#below").display = False
        return was_shown


ENTRY: Final = Entry("O", "tools", ToolsScreen, help="tools: definitions, sizes, tokens, calls, errors, changes")
