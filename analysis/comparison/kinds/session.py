"""Kinds of changes of what the sides say of themselves: capabilities, revision, instructions, size of definitions."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

REVISION_CHANGED: Final = Kind(
    "session/revision-changed",
    Severity.MAY_BREAK,
    "another revision of the protocol was negotiated",
    "What may be sent and what must be answered differs between revisions, and a client may not know the new one.",
    "2025-06-18 → 2025-11-25",
)

KINDS: Final = (REVISION_CHANGED,)
