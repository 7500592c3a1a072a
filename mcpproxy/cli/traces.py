"""`check --trace`: checks the conversations of a trace, and compares the findings with the expected ones.

A case is as expected if its errors and warnings are exactly those in `expect`, and its notes include those in `notes`.
The rules check the records that `import` would write, in memory.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from orjson import loads

from analysis.checking.checker import RuleSelection
from analysis.reading import Reading
from analysis.rules.discovery import impact_of, rules
from analysis.rules.finding import Finding, Level
from analysis.rules.old_ids import current_id
from captures.record import Record, decode
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.rule import unknown_rule_error
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from mcpproxy.importers.log_items import LeftOut
from mcpproxy.importers.source import read_lines
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

ExpectedFindings = Counter[tuple[str, int | None]]
"""The number of expected findings for each rule and each index of a frame in the case."""


class _MalformedExpectations(ValueError):
    """Raised if the expectations of a case are malformed."""


class _FindingInTrace(NamedTuple):
    """A finding, with its frames as indexes in the case."""

    finding: Finding
    frame: int | None
    """The index of the frame; None if the finding belongs to the beginning or the end of the capture."""
    related: list[int]

    @property
    def key(self) -> tuple[str, int | None]:
        return self.finding.rule, self.frame


def check_traces(file: BinaryIO, name: str, picks: Callable[[str], bool], form: str) -> int:
    """Check all cases of a file; returns the exit code.

    Args:
        file: the file of cases.
        name: the name of the file in errors.
        picks: returns whether the rule with this id is selected.
        form: `json` for one finding per line, `text` for a table of the cases.
    """
    count = good_count = 0
    has_failed = False
    for case in cases(read_lines(file)):
        if isinstance(case, LeftOut):
            has_failed = True
            say(f"cannot check {name}: {case.place}: {case.reason}")
            continue
        findings, faults = _findings(case)
        for rule, fault in faults.items():
            has_failed = True
            say(f"the rule {rule} crashed on {sanitise(case.name)}; please report this bug: {sanitise(fault)}")
        try:
            is_good = _report(case, [finding for finding in findings if picks(finding.finding.rule)], picks, form)
        except _MalformedExpectations as error:
            has_failed = True
            say(f"cannot check {name}: line {case.line_number}: {error}")
            continue
        count += 1
        good_count += is_good
    if not count and not has_failed:
        return fail(f"cannot check {name}: it contains no case")
    if form == "text":
        sys.stdout.write(f"{good_count:,} of {count_text(count, 'case')} as expected.\n")
    return int(Exit.USAGE if has_failed else Exit.FINE if good_count == count else Exit.FINDINGS)


def _findings(case: Case) -> tuple[list[_FindingInTrace], dict[str, str]]:
    frames: dict[int, int] = {}
    records: list[Record] = []
    for index, line in case.records():
        record = decode(line.removesuffix(b"\n"), 0, loads)
        if record is None:
            continue
        if index is not None:
            frames[record.seq] = index
        records.append(record)
    reading = Reading(records, RuleSelection())
    findings = [finding for step in reading.to_end("closed") for finding in step.findings]
    located = [
        _FindingInTrace(finding, frames.get(finding.frame), [frames[seq] for seq in finding.related if seq in frames])
        for finding in findings
    ]
    return located, reading.faults


def _report(case: Case, findings: list[_FindingInTrace], picks: Callable[[str], bool], form: str) -> bool:
    """Print the result of a case; returns whether it is as expected."""
    expected_findings, expected_notes = (
        _expected_findings(case, "expect", picks),
        _expected_findings(case, "notes", picks),
    )
    problems = [finding for finding in findings if finding.finding.level > Level.NOTE]
    missing_findings = expected_findings - Counter(finding.key for finding in problems)
    missing_findings += Counter(dict.fromkeys(expected_notes.keys() - {finding.key for finding in findings}, 1))
    surplus = Counter(finding.key for finding in problems) - expected_findings
    unexpected_findings = list(_unexpected_findings(problems, surplus))
    is_expected = not missing_findings and not unexpected_findings
    mismatches = list(_mismatch_lines(missing_findings, unexpected_findings))
    if form == "json":
        for finding in findings:
            sys.stdout.write(json_line(_row(case, finding)))
        if mismatches:
            # The findings on stdout do not show which of them were unexpected, or which are missing.
            say(f"{sanitise(case.name)}: {'; '.join(' '.join(line.split()) for line in mismatches)}")
    else:
        verdict = "as expected" if is_expected else "unexpected" if unexpected_findings else "missed"
        lines = [f"{verdict:<11}  {sanitise(case.name)}", *(f"  {line}" for line in mismatches)]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return is_expected


def _expected_findings(case: Case, member: str, picks: Callable[[str], bool]) -> ExpectedFindings:
    rows = case.members.get(member, [])
    expected_findings: ExpectedFindings = Counter()
    for row in rows if isinstance(rows, list) else [None]:
        rule, frame = (row.get("rule"), row.get("frame")) if isinstance(row, dict) else (None, None)
        if not isinstance(rule, str) or type(frame) is not int:
            raise _MalformedExpectations(f"expected a list of objects with `rule` and `frame` in `{member}`")
        rule = current_id(rule)
        if rule not in rules():
            raise _MalformedExpectations(f"expected the id of a rule in `{member}`: {unknown_rule_error(rule)}")
        expected_findings[rule, frame] += picks(rule)
    return +expected_findings


def _unexpected_findings(problems: list[_FindingInTrace], surplus: ExpectedFindings) -> Iterator[_FindingInTrace]:
    """Yield the unexpected findings, last first; of equal findings, the last ones are unexpected."""
    for finding in reversed(problems):
        if surplus[finding.key] > 0:
            surplus[finding.key] -= 1
            yield finding


def _mismatch_lines(missing_findings: ExpectedFindings, unexpected_findings: list[_FindingInTrace]) -> Iterator[str]:
    """Yield a line for each missing and each unexpected finding of a case."""
    for (rule, frame), count in sorted(missing_findings.items(), key=lambda row: (row[0][1] or 0, row[0][0])):
        times = f" ×{count}" if count > 1 else ""
        yield f"missed      frame {frame}  {rule}{times}"
    for located in reversed(unexpected_findings):
        finding = located.finding
        place = "at the end" if located.frame is None else f"frame {located.frame}"
        yield f"unexpected  {place}  {finding.level} {finding.rule}: {sanitise(finding.message, 200)}"


def _row(case: Case, located: _FindingInTrace) -> dict[str, Any]:
    finding = located.finding
    return {
        "case": case.name,
        "rule": finding.rule,
        "level": str(finding.level),
        "impact": str(impact_of(finding.rule, finding.level)),
        "blames": finding.blames,
        "session": finding.session,
        "frame": located.frame,
        "item": finding.item,
        "related": located.related,
        "message": finding.message,
        "pointer": finding.pointer,
        "source": finding.source,
        "t_ns": finding.t_ns,
    }
