"""Kind: a row of the table of changes that a comparison can report, with its id, its severity and its page."""

from enum import IntEnum
from typing import Final, Literal, NamedTuple, TypeAlias

AspectName: TypeAlias = Literal["definitions", "session", "findings", "outcomes", "values", "sequence", "latency"]
"""The aspects that are compared: lists of tools, resources and prompts; what the sides said of themselves; findings of
rules; how calls ended; what results contained; which calls were made in which order; how long calls took."""
FailOn: TypeAlias = Literal["breaking", "may-break", "outcome", "finding", "value", "slower"]
"""The words of `--fail-on`. `breaking` and `may-break` select by severity, the others by `Kind.fail_on`."""


class Severity(IntEnum):
    """How bad a change is for who relies on the old side. Severities can be compared."""

    NOTE = 1
    """Compatible, or only of interest."""
    UNKNOWN = 2
    """It could not be decided whether the change is compatible."""
    MAY_BREAK = 3
    """Something that worked before may not work now, but nothing proves it."""
    WORSE = 4
    """A recorded behaviour got worse: a call fails, a rule is broken, a call takes longer."""
    BREAKING = 5
    """Something that worked before does not work now: a value proves it, or what was used is gone."""

    def __str__(self) -> str:
        """Returns the severity as in output and JSON."""
        return _WORDS[self]


_WORDS: Final = {
    Severity.NOTE: "note",
    Severity.UNKNOWN: "unknown",
    Severity.MAY_BREAK: "may break",
    Severity.WORSE: "worse",
    Severity.BREAKING: "breaking",
}


class Kind(NamedTuple):
    """One kind of change. Its texts are its page (`mcpproxy compare --explain ID`)."""

    id: str
    """`group/name`; never reused."""
    severity: Severity
    """The severity of a change of this kind; a change whose witness is missing is at most `MAY_BREAK`."""
    title: str
    """What happened, as a clause: `a tool was removed`."""
    why: str
    """Why it matters, and for whom, in one to three sentences."""
    example: str
    """What it looks like, in one or two lines of JSON or words."""
    fail_on: FailOn | None = None
    """The word of `--fail-on`, other than `breaking` and `may-break`, that this kind fails; None if there is none."""
