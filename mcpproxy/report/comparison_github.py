"""A comparison as GitHub Actions annotations: workflow commands on stdout, and the verdict in words."""

from collections.abc import Iterator
from typing import Final

from analysis.comparison.change import Change, Comparison
from analysis.comparison.kind import Severity
from mcpproxy.report.comparison_files import file_of
from mcpproxy.report.github import escaped_data, escaped_value, relative_path
from mcpproxy.wording.changes import change_line, failures_of, gap_text, verdict_text

MAX_ANNOTATIONS: Final = 10
"""The most annotations of each level: a step may have ten. The others are counted."""
_COMMANDS: Final = {
    Severity.BREAKING: "error",
    Severity.WORSE: "warning",
    Severity.MAY_BREAK: "warning",
    Severity.UNKNOWN: "warning",
    Severity.NOTE: "notice",
}


def comparison_commands(comparison: Comparison) -> Iterator[str]:
    """Yields a workflow command for each failure and each change, the worst first, and then the verdict."""
    counts = dict.fromkeys(("error", "warning", "notice"), 0)
    for gap in failures_of(comparison):
        counts["error"] += 1
        if counts["error"] <= MAX_ANNOTATIONS:
            yield f"::error title=not compared::{escaped_data(gap_text(gap))}\n"
    for change in comparison.changes:
        command = _COMMANDS[change.severity]
        counts[command] += 1
        if counts[command] <= MAX_ANNOTATIONS:
            yield _command_line(command, change, comparison)
    hidden = [f"{count - MAX_ANNOTATIONS:,} more {name}s" for name, count in counts.items() if count > MAX_ANNOTATIONS]
    shown_in = f"; without annotation: {', '.join(hidden)}" if hidden else ""
    verdict = verdict_text(comparison)
    yield f"{verdict[0].upper()}{verdict[1:]}{shown_in}\n"


def _command_line(command: str, change: Change, comparison: Comparison) -> str:
    properties = (
        f"title={escaped_value(change.kind.id)},file={escaped_value(relative_path(file_of(change, comparison)))}"
    )
    return f"::{command} {properties}::{escaped_data(change_line(change, comparison))}\n"
