"""Findings as JUnit XML: a suite for each capture, in it a case for each rule, which fails where it found something.

What fails a case is what fails the command: findings at or above a level. Others are told in the case's output. The
form is the one that Jenkins, GitLab and most viewers read, and foreign text in it is made visible first: XML has no way
to write a control character.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from analysis.finding import Level
from mcpproxy.report.found import Ended, Found, Report, Totals
from mcpproxy.sanitise import sanitise

SHOWN: Final = 20
"""Findings that a case tells of each sort; the rest is counted."""


class _Case:
    """What one rule found in one capture."""

    def __init__(self) -> None:
        self.failing: list[Found] = []
        self.other: list[Found] = []
        self.counts = {True: 0, False: 0}

    def take(self, found: Found, *, fails: bool) -> None:
        kept = self.failing if fails else self.other
        self.counts[fails] += 1
        if len(kept) < SHOWN:
            kept.append(found)

    def text(self, *, failing: bool) -> str:
        kept = self.failing if failing else self.other
        lines = [_line(found) for found in kept]
        if self.counts[failing] > len(kept):
            lines.append(f"and {self.counts[failing] - len(kept):,} more")
        return escape("\n".join(lines))


class Junit(Report):
    """Writes a document at its end, as a suite begins with its sums."""

    def __init__(self, rules: Iterable[str], fails_from: Level | None) -> None:
        """Prepare.

        Args:
            rules: ids of the rules that were asked.
            fails_from: the level from which on a finding fails its case; None where none does.
        """
        self._rules = tuple(rules)
        self._fails_from = fails_from
        self._cases: dict[str, _Case] = {}
        self._suites: list[str] = []
        self._sums = [0, 0, 0]

    def begin(self, capture: Path) -> Iterable[str]:  # noqa: ARG002
        """Forget the cases of the capture before."""
        self._cases = {}
        return ()

    def add(self, found: Found) -> Iterable[str]:
        """Nothing is written before the sums are known."""
        if not found.accepted:
            fails = self._fails_from is not None and found.finding.level >= self._fails_from
            self._cases.setdefault(found.finding.rule, _Case()).take(found, fails=fails)
        return ()

    def end(self, ended: Ended) -> Iterable[str]:
        """A suite is complete."""
        rules = dict.fromkeys((*self._rules, *self._cases))
        cases = [line for rule in rules for line in self._case(rule, ended)]
        faults = sum(rule in ended.faults for rule in rules)
        failures = sum(bool(case.failing) for rule, case in self._cases.items() if rule not in ended.faults)
        sums = [len(rules), failures, faults]
        self._sums = [one + other for one, other in zip(self._sums, sums, strict=True)]
        name = _attribute(str(ended.capture))
        self._suites += [f"  <testsuite name={name} {_counted(sums)}>", *cases, "  </testsuite>"]
        return ()

    def close(self, totals: Totals) -> Iterable[str]:  # noqa: ARG002
        """The document."""
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<testsuites name="mcpproxy check" {_counted(self._sums)}>\n'
        yield "".join(f"{line}\n" for line in self._suites)
        yield "</testsuites>\n"

    def _case(self, rule: str, ended: Ended) -> Iterator[str]:
        group, _, name = rule.partition("/")
        head = f"    <testcase classname={_attribute(group)} name={_attribute(name)}"
        case, fault = self._cases.get(rule), ended.faults.get(rule)
        if case is None and fault is None:
            yield head + "/>"
            return
        yield head + ">"
        if fault is not None:
            yield f'      <error message={_attribute(f"the rule itself failed: {fault}")} type="fault"/>'
        elif case is not None and case.failing:
            first = case.failing[0]
            told = f"message={_attribute(first.text)} type={_attribute(str(first.finding.level))}"
            yield f"      <failure {told}>{case.text(failing=True)}</failure>"
        if case is not None and case.other:
            yield f"      <system-out>{case.text(failing=False)}</system-out>"
        yield "    </testcase>"


def _line(found: Found) -> str:
    finding = found.finding
    place = f"{found.file}:{found.place.line}" if found.place is not None else f"{found.file}"
    where = sanitise(f"{place}: {finding.level}: {finding.blames}, session {finding.session}, {found.where}")
    return f"{where}: {sanitise(found.text)}"


def _counted(sums: list[int]) -> str:
    return 'tests="{}" failures="{}" errors="{}"'.format(*sums)


def _attribute(text: str) -> str:
    return quoteattr(sanitise(text))
