"""Kinds of changes of findings: what the rules report on one side only."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

FINDING_NEW: Final = Kind(
    "finding/new",
    Severity.WORSE,
    "a rule reports an error that it did not report before",
    "One of the sides violates the protocol in a new way; the finding says which, and `mcpproxy rule ID` what to do.",
    "id/unknown-response: 0 → 3",
    "finding",
)
FINDING_NEW_WARNING: Final = Kind(
    "finding/new-warning",
    Severity.MAY_BREAK,
    "a rule reports a warning that it did not report before",
    "One of the sides does something that should not happen, or is very suspicious, and did not do it before. Some "
    "peers do not mind, others do.",
    "tools/duplicate-name: 0 → 1",
    "finding",
)
FINDING_NEW_NOTE: Final = Kind(
    "finding/new-note",
    Severity.NOTE,
    "a rule reports a note that it did not report before",
    "What it reports is legal, but was not seen before; it often explains another change.",
    "timeout/abandoned-request: 0 → 2",
)
FINDING_RAISED: Final = Kind(
    "finding/raised",
    Severity.MAY_BREAK,
    "a rule reports the same thing at a worse level",
    "The revision in force now forbids what the one before only advised against, so a peer may refuse it.",
    "tools/bad-name: note → error",
    "finding",
)
FINDING_GONE: Final = Kind(
    "finding/gone",
    Severity.NOTE,
    "a rule no longer reports what it reported before",
    "The violation is fixed, or the traffic that showed it is not in the new side.",
    "id/unknown-response: 3 → 0",
)

KINDS: Final = (FINDING_NEW, FINDING_RAISED, FINDING_NEW_WARNING, FINDING_NEW_NOTE, FINDING_GONE)
