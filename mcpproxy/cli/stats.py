"""Figures at a glance: latency and its shape, errors, ids that do not fit, violations of the life cycle, costs.

Any number of captures make one screen. The rules, without which two of the lines stay unknown, are asked where the
captures are no larger than 20 MB in all; --findings asks them whatever it takes. `mcpproxy query` answers everything
else.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.output import add_format, json_line
from mcpproxy.cli.selection import selected
from mcpproxy.report.text import Style

QUICK: Final = 20_000_000
"""Bytes of captures that the rules read in a second or two."""
WIDEST: Final = 120

_BY: Final = ("call", "server", "client", "tool", "day")


def parser() -> argparse.ArgumentParser:
    """The arguments of `stats`."""
    made = Parser("stats", __doc__)
    made.add_argument(
        "capture", nargs="*", help="captures, folders, server names, or - for stdin (default: the newest capture)"
    )
    made.add_argument(
        "--by", choices=_BY, default="call", help="what a row of latencies is: a call (default: method and name), …"
    )
    made.add_argument("--findings", action="store_true", help="ask the rules, however large the captures are")
    add_format(made)
    return made


def run(arguments: list[str]) -> int:
    """Print the figures; 2 where a capture is damaged or cannot be read."""
    options = parser().parse_args(arguments)
    with selected(options.capture) as paths:
        return _print(paths, options)


def _print(paths: list[Path], options: argparse.Namespace) -> int:
    # DuckDB loads for a tenth of a second, which --help need not wait for.
    from analysis.store.figures import figures
    from analysis.store.open import sources
    from captures.reader import Capture
    from mcpproxy.cli.asking import Progress, of_cache_size, tell_of_losses
    from mcpproxy.report.stats import as_objects, as_text, gathered

    with Progress() as progress:
        first = sources(paths, progress=progress.tell)
        asks = options.findings or sum(Capture(one.path).size for one in first.found) <= QUICK
        found = sources(paths, findings=True, progress=progress.tell).found if asks else first.found
        if not found:
            _tell(first.refused)
            return fail("no capture could be read, so there is nothing to count")
        with figures(found, findings=asks, progress=progress.tell) as asked:
            stats = gathered(asked, options.by, has_findings=asks)
            losses = asked.losses()
            refused = [*first.refused, *asked.refused]
    for told in (*of_cache_size(), *first.doubles):
        say(told)
    _tell(refused)
    if options.format == "json":
        sys.stdout.writelines(json_line(row) for row in as_objects(stats))
    else:
        width = min(WIDEST, shutil.get_terminal_size().columns)
        lines = as_text(stats, Style.of(sys.stdout, os.environ), width, has_blocks=_has_blocks())
        sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
    is_damaged = tell_of_losses(losses, "figures are about the rest")
    return int(Exit.USAGE if refused or is_damaged else Exit.FINE)


def _tell(refused: list[tuple[Path, Exception]]) -> None:
    for _, error in refused:
        say(str(error))


def _has_blocks() -> bool:
    from mcpproxy.report.stats import BLOCKS

    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
