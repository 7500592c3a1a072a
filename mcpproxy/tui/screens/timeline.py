"""Timeline: all servers of one client process on one clock: how each started, and every exchange as a bar."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.timelines import Timeline, Timelines
from mcpproxy.tui.messages import CaptureGrown, Progressed
from mcpproxy.tui.rows.timeline_rows import FIRST_KIND_NUMBER, HEAD_NUMBER, MAX_BARS, MIN_STRETCH_NS, TimelineRows
from mcpproxy.tui.rows.waterfall import LEGEND, Window, axis, heat_legend, legend
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.limit import TO_LIMIT, Limit
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Column, Table, layout
from mcpproxy.wording import units
from mcpproxy.wording.cells import fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.names import peer_text
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import brief_duration

GOAL_LOOKAHEAD_ROWS: Final = 1000
"""How many rows after the row from which the screen was opened must be read before the cursor goes to that row."""
MIN_LEGEND_HEIGHT: Final = 14
"""The minimum terminal height at which a legend is shown, in lines."""
MAX_NAME_CELLS: Final = 26
"""The maximum width of the client's name in the title, in cells."""
MAX_NAMES_PERCENT: Final = 42
"""The maximum width of the names, in percent of the width of the table."""
NAMES_HEADING: Final = "server / request"
MIN_HEADED_WIDTH: Final = 40
"""The minimum width of the table at which there is room for the whole heading of the names, in cells."""


@dataclass(frozen=True)
class TimelinePlace:
    """Where the user was in a timeline, so that `Esc` leads back there from another capture."""

    path: Path
    """The capture of the row at the cursor."""
    number: int
    """The number of the row, as in `TimelineRows`."""
    window: Window | None
    """The period that the user has chosen; None for everything."""
    unfolded_paths: frozenset[Path]
    """The captures whose exchanges were shown."""
    limit: str
    """The filter from which the screen was opened."""


class TimelineScreen(CaptureScreen):
    """The waterfall of one client."""

    DEFAULT_CSS = """
    TimelineScreen {
        & #legend { height: 1; background: $panel; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "zoom(1)", "zoom", key_display="+ -", id="zoom-in"),
        Binding("minus,underscore", "zoom(-1)", "zoom out", show=False, id="zoom-out"),
        Binding("left,h", "pan(-1)", "pan", key_display="← →", priority=True, id="earlier"),
        Binding("right,l", "pan(1)", "later", show=False, priority=True, id="later"),
        Binding("0", "whole", "all", id="whole"),
        Binding("z", "fit", "fit", id="fit"),
        Binding("u", "startup", "start-up", id="startup"),
        Binding("o", "fold", "fold", id="fold-server"),
        Binding("a", "fold_all", "fold all", show=False, id="fold-all"),
        Binding("n", "server(1)", "server", id="next"),
        Binding("N", "server(-1)", "previous server", show=False, id="previous"),
        Binding("f", "follow", "follow", show=False, id="follow"),
        TO_LIMIT,
    ]
    LIST = "#timeline"

    def __init__(self, capture: OpenCapture, place: TimelinePlace | None = None) -> None:
        """Create the screen of the client of a capture.

        Args:
            capture: the capture.
            place: where to go back to; None to go to the row of the capture.
        """
        super().__init__(capture.reading)
        self.limit = Limit(capture.limit if place is None else place.limit)
        self.timelines = Timelines(
            capture.reading,
            lambda: [listed.path for listed in self.app.capture_list.captures],
            self.app.checking,
            self.limit.row_filter,
        )
        self._rows = TimelineRows(self.timelines)
        self._place = place
        """Where to go back to, until the cursor is there."""
        self._unfolded_paths = frozenset() if place is None else place.unfolded_paths
        self._window = None if place is None else place.window
        """The period that the user has chosen; None for everything."""
        self._is_following = False
        self._name_cells = 0
        """The width of the column with the names, in cells; it only grows, so that zooming does not move the chart."""
        self._goal = capture.row
        """The row from which the screen was opened, until the cursor is there."""
        self._known_timelines: set[Timeline] = set()
        """The servers that have been shown. A server that is found later starts folded, except the open one."""
        bind_switches(self._bindings, "timeline")

    def compose(self) -> ComposeResult:
        """The timelines."""
        yield ClickableLine(id="title")
        yield Table(columns(80, "", 0), id="timeline")
        yield SafeText(id="legend")
        yield Foot()

    def on_mount(self) -> None:
        """Start looking for the other captures."""
        self.table.show(self._rows)
        self.table.focus()
        # A scroll bar would take a cell of the chart.
        self.watch(self.table, "show_vertical_scrollbar", lambda: self.draw_later(self.update_rows), init=False)
        self.update_rows()
        self.start_thread(self.timelines.step, "timeline")

    def on_unmount(self) -> None:
        """Stop reading."""
        self.stop_thread()
        self.timelines.close()

    @property
    def window(self) -> Window:
        """The period that is drawn."""
        return self._rows.window

    @property
    def selected(self) -> tuple[Timeline, int] | None:
        """The timeline at the cursor, and the number of the exchange, HEAD or MANY."""
        return self._rows.at(self.table.cursor)

    def way_back(self) -> Callable[[OpenCapture], "TimelineScreen"]:
        """Returns what creates this screen again in its present state, when its capture is opened again."""
        timeline, number = self.selected or (self.timelines.own_timeline, HEAD_NUMBER)
        unfolded_paths = frozenset(
            shown.reading.path for shown in self.timelines.all if shown not in self._rows.folded_timelines
        )
        limit = self.limit.row_filter.text if self.limit.row_filter is not None else ""
        place = TimelinePlace(timeline.reading.path, number, self._window, unfolded_paths, limit)
        return lambda capture: TimelineScreen(capture, place)

    # ---- updates

    def on_resize(self, event: events.Resize) -> None:
        """Redraw for the new width."""
        self._name_cells = 0
        self.query_one("#legend", SafeText).display = event.size.height >= MIN_LEGEND_HEIGHT
        self.draw_later(self.update_rows)

    @on(CaptureGrown)
    @on(Progressed)
    def update_rows(self) -> None:
        """Show what runs in the window."""
        rows, table = self._rows, self.table
        low, high = self.timelines.extent()
        rows.zero_ns, rows.last_ns = low, high
        self._fold_new_servers()
        self._zoom_to_goal()
        margin = (high - low) // 50
        window = self._window or (low, max(high + margin, low + MIN_STRETCH_NS))
        if self._is_following and self._window is not None:
            window = self._window = (high - (window[1] - window[0]), high)
        rows.window = window
        width = table.room.width
        running_rows = rows.running_rows()
        self._name_cells = max(self._name_cells, rows.fit_names(running_rows, width * MAX_NAMES_PERCENT // 100))
        plain_columns = columns(width, "", self._name_cells)
        cells = next((max(1, size) for column, size in layout(plain_columns, width) if column.name == "chart"), 1)
        if cells != rows.cells:
            # The maps are requested for the cells of the chart.
            rows.cells = cells
            running_rows = rows.running_rows()
        table.set_columns(columns(width, axis(window, low, rows.cells), self._name_cells))
        self.replace_rows(rows, running_rows, key=lambda item: item)
        self._go_to_goal()
        self._return_to_place()
        self._show_legend()
        self.show_title()

    def _fold_new_servers(self) -> None:
        """Fold the servers found since the last update, so that the open one stays in sight."""
        new_timelines = set(self.timelines.all) - self._known_timelines
        self._known_timelines |= new_timelines
        if self._place is not None or self._unfolded_paths:
            unfolded = {shown for shown in new_timelines if shown.reading.path in self._unfolded_paths}
        else:
            unfolded = {self.timelines.own_timeline}
        self._rows.folded_timelines |= new_timelines - unfolded

    def _goal_number(self) -> int | None:
        """The exchange to go to first, or None if there is none or the rows after it have not been read yet."""
        own_timeline = self.timelines.own_timeline
        if (
            self._goal is None
            or own_timeline.is_searching
            or own_timeline.reading.interpreted_count
            < min(len(own_timeline.reading.index), self._goal + GOAL_LOOKAHEAD_ROWS)
        ):
            return None
        return own_timeline.call_near(self._goal)

    def _zoom_to_goal(self) -> None:
        """Show the period around the row that the screen was opened from, if there are too many exchanges for bars."""
        own_timeline, number = self.timelines.own_timeline, self._goal_number()
        is_long = (
            len(own_timeline.reading.index) > 2 * MAX_BARS
            or own_timeline.call_count(*self.timelines.extent()) > MAX_BARS
        )
        if number is not None and self._window is None and is_long:
            self._window = own_timeline.stretch_around(number, MAX_BARS // 2)

    def _go_to_goal(self) -> None:
        number = self._goal_number()
        # Before the first layout, the table does not know where its middle is.
        if number is None or self.table.room.height < 2:
            return
        self._goal = None
        item = (self.timelines.own_timeline, number)
        if item in self._rows.items:
            self.has_moved = True
            self.table.go_centered(self._rows.items.index(item))

    def _return_to_place(self) -> None:
        """Go back to the row where the user was, once it is there; not if the cursor was moved meanwhile."""
        place = self._place
        if place is None or self.table.room.height < 2:
            return
        items = self._rows.items
        row = next(
            (
                row
                for row, (timeline, number) in enumerate(items)
                if number == place.number and timeline.reading.path == place.path
            ),
            None,
        )
        if row is not None and not self.has_moved:
            self.table.go_centered(row)
        if row is not None or self.has_moved:
            self._place, self.has_moved = None, True

    def _show_legend(self) -> None:
        is_heat = any(number <= FIRST_KIND_NUMBER for _, number in self._rows.items)
        signs = heat_legend(self._rows.limits) if is_heat else LEGEND
        self.query_one("#legend", SafeText).show(legend(signs, self.size.width - 2))

    def show_title(self) -> None:
        """Update the title to match the screen."""
        peer, timelines = self.reading.conversation.capture.client, self.timelines
        client = fit(peer_text(peer), MAX_NAME_CELLS) if peer is not None else None
        host = timelines.captures.client
        name = client or (fit(sanitise(host.exe), MAX_NAME_CELLS) if host is not None else "client unknown")
        servers = count_text(len(timelines.all), "server") + (
            f" of {len(timelines.all) + timelines.omitted_count}" if timelines.omitted_count else ""
        )
        is_searching = any(timeline.is_searching for timeline in timelines.all)
        spans = self.limit.title_spans(self.size.width, is_searching=is_searching)
        spans += [Span(f"  {name}", "plain"), Span(f"  {servers}")]
        startup = timelines.startup_stretch()
        if startup is not None:
            spans.append(Span(f"  start-up {brief_duration(startup[1] - startup[0])}"))
        low, high = self.window
        spans.append(Span(f"  {units.brief_duration(max(0, high - low))} shown", "dim"))
        if self._is_following and any(timeline.reading.is_live for timeline in timelines.all):
            spans.append(Span("  ● following", "accent"))
        unfinished_readings = [
            timeline.reading for timeline in timelines.all if not (timeline.is_cut or timeline.reading.has_ended)
        ]
        row_count = sum(len(reading.index) for reading in unfinished_readings)
        understood = sum(reading.interpreted_count for reading in unfinished_readings)
        if not timelines.has_searched or understood + 1000 < row_count:
            spans.append(Span(f"  analysed {100 * understood // max(1, row_count)}% …", "dim"))
        self.set_title(spans)

    # ---- keys

    def _show_period(self, low: int, high: int) -> None:
        """Draw another period, moved so that its middle is within the captures."""
        first_ns, last_ns = self.timelines.extent()
        duration_ns = max(MIN_STRETCH_NS, min(high - low, 2 * max(MIN_STRETCH_NS, last_ns - first_ns)))
        low = max(first_ns - duration_ns // 2, min(low, last_ns - duration_ns // 2))
        self._window = (low, low + duration_ns)
        self.update_rows()

    def _zoom_center(self) -> int:
        """The fixed point of zooming: the middle of the item at the cursor, or else of the window."""
        low, high = self.window
        item = self.selected
        if item is not None and item[1] >= 0:
            bar = item[0].bar(item[1])
            end_ns = bar.end_ns if bar.end_ns is not None else item[0].last_ns
            return (max(low, bar.start_ns) + min(high, end_ns)) // 2
        return (low + high) // 2

    def action_zoom(self, by: int) -> None:
        """Show half the period, or twice as much."""
        low, high = self.window
        middle_ns = self._zoom_center()
        before_ns, after_ns = middle_ns - low, high - middle_ns
        if by > 0:
            self._show_period(middle_ns - before_ns // 2, middle_ns + after_ns // 2)
        else:
            self._show_period(middle_ns - before_ns * 2, middle_ns + after_ns * 2)

    def action_pan(self, by: int) -> None:
        """Move the period earlier or later by a quarter."""
        low, high = self.window
        step = by * max(1, (high - low) // 4)
        self._is_following = False
        self._show_period(low + step, high + step)

    def action_fit(self) -> None:
        """Fit the window to the item at the cursor."""
        item = self.selected
        if item is None or item[1] < 0:
            timeline = item[0] if item is not None else self.timelines.own_timeline
            self._show_period(timeline.offset_ns, timeline.last_ns)
            return
        bar = item[0].bar(item[1])
        end_ns = bar.end_ns if bar.end_ns is not None else item[0].last_ns
        margin = max(MIN_STRETCH_NS // 2, (end_ns - bar.start_ns) // 4)
        self._show_period(bar.start_ns - margin, end_ns + margin)

    def action_startup(self) -> None:
        """Show how the servers started."""
        startup = self.timelines.startup_stretch()
        if startup is None:
            notify(self.app, "no capture contains the start of a server")
            return
        margin = max(1, (startup[1] - startup[0]) // 10)
        self._show_period(startup[0] - margin, startup[1] + margin)

    def action_server(self, by: int) -> None:
        """Go to the row of the next or previous server."""
        table = self.table
        rows = [row for row, (_, number) in enumerate(self._rows.items) if number == HEAD_NUMBER]
        row = next((row for row in rows[::by] if (row - table.cursor) * by > 0), None)
        if row is None:
            notify(self.app, f"no server {'below' if by > 0 else 'above'}")
            return
        self.has_moved = True
        table.go(row)

    def action_fold(self) -> None:
        """Fold the server at the cursor, so that only its own row is shown, or unfold it."""
        item = self.selected
        if item is None:
            return
        timeline = item[0]
        self._rows.folded_timelines ^= {timeline}
        self.has_moved = True
        self.update_rows()
        if timeline in self._rows.folded_timelines:
            self.table.go(self._rows.items.index((timeline, HEAD_NUMBER)))

    def action_fold_all(self) -> None:
        """Unfold all servers; fold all if none is folded."""
        self._rows.folded_timelines = set() if self._rows.folded_timelines else set(self.timelines.all)
        self.has_moved = True
        self.update_rows()

    def on_click(self, event: events.Click) -> None:
        """Fold the server whose row is clicked. The second click of a double click unfolds it again, and opens it."""
        offset = event.get_content_offset(self.table)
        row = int(self.table.scroll_y) + offset.y - 1 if offset is not None and offset.y > 0 else -1
        if 0 <= row < len(self._rows) and self._rows.items[row][1] == HEAD_NUMBER:
            self.action_fold()

    def action_whole(self) -> None:
        """Show everything."""
        self._window, self._is_following = None, False
        self.update_rows()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key for the limit if there is none."""
        return self.limit.row_filter is not None if action == "limit" else super().check_action(action, parameters)

    def action_limit(self) -> None:
        """Show all calls, or again only those that the filter of the traffic selects."""
        self.stop_thread()
        self.limit.toggle()
        self.timelines.show_only(self.limit.row_filter if self.limit.is_on else None)
        self.start_thread(self.timelines.step, "timeline")

    def action_follow(self) -> None:
        """Follow the end, or stop following it."""
        self._is_following = not self._is_following
        if self._window is None:
            self._window = self.window
        self.update_rows()

    @on(Table.RowSelected)
    def _choose(self) -> None:
        """Show the traffic at the cursor; on a row of the heat map, the traffic of its kind."""
        item = self.selected
        if item is None:
            return
        timeline, number = item
        text = self._calls_filter(timeline, number)
        if text is not None:
            self.app.select(self.limit.narrowed(text), timeline.reading.path)
            return
        row = timeline.reading.calls.request[number] if number >= 0 else self._first_row(timeline)
        self.app.show(row, timeline.reading.path)

    def _calls_filter(self, timeline: Timeline, number: int) -> str | None:
        """Returns what selects the calls of a row of a heat map in its period; None for other rows."""
        if number > FIRST_KIND_NUMBER:
            return None
        text = timeline.reading.kinds.all[FIRST_KIND_NUMBER - number].filter_expression
        if text is None or self._window is None:
            return text
        index = timeline.reading.index
        first, end = (index.entry_at_time(max(0, t_ns - timeline.offset_ns)) for t_ns in self.window)
        first_seq, last_seq = (index.entry(min(row, len(index) - 1)).seq for row in (first, max(first, end - 1)))
        return f"{text} frame:{first_seq}..{last_seq}"

    def _first_row(self, timeline: Timeline) -> int:
        """The first row in the window."""
        entry = timeline.reading.index.entry_at_time(max(0, self.window[0] - timeline.offset_ns))
        rows = timeline.reading.shown_rows
        position = bisect_left(rows, entry)
        return rows[position] if position < len(rows) else 0


def columns(width: int, head: str, name_cells: int) -> tuple[Column, ...]:
    """The columns.

    Args:
        width: the width of the table, in cells.
        head: the axis above the chart.
        name_cells: the width of the names, in cells.
    """
    name_width = max(6, len(NAMES_HEADING) if width >= MIN_HEADED_WIDTH else 0, name_cells)
    return (
        Column("what", NAMES_HEADING, name_width),
        Column("chart", head, 4, stretch=True),
        Column("lasted", "lasted", len("unanswered 999ms"), is_right_aligned=True, drop=1 if width < 40 else 0),
    )


ENTRY: Final = ScreenEntry("T", "timeline", TimelineScreen, help="timeline: all servers on one clock")
