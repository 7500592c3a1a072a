"""Write captures as files for other programs: Parquet, CSV, or a DuckDB database.

parquet: a data set that you can add to, from any number of machines: DIR/<table>/day=<day>/<capture>.parquet.
csv: a file for each table; text that a spreadsheet would take for a formula is prefixed with a quote.
duckdb: DIR/captures.duckdb, with the same views as in `mcpproxy query`.
"""

import argparse
import sys
from pathlib import Path

from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.selection import add_captures, scope_of, selected
from mcpproxy.report.text import count_text
from mcpproxy.sanitise import sanitise


def parser() -> argparse.ArgumentParser:
    """The arguments of `export`."""
    parser = Parser("export", __doc__)
    parser.add_argument("place", metavar="DIR", help="the folder to write to; created if it does not exist")
    add_captures(parser)
    parser.add_argument(
        "--format", choices=("parquet", "csv", "duckdb"), default="parquet", help="what to write (default: parquet)"
    )
    parser.add_argument("--findings", action="store_true", help="run the rules, too, and write their findings")
    parser.add_argument("--force", action="store_true", help="replace existing files")
    return parser


def run(arguments: list[str]) -> int:
    """Write the files; returns 2 if a capture is damaged or cannot be read, or a file already exists."""
    options = parser().parse_args(arguments)
    if not options.place:
        return fail("the name of the folder to write to is empty")
    with selected(options.capture, scope_of(options)) as chosen:
        return _export(chosen.paths, options)


def _export(paths: list[Path], options: argparse.Namespace) -> int:
    # Loading DuckDB takes a tenth of a second, for which --help should not wait.
    from analysis.store.open import Sources, with_sources
    from analysis.store.table_export import Done, export
    from mcpproxy.sql.session import Progress, of_cache_size, tell_of_losses

    with Progress() as progress:

        def write(sources: Sources) -> tuple[Done | None, Sources]:
            if not sources.readable:
                return None, sources
            done = export(
                sources.readable,
                options.format,
                Path(options.place),
                findings=options.findings,
                force=options.force,
                progress=progress.tell,
            )
            return done, sources

        done, sources = with_sources(paths, write, findings=options.findings, progress=progress.tell)
    for notice in (*of_cache_size(), *sources.doubles, *(str(error) for _, error in sources.refused)):
        say(notice)
    if done is None:
        return fail("no capture could be read, so nothing was written")
    for _, error in done.refused:
        say(str(error))
    for table in dict.fromkeys(file.table for file in done.files):
        files = [file for file in done.files if file.table == table]
        rows = count_text(sum(file.rows for file in files), "row")
        where = str(files[0].path) if len(files) == 1 else f"{count_text(len(files), 'file')} below {options.place}"
        sys.stdout.write(f"{table or 'all tables':<15} {rows:>14}  {sanitise(where)}\n")
    sys.stdout.flush()
    is_damaged = tell_of_losses(done.losses, "the rest was written")
    return int(Exit.USAGE if sources.refused or done.refused or is_damaged else Exit.FINE)
