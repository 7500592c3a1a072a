"""`check --join`: what was lost or changed between two captures of one conversation."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from analysis.rules.finding import Level
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.selection import SelectedCaptures, scope_of, select_captures
from mcpproxy.report.output import width_of_stdout
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Style

if TYPE_CHECKING:
    from analysis.store.joined import Difference, JoinTotals
    from analysis.store.open import Sources
    from analysis.store.stats import Loss

_MEMORY_BYTES: Final = 1 << 30
"""The limit of the database's memory, in bytes."""
_MAX_COLUMNS: Final = 120


def check_join(options: argparse.Namespace, fail_on: Level | None) -> int:
    """Compare two captures; returns the exit code.

    Args:
        options: the options of `check`.
        fail_on: the level from which on differences make the exit code 1; None for never.
    """
    if any(
        (
            options.trace,
            options.follow,
            options.baseline,
            options.update_baseline,
            options.filter,
            options.rule,
            options.ignore,
            options.profile,
            options.allow_empty,
        )
    ) or options.format not in ("text", "json"):
        return fail(
            "--join can only be combined with two captures, --fail-on, --notes, --color, --format text or json, and "
            "options that select captures; see mcpproxy check --help"
        )
    with select_captures(options.capture, scope_of(options)) as selection:
        if len(selection.paths) != 2:
            return fail(f"--join compares two captures, not {count_text(len(selection.paths), 'capture')}")
        return _compare(selection, options, fail_on)


class _Comparison(NamedTuple):
    """What two captures have in common, and how they differ."""

    joined: "JoinTotals"
    differences: "list[Difference]"
    losses: "list[Loss]"
    names: dict[str, str]
    """The names of the captures in messages, by their ids."""


def _compare(selection: SelectedCaptures, options: argparse.Namespace, fail_on: Level | None) -> int:
    # Loading DuckDB takes a tenth of a second; other checks should not wait for it.
    from analysis.store.joined import joined_captures
    from analysis.store.open import use_sources
    from analysis.store.stats import OutOfMemoryError
    from mcpproxy.sql.session import ProgressLine, report_losses

    with ProgressLine() as progress:

        def compare(sources: "Sources") -> "_Comparison | str | list[tuple[Path, Exception]]":
            if sources.refused:
                return sources.refused
            if len(sources.readable) != 2:
                return "--join compares two captures, but both arguments name the same one"
            with joined_captures(sources.readable, memory=_MEMORY_BYTES, progress=progress.update) as captures:
                if captures.refused:
                    return captures.refused
                joined = captures.totals()
                if joined is None:
                    return (
                        "these captures have nothing in common: no trace context, session id or equal message from "
                        "the same time"
                    )
                names = {source.id: str(selection.name_of(source.path)) for source in sources.readable}
                return _Comparison(joined, list(captures.differences(joined)), captures.losses(), names)

        try:
            comparison = use_sources(selection.paths, compare, progress=progress.update, memory=_MEMORY_BYTES)
        except OutOfMemoryError:
            return fail(f"out of memory: comparing these captures needs more than {_MEMORY_BYTES >> 20:,} MiB")
    if isinstance(comparison, str):
        return fail(comparison)
    if isinstance(comparison, list):
        for _, error in comparison:
            say(str(error))
        return int(Exit.USAGE)
    code = _report(comparison, options, fail_on)
    sys.stdout.flush()
    is_damaged = report_losses(comparison.losses, "differences it could explain are not certain or not judged", say)
    return int(Exit.USAGE) if is_damaged else code


def _report(comparison: _Comparison, options: argparse.Namespace, fail_on: Level | None) -> int:
    """Write the differences and totals; returns the exit code."""
    from mcpproxy.report.joined import JoinText, json_text, level_of

    joined, differences, _, names = comparison
    if options.format == "json":
        sys.stdout.writelines(json_text(difference, names, joined) for difference in differences)
    else:
        report = JoinText(
            Style.for_choice(options.color, sys.stdout, os.environ),
            notes=options.notes or fail_on is Level.NOTE,
            width=width_of_stdout(_MAX_COLUMNS),
        )
        sys.stdout.writelines(report.begin(names[joined.client_capture], names[joined.server_capture]))
        for difference in differences:
            sys.stdout.writelines(report.report(difference))
        sys.stdout.writelines(report.finish(joined))
    has_failed = fail_on is not None and any(level_of(difference) >= fail_on for difference in differences)
    return int(Exit.FINDINGS if has_failed else Exit.FINE)
