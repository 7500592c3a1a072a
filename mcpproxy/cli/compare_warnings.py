"""Reports on stderr what the user must know of the sides of a comparison, and what made it fail."""

from collections.abc import Iterable

from analysis.comparison.change import Gap, SideSummary
from mcpproxy.cli.diagnostics import say
from mcpproxy.cli.limited_reports import LimitedReports
from mcpproxy.sanitise import sanitise


def say_warnings(side: SideSummary) -> None:
    """Report what the user must know of a side."""
    for warning in side.warnings:
        say(f"{sanitise(side.name)}: {sanitise(warning)}")


def say_failures(failures: Iterable[Gap]) -> None:
    """Report what made the comparison fail; many failures are only counted."""
    reports = LimitedReports(say)
    for gap in failures:
        reports.report_or_count(f"not compared: {sanitise(gap.what)}: {sanitise(gap.reason)}")
    if reports.unreported_count:
        say(f"not compared: {reports.unreported_count:,} more")
