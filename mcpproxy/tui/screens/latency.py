"""Latency: how long each kind of request takes, by method and name: percentiles, distribution, and change over time."""

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from mcpproxy.report import units
from mcpproxy.report.blocks import blocks, stretched
from mcpproxy.report.text import Span, count_text
from mcpproxy.report.units import brief
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.latencies import Distribution, Figures, Latencies
from mcpproxy.tui.messages import Grown, Progressed
from mcpproxy.tui.safe_text import Words, notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.capture_screen import CaptureScreen
from mcpproxy.tui.screens.list_screen import TO_DETAIL, TO_SORT, descending, title_name
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.table import Column, Line, MemoryRows, Table

COLUMNS: Final = (
    Column("call", "method / name", 20, stretch=True),
    Column("asked", "n", 7, right=True),
    Column("errors", "err", 5, right=True, drop=1),
    Column("p50", "p50", 6, right=True, drop=2),
    Column("p90", "p90", 6, right=True, drop=6),
    Column("p95", "p95", 6, right=True),
    Column("p99", "p99", 6, right=True, drop=4),
    Column("most", "max", 6, right=True, drop=3),
    Column("shape", "shape", 10, drop=5),
)
NAME: Final = 200
"""The maximum length of a method with its name, in characters."""
LABEL: Final = 14
WIDEST: Final = 64
"""The maximum width of a bar, in cells."""


class LatencyRows(MemoryRows[Figures]):
    """The rows: kinds of requests, sorted."""

    def line(self, row: int) -> Line:
        """One kind."""
        figures = self.items[row]
        return Line(
            {
                "call": (
                    Span(sanitise(figures.call.text, NAME)),
                    Span(f"  {figures.abandoned:,} abandoned" if figures.abandoned else "", "bad"),
                ),
                "asked": (Span(f"{figures.asked:,}"),),
                "errors": (Span(f"{figures.errors:,}", "bad" if figures.errors else "dim"),),
                "p50": (Span(brief(figures.p50_ns)),),
                "p90": (Span(brief(figures.p90_ns)),),
                "p95": (Span(brief(figures.p95_ns), "accent"),),
                "p99": (Span(brief(figures.p99_ns)),),
                "most": (Span(brief(figures.most_ns)),),
                "shape": (Span(figures.shape, "accent"),),
            }
        )


class LatencyScreen(CaptureScreen):
    """Latency by method and name."""

    DEFAULT_CSS = """
    LatencyScreen {
        & #latency { height: 1fr; }
        & #kind { height: 1; background: $panel; padding: 0 1; }
        & #course { height: 45%; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [TO_SORT, TO_DETAIL]
    LIST = "#latency"
    DETAIL = "#course"
    SORTS = ("n", "err", "p50", "p90", "p95", "p99", "max", "name")

    def __init__(self, capture: OpenCapture) -> None:
        """The screen of a capture.

        Args:
            capture: the capture.
        """
        super().__init__(capture.reading)
        self.latencies = Latencies(capture.reading)
        self._rows = LatencyRows()
        self._shown: object = None
        bind_switches(self._bindings, "latency")

    def compose(self) -> ComposeResult:
        """The kinds, and the distribution of one."""
        yield Words(id="title")
        yield Table(COLUMNS, id="latency")
        yield Words(id="kind")
        yield Pane(id="course")
        yield Foot()

    def on_mount(self) -> None:
        """Start counting."""
        self.table.show(self._rows)
        self.table.focus()
        self.renew()
        self.begin(self.latencies.step, "latency")

    @property
    def selected(self) -> Figures | None:
        """The kind at the cursor."""
        return self._rows.at(self.table.cursor)

    # ---- updates

    @on(Grown)
    def _grown(self) -> None:
        self.show_title()

    @on(Progressed)
    def renew(self) -> None:
        """Show the figures so far."""
        self.put(self._rows, sorted(self.latencies.rows, key=self._order), key=lambda figures: figures.number)
        self.show_title()
        self._show_kind()

    def _order(self, figures: Figures) -> tuple[int, str]:
        values: dict[str, int | None] = {
            "n": figures.asked,
            "err": figures.errors,
            "p50": figures.p50_ns,
            "p90": figures.p90_ns,
            "p95": figures.p95_ns,
            "p99": figures.p99_ns,
            "max": figures.most_ns,
        }
        return descending(values.get(self.order, 0), figures.call.text)

    def show_title(self) -> None:
        """Show the title for what the screen shows now."""
        rows, reading = self._rows.items, self.reading
        answered = sum(figures.answered for figures in rows)
        spans = [Span("latency ", "accent"), Span(title_name(reading))]
        spans.append(Span(f"  {count_text(len(rows), 'kind')} of requests, {count_text(answered, 'response')}", "dim"))
        spans.append(Span(f"  by {self.order}", "dim"))
        if reading.is_live and reading.index.tail.is_at_end:
            spans.append(Span("  ● live", "accent"))
        elif not reading.has_ended:
            spans.append(Span(f"  {100 * reading.understood // max(1, len(reading.index))}% …", "accent"))
        self.set_title(spans)

    # ---- one kind

    @on(Table.Moved)
    def _moved(self) -> None:
        self._show_kind()

    def on_resize(self) -> None:
        """Redraw the bars for the new width."""
        self._shown = None
        self._show_kind()

    def _show_kind(self) -> None:
        figures = self.selected
        self.latencies.choose(figures.number if figures is not None else None)
        distribution = self.latencies.distribution
        if figures is None or distribution is None or distribution.number != figures.number:
            distribution = None
        wanted = (figures, distribution, self.size.width)
        if wanted == self._shown:
            return
        self._shown = wanted
        pane, kind = self.pane, self.query_one("#kind", Words)
        if figures is None:
            kind.show([Span("no request so far" if not self.reading.has_ended else "no requests", "dim")])
            pane.show_lines(())
            return
        more = "" if distribution is not None and distribution.is_whole else " …"
        text = f"  {count_text(figures.answered, 'response')} to {count_text(figures.asked, 'request')}{more}"
        kind.show([Span(sanitise(figures.call.text, NAME), "accent"), Span(text, "dim")])
        pane.renew_lines(() if distribution is None else distribution_lines(distribution, max(10, self.size.width - 4)))

    # ---- keys

    @on(Table.Chosen)
    def _choose(self) -> None:
        """Show the traffic of one kind."""
        figures = self.selected
        text = figures.call.filter if figures is not None else None
        if text is None:
            notify(self.app, "no filter can select all these kinds")
        else:
            self.app.select(text)


def distribution_lines(distribution: Distribution, width: int) -> list[list[Span]]:
    """The course of one kind over time, and its distribution, as lines."""
    lines: list[list[Span]] = []
    room = max(4, width - LABEL - 12)
    most = max((value for value in distribution.p95_ns if value is not None), default=0)
    for name, values in (("p95", distribution.p95_ns), ("p50", distribution.p50_ns)):
        bars = blocks(stretched(values, room), most)
        high = max((value for value in values if value is not None), default=None)
        note = f"  up to {brief(high)}" if high is not None else ""
        lines.append([Span(f"{name + ' by time':<{LABEL}}", "dim"), Span(bars, "accent"), Span(note, "dim")])
    if distribution.p95_ns:
        cells = min(room, len(distribution.p95_ns))
        start, end = "0s", units.duration(len(distribution.p95_ns) * distribution.slice_ns)
        lines.append([Span(f"{'':<{LABEL}}{start}{end:>{max(len(end) + 1, cells - len(start))}}", "dim")])
    lines.append([])
    total, most = sum(distribution.octaves.values()), max(distribution.octaves.values(), default=0)
    bar = max(1, min(WIDEST, width - LABEL - 18))
    low, high = min(distribution.octaves, default=0), max(distribution.octaves, default=-1)
    for octave in range(low, high + 1):
        count = distribution.octaves.get(octave, 0)
        label = f"{brief(1 << max(0, octave - 1)):>6} {'–' if octave < high else '+'} "
        filled = -(-bar * count // most) if most else 0
        share = f"{count:,}  {100 * count / total:.0f}%" if count else ""
        lines.append([Span(f"{label:<{LABEL - 4}}", "dim"), Span("█" * filled, "accent"), Span(f" {share}")])
    return lines


ENTRY: Final = ScreenEntry(
    "L", "latency", LatencyScreen, help="latency of each method and tool: percentiles, distribution, trend"
)
