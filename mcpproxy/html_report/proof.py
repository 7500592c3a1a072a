"""The findings of a report: by rule, in the order in which to fix them, each with the bytes that prove it."""

from collections import Counter
from typing import Any, Final

from analysis.rules.discovery import rules
from mcpproxy.check_run.examine import CaptureCheck
from mcpproxy.check_run.record_locations import payload_at
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding
from mcpproxy.html_report import limits
from mcpproxy.html_report.traffic import Traffic
from mcpproxy.report.ranking import Ranking
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.excerpts import Excerpt, excerpt
from mcpproxy.wording.rule_pages import summary_of
from mcpproxy.wording.units import since_start

_NO_CARETS: Final = 0


class Findings:
    """The findings of all captures."""

    def __init__(self, traffic: Traffic) -> None:
        """`traffic`: its rows are marked with the findings about them."""
        self.levels: Counter[str] = Counter()
        """How many findings there are of each level."""
        self._traffic = traffic
        self._ranking = Ranking()
        self._shown: dict[str, list[dict[str, Any]]] = {}
        self._number = 0

    def begin(self) -> None:
        """Begin the next capture."""
        self._ranking.begin()

    def add(self, capture: int, located: LocatedFinding, examination: CaptureCheck) -> None:
        """Record a finding.

        Args:
            capture: the place of its capture among those of the report.
            located: the finding.
            examination: the check that found it; it knows where the other proving records are.
        """
        finding = located.finding
        self._ranking.count_finding(located)
        self.levels[str(finding.level)] += finding.finding_count
        self._traffic.mark(capture, finding.frame, finding.rule, finding.level)
        shown = self._shown.setdefault(finding.rule, [])
        if len(shown) < limits.FINDINGS_OF_RULE:
            shown.append(_finding(capture, examination.proven(located, limits.PROOFS)))

    def end(self, ended: CheckOutcome) -> None:
        """End the capture, which has been checked."""
        self._ranking.finish(ended)

    def as_objects(self) -> list[dict[str, Any]]:
        """A group for each rule."""
        groups = []
        number = 0
        for broken in self._ranking.ranked():
            shown = self._shown[broken.rule]
            for finding in shown:
                number += 1
                finding["number"] = number
            groups.append(
                {
                    "rule": broken.rule,
                    "level": str(broken.level),
                    "impact": broken.impact_text,
                    "side": broken.side,
                    "count": broken.count,
                    "summary": summary_of(rules()[broken.rule]),
                    "source": broken.first.finding.source,
                    "findings": shown,
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
    others = [
        {"frame": seq, "proof": _marked(excerpt(payload, "", limits.EXCERPT_CELLS)._replace(carets=_NO_CARETS))}
        for seq, place in located.proofs
        if (payload := payload_at(place))
    ]
    return {
        "capture": capture,
        "frame": finding.frame,
        "where": located.where,
        "session": finding.session,
        "level": str(finding.level),
        "side": str(finding.blames),
        "at": since_start(finding.t_ns),
        "message": sanitise(finding.message),
        "pointer": sanitise(pointer),
        "proof": None if proof is None else _marked(proof),
        "others": others,
    }


def _marked(shown: Excerpt) -> list[str]:
    """An excerpt as the text before the place, the place, and the text after it."""
    if not shown.carets:
        return [shown.text, "", ""]
    begin = _characters(shown.text, 0, shown.indent)
    end = _characters(shown.text, begin, shown.carets)
    return [shown.text[:begin], shown.text[begin:end], shown.text[end:]]


def _characters(text: str, begin: int, width: int) -> int:
    """The end of `width` cells of a text, from `begin` on; combining marks stay with their letter."""
    end, used = begin, 0
    while end < len(text) and (used < width or not cells(text[end])):
        used += cells(text[end])
        end += 1
    return end
