"""Reports on stderr what the user must know of the sides of a comparison, and what made it fail."""

from collections.abc import Iterable
from typing import Final

from analysis.comparison.change import Gap, Ignored, SideSummary
from mcpproxy.cli.diagnostics import say
from mcpproxy.cli.limited_reports import LimitedReports
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

_MAX_PLACE_CHARS: Final = 200


def say_warnings(side: SideSummary) -> None:
    """Report what the user must know of a side."""
    for warning in side.warnings:
        say(f"{sanitise(side.name)}: {sanitise(warning)}")


def say_unused_places(places: Iterable[str], ignored: Iterable[Ignored]) -> None:
    """Report places at which nothing was ignored; many are only counted."""
    used = {each.rule for each in ignored}
    reports = LimitedReports(say)
    for place in places:
        if place not in used:
            reports.report_or_count(f"nothing was ignored by {sanitise(place, _MAX_PLACE_CHARS)}")
    if reports.unreported_count:
        say(f"nothing was ignored by {count_text(reports.unreported_count, 'more place')}")


def say_failures(failures: Iterable[Gap]) -> None:
    """Report what made the comparison fail; many failures are only counted."""
    reports = LimitedReports(say)
    for gap in failures:
        reports.report_or_count(f"not compared: {sanitise(gap.what)}: {sanitise(gap.reason)}")
    if reports.unreported_count:
        say(f"not compared: {reports.unreported_count:,} more")
