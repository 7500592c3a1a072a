"""Findings as JUnit XML: a suite for each capture, with a failing case for each rule that has findings.

A capture without such findings has one passing case, so that it does not look unchecked; a capture with nothing to
check has one skipped case. Notes are the output of a passing case, unless the user asks for them. The level that fails
the command makes no difference: a report written with `--fail-on never` still counts the findings. The format is the
one that Jenkins, GitLab and most viewers read, and untrusted text in it is made visible first, because XML has no way
to write a control character.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from analysis.rules.finding import Level
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding, Reporter, Totals
from mcpproxy.sanitise import sanitise

MAX_LISTED_FINDINGS: Final = 20
"""The maximum number of findings of each kind that a case lists; the others are counted."""
CLEAN_CASE: Final = "no findings"
"""The name of the case of a capture in which no case fails."""
UNREADABLE_CASE: Final = "can be read"
"""The name of the failing case of a capture that cannot be read."""
CASE_END: Final = "    </testcase>"
_KINDS: Final = ("tests", "failures", "errors")


class _RuleCase:
    """The findings of one rule in one capture."""

    def __init__(self) -> None:
        self.failing_findings: list[LocatedFinding] = []
        self.other_findings: list[LocatedFinding] = []
        self.counts = {True: 0, False: 0}

    def add_finding(self, located: LocatedFinding, *, fails: bool) -> None:
        findings = self.failing_findings if fails else self.other_findings
        self.counts[fails] += located.finding.finding_count
        if len(findings) < MAX_LISTED_FINDINGS:
            findings.append(located)

    def text(self, *, failing: bool) -> str:
        findings = self.failing_findings if failing else self.other_findings
        lines = [_line(located) for located in findings]
        if self.counts[failing] > len(findings):
            lines.append(f"and {self.counts[failing] - len(findings):,} more")
        return escape("\n".join(lines))


class JunitReporter(Reporter):
    """Writes the document at the end, because a suite begins with its totals."""

    def __init__(self, *, notes: bool = False, named: Container[str] = ()) -> None:
        """Start without findings.

        Args:
            notes: whether notes fail their case, too.
            named: rules whose notes always fail their case.
        """
        self._min_level = Level.NOTE if notes else Level.WARNING
        self._named_rules = named
        self._cases: dict[str, _RuleCase] = {}
        self._suites: list[str] = []
        self._sums: Counter[str] = Counter()

    def begin(self, capture: Path) -> Iterable[str]:  # noqa: ARG002
        """Forget the cases of the previous capture."""
        self._cases = {}
        return ()

    def report(self, located: LocatedFinding) -> Iterable[str]:
        """Keep a finding; nothing is written before the totals are known."""
        finding = located.finding
        if not located.is_accepted:
            fails = finding.level >= self._min_level or finding.rule in self._named_rules
            self._cases.setdefault(finding.rule, _RuleCase()).add_finding(located, fails=fails)
        return ()

    def finish(self, ended: CheckOutcome) -> Iterable[str]:
        """Complete the suite of a capture."""
        suite = str(ended.capture)
        rules = dict.fromkeys((*self._cases, *ended.faults))
        cases = [line for rule in rules for line in self._case(suite, rule, ended.faults.get(rule))]
        failures = sum(bool(case.failing_findings) for rule, case in self._cases.items() if rule not in ended.faults)
        sums = Counter(tests=len(rules), failures=failures, errors=len(ended.faults))
        if ended.nothing_reason or not (failures or ended.faults):
            cases += self._clean(suite, ended, sums)
        self._sums.update(sums)
        head = f'  <testsuite name={xml_attribute(suite)} {count_attributes(sums)} skipped="{sums["skipped"]}">'
        forgotten = escape("\n".join(kind.text for kind in ended.forgotten))
        system_error = [f"    <system-err>{forgotten}</system-err>"] if forgotten else []
        self._suites += [head, *cases, *system_error, "  </testsuite>"]
        return ()

    def unreadable(self, capture: Path, why: str) -> Iterable[str]:
        """Add a suite with one case, whose outcome is an error."""
        suite, sums = str(capture), Counter(tests=1, failures=0, errors=1)
        self._sums.update(sums)
        self._suites += [
            f'  <testsuite name={xml_attribute(suite)} {count_attributes(sums)} skipped="0">',
            case_start(suite, UNREADABLE_CASE) + ">",
            f'      <error message={xml_attribute(why)} type="unreadable"/>',
            CASE_END,
            "  </testsuite>",
        ]
        return ()

    def close(self, totals: Totals) -> Iterable[str]:  # noqa: ARG002
        """Yields the document."""
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<testsuites name="mcpproxy check" {count_attributes(self._sums)}>\n'
        yield "".join(f"{line}\n" for line in self._suites)
        yield "</testsuites>\n"

    @staticmethod
    def _clean(suite: str, ended: CheckOutcome, sums: Counter[str]) -> Iterator[str]:
        """Yields the case of a capture in which nothing fails; it passes only if the capture is whole and not empty."""
        sums["tests"] += 1
        yield case_start(suite, CLEAN_CASE) + ">"
        if ended.is_damaged:
            sums["errors"] += 1
            yield '      <error message="the capture is damaged" type="damage"/>'
        elif ended.nothing_reason:
            sums["skipped"] += 1
            yield f"      <skipped>{escape(ended.nothing_reason)}</skipped>"
        yield CASE_END

    def _case(self, suite: str, rule: str, fault: str | None) -> Iterator[str]:
        case = self._cases.get(rule, _RuleCase())
        yield case_start(suite, rule) + ">"
        if fault is not None:
            yield f'      <error message={xml_attribute(f"the rule crashed: {fault}")} type="fault"/>'
        elif case.failing_findings:
            first_finding = case.failing_findings[0]
            level = str(first_finding.finding.level)
            attributes = f"message={xml_attribute(first_finding.text)} type={xml_attribute(level)}"
            yield f"      <failure {attributes}>{case.text(failing=True)}</failure>"
        if case.other_findings:
            yield f"      <system-out>{case.text(failing=False)}</system-out>"
        yield CASE_END


def case_start(suite: str, name: str) -> str:
    """Returns the beginning of the element of a case; `>` or attributes follow."""
    # Viewers identify a case by class and name, so the same rule in two captures must differ.
    return f"    <testcase classname={xml_attribute(suite)} name={xml_attribute(name)}"


def _line(located: LocatedFinding) -> str:
    finding = located.finding
    file_line = f"{located.file}:{located.place.line}" if located.place is not None else f"{located.file}"
    location = sanitise(
        f"{file_line}: {finding.level}: {finding.blames}, session {finding.session}, {located.record_text}"
    )
    return f"{location}: {sanitise(located.text)}"


def count_attributes(sums: Counter[str]) -> str:
    """Returns the attributes with the numbers of cases, failures and errors."""
    return " ".join(f'{kind}="{sums[kind]}"' for kind in _KINDS)


def xml_attribute(text: str) -> str:
    """Returns a text, sanitised and cut, as the quoted value of an attribute."""
    return quoteattr(sanitise(text))
