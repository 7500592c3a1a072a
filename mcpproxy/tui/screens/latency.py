"""Latency: how long each kind of request takes, by method and name: percentiles, distribution, and change over time."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from analysis.protocol.methods import OPENING_METHODS
from mcpproxy.tui.data.latencies import KindFigures, Latencies
from mcpproxy.tui.messages import CaptureGrown, Progressed
from mcpproxy.tui.rows.latency_lines import bucket_filter
from mcpproxy.tui.rows.latency_rows import COLUMNS, SORT_COLUMNS, LatencyRows
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.limit import TO_LIMIT, Limit
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_SORT, descending
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.kind_detail import KindDetail, in_time_text, late_text
from mcpproxy.tui.widgets.table import Table
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

OTHER_LINES: Final = 3
"""The lines of the title and the keys."""
MAX_LIST_PERCENT: Final = 55
"""The maximum height of the list, in percent of the lines that it shares with the detail."""
MIN_LIST_LINES: Final = 2
"""The minimum height of the list, in lines."""


class LatencyScreen(CaptureScreen):
    """Latency by method and name."""

    DEFAULT_CSS = """
    LatencyScreen {
        & #latency { height: 55%; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_SORT,
        TO_DETAIL,
        Binding("w", "slowest", "slowest", id="slowest"),
        Binding("W", "slowest_of_all", "slowest of all", show=False, id="slowest-of-all"),
        Binding("a", "axis", "axis", id="axis"),
        TO_LIMIT,
    ]
    LIST = "#latency"
    SORTS = ("n", "err", "p50", "p90", "p95", "p99", "max", "unanswered", "name")
    SORT_COLUMNS: ClassVar[Mapping[str, str]] = SORT_COLUMNS

    def __init__(self, capture: OpenCapture) -> None:
        """Create the screen of a capture."""
        super().__init__(capture.reading)
        self.limit = Limit(capture.limit)
        self.latencies = Latencies(capture.reading, self.limit.selection(capture.reading))
        self._rows = LatencyRows()
        self._shares_axis = True
        self._histogram_wait: Future[None] | None = None
        """Ends the wait of keys that are meant for the histogram; None unless keys wait for one."""
        bind_switches(self._bindings, "latency")

    def compose(self) -> ComposeResult:
        """The kinds of requests, and the distribution of one of them."""
        yield ClickableLine(id="title")
        yield Table(COLUMNS, place="latency", id="latency")
        yield KindDetail(self.reading)
        yield Foot()

    def on_mount(self) -> None:
        """Start counting."""
        self.table.show(self._rows)
        self.table.focus()
        self.update_rows()
        self.start_thread(self.latencies.step, "latency")

    def on_unmount(self) -> None:
        """Stop counting."""
        self.stop_thread()
        self.latencies.close()

    @property
    def detail(self) -> KindDetail:
        """The latencies of the kind at the cursor."""
        return self.query_one(KindDetail)

    @property
    def selected(self) -> KindFigures | None:
        """The kind at the cursor."""
        return self._rows.at(self.table.cursor)

    # ---- updates

    @on(CaptureGrown)
    def _grown(self) -> None:
        self.show_title()
        self._show_kind()

    @on(Progressed)
    def update_rows(self) -> None:
        """Show the figures so far."""
        shown_kinds = [figures for figures in self.latencies.rows if figures.requests]
        octaves = {octave for figures in shown_kinds for octave in figures.octaves} if self._shares_axis else ()
        self._rows.axis = (min(octaves), max(octaves)) if octaves else None
        self.replace_rows(self._rows, sorted(shown_kinds, key=self._order), key=lambda figures: figures.number)
        self._fit()
        self.show_title()
        self._show_kind()

    def _fit(self) -> None:
        """Fit the columns to their texts, and the list to its rows; the detail gets the other lines."""
        table, shared_lines = self.table, self.size.height - OTHER_LINES
        most = max(MIN_LIST_LINES, shared_lines * MAX_LIST_PERCENT // 100)
        table.styles.height = max(MIN_LIST_LINES, min(most, len(self._rows) + 1))
        table.set_columns(self._rows.fit_columns(table.room.width or self.size.width))
        table.renew()

    def _order(self, figures: KindFigures) -> tuple[int, str]:
        values: dict[str, int | None] = {
            "n": figures.requests,
            "err": figures.errors,
            "p50": figures.p50_ns,
            "p90": figures.p90_ns,
            "p95": figures.p95_ns,
            "p99": figures.p99_ns,
            "max": figures.max_ns,
            "unanswered": figures.unanswered,
        }
        return descending(values.get(self.order, 0), figures.kind.text)

    def show_title(self) -> None:
        """Update the title to match the screen."""
        rows, reading = self._rows.items, self.reading
        answered_count, late_count = sum(figures.answered for figures in rows), sum(figures.late for figures in rows)
        responses = f"{count_text(answered_count, 'response')}{in_time_text(late_count)}{late_text(late_count)}"
        spans = self.limit.title_spans(self.size.width, is_searching=self.latencies.is_searching)
        spans.append(Span(f"  {count_text(len(rows), 'kind')} of requests, {responses}", "dim"))
        spans.append(Span(f"  by {self.order}", "dim"))
        if reading.is_live and reading.index.tail.is_at_end:
            spans.append(Span("  ● live", "accent"))
        elif not reading.has_ended:
            spans.append(Span(f"  {100 * reading.interpreted_count // max(1, len(reading.index))}% …", "accent"))
        self.set_title(spans)

    # ---- one kind

    @on(Table.RowHighlighted, "#latency")
    def _moved(self) -> None:
        self._show_kind()

    def on_resize(self) -> None:
        """Fit everything to the new size."""
        self.draw_later(self.update_rows)

    def _show_kind(self) -> None:
        figures = self.selected
        self.latencies.choose_kind(figures.number if figures is not None else None)
        self.detail.show(figures, self.latencies.distribution if self._has_distribution else None)
        if self._histogram_wait is not None and self._has_distribution:
            self._histogram_wait.set_result(None)
            self._histogram_wait = None

    @property
    def _has_distribution(self) -> bool:
        """Whether the histogram of the row at the cursor is available; true if there is no row."""
        figures, distribution = self.selected, self.latencies.distribution
        if figures is None:
            return True
        return distribution is not None and distribution.number == figures.number

    # ---- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key for the limit if there is none."""
        return self.limit.row_filter is not None if action == "limit" else super().check_action(action, parameters)

    def action_into(self) -> None:
        """Move to the histogram; keys wait until it is shown."""
        self.detail.histogram.focus()
        if not self._has_distribution:
            self._histogram_wait = Future()
            self.app.key_queue.wait_for(self._histogram_wait)

    def action_panes(self) -> None:
        """Move from the list to the histogram, then to the slowest calls if they are shown, and back to the list."""
        if self.detail.histogram.has_focus and self.detail.slowest.display:
            self.detail.slowest.focus()
        else:
            super().action_panes()

    def action_axis(self) -> None:
        """Give the shape of each row an axis of its own, or let all share one again."""
        self._shares_axis = not self._shares_axis
        self.update_rows()

    def action_limit(self) -> None:
        """Count all calls, or again only those that the filter of the traffic selects."""
        self.stop_thread()
        self.latencies.close()
        self.limit.toggle()
        self.latencies = Latencies(self.reading, self.limit.selection(self.reading))
        self.start_thread(self.latencies.step, "latency")

    @on(Table.RowSelected, "#latency")
    def _choose(self) -> None:
        """Show the traffic of one kind."""
        self._select_traffic("")

    @on(Table.RowSelected, "#buckets")
    def _choose_bucket(self) -> None:
        """Show the calls of the kind whose latency is in the bucket."""
        bucket = self.detail.bucket
        if bucket is not None and bucket.responses:
            self._select_traffic(f" {bucket_filter(bucket)}")
        else:
            notify(self.app, "no response took that long")

    @on(Table.RowSelected, "#slowest")
    def _choose_slow_call(self) -> None:
        """Go to the response to a call."""
        row = self.detail.slow_answer()
        if row is not None:
            self.app.show(row, is_detailed=True)

    def _select_traffic(self, extra_terms: str) -> None:
        figures = self.selected
        text = figures.kind.filter_expression if figures is not None else None
        if text is None:
            notify(self.app, "no filter can select all these kinds")
        else:
            self.app.select(self.limit.narrowed(text + extra_terms))

    def action_slowest(self) -> None:
        """Go to the response to the slowest call of the kind at the cursor."""
        self._go_to_slowest([self.selected] if self.selected is not None else [])

    def action_slowest_of_all(self) -> None:
        """Go to the response to the slowest call of all kinds."""
        self._go_to_slowest(self._rows.items)

    def _go_to_slowest(self, candidates: Sequence[KindFigures]) -> None:
        answered_kinds = [figures for figures in candidates if figures.slowest is not None]
        # The latency of a request that opens a session includes the start of the server: it counts only without others.
        later_kinds = [figures for figures in answered_kinds if figures.kind.method not in OPENING_METHODS]
        slowest_kind = max(later_kinds or answered_kinds, key=lambda figures: figures.max_ns or 0, default=None)
        if slowest_kind is None or slowest_kind.slowest is None:
            notify(self.app, "there is no response")
            return
        self.app.show(self.reading.calls.response[slowest_kind.slowest], is_detailed=True)


ENTRY: Final = ScreenEntry("L", "latency", LatencyScreen, help="latency of each kind of call")
