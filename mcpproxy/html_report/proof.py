"""The findings of a report: by rule, in the order in which to fix them, each with the bytes that prove it."""

from collections import Counter
from typing import Any, Final

from analysis.rules.discovery import rules
from mcpproxy.check_run.examine import CaptureCheck
from mcpproxy.check_run.record_locations import payload_at
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding
from mcpproxy.html_report import limits
from mcpproxy.html_report.traffic import Traffic
from mcpproxy.report.ranking import RuleRanking
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.excerpts import Excerpt, excerpt
from mcpproxy.wording.rule_pages import summary_of
from mcpproxy.wording.units import since_start

_NO_CARETS: Final = 0


class ReportFindings:
    """The findings of all captures."""

    def __init__(self, traffic: Traffic) -> None:
        """Start without findings.

        Args:
            traffic: the rows to mark with the findings about them.
        """
        self.levels: Counter[str] = Counter()
        """How many findings there are of each level."""
        self._traffic = traffic
        self._ranking = RuleRanking()
        self._findings_by_rule: dict[str, list[dict[str, Any]]] = {}
        self._number = 0

    def begin_capture(self) -> None:
        """Begin the next capture."""
        self._ranking.begin()

    def add_finding(self, capture: int, located: LocatedFinding, examination: CaptureCheck) -> None:
        """Record a finding.

        Args:
            capture: the position of its capture in the report.
            located: the finding.
            examination: the check that reported it, which locates the other records that prove it.
        """
        finding = located.finding
        self._ranking.count_finding(located)
        self.levels[str(finding.level)] += finding.finding_count
        self._traffic.mark_finding(capture, finding.frame, finding.rule, finding.level)
        rule_findings = self._findings_by_rule.setdefault(finding.rule, [])
        if len(rule_findings) < limits.MAX_FINDINGS_PER_RULE:
            rule_findings.append(_finding(capture, examination.with_proofs(located, limits.MAX_PROOFS)))

    def finish_capture(self, outcome: CheckOutcome) -> None:
        """Finish the capture, after it has been checked."""
        self._ranking.finish(outcome)

    def as_objects(self) -> list[dict[str, Any]]:
        """Returns a group for each rule, in the order in which to fix them."""
        groups = []
        number = 0
        for broken_rule in self._ranking.ranked_rules():
            rule_findings = self._findings_by_rule[broken_rule.rule]
            for finding in rule_findings:
                number += 1
                finding["number"] = number
            groups.append(
                {
                    "rule": broken_rule.rule,
                    "level": str(broken_rule.level),
                    "impact": broken_rule.impact_text,
                    "side": broken_rule.side,
                    "count": broken_rule.count,
                    "summary": summary_of(rules()[broken_rule.rule]),
                    "source": broken_rule.first_finding.finding.source,
                    "findings": rule_findings,
                }
            )
        return groups


def _finding(capture: int, located: LocatedFinding) -> dict[str, Any]:
    finding = located.finding
    raw = payload_at(located.place) if located.place is not None else None
    pointer, proof = finding.pointer, None
    if raw:
        is_batched = finding.item is not None and raw.lstrip()[:1] == b"["
        pointer = f"/{finding.item}{pointer}" if is_batched else pointer
        proof = excerpt(raw, pointer, limits.EXCERPT_CELLS)
    other_proofs = [
        {"frame": seq, "proof": _excerpt_parts(excerpt(payload, "", limits.EXCERPT_CELLS)._replace(carets=_NO_CARETS))}
        for seq, place in located.proofs
        if (payload := payload_at(place))
    ]
    return {
        "capture": capture,
        "frame": finding.frame,
        "where": located.record_text,
        "session": finding.session,
        "level": str(finding.level),
        "side": str(finding.blames),
        "at": since_start(finding.t_ns),
        "message": sanitise(finding.message),
        "pointer": sanitise(pointer),
        "proof": None if proof is None else _excerpt_parts(proof),
        "others": other_proofs,
    }


def _excerpt_parts(proof: Excerpt) -> list[str]:
    """Returns an excerpt in three parts: the text before the carets, above them, and after them."""
    if not proof.carets:
        return [proof.text, "", ""]
    begin = _end_of_cells(proof.text, 0, proof.indent)
    end = _end_of_cells(proof.text, begin, proof.carets)
    return [proof.text[:begin], proof.text[begin:end], proof.text[end:]]


def _end_of_cells(text: str, begin: int, width: int) -> int:
    """Returns the end of the `width` cells of a text that start at `begin`; combining marks stay with their letter."""
    end, used_cells = begin, 0
    while end < len(text) and (used_cells < width or not cells(text[end])):
        used_cells += cells(text[end])
        end += 1
    return end
