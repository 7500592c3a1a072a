"""The revisions of MCP as data: their order, the eras, and the spans of revisions to which a rule applies.

A new revision begins here, with its date in `REVISIONS`. Spans that are open at the end, such as `MODERN_ERA`, then
include it, and everything that has such a span, or none, is in it as in the one before. What it changes goes into the
other tables, a row for each: `features.py`, `methods.py`, `capabilities.py`, `result_types.py`, `deprecations.py`,
`error_codes.py`, and for bodies `shapes/revision_changes.py`. No other code names a revision, as
`tests/test_revision_dates.py` checks, and `tests/corpus/revisions` has a made-up one as an example. Only what no table
can say needs code: a rule about something new, and the page of a rule whose examples no longer hold.

The strings are never compared with `<`: a peer may send anything in their place. A version from a peer has a rank, the
index of the revision that it is checked as, or none.
"""

import re
from typing import Final, Literal, NamedTuple, TypeAlias

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Every published revision, oldest first."""
DRAFT_VERSION: Final = "draft"
NEWEST_RANK: Final = len(REVISIONS) - 1
"""The rank of the newest revision."""
FIRST_MODERN_RANK: Final = REVISIONS.index("2026-07-28")
"""The rank of the first revision without a handshake: the first of an era, not the newest."""

FIRST_MODERN_REVISION: Final = REVISIONS[FIRST_MODERN_RANK]
LAST_HANDSHAKE_REVISION: Final = REVISIONS[FIRST_MODERN_RANK - 1]

Era: TypeAlias = Literal["handshake", "modern"]
"""Whether `initialize` opens a session, or every request is self-contained."""

_RANKS: Final = {revision: rank for rank, revision in enumerate(REVISIONS)}
_match_date: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII).fullmatch


def rank_of(version: object) -> int | None:
    """The rank of a peer's version; for an unknown date, that of the nearest older revision.

    Returns None if it is absent or not a date; drafts are checked as the newest revision.
    """
    if not isinstance(version, str):
        return None
    rank = _RANKS.get(version)
    if rank is not None:
        return rank
    if version == DRAFT_VERSION or version.startswith("DRAFT-"):
        return NEWEST_RANK
    if not _match_date(version):
        return None
    older_ranks = [rank for rank, revision in enumerate(REVISIONS) if revision < version]
    return older_ranks[-1] if older_ranks else 0


def is_known(version: object) -> bool:
    """Whether a version is a published revision."""
    return version in REVISIONS


def is_date(version: str) -> bool:
    """Whether a version has the format of a revision."""
    return _match_date(version) is not None


def era_of(rank: int) -> Era:
    """The era of a revision."""
    return "modern" if rank >= FIRST_MODERN_RANK else "handshake"


class Span(NamedTuple):
    """An inclusive range of revisions, by their ranks."""

    first: int
    last: int

    def applies_to(self, rank: int | None, era: Era | None) -> bool:
        """Whether a rule for this span applies under a revision.

        Args:
            rank: the rank of the revision in force; None if unknown.
            era: the era in force, which is often known before the revision.
        """
        if rank is not None:
            return self.first <= rank <= self.last
        if era == "handshake":
            return self.first == 0 and self.last >= FIRST_MODERN_RANK - 1
        if era == "modern":
            return self.first <= FIRST_MODERN_RANK and self.last >= NEWEST_RANK
        return self == ALL

    def includes(self, rank: int | None) -> bool:
        """Whether a revision is one of the span; False if it is unknown."""
        return rank is not None and self.first <= rank <= self.last

    def within(self, other: "Span") -> "Span":
        """The revisions that two spans have in common, which must be some."""
        return Span(max(self.first, other.first), min(self.last, other.last))

    def __str__(self) -> str:
        """The span as pages of rules write it."""
        if self == ALL:
            return "all"
        if self.first == self.last and self.first != NEWEST_RANK:
            return f"{REVISIONS[self.first]} only"
        if self.last == NEWEST_RANK:
            return f"≥{REVISIONS[self.first]}"
        return f"≤{REVISIONS[self.last]}" if self.first == 0 else f"{REVISIONS[self.first]} to {REVISIONS[self.last]}"


ALL: Final = Span(0, NEWEST_RANK)


def since(version: str) -> Span:
    """This revision and all later ones."""
    return Span(REVISIONS.index(version), NEWEST_RANK)


def until(version: str) -> Span:
    """This revision and all earlier ones."""
    return Span(0, REVISIONS.index(version))


def only(version: str) -> Span:
    """This revision alone."""
    return Span(REVISIONS.index(version), REVISIONS.index(version))


def between(first: str, last: str) -> Span:
    """All revisions from one to another, inclusive."""
    return Span(REVISIONS.index(first), REVISIONS.index(last))


def before(span: Span) -> Span:
    """All revisions that are older than a span."""
    return Span(0, span.first - 1)


HANDSHAKE_ERA: Final = until(LAST_HANDSHAKE_REVISION)
MODERN_ERA: Final = since(FIRST_MODERN_REVISION)
