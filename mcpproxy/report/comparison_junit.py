"""A comparison as JUnit XML: a suite with a case for each subject that changed, and one for each thing compared.

The case of a subject fails if it has a change that fails `--fail-on`; other changes are its output. What was compared
passes, or is an error if the comparison of it failed; what neither side has is skipped.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, count
from typing import Final
from xml.sax.saxutils import escape

from analysis.comparison.change import Change, Comparison
from analysis.comparison.kind import FailOn
from mcpproxy.report.comparison_files import side_name
from mcpproxy.report.comparison_ranking import ranked
from mcpproxy.report.junit import CASE_END, case_start, count_attributes, xml_attribute
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.change_lines import change_line
from mcpproxy.wording.changes import MAX_NAME_CHARS, failures_of

MAX_LISTED_CHANGES: Final = 20
"""The most changes that a case lists; the others are counted."""
MAX_CASES: Final = 1_000
"""The most cases for subjects; the changes of other subjects are in the last one."""
OTHERS_CASE: Final = "other changes"
"""The name of the case with the changes of all subjects that have no case of their own."""
NOTHING_CASE: Final = "something in common"
"""The name of the skipped case of a comparison without any contents."""


CLASS_NAME: Final = "mcpproxy compare"
"""The class and suite of all cases: without names of captures, as test reports follow a case by its class and name."""


class _Cases:
    """The cases of the suite, and how many of each outcome there are."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self.lines: list[str] = []
        self.sums = Counter[str]()

    def add(self, name: str, *elements: str) -> None:
        """Add a case; a name that another case has gets a number."""
        names = chain((name,), (f"{name} ({number})" for number in count(2)))
        unique_name = next(candidate for candidate in names if candidate not in self._names)
        self._names.add(unique_name)
        self.sums["tests"] += 1
        for outcome in ("failure", "error", "skipped"):
            self.sums[_SUMS[outcome]] += any(element.startswith(f"<{outcome}") for element in elements)
        self.lines += [
            f"{case_start(CLASS_NAME, unique_name)}>",
            *(f"      {element}" for element in elements),
            CASE_END,
        ]


_SUMS: Final = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def comparison_document(comparison: Comparison, fail_on: frozenset[FailOn] = frozenset()) -> Iterator[str]:
    """Yields the document.

    Args:
        comparison: the comparison.
        fail_on: the words of `--fail-on`; empty if no change fails.
    """
    name = f"{CLASS_NAME} {side_name(comparison.old)} → {side_name(comparison.new)}"
    cases = _Cases()
    for subject, changes in _changes_by_case(comparison, fail_on).items():
        cases.add(subject, *_change_elements(changes, comparison, fail_on))
    _add_compared(cases, comparison)
    if not cases.lines:
        cases.add(NOTHING_CASE, "<skipped>neither side has anything to compare</skipped>")
    counts = count_attributes(cases.sums)
    warnings = "\n".join(sanitise(text) for side in (comparison.old, comparison.new) for text in side.warnings)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f"<testsuites name={xml_attribute(name)} {counts}>\n"
    yield f'  <testsuite name="{CLASS_NAME}" {counts} skipped="{cases.sums["skipped"]}">\n'
    yield "".join(f"{line}\n" for line in cases.lines)
    yield f"    <system-err>{escape(warnings)}</system-err>\n" if warnings else ""
    yield "  </testsuite>\n</testsuites>\n"


def _changes_by_case(comparison: Comparison, fail_on: frozenset[FailOn]) -> dict[str, list[Change]]:
    """Returns the changes by the name of their case, the one with the worst change first."""
    listed, notes = ranked(comparison.changes, fail_on)
    by_subject: dict[str, list[Change]] = {}
    other_changes: list[Change] = []
    for change in (*listed, *notes):
        if change.subject in by_subject or len(by_subject) < MAX_CASES:
            by_subject.setdefault(change.subject, []).append(change)
        else:
            other_changes.append(change)
    by_name: dict[str, list[Change]] = {}
    for subject, changes in by_subject.items():
        by_name.setdefault(sanitise(subject, MAX_NAME_CHARS), []).extend(changes)
    if other_changes:
        by_name.setdefault(OTHERS_CASE, []).extend(other_changes)
    return by_name


def _change_elements(changes: list[Change], comparison: Comparison, fail_on: frozenset[FailOn]) -> Iterator[str]:
    failures = [change for change in changes if change.fails(fail_on)]
    others = [change for change in changes if not change.fails(fail_on)]
    if failures:
        worst = max(failures, key=lambda change: change.severity)
        attributes = (
            f"message={xml_attribute(change_line(worst, comparison))} type={xml_attribute(str(worst.severity))}"
        )
        yield f"<failure {attributes}>{_listed(failures, comparison)}</failure>"
    if others:
        yield f"<system-out>{_listed(others, comparison)}</system-out>"


def _listed(changes: list[Change], comparison: Comparison) -> str:
    lines = [f"{change.severity}: {change_line(change, comparison)}" for change in changes[:MAX_LISTED_CHANGES]]
    if len(changes) > MAX_LISTED_CHANGES:
        lines.append(f"and {len(changes) - MAX_LISTED_CHANGES:,} more")
    return escape("\n".join(lines))


def _add_compared(cases: _Cases, comparison: Comparison) -> None:
    """Add a case for each thing that was compared, or was not."""
    failures: dict[str, list[str]] = {}
    gaps: dict[str, list[str]] = {}
    others = [gap for gap in comparison.gaps if not gap.is_failure]
    for gap in (*failures_of(comparison)[:MAX_CASES], *others[:MAX_CASES]):
        reasons = failures if gap.is_failure else gaps
        reasons.setdefault(_compared_name(gap.what), []).append(sanitise(gap.reason, MAX_NAME_CHARS))
    counts = {_compared_name(what): f"{old:,} → {new:,}" for what, old, new in comparison.compared}
    for name in dict.fromkeys((*failures, *counts, *gaps)):
        other_lines = [f"not compared: {reason}" for reason in gaps.get(name, ())]
        if name in failures:
            message = xml_attribute("; ".join(failures[name]))
            cases.add(name, f'<error message={message} type="not compared"/>')
        elif name in counts:
            text = "\n".join((counts[name], *other_lines))
            cases.add(name, f"<system-out>{escape(text)}</system-out>")
        else:
            cases.add(name, f"<skipped>{escape('; '.join(gaps[name]))}</skipped>")


def _compared_name(what: str) -> str:
    return f"compare {sanitise(what, MAX_NAME_CHARS)}"
