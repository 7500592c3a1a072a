"""Findings as JSON, one object per line; also the format of a baseline."""

from collections.abc import Iterable
from typing import Any

from analysis.rules.registry import impact
from mcpproxy.examination.result import Found, Report
from mcpproxy.report.output import json_line
from mcpproxy.report.units import utc

_LATEST_NS = 1 << 62


def row(found: Found) -> dict[str, Any]:
    """The members of one finding. Untrusted text is unchanged."""
    finding = found.finding
    return {
        "capture": str(found.capture),
        "rule": finding.rule,
        "level": str(finding.level),
        "impact": str(impact(finding.rule, finding.level)),
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
        "at": _at(found),
        "fingerprint": found.fingerprint,
        "forgotten": [one.members() for one in found.forgotten],
    }


def _at(found: Found) -> str | None:
    wall_ns, t_ns = found.wall_ns, found.finding.t_ns
    if wall_ns is None or not 0 <= wall_ns < _LATEST_NS:
        return None
    return utc(wall_ns + min(t_ns, _LATEST_NS))


class Json(Report):
    """Writes for programs; leaves out what the baseline contains."""

    def add(self, found: Found) -> Iterable[str]:
        """A line."""
        if not found.accepted:
            yield json_line(row(found))
