"""Kind detail: the latencies of one kind of request: over time, as a histogram, and its slowest calls."""

from dataclasses import replace
from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.latencies import Distribution, KindFigures
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.messages import RowsRead
from mcpproxy.tui.rows.latency_lines import (
    BUCKET_COLUMNS,
    Bucket,
    BucketRows,
    buckets_of,
    over_time_lines,
)
from mcpproxy.tui.rows.latency_rows import MAX_NAME_CHARS
from mcpproxy.tui.rows.traffic_columns import NameCells, needs_of, traffic_columns
from mcpproxy.tui.rows.traffic_table import TrafficRows
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.table import Table
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

MIN_SLOWEST_WIDTH: Final = 110
"""The minimum width at which the slowest calls are next to the histogram, in cells; else they are below it."""
SLOWEST_COLUMNS: Final = frozenset({"number", "time", "status", "latency", "more"})
"""The columns of the exchanges in the traffic that the slowest calls have, too."""
MARGIN: Final = 4
"""The number of cells of a line that the charts cannot use."""
MIN_CHART_LINES: Final = 3
"""The minimum height of the chart over time, in lines."""
MAX_CHART_LINES: Final = 24
"""The maximum height of the chart over time, in lines."""
FIXED_LINES: Final = 4
"""The height of the lines that name the kind, the values and times of the chart, and the columns of the histogram."""
MAX_BUCKETS_PERCENT: Final = 66
"""The maximum height of a histogram with buckets smaller than an octave, in percent of the lines that it shares with
the chart over time."""
MIN_SLOWEST_LINES: Final = 3
"""The minimum height of the slowest calls below the histogram, in lines; if there is less room, they are not shown."""
GOOD_SLOWEST_LINES: Final = 7
"""The height of the slowest calls below the histogram that charts must leave, in lines."""


class KindDetail(Container):
    """The latencies of the kind at the cursor."""

    DEFAULT_CSS = """
    KindDetail {
        height: 1fr; layout: vertical;
        & #kind { height: 1; background: $panel; padding: 0 1; }
        & #figures { height: 1fr; layout: horizontal; }
        & #figures.-narrow { layout: vertical; }
        & #distribution { width: 1fr; height: 1fr; padding: 0 1; }
        & #figures.-narrow > #distribution { width: 1fr; height: auto; }
        & #course { height: auto; }
        & #buckets { height: 1fr; }
        & #slowest { width: 1fr; display: none; }
        & #buckets:blur > .table--blurred, & #slowest:blur > .table--blurred { background: $surface; }
    }
    """

    def __init__(self, reading: Reading) -> None:
        """Create the detail without a kind."""
        super().__init__(id="detail")
        self._reading = reading
        self._buckets = BucketRows()
        self._slowest = TrafficRows(reading, self._report_rows)
        self._slowest.is_exchanges = True
        self._slowest.view = ()
        self._names = NameCells(reading)
        self._slowest_calls: tuple[int, ...] = ()
        self._drawn_state: object = None

    def compose(self) -> ComposeResult:
        """The kind, its charts, and its slowest calls."""
        yield SafeText(id="kind")
        with Container(id="figures"):
            with Vertical(id="distribution"):
                yield SafeText(id="course")
                yield Table(BUCKET_COLUMNS, id="buckets")
            yield Table((), id="slowest")

    def on_mount(self) -> None:
        """Fill the tables."""
        self.histogram.show(self._buckets)
        self.slowest.show(self._slowest)

    def on_unmount(self) -> None:
        """Stop reading rows."""
        self._slowest.close()

    @property
    def histogram(self) -> Table:
        """The buckets."""
        return self.query_one("#buckets", Table)

    @property
    def slowest(self) -> Table:
        """The slowest calls."""
        return self.query_one("#slowest", Table)

    @property
    def bucket(self) -> Bucket | None:
        """The bucket at the cursor."""
        return self._buckets.at(self.histogram.cursor)

    @property
    def slow_call(self) -> int | None:
        """The call at the cursor of the slowest calls."""
        cursor = self.slowest.cursor
        return self._slowest_calls[cursor] if cursor < len(self._slowest_calls) else None

    def _report_rows(self) -> None:
        self.post_message(RowsRead())

    @on(RowsRead)
    def _rows_read(self) -> None:
        self.slowest.renew()

    def show(self, figures: KindFigures | None, distribution: Distribution | None) -> None:
        """Show a kind.

        Args:
            figures: the figures of the kind; None if there is no kind.
            distribution: its distribution; None until it is known.
        """
        has_ended, width = self._reading.has_ended, self.screen.size.width
        state = (figures, distribution, width, self.size, has_ended)
        if state == self._drawn_state:
            return
        self._drawn_state = state
        is_wide = width >= MIN_SLOWEST_WIDTH
        shared_lines = self.size.height - FIXED_LINES - (0 if is_wide else GOOD_SLOWEST_LINES)
        max_buckets = shared_lines * MAX_BUCKETS_PERCENT // 100
        buckets = buckets_of(distribution.parts, max_buckets) if distribution is not None else []
        chart_lines = max(MIN_CHART_LINES, min(MAX_CHART_LINES, shared_lines - len(buckets)))
        has_chart = distribution is not None and bool(distribution.p95_ns)
        self._arrange(len(buckets), chart_lines if has_chart else 0, is_wide=is_wide)
        left_width = width // 2 if is_wide else width
        self.query_one("#distribution").styles.width = left_width if is_wide else "1fr"
        chart_width = max(10, left_width - MARGIN)
        self._buckets.fill(buckets, chart_width)
        self.histogram.renew()
        self._show_slowest(distribution, width - left_width or width)
        course, kind = self.query_one("#course", SafeText), self.query_one("#kind", SafeText)
        if figures is None:
            kind.show([Span("no request so far" if not has_ended else "no requests", "dim")])
            course.show("")
            return
        kind.show(_kind_spans(figures, distribution))
        course.show_lines(() if distribution is None else over_time_lines(distribution, chart_width, chart_lines))

    def _arrange(self, bucket_count: int, chart_lines: int, *, is_wide: bool) -> None:
        """Put the slowest calls next to the histogram or below it, if there is room."""
        left_lines = self.size.height - FIXED_LINES - bucket_count - chart_lines
        self.query_one("#figures").set_class(not is_wide, "-narrow")
        has_room = is_wide or left_lines >= MIN_SLOWEST_LINES
        if self.slowest.has_focus and not has_room:
            self.histogram.focus()
        self.slowest.display = has_room
        is_above = not is_wide and self.slowest.display
        self.histogram.styles.height = bucket_count + 1 if is_above else "1fr"
        self.query_one("#distribution").styles.height = "auto" if is_above else "1fr"

    def _show_slowest(self, distribution: Distribution | None, width: int) -> None:
        if not self.slowest.display:
            return
        if distribution is None or distribution.is_whole:
            self._slowest_calls = () if distribution is None else tuple(distribution.slowest)
        calls = self._reading.calls
        self._slowest.view = [calls.request[number] for number in self._slowest_calls]
        self._slowest.forget()
        needs = needs_of(self._reading, self._names)
        columns = [
            replace(column, is_extra=False)
            for column in traffic_columns(width, needs, is_exchanges=True)
            if column.name in SLOWEST_COLUMNS
        ]
        self.slowest.set_columns(columns)
        self._slowest.fit(self.slowest.widths(width - 1), needs.name)
        self.slowest.renew()

    def slow_answer(self) -> int | None:
        """Returns the row of the response to the call at the cursor of the slowest calls, or None without one."""
        number = self.slow_call
        row = NONE if number is None else self._reading.calls.response[number]
        return None if row == NONE else row


def _kind_spans(figures: KindFigures, distribution: Distribution | None) -> list[Span]:
    """Returns the name of a kind, and how many of its requests were answered."""
    responses = f"{count_text(figures.answered, 'response')}{in_time_text(figures.late)}"
    abandoned_text = f", {figures.abandoned:,} abandoned" if figures.abandoned else ""
    ellipsis = "" if distribution is not None and distribution.is_whole else " …"
    text = (
        f"  {responses} to {count_text(figures.requests, 'request')}{late_text(figures.late)}{abandoned_text}{ellipsis}"
    )
    return [Span(sanitise(figures.kind.text, MAX_NAME_CHARS), "accent"), Span(text, "dim")]


def in_time_text(late: int) -> str:
    """Returns what follows the number of responses if some came late, which the figures leave out."""
    return " in time" if late else ""


def late_text(late: int) -> str:
    """Returns the number of late responses, in words."""
    return f", {late:,} late" if late else ""
