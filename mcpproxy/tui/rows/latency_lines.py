"""Latency lines: the latencies of one kind of request over time, and its histogram, whose buckets can be chosen."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from analysis.conversation.durations import octave_ns
from mcpproxy.tui.data.latencies import Distribution
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording.blocks import compress, stacked_blocks
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import brief_duration

LABEL_CELLS: Final = 14
"""The width of the label before a bar of the chart over time, in cells."""
NOTE_CELLS: Final = 12
"""The width of the note after a chart over time, in cells."""
RANGE_CELLS: Final = 9
"""The width of a bucket's label, in cells."""
MAX_BAR_CELLS: Final = 64
"""The maximum width of a bar, in cells."""
_UNITS: Final = (("s", 9), ("ms", 6), ("us", 3))
BUCKET_COLUMNS: Final = (
    Column("latency", "latency", RANGE_CELLS, is_right_aligned=True),
    Column("count", "responses", 10, stretch=True),
)

ABANDONED_COLUMN: Final = Column("abandoned", "aband", 5, is_right_aligned=True)
"""How many calls of a kind, or of a tool, were abandoned: without this column, a server that hangs would look fast."""


def columns_with(columns: Iterable[Column], *, is_abandoned: bool) -> list[Column]:
    """Returns the columns, but `ABANDONED_COLUMN` only if a call was abandoned."""
    return [column for column in columns if is_abandoned or column is not ABANDONED_COLUMN]


def abandoned_cell(count: int) -> tuple[Span, ...]:
    """Returns a cell of the column `ABANDONED_COLUMN`."""
    return (Span(f"{count:,}", "bad" if count else "dim"),)


class Bucket(NamedTuple):
    """The responses whose latency is within an octave."""

    octave: int
    responses: int
    share: float
    """Its share of all responses."""
    length: float
    """The length of its bar: 1 for the most frequent bucket."""
    is_last: bool


class BucketRows(MemoryRows[Bucket]):
    """Table rows: the buckets of a histogram."""

    def __init__(self) -> None:
        super().__init__()
        self._width = MAX_BAR_CELLS

    def fill(self, buckets: Iterable[Bucket], width: int) -> None:
        """Show other buckets, in lines of this width."""
        self.items = list(buckets)
        self._width = max(1, min(MAX_BAR_CELLS, width - RANGE_CELLS - 18))

    def line(self, row: int) -> TableLine:
        """Returns the line of a bucket."""
        bucket = self.items[row]
        suffix = "+" if bucket.is_last else "–"
        text = f" {bucket.responses:,}  {100 * bucket.share:.0f}%" if bucket.responses else ""
        bar_cells = -int(-self._width * bucket.length // 1)
        return TableLine(
            {
                "latency": (Span(f"{brief_duration(octave_ns(bucket.octave)[0])} {suffix}", "dim"),),
                "count": (Span("█" * bar_cells, "accent"), Span(text)),
            }
        )


def buckets_of(octaves: Mapping[int, int]) -> list[Bucket]:
    """Returns the buckets from the shortest duration to the longest, including empty ones."""
    if not octaves:
        return []
    total, max_count, last_octave = sum(octaves.values()), max(octaves.values()), max(octaves)
    counts = ((octave, octaves.get(octave, 0)) for octave in range(min(octaves), last_octave + 1))
    return [Bucket(octave, count, count / total, count / max_count, octave == last_octave) for octave, count in counts]


def bucket_filter(bucket: Bucket) -> str:
    """Returns the filter expression for the calls whose latency is in a bucket."""
    low, high = octave_ns(bucket.octave)
    return f"latency>={_exact_duration(low)} latency<{_exact_duration(high)}"


def _exact_duration(ns: int) -> str:
    """Returns a duration in the largest unit in which it is 1 or more, with all its digits."""
    unit, digits = next(((unit, digits) for unit, digits in _UNITS if ns >= 10**digits), ("ns", 0))
    whole, remainder = divmod(ns, 10**digits)
    fraction = f"{remainder:0{digits}d}".rstrip("0") if remainder else ""
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


def over_time_lines(distribution: Distribution, width: int, lines_per_chart: int = 1) -> list[list[Span]]:
    """Returns the latencies of one kind over time, as lines.

    Args:
        distribution: the latencies.
        width: the width of the lines, in cells.
        lines_per_chart: the height of each of the two charts, in lines.
    """
    lines: list[list[Span]] = []
    chart_width = max(4, width - LABEL_CELLS - NOTE_CELLS)
    scale_ns = max((value for value in distribution.p95_ns if value is not None), default=0)
    for name, values in (("p95", distribution.p95_ns), ("p50", distribution.p50_ns)):
        *upper_bars, bars = stacked_blocks(compress(values, chart_width), lines_per_chart, scale_ns)
        max_ns = max((value for value in values if value is not None), default=None)
        note = f"  up to {brief_duration(max_ns)}" if max_ns is not None else ""
        lines += [[Span(" " * LABEL_CELLS), Span(upper, "accent")] for upper in upper_bars]
        lines.append([Span(f"{name + ' by time':<{LABEL_CELLS}}", "dim"), Span(bars, "accent"), Span(note, "dim")])
    if distribution.p95_ns:
        axis_width = min(chart_width, len(distribution.p95_ns))
        start, end = "0", brief_duration(len(distribution.p95_ns) * distribution.slice_ns)
        lines.append([Span(f"{'':<{LABEL_CELLS}}{start}{end:>{max(len(end) + 1, axis_width - len(start))}}", "dim")])
    return lines
