"""Clear the cache: rows that `query`, `stats` and `export` use, and what `tui` has understood.

They rebuild it as needed; captures are never touched. The rows stay below 2 GiB, or below MCPPROXY_CACHE_SIZE, and what
`tui` has understood below a quarter of that.
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
    from analysis import output_cache, summary

    # This loads DuckDB, a fifth of a second for which `cache --help` should not wait.
    from analysis.store.cache import clear
    from analysis.store.cache_files import directory

    freed = clear()
    folder = directory()
    nowhere = "no directory: neither HOME nor XDG_CACHE_HOME is a directory that DuckDB can open"
    place = nowhere if folder is None else sanitise(str(folder))
    sys.stdout.write(f"{count_text(freed.files, 'file')}, {size(freed.bytes)} deleted in {place}\n")
    code = _left(freed.undeleted, place)
    of_screens = output_cache.clear()
    if of_screens.files or of_screens.undeleted:
        place = sanitise(str(summary.directory()))
        sys.stdout.write(f"{count_text(of_screens.files, 'file')}, {size(of_screens.bytes)} deleted in {place}\n")
        code = max(code, _left(of_screens.undeleted, place))
    return code


def _left(count: int, place: str) -> int:
    """Returns the exit code, after an error message if files could not be deleted."""
    return fail(f"cannot delete {count_text(count, 'file')} in {place}") if count else int(Exit.FINE)
