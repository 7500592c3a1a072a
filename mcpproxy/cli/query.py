"""Query captures in SQL: `mcpproxy query "select * from latency"`.

The first argument is the SQL. If it is a single word, all arguments are captures, and the SQL is read from -f or stdin;
on a terminal, a prompt asks for it. `--views` lists the views and tables. SQL runs in a sandboxed process that can read
the captures and nothing else.
"""

import argparse
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from analysis.store.dialects import spark_tables, spark_views
from analysis.store.reference import Relation, relation_names
from analysis.store.sandbox.parent import DEFAULT_MEMORY_BYTES, DEFAULT_TIMEOUT_S, Limits
from analysis.store.sandbox.protocol import Column, QueryError, Value
from captures.errors import CaptureError, NotACapture
from captures.new_file import new_file
from mcpproxy.cli.arguments import SHORT_FORM, Parser, add_json, add_memory
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.outputs import check_file_output
from mcpproxy.cli.selection import add_scope, scope_of, select_captures
from mcpproxy.cli.shell import run_shell
from mcpproxy.report.output import safe_for_stdout, set_up_stdout, width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.sql.session import SqlSession, column_rows, relation_of, relation_rows, report_error
from mcpproxy.sql.sql_results import csv_lines, json_lines, markdown_lines, names_of, reference_lines, table_lines
from mcpproxy.wording.spans import Style
from mcpproxy.wording.wrapping import wrapped

FORMATS: Final = ("table", "json", "csv", "markdown", "parquet")
DIALECTS: Final = ("spark",)
_FORMAT_OF_SUFFIX: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".md": "markdown",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".txt": "table",
    "": "table",
}
_SPARK_INTRODUCTION: Final = """\
-- The tables, empty. After this, replace those that the data set at LAKE has a folder for, each like this:
-- create or replace temporary view exchanges using parquet options (path 'LAKE/exchanges')

"""
_REFERENCE: Final = "reference"
"""The format of --views and --schema: a table whose cells are never cut."""
_MAX_TIMEOUT_S: Final = 864_000
_SQL_BEGINNING: Final = re.compile(r"\s*(?:select|from|with|describe|summarize|show|pivot|create)\s", re.IGNORECASE)
_MAX_SQL_BYTES: Final = 16 << 20
"""The maximum number of bytes of SQL read from a file."""


def _parse_time(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|)", text)
    time_s = float(match[1]) * (60 if match[2] == "m" else 1) if match else 0
    if not 0 < time_s <= _MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a time such as 90 (seconds) or 5m, of at most ten days")
    return time_s


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `query`."""
    parser = Parser("query", __doc__)
    parser.add_argument(
        "capture",
        nargs="*",
        metavar="SQL|CAPTURE",
        help="the SQL, then captures, folders, server names, or - for stdin (default: the newest capture)",
    )
    add_scope(parser)
    parser.add_argument("-f", "--file", metavar="F", help="read the SQL from a file, or from stdin if F is -")
    parser.add_argument("--views", action="store_true", help="list the views and tables")
    parser.add_argument("--dialect", choices=DIALECTS, help="with --views: print the SQL that makes them in Spark")
    parser.add_argument("--schema", metavar="VIEW", help="show the columns of a view or table, with an example")
    parser.add_argument(
        "-o",
        "--output",
        metavar="F",
        help="write the result to a file, which appears once it is complete; - means stdout",
    )
    parser.add_argument("--force", action="store_true", help="let --output replace a file")
    parser.add_argument(
        "--format", choices=FORMATS, help="default: by the file's extension, else table; parquet needs --output"
    )
    add_json(parser, SHORT_FORM)
    add_memory(parser, DEFAULT_MEMORY_BYTES, "how much memory a query may use (default: 2G)")
    parser.add_argument(
        "--timeout",
        type=_parse_time,
        default=DEFAULT_TIMEOUT_S,
        metavar="TIME",
        help="how long a query may take, including the output to a file: seconds, or minutes with an m (default: 60)",
    )
    return parser


def run(arguments: list[str]) -> int:
    """Run the SQL; returns 2 if it fails or a capture is damaged, 73 if the file cannot be written."""
    set_up_stdout("text")
    options = parser().parse_intermixed_args(arguments)
    if options.output == "-":
        options.output = None
    options.given_format = options.format is not None
    if options.dialect is not None and not options.given_format:
        options.format = "table"  # a file of SQL may have any name
    options.format = options.format or _format_of(options.output)
    set_up_stdout("text" if options.format in (None, "table", "markdown") else options.format)
    problem = _options_error(options)
    if problem is not None:
        return fail(problem)
    try:
        if options.views or options.schema is not None:
            if options.output is not None:
                check_file_output(options.output, [], force=options.force)
            return _describe(options)
        sql = _read_sql(options)
        limits = Limits(options.memory, options.timeout)
        with select_captures(options.capture, scope_of(options)) as selection:
            if options.output is not None:
                check_file_output(options.output, selection.paths, force=options.force)
            with SqlSession(selection.paths, limits, hear=say) as session:
                return _run_sql(session, sql, options)
    except QueryError as error:
        report_error(error, say)
        return int(Exit.USAGE)
    except NotACapture as error:
        return fail(f"{error}{_view_hint(options.capture)}")


def _run_sql(session: SqlSession, sql: str | None, options: argparse.Namespace) -> int:
    if sql is None:
        return run_shell(
            session,
            show=partial(_write_stdout, form=options.format),
            describe=partial(_write_stdout, form=_description_format(options.format)),
        )
    answer = session.run_query(sql, counts_reader=options.output is not None or _goes_to_file())
    _write_result(answer.columns, answer, options, answer.until_s)
    return int(Exit.USAGE if session.is_incomplete else Exit.FINE)


def _format_of(output: str | None) -> str | None:
    """Return the format for the extension of the output file, or None if the extension is unknown."""
    return _FORMAT_OF_SUFFIX.get(Path(output).suffix.lower()) if output else "table"


def _options_error(options: argparse.Namespace) -> str | None:
    if options.format is None:
        extensions = ", ".join(name for name in sorted(_FORMAT_OF_SUFFIX) if name)
        return (
            f"{sanitise(options.output)} has no extension of a known format ({extensions}); rename it, or use --format"
        )
    if options.format == "parquet" and options.output is None:
        return "--format parquet needs a file: -o FILE"
    if options.force and options.output is None:
        return "--force needs -o FILE"
    if options.dialect is not None and not options.views:
        return "--dialect needs --views: it prints their SQL"
    if options.dialect is not None and options.given_format:
        return "--dialect prints SQL, and takes no --format or --json"
    if options.views + (options.schema is not None) + (options.file is not None) > 1:
        return "use only one of --views, --schema and --file; see mcpproxy query --help"
    return None


# ---- the SQL


def _read_sql(options: argparse.Namespace) -> str | None:
    """Read the SQL from a file or stdin, or remove it from the operands; returns None if a prompt should ask for it."""
    if options.file is not None:
        return _read_sql_file(options.file)
    if options.capture and len(options.capture[0].split()) != 1:
        text: str = options.capture.pop(0)
        return text
    if any(_SQL_BEGINNING.match(word) and not os.path.lexists(word) for word in options.capture[1:]):
        raise QueryError("empty", "put the SQL first, then the captures; see mcpproxy query --help")
    if sys.stdin is None:
        raise QueryError("empty", "no SQL was given, and stdin is closed; see mcpproxy query --help")
    if sys.stdin.isatty():
        return None
    if "-" in options.capture:
        raise QueryError("empty", "stdin is the capture, so the SQL has to be an argument or in a file (-f)")
    return _read_sql_file("-")


def _read_sql_file(name: str) -> str:
    if name == "-" and sys.stdin is None:
        raise CaptureError("cannot read SQL from stdin: it is closed")
    try:
        # One byte more than allowed shows that the file is too long.
        if name == "-":
            data = sys.stdin.buffer.read(_MAX_SQL_BYTES + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(_MAX_SQL_BYTES + 1)
    except OSError as error:
        raise CaptureError(f"cannot read SQL from {name}: {error.strerror}") from error
    if len(data) > _MAX_SQL_BYTES:
        raise CaptureError(f"cannot read SQL from {name}: it has more than {_MAX_SQL_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaptureError(f"cannot read SQL from {name}: it is not UTF-8") from error


def _view_hint(words: list[str]) -> str:
    """Return a hint if the name of a view was typed instead of SQL, else an empty text."""
    word = words[0] if words else ""
    return f'; to query that view: mcpproxy query "from {word}"' if word in relation_names() else ""


# ---- the views and tables


def _describe(options: argparse.Namespace) -> int:
    """Run `--views` or `--schema`, which need no capture; returns the exit code."""
    if options.dialect is not None:
        _write_sql(options)
        return int(Exit.FINE)
    options.format = _description_format(options.format)
    if options.views:
        _write_result(*relation_rows(), options)
        return int(Exit.FINE)
    relation = relation_of(options.schema, "--views")
    _write_result(*column_rows(relation), options)
    if options.format == _REFERENCE and options.output is None:
        sys.stdout.write(_relation_text(relation))
    return int(Exit.FINE)


def _write_sql(options: argparse.Namespace) -> None:
    """Write the statements that create the tables and views in Spark, in an order that works."""
    lines = [_SPARK_INTRODUCTION, *(text + ";\n\n" for text in (*spark_tables().values(), *spark_views().values()))]
    if options.output is None:
        sys.stdout.writelines(lines)
        return
    with (
        new_file(Path(options.output), replace=options.force, advice="; --force replaces it") as path,
        path.open("w", encoding="utf-8") as file,
    ):
        file.writelines(lines)


def _description_format(form: str) -> str:
    """Return the format for descriptions, in place of a table, which would cut the texts."""
    return _REFERENCE if form == "table" else form


def _relation_text(relation: Relation) -> str:
    lines = ["", *wrapped(f"{relation.name}: {relation.row}", _width())]
    if relation.about:
        lines += ["", *wrapped(relation.about, _width())]
    if relation.example:
        lines += ["", *(f"    {line}" for line in relation.example.split("\n"))]
    return "\n".join(lines) + "\n"


# ---- output


def _width() -> int:
    return max(20, shutil.get_terminal_size().columns)


def _goes_to_file() -> bool:
    """Whether stdout is a file or /dev/null; a pipe may lead to a pager, whose user takes time to read."""
    try:
        mode = os.fstat(1).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(1))


def _lines(columns: list[Column], rows: Iterable[tuple[Value, ...]], form: str, style: Style) -> Iterator[str]:
    if not columns:
        return
    if form == "csv":
        yield from csv_lines(columns, rows)
        return
    if form == "table":
        lines = table_lines(columns, rows, max(20, width_of_stdout()), style)
    elif form == _REFERENCE:
        lines = reference_lines(columns, rows, _width(), style)
    else:
        lines = json_lines(columns, rows) if form == "json" else markdown_lines(columns, rows)
    for line in lines:
        yield line + "\n"


def _write_stdout(columns: list[Column], rows: Iterable[tuple[Value, ...]], form: str) -> None:
    lines = _lines(columns, rows, form, Style.for_stream(sys.stdout, os.environ))
    if form in ("json", "csv") and sys.stdout.isatty():
        lines = (_without_controls(line, form) for line in lines)
    sys.stdout.writelines(lines)


def _without_controls(line: str, form: str) -> str:
    """Return a line of JSON or CSV for a terminal, without control characters; programs get the line unchanged."""
    text = line.rstrip("\r\n")
    if text.isascii() and text.isprintable():
        return text + "\n"
    return (safe_for_stdout(text) if form == "json" else sanitise(text, None)) + "\n"


def _write_result(
    columns: list[Column],
    rows: Iterable[tuple[Value, ...]],
    options: argparse.Namespace,
    until_s: float | None = None,
) -> None:
    if options.output is None:
        _write_stdout(columns, rows, options.format)
        return
    with new_file(Path(options.output), replace=options.force, advice="; --force replaces it") as path:
        if options.format == "parquet":
            from analysis.store.parquet import write_parquet

            if not columns:
                raise QueryError("empty", "the statement has no rows to write")
            write_parquet(path, columns, names_of(columns), rows, until_s)
        else:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.writelines(_lines(columns, rows, options.format, Style()))
