"""Summarise latency, errors, mismatched ids, lifecycle violations and tool-definition costs.

Any number of captures share one screen. Two lines need the rules, which run by default only for captures of up to
20 MB in total; --findings always runs them. For anything else, use `mcpproxy query`.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcpproxy.cli.arguments import Parser, add_format, add_memory
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.selection import add_captures, scope_of, select_captures
from mcpproxy.report.output import json_line, width_of_stdout
from mcpproxy.wording.spans import Style

if TYPE_CHECKING:
    from analysis.store.stats import Loss
    from mcpproxy.report.stats import TrafficStats

MAX_CHECKED_BYTES: Final = 20_000_000
"""The total size of captures, in bytes, up to which the rules run by default; this takes a second or two."""
MAX_COLUMNS: Final = 120

_GROUPINGS: Final = ("call", "server", "client", "tool", "day", "turn")
DEFAULT_MEMORY_BYTES: Final = 1 << 30
"""The default limit of the database's memory, in bytes; the process itself needs up to 300 MiB more."""
_SORT_KEYS: Final = ("n", "errors", "p95", "max", "total")


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `stats`."""
    parser = Parser("stats", __doc__)
    add_captures(parser)
    parser.add_argument(
        "--by",
        choices=_GROUPINGS,
        default="call",
        help="what to group calls by (default: call, which is a method and a name); "
        "turn shows what each prompt caused, on all servers (use --all)",
    )
    parser.add_argument(
        "--sort",
        choices=_SORT_KEYS,
        help="how to sort the rows (default: n, the number of calls; days by date; "
        "turns by errors, then by total, the waiting time)",
    )
    parser.add_argument("--findings", action="store_true", help="run the rules, however large the captures are")
    add_memory(
        parser,
        DEFAULT_MEMORY_BYTES,
        "how much memory the database may use, in addition to the process itself (default: 1G)",
    )
    add_format(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Print the figures; returns 2 if a capture is damaged or cannot be read."""
    options = parser().parse_args(arguments)
    with select_captures(options.capture, scope_of(options)) as selection:
        return _print_figures(selection.paths, options)


def _print_figures(paths: list[Path], options: argparse.Namespace) -> int:
    # Loading DuckDB takes a tenth of a second; --help should not wait for it.
    from analysis.store.open import Sources, total_bytes, use_sources
    from analysis.store.stats import OutOfMemoryError, figures
    from mcpproxy.report.stats import TURN_SORT_KEYS, as_objects, as_text, query_stats
    from mcpproxy.sql.session import ProgressLine, cache_size_warning, report_losses

    if options.by == "turn" and options.sort is not None and options.sort not in TURN_SORT_KEYS:
        return fail(f"turns cannot be sorted by {options.sort}; choose from {', '.join(TURN_SORT_KEYS)}")
    runs_rules = options.findings or total_bytes(paths) <= MAX_CHECKED_BYTES
    with ProgressLine() as progress:

        def build(sources: Sources) -> "tuple[TrafficStats | None, list[Loss], Sources]":
            if not sources.readable:
                return None, [], sources
            with figures(
                sources.readable, findings=runs_rules, progress=progress.update, memory=options.memory
            ) as results:
                stats, losses = (
                    query_stats(results, options.by, options.sort, has_findings=runs_rules),
                    results.losses(),
                )
                return stats, losses, sources._replace(refused=[*sources.refused, *results.refused])

        try:
            stats, losses, sources = use_sources(
                paths, build, findings=runs_rules, progress=progress.update, memory=options.memory
            )
        except OutOfMemoryError:
            return fail(
                f"out of memory: this needs more than {options.memory >> 20:,} MiB; "
                "select fewer captures, or raise --memory"
            )
    if stats is None:
        _say_errors(sources.refused)
        return fail("no capture could be read, so there is nothing to count")
    for notice in (*cache_size_warning(), *sources.duplicate_notices):
        say(notice)
    _say_errors(sources.refused)
    if options.format == "json":
        sys.stdout.writelines(json_line(row) for row in as_objects(stats))
    else:
        lines = as_text(
            stats._replace(reads_all=options.all),
            Style.for_stream(sys.stdout, os.environ),
            width_of_stdout(MAX_COLUMNS),
            has_blocks=_can_print_blocks(),
        )
        sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
    is_damaged = report_losses(losses, "figures cover the rest", say)
    return int(Exit.USAGE if sources.refused or is_damaged else Exit.FINE)


def _say_errors(errors: list[tuple[Path, Exception]]) -> None:
    for _, error in errors:
        say(str(error))


def _can_print_blocks() -> bool:
    from mcpproxy.wording.blocks import BLOCKS

    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
