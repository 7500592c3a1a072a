"""Kinds of changes of findings: what the rules report on one side only."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

FINDING_NEW: Final = Kind(
    "finding/new",
    Severity.WORSE,
    "a rule reports what it did not report before",
    "One of the sides violates the protocol in a new way; the finding says which, and what to do instead.",
    "id/unknown-response: 0 → 3",
    "finding",
)

KINDS: Final = (FINDING_NEW,)
