"""The input of a report: findings and their context, how a capture ended, and the totals.

A report accepts these one by one and returns text for stdout, so that its memory need not grow with a capture.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from analysis.conversation.bounded_dict import ForgottenEntries
from analysis.rules.finding import Blames, Finding, Level
from captures.damage import Damage

STDIN: Final = Path("stdin")
"""The name of a capture read from stdin; its temporary file is gone by the time the report is read."""


class RecordLocation(NamedTuple):
    """The place of a record."""

    path: Path
    """The file of its segment."""
    offset: int
    """The offset at which its line begins, in bytes."""
    size: int
    """The size of the line in bytes, without its LF."""
    line: int
    """The number of the line, from 1."""


class LocatedFinding(NamedTuple):
    """A finding, and its context."""

    finding: Finding
    capture: Path
    wall_ns: int | None = None
    """The wall clock when the capture was opened."""
    place: RecordLocation | None = None
    """The place of the finding's record; None if the number of the record occurs twice, or the record is gone."""
    fingerprint: str = ""
    """Equal for the same finding in other sessions (analysis.checking.baseline)."""
    is_accepted: bool = False
    """Whether the baseline contains it."""
    proofs: tuple[tuple[int, RecordLocation], ...] = ()
    """The numbers and places of other records that prove it, if requested."""
    forgotten: Sequence[ForgottenEntries] = ()
    """What the checker had forgotten about the capture by then."""

    @property
    def file(self) -> Path:
        """The file that contains it: its own segment, if there are several."""
        return self.capture if self.place is None or self.capture == STDIN else self.place.path

    @property
    def record_text(self) -> str:
        """The record, and the message if the record contains several."""
        finding = self.finding
        return f"frame {finding.frame}" if finding.item is None else f"frame {finding.frame} item {finding.item}"

    @property
    def text(self) -> str:
        """The problem, and its place in the message, in one line that is not sanitised."""
        return problem_text(self.finding.message, self.finding.pointer)


def problem_text(message: str, pointer: str) -> str:
    """The problem, and its place in the message, if it has one."""
    return f"{message}, at {pointer}" if pointer else message


class CheckOutcome(NamedTuple):
    """The outcome of checking a capture."""

    capture: Path
    counts: Mapping[tuple[str, int, str], int]
    """How often rules that report only their first violation were broken, by rule, session and side."""
    faults: Mapping[str, str]
    """What went wrong in the rules that failed, by rule id. These are bugs in mcpproxy."""
    is_damaged: bool
    """Whether the capture has bytes that are not a record."""
    nothing_reason: str = ""
    """Why there was nothing to check; empty if there was something."""
    forgotten: Sequence[ForgottenEntries] = ()
    """What had to be forgotten because too much was open at the same time."""
    frames: int = 0
    sessions: int = 0
    missing: int = 0
    """The number of records that are missing without a gap record, judging by the numbers of the others."""
    begins_at: int = 0
    """The number of the first record, if the recorder's ring has deleted the records before it; else 0."""
    unrecorded: int = 0
    """The number of bodies that may contain messages but are not in the capture."""
    guesses: int = 0
    """The number of sessions that are guesses, because several clients look alike."""
    undecided_logins: int = 0
    """The number of logins without a token whose client may still go on."""
    followers: Mapping[tuple[str, int, str], int] = MappingProxyType({})
    """The number of findings that follow from others, by the cause's rule, the session, and the findings' rule."""


class CheckProgress(NamedTuple):
    """How far the examination of a capture has got; reported from time to time."""

    frames: int


Event: TypeAlias = LocatedFinding | Damage | CheckProgress | CheckOutcome
"""What examining a capture yields: its findings, the first damage, the progress, and the outcome at the end."""


class Totals:
    """Totals over all captures."""

    def __init__(self) -> None:
        self.captures = self.frames = self.sessions = self.accepted = 0
        self.abandoned = 0
        """The number of abandoned requests. Their findings are notes, but users look for them first."""
        self.first_abandoned: Finding | None = None
        self.counts: Counter[tuple[Level, Blames]] = Counter()
        """The number of findings that were not accepted, by level and side."""

    def count_finding(self, located: LocatedFinding) -> None:
        """Count a finding."""
        if located.is_accepted:
            self.accepted += located.finding.finding_count
        else:
            self.counts[located.finding.level, located.finding.blames] += located.finding.finding_count
            if located.finding.rule == "timeout/abandoned-request":
                self.abandoned += 1
                self.first_abandoned = self.first_abandoned or located.finding

    def count_of(self, level: Level, blames: Blames | None = None) -> int:
        """The number of findings with a level, of one side or of all."""
        return sum(
            count
            for (finding_level, side), count in self.counts.items()
            if finding_level == level and blames in (None, side)
        )

    @property
    def finding_count(self) -> int:
        """The number of findings, including accepted ones."""
        return self.accepted + sum(self.counts.values())

    @property
    def worst_level(self) -> Level | None:
        """The worst level among the findings that were not accepted."""
        return max((level for (level, _), count in self.counts.items() if count), default=None)


class Reporter:
    """Reports findings in one format. Each method returns text that is ready for stdout."""

    def begin(self, capture: Path) -> Iterable[str]:  # noqa: ARG002
        """Begin the report on a capture."""
        return ()

    def report(self, located: LocatedFinding) -> Iterable[str]:  # noqa: ARG002
        """Report a finding in the capture."""
        return ()

    def finish(self, ended: CheckOutcome) -> Iterable[str]:  # noqa: ARG002
        """End the report on a capture that has been checked."""
        return ()

    def unreadable(self, capture: Path, why: str) -> Iterable[str]:  # noqa: ARG002
        """End the report on a capture that could not be read to its end: findings since `begin` do not count."""
        return ()

    def close(self, totals: Totals) -> Iterable[str]:  # noqa: ARG002
        """End the whole report: all captures have been checked."""
        return ()
