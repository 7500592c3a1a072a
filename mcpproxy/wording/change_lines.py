"""A change in one line, for outputs without a layout of their own: the sentence, both values, the proof, the frames."""

from typing import Final

from analysis.comparison.change import Change, Comparison
from mcpproxy.wording.aligned_json import AlignedLine
from mcpproxy.wording.changes import (
    MAX_NAME_CHARS,
    message_text,
    places_text,
    proof_text,
    quotes_values,
    subject_text,
    value_texts,
)
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.latencies import LatencyValue, interval_of, latency_of, ratio_text
from mcpproxy.wording.units import ms_text

MAX_VALUE_CHARS: Final = 100
"""The most characters of each value in a line."""


def change_line(change: Change, comparison: Comparison) -> str:
    """Returns a change in one line: what changed, the sentence, the values, their proof, the frames; sanitised."""
    values, proof = values_text(change, comparison, MAX_VALUE_CHARS), proof_text(change, MAX_NAME_CHARS)
    text = "; ".join(filter(None, (f"{subject_text(change)}: {message_text(change)}", values, proof)))
    places = places_text(change, comparison)
    return f"{text} ({places})" if places else text


def values_text(change: Change, comparison: Comparison, limit: int) -> str:
    """Returns the values of both sides: `was 3, now 4` or `p50 33.8 ms → 66.1 ms (×1.9–2.0), 29 calls each`; sanitised.

    It is empty if there are none, or if the sentence quotes them.

    Args:
        change: the change.
        comparison: the comparison, which has the interval of a change of latency.
        limit: the most characters of each value, at least 40.
    """
    if quotes_values(change):
        return ""
    before, after = latency_of(change.before), latency_of(change.after)
    if before is not None and after is not None:
        row = next((row for row in comparison.latencies if row.name == change.subject), None)
        return _latency_text(before, after, None if row is None else interval_of(row, before.quantile))
    old, new = value_texts(change, limit)
    return ", ".join(f"{label} {text}" for label, text in (("was", old), ("now", new)) if text is not None)


def worded_line(change: Change) -> AlignedLine | None:
    """Returns the values of both sides in words, where JSON would say less: latencies, and counts of findings.

    It is None for other values, which `aligned_lines` writes.
    """
    old, new = latency_of(change.before), latency_of(change.after)
    if old is not None and new is not None:
        return AlignedLine(0, old.text, new.text, is_equal=False)
    before, after = change.before, change.after
    if change.kind.id.startswith("finding/") and isinstance(before, int) and isinstance(after, int):
        return AlignedLine(0, _reported_text(before), _reported_text(after), is_equal=False)
    return None


def _reported_text(count: int) -> str:
    return f"reported {count_text(count, 'time')}" if count else "not reported"


def _latency_text(before: LatencyValue, after: LatencyValue, interval: tuple[float, float] | None) -> str:
    calls = count_text(after.calls, "call")
    ratio = f" ({ratio_text(interval)})" if interval is not None else ""
    counts = f"{calls} each" if before.calls == after.calls else f"{before.calls:,} → {calls}"
    return f"{before.quantile} {ms_text(before.ns)} → {ms_text(after.ns)}{ratio}, {counts}"
