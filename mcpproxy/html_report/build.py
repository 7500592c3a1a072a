"""Builds the report of captures, for `mcpproxy report` and for the screens."""

from pathlib import Path
from typing import NamedTuple

from analysis.store.open import Progress, Sources, use_sources
from analysis.store.report_rows import report_rows
from analysis.store.stats import Loss
from mcpproxy.html_report.report import HtmlReport


class BuiltReport(NamedTuple):
    """A report, and what is missing from it."""

    report: HtmlReport | None
    """The report; None if no capture could be read."""
    losses: list[Loss]
    """What the captures have lost."""
    sources: Sources
    """The captures, with the reasons for those that could not be read."""


def build_report(paths: list[Path], progress: Progress, memory: int) -> BuiltReport:
    """Read captures, and build their report.

    Args:
        paths: the captures.
        progress: called with how much has been read, and the total.
        memory: how much memory the database may use, in bytes.

    Raises:
        CaptureError: a capture cannot be read to its end.
    """

    def build(sources: Sources) -> BuiltReport:
        if not sources.readable:
            return BuiltReport(None, [], sources)
        with report_rows(sources.readable, progress=progress, memory=memory) as rows:
            sources = sources._replace(refused=[*sources.refused, *rows.refused])
            return BuiltReport(HtmlReport(rows, progress), rows.losses(), sources)

    return use_sources(paths, build, progress=progress, memory=memory)
