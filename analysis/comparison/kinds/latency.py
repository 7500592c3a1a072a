"""Kinds of changes of latency."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

SLOWER: Final = Kind(
    "latency/slower",
    Severity.WORSE,
    "a call takes longer",
    "The times of both sides differ by more than chance explains.",
    "tools/call search p50: 12 ms → 31 ms",
    "slower",
)

KINDS: Final = (SLOWER,)
