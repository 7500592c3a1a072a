"""Latency: how long each kind of request takes, by method and name: percentiles, distribution, and change over time."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from analysis.conversation.durations import octave_ns
from analysis.protocol.methods import OPENING_METHODS
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.latencies import KindFigures, Latencies
from mcpproxy.tui.messages import CaptureGrown, Progressed
from mcpproxy.tui.rows.latency_lines import (
    ABANDONED_COLUMN,
    BUCKET_COLUMNS,
    BucketRows,
    abandoned_cell,
    bucket_filter,
    buckets_of,
    columns_with,
    over_time_lines,
)
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_SORT, descending
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.table import Column, MemoryRows, Table, TableLine
from mcpproxy.wording.blocks import distribution_text
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import brief_duration

SHAPE_WIDTH: Final = 10
"""The width of a distribution in a row, in cells."""
COLUMNS: Final = (
    Column("call", "method / name", 20, stretch=True),
    Column("asked", "n", 7, is_right_aligned=True),
    Column("errors", "err", 5, is_right_aligned=True, drop=1),
    ABANDONED_COLUMN,
    Column("p50", "p50", 6, is_right_aligned=True, drop=2),
    Column("p90", "p90", 6, is_right_aligned=True, drop=6),
    Column("p95", "p95", 6, is_right_aligned=True),
    Column("p99", "p99", 6, is_right_aligned=True, drop=4),
    Column("most", "max", 6, is_right_aligned=True, drop=3),
    Column("shape", "shape", SHAPE_WIDTH, drop=5),
)
MAX_NAME_CHARS: Final = 200
"""The maximum length of a method with its name, in characters."""


class LatencyRows(MemoryRows[KindFigures]):
    """Kinds of requests as the rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.axis: tuple[int, int] | None = None
        """The octaves of the axis that all shapes share; None if each has its own."""

    def line(self, row: int) -> TableLine:
        """The cells of a kind."""
        figures = self.items[row]
        return TableLine(
            {
                "call": (Span(sanitise(figures.kind.text, MAX_NAME_CHARS)),),
                "asked": (Span(f"{figures.requests:,}"),),
                "errors": (Span(f"{figures.errors:,}", "bad" if figures.errors else "dim"),),
                "abandoned": abandoned_cell(figures.abandoned),
                "p50": (Span(brief_duration(figures.p50_ns)),),
                "p90": (Span(brief_duration(figures.p90_ns)),),
                "p95": (Span(brief_duration(figures.p95_ns), "accent"),),
                "p99": (Span(brief_duration(figures.p99_ns)),),
                "most": (Span(brief_duration(figures.max_ns)),),
                "shape": (Span(distribution_text(figures.octaves, SHAPE_WIDTH, self.axis), "accent"),),
            }
        )


class LatencyScreen(CaptureScreen):
    """Latency by method and name."""

    DEFAULT_CSS = """
    LatencyScreen {
        & #latency { height: 1fr; }
        & #kind { height: 1; background: $panel; padding: 0 1; }
        & #below { height: 45%; padding: 0 1; }
        & #course { height: auto; }
        & #buckets { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_SORT,
        TO_DETAIL,
        Binding("w", "slowest", "slowest", id="slowest"),
        Binding("W", "slowest_of_all", "slowest of all", show=False, id="slowest-of-all"),
        Binding("a", "axis", "axis", id="axis"),
    ]
    LIST = "#latency"
    SORTS = ("n", "err", "p50", "p90", "p95", "p99", "max", "name")
    SORT_COLUMNS: ClassVar[Mapping[str, str]] = {
        column.name: column.title for column in COLUMNS[1:-1] if column is not ABANDONED_COLUMN
    } | {"call": "name"}

    def __init__(self, capture: OpenCapture) -> None:
        """Create the screen of a capture."""
        super().__init__(capture.reading)
        self.latencies = Latencies(capture.reading)
        self._rows, self._buckets = LatencyRows(), BucketRows()
        self._shares_axis = False
        self._drawn_state: object = None
        self._histogram_wait: Future[None] | None = None
        """Ends the wait of keys that are meant for the histogram; None unless keys wait for one."""
        bind_switches(self._bindings, "latency")

    def compose(self) -> ComposeResult:
        """The kinds of requests, and the distribution of one of them."""
        yield ClickableLine(id="title")
        yield Table(COLUMNS, id="latency")
        yield SafeText(id="kind")
        with Vertical(id="below"):
            yield SafeText(id="course")
            yield Table(BUCKET_COLUMNS, id="buckets")
        yield Foot()

    def on_mount(self) -> None:
        """Start counting."""
        self.table.show(self._rows)
        self.histogram.show(self._buckets)
        self.table.focus()
        self.update_rows()
        self.start_thread(self.latencies.step, "latency")

    @property
    def histogram(self) -> Table:
        """The buckets of the kind at the cursor."""
        return self.query_one("#buckets", Table)

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
        scaled_rows = self.latencies.rows if self._shares_axis else ()
        octaves = {octave for figures in scaled_rows for octave in figures.octaves}
        has_abandoned = any(figures.abandoned for figures in self.latencies.rows)
        self.table.set_columns(columns_with(COLUMNS, is_abandoned=has_abandoned))
        self._rows.axis = (min(octaves), max(octaves)) if octaves else None
        self.replace_rows(self._rows, sorted(self.latencies.rows, key=self._order), key=lambda figures: figures.number)
        self.show_title()
        self._show_kind()

    def _order(self, figures: KindFigures) -> tuple[int, str]:
        values: dict[str, int | None] = {
            "n": figures.requests,
            "err": figures.errors,
            "p50": figures.p50_ns,
            "p90": figures.p90_ns,
            "p95": figures.p95_ns,
            "p99": figures.p99_ns,
            "max": figures.max_ns,
        }
        return descending(values.get(self.order, 0), figures.kind.text)

    def show_title(self) -> None:
        """Update the title to match the screen."""
        rows, reading = self._rows.items, self.reading
        answered_count, late_count = sum(figures.answered for figures in rows), sum(figures.late for figures in rows)
        responses = f"{count_text(answered_count, 'response')}{_in_time_text(late_count)}{_late_text(late_count)}"
        spans = list[Span]()
        if self._rows.axis is not None:
            low, high = self._rows.axis
            spans.append(
                Span(f"  shapes {brief_duration(octave_ns(low)[0])}–{brief_duration(octave_ns(high)[1])}", "dim")
            )
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
        """Redraw the bars for the new width."""
        self._drawn_state = None
        self._show_kind()

    def _show_kind(self) -> None:
        figures = self.selected
        self.latencies.choose_kind(figures.number if figures is not None else None)
        self._draw_kind(figures)
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

    def _draw_kind(self, figures: KindFigures | None) -> None:
        distribution = self.latencies.distribution
        if figures is None or distribution is None or distribution.number != figures.number:
            distribution = None
        state = (figures, distribution, self.size.width, self.reading.has_ended)
        if state == self._drawn_state:
            return
        self._drawn_state = state
        course, kind = self.query_one("#course", SafeText), self.query_one("#kind", SafeText)
        width = max(10, self.size.width - 4)
        self._buckets.fill(buckets_of(distribution.octaves) if distribution is not None else (), width)
        self.histogram.renew()
        if figures is None:
            kind.show([Span("no request so far" if not self.reading.has_ended else "no requests", "dim")])
            course.show("")
            return
        ellipsis = "" if distribution is not None and distribution.is_whole else " …"
        responses = f"{count_text(figures.answered, 'response')}{_in_time_text(figures.late)}"
        abandoned_text = f", {figures.abandoned:,} abandoned" if figures.abandoned else ""
        text = (
            f"  {responses} to "
            f"{count_text(figures.requests, 'request')}{_late_text(figures.late)}{abandoned_text}{ellipsis}"
        )
        kind.show([Span(sanitise(figures.kind.text, MAX_NAME_CHARS), "accent"), Span(text, "dim")])
        course.show_lines(() if distribution is None else over_time_lines(distribution, width))

    # ---- keys

    def action_into(self) -> None:
        """Move to the histogram; keys wait until it is shown."""
        self.histogram.focus()
        if not self._has_distribution:
            self._histogram_wait = Future()
            self.app.key_queue.wait_for(self._histogram_wait)

    def action_axis(self) -> None:
        """Let the shapes of all rows share one axis, or give each its own again."""
        self._shares_axis = not self._shares_axis
        self.update_rows()

    @on(Table.RowSelected, "#latency")
    def _choose(self) -> None:
        """Show the traffic of one kind."""
        self._select_traffic("")

    @on(Table.RowSelected, "#buckets")
    def _choose_bucket(self) -> None:
        """Show the calls of the kind whose latency is in the bucket."""
        bucket = self._buckets.at(self.histogram.cursor)
        if bucket is not None and bucket.responses:
            self._select_traffic(f" {bucket_filter(bucket)}")
        else:
            notify(self.app, "no response took that long")

    def _select_traffic(self, extra_terms: str) -> None:
        figures = self.selected
        text = figures.kind.filter_expression if figures is not None else None
        if text is None:
            notify(self.app, "no filter can select all these kinds")
        else:
            self.app.select(text + extra_terms)

    def action_slowest(self) -> None:
        """Go to the slowest call of the kind at the cursor."""
        self._go_to_slowest([self.selected] if self.selected is not None else [])

    def action_slowest_of_all(self) -> None:
        """Go to the slowest call of all kinds."""
        self._go_to_slowest(list(self.latencies.rows))

    def _go_to_slowest(self, candidates: list[KindFigures]) -> None:
        answered_kinds = [figures for figures in candidates if figures.slowest is not None]
        # The latency of a request that opens a session includes the start of the server: it counts only without others.
        later_kinds = [figures for figures in answered_kinds if figures.kind.method not in OPENING_METHODS]
        slowest_kind = max(later_kinds or answered_kinds, key=lambda figures: figures.max_ns or 0, default=None)
        if slowest_kind is None or slowest_kind.slowest is None:
            notify(self.app, "there is no response")
            return
        self.app.show(self.reading.calls.request[slowest_kind.slowest], is_detailed=True)


def _in_time_text(late: int) -> str:
    return " in time" if late else ""


def _late_text(late: int) -> str:
    """The number of late responses, which the figures leave out, in words."""
    return f", {late:,} late" if late else ""


ENTRY: Final = ScreenEntry("L", "latency", LatencyScreen, help="latency of each kind of call")
