"""Traffic: every message of one capture as it arrives, with search and filters, and the detail of one row below."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from analysis.filter import FilterError, parse
from captures.errors import CaptureError
from mcpproxy.report.text import Role, Span, count_text, fit
from mcpproxy.report.wording import peer_text
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.completing import completed_filter
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.detail import VIEWS, Detail, called, detail, exchange_lines
from mcpproxy.tui.entries import Opened, bind
from mcpproxy.tui.messages import Checked, DetailRead, Grown, Matched, RowsRead
from mcpproxy.tui.pages import how_far, losses_text, short_lines
from mcpproxy.tui.rows import EXCHANGES, FRAMES, Times, TrafficRows, timed
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screens.acting import ActingScreen
from mcpproxy.tui.widgets.bar import FilterBox
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.table import Table, layout

if TYPE_CHECKING:
    from mcpproxy.tui.app import TheApp

TIMES: Final[tuple[Times, ...]] = ("rel", "delta", "abs")
OFFERED: Final = 300
"""The maximum width of Tab's suggestions, in cells."""
_ROLES: Final[dict[str, Role]] = {"● following": "accent", "✝ killed": "bad"}
NAME: Final = 26
"""Cells of a name in the title."""
BESIDE: Final = 41
"""Cells of a line there."""
SIDE_BY_SIDE: Final = 110
"""The terminal width from which the exchange is shown beside the detail."""


class TrafficScreen(ActingScreen):
    """The messages of one capture."""

    DEFAULT_CSS = """
    TrafficScreen {
        & #title { height: 1; background: $panel; padding: 0 1; }
        & #lost { height: auto; max-height: 3; display: none; padding: 0 1; }
        & #traffic { height: 1fr; }
        & #below { height: 45%; display: none; }
        & #tabs { height: 1; background: $panel; padding: 0 1; }
        & #text { width: 1fr; padding: 0 1; }
        & #beside { width: 44; display: none; padding: 0 1; border-left: solid $panel; }
        & #wrong { height: auto; max-height: 4; display: none; padding: 0 1; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", id="filter"),
        Binding("p", "pair", "pair", id="pair"),
        Binding("f", "follow", "follow", id="follow"),
        Binding("n", "found(1)", "next", id="next"),
        Binding("N", "found(-1)", "previous", show=False, id="previous"),
        Binding("x", "exchanges", "exchanges", id="exchanges"),
        Binding("t", "times", "time", id="times"),
        Binding("tab", "panes", "pane", show=False, priority=True, id="panes"),
        Binding("1", "view(0)", "pretty", show=False, id="view-1"),
        Binding("2", "view(1)", "raw", show=False, id="view-2"),
        Binding("3", "view(2)", "hex", show=False, id="view-3"),
        Binding("4", "view(3)", "headers", show=False, id="view-4"),
        Binding("5", "view(4)", "exchange", show=False, id="view-5"),
        Binding("6", "view(5)", "findings", show=False, id="view-6"),
        Binding("left_square_bracket", "turn(-1)", "page before", show=False, id="before"),
        Binding("right_square_bracket", "turn(1)", "next page", show=False, id="after"),
        Binding("right,l", "into", "detail", show=False, id="detail"),
        Binding("left,h", "outof", "list", show=False, id="list"),
        Binding("escape", "back", "back", id="back"),
        Binding("q", "app.quit", "quit", id="quit"),
        Binding("question_mark", "app.help", "help", id="help"),
    ]

    def __init__(self, opened: Opened) -> None:
        """The screen of a capture.

        Args:
            opened: the capture; if it names a row, that row is shown first.
        """
        super().__init__(opened.reading)
        self._first, self._only = opened.row, opened.only
        self._rows = TrafficRows(self.reading, self._tell_rows)
        self._scan: Scan | None = None
        self._filtered, self._offered = False, ""
        self._found = 0
        """How many findings are drawn."""
        self._near: tuple[int, int] | None = None
        """The entry at the cursor before the filter, and the nearest row so far."""
        self._view, self._page, self._pages = VIEWS[0], 0, 1
        self._detailed: tuple[object, ...] = ()
        self._silence: tuple[int, str] = -1, ""
        """The entry whose response was examined, and what is empty in it."""
        self._thread = ThreadPoolExecutor(1, "detail")
        bind(self._bindings, "traffic")

    def compose(self) -> ComposeResult:
        """The list, and the detail below."""
        yield Words(id="title")
        yield Words(id="lost")
        yield Table(FRAMES, id="traffic")
        with Vertical(id="below"):
            yield Words(id="tabs")
            with Horizontal():
                yield Pane(id="text")
                yield Words(id="beside")
        yield Words(id="wrong")
        yield FilterBox("method:tools/call latency>100ms …", of="traffic", id="filter")
        yield Foot()

    def on_mount(self) -> None:
        """Show the messages so far."""
        self.table.show(self._rows)
        self.table.focus()
        self.table.following = self.reading.is_live and self._first is None
        self._grown()
        self.set_interval(1.0, self._grow_older)
        if self._only is not None:
            self.select(self._only)

    def on_unmount(self) -> None:
        """Stop reading."""
        self._end_scan()
        self._rows.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def table(self) -> Table:
        """The list."""
        return self.query_one("#traffic", Table)

    @property
    def pane(self) -> Pane:
        """The detail."""
        return self.query_one("#text", Pane)

    @property
    def entry(self) -> int | None:
        """The entry at the cursor."""
        return self._rows.entry(self.table.cursor)

    @property
    def opened(self) -> Opened:
        """The capture, and where the cursor is."""
        return Opened(self.reading, self.entry)

    # ---- updates

    def _tell_rows(self) -> None:
        self.post_message(RowsRead())

    @on(RowsRead)
    def _rows_read(self) -> None:
        self.table.renew()

    def _grow_older(self) -> None:
        """Update the waiting times of unanswered requests."""
        if self.reading.is_live and self.is_current:
            self.table.renew()

    @on(Grown)
    @on(events.ScreenResume)
    def _grown(self) -> None:
        self._rows.forget()
        if self._first is not None and self.reading.understood > self._first:
            self.go_to(self._first)
            self._first = None
        self.table.renew()
        self._show_place()

    @on(Checked)
    @on(events.ScreenResume)
    def _checked(self) -> None:
        count = sum(self.reading.findings.tally)
        if count != self._found:
            self._found = count
            self.table.renew()
            self._show_beside()
        self._show_place()

    @on(Matched)
    def _matched(self) -> None:
        if self._filtered:
            self.table.renew()
            self._go_near()
        self._show_place()

    def _go_near(self) -> None:
        """Keep the cursor near its position before the filter, until it is moved or the nearest row is found."""
        if self._near is None or self._scan is None:
            return
        (entry, placed), found = self._near, self._scan.rows
        if self.table.cursor != placed or not found:
            self._near = None if found else self._near
            return
        after = bisect_left(found, entry)
        near = [row for row in (after - 1, after) if 0 <= row < len(found)]
        placed = min(near, key=lambda row: abs(found[row] - entry))
        self._near = (entry, placed) if after == len(found) and self.is_working else None
        self.table.go(placed)

    @on(Table.Moved)
    def _moved(self) -> None:
        self._page = 0
        self._show_place()

    def _show_place(self) -> None:
        self._title()
        self._show_detail()

    def _title(self) -> None:
        fold, index, findings = self.reading.fold, self.reading.index, self.reading.findings
        spans = [Span(fit(sanitise(fold.name or self.reading.path.parent.name), NAME), "accent")]
        if self._state():
            spans.append(Span(f"  {self._state()}", _ROLES.get(self._state(), "dim")))
        if self._scan is not None and self._filtered:
            more = " …" if self.is_working or self._scan.is_waiting else ""
            spans.append(Span(f"  {self._scan.only.text}", "accent"))
            spans.append(Span(f"  {len(self._scan.rows):,} of {self._scan.scanned:,}{more}"))
            if self._scan.only.needs_findings and not findings.is_even:
                spans.append(Span(f"  {how_far(findings, len(index))}", "dim"))
        else:
            spans.append(Span(f"  {count_text(index.frames, 'frame')}", "dim"))
            if findings.tally.wrong:
                wrong = f"  {'✗' if findings.tally.errors else '!'} {count_text(findings.tally.wrong, 'finding')}"
                spans.append(Span(f"{wrong}{'' if findings.is_even else ' …'}", "bad"))
        if findings.trouble:
            spans.append(Span("  rules stopped: F", "bad"))
        if not self.reading.has_ended and self.reading.understood + 1000 < len(index):
            spans.append(Span(f"  understood {100 * self.reading.understood // max(1, len(index))}%", "dim"))
        if self.exporting:
            spans.append(Span(f"  {self.exporting}", "accent"))
        if fold.client is not None or fold.server is not None:
            client, server = (fit(peer_text(peer), NAME) if peer else "?" for peer in (fold.client, fold.server))
            spans.append(Span(f"  {client} → {server}"))
        if fold.revision:
            spans.append(Span(f" · {fit(sanitise(fold.revision), 12)}"))
        self.query_one("#title", Words).say(spans)
        lost = self.query_one("#lost", Words)
        told = [losses_text(self.reading.losses)] if self.reading.losses else []
        told += [f"▲ {text}" for text in self.reading.forgotten]
        lost.display = bool(told)
        if told:
            lost.say_lines([[Span(text, "bad")] for text in told])

    def _state(self) -> str:
        if self.reading.is_killed:
            return "✝ killed"
        if not self.reading.is_live:
            return ""
        if self.table.following and self.table.cursor >= len(self._rows) - 1:
            return "● following"
        return "● live" if self.reading.index.tail.is_at_end else ""

    # ---- moving

    def go_to(self, entry: int) -> bool:
        """Put the cursor on an entry; False if no row shows it."""
        view = self._rows.view
        at = bisect_left(view, entry)
        if at == len(view) or view[at] != entry:
            return False
        self.table.following = False
        self.table.go(at)
        return True

    def action_follow(self) -> None:
        """Go to the end and stay there, or stop that."""
        table = self.table
        table.following = not table.following
        if table.following:
            table.go(len(self._rows) - 1, keep_following=True)
        self._title()

    def action_pair(self) -> None:
        """Go from a request to its response, or back."""
        entry = self.entry
        other = self.reading.partner(entry) if entry is not None else None
        if other is None:
            notify(self.app, "this row has no other half" if entry is not None else "nothing is selected")
            return
        if self._rows.is_exchanges:
            self.action_exchanges()
        self.reach(other)

    def reach(self, entry: int) -> None:
        """Put the cursor on an entry, whatever the filter."""
        if not self.go_to(entry):
            self._show_all()
            self.go_to(entry)

    def rows_shown(self) -> Sequence[int]:
        """The entries shown; for an exchange, both of its entries."""
        view = self._rows.view
        if not self._rows.is_exchanges:
            return view
        others = (self.reading.partner(row) for row in view)
        return sorted({*view, *(row for row in others if row is not None)})

    def show_marks(self) -> None:
        """Redraw, as the marks of rows may have changed."""
        if self._rows.marks is not self.marks.notes:
            self._rows.marks, self._detailed = self.marks.notes, ()
            self._show_detail()
        self.table.renew()
        self._title()

    def action_found(self, by: int) -> None:
        """Go to the next row that the last filter selects or, without one, the next with something wrong."""
        entry = self.entry
        if self._scan is None:
            self._go_wrong(entry, by)
            return
        found = self._scan.rows
        at = 0 if entry is None else bisect_right(found, entry) if by > 0 else bisect_left(found, entry) - 1
        while 0 <= at < len(found):
            if self._go_on_to(found[at], entry, by):
                return
            at += by
        notify(self.app, f"no match {'below' if by > 0 else 'above'}")

    def _go_wrong(self, entry: int | None, by: int) -> None:
        """Go to the next row with an error or a finding."""
        row = self.reading.next_wrong(-1 if entry is None else entry, by)
        while row is not None:
            if self._go_on_to(row, entry, by):
                return
            row = self.reading.next_wrong(row, by)
        notify(self.app, f"no error {'below' if by > 0 else 'above'}")

    def _go_on_to(self, row: int, entry: int | None, by: int) -> bool:
        """Go to a row, or to its exchange; False if no line beyond the current one shows it."""
        row = self._line_of(row)
        return (entry is None or (row - entry) * by > 0) and self.go_to(row)

    def _line_of(self, row: int) -> int:
        """The row whose line shows it: among exchanges, that of its request."""
        number = self.reading.exchange(row) if self._rows.is_exchanges else None
        return row if number is None else self.reading.exchanges.request[number]

    def action_exchanges(self) -> None:
        """Switch between frames and exchanges."""
        entry, rows = self.entry, self._rows
        rows.is_exchanges = not rows.is_exchanges
        self._filtered = False
        rows.view = self.reading.exchanges.request if rows.is_exchanges else self.reading.shown
        following = self.table.following
        self._set_columns()
        self.table.show(rows)
        if entry is not None and not self.go_to(self._line_of(entry)):
            # Not in an exchange: take the last exchange that began before it.
            self.table.go(bisect_right(rows.view, entry) - 1)
        self.table.following = following
        self._show_place()

    def action_times(self) -> None:
        """Switch times: since the start, since the row above, wall clock."""
        self._rows.times = TIMES[(TIMES.index(self._rows.times) + 1) % len(TIMES)]
        self._set_columns()

    def _set_columns(self) -> None:
        self.table.set_columns(timed(EXCHANGES if self._rows.is_exchanges else FRAMES, self._rows.times))

    # ---- the filter

    def action_filter(self) -> None:
        """Type an expression."""
        self.query_one(FilterBox).open(self._scan.only.text if self._scan is not None else "")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        # An error in the unfinished expression does not hide Tab's suggestions.
        if event.value != self._offered:
            self._offered = ""
            self._point(event.value)

    def _point(self, text: str) -> str | None:
        """Show where an expression is wrong; returns the error."""
        wrong = self.query_one("#wrong", Words)
        try:
            if text.strip():
                parse(text)
        except FilterError as error:
            wrong.say_lines([[Span(line, "bad")] for line in str(error).splitlines()])
            wrong.display = True
            return error.wrong
        wrong.display = False
        return None

    def _complete(self) -> None:
        box, wrong = self.query_one(FilterBox), self.query_one("#wrong", Words)
        term, found = completed_filter(box.before, self.reading.calls.all)
        if found is not None and found.text != term:
            box.complete(term, found.text)
        if found is not None and found.options:
            wrong.say([Span(fit("  ".join(map(sanitise, found.options)), OFFERED), "dim")])
            wrong.display = True
            self._offered = box.value

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if text and self._point(text) is not None:
            return
        self.query_one(FilterBox).keep(text)
        self.select(text)

    def select(self, text: str) -> None:
        """Show what an expression selects; everything if it is empty."""
        self._leave_box()
        self._end_scan()
        self._scan = None
        if not text:
            self._show_all()
            return
        try:
            self._scan = Scan(self.reading, parse(text), self.marks.notes)
        except (FilterError, CaptureError) as error:
            notify(self.app, str(error), bad=True)
            return
        entry, following = self.entry, self.table.following and self.reading.is_live
        self._near = (entry, 0) if entry is not None and not following else None
        self.table.following = following
        self._rows.is_exchanges, self._filtered = False, True
        self._rows.view = self._scan.rows
        self._set_columns()
        self.table.show(self._rows)
        self.begin(self._scan.step, "scan")
        self._title()

    @property
    def _is_as_opened(self) -> bool:
        """Whether the filter is the one the screen was opened with: then there is no earlier view to go back to."""
        return self._scan is not None and self._scan.only.text == self._only

    def _end_scan(self) -> None:
        self.end()
        if self._scan is not None:
            self._scan.close()

    def _show_all(self) -> None:
        entry = self.entry
        self._filtered = self._rows.is_exchanges = False
        self._rows.view = self.reading.shown
        self._set_columns()
        self.table.show(self._rows)
        if entry is not None:
            self.go_to(entry)
        self._title()

    @on(FilterBox.Left)
    def _leave_box(self) -> None:
        self.query_one(FilterBox).display = False
        self.query_one("#wrong", Words).display = False
        self.table.focus()

    # ---- the detail

    @on(Table.Chosen)
    def action_into(self) -> None:
        """Show the detail, and move the focus to it."""
        # A message that is being read must not be replaced by the next one.
        self.table.following = False
        self.query_one("#below").display = True
        self._show_place()
        self.pane.focus()

    def action_outof(self) -> None:
        """Go back to the list."""
        self.table.focus()

    def action_panes(self) -> None:
        """Move between the list and the detail; in the filter, complete the term."""
        if self.query_one(FilterBox).display:
            self._complete()
        elif self.table.has_focus:
            self.action_into()
        else:
            self.table.focus()

    def action_back(self) -> None:
        """Leave the detail, or else the filter, or else the capture."""
        below = self.query_one("#below")
        if below.display:
            below.display = False
            self.table.focus()
        elif self._filtered and not self._is_as_opened:
            self._show_all()
        else:
            cast("TheApp", self.app).leave()

    def action_view(self, number: int) -> None:
        """Show one of the views of the detail."""
        self._view, self._page = VIEWS[number], 0
        self.query_one("#below").display = True
        self._show_detail()

    def action_turn(self, by: int) -> None:
        """Show the next or previous page of long content."""
        self._page = max(0, min(self._page + by, self._pages - 1))
        self._show_detail()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the exchange beside the detail."""
        self.query_one("#beside").display = event.size.width >= SIDE_BY_SIDE
        self._rows.is_narrow = all(column.name != "more" for column, _ in layout(FRAMES, event.size.width - 1))
        self._detailed = ()
        self._show_detail()

    def _show_detail(self) -> None:
        """Read what the pane should show, in a thread, unless it already shows it."""
        entry = self.entry
        if not self.query_one("#below").display or entry is None:
            return
        number = self.reading.exchange(entry)
        settled = self.reading.outcome(number) if number is not None else None
        # A tree keeps its folds, whatever is found meanwhile.
        findings = self.reading.findings
        found = (findings.at(entry), entry < findings.checked) if self._view == "findings" else None
        wanted = (entry, self._view, self._page, self.size.width, settled, entry < self.reading.understood, found)
        if wanted == self._detailed:
            return
        self._detailed = wanted
        width = max(10, self.size.width - (50 if self.query_one("#beside").display else 4))

        def read(view: str = self._view, page: int = self._page) -> None:
            try:
                found = detail(self.reading, entry, view, page, width)
            except OSError as error:
                found = Detail([[Span(str(error), "bad")]])
            self.post_message(DetailRead(entry, found))

        self._thread.submit(read)

    @on(DetailRead)
    def _read(self, event: DetailRead) -> None:
        if event.row != self.entry or not isinstance(event.item, Detail):
            return
        shown, self._pages = event.item, event.item.pages
        self._silence = event.row, shown.silence
        if shown.tree is not None:
            self.pane.say_tree(shown.tree)
        else:
            self.pane.say_lines(shown.lines)
        note = self._show_beside()
        tabs = [Span(f"{called(self.reading.index.entry(event.row))}  ", "dim")]
        for number, view in enumerate(VIEWS, 1):
            tabs.append(Span(f"{number} {view}  ", "accent" if view == self._view else "dim"))
        if self._pages > 1:
            tabs.append(Span(f"page {self._page + 1:,} of {self._pages:,}  [ ]", "plain"))
        if note:
            tabs.append(Span(f"◆ {note}", "accent"))
        self.query_one("#tabs", Words).say(tabs)

    def _show_beside(self) -> str | None:
        """Show what else is known of the row at the cursor; returns the user's own note."""
        entry = self.entry
        if entry is None:
            return None
        note = self.marks.notes.get(self.reading.index.entry(entry).seq)
        noted = [[Span(f"◆ {note}", "accent")]] if note else []
        silence = self._silence[1] if self._silence[0] == entry else ""
        beside = [*noted, *exchange_lines(self.reading, entry, silence), *short_lines(self.reading, entry, BESIDE)]
        self.query_one("#beside", Words).say_lines(beside)
        return note
