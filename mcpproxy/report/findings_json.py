"""Findings as JSON, one object per line; also the format of a baseline."""

from collections.abc import Iterable
from typing import Any

from analysis.rules.discovery import impact_of
from mcpproxy.check_run.result import LocatedFinding, Reporter
from mcpproxy.report.output import json_line
from mcpproxy.wording.units import utc

_LATEST_NS = 1 << 62


def finding_row(located: LocatedFinding) -> dict[str, Any]:
    """Returns the members of one finding. Untrusted text is unchanged."""
    finding = located.finding
    return {
        "capture": str(located.capture),
        "rule": finding.rule,
        "level": str(finding.level),
        "impact": str(impact_of(finding.rule, finding.level)),
        "blames": finding.blames,
        "session": finding.session,
        "frame": finding.frame,
        "item": finding.item,
        "related": list(finding.related),
        "more": finding.more,
        "method": finding.method or None,
        "message": finding.message,
        "pointer": finding.pointer,
        "source": finding.source,
        "t_ns": finding.t_ns,
        "at": _at(located),
        "fingerprint": located.fingerprint,
        "forgotten": [kind.members() for kind in located.forgotten],
    }


def _at(located: LocatedFinding) -> str | None:
    wall_ns, t_ns = located.wall_ns, located.finding.t_ns
    if wall_ns is None or not 0 <= wall_ns < _LATEST_NS:
        return None
    return utc(wall_ns + min(t_ns, _LATEST_NS))


class JsonReporter(Reporter):
    """Writes findings for programs, except those that the baseline contains."""

    def report(self, located: LocatedFinding) -> Iterable[str]:
        """Yields the line of a finding."""
        if not located.is_accepted:
            yield json_line(finding_row(located))
