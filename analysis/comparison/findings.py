"""The aspect `findings`: what the rules report on one side and not on the other.

Findings are recognised by the fingerprint of baselines, and counted as `check` counts them: a finding that follows from
another one counts under its cause, and a rule that reports only the first violation of a session says how many there
were.
"""

from typing import Final

from msgspec import Struct

from analysis.checking import baseline
from analysis.checking.checker import repeat_key
from analysis.comparison.aspect import Aspect, Observer
from analysis.comparison.change import AspectResult, Change, Gap, Place
from analysis.comparison.kind import Kind
from analysis.comparison.kinds.findings import (
    FINDING_GONE,
    FINDING_NEW,
    FINDING_NEW_NOTE,
    FINDING_NEW_WARNING,
    FINDING_RAISED,
)
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.requests import bounded
from analysis.comparison.sample import Sample, common_ceiling
from analysis.reading import Reading
from analysis.rules.discovery import rules
from analysis.rules.finding import Finding, Level

MAX_FINDINGS: Final = 10_000
"""The most different findings of a side that are compared."""
MAX_POINTER_CHARS: Final = 500
"""The most characters of a pointer that are kept."""
TOLD_BY_OUTCOMES: Final = frozenset({"tool/failed", "error/seen", "error/internal"})
"""Rules that only note how a call ended, which the aspect `outcomes` compares."""
_NEW_KINDS: Final[dict[Level, Kind]] = {
    Level.ERROR: FINDING_NEW,
    Level.WARNING: FINDING_NEW_WARNING,
    Level.NOTE: FINDING_NEW_NOTE,
}


class FindingRow(Struct):
    """A finding of a side, with how often it was found."""

    rule: str
    level: int
    """The worst `Level` at which it was found."""
    message: str
    """The text of the first one. Untrusted text, truncated."""
    pointer: str
    place: Place
    """The frame of the first one."""
    count: int = 0


class FindingsRecord(Struct):
    """The findings of a side."""

    findings: dict[str, FindingRow]
    """By fingerprint."""
    rules: list[str]
    """The ids of the rules that ran: a finding of any other rule is not new."""
    faults: dict[str, str]
    """What went wrong in the rules that failed, by rule id. These are bugs in mcpproxy."""
    counted_rules: list[str]
    """The ids of rules of which some findings were only counted, because a message had too many."""
    ceiling: str | None = None
    """The fingerprint from which on no finding is kept, because there were too many; see `Sample`."""


class _FindingsObserver(Observer):
    aspect = "findings"

    def __init__(self) -> None:
        self._rows: Sample[FindingRow] = Sample(MAX_FINDINGS)
        self._faults: dict[str, str] = {}
        self._counted_rules: set[str] = set()
        self._capture = ""
        self._reading: Reading | None = None
        self._first_rows: dict[tuple[str, int, str], FindingRow | None] = {}
        """The rows of rules that report only the first violation of a session, by the key of its count."""

    def begin(self, capture: str, reading: Reading) -> None:
        self._capture, self._reading, self._first_rows = capture, reading, {}

    def on_finding(self, finding: Finding, fingerprint: str) -> None:
        if finding.rule in TOLD_BY_OUTCOMES:
            return
        is_once = rules()[finding.rule].once
        if is_once:  # which violation of a session is the first is chance
            fingerprint = baseline.fingerprint(finding.rule, "", "", repeat_key(finding))
        row = self._rows.entry(fingerprint, lambda: self._row(finding))
        if finding.more:
            self._counted_rules.add(finding.rule)
        if is_once:
            assert self._reading is not None
            session = self._reading.fold.routing.resembled_number(finding.session)
            self._first_rows[finding.rule, session, repeat_key(finding)] = row
        elif row is not None:
            row.count += finding.finding_count
        if row is not None and finding.level > row.level:
            row.level = int(finding.level)

    def end(self) -> None:
        assert self._reading is not None
        for key, count in self._reading.counts.items():
            row = self._first_rows.get(key)
            if row is not None:
                row.count += count
        self._faults |= {rule: bounded(text) for rule, text in self._reading.faults.items()}
        self._reading, self._first_rows = None, {}

    def observed(self) -> FindingsRecord:
        kept = self._rows.kept()
        return FindingsRecord(kept, sorted(rules()), self._faults, sorted(self._counted_rules), self._rows.ceiling)

    def _row(self, finding: Finding) -> FindingRow:
        place = Place(self._capture, finding.session, finding.frame)
        message, pointer = bounded(finding.message), bounded(finding.pointer, MAX_POINTER_CHARS)
        return FindingRow(finding.rule, int(finding.level), message, pointer, place)


class FindingsAspect(Aspect):
    """The aspect `findings`."""

    name = "findings"
    record = FindingsRecord

    def observer(self, options: ObserveOptions) -> Observer:  # noqa: ARG002
        """Returns an observer for one side."""
        return _FindingsObserver()

    def compare(self, old: FindingsRecord, new: FindingsRecord, options: CompareOptions) -> AspectResult:  # noqa: ARG002
        """Compare the findings of both sides."""
        ceiling = common_ceiling(old.ceiling, new.ceiling)
        # A finding of these rules may have been on the other side, too.
        blind_old = (frozenset(new.rules) - frozenset(old.rules)).union(old.counted_rules)
        blind_new = (frozenset(old.rules) - frozenset(new.rules)).union(new.counted_rules)
        changes: dict[str, Change] = {}
        for fingerprint in sorted(old.findings.keys() | new.findings.keys()):
            if ceiling is not None and fingerprint >= ceiling:
                break
            old_row, new_row = old.findings.get(fingerprint), new.findings.get(fingerprint)
            change = _change(old_row, new_row)
            if change is not None and change.subject not in (
                blind_old if old_row is None else blind_new if new_row is None else ()
            ):
                _add(changes, change)
        counts = [sum(row.count for row in side.findings.values()) for side in (old, new)]
        return AspectResult(
            tuple(changes.values()), (*_gaps(old, new, ceiling),), (("findings", counts[0], counts[1]),)
        )


def _change(old: FindingRow | None, new: FindingRow | None) -> Change | None:
    """Returns the change from one row to the other, if there is any; at most one of them is None."""
    if new is None:
        assert old is not None
        return Change(
            FINDING_GONE, old.rule, old.message, old.pointer, old.count, 0, old=old.place, times=max(1, old.count)
        )
    if old is None:
        kind = _NEW_KINDS[Level(new.level)]
        return Change(kind, new.rule, new.message, new.pointer, 0, new.count, new=new.place, times=max(1, new.count))
    if new.level <= old.level:
        return None
    levels = str(Level(old.level)), str(Level(new.level))
    return Change(
        FINDING_RAISED, new.rule, new.message, new.pointer, *levels, old.place, new.place, times=max(1, new.count)
    )


def _add(changes: dict[str, Change], change: Change) -> None:
    """Add a change, by its fingerprint, to the one with the same sentence: that of a rule may fit several methods."""
    known = changes.setdefault(change.fingerprint, change)
    if known is change:
        return
    before, after = (
        old + new if isinstance(old, int) else new
        for old, new in ((known.before, change.before), (known.after, change.after))
    )
    changes[change.fingerprint] = known._replace(before=before, after=after, times=known.times + change.times)


def _gaps(old: FindingsRecord, new: FindingsRecord, ceiling: str | None) -> list[Gap]:
    gaps = []
    for rule in sorted(old.faults.keys() | new.faults.keys()):
        fault = new.faults.get(rule) or old.faults[rule]
        gaps.append(
            Gap(f"findings of {rule}", f"the rule failed, which is a bug in mcpproxy: {fault}", is_failure=True)
        )
    for rule in sorted({*old.counted_rules, *new.counted_rules}):
        reason = "one message has so many that the rule only counts the others"
        gaps.append(Gap(f"some findings of {rule}", reason, is_failure=False))
    for other_side, ids in (("old", set(new.rules) - set(old.rules)), ("new", set(old.rules) - set(new.rules))):
        if ids:
            rules_text = f"{len(ids):,} rule{'' if len(ids) == 1 else 's'}"
            reason = f"the version of mcpproxy that checked the {other_side} side does not have {rules_text}"
            gaps.append(Gap(f"findings of rules of the {other_side} side", reason, is_failure=False))
    if ceiling is not None:
        reason = f"a side has more than {MAX_FINDINGS:,} different ones"
        gaps.append(Gap("some findings", reason, is_failure=False, needed_by=frozenset({"finding"})))
    return gaps
