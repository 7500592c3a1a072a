"""Examination: turns the items of one capture into findings, with everything else that a report shows.

In addition to the selected rules, the rules that supersede them run, so that a selection does not bring superseded
findings back. No other rules run. Memory is bounded by the records of the capture (8 bytes each) and the checker's
state.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from analysis.checking.baseline import Baseline, fingerprint
from analysis.checking.checker import RuleSelection
from analysis.checking.profile import Costs
from analysis.conversation.fold import Fold
from analysis.filter import Filter
from analysis.reading import End, Reading, Step
from analysis.rules.discovery import rules_for
from analysis.rules.finding import Finding
from analysis.selection import FindingSelection
from captures.damage import Damage
from captures.file import is_live
from captures.frame import Frame
from captures.gaps import lost_range
from captures.listing import segments
from captures.reader import Capture
from captures.record import Record
from mcpproxy.check_run.record_locations import RecordLocations
from mcpproxy.check_run.result import CheckOutcome, CheckProgress, Event, LocatedFinding

PROGRESS_INTERVAL_ITEMS: Final = 4096
"""The number of items of a capture between two progress events, which take about a fifth of a second."""


def select_all(_rule: str) -> bool:
    """Select every rule."""
    return True


class CheckOptions(NamedTuple):
    """Selects which findings to report."""

    picks: Callable[[str], bool] = select_all
    """Whether a rule is selected, by its id."""
    baseline: Baseline = Baseline()
    """The accepted findings."""
    only: Filter | None = None
    """Selects messages; None for all."""
    costs: Costs | None = None
    """Collects the cost of the rules; None if not requested."""
    counts_consequences: bool = True
    """Whether a finding may count under its cause instead of being reported."""


def examine_capture(path: Path, options: CheckOptions) -> Iterator[Event]:
    """Examine a capture up to its current end.

    Args:
        path: the capture.
        options: selects findings.

    Yields:
        Each finding and the first damage as soon as they are certain, and the outcome at the end.

    Raises:
        CaptureError: it cannot be read. If this is known from the start, nothing was yielded.
    """
    for _, event in examine_numbered(path, options):
        yield event


def examine_numbered(path: Path, options: CheckOptions) -> Iterator[tuple[int, Event]]:
    """Examine a capture as `examine_capture` does, and yield each event with the number of the step that led to it.

    A step is an item of the capture, or its end. First come its findings, in the order of `place_of`, then the events
    that do not depend on rules. So the events of examinations by different rules can be put in the order of a single
    examination by all of them.
    """
    examination = CaptureCheck(path, options)
    number = 0
    for number, (step, findings) in enumerate(examination.examine_to_end(), 1):
        for finding in findings:
            yield number, finding
        damage = examination.reading.damage_in(step)
        if damage is not None:
            yield number, damage
        if not number % PROGRESS_INTERVAL_ITEMS:
            yield number, CheckProgress(examination.frames)
    yield number, examination.outcome


class CaptureCheck:
    """Examines one capture."""

    def __init__(self, source: Path | Capture, options: CheckOptions) -> None:
        capture = Capture(source) if isinstance(source, Path) else source
        self.header = capture.header.members
        """The members of its header."""
        self.frames = 0
        self.missing = 0
        """The number of records that are missing without a gap record, judging by the numbers of the others."""
        self.path = capture.path
        self._from_server = 0
        """The number of frames that the server sent."""
        self._has_findings = False
        self._options = options
        self._locations = RecordLocations(capture.path)
        self._message_filter = None if options.only is None else FindingSelection(options.only)
        on_message = None if self._message_filter is None else self._message_filter.on_message
        is_cause = self._is_cause if options.counts_consequences else lambda _: False
        self.reading = Reading(capture, RuleSelection(rules_for(options.picks), on_message, options.costs, is_cause))

    @property
    def sessions(self) -> int:
        """The number of sessions so far."""
        return self.reading.capture.sessions

    @property
    def fold(self) -> Fold:
        """The state of the conversation."""
        return self.reading.fold

    def examine_to_end(self) -> Iterator[tuple[Step, list[LocatedFinding]]]:
        """Examine the capture up to its current end; yields each step of reading it, with the findings to report."""
        for step in self.reading:
            yield step, self._process_step(step)
        yield from self.finish(self.reading.end)

    def feed(self, record: Record | Damage) -> tuple[Step, list[LocatedFinding]]:
        """Examine the next record of a capture that is followed."""
        step = self.reading.feed(record)
        return step, self._process_step(step)

    def findings_by_clock(self) -> list[LocatedFinding]:
        """Returns the findings to report that are certain because no record has come for some time.

        There are none if no recorder is writing the capture.
        """
        if not self.reading.undecided_login_count or not is_live(segments(self.path)[-1]):
            return []
        return [*self._reported_findings(self.reading.findings_by_clock())]

    def finish(self, reason: End) -> Iterator[tuple[Step, list[LocatedFinding]]]:
        """Yield the findings that only the end shows.

        Args:
            reason: why nothing follows.
        """
        self._note_unanswered(reason)
        for step in self.reading.finish(reason):
            yield step, self._process_step(step)
            self._note_unanswered(reason)

    def _process_step(self, step: Step) -> list[LocatedFinding]:
        record, item = step.record, step.item
        if record is not None:
            self._locations.on_item(record)
        if isinstance(record, Record) and (record.skipped or self.missing):
            self.missing += record.skipped
            if record.rec == "gap":
                self._subtract_accounted(record)
        if isinstance(item, Frame):
            self.frames += 1
            self._from_server += item.dir == "s2c"
        if self._message_filter is not None:
            self._message_filter.note_outcomes(step.unanswered)
        return [*self._reported_findings(step.findings)] if step.findings else []

    def _note_unanswered(self, reason: End) -> None:
        if self._message_filter is not None:
            self._message_filter.note_outcomes(self.fold.open_calls(), is_open=reason == "open")

    @property
    def outcome(self) -> CheckOutcome:
        """The outcome of the examination."""
        reading, capture = self.reading, self.reading.capture
        damaged = reading.damage is not None or self.missing > 0
        return CheckOutcome(
            self.path,
            reading.counts,
            dict(sorted(reading.faults.items())),
            damaged,
            self._nothing_reason(),
            tuple(reading.forgotten),
            self.frames,
            self.sessions,
            self.missing,
            capture.begins_at,
            reading.losses.bodies,
            capture.guesses,
            reading.undecided_login_count,
            reading.followers,
        )

    def _nothing_reason(self) -> str:
        """Why the absence of findings says nothing about the capture; empty if it does, or there are findings."""
        if self._has_findings:
            return ""
        if not self.frames:
            return "it holds no frames"
        if self.fold.failed_count and not self._from_server:
            last_exchange = next(
                (http for http in reversed(self.fold.exchanges.all_exchanges()) if http.end_ref is not None), None
            )
            status = None if last_exchange is None else last_exchange.status
            ending = "had no response" if status is None else f"ended with status {status}"
            return f"the server sent no message, and the last HTTP exchange {ending}"
        return ""

    def with_proofs(self, located: LocatedFinding, max_proofs: int) -> LocatedFinding:
        """The same finding with the places of up to `max_proofs` other records that prove it."""
        places = ((seq, self._locations.place(seq)) for seq in located.finding.related[:max_proofs])
        return located._replace(proofs=tuple((seq, place) for seq, place in places if place is not None))

    def _subtract_accounted(self, gap: Record) -> None:
        """Subtract the records that a gap record accounts for, which may be further back."""
        span = lost_range(gap)
        if span is not None and span[1] < gap.seq - 1:
            self.missing -= min(self.missing, span[1] - span[0] + 1)

    def _reported_findings(self, findings: Iterable[Finding]) -> Iterator[LocatedFinding]:
        for finding in findings:
            if self._is_reported(finding):
                self._has_findings = True
                yield self._locate(finding)

    def _is_cause(self, finding: Finding) -> bool:
        return self._is_reported(finding) and _fingerprint(finding) not in self._options.baseline

    def _is_reported(self, finding: Finding) -> bool:
        return self._options.picks(finding.rule) and (
            self._message_filter is None or self._message_filter.selects(finding)
        )

    def _locate(self, finding: Finding) -> LocatedFinding:
        finding_fingerprint = _fingerprint(finding)
        return LocatedFinding(
            finding,
            self.path,
            self.reading.capture.wall_ns,
            self._locations.place(finding.frame),
            finding_fingerprint,
            finding_fingerprint in self._options.baseline,
            forgotten=tuple(self.reading.forgotten),
        )


def _fingerprint(finding: Finding) -> str:
    return fingerprint(finding.rule, finding.method, finding.pointer, finding.message)
