"""Write a clean copy of everything intact in a damaged capture.

The damaged file stays as it is. Missing numbers become gaps in the copy, so `verify` still reports where records are
missing.
"""

import argparse
import sys
import time
from pathlib import Path

from captures.file import choose_path
from captures.listing import first_segment
from captures.paths import SUFFIX
from captures.reader import Capture
from captures.repair import repair
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit
from mcpproxy.cli.selection import select_captures
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `repair`."""
    parser = Parser("repair", __doc__)
    parser.add_argument("capture", help="a capture, a server's name, or - for stdin")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the copy, a new file (default: NAME-repaired.mcpcap in this directory)"
    )
    return parser


def run(arguments: list[str]) -> int:
    """Copy everything intact to a new file; returns the exit code."""
    options = parser().parse_args(arguments)
    with select_captures([options.capture]) as selection:
        path = selection.paths[0]
        # The copy is not next to the original, where it would look like another session of the server.
        name = first_segment(path).name.removesuffix(SUFFIX)
        output = Path(choose_path(options.output or f"{name}-repaired{SUFFIX}", "", time.time_ns()))
        result = repair(Capture(path), output)
    gaps_text = f", {count_text(result.gap_count, 'gap')}" if result.gap_count else ", nothing missing"
    bytes_text = f"; {result.dropped_bytes:,} damaged bytes left out" if result.dropped_bytes else ""
    records_text = (
        f"; {count_text(result.dropped_records, 'record')} out of order left out" if result.dropped_records else ""
    )
    sys.stdout.write(
        f"{sanitise(str(output))}: {count_text(result.record_count, 'record')}{gaps_text}{bytes_text}{records_text}\n"
    )
    return int(Exit.FINE)
