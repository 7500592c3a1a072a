"""Comparison rows: the lists of a comparison: changes, what was not compared, latencies, sizes and ignored values."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from analysis.comparison.change import Change, Comparison, Gap, Ignored, LatencyRow, SizeRow
from analysis.comparison.kind import Severity
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.comparison_messages import Totals
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording import units
from mcpproxy.wording.change_kinds import ROLES
from mcpproxy.wording.changes import gap_text, ignored_text, message_text, subject_text
from mcpproxy.wording.latencies import ratio_text
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.units import brief_duration

ComparisonView: TypeAlias = Literal["changes", "not compared", "latency", "sizes", "ignored"]
"""A list of a comparison."""
VIEWS: Final[tuple[ComparisonView, ...]] = get_args(ComparisonView)
SIGNS: Final[dict[Severity, str]] = {
    Severity.BREAKING: "✗",
    Severity.WORSE: "✗",
    Severity.MAY_BREAK: "!",
    Severity.UNKNOWN: "?",
    Severity.NOTE: "·",
}
_VERDICTS: Final = ("slower", "faster", "same")
COLUMNS: Final[dict[ComparisonView, tuple[Column, ...]]] = {
    "changes": (
        Column("mark", "", 1),
        Column("severity", "severity", 9),
        Column("kind", "kind", 26, drop=2),
        Column("subject", "what", 20, stretch=1),
        Column("text", "change", 24, stretch=3),
    ),
    "not compared": (Column("mark", "", 1), Column("text", "not compared", 40, stretch=1)),
    "latency": (
        Column("name", "call", 16, stretch=1),
        Column("verdict", "verdict", 11),
        Column("old_count", "old n", 6, is_right_aligned=True, drop=2),
        Column("new_count", "new n", 6, is_right_aligned=True, drop=2),
        Column("p50", "p50", 16, is_right_aligned=True),
        Column("p50_change", "ratio", 11, is_right_aligned=True, drop=3),
        Column("p95", "p95", 16, is_right_aligned=True, drop=1),
        Column("p95_change", "ratio", 11, is_right_aligned=True, drop=4),
    ),
    "sizes": (
        Column("list", "list", 18, stretch=1),
        Column("count", "items", 15, is_right_aligned=True),
        Column("bytes", "size", 19, is_right_aligned=True),
        Column("tokens", "~tokens", 19, is_right_aligned=True),
        Column("growth", "change", 8, is_right_aligned=True, drop=1),
    ),
    "ignored": (Column("text", "ignored values", 40, stretch=1),),
}


class ChangeItem(NamedTuple):
    """A change, and its number in the comparison."""

    number: int
    change: Change


Item: TypeAlias = ChangeItem | Gap | LatencyRow | SizeRow | Ignored


class ComparisonRows(MemoryRows[Item]):
    """The rows of one of the lists."""

    def line(self, row: int) -> TableLine:
        """Returns the cells of a row."""
        return TableLine(_cells(self.items[row]))


def items_of(comparison: Comparison, view: ComparisonView, words: str) -> Sequence[Item]:
    """Returns the items of a list whose texts contain all words, in the order of the comparison.

    Args:
        comparison: the comparison.
        view: the list.
        words: the words that an item must contain; empty for all items.
    """
    lists: dict[ComparisonView, Sequence[Item]] = {
        "changes": [ChangeItem(number, change) for number, change in enumerate(comparison.changes)],
        "not compared": comparison.gaps,
        "latency": _ranked_latencies(comparison.latencies),
        "sizes": comparison.sizes,
        "ignored": comparison.ignored,
    }
    terms = words.lower().split()
    if not terms:
        return lists[view]
    return [item for item in lists[view] if all(term in _searchable_text(item) for term in terms)]


def count_of(comparison: Comparison, totals: Totals, view: ComparisonView) -> str:
    """Returns how many items a list has: `12`, or `10,000 of 23,456` if not all were sent."""
    counts: dict[ComparisonView, tuple[int, int]] = {
        "changes": (len(comparison.changes), totals.changes),
        "not compared": (len(comparison.gaps), totals.gaps),
        "latency": (len(comparison.latencies), totals.latencies),
        "sizes": (len(comparison.sizes), len(comparison.sizes)),
        "ignored": (len(comparison.ignored), totals.ignored),
    }
    shown, total = counts[view]
    return f"{shown:,} of {total:,}" if shown < total else f"{shown:,}"


def item_text(item: Item) -> str:
    """Returns all that is known of an item that is not a change, on one line; sanitised."""
    if isinstance(item, Gap):
        return gap_text(item)
    if isinstance(item, Ignored):
        return ignored_text(item)
    cells = _cells(item)
    columns = COLUMNS["latency"] if isinstance(item, LatencyRow) else COLUMNS["sizes"]
    first, *others = (
        (column.title, "".join(span.text for span in cells[column.name])) for column in columns if column.name in cells
    )
    return "  ".join((first[1], *(f"{title} {text}" for title, text in others)))


def _ranked_latencies(rows: Sequence[LatencyRow]) -> list[LatencyRow]:
    """Returns the calls: those that became slower first, and those whose samples are too small last."""
    return sorted(rows, key=lambda row: _VERDICTS.index(row.verdict) if row.verdict in _VERDICTS else len(_VERDICTS))


def _searchable_text(item: Item) -> str:
    if isinstance(item, ChangeItem):
        change = item.change
        text = f"{change.severity} {change.kind.id} {subject_text(change)} {message_text(change)}"
    else:
        text = item_text(item)
    return text.lower()


def _cells(item: Item) -> dict[str, Sequence[Span]]:
    if isinstance(item, ChangeItem):
        return _change_cells(item.change)
    if isinstance(item, Gap):
        sign = Span("✗", "bad") if item.is_failure else Span("·", "dim")
        return {"mark": (sign,), "text": (Span(gap_text(item), "bad" if item.is_failure else "plain"),)}
    if isinstance(item, LatencyRow):
        return _latency_cells(item)
    if isinstance(item, SizeRow):
        return _size_cells(item)
    return {"text": (Span(ignored_text(item)),)}


def _change_cells(change: Change) -> dict[str, Sequence[Span]]:
    severity = change.severity
    times = (Span(f"×{change.times:,}  ", "accent"),) if change.times > 1 else ()
    return {
        "mark": (Span(SIGNS[severity], ROLES[severity]),),
        "severity": (Span(str(severity), ROLES[severity]),),
        "kind": (Span(change.kind.id, "accent"),),
        "subject": (Span(subject_text(change)),),
        "text": (*times, Span(message_text(change._replace(times=1)))),
    }


def _latency_cells(row: LatencyRow) -> dict[str, Sequence[Span]]:
    role: Role = "warm" if row.verdict == "slower" else "dim" if row.verdict == "cannot tell" else "plain"
    return {
        "name": (Span(sanitise(row.name, 200)),),
        "verdict": (Span(sanitise(row.verdict, 20), role),),
        "old_count": (Span(f"{row.old_count:,}", "dim"),),
        "new_count": (Span(f"{row.new_count:,}", "dim"),),
        "p50": (Span(_durations(row.old_p50_ns, row.new_p50_ns)),),
        "p50_change": (Span(_interval_text(row.p50_interval), "dim"),),
        "p95": (Span(_durations(row.old_p95_ns, row.new_p95_ns)),),
        "p95_change": (Span(_interval_text(row.p95_interval), "dim"),),
    }


def _durations(old_ns: int | None, new_ns: int | None) -> str:
    return f"{brief_duration(old_ns)} → {brief_duration(new_ns)}"


def _interval_text(interval: tuple[float, float] | None) -> str:
    return ratio_text(interval) or "–"


def _size_cells(row: SizeRow) -> dict[str, Sequence[Span]]:
    growth = f"{100 * (row.new_bytes / row.old_bytes - 1):+.0f} %" if row.old_bytes else "–"
    return {
        "list": (Span(sanitise(row.list, 60)),),
        "count": (Span(f"{row.old_count:,} → {row.new_count:,}"),),
        "bytes": (Span(f"{units.size(row.old_bytes)} → {units.size(row.new_bytes)}"),),
        "tokens": (Span(f"~{row.old_tokens:,} → ~{row.new_tokens:,}", "dim"),),
        "growth": (Span(growth, "dim"),),
    }
