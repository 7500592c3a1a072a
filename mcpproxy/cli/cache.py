"""Clear the cache: rows that `query`, `stats` and `export` use, and results that `tui` and `mock` use.

They rebuild it as needed; captures are never touched. The rows stay below 2 GiB, or below MCPPROXY_CACHE_SIZE, and the
results below a quarter of that.
"""

import argparse
import sys

from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `cache`."""
    parser = Parser("cache", __doc__)
    parser.add_argument("action", choices=("clear",), help="clear: delete the whole cache")
    return parser


def run(arguments: list[str]) -> int:
    """Clear the cache; returns 2 if part of it could not be deleted."""
    parser().parse_args(arguments)
    from analysis import output_cache, summary

    # This import loads DuckDB, which takes a fifth of a second; `cache --help` should not wait for it.
    from analysis.store.cache import delete_all
    from analysis.store.cache_files import directory

    row_cache = delete_all()
    folder = directory()
    no_folder_text = "no directory: neither HOME nor XDG_CACHE_HOME is a directory that DuckDB can open"
    place = no_folder_text if folder is None else sanitise(str(folder))
    sys.stdout.write(
        f"{count_text(row_cache.deleted_files, 'file')}, {size(row_cache.deleted_bytes)} deleted in {place}\n"
    )
    code = _report_undeleted(row_cache.undeleted_files, place)
    screen_cache = output_cache.clear_files()
    if screen_cache.deleted_files or screen_cache.undeleted_files:
        place = sanitise(str(summary.directory()))
        sys.stdout.write(
            f"{count_text(screen_cache.deleted_files, 'file')}, {size(screen_cache.deleted_bytes)} deleted in {place}\n"
        )
        code = max(code, _report_undeleted(screen_cache.undeleted_files, place))
    return code


def _report_undeleted(count: int, place: str) -> int:
    """Report files that could not be deleted; returns the exit code."""
    return fail(f"cannot delete {count_text(count, 'file')} in {place}") if count else int(Exit.FINE)
