"""Sessions: every capture of every server, live ones on top; a value that is not known yet shows `…`."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer

from analysis import clock
from analysis.summary import Summary
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.capture_list import CaptureList, ListedCapture, short_name
from mcpproxy.tui.data.checking import FindingCounter
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.messages import CaptureUnreadable, Checked, ListChanged, OpenRequested
from mcpproxy.tui.rows.session_columns import SessionColumns
from mcpproxy.tui.rows.session_preview import preview_lines
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screen_entries import bind_screens
from mcpproxy.tui.screens.comparison_choice import ComparisonChoice
from mcpproxy.tui.screens.deletion import Deletion
from mcpproxy.tui.screens.exporting import Exporter
from mcpproxy.tui.screens.list_screen import TO_FILTER, TO_SORT, ListScreen
from mcpproxy.tui.screens.longest_wait import NOTHING_WAITS, session_with_longest_wait, waiting_pieces
from mcpproxy.tui.screens.prompts import LineScreen
from mcpproxy.tui.screens.search import SearchScreen
from mcpproxy.tui.screens.traffic_filter import trouble_term
from mcpproxy.tui.widgets.clickable_line import ClickableLine, Piece
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Column, MemoryRows, Table, TableLine
from mcpproxy.tui.widgets.word_box import WordBox
from mcpproxy.wording import units
from mcpproxy.wording.blocks import blocks
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.waits import MIN_SHOWN_WAIT_NS, shortest_waiting_text, waiting_role

COLUMNS: Final = (
    Column("mark", "", 1, label="state"),
    Column("server", "server", 11, stretch=2),
    Column("client", "client", 10, stretch=2, drop=3),
    Column("transport", "via", 5, drop=9),
    Column("revision", "revision", 10, drop=4),
    Column("age", "age", 7, is_right_aligned=True, drop=2),
    Column("frames", "frames", 7, is_right_aligned=True, drop=1),
    Column("errors", "err", 4, is_right_aligned=True, drop=1),
    Column("findings", "find", 5, is_right_aligned=True, drop=6),
    Column("p95", "p95", 6, is_right_aligned=True, drop=5),
    Column("traffic", "traffic", len("abandoned"), stretch=1, drop=7),
    Column("lasted", "lasted", 7, is_right_aligned=True, drop=8),
    Column("capture", "capture", 30, drop=10),
)
MIN_PREVIEW_WIDTH: Final = 160
"""The minimum width of a terminal in which the session at the cursor is described below the list, in cells."""
MIN_PREVIEW_HEIGHT: Final = 30
"""The minimum height of such a terminal, in lines."""
PREVIEW_PADDING: Final = 2
"""The number of cells beside the description."""
COUNT_INTERVAL_S: Final = 0.3
"""How long a session must be selected before its findings are counted, so that passing over it costs nothing."""
FRESH_NS: Final = 3_600_000_000_000
"""Up to which age, in nanoseconds, a session that has ended is fresh."""
MAX_COUNTABLE_FRAMES: Final = 20_000
"""The maximum number of frames of a capture whose findings are counted although it is not selected."""
MAX_REASON_CHARS: Final = 200
"""The maximum length of the reason why a capture cannot be read, in characters."""
MAX_MEASURED_ROWS: Final = 100
"""The number of sessions to whose texts the columns are fitted."""
_UNKNOWN: Final = (Span("…", "dim"),)
_MARK: Final = (Span("◆ ", "accent"),)


class SessionRows(MemoryRows[ListedCapture]):
    """Captures as the rows of a table, sorted and filtered."""

    def __init__(self, capture_list: CaptureList, findings: Callable[[Path], Findings | None]) -> None:
        """Start without rows.

        Args:
            capture_list: the captures.
            findings: returns the findings of a capture that is being checked or was checked.
        """
        super().__init__()
        self.marked_path: Path | None = None
        """The capture that is marked for a comparison."""
        self._capture_list = capture_list
        self._findings = findings
        self.traffic_width = len("abandoned")
        """The width of the column with the bars, in cells."""
        self.bars_width = self.traffic_width
        """The width of the bars, in cells; what the column has besides is for the problems of sessions."""

    def prefetch(self, first: int, last: int) -> None:
        """Request that these captures are read before all others."""
        self._capture_list.in_view = self.items[first:last]

    def line(self, row: int) -> TableLine:
        """The cells of a capture."""
        return self.line_of(self.items[row])

    def line_of(self, capture: ListedCapture) -> TableLine:
        """The cells of a capture, which need not be in the list."""
        summary = capture.summary
        role: Role = "bad" if state_sign(capture) in "✝▲" else "accent" if capture.is_live else "plain"
        cells: dict[str, Sequence[Span]] = {
            "mark": (Span(state_sign(capture), role),),
            "server": (*_MARK[: capture.path == self.marked_path], Span(capture.server, "plain")),
            "capture": (Span(short_name(capture.path), "dim"),),
        }
        if not capture.is_readable:
            name = "" if capture.server else f"{sanitise(capture.path.name)} "
            text = f"{name}cannot be read: {sanitise(capture.unreadable_reason, MAX_REASON_CHARS)}"
            return TableLine({**cells, "client": (Span(text, "bad"),)}, wide_column="client")
        if summary is None:
            return TableLine(cells)
        return TableLine({**cells, **self._summary_cells(capture, summary)})

    def _findings_cell(self, capture: ListedCapture) -> Sequence[Span]:
        """The number of errors and warnings; with `…` until the whole capture is checked."""
        findings = self._findings(capture.path)
        if findings is not None and findings.trouble and not findings.has_caught_up:
            return (Span("–", "dim"),)
        tally = capture.tally if findings is None or not findings.has_caught_up else findings.tally
        if tally is None:
            return (
                Span(
                    f"{units.short_count(findings.tally.violations)}…"
                    if findings is not None and findings.tally.violations
                    else "…",
                    "dim",
                ),
            )
        return (
            Span(
                units.short_count(tally.violations), "bad" if tally.errors else "plain" if tally.violations else "dim"
            ),
        )

    def _summary_cells(self, capture: ListedCapture, summary: Summary) -> dict[str, Sequence[Span]]:
        cells: dict[str, Sequence[Span]] = {
            "transport": (Span(summary.transport or "", "dim"),),
            "age": (Span(age_text(summary, live=capture.is_live), age_role(summary, live=capture.is_live)),),
            "findings": self._findings_cell(capture),
        }
        if not (capture.has_full_summary or capture.is_live):
            return {**cells, **dict.fromkeys(("client", "revision", "frames", "errors", "p95", "traffic"), _UNKNOWN)}
        return {
            **cells,
            "client": (Span(summary.client or "–"),),
            "revision": _revision_cell(summary),
            "frames": (
                Span(f"{summary.frames:,}" if summary.frames < 1_000_000 else units.short_count(summary.frames)),
            ),
            "errors": (Span(units.short_count(summary.failures), "bad" if summary.failures else "dim"),),
            "p95": (Span(units.brief_duration(summary.p95_ns), "plain"),),
            "traffic": self._traffic_cell(summary),
            "lasted": (Span(units.brief_duration(_lasted_ns(summary, is_live=capture.is_live)), "dim"),),
        }

    def _traffic_cell(self, summary: Summary) -> Sequence[Span]:
        """The bars, and the most important problem after them or, if there is too little room for both, instead."""
        trouble, bars = trouble_cell(summary, self.traffic_width), sparkline(summary.traffic, self.bars_width)
        if self.traffic_width - self.bars_width <= 1:
            return trouble or (Span(bars, "accent"),)
        return (Span(f"{bars:<{self.bars_width + 1}}", "accent"), *trouble)


def _revision_cell(summary: Summary) -> Sequence[Span]:
    """The revision; of several, the month of the first, which is unique to it, and how many follow: `2025-11 +1`."""
    first_revision, *later_revisions = summary.revisions or ("–",)
    return (Span(f"{first_revision[:7]} +{len(later_revisions)}" if later_revisions else first_revision),)


def _is_countable(capture: ListedCapture) -> bool:
    """Whether the findings of a capture are unknown, and counting them takes some seconds at most."""
    is_small = capture.summary is not None and capture.summary.frames <= MAX_COUNTABLE_FRAMES
    return (
        capture.is_readable and capture.has_full_summary and not capture.is_live and capture.tally is None and is_small
    )


def state_sign(capture: ListedCapture) -> str:
    """The sign for the state of a capture: `●` live, `○` ended, `✝` died, `▲` lost records."""
    summary = capture.summary
    if not capture.is_readable or (summary is not None and summary.lost and summary.ending is None):
        return "▲"
    if capture.is_live:
        return "●"
    return "✝" if summary is not None and summary.state == "died" and capture.has_full_summary else "○"


def trouble_cell(summary: Summary, width: int) -> Sequence[Span]:
    """The most important problem of a session: its end, requests that hang, abandoned or unanswered ones, or losses.

    Args:
        summary: the summary of the session.
        width: the width of the column, in cells; in a narrow column, the words are abbreviated, but not the number.
    """
    if summary.ending:
        return (Span(summary.ending, "bad"),)
    waited_ns = summary.waited_ns
    if waited_ns is not None and waited_ns >= MIN_SHOWN_WAIT_NS:
        return (Span(shortest_waiting_text(summary.waiting, waited_ns, width), waiting_role(waited_ns)),)
    count, word = (summary.abandoned, "abandoned") if summary.abandoned else (summary.unanswered, "unanswered")
    if not count:
        return (Span(f"{units.short_count(summary.lost)} lost", "bad"),) if summary.lost else ()
    text, short_text = f"{count:,} {word}", f"{units.short_count(count)} {word[:5]}"
    return (Span(text if len(text) <= width else short_text, "bad"),)


def _lasted_ns(summary: Summary, *, is_live: bool) -> int:
    return clock.duration_ns(summary.duration_ns, summary.wall_ns, is_live=is_live)


def age_text(summary: Summary, *, live: bool) -> str:
    """How long a live session has been running, or how long ago an ended one began."""
    if live:
        return units.brief_duration(_lasted_ns(summary, is_live=True))
    seconds = clock.age_ns(summary.wall_ns) // 1_000_000_000
    if summary.wall_ns is None or seconds < 0:
        return ""
    for size, unit in ((365 * 86400, "y"), (7 * 86400, "w"), (86400, "d"), (3600, "h"), (60, "m")):
        # Up to 99 days, a number of days is clearer.
        if seconds >= size and not (unit == "w" and seconds < 100 * 86400):
            return f"{seconds // size:,}{unit} ago"
    return f"{seconds}s ago"


def age_role(summary: Summary, *, live: bool) -> Role:
    """The role of an age: live sessions stand out most, then those of the last hour; all others are dim."""
    if live:
        return "accent"
    return "plain" if summary.wall_ns is not None and clock.age_ns(summary.wall_ns) < FRESH_NS else "dim"


def sparkline(traffic: Sequence[int], width: int) -> str:
    """Returns counts as at most `width` bars, one for each count or several; none is empty if there was traffic."""
    width = min(width, len(traffic))
    cuts = [len(traffic) * number // width for number in range(width + 1)] if width else []
    sums = [sum(traffic[start:end]) for start, end in pairwise(cuts)]
    return blocks(sums)


class SessionsScreen(ListScreen):
    """The list of sessions."""

    DEFAULT_CSS = """
    SessionsScreen #nothing { padding: 1 2; display: none; height: 1fr; }
    SessionsScreen #unrecorded { padding: 0 1; display: none; height: 1; }
    SessionsScreen #preview { padding: 0 1; display: none; height: 8; border-top: solid $line; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_FILTER,
        TO_SORT,
        Binding("exclamation_mark", "errors", "errors", id="errors"),
        Binding("w", "waiting", "waiting", id="waiting"),
        Binding("equals_sign", "compare", "compare", id="compare"),
        Binding("e", "export", "export", id="export"),
        Binding("S", "search", "search all", id="search"),
        Binding("d", "delete", "delete", show=False, id="delete"),
        Binding("escape", "back", "all", show=False, id="back"),
    ]
    LIST = "#sessions"
    SORTS = ("newest", "server", "frames", "errors", "p95")
    SORT_COLUMNS: ClassVar[Mapping[str, str]] = {"age": "newest"} | {name: name for name in SORTS[1:]}

    def __init__(self, capture_list: CaptureList, nothing: str) -> None:
        """Create the screen.

        Args:
            capture_list: the captures.
            nothing: the text to show if there are none.
        """
        super().__init__()
        self.capture_list = capture_list
        self.box = WordBox("words in server, client, revision, …", of="sessions", id="filter")
        self.box.known_words = self._known_words
        self._deletion = Deletion(self, self.update_rows)
        self._exporter = Exporter(self, self.show_title)
        self._comparison_choice = ComparisonChoice(self)
        self._empty_text = nothing
        self._rows = SessionRows(capture_list, self._findings)
        self._columns = SessionColumns(COLUMNS)
        self._known_captures: Sequence[ListedCapture] = ()
        """The captures from which the rows were made: a thread may have found more since."""
        self._counting: FindingCounter | None = None
        self._step_thread: StepThread | None = None
        self._update_timers: tuple[Timer, ...] = ()
        bind_screens(self._bindings, "sessions")

    def compose(self) -> ComposeResult:
        """The list."""
        yield ClickableLine(id="title")
        yield SafeText(id="nothing")
        yield Table(COLUMNS, place="sessions", id="sessions")
        yield SafeText(id="preview")
        yield SafeText(id="unrecorded")
        yield self.box
        yield Foot()

    def on_mount(self) -> None:
        """Start the search for captures."""
        table = self.table
        table.show(self._rows)
        table.focus()
        self.show_title()
        self._step_thread = StepThread(self.capture_list.step, self._report_change, self._report_failure, "shelf")
        self._counting = FindingCounter(self.app.checking)
        self._update_timers = (
            self.set_interval(1.0, self.update_rows),
            self.set_interval(COUNT_INTERVAL_S, self._count_findings),
        )

    @on(events.Resize)
    def _fit_later(self) -> None:
        """Fit the columns once the table has its new width."""
        self.call_after_refresh(self._fit_columns)

    @on(Table.ColumnsChosen)
    def _fit_columns(self) -> None:
        """Fit the columns to what the sessions say, and the bars to their column."""
        table, rows = self.table, self._rows
        width = table.room.width or self.app.size.width - 1
        is_wider = True
        while is_wider:
            # Until its header is read, a capture has the name of its folder.
            lines = (rows.line(row) for row, capture in enumerate(rows.items[:MAX_MEASURED_ROWS]) if capture.has_begun)
            table.set_columns(self._columns.fitted(lines, width))
            traffic_width = table.widths(width).get("traffic", rows.traffic_width)
            # In a wider column, problems are said in longer words.
            is_wider = traffic_width > rows.traffic_width
            rows.traffic_width, rows.bars_width = traffic_width, self._columns.bars_width(traffic_width)
        table.renew()

    def on_unmount(self) -> None:
        """Stop the search."""
        if self._step_thread is not None:
            self._step_thread.stop()
        self.capture_list.close()
        self._deletion.close()
        self._exporter.close()

    def on_screen_resume(self) -> None:
        """Continue the search, as the list is visible again."""
        self.capture_list.is_paused = False
        for timer in self._update_timers:
            timer.resume()
        self.update_rows()

    def on_screen_suspend(self) -> None:
        """Pause the search, to leave the processor to the screen that hides the list."""
        self.capture_list.is_paused = True
        for timer in self._update_timers:
            timer.pause()

    def _report_change(self) -> None:
        self.post_message(ListChanged())

    def _report_failure(self, reason: str) -> None:
        self.post_message(CaptureUnreadable(Path(), reason))

    @property
    def selected(self) -> ListedCapture | None:
        """The capture at the cursor."""
        return self._rows.at(self.table.cursor)

    @property
    def captures(self) -> Sequence[ListedCapture]:
        """The captures that are listed."""
        return self._rows.items

    def _findings(self, path: Path) -> Findings | None:
        """The findings of a capture: the open capture is checked in full, others are only counted."""
        findings = self.app.findings(path)
        return self._counting.findings(path) if findings is None and self._counting is not None else findings

    @on(Checked)
    def _checked(self) -> None:
        self.table.renew()
        self._show_preview()

    def _count_findings(self) -> None:
        """Count findings, one capture at a time: in the selected one, the live ones, and visible ones if not large."""
        if self._counting is None:
            return
        selected, captures = self.selected, self.capture_list.captures
        live_captures = [capture for capture in captures if capture.is_live and capture.is_readable]
        # The summaries come first: a check takes the processor from the thread that reads them.
        is_ready = all(capture.has_full_summary or capture.is_live for capture in self.capture_list.in_view)
        visible_captures = [capture for capture in self.capture_list.in_view if is_ready and _is_countable(capture)]
        other_paths = [
            capture.path for capture in (*live_captures, *visible_captures) if self.app.findings(capture.path) is None
        ]
        is_unknown = selected is not None and selected.is_readable and selected.tally is None
        is_countable = selected is not None and is_unknown and self.app.findings(selected.path) is None
        self._counting.count_findings(
            list(dict.fromkeys(other_paths)), selected.path if selected is not None and is_countable else None
        )

    @on(ListChanged)
    @on(WordBox.WordsChanged)
    def update_rows(self) -> None:
        """Show the captures that match the words."""
        words = self.box.words.lower().split()
        self._rows.marked_path = self._comparison_choice.marked
        has_looked, self._known_captures = self.capture_list.has_searched, self.capture_list.captures
        captures = [
            capture
            for capture in self._known_captures
            if capture.path not in self._deletion.deleted_paths
            and all(word in self._searchable_text(capture) for word in words)
        ]
        # Until all headers are read, rows keep the order of the files, so that they do not trade places one by one.
        are_dated = all(capture.has_begun for capture in self._known_captures)
        captures.sort(
            key=lambda capture: (*self._order(capture), -(capture.began_ns // 1_000_000_000) if are_dated else 0)
        )
        self.replace_rows(self._rows, captures, key=lambda capture: capture.path)
        self._fit_columns()
        is_empty = has_looked and not self._known_captures
        self._show_nothing(is_empty=is_empty, has_no_match=bool(words and self._known_captures) and not captures)
        self.display_table(is_shown=not is_empty)
        self._show_unrecorded()
        self._show_preview()
        self.show_title()

    def _show_nothing(self, *, is_empty: bool, has_no_match: bool) -> None:
        """Say why no session is listed."""
        text = self.query_one("#nothing", SafeText)
        text.display = is_empty or has_no_match
        text.styles.height = "1fr" if is_empty else "auto"
        if is_empty:
            text.show_lines(self._empty_text.splitlines())
        elif has_no_match:
            text.show("no session has these words; Esc shows all")

    @on(events.Resize)
    @on(Table.RowHighlighted)
    def _show_preview(self) -> None:
        """Describe the session at the cursor, if there is room."""
        capture, size, preview = self.selected, self.app.size, self.query_one("#preview", SafeText)
        summary = capture.summary if capture is not None and (capture.has_full_summary or capture.is_live) else None
        has_room = size.width >= MIN_PREVIEW_WIDTH and size.height >= MIN_PREVIEW_HEIGHT
        # Until the summary is known, the room stays, so that the list does not tremble.
        preview.display = has_room and capture is not None
        if capture is None or not preview.display:
            return
        if summary is None or not capture.is_readable:
            preview.show_lines([])
            return
        findings = self._findings(capture.path)
        tally = findings.tally if findings is not None and findings.has_caught_up else capture.tally
        lasted_ns = _lasted_ns(summary, is_live=capture.is_live)
        preview.show_lines(preview_lines(summary, tally, size.width - PREVIEW_PADDING, lasted_ns=lasted_ns))

    def _show_unrecorded(self) -> None:
        """Name the routed servers that have no recording yet."""
        line = self.query_one("#unrecorded", SafeText)
        line.display = bool(self.capture_list.unrecorded_servers)
        names = ", ".join(f"{server.name} ({server.client})" for server in self.capture_list.unrecorded_servers)
        line.show([Span("routed, no traffic yet: ", "dim"), Span(names)])

    def _searchable_text(self, capture: ListedCapture) -> str:
        """Returns what the columns say about a session, in words."""
        summary = capture.summary or Summary()
        state = "live" if capture.is_live else summary.state if capture.has_full_summary else ""
        fields = (summary.client, *summary.revisions, summary.transport, summary.ending)
        return " ".join(filter(None, (capture.server, state, short_name(capture.path), *fields))).lower()

    def _known_words(self) -> list[str]:
        """The words of all sessions."""
        return [word for capture in self._known_captures for word in self._searchable_text(capture).split()]

    def _order(self, capture: ListedCapture) -> tuple[bool, float | str]:
        summary = capture.summary or Summary()
        keys: dict[str, float | str] = {
            "newest": 0,
            "server": capture.server.lower(),
            "frames": -summary.frames,
            "errors": -summary.failures,
            "p95": -(summary.p95_ns or 0),
        }
        return not capture.is_live, keys[self.order]

    def show_title(self) -> None:
        """Update the title to match the screen."""
        live_count = sum(capture.is_live for capture in self._known_captures)
        spans: list[Span | Piece] = [
            Span(f"  {live_count} live · {len(self._known_captures) - live_count:,} recorded"),
            *self._waiting_pieces(),
        ]
        if self._comparison_choice.marked is not None:
            spans.append(Span("  ◆ = on another compares", "accent"))
        if self.box.words:
            spans.append(Span(f"  filter: {self.box.words} ({len(self._rows):,})", "accent"))
        if self.order != self.SORTS[0]:
            spans.append(Span(f"  by {self.order}", "dim"))
        if any(not capture.has_full_summary for capture in self._known_captures if not capture.is_live):
            spans.append(Span("  …", "dim"))
        if self._exporter.progress:
            spans.append(Span(f"  {self._exporter.progress}", "accent"))
        self.set_title(spans)

    def _waiting_pieces(self) -> list[Piece]:
        """How many calls wait in all live sessions, and how long the oldest has waited."""
        summaries = [capture.summary for capture in self._known_captures if capture.is_live and capture.summary]
        waited_ns = max((summary.waited_ns or 0 for summary in summaries), default=0)
        return waiting_pieces(sum(summary.waiting for summary in summaries), waited_ns, "waiting_in_all")

    # ---- keys

    @on(Table.RowSelected)
    def _open(self) -> None:
        """Open the capture at the cursor."""
        capture = self.selected
        if capture is not None:
            self.post_message(OpenRequested(capture.path))

    def action_filter(self) -> None:
        """Let the user type words that the rows must contain."""
        self.box.edit()

    def clear_filter(self) -> bool:
        """Remove the mark for a comparison, or else show all rows again; returns False if there was neither."""
        if self._comparison_choice.clear():
            self.update_rows()
            return True
        return self.box.clear_words()

    def action_compare(self) -> None:
        """Mark the capture at the cursor, or compare it with the marked one."""
        capture = self.selected
        if capture is None:
            notify(self.app, "nothing is selected")
            return
        self._comparison_choice.choose(capture, self.capture_list.captures)
        self.update_rows()

    def action_errors(self) -> None:
        """Show what went wrong in the session at the cursor, and what waits in it."""
        capture = self.selected
        if capture is None:
            notify(self.app, "nothing is selected")
            return
        self.post_message(OpenRequested(capture.path, filter_text=trouble_term(is_live=capture.is_live)))

    def action_waiting(self) -> None:
        """Go to the call that has waited longest in the session at the cursor or, if none waits there, in any."""
        self._go_to_longest_wait(self.selected)

    def action_waiting_in_all(self) -> None:
        """Go to the call that has waited longest in all sessions."""
        self._go_to_longest_wait(None)

    def _go_to_longest_wait(self, selected: ListedCapture | None) -> None:
        capture = session_with_longest_wait(selected, self._known_captures)
        if capture is None:
            notify(self.app, NOTHING_WAITS)
            return
        self.post_message(OpenRequested(capture.path, is_at_longest_wait=True))

    def action_export(self) -> None:
        """Prompt for a file, and export the capture at the cursor to it."""
        capture = self.selected
        if capture is not None:
            transport = capture.summary.transport if capture.summary is not None else None
            self._exporter.prompt_for_capture(capture.path, capture.server, transport)
        else:
            notify(self.app, "nothing is selected")

    def action_search(self) -> None:
        """Prompt for a text, and search the captures that are listed for it."""
        if self.captures:
            self.app.push_screen(LineScreen(f"find in {count_text(len(self.captures), 'session')}"), self._search)
        else:
            notify(self.app, "there are no sessions to search")

    def _search(self, text: str | None) -> None:
        if text:
            self.app.push_screen(SearchScreen(text, list(self.captures), self.capture_list, self._rows.line_of))

    def action_delete(self) -> None:
        """Delete the capture at the cursor, after confirmation."""
        capture = self.selected
        if capture is not None:
            self._deletion.ask_and_delete(capture.path)
        else:
            notify(self.app, "nothing is selected")

    def leave(self) -> None:
        """Do nothing: there is no screen below."""

    @on(CaptureUnreadable)
    def _failed(self, event: CaptureUnreadable) -> None:
        notify(self.app, event.reason, bad=True)
