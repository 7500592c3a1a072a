"""`check --trace`: checks the conversations of a trace, and compares the findings with the expected ones.

A case is as expected if its errors and warnings are exactly those in `expect`, and its notes include those in `notes`.
The records are the ones that `import` would write, checked in memory.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from orjson import loads

from analysis.checking.checker import Rules
from analysis.reading import Reading
from analysis.rules.discovery import impact, rules
from analysis.rules.finding import Finding, Level
from analysis.rules.old_ids import current_id
from captures.record import Record, decode
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.rule import no_rule
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from mcpproxy.importers.log_items import LeftOut
from mcpproxy.importers.source import read_lines
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

Due = Counter[tuple[str, int | None]]
"""(rule, index of a frame in the case) → how many findings are expected."""


class _Malformed(ValueError):
    """The expectations of a case are malformed."""


class _FindingInTrace(NamedTuple):
    """A finding in terms of its case."""

    finding: Finding
    frame: int | None
    """Index of the frame; None if the finding belongs to the beginning or the end of the capture."""
    related: list[int]

    @property
    def key(self) -> tuple[str, int | None]:
        return self.finding.rule, self.frame


def check_traces(file: BinaryIO, name: str, picks: Callable[[str], bool], form: str) -> int:
    """Check all cases of a file.

    Args:
        file: the lines.
        name: what to call it in errors.
        picks: whether the rule with this id is to run.
        form: `json` for one finding per line, `text` for a table of the cases.
    """
    count = good = 0
    failed = False
    for case in cases(read_lines(file)):
        if isinstance(case, LeftOut):
            failed = True
            say(f"cannot check {name}: {case.place}: {case.reason}")
            continue
        findings, faults = _findings(case)
        for rule, fault in faults.items():
            failed = True
            say(f"the rule {rule} crashed on {sanitise(case.name)}; please report this bug: {sanitise(fault)}")
        try:
            is_good = _report(case, [finding for finding in findings if picks(finding.finding.rule)], picks, form)
        except _Malformed as error:
            failed = True
            say(f"cannot check {name}: line {case.line}: {error}")
            continue
        count += 1
        good += is_good
    if not count and not failed:
        return fail(f"cannot check {name}: it contains no case")
    if form == "text":
        sys.stdout.write(f"{good:,} of {count_text(count, 'case')} as expected.\n")
    return int(Exit.USAGE if failed else Exit.FINE if good == count else Exit.FINDINGS)


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
    reading = Reading(records, Rules())
    findings = [finding for step in reading.to_end("closed") for finding in step.findings]
    located = [
        _FindingInTrace(finding, frames.get(finding.frame), [frames[seq] for seq in finding.related if seq in frames])
        for finding in findings
    ]
    return located, reading.faults


def _report(case: Case, findings: list[_FindingInTrace], picks: Callable[[str], bool], form: str) -> bool:
    """Print the result of a case; returns whether it is as expected."""
    due, notes = _due(case, "expect", picks), _due(case, "notes", picks)
    grave = [finding for finding in findings if finding.finding.level > Level.NOTE]
    missed = due - Counter(finding.key for finding in grave)
    missed += Counter(dict.fromkeys(notes.keys() - {finding.key for finding in findings}, 1))
    left = Counter(finding.key for finding in grave) - due
    unexpected = list(_unexpected(grave, left))
    if form == "json":
        for finding in findings:
            sys.stdout.write(json_line(_row(case, finding)))
        if missed or unexpected:
            # The findings alone do not show which were unexpected, let alone which were missing.
            say(f"{sanitise(case.name)}: {'; '.join(' '.join(line.split()) for line in _faults(missed, unexpected))}")
    else:
        verdict = "as expected" if not missed and not unexpected else "missed" if not unexpected else "unexpected"
        lines = [f"{verdict:<11}  {sanitise(case.name)}", *(f"  {line}" for line in _faults(missed, unexpected))]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return not missed and not unexpected


def _due(case: Case, member: str, picks: Callable[[str], bool]) -> Due:
    rows = case.members.get(member, [])
    due: Due = Counter()
    for row in rows if isinstance(rows, list) else [None]:
        rule, frame = (row.get("rule"), row.get("frame")) if isinstance(row, dict) else (None, None)
        if not isinstance(rule, str) or type(frame) is not int:
            raise _Malformed(f"expected a list of objects with `rule` and `frame` in `{member}`")
        rule = current_id(rule)
        if rule not in rules():
            raise _Malformed(f"expected the id of a rule in `{member}`: {no_rule(rule)}")
        due[rule, frame] += picks(rule)
    return +due


def _unexpected(grave: list[_FindingInTrace], left: Due) -> Iterator[_FindingInTrace]:
    """The unexpected findings; of several equal ones, the last."""
    for expectation in reversed(grave):
        if left[expectation.key] > 0:
            left[expectation.key] -= 1
            yield expectation


def _faults(missed: Due, unexpected: list[_FindingInTrace]) -> Iterator[str]:
    """The missed and the unexpected findings of a case, a line each."""
    for (rule, frame), count in sorted(missed.items(), key=lambda row: (row[0][1] or 0, row[0][0])):
        times = f" ×{count}" if count > 1 else ""
        yield f"missed      frame {frame}  {rule}{times}"
    for located in reversed(unexpected):
        finding = located.finding
        where = "at the end" if located.frame is None else f"frame {located.frame}"
        yield f"unexpected  {where}  {finding.level} {finding.rule}: {sanitise(finding.message, 200)}"


def _row(case: Case, located: _FindingInTrace) -> dict[str, Any]:
    finding = located.finding
    return {
        "case": case.name,
        "rule": finding.rule,
        "level": str(finding.level),
        "impact": str(impact(finding.rule, finding.level)),
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
