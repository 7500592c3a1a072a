"""Findings as GitHub Actions annotations: workflow commands on stdout, and the totals in words.

A line of output that begins with `::` is a command to the runner, so untrusted text must not begin or end one: it is
made visible first, and then escaped by the runner's rules.
"""

import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Final

from analysis.rules.finding import Level
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding, Reporter, Totals
from mcpproxy.report.findings import notes_hint, summary
from mcpproxy.sanitise import sanitise

_COMMANDS: Final = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


class GithubReporter(Reporter):
    """Writes for the log of a workflow."""

    def __init__(self, *, notes: bool = False, named: Container[str] = ()) -> None:
        """Start without findings.

        Args:
            notes: whether notes become annotations, of which a step may have ten.
            named: rules whose notes always become annotations.
        """
        self._min_level = Level.NOTE if notes else Level.WARNING
        self._named_rules = named
        self._hidden_notes = 0
        """How many notes have not become annotations."""
        self._has_shown = False

    def report(self, located: LocatedFinding) -> Iterable[str]:
        """Yields a workflow command, which is one line."""
        finding = located.finding
        if located.is_accepted:
            return
        if finding.level < self._min_level and finding.rule not in self._named_rules:
            self._hidden_notes += 1
            return
        self._has_shown = True
        values = {"title": finding.rule, "file": relative_path(located.file)}
        if located.place is not None:
            values["line"] = str(located.place.line)
        properties = ",".join(f"{name}={escaped_value(text)}" for name, text in values.items())
        text = f"{finding.blames}, {located.record_text}: {sanitise(located.text)}"
        yield f"::{_COMMANDS[finding.level]} {properties}::{escaped_data(text)}\n"

    def finish(self, ended: CheckOutcome) -> Iterable[str]:
        """Yields a warning for each kind of forgotten data, which no finding covers."""
        for kind in ended.forgotten:
            yield (
                "::warning "
                f"title=forgotten,file={escaped_value(relative_path(ended.capture))}::{escaped_data(kind.text)}\n"
            )

    def unreadable(self, capture: Path, why: str) -> Iterable[str]:
        """Yields an error annotation, because people look there for the reason why a step failed."""
        yield (
            "::error title=cannot be "
            f"checked,file={escaped_value(relative_path(capture))}::{escaped_data(sanitise(why, None))}\n"
        )

    def close(self, totals: Totals) -> Iterable[str]:
        """Yields the totals, for the log, or nothing if nothing could be checked."""
        if totals.captures:
            yield f"{summary(totals)}{notes_hint(0 if self._has_shown else self._hidden_notes)}\n"


def relative_path(path: Path) -> str:
    """Returns a path below the working directory as a relative path, because viewers look files up from there.

    Links are followed only if necessary: a path that is below the directory as written stays as written.
    """
    try:
        working_directory = os.getcwd()
    except OSError:  # the working directory has been removed
        return str(path)
    for full_path, directory in (
        (os.path.abspath(path), working_directory),
        (os.path.realpath(path), os.path.realpath(working_directory)),
    ):
        prefix = os.path.join(directory, "")
        if full_path.startswith(prefix):
            return full_path.removeprefix(prefix)
    return str(path)


def escaped_data(text: str) -> str:
    """Returns sanitised text as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_value(text: str) -> str:
    """Returns a text as the value of a property of a workflow command."""
    return escaped_data(sanitise(text, None)).replace(":", "%3A").replace(",", "%2C")
