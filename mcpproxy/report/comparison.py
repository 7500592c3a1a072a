"""Writes a comparison in each format that `mcpproxy compare` offers."""

from collections.abc import Callable, Iterable
from typing import Final

from analysis.comparison.change import Comparison
from analysis.comparison.kind import FailOn
from mcpproxy.report.comparison_github import comparison_commands
from mcpproxy.report.comparison_json import comparison_rows
from mcpproxy.report.comparison_markdown import comparison_markdown
from mcpproxy.report.comparison_sarif import comparison_sarif
from mcpproxy.report.comparison_text import comparison_lines
from mcpproxy.wording.spans import Style

WIDTH: Final = 80
"""The width of a line of text, in cells, if nothing else is known."""


def _json_rows(comparison: Comparison, fail_on: frozenset[FailOn]) -> Iterable[str]:
    return comparison_rows(comparison, fail_on)


def _sarif_document(comparison: Comparison, _fail_on: frozenset[FailOn]) -> Iterable[str]:
    return comparison_sarif(comparison)


def _junit_document(comparison: Comparison, fail_on: frozenset[FailOn]) -> Iterable[str]:
    # The XML functions of the standard library load its HTTP client and TLS.
    from mcpproxy.report.comparison_junit import comparison_document

    return comparison_document(comparison, fail_on)


_WRITERS: Final[dict[str, Callable[[Comparison, frozenset[FailOn]], Iterable[str]]]] = {
    "json": _json_rows,
    "markdown": comparison_markdown,
    "junit": _junit_document,
    "sarif": _sarif_document,
    "github": comparison_commands,
}
FORMATS: Final = ("text", *_WRITERS)
"""The names of the formats."""


def write_comparison(
    comparison: Comparison,
    format_name: str,
    style: Style | None = None,
    width: int = WIDTH,
    *,
    fail_on: frozenset[FailOn] = frozenset(),
) -> Iterable[str]:
    """Write a comparison.

    Args:
        comparison: the comparison. A gap that makes it fail has `is_failure`, also if only `--fail-on` needs it.
        format_name: one of `FORMATS`.
        style: the colours of the text.
        width: the width of a line of the text, in cells; `UNLIMITED_WIDTH` if it is not for a terminal.
        fail_on: the words of `--fail-on`: what fails them is listed and marked.

    Returns:
        The output in pieces, with line ends.
    """
    if format_name == "text":
        return (f"{line}\n" for line in comparison_lines(comparison, style or Style(), width, fail_on))
    return _WRITERS[format_name](comparison, fail_on)
