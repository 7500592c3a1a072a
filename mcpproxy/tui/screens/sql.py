"""SQL: queries on the open capture, or on all listed captures, in the same sandbox as `mcpproxy query`.

Until the first query, the screen lists the tables and views, and what a row of each represents; on a wide terminal, a
tree of them, with their columns, stays next to the result. A separate process loads captures and runs queries; the
screen only shows its output.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from mcpproxy.history import past_statements, remember_statement
from mcpproxy.sql.client import ResultTable
from mcpproxy.sql.error_place import error_place
from mcpproxy.sql.highlighting import is_keyword_due
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.turn_query import TurnQuery, figures_text
from mcpproxy.tui.messages import SqlReplied
from mcpproxy.tui.rows.schema_rows import SchemaRows
from mcpproxy.tui.rows.sql_rows import ResultRows, ViewRows, frame_ref_of, row_lines
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.result_actions import ResultActions
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.editor import Editor
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.table import Column, Table
from mcpproxy.wording import units
from mcpproxy.wording.cells import fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

MAX_NAMES_WIDTH: Final = 400
"""The maximum width of completion suggestions, in cells."""
SCHEMA_MARGIN: Final = 2
"""The cells of the tree that are not text: its scroll bar and its border."""
MIN_SCHEMA_WIDTH: Final = 120
"""The minimum terminal width at which the tree of tables and views is shown, in cells."""
NO_RESULT: Final = (Column("none", "no result", 30, stretch=True),)
"""The heading of the place for the result after a query without one."""


class SqlScreen(TitledScreen):
    """A box for SQL, and the result."""

    DEFAULT_CSS = """
    SqlScreen {
        & #messages { height: auto; max-height: 12; padding: 0 1; display: none; }
        &.-low #messages { max-height: 4; }
        & #schema { width: 40; display: none; border-right: solid $line; }
        & #answer { height: 1fr; }
        & #row { height: 60%; display: none; padding: 0 1; border-top: solid $line; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "run", "run"),
        Binding("slash,i", "edit", "edit", id="edit-sql"),
        Binding("ctrl+j", "new_line", "new line"),
        Binding("tab", "turn", "complete, rows"),
        Binding("ctrl+r", "anew", "reload", id="anew"),
        Binding("left,h", "shift(-1)", "columns", show=False, id="earlier-columns"),
        Binding("right,l", "shift(1)", "columns", show=False, id="later-columns"),
        Binding("v", "views", "views", id="views"),
        Binding("o", "full_row", "row", id="full-row"),
        Binding("y,c", "copy", "copy", id="copy"),
        Binding("e", "export", "export", id="export"),
        Binding("escape", "back", "back", id="back"),
        Binding("q", "app.quit", "quit", id="quit"),
        Binding("question_mark", "app.help", "help", id="help"),
    ]

    def __init__(self, paths: Sequence[Path], reading: Reading | None = None, turn: TurnQuery | None = None) -> None:
        """Create the screen.

        Args:
            paths: the captures to query.
            reading: the reading of the capture, if it is the only one and open.
            turn: the turn whose calls are shown at once; None to list the tables and views.
        """
        super().__init__()
        self.paths = list(paths)
        self.answer_rows: ResultRows | None = None
        self._answered_sql = ""
        """The statements whose result is shown."""
        self._result_actions = ResultActions(self, paths)
        self._schema_rows = SchemaRows()
        self._shown_error: Sequence[str] = ()
        """The error whose place the box marks."""
        self._reading = reading
        self._shown_relations: object = None
        self._sql = ""
        self._turn = turn
        self._turn_text = ""
        """The figures of the turn, in words, once they are known."""
        self._options: tuple[str, ...] = ()
        """The suggested names; another Tab moves on to the rows."""

    @property
    def subject(self) -> Reading | None:
        """The capture, if it is a single one."""
        return self._reading

    def compose(self) -> ComposeResult:
        """The box, and the result below."""
        yield ClickableLine(id="title")
        yield Editor(self._names, id="sql")
        yield SafeText(id="messages")
        with Horizontal():
            yield Table(SchemaRows.COLUMNS, id="schema")
            with Vertical():
                yield Table(ViewRows.COLUMNS, id="answer")
                yield Pane(id="row")
        yield Foot()

    def on_mount(self) -> None:
        """Start the process, which lists the tables and views."""
        editor = self.query_one(Editor)
        editor.earlier_inputs = past_statements()
        editor.focus()
        self.client = self.app.sql
        self.client.on_change = self._report_reply
        self.client.result, self.client.written_result, self.client.error = None, None, ()
        self.client.start()
        self._result_actions.read_names(self._show_names)
        if self._turn is not None:
            editor.set_text(self._turn.sql)
            self._sql = self._turn.figures_sql or self._turn.sql
            self.client.run_query(self.paths, self._sql)
            self.table.focus()
        self._show()

    def on_screen_resume(self) -> None:
        """Receive the client's messages again; another SQL screen above this one may have used the client."""
        client, answer = self.client, self.answer_rows.result if self.answer_rows is not None else None
        client.on_change = self._report_reply
        if client.result is not answer and not client.is_busy:
            client.result, client.error = answer, ()
        self._show()

    def on_unmount(self) -> None:
        """Stop the query."""
        self._result_actions.close()
        if self.client.on_change == self._report_reply:
            self.client.on_change = None
            self.client.stop()

    def on_resize(self) -> None:
        """Show the tree if there is room, and fit the columns to the new width after the next layout."""
        self.schema.display = self.size.width >= MIN_SCHEMA_WIDTH
        if not self.schema.display and self.schema.has_focus:
            self.table.focus()
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Show what fits the new width."""
        if self.query("#title"):
            self._show_views()
            self.show_title()

    @property
    def entry(self) -> int | None:
        """The row of the frame that the row at the cursor is about, if the open capture is the only one."""
        row, rows = self._selected_row(), self.answer_rows
        ref = frame_ref_of(rows.result, row) if rows is not None and row is not None else None
        return self._reading.index.entry_of_seq(ref.frame) if ref is not None and self._reading is not None else None

    @property
    def table(self) -> Table:
        """The result, or the tables and views."""
        return self.query_one("#answer", Table)

    @property
    def schema(self) -> Table:
        """The tree of tables and views."""
        return self.query_one("#schema", Table)

    @property
    def position(self) -> str:
        """The row of the result at the cursor, and how many there are."""
        answer = self.answer_rows
        return f"{self.table.cursor + 1:,}/{len(answer):,}" if answer is not None and len(answer) else ""

    @on(Table.RowHighlighted, "#answer")
    def _moved(self) -> None:
        """Show the position in the title."""
        self.show_title()

    def _report_reply(self) -> None:
        self.post_message(SqlReplied())

    def _names(self, text: str, before: str) -> Sequence[str]:
        """The names that Tab can complete, the likeliest first: columns of relations that the text names, or keywords.

        Args:
            text: the whole text.
            before: the text before the word.
        """
        relations = self.client.relations
        words = set(text.lower().split())
        likely_columns = [name for relation in relations if relation.name in words for name, _, _ in relation.columns]
        all_columns = [name for relation in relations for name, _, _ in relation.columns]
        names, keywords = [*likely_columns, *(relation.name for relation in relations)], self.client.keywords
        likely, others = (keywords, names) if is_keyword_due(before, keywords) else (names, keywords)
        return [*likely, *others, *all_columns]

    # ---- updates

    @on(SqlReplied)
    def _show(self) -> None:
        client = self.client
        if client.written_result is not None:
            written_result, client.written_result = client.written_result, None
            self._result_actions.on_written(written_result)
        if client.result is not None and self._turn is not None and self._sql == self._turn.figures_sql:
            self._show_figures(self._turn, client.result)
        elif client.result is not None and (self.answer_rows is None or self.answer_rows.result is not client.result):
            self.answer_rows = ResultRows(client.result, self._result_actions.capture_names)
            self._answered_sql = self._sql
            self._show_rows(self.answer_rows, self.answer_rows.columns())
            self._leave_box()
        else:
            self._show_views()
        self._show_schema()
        self._mark_error()
        self.show_title()

    def _show_views(self) -> None:
        """Without a result, list the tables and views; after a query only if the tree beside does not list them."""
        if self.answer_rows is not None or self._is_reading_turn:
            return
        relations = self.client.relations
        if self._sql and self.schema.display:
            if self._shown_relations is not NO_RESULT:
                self._shown_relations = NO_RESULT
                self._show_rows(ViewRows(()), NO_RESULT)
        elif self._shown_relations is not relations:
            self._shown_relations = relations
            self._show_rows(ViewRows(relations), ViewRows.COLUMNS)

    def _show_schema(self) -> None:
        """Show the tables and views in the tree, and highlight them and their columns in the box."""
        relations = self.client.relations
        if self._schema_rows.relations is not relations:
            self._schema_rows = SchemaRows(relations)
            self.schema.show(self._schema_rows)
            self._fit_schema()
            columns = {name.lower() for relation in relations for name, _, _ in relation.columns}
            names = columns | {relation.name.lower() for relation in relations}
            self.query_one(Editor).show_names(frozenset(self.client.keywords), names)

    def _fit_schema(self) -> None:
        """Make the tree as wide as what is unfolded; the result gets the rest, and is fitted after the next layout."""
        columns = self._schema_rows.columns()
        self.schema.set_columns(columns)
        self.schema.styles.width = sum(column.width + 1 for column in columns) - 1 + SCHEMA_MARGIN
        self.call_after_refresh(self.show_title)

    def _show_names(self) -> None:
        """Show the names of captures, which have been read, in place of their ids."""
        if self.answer_rows is not None:
            self.answer_rows.show_capture_names(self._result_actions.capture_names)
            self.table.set_columns(self.answer_rows.columns())
            self.table.renew()

    def _leave_box(self) -> None:
        """Move from the box to the rows of a new result, unless there are none or the user has typed on."""
        editor, answer = self.query_one(Editor), self.answer_rows
        if editor.has_focus and answer is not None and len(answer) and editor.text.strip() == self._answered_sql:
            self.table.focus()

    def _mark_error(self) -> None:
        """Mark the place of a new error in the box, and go there."""
        editor, error = self.query_one(Editor), self.client.error
        if error is self._shown_error:
            return
        self._shown_error = error
        place = error_place(editor.text, error) if editor.text.strip() == self._sql else None
        if place is not None:
            editor.show_error(place)
            editor.focus()

    @property
    def _is_reading_turn(self) -> bool:
        """Whether the screen waits for the first calls of a turn."""
        return self._turn is not None and self.answer_rows is None and self.client.is_busy

    def _show_figures(self, turn: TurnQuery, figures: ResultTable) -> None:
        """Put the figures of the turn into words for the title, and query its calls."""
        self._turn_text = figures_text(figures.rows[0]) if figures.rows else ""
        self._sql = turn.sql
        self.client.run_query(self.paths, turn.sql)

    def _show_rows(self, rows: ResultRows | ViewRows, columns: Sequence[Column]) -> None:
        self.query_one("#row").display = False
        self.table.set_columns(columns)
        self.table.show(rows)
        self.table.scroll_to(y=0, animate=False)

    def show_title(self) -> None:
        """Update the title and the messages to match the screen."""
        if not self.query("#title"):
            return  # the screen was closed
        client, answer = self.client, self.answer_rows
        spans = [] if self._reading is not None else [Span(f"  {count_text(len(self.paths), 'capture')}")]
        if self._turn is not None and self._turn_text and self._answered_sql in ("", self._turn.sql):
            spans = [Span(f"  {self._turn_text}")]
        if client.is_busy and client.progress is not None:
            loaded, total = client.progress
            spans.append(Span(f"  loading {min(100, 100 * loaded // max(1, total))}% of {units.size(total)}", "accent"))
        elif client.is_busy:
            spans.append(Span("  reading …" if self._is_reading_turn else "  …", "accent"))
        elif answer is not None and client.error:
            spans.append(Span("  the previous result is below", "accent"))
        elif answer is not None:
            result, columns = answer.result, answer.result.columns
            prefix = "the first " if result.is_cut else ""
            spans.append(Span(f"  {prefix}{count_text(len(result.rows), 'row')}", "bad" if result.is_cut else "plain"))
            spans.append(Span(f"  {units.brief_duration(units.nanoseconds(result.took_s * 1000))}", "dim"))
            if answer.first_column or len(self.table.shown_columns) < len(columns):
                last_column = answer.first_column + len(self.table.shown_columns)
                spans.append(Span(f"  columns {answer.first_column + 1}–{last_column} of {len(columns)} ← →", "dim"))
            if result.has_grown:
                spans.append(Span("  a capture has grown: Ctrl+R", "accent"))
        elif not client.relations:
            spans.append(Span("  loading …" if not client.error else "", "accent"))
        elif self._shown_relations is not NO_RESULT:
            spans.append(Span("  Tab, Enter: an example", "dim"))
        self.set_title(spans)
        lines = [[Span(line, "bad")] for line in (*client.error, *client.notes)]
        messages = self.query_one("#messages", SafeText)
        messages.show_lines(lines)
        messages.display = bool(lines)

    # ---- queries

    @on(Editor.Submitted)
    def _submitted(self, event: Editor.Submitted) -> None:
        self._run_query(event.text)

    def _run_query(self, sql: str, *, anew: bool = False) -> None:
        if not sql:
            return
        self._sql = sql
        remember_statement(sql)
        self.client.run_query(self.paths, sql, anew=anew)
        self.show_title()

    @on(Editor.Tabbed)
    def _tabbed(self, event: Editor.Tabbed) -> None:
        messages, completion = self.query_one("#messages", SafeText), event.completion
        options = completion.options if completion is not None else ()
        has_run = self.query_one(Editor).text.strip() == self._sql and self.answer_rows is not None
        if completion is None or has_run or (options and options == self._options):
            messages.display = False
            self._options = ()
            self.table.focus()
        else:
            messages.show([Span(fit("  ".join(options), MAX_NAMES_WIDTH), "dim")])
            messages.display = bool(options)
            self._options = options

    def _selected_row(self) -> int | None:
        """The row of the result at the cursor."""
        if self.answer_rows is None or self.table.cursor >= len(self.answer_rows.items):
            return None
        return self.table.cursor

    @on(Table.RowSelected, "#schema")
    def _insert(self, event: Table.RowSelected) -> None:
        """Insert a name from the tree at the cursor of the box, or replace its text by an example."""
        editor, line = self.query_one(Editor), self._schema_rows.at(event.row)
        if line is None:
            return
        if line.is_example:
            editor.suggest_text(line.relation.example)
        else:
            editor.insert_name(line.name)
        editor.focus()

    @on(Table.CellClicked, "#schema")
    def _fold_clicked(self, event: Table.CellClicked) -> None:
        line = self._schema_rows.at(event.row)
        if event.column == SchemaRows.FOLD_COLUMN and line is not None and line.is_relation:
            self._fold(None)

    def _fold(self, is_folded: bool | None) -> None:
        """Fold or unfold the table or view at the cursor of the tree."""
        if len(self._schema_rows):
            row = self._schema_rows.fold(self.schema.cursor, is_folded=is_folded)
            self.schema.renew()
            self._fit_schema()
            self.schema.go(row)

    @on(Table.RowSelected, "#answer")
    def _chosen(self) -> None:
        """Go to the frame of a row, or else show the row in full; on a view, put its example into the box."""
        row, rows = self._selected_row(), self.answer_rows
        if rows is not None and row is not None:
            ref = frame_ref_of(rows.result, row)
            if ref is None or (ref.capture is None and len(self.paths) > 1):
                self.action_full_row()
            else:
                self._result_actions.go_to_frame(ref)
        elif self._shown_relations is self.client.relations and self.table.cursor < len(self.client.relations):
            relation = self.client.relations[self.table.cursor]
            editor = self.query_one(Editor)
            editor.suggest_text(relation.example or f"from {relation.name}")
            editor.focus()

    # ---- keys

    def action_run(self) -> None:
        """Run the typed SQL."""
        self.query_one(Editor).submit()

    def action_new_line(self) -> None:
        """Focus the editor, which handles the key itself if it has the focus."""
        self.query_one(Editor).focus()

    def action_edit(self) -> None:
        """Go back to the box."""
        self.query_one(Editor).focus()

    def action_turn(self) -> None:
        """Move from the rows to the row in full or the tree, if they are shown, or to the box."""
        pane = self.query_one("#row")
        if self.table.has_focus and pane.display:
            pane.focus()
        elif self.schema.display and not self.schema.has_focus:
            self.schema.focus()
        else:
            self.query_one(Editor).focus()

    def action_anew(self) -> None:
        """Run the same query again, on the captures as they are now."""
        self._run_query(self._sql or self.query_one(Editor).text.strip(), anew=True)

    def action_full_row(self) -> None:
        """Show all of a row."""
        row, rows, pane = self._selected_row(), self.answer_rows, self.query_one("#row", Pane)
        if rows is not None and row is not None:
            room = self.table.size.width - 6
            pane.show_lines(row_lines(rows.result, row, room, self._result_actions.capture_files))
            pane.display = True
            pane.focus()

    def action_copy(self) -> None:
        """Copy the result, or the row at the cursor, in a chosen form."""
        row, rows = self._selected_row(), self.answer_rows
        if rows is not None and row is not None:
            self._result_actions.copy(rows, row, self._answered_sql)
        else:
            notify(self.app, "there is no result to copy")

    def action_export(self) -> None:
        """Prompt for a file, and export all rows to it."""
        if self.answer_rows is not None:
            self._result_actions.export(self._answered_sql)
        else:
            notify(self.app, "there is no result to export")

    def action_views(self) -> None:
        """Go to the tree of tables and views; if there is no room for it, show them in place of the result."""
        if self.schema.display:
            self.schema.focus()
            return
        self.answer_rows, self._shown_relations, self.client.result = None, None, None
        self._show()

    def action_shift(self, by: int) -> None:
        """Show other columns of a wide result; in the tree, fold or unfold."""
        if self.schema.has_focus:
            self._fold(by < 0)
            return
        answer = self.answer_rows
        if answer is not None and self.table.has_focus:
            answer.first_column = max(0, min(answer.first_column + by, len(answer.result.columns) - 1))
            self.table.set_columns(answer.columns())
            self.show_title()

    def action_back(self) -> None:
        """Stop the query; or leave the row, then the rows, then the screen."""
        pane = self.query_one("#row")
        if self.interrupt():
            return
        if pane.display:
            pane.display = False
            self.table.focus()
        elif self.schema.has_focus or (self.table.has_focus and self.answer_rows is not None):
            self.query_one(Editor).focus()
        else:
            self.app.leave()

    def interrupt(self) -> bool:
        """Stop the running query; returns False if there is none."""
        return self.client.stop()


def _screen_of_one(capture: OpenCapture) -> SqlScreen:
    reading = capture.reading
    screen = SqlScreen([reading.path], reading)
    bind_switches(screen._bindings, "sql")
    return screen


def _screen_of_all(paths: Sequence[Path]) -> SqlScreen:
    return SqlScreen(paths)


ENTRY = ScreenEntry("Q", "sql", _screen_of_one, help="SQL, as with `mcpproxy query`", create_for_all=_screen_of_all)
