"""Clear the cache of rows that `query`, `stats` and `export` use. They rebuild it as needed.

Captures are never touched. The cache stays below 2 GiB, or below MCPPROXY_CACHE_SIZE.
"""

import argparse
import sys

from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size


def parser() -> argparse.ArgumentParser:
    """The arguments of `cache`."""
    parser = Parser("cache", __doc__)
    parser.add_argument("action", choices=("clear",), help="clear: delete the whole cache")
    return parser


def run(arguments: list[str]) -> int:
    """Clear the cache; returns 2 if part of it could not be deleted."""
    parser().parse_args(arguments)
    # This loads DuckDB, a fifth of a second for which `cache --help` should not wait.
    from analysis.store.cache import clear
    from analysis.store.cache_files import directory

    freed = clear()
    folder = directory()
    nowhere = "no directory: neither HOME nor XDG_CACHE_HOME is a directory that DuckDB can open"
    place = nowhere if folder is None else sanitise(str(folder))
    sys.stdout.write(f"{count_text(freed.files, 'file')}, {size(freed.bytes)} deleted in {place}\n")
    if freed.left:
        return fail(f"cannot delete {count_text(freed.left, 'file')} in {place}")
    return int(Exit.FINE)
