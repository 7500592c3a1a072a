"""The tables of a comparison's text: latencies, and the size of definitions."""

from collections.abc import Iterator, Sequence
from typing import Final

from analysis.comparison.change import LatencyRow, SizeRow
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells, fit, fit_ends
from mcpproxy.wording.changes import MAX_NAME_CHARS
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.latencies import ratio_text
from mcpproxy.wording.spans import Role, Span, Style
from mcpproxy.wording.units import brief_duration

MAX_SHOWN_LATENCIES: Final = 10
"""The most calls in the table of latencies."""
_MAX_UNCLEAR: Final = 3
"""The most calls that are named because their samples are too small."""
_MAX_UNCLEAR_CHARS: Final = 60
_MIN_NAME_CELLS: Final = 28
_ROLES: Final[dict[str, Role]] = {"slower": "warm", "faster": "accent"}


def latency_lines(rows: Sequence[LatencyRow], style: Style, width: int) -> Iterator[str]:
    """Yields the calls whose latency differs, and how many others there are; nothing if there is nothing to tell.

    Args:
        rows: the latencies of all calls.
        style: the colours.
        width: the width of a line, in cells.
    """
    if all(row.verdict not in (*_ROLES, "same") for row in rows):
        return
    heads, *table = latency_rows(rows)
    if table:
        roles = [_ROLES[row[0].partition(" ")[0]] for row in table]
        yield from _table_lines(heads, table, roles, style, width, droppable=(1, 4))
    else:
        yield style.paint([Span("latency", "accent")])
    yield from (f"  {fit(line, width - 2)}" for line in latency_summary(rows))


def latency_rows(rows: Sequence[LatencyRow]) -> list[tuple[str, ...]]:
    """Returns the heading and the first calls whose latency differs, as sanitised cells."""
    return [("latency", "calls", "p50", "p95", "ratio"), *map(_latency_cells, _differing(rows)[:MAX_SHOWN_LATENCIES])]


def latency_summary(rows: Sequence[LatencyRow]) -> Iterator[str]:
    """Yields how many calls are not in the table, and why; sanitised."""
    differing = _differing(rows)
    if len(differing) > MAX_SHOWN_LATENCIES:
        yield f"and {len(differing) - MAX_SHOWN_LATENCIES:,} more; --format json lists all"
    if differing:
        yield "the first call of each session is not counted if there are others"
    unchanged = sum(row.verdict == "same" for row in rows)
    if unchanged:
        yield f"no difference proved: {unchanged:,} of {count_text(len(rows), 'kind of call', 'kinds of calls')}"
    unclear = sorted((row for row in rows if row.verdict not in (*_ROLES, "same")), key=_order_of_unclear)
    if unclear:
        names = ", ".join(sanitise(row.name, _MAX_UNCLEAR_CHARS) for row in unclear[:_MAX_UNCLEAR])
        more = f", and {len(unclear) - _MAX_UNCLEAR:,} more" if len(unclear) > _MAX_UNCLEAR else ""
        yield f"cannot tell: {names}{more}"


def _order_of_unclear(row: LatencyRow) -> tuple[bool, int]:
    """Returns the key that sorts calls of tools first, and those before others that were made more often."""
    return not row.name.startswith("tools/call"), -min(row.old_count, row.new_count)


def _differing(rows: Sequence[LatencyRow]) -> list[LatencyRow]:
    """Returns the calls that became slower, and then those that became faster."""
    differing = [row for row in rows if row.verdict in _ROLES]
    return sorted(differing, key=lambda row: row.verdict != "slower")


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
    name, interval = shown
    return f"{name} {ratio_text(interval)}"


def size_lines(rows: Sequence[SizeRow], style: Style, width: int) -> Iterator[str]:
    """Yields the lists whose definitions have another size than before; nothing if there are none.

    Args:
        rows: the sizes of all lists.
        style: the colours.
        width: the width of a line, in cells.
    """
    heads, *table = size_rows(rows)
    if table:
        yield from _table_lines(heads, table, ["plain"] * len(table), style, width, droppable=(1,))


def size_rows(rows: Sequence[SizeRow]) -> list[tuple[str, ...]]:
    """Returns the heading and the lists whose definitions have another size than before, as sanitised cells."""
    return [
        ("size of definitions", "items", "bytes", "tokens (est.)"),
        *(
            (
                sanitise(row.list, MAX_NAME_CHARS),
                f"{row.old_count:,} → {row.new_count:,}",
                f"{row.old_bytes:,} → {row.new_bytes:,}",
                f"{row.old_tokens:,} → {row.new_tokens:,}",
            )
            for row in rows
            if (row.old_count, row.old_bytes) != (row.new_count, row.new_bytes)
        ),
    ]


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
    name_width = widths[0] + 2 if width >= UNLIMITED_WIDTH else max(3, min(widths[0] + 2, width - rest))
    for number, row in enumerate((heads, *rows)):
        indent = "  " if number else ""
        name = indent + fit_ends(row[0], name_width - len(indent))
        tail = "".join(f"  {_right(row[column], widths[column])}" for column in columns).rstrip()
        role: Role = roles[number - 1] if number else "accent"
        yield style.paint(
            [
                Span(name + " " * (name_width - cells(name)), role),
                Span(fit(tail, max(0, width - name_width)), "plain" if number else "dim"),
            ]
        )


def _right(text: str, width: int) -> str:
    return " " * (width - cells(text)) + text
