"""The tables of a comparison's text: latencies, and the size of definitions."""

from collections.abc import Iterator, Sequence
from typing import Final

from analysis.comparison.change import LatencyRow, SizeRow
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells, fit, fit_ends
from mcpproxy.wording.changes import MAX_NAME_CHARS
from mcpproxy.wording.spans import Role, Span, Style
from mcpproxy.wording.units import brief_duration, size

MAX_SHOWN_LATENCIES: Final = 10
"""The most calls in the table of latencies."""
_MAX_NAMED: Final = 3
"""The most calls that are named because their samples are too small."""
_MIN_NAME_CELLS: Final = 28
_ROLES: Final[dict[str, Role]] = {"slower": "warm", "faster": "accent"}


def latency_lines(rows: Sequence[LatencyRow], style: Style, width: int) -> Iterator[str]:
    """Yields the calls whose latency differs, and how many others there are; nothing without rows.

    Args:
        rows: the latencies of all calls.
        style: the colours.
        width: the width of a line, in cells.
    """
    if not rows:
        return
    differing = [row for row in rows if row.verdict in ("slower", "faster")]
    if differing:
        heads = ("latency", "calls", "p50", "p95", "ratio")
        cells_of_rows = [_latency_cells(row) for row in differing[:MAX_SHOWN_LATENCIES]]
        roles = [_ROLES[row.verdict] for row in differing]
        yield from _table_lines(heads, cells_of_rows, roles, style, width, droppable=(1, 4))
        if len(differing) > MAX_SHOWN_LATENCIES:
            yield f"  and {len(differing) - MAX_SHOWN_LATENCIES:,} more (--format json lists all)"
    else:
        yield style.paint([Span("latency", "accent")])
    unchanged = sum(row.verdict == "same" for row in rows)
    if unchanged:
        yield f"  no difference proved: {unchanged:,} of {len(rows):,}"
    unclear = [row for row in rows if row.verdict not in ("slower", "faster", "same")]
    if unclear:
        names = ", ".join(sanitise(row.name, MAX_NAME_CHARS) for row in unclear[:_MAX_NAMED])
        more = f", and {len(unclear) - _MAX_NAMED:,} more" if len(unclear) > _MAX_NAMED else ""
        yield fit(
            f"  cannot tell, too few calls: {fit(names, max(_MIN_NAME_CELLS, width - 32 - len(more)))}{more}", width
        )


def _latency_cells(row: LatencyRow) -> tuple[str, ...]:
    return (
        f"{row.verdict}  {sanitise(row.name, MAX_NAME_CHARS)}",
        f"{row.old_count:,} → {row.new_count:,}",
        f"{brief_duration(row.old_p50_ns)} → {brief_duration(row.new_p50_ns)}",
        f"{brief_duration(row.old_p95_ns)} → {brief_duration(row.new_p95_ns)}",
        interval_text(row),
    )


def interval_text(row: LatencyRow) -> str:
    """Returns the interval of the ratio that shows the difference: `p50 ×1.8–2.4`; empty if there is none."""
    intervals = [("p50", row.p50_interval), ("p95", row.p95_interval)]
    known = [(name, interval) for name, interval in intervals if interval is not None]
    shown = next(((name, interval) for name, interval in known if not interval[0] <= 1 <= interval[1]), None)
    if shown is None:
        return ""
    name, (low, high) = shown
    return f"{name} ×{low:.2g}–{high:.2g}"


def size_lines(rows: Sequence[SizeRow], style: Style, width: int) -> Iterator[str]:
    """Yields the lists whose definitions have another size than before; nothing if there are none.

    Args:
        rows: the sizes of all lists.
        style: the colours.
        width: the width of a line, in cells.
    """
    changed = [row for row in rows if (row.old_count, row.old_bytes) != (row.new_count, row.new_bytes)]
    if not changed:
        return
    cells_of_rows = [
        (
            sanitise(row.list, MAX_NAME_CHARS),
            f"{row.old_count:,} → {row.new_count:,}",
            f"{size(row.old_bytes)} → {size(row.new_bytes)}",
            f"{row.old_tokens:,} → {row.new_tokens:,}",
        )
        for row in changed
    ]
    heads = ("size of definitions", "items", "bytes", "tokens (estimated)")
    yield from _table_lines(heads, cells_of_rows, ["plain"] * len(changed), style, width, droppable=(1,))


def _table_lines(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    roles: Sequence[Role],
    style: Style,
    width: int,
    droppable: Sequence[int],
) -> Iterator[str]:
    """Yields a table whose first column is cut to fit, and whose other columns are aligned to the right."""
    columns = list(range(1, len(heads)))
    widths = [max(cells(row[index]) for row in (heads, *rows)) for index in range(len(heads))]
    for index in droppable:
        if width - sum(widths[column] + 2 for column in columns) < min(widths[0] + 2, _MIN_NAME_CELLS):
            columns.remove(index)
    rest = sum(widths[column] + 2 for column in columns)
    name_width = widths[0] + 2 if width >= UNLIMITED_WIDTH else max(1, min(widths[0] + 2, width - rest))
    for number, row in enumerate((heads, *rows)):
        indent = "  " if number else ""
        name = indent + fit_ends(row[0], name_width - len(indent))
        tail = "".join(f"  {_right(row[column], widths[column])}" for column in columns)
        role: Role = roles[number - 1] if number else "accent"
        yield style.paint(
            [
                Span(name + " " * (name_width - cells(name)), role),
                Span(fit(tail, max(0, width - name_width)), "plain" if number else "dim"),
            ]
        )


def _right(text: str, width: int) -> str:
    return " " * (width - cells(text)) + text
