"""Comparison rows: the lists of a comparison: changes, what was not compared, latencies, sizes and ignored values."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from analysis.comparison.change import Change, Comparison, Gap, Ignored, LatencyRow, SizeRow
from analysis.comparison.kind import Severity
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.comparison_messages import Totals
from mcpproxy.tui.rows.change_text import change_spans
from mcpproxy.tui.rows.fitted_columns import fitted_columns
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording import units
from mcpproxy.wording.cells import UNLIMITED_WIDTH, fit_ends
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
_MIN_SHOWN_PERCENT: Final = 0.1
_MIN_WHOLE_PERCENT: Final = 9.95
"""The smallest change of a size that is rounded to whole percents."""
_MAX_MEASURED_ROWS: Final = 500
"""How many rows determine the widths of the columns."""
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
        Column("name", "call", 24, stretch=1),
        Column("verdict", "verdict", 11),
        Column("counts", "calls", 13, is_right_aligned=True, drop=3),
        Column("p50", "p50", 16, is_right_aligned=True),
        Column("p50_change", "p50 ratio", 11, is_right_aligned=True, drop=1),
        Column("p95", "p95", 16, is_right_aligned=True, drop=2),
        Column("p95_change", "p95 ratio", 11, is_right_aligned=True, drop=4),
    ),
    "sizes": (
        Column("list", "list", 18, stretch=1),
        Column("count", "items", 15, is_right_aligned=True),
        Column("bytes", "size", 19, is_right_aligned=True),
        Column("growth", "change", 8, is_right_aligned=True, drop=1),
        Column("tokens", "tokens (est.)", 19, is_right_aligned=True),
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

    def __init__(self, items: Sequence[Item] = ()) -> None:
        """Create the rows, whose texts are whole until `fit_columns` is called."""
        super().__init__(items)
        self._widths: Mapping[str, int] = {}
        self._columns: list[Column] = []
        self._measured_items: Sequence[Item] | None = None
        self._fitted_to: tuple[ComparisonView, int] | None = None

    def line(self, row: int) -> TableLine:
        """Returns the cells of a row."""
        return TableLine(_cells(self.items[row], self._widths))

    def fit_columns(self, view: ComparisonView, width: int) -> list[Column]:
        """Fit the columns of a list, and the texts in them, to what the rows contain; free if nothing has changed.

        Args:
            view: the list.
            width: the width of the table, in cells.

        Returns:
            The columns.
        """
        if self._measured_items is not self.items or self._fitted_to != (view, width):
            lines = (TableLine(_cells(item, {})) for item in self.items[:_MAX_MEASURED_ROWS])
            self._columns = fitted_columns(COLUMNS[view], lines, width)
            self._widths = {column.name: column.width for column in self._columns}
            self._measured_items, self._fitted_to = self.items, (view, width)
        return self._columns


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


def item_lines(item: Item) -> list[str]:
    """Returns all that is known of an item that is not a change, a figure on each line; sanitised."""
    if isinstance(item, Gap):
        return [gap_text(item)]
    if isinstance(item, Ignored):
        return [ignored_text(item)]
    texts = {name: "".join(span.text for span in spans) for name, spans in _cells(item, {}).items()}
    first, *others = COLUMNS["latency"] if isinstance(item, LatencyRow) else COLUMNS["sizes"]
    title_cells = max(len(column.title) for column in others)
    return [texts[first.name], *(f"{column.title:{title_cells}}  {texts[column.name]}" for column in others)]


def _ranked_latencies(rows: Sequence[LatencyRow]) -> list[LatencyRow]:
    """Returns the calls: those that became slower first, and those whose samples are too small last."""
    return sorted(rows, key=lambda row: _VERDICTS.index(row.verdict) if row.verdict in _VERDICTS else len(_VERDICTS))


def _searchable_text(item: Item) -> str:
    if isinstance(item, ChangeItem):
        change = item.change
        text = f"{change.severity} {change.kind.id} {subject_text(change)} {message_text(change)}"
    else:
        text = " ".join(item_lines(item))
    return text.lower()


def _cells(item: Item, widths: Mapping[str, int]) -> dict[str, Sequence[Span]]:
    """Returns the cells of an item; texts whose column has a known width keep what distinguishes them when cut."""
    if isinstance(item, ChangeItem):
        return _change_cells(item.change, widths)
    if isinstance(item, Gap):
        sign = Span("✗", "bad") if item.is_failure else Span("·", "dim")
        return {"mark": (sign,), "text": (Span(gap_text(item), "bad" if item.is_failure else "plain"),)}
    if isinstance(item, LatencyRow):
        return _latency_cells(item, widths)
    if isinstance(item, SizeRow):
        return _size_cells(item)
    return {"text": (Span(ignored_text(item)),)}


def _change_cells(change: Change, widths: Mapping[str, int]) -> dict[str, Sequence[Span]]:
    severity = change.severity
    return {
        "mark": (Span(SIGNS[severity], ROLES[severity]),),
        "severity": (Span(str(severity), ROLES[severity]),),
        "kind": (Span(change.kind.id, "accent"),),
        "subject": (Span(fit_ends(subject_text(change), widths.get("subject", UNLIMITED_WIDTH))),),
        "text": change_spans(change, widths.get("text", UNLIMITED_WIDTH)),
    }


def _latency_cells(row: LatencyRow, widths: Mapping[str, int]) -> dict[str, Sequence[Span]]:
    role: Role = "warm" if row.verdict == "slower" else "dim" if row.verdict == "cannot tell" else "plain"
    return {
        "name": (Span(fit_ends(sanitise(row.name, 200), widths.get("name", UNLIMITED_WIDTH))),),
        "verdict": (Span(sanitise(row.verdict, 20), role),),
        "counts": (Span(f"{row.old_count:,} → {row.new_count:,}", "dim"),),
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
    return {
        "list": (Span(sanitise(row.list, 60)),),
        "count": (Span(f"{row.old_count:,} → {row.new_count:,}"),),
        "bytes": (Span(f"{units.size(row.old_bytes)} → {units.size(row.new_bytes)}"),),
        "growth": (Span(_growth_text(row.old_bytes, row.new_bytes), "dim"),),
        "tokens": (Span(f"{row.old_tokens:,} → {row.new_tokens:,}", "dim"),),
    }


def _growth_text(old_bytes: int, new_bytes: int) -> str:
    """Returns by how much a size has changed: `+14 %`, `-0.3 %`, `same`, `–` if it was nothing."""
    if old_bytes == new_bytes:
        return "same"
    if not old_bytes:
        return "–"
    percent = 100 * (new_bytes / old_bytes - 1)
    if abs(percent) < _MIN_SHOWN_PERCENT:
        return f"{'+' if percent > 0 else '-'}<{_MIN_SHOWN_PERCENT} %"
    return f"{percent:+.1f} %" if abs(percent) < _MIN_WHOLE_PERCENT else f"{percent:+,.0f} %"
