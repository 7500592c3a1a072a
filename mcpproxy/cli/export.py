"""Write captures in the formats of other tools, or send them to a collector.

parquet  a data set that you can add to, from any number of machines: OUT/<table>/day=<day>/<capture>.parquet
csv      a file for each table; text that a spreadsheet would take for a formula is prefixed with a quote
duckdb   OUT, or OUT/captures.duckdb in a folder, with the same views as in `mcpproxy query`
otlp     spans and histograms of OpenTelemetry: a file of OTLP/JSON, or sent with --to
har      the HTTP exchanges, for browsers and HTTP debuggers
perfetto a timeline for Perfetto and Chromium
markdown the conversation for an issue report, as `mcpproxy show --format markdown` prints it

The output is recorded traffic in plain text, including any secrets. --redact replaces what is recognised as a
secret; look at the result before you share it. `mcpproxy share` makes a redacted copy that is a capture, and lists
what it replaced.
"""

import argparse
import re
import sys
from functools import partial
from pathlib import Path
from typing import Final

from analysis.filter import FilterError
from mcpproxy.cli.arguments import Parser, add_follow, report_filter_error
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.message_filter import parse_message_filter
from mcpproxy.cli.outputs import check_file_output, names_recording
from mcpproxy.cli.redacted_copies import command_inputs
from mcpproxy.cli.selection import add_captures
from mcpproxy.exporters.formats import FORMAT_OF_SUFFIX
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.nearest import nearest

TABLE_FORMATS: Final = ("parquet", "csv", "duckdb")
FILE_FORMATS: Final = ("otlp", "har", "perfetto", "markdown")
_DATABASE_SUFFIX: Final = ".duckdb"
_FORMAT_OF_SUFFIX: Final = {**FORMAT_OF_SUFFIX, _DATABASE_SUFFIX: "duckdb"}
_is_file_extension: Final = re.compile(r"\.(?=[0-9]*[A-Za-z])[A-Za-z0-9]{1,8}").fullmatch
"""Matches a file extension, but not a version number or a date at the end of a folder's name."""
_REFUSED_WHILE_FOLLOWING: Final = {
    "has:waiting": "`has:waiting` cannot be used with --follow; `mcpproxy status` lists the requests that are waiting",
}
"""The filter keys that `--follow` does not permit, with the reason."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `export`."""
    parser = Parser("export", __doc__)
    add_captures(parser)
    parser.add_argument(
        "--format",
        choices=(*TABLE_FORMATS, *FILE_FORMATS),
        help="what to write (default: by OUT's ending, if it is .har, .md or .duckdb; otlp with --to; else parquet)",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="the folder or file to write to; without it, the first operand is OUT"
    )
    parser.add_argument(
        "--filter", metavar="EXPR", help="otlp, har, perfetto, markdown: only what EXPR selects, such as name:search"
    )
    parser.add_argument(
        "--redact", action="store_true", help="replace secrets first, as `mcpproxy share` does by default"
    )
    parser.add_argument("--findings", action="store_true", help="tables: run the rules, too, and write their findings")
    parser.add_argument(
        "--payloads", action="store_true", help="otlp: add arguments, results and prompt variables as attributes"
    )
    parser.add_argument(
        "--to", metavar="URL", help="otlp: send to this collector, such as http://localhost:4318, and write no file"
    )
    add_follow(parser)
    parser.add_argument("--force", action="store_true", help="replace existing files")
    return parser


def run(arguments: list[str]) -> int:
    """Export captures; returns 2 if one is damaged or spans are not sent, 73 if a file cannot be written."""
    options = parser().parse_args(arguments)
    is_guessed = options.format is None
    options.format = options.format or _format_of(options)
    problem = _ambiguous_output_error(options) if is_guessed and options.output is not None else None
    problem = problem or _options_error(options)
    if problem is not None:
        return fail(problem)
    try:
        if options.filter is not None:
            options.filter = parse_message_filter(
                options.filter, "export", _REFUSED_WHILE_FOLLOWING if options.follow else {}
            )
    except FilterError as error:
        report_filter_error(error)
        return int(Exit.USAGE)
    if options.to is not None:
        from mcpproxy.cli.collector import send_spans

        return send_spans(options)
    if options.output is None:
        options.output = options.capture.pop(0)
        if names_recording(options.output):
            output_kind = "FOLDER" if options.format in TABLE_FORMATS else "FILE"
            return fail(
                f"{options.output} is recorded traffic, not a place to write to; to export it: "
                f"mcpproxy export {options.output} --format {options.format} -o {output_kind}"
            )
        if is_guessed and (problem := _ambiguous_output_error(options) or _format_name_error(options.output)):
            return fail(problem)
    output_kind = "folder" if options.format in TABLE_FORMATS else "file"
    if not options.output:
        return fail(f"the name of the {output_kind} to write to is empty")
    if options.output == "-":
        return fail(f"export does not write to stdout: name a {output_kind} (./- for a {output_kind} named -)")
    if options.format in TABLE_FORMATS:
        with command_inputs(options) as selection:
            return selection.exit_code(_export_tables(selection.paths, options))
    from mcpproxy.cli.export_file import export_file

    with command_inputs(options, partial(check_file_output, force=options.force)) as selection:
        return selection.exit_code(export_file(selection.paths, options))


def _format_of(options: argparse.Namespace) -> str:
    """Return the format for options without --format: by the extension of OUT, if possible."""
    if options.to is not None:
        return "otlp"
    output = options.output or next(iter(options.capture), "")
    return _FORMAT_OF_SUFFIX.get(Path(output).suffix.lower(), "parquet")


def _ambiguous_output_error(options: argparse.Namespace) -> str | None:
    """Return the error if OUT is named like a file, but the format writes a folder."""
    if (
        options.format not in ("parquet", "csv")
        or not _is_file_extension(Path(options.output).suffix)
        or _is_folder(options.output)
    ):
        return None
    return (
        f"{options.output} looks like the name of a file, but its ending does not determine a format: add --format "
        "otlp, har, perfetto or markdown; parquet and csv write a folder"
    )


def _format_name_error(output: str) -> str | None:
    """Return the error if OUT resembles the name of a format, so it was probably not meant as a folder."""
    format_ = nearest(output, (*TABLE_FORMATS, *FILE_FORMATS), 0.8)
    if format_ is None or _is_folder(output):
        return None
    return (
        f"{sanitise(output)} would be a folder of parquet files; for the format write: --format {format_} -o OUT; "
        f"for the folder: -o {sanitise(output)}"
    )


def _is_folder(output: str) -> bool:
    return output.endswith("/") or Path(output).is_dir()


def _options_error(options: argparse.Namespace) -> str | None:
    """Return the error in the combination of options, if any."""
    is_table = options.format in TABLE_FORMATS
    if options.to is not None:
        return _sending_error(options)
    if options.follow:
        return "--follow needs --to: files are written when a capture is complete"
    if options.output is None and not options.capture:
        reason = "the following arguments are required: OUT" if is_table else "no file to write to: give -o FILE"
        return f"{reason}; see mcpproxy export --help"
    if options.findings and not is_table:
        return "--findings needs --format parquet, csv or duckdb"
    if options.filter is not None and is_table:
        return f"--filter does not apply to {options.format}; `mcpproxy query -o FILE` writes the rows that SQL selects"
    if options.payloads and options.format != "otlp":
        return "--payloads needs --format otlp; the other formats always have arguments and results"
    return None


def _sending_error(options: argparse.Namespace) -> str | None:
    if options.format != "otlp":
        return f"--to sends otlp, not {options.format}"
    if options.output is not None or options.force:
        return "--to writes no file, so it cannot be combined with -o or --force"
    if options.findings:
        return "--findings needs --format parquet, csv or duckdb"
    if options.follow and options.redact:
        return "--redact needs captures that have ended, so it cannot be combined with --follow"
    return None


def _export_tables(paths: list[Path], options: argparse.Namespace) -> int:
    # Loading DuckDB takes a tenth of a second; --help should not wait for it.
    from analysis.store.open import Sources, use_sources
    from analysis.store.table_export import DATABASE_NAME, ExportResult, export
    from mcpproxy.sql.session import ProgressLine, cache_size_warning, report_losses

    folder, database = Path(options.output), DATABASE_NAME
    if options.format == "duckdb" and folder.suffix.lower() == _DATABASE_SUFFIX and not _is_folder(options.output):
        folder, database = folder.parent, folder.name
    with ProgressLine() as progress:

        def write(sources: Sources) -> tuple[ExportResult | None, Sources]:
            if not sources.readable:
                return None, sources
            result = export(
                sources.readable,
                options.format,
                folder,
                findings=options.findings,
                force=options.force,
                names_only=options.redact,
                database=database,
                progress=progress.update,
            )
            return result, sources

        result, sources = use_sources(paths, write, findings=options.findings, progress=progress.update)
    for notice in (*cache_size_warning(), *sources.duplicate_notices, *(str(error) for _, error in sources.refused)):
        say(notice)
    if result is None:
        return fail("no capture could be read, so nothing was written")
    for _, error in result.refused:
        say(str(error))
    for table in dict.fromkeys(file.table for file in result.files):
        files = [file for file in result.files if file.table == table]
        rows = count_text(sum(file.rows for file in files), "row")
        location = str(files[0].path) if len(files) == 1 else f"{count_text(len(files), 'file')} below {options.output}"
        sys.stdout.write(f"{table or 'all tables':<15} {rows:>14}  {sanitise(location)}\n")
    sys.stdout.flush()
    is_damaged = report_losses(result.losses, "the rest was written", say)
    return int(Exit.USAGE if sources.refused or result.refused or is_damaged else Exit.FINE)
