"""Kinds of changes of the order of calls: calls that come, go or move."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

CALL_MISSING: Final = Kind(
    "sequence/missing",
    Severity.NOTE,
    "a call is not made any more",
    "The client no longer makes the call, so nothing is known of whether it would still work.",
    "tools/call fetch: 3 times → never",
)

KINDS: Final = (CALL_MISSING,)
