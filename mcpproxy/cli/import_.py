"""Convert logs and traces from other tools into captures.

  trace      one conversation per line, over stdio or HTTP, with a name: a capture for each, in the folder OUT
  ndjson     one frame per line, {"t":NANOSECONDS,"dir":"c2s|s2c","raw":"…"}: one capture, OUT or a new file in OUT
  har        HTTP exchanges, from a browser, an HTTP debugger or `mcpproxy export`: a capture for each server, in OUT
  mitmproxy  the same from a flow file of mitmproxy
  mcp-tape   a trace of mcp-tape: one capture, OUT or a new file in OUT

Existing files are never overwritten. A conversation that contains an error is skipped entirely.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from captures.errors import CannotCreate, CaptureError
from captures.file import choose_path, create_directory
from captures.paths import SUFFIX, file_name, safe_name
from captures.publication import new_capture
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.outputs import written_line
from mcpproxy.importers import har, mitmproxy, ndjson
from mcpproxy.importers.exchange_log import servers
from mcpproxy.importers.mcp_tape import Trace
from mcpproxy.importers.source import InvalidLine, read_lines
from mcpproxy.importers.trace import Case, Refused, cases
from mcpproxy.wording.counts import count_text

BATCH = 1 << 20
MISTAKES = 3
"""How many mistakes are reported in full: a file in the wrong format has one on every line."""
FORMS = ("trace", "ndjson", "har", "mitmproxy", "mcp-tape")


def parser() -> argparse.ArgumentParser:
    """The arguments of `import`."""
    parser = Parser("import", __doc__)
    parser.add_argument("file", metavar="FILE", help="the file to import, or - for stdin")
    parser.add_argument("--from", dest="form", choices=FORMS, required=True, help="the format of FILE")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE|DIR/",
        required=True,
        help="trace, har, mitmproxy: a folder; ndjson, mcp-tape: a new file, or a folder",
    )
    parser.add_argument("--case", metavar="NAME", help="trace: import only the conversation with this name")
    return parser


def run(arguments: list[str]) -> int:
    """Import; returns 2 if FILE has a mistake in it, 73 if a capture cannot be created."""
    options = parser().parse_args(arguments)
    if options.case is not None and options.form != "trace":
        return fail(f"--case needs --from trace: conversations in {options.form} have no names")
    with _opened(options.file) as file:
        if options.form == "trace":
            code, _ = _import_cases(cases(read_lines(file)), options)
            return code
        if options.form in ("har", "mitmproxy"):
            return _import_exchanges(file, options)
        return _import_frames(read_lines(file), options)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        if sys.stdin is None:
            raise CaptureError("cannot import from stdin: it is closed")
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - only errors of opening are about the name
    except OSError as error:
        raise CaptureError(f"cannot import {name}: {error.strerror}") from error
    with file:
        yield file


def _import_exchanges(file: BinaryIO, options: argparse.Namespace) -> int:
    """Write a capture for each server in a log of HTTP, and report what the log lacks."""
    bodiless, unreadable = 0, ""
    try:
        if options.form == "har":
            entries = har.read(file)
            log, others, unreadable = entries.log, entries.others, _unreadable(entries.unreadable)
        else:
            flows = mitmproxy.read(file)
            log, others, bodiless = flows.log, flows.others, flows.bodiless
        sorted_log = servers(log, options.form)
    except InvalidLine as wrong:
        raise CaptureError(f"cannot import {options.file}: {wrong}") from None
    if not sorted_log.cases:
        why = f"; {unreadable}" if unreadable else ""
        return fail(f"cannot import {options.file}: none of its {count_text(len(log), 'HTTP exchange')} is MCP{why}")
    code, count = _import_cases(sorted_log.cases, options)
    if not count:
        return code
    if sorted_log.left_out or others:
        say(f"{count_text(sorted_log.left_out + others, 'other exchange')} left out: not with an MCP server")
    if unreadable:
        say(unreadable)
    if sorted_log.untimed:
        streams = count_text(sorted_log.untimed, "event stream")
        say(f"{streams} without the times of events: all events have the time at which the stream ended")
    if bodiless:
        them = "it" if bodiless == 1 else "them"
        say(f"{count_text(bodiless, 'body', 'bodies')} missing: mitmproxy streamed {them} without keeping {them}")
    lacks = "how bodies were compressed, or" if options.form == "har" else "how bodies were split into chunks, or"
    say(f"a {_NAMED[options.form]} does not record {lacks} connections that failed before a request")
    return code


def _unreadable(places: list[str]) -> str:
    """Which entries were skipped because of their URL, or an empty text if none were."""
    if not places:
        return ""
    more = f" and {count_text(len(places) - 1, 'other entry', 'other entries')}" if len(places) > 1 else ""
    return f"{places[0]}{more} skipped: {'its' if len(places) == 1 else 'their'} URL cannot be read"


_NAMED = {"har": "HAR file", "mitmproxy": "flow file"}


def _import_cases(cases: Iterable[Case | Refused], options: argparse.Namespace) -> tuple[int, int]:
    """Write a capture for each case; a mistake in a case does not affect the others.

    Returns:
        The exit code, and how many captures were written.
    """
    if options.output.endswith(SUFFIX) and not os.path.isdir(options.output):
        why = f"--from {options.form} can write several captures, so -o names a folder"
        return fail(f"cannot write {options.output}: {why}"), 0
    create_directory(options.output)
    code, count, mistakes = int(Exit.FINE), 0, 0
    for case in cases:
        if options.case not in (None, case.name):
            continue
        path = ""
        try:
            if isinstance(case, Refused):
                raise InvalidLine(f"line {case.line}: {case.reason}")
            path = choose_path(str(Path(options.output, file_name(case.name))), "", time.time_ns())
            if os.path.lexists(path):
                raise CannotCreate(f"{path} already exists; choose another folder")
            _write(Path(path), (line for _, line in case.records()))
            count += 1
        except InvalidLine as error:
            mistakes += 1
            code = max(code, int(Exit.USAGE))
            if mistakes <= MISTAKES:
                fail(f"cannot import {options.file}: {f'{case.name}: ' if path else ''}{error}")
        except CannotCreate as error:
            code = max(code, fail(str(error), Exit.CANNOT_CREATE))
    if mistakes > MISTAKES:
        hint = "" if count else f"; is it in another format than {options.form}?"
        fail(f"cannot import {options.file}: {count_text(mistakes - MISTAKES, 'more mistake')}{hint}")
    if not (count or code):
        named = f" named {options.case}" if options.case is not None else ""
        return fail(f"cannot import {options.file}: it contains no case{named}"), 0
    return code, count


def _import_frames(lines: Iterable[bytes], options: argparse.Namespace) -> int:
    path = Path(choose_path(options.output, "", time.time_ns()))
    name = "stdin" if options.file == "-" else safe_name(Path(options.file).stem)
    is_tape = options.form == "mcp-tape"
    try:
        _write(path, Trace(lines, name).records() if is_tape else ndjson.records(lines, name))
    except InvalidLine as wrong:
        raise CaptureError(f"cannot import {options.file}: {wrong}") from None
    if is_tape:
        say("a trace of mcp-tape lacks lines that were not JSON, stderr, and the bytes as they crossed")
    return int(Exit.FINE)


def _write(path: Path, lines: Iterable[bytes]) -> None:
    """Write a new capture of these lines; it appears when it is complete."""
    count = size = 0
    batch: list[bytes] = []
    with new_capture(path) as capture:
        for line in lines:
            count += 1
            batch.append(line)
            size += len(line)
            if size >= BATCH:
                capture.append(b"".join(batch))
                batch, size = [], 0
        capture.append(b"".join(batch))
        written = capture.size
    sys.stdout.write(written_line(path, count_text(count, "record"), written, "`mcpproxy tui` shows it"))
