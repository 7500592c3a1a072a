"""The input of a report: findings and their context, how a capture ended, and the totals.

A report takes these one by one and gives back text for stdout, so that its memory need not grow with a capture.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analysis.conversation.limited import Forgotten
from analysis.rules.finding import Blames, Finding, Level

STDIN: Final = Path("stdin")
"""What a capture is called that came that way; the file that it was kept in is gone when somebody reads the report."""


class Place(NamedTuple):
    """Where a record stands."""

    path: Path
    """The file of its segment."""
    offset: int
    """Where its line begins, in bytes."""
    size: int
    """Bytes of the line, its LF apart."""
    line: int
    """Number of the line, from 1."""


class Found(NamedTuple):
    """A finding, and what is known beside it."""

    finding: Finding
    capture: Path
    wall_ns: int | None = None
    """Wall clock when the capture opened."""
    place: Place | None = None
    """Of the record at which it shows; None where its number stands twice, or it is gone."""
    fingerprint: str = ""
    """What it has in common with the same finding of other sessions (analysis.checking.baseline)."""
    accepted: bool = False
    """Whether the baseline has it."""
    proofs: tuple[tuple[int, Place], ...] = ()
    """Number and place of other records that prove it, where somebody wants to see these."""
    forgotten: Sequence[Forgotten] = ()
    """What had been forgotten of the capture when it was found."""

    @property
    def file(self) -> Path:
        """The file to look it up in: of several segments the one in which it stands."""
        return self.capture if self.place is None or self.capture == STDIN else self.place.path

    @property
    def where(self) -> str:
        """The record at which it shows, and which of several messages in it."""
        finding = self.finding
        return f"frame {finding.frame}" if finding.item is None else f"frame {finding.frame} item {finding.item}"

    @property
    def text(self) -> str:
        """What is wrong, and where in the message: in one line, in which foreign text is not safe on a screen."""
        return located(self.finding.message, self.finding.pointer)


def located(message: str, pointer: str) -> str:
    """What is wrong, and the place in the message where there is one to tell."""
    return f"{message}, at {pointer}" if pointer else message


class Ended(NamedTuple):
    """What is known of a capture once it has been checked."""

    capture: Path
    counts: Mapping[tuple[str, int, str], int]
    """How often rules that tell of the first time only were broken, by rule, session and side."""
    faults: Mapping[str, str]
    """Rules that failed, by id: what went wrong. Bugs of ours."""
    damaged: bool
    """Whether it holds bytes that are no record."""
    nothing: str = ""
    """Why there was nothing to check; empty where there was."""
    forgotten: Sequence[Forgotten] = ()
    """What had to be forgotten, as too much of it was open at once."""


class Totals:
    """Sums over all captures."""

    def __init__(self) -> None:
        self.captures = self.frames = self.sessions = self.accepted = 0
        self.abandoned = 0
        """Requests that were abandoned: notes, but what a user looks for first."""
        self.first_abandoned: Finding | None = None
        self.by: Counter[tuple[Level, Blames]] = Counter()
        """Findings that were not accepted, by level and side."""

    def add(self, found: Found) -> None:
        """Count a finding."""
        if found.accepted:
            self.accepted += found.finding.stands_for
        else:
            self.by[found.finding.level, found.finding.blames] += found.finding.stands_for
            if found.finding.rule == "timeout/abandoned-request":
                self.abandoned += 1
                self.first_abandoned = self.first_abandoned or found.finding

    def at(self, level: Level, blames: Blames | None = None) -> int:
        """How many there are of a level, of one side or of all."""
        return sum(count for (one, side), count in self.by.items() if one == level and blames in (None, side))

    @property
    def findings(self) -> int:
        """How many there are, accepted ones among them."""
        return self.accepted + sum(self.by.values())

    @property
    def worst(self) -> Level | None:
        """The highest level among them."""
        return max((level for (level, _), count in self.by.items() if count), default=None)


class Report:
    """Reports findings in one format. Each method gives back text that is ready for stdout."""

    def begin(self, capture: Path) -> Iterable[str]:  # noqa: ARG002
        """A capture is opened."""
        return ()

    def add(self, found: Found) -> Iterable[str]:  # noqa: ARG002
        """Something was found in it."""
        return ()

    def end(self, ended: Ended) -> Iterable[str]:  # noqa: ARG002
        """It has been checked."""
        return ()

    def unreadable(self, capture: Path, why: str) -> Iterable[str]:  # noqa: ARG002
        """It could not be read, or not to its end; whatever was reported of it since `begin` does not count."""
        return ()

    def close(self, totals: Totals) -> Iterable[str]:  # noqa: ARG002
        """All captures have been checked."""
        return ()
