"""Write a self-contained HTML report that opens in any browser, offline.

It shows who talked to whom, what to fix first, slow and abandoned calls, the start of each session, latencies, a
waterfall of all servers on one clock, findings with the bytes that prove them, tools, stderr and the traffic.

The report contains the recorded traffic in plain text: anyone who has the file can read it. --redact replaces secrets
first.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Final

from captures.new_file import new_file
from mcpproxy.cli.arguments import Parser, add_memory
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.outputs import check_file_output, written_line
from mcpproxy.cli.redacted_copies import command_inputs
from mcpproxy.cli.selection import add_captures
from mcpproxy.wording.counts import count_text

DEFAULT_MEMORY_BYTES: Final = 1 << 30
"""The default limit of the database's memory, in bytes."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `report`."""
    parser = Parser("report", __doc__)
    add_captures(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="F",
        default="report.html",
        help="the file to write (default: report.html in this folder)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.add_argument(
        "--redact", action="store_true", help="replace secrets first, as `mcpproxy share` does by default"
    )
    add_memory(
        parser,
        DEFAULT_MEMORY_BYTES,
        "how much memory the database may use, in addition to the process itself (default: 1G)",
    )
    return parser


def run(arguments: list[str]) -> int:
    """Write the report; returns 2 if a capture is damaged or cannot be read, 73 if the file cannot be written."""
    options = parser().parse_args(arguments)
    if not options.output:
        return fail("the name of the file to write is empty")
    with command_inputs(options, partial(check_file_output, force=options.force)) as selection:
        return selection.exit_code(_write_report(selection.paths, options))


def _write_report(paths: list[Path], options: argparse.Namespace) -> int:
    # Loading DuckDB takes a tenth of a second; --help should not wait for it.
    from mcpproxy.cli.check_warnings import say_faults
    from mcpproxy.html_report.build import build_report
    from mcpproxy.sql.session import ProgressLine, cache_size_warning, report_losses

    with ProgressLine() as progress:
        report, losses, sources = build_report(paths, progress.update, options.memory)
    for notice in (*cache_size_warning(), *sources.duplicate_notices, *(str(error) for _, error in sources.refused)):
        say(notice)
    if report is None:
        return fail("no capture could be read, so nothing was written")
    target = Path(options.output)
    with new_file(target, replace=options.force, advice="; --force replaces it") as path:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(report.pieces())
        size_bytes = path.stat().st_size
    contents = f"{count_text(len(report.captures), 'capture')}, {count_text(report.frames, 'frame')}"
    contents = f"{contents}, {count_text(report.finding_count, 'finding')}"
    sys.stdout.write(written_line(target, contents, size_bytes, "open it in a browser"))
    sys.stdout.flush()
    for outcome in report.outcomes:
        say_faults(outcome)
    has_faults = any(outcome.faults for outcome in report.outcomes)
    is_damaged = report_losses(losses, "the report covers the rest", say)
    return int(Exit.USAGE if sources.refused or is_damaged or has_faults else Exit.FINE)
