"""Latency lines: the latencies of one kind of request over time, and its histogram, whose buckets can be chosen."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from analysis.conversation.durations import PARTS_PER_OCTAVE, part_begin_ns
from mcpproxy.tui.data.latencies import Distribution
from mcpproxy.tui.rows.waterfall import spans_of
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording.blocks import BLOCKS, compress, stacked_blocks
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.units import brief_duration

P50_SIGN: Final = "█"
P95_SIGN: Final = "⢸"
"""What fills the chart over time above p50, up to p95."""
_P50_DOTS: Final = (0, 0x40, 0x44, 0x46, 0x47)
_P95_DOTS: Final = (0, 0x80, 0xA0, 0xB0, 0xB8)
"""By height: the dots of p50, in the left half of a braille sign, and of p95, in its right half."""
RANGE_CELLS: Final = 9
"""The width of a bucket's label, in cells."""
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
    """The responses whose latency is within a range."""

    begin_ns: int
    end_ns: int
    """The shortest latency that is too long for it."""
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
        self._width = 1

    def fill(self, buckets: Iterable[Bucket], width: int) -> None:
        """Show other buckets, in lines of this width."""
        self.items = list(buckets)
        self._width = max(1, width - RANGE_CELLS - 1 - max((cells(_count_text(one)) for one in self.items), default=0))

    def line(self, row: int) -> TableLine:
        """Returns the line of a bucket."""
        bucket = self.items[row]
        suffix = "+" if bucket.is_last else "–"
        bar_cells = -int(-self._width * bucket.length // 1)
        return TableLine(
            {
                "latency": (Span(f"{brief_duration(bucket.begin_ns)} {suffix}", "dim"),),
                "count": (Span("█" * bar_cells, "accent"), Span(_count_text(bucket))),
            }
        )


def _count_text(bucket: Bucket) -> str:
    """Returns what follows the bar of a bucket."""
    return f" {bucket.responses:,}  {100 * bucket.share:.0f}%" if bucket.responses else ""


def buckets_of(counts: Mapping[int, int], max_buckets: int = 0) -> list[Bucket]:
    """Returns the buckets from the shortest duration to the longest, including empty ones.

    A bucket is an octave, or a half, a quarter or an eighth of one if these are neither too many nor more than the
    responses.

    Args:
        counts: the counts by part of an octave.
        max_buckets: the most buckets if they are smaller than an octave.
    """
    if not counts:
        return []
    total, low, high = sum(counts.values()), min(counts), max(counts)
    size = 1
    while size < PARTS_PER_OCTAVE and high // size - low // size >= min(max_buckets, total):
        size *= 2
    first, last = low // size, high // size
    sums = [0] * (last - first + 1)
    for part, count in counts.items():
        sums[part // size - first] += count
    return [
        Bucket(
            part_begin_ns(number * size),
            part_begin_ns((number + 1) * size),
            count,
            count / total,
            count / max(sums),
            is_last=number == last,
        )
        for number, count in enumerate(sums, first)
    ]


def bucket_filter(bucket: Bucket) -> str:
    """Returns the filter expression for the calls whose latency is in a bucket."""
    return f"latency>={_exact_duration(bucket.begin_ns)} latency<{_exact_duration(bucket.end_ns)}"


def _exact_duration(ns: int) -> str:
    """Returns a duration in the largest unit in which it is 1 or more, with all its digits."""
    unit, digits = next(((unit, digits) for unit, digits in _UNITS if ns >= 10**digits), ("ns", 0))
    whole, remainder = divmod(ns, 10**digits)
    fraction = f"{remainder:0{digits}d}".rstrip("0") if remainder else ""
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


def over_time_lines(distribution: Distribution, width: int, chart_lines: int) -> list[list[Span]]:
    """Returns p50 within p95 of one kind over time, on one scale, as lines: the values, the chart, and the times.

    Args:
        distribution: the latencies.
        width: the width of the lines, in cells.
        chart_lines: the height of the chart, in lines.
    """
    p50_ns, p95_ns = distribution.p50_ns, distribution.p95_ns
    if not p95_ns:
        return []
    highest_p50, highest_p95 = (max(value or 0 for value in values) for values in (p50_ns, p95_ns))
    head = [
        Span(f"{P50_SIGN} ", "accent"),
        Span(f"p50 by time, up to {brief_duration(highest_p50)}   ", "dim"),
        Span(f"{P95_SIGN} "),
        Span(f"p95, up to {brief_duration(highest_p95)}", "dim"),
    ]
    p50_lines, p95_lines = (
        stacked_blocks(_stretched(values, width), chart_lines, highest_p95) for values in (p50_ns, p95_ns)
    )
    chart = [
        spans_of(_chart_cell(*blocks) for blocks in zip(p50_line, p95_line, strict=True))
        for p50_line, p95_line in zip(p50_lines, p95_lines, strict=True)
    ]
    end = brief_duration(len(p95_ns) * distribution.slice_ns)
    return [head, *chart, [Span(f"0{end:>{max(len(end) + 1, width - 1)}}", "dim")]]


def _chart_cell(p50_block: str, p95_block: str) -> tuple[str, Role]:
    """Returns the cell that p50 and p95 fill with these blocks: if p95 is higher, dots, each in its own half."""
    p50_height, p95_height = f" {BLOCKS}".index(p50_block), f" {BLOCKS}".index(p95_block)
    if p95_height <= p50_height:
        return p50_block, "accent"
    p50_dots = max(1, p50_height // 2) if p50_height else 0
    p95_dots = max(p50_dots + 1, -(-p95_height // 2))
    return chr(0x2800 + _P50_DOTS[p50_dots] + _P95_DOTS[p95_dots]), "plain"


def _stretched(values: Sequence[int | None], width: int) -> list[int | None]:
    """Returns values in exactly `width` places: each has several of them if there are few, as in `compress` if not."""
    if len(values) >= width:
        return compress(values, width)
    return [values[place * len(values) // width] for place in range(width)]
