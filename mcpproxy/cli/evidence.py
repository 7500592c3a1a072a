"""Collects the evidence for rules in captures: the first few findings of each rule, and the messages that prove them.

Findings are formatted as in `check`. Each capture is read once for all rules. The number of rules and captures bounds
the memory that this needs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from captures.errors import CaptureError
from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.check_run.result import LocatedFinding
from mcpproxy.cli.check_warnings import say_damage, say_outcome
from mcpproxy.cli.diagnostics import say
from mcpproxy.cli.selection import select_captures
from mcpproxy.report.findings import TextReporter
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

MAX_SHOWN_FINDINGS: Final = 5
"""The maximum number of findings of a rule that are shown for each capture."""
MAX_SHOWN_PROOFS: Final = 3
"""The maximum number of other messages that are shown with a finding; hundreds of messages can prove a flood."""


class RuleEvidence:
    """The evidence for a rule."""

    def __init__(self, report: TextReporter) -> None:
        self.first_findings: list[LocatedFinding] = []
        """The first few findings in each capture."""
        self.count = 0
        self._report = report
        self._text: list[str] = []
        self._clean_lines: list[str] = []
        """A line for each capture without findings, with its size in frames and sessions."""
        self._count_in_capture = 0

    def begin(self, capture: Path) -> None:
        """Begin the report on a capture."""
        self._count_in_capture = 0
        self._text += self._report.begin(capture)

    def count_finding(self, located: LocatedFinding) -> None:
        """Count a finding in the current capture; keep it if it is among the first few."""
        self.count += located.finding.finding_count
        self._count_in_capture += 1
        self._text += self._report.report(located)
        if self._count_in_capture <= MAX_SHOWN_FINDINGS:
            self.first_findings.append(located)

    def finish(self, examination: CaptureCheck, capture: Path) -> None:
        """End the report on the current capture."""
        self._text += self._report.finish(examination.outcome._replace(capture=capture))
        if not self._count_in_capture:
            extent = f"{count_text(examination.frames, 'frame')} of {count_text(examination.sessions, 'session')}"
            self._clean_lines.append(f"{sanitise(str(capture), None)}: nothing found in {extent}")

    def lines(self) -> Iterator[str]:
        """Yield the lines of the whole report; none if no capture could be read."""
        yield from "".join(self._text).rstrip("\n").splitlines()
        if self._text and self._clean_lines:
            yield ""
        yield from self._clean_lines


def gather_evidence(
    words: Sequence[str], rules: Collection[str], report: Callable[[], TextReporter]
) -> tuple[dict[str, RuleEvidence], bool]:
    """Examine captures, and report on stderr what could not be examined.

    Args:
        words: the arguments that name the captures, as for every command that reads captures.
        rules: the ids of the rules to run.
        report: creates a report that includes notes.

    Returns:
        The evidence for each rule, and whether everything could be examined.

    Raises:
        CaptureError: a word does not name a capture.
    """
    evidence = {rule: RuleEvidence(report()) for rule in rules}
    is_complete = True
    with select_captures(words) as selection:
        for path in selection.paths:
            name = selection.name_of(path)
            try:
                is_complete = _examine(path, name, evidence) and is_complete
            except CaptureError as error:
                is_complete = False
                say(str(error).replace(str(path), str(name)))
    return evidence, is_complete


def _examine(path: Path, name: Path, evidence: dict[str, RuleEvidence]) -> bool:
    examination = CaptureCheck(path, CheckOptions(evidence.__contains__))
    for rule_evidence in evidence.values():
        rule_evidence.begin(name)

    def add_findings(findings: Iterable[LocatedFinding]) -> None:
        for located in findings:
            evidence[located.finding.rule].count_finding(
                examination.with_proofs(located, MAX_SHOWN_PROOFS)._replace(capture=name)
            )

    for step, new_findings in examination.examine_to_end():
        damage = examination.reading.damage_in(step)
        if damage is not None:
            say_damage(damage, name)
        add_findings(new_findings)
    for rule_evidence in evidence.values():
        rule_evidence.finish(examination, name)
    return say_outcome(examination.outcome._replace(capture=name))
