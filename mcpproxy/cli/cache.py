"""Empty the cache of rows that `query`, `stats` and `export` keep: it is made again as they need it.

Captures are never touched. The cache keeps itself below 2 GiB, or below what MCPPROXY_CACHE_SIZE says.
"""

import argparse
import sys

from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.report.text import count_text
from mcpproxy.report.units import size
from mcpproxy.sanitise import sanitise


def parser() -> argparse.ArgumentParser:
    """The arguments of `cache`."""
    parser = Parser("cache", __doc__)
    parser.add_argument("action", choices=("clear",), help="clear: delete all of it")
    return parser


def run(arguments: list[str]) -> int:
    """Clear the cache; 2 where something of it is left."""
    parser().parse_args(arguments)
    # DuckDB is loaded with it, for a fifth of a second that `cache --help` need not wait.
    from analysis.store.cache import clear, directory

    freed = clear()
    folder = directory()
    nowhere = "no directory: neither HOME nor XDG_CACHE_HOME names one that DuckDB can open"
    place = nowhere if folder is None else sanitise(str(folder))
    sys.stdout.write(f"{count_text(freed.files, 'file')}, {size(freed.bytes)} deleted in {place}\n")
    if freed.left:
        return fail(f"cannot delete {count_text(freed.left, 'file')} in {place}")
    return int(Exit.FINE)
