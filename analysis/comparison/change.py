"""Change: a difference between the sides, as all outputs show it; Gap: what was not compared; Comparison: all of it."""

from typing import Any, Final, NamedTuple

from analysis.checking.baseline import fingerprint
from analysis.comparison.kind import FailOn, Kind, Severity

MAX_QUOTED_CHARS: Final = 200
"""The most characters of a peer's text in `Change.message`; longer texts are cut with an ellipsis."""


class Place(NamedTuple):
    """The record that shows one side of a change."""

    capture: str
    """The path of the capture, or the name of the expectation, as the user knows it."""
    session: int
    """The number of the session in the capture, from 1; 0 if it belongs to none."""
    frame: int
    """The number of the record; -1 in an expectation, which has no records."""


class Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        """Returns the name of the only instance."""
        return "ABSENT"


ABSENT: Final = Absent()
"""The value of a member that a side does not have; null is a value."""


class Witness(NamedTuple):
    """A value that proves a change: one schema accepts it, the other does not (both judged by the validator)."""

    value: Any
    """The value as JSON, created by mcpproxy: arguments that were accepted before, or a result that is possible now."""
    fits_old: bool
    """Whether it fits the old schema, and not the new one; otherwise the reverse."""


class Change(NamedTuple):
    """One difference between the sides."""

    kind: Kind
    subject: str
    """What changed, such as `tool search` or `tools/call search`. Untrusted text, truncated."""
    message: str
    """What changed, as a sentence without a full stop. Untrusted text in it is truncated, not yet safe to print."""
    pointer: str = ""
    """The place in the definition, result or capabilities: a JSON Pointer (RFC 6901). Untrusted text."""
    before: Any = ABSENT
    """The JSON value on the old side, truncated by outputs; ABSENT if there is none."""
    after: Any = ABSENT
    """The JSON value on the new side."""
    old: Place | None = None
    new: Place | None = None
    witness: Witness | None = None
    lowered: Severity | None = None
    """The severity if it is lower than the kind's, because the witness that the kind needs is missing."""
    times: int = 1
    """How many differences it stands for."""
    unproved: str = ""
    """Why there is no witness although the kind needs one, as a clause; empty if there is one, or none is needed."""
    extents: tuple[str, ...] = ()
    """How much changed, in words without standalone numbers; further ones are larger extents. A baseline accepts no
    larger one than it has."""

    @property
    def severity(self) -> Severity:
        """How bad this change is."""
        return self.kind.severity if self.lowered is None else self.lowered

    @property
    def full_message(self) -> str:
        """The message with how much changed, as JSON and baselines have it."""
        return self._message(self.extents[0]) if self.extents else self.message

    @property
    def fingerprint(self) -> str:
        """What is the same whenever the change is found again, as of a finding; baselines contain it."""
        return self._fingerprint(self.full_message)

    @property
    def accepting_fingerprints(self) -> frozenset[str]:
        """The fingerprints of changes such that a baseline with one of them accepts this change, too."""
        return frozenset({self.fingerprint, *(self._fingerprint(self._message(extent)) for extent in self.extents)})

    def _message(self, extent: str) -> str:
        return f"{self.message} ({extent})"

    def _fingerprint(self, message: str) -> str:
        return fingerprint(self.kind.id, self.subject, self.pointer, message)

    def fails(self, words: frozenset[FailOn]) -> bool:
        """Whether it fails a comparison with these words of `--fail-on`."""
        severity = self.severity
        if "breaking" in words and severity is Severity.BREAKING:
            return True
        if "may-break" in words and severity in (Severity.BREAKING, Severity.MAY_BREAK, Severity.UNKNOWN):
            return True
        return self.kind.fail_on is not None and self.kind.fail_on in words


class Gap(NamedTuple):
    """Something that was not compared, and why."""

    what: str
    """What was not compared, such as `tools`, `findings` or `latency of tools/call search`. Untrusted text."""
    reason: str
    """Why, as a clause: `the old side lists tools and the new side does not`."""
    is_failure: bool
    """Whether the comparison has failed (exit code 2): one side has it and the other does not, or it is cut."""
    needed_by: frozenset[FailOn] = frozenset()
    """The words of `--fail-on` that, given explicitly, make it a failure although neither side has it."""


class Ignored(NamedTuple):
    """Values that the normaliser ignored."""

    rule: str
    """The pointer, or the name of the built-in rule, that ignored them."""
    values: int
    """How many values, on both sides together."""
    differed: int
    """How many of them differed."""


class LatencyRow(NamedTuple):
    """The latencies of one call on both sides, in nanoseconds."""

    name: str
    """The method and name. Untrusted text."""
    old_count: int
    new_count: int
    old_p50_ns: int | None
    new_p50_ns: int | None
    old_p95_ns: int | None
    new_p95_ns: int | None
    p50_interval: tuple[float, float] | None
    """The confidence interval of the ratio new/old of the medians; None if the sample is too small."""
    p95_interval: tuple[float, float] | None
    verdict: str
    """`slower`, `faster`, `same` or `cannot tell`."""


class SizeRow(NamedTuple):
    """The size of the definitions of one list, which a model reads."""

    list: str
    """`tools`, `resources`, `resource templates`, `prompts` or `instructions`."""
    old_count: int
    new_count: int
    old_bytes: int
    new_bytes: int
    old_tokens: int
    """The estimated tokens."""
    new_tokens: int


class AspectResult(NamedTuple):
    """What the comparison of one aspect yields."""

    changes: tuple[Change, ...] = ()
    gaps: tuple[Gap, ...] = ()
    compared: tuple[tuple[str, int, int], ...] = ()
    """What was compared, with how many of it the old and the new side have: `("tools", 12, 13)`."""
    ignored: tuple[Ignored, ...] = ()
    latencies: tuple[LatencyRow, ...] = ()
    sizes: tuple[SizeRow, ...] = ()


class SideSummary(NamedTuple):
    """What a side is, for headings."""

    name: str
    """As the user named it."""
    captures: int
    """How many captures; 0 for an expectation."""
    sessions: int
    frames: int
    server: str | None
    """Name and version that the server gives itself, such as `everything 2.0.0`. Untrusted text."""
    client: str | None
    """Name and version of the client. Untrusted text."""
    revisions: tuple[str, ...] = ()
    begun_ns: int | None = None
    """Wall-clock time of the first capture, in nanoseconds since 1970."""
    warnings: tuple[str, ...] = ()
    """What the user must know of the side: damage, records lost, still being recorded. Complete sentences."""
    has_failed: bool = False
    """Whether a part could not be examined, because a capture is damaged or a rule crashed: the exit code is 2."""
    only: str = ""
    """The filter with which the side was observed, which must be the same for both."""
    ignored_pointers: tuple[str, ...] = ()
    """The pointers with which the side was observed."""
    lost_records: int = 0
    """How many records are reported as lost: by the recorder, or by a repair."""
    unexamined: int = 0
    """How many frames were too large or too deep to examine."""
    lost_bodies: int = 0
    """How many HTTP bodies that may contain messages are not in the captures."""
    server_end: str = ""
    """How the server of the newest capture ended, as a clause; empty if unknown."""


class Comparison(NamedTuple):
    """The whole result: what all outputs show."""

    old: SideSummary
    new: SideSummary
    changes: tuple[Change, ...]
    """The changes that are not accepted, worst first."""
    gaps: tuple[Gap, ...]
    compared: tuple[tuple[str, int, int], ...]
    ignored: tuple[Ignored, ...] = ()
    latencies: tuple[LatencyRow, ...] = ()
    sizes: tuple[SizeRow, ...] = ()
    accepted_changes: tuple[Change, ...] = ()
    """The changes that the baseline accepts, worst first."""
    caveats: tuple[str, ...] = ()
    """Why the result may be incomplete although nothing failed, as clauses that belong next to it: what is lost."""
    annotates_old: bool = False
    """Whether annotations belong to the captures of the old side: those of the new one are not the user's."""

    @property
    def accepted(self) -> int:
        """How many changes the baseline accepts."""
        return len(self.accepted_changes)
