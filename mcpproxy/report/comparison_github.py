"""A comparison as GitHub Actions annotations: workflow commands on stdout, and the verdict in words."""

from collections.abc import Iterator
from typing import Final

from analysis.comparison.change import Change, Comparison
from analysis.comparison.kind import FailOn, Severity
from mcpproxy.check_run.result import RecordLocation
from mcpproxy.report.comparison_files import file_of
from mcpproxy.report.comparison_locations import locations_of, place_of
from mcpproxy.report.comparison_ranking import mark_text, ranked
from mcpproxy.report.github import escaped_data, escaped_value, relative_path
from mcpproxy.wording.change_lines import change_line
from mcpproxy.wording.changes import failures_of, gap_text, verdict_text

MAX_ANNOTATIONS: Final = 10
"""The most annotations of each level: a step may have ten. The others are counted."""
_COMMANDS: Final = {
    Severity.BREAKING: "error",
    Severity.WORSE: "warning",
    Severity.MAY_BREAK: "warning",
    Severity.UNKNOWN: "warning",
    Severity.NOTE: "notice",
}


def comparison_commands(comparison: Comparison, fail_on: frozenset[FailOn] = frozenset()) -> Iterator[str]:
    """Yields a workflow command for each failure and each change, the worst first, and then the verdict.

    What fails `--fail-on` is before other changes of its level, and is marked.
    """
    counts = dict.fromkeys(("error", "warning", "notice"), 0)
    for gap in failures_of(comparison):
        counts["error"] += 1
        if counts["error"] <= MAX_ANNOTATIONS:
            yield f"::error title=not compared::{escaped_data(gap_text(gap))}\n"
    listed, notes = ranked(comparison.changes, fail_on)
    annotated = []
    for change in (*listed, *notes):
        command = _COMMANDS[change.severity]
        counts[command] += 1
        if counts[command] <= MAX_ANNOTATIONS:
            annotated.append((command, change))
    locations = locations_of((change for _, change in annotated), comparison)
    for command, change in annotated:
        place = place_of(change, comparison)
        location = None if place is None else locations.get(place)
        yield _command_line(command, change, comparison, location, mark_text(change, fail_on))
    hidden = [f"{count - MAX_ANNOTATIONS:,} more {name}s" for name, count in counts.items() if count > MAX_ANNOTATIONS]
    shown_in = f"; without annotation: {', '.join(hidden)}" if hidden else ""
    verdict = verdict_text(comparison, fail_on)
    yield f"{verdict[0].upper()}{verdict[1:]}{shown_in}\n"


def _command_line(
    command: str, change: Change, comparison: Comparison, location: RecordLocation | None, mark: str
) -> str:
    file = file_of(change, comparison) if location is None else location.path
    line = "" if location is None else f",line={location.line}"
    properties = f"title={escaped_value(change.kind.id)},file={escaped_value(relative_path(file))}{line}"
    text = f"{change_line(change, comparison)}{f' [{mark}]' if mark else ''}"
    return f"::{command} {properties}::{escaped_data(text)}\n"
