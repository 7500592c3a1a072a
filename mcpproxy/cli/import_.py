"""Convert logs and traces from other programs into captures.

The format of FILE is recognised, or is given with --from. Each conversation becomes a capture. Existing files are never
overwritten.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from captures.errors import CaptureError
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.capture_files import CaptureFiles, check_output
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.limited_reports import LimitedReports
from mcpproxy.importers.conversations import Conversations
from mcpproxy.importers.form import Form, fitting_forms, forms
from mcpproxy.importers.log_items import LeftOut, Remark
from mcpproxy.importers.source import InvalidLine, Log

_is_capture: Final = re.compile(rb'\{"seq":[0-9]+,"rec":"').match
_ARCHIVE_PREFIXES: Final = (
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"7z\xbc\xaf\x27\x1c",
)
"""The first bytes of zip, gzip, bzip2, xz, zstd and 7z files."""
_TAR_MAGIC: Final = slice(257, 262), b"ustar"
"""The span of a tar archive that contains its magic bytes, and these bytes."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `import`."""
    parser = Parser("import", __doc__)
    parser.add_argument("file", metavar="FILE", help="the file to import, or - for stdin")
    parser.add_argument(
        "--from",
        dest="form",
        metavar="FORMAT",
        choices=list(forms()),
        help=f"the format of FILE, if it is not recognised: one of {', '.join(forms())}",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE|DIR/",
        help="a new .mcpcap file for a log with one conversation, or a folder (default: the folder of captures)",
    )
    parser.add_argument("--case", metavar="NAME", help="import only conversations with this name")
    return parser


def run(arguments: list[str]) -> int:
    """Import a log; returns 2 if part or all of FILE was not imported, 73 if a capture cannot be created."""
    options = parser().parse_args(arguments)
    check_output(options.output)
    with _open_log(options.file) as file:
        path = None if options.file == "-" else Path(options.file).absolute()
        try:
            log = Log(file, path.name, path.parent.name) if path else Log(file, "")
        except OSError as error:
            raise CaptureError(f"cannot read {options.file}: {error.strerror}") from error
        _check_kind(log.head, options.file)
        name = options.form or _recognise_format(log, options.file)
        return _import(log, name, options)


@contextmanager
def _open_log(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        if sys.stdin is None:
            raise CaptureError("cannot import from stdin: it is closed")
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - the errors below are only about opening the file
    except IsADirectoryError:
        raise CaptureError(f"cannot import {name}: it is a folder; name a file in it") from None
    except OSError as error:
        raise CaptureError(f"cannot import {name}: {error.strerror}") from error
    with file:
        yield file


def _check_kind(head: bytes, name: str) -> None:
    """Checks that a file could be a log.

    Raises:
        CaptureError: it is empty, a capture or an archive.
    """
    if not head.strip():
        raise CaptureError(f"cannot import {name}: it is empty")
    if _is_capture(head):
        raise CaptureError(f"cannot import {name}: it is already a capture; `mcpproxy show` shows it")
    span, magic = _TAR_MAGIC
    if head.startswith(_ARCHIVE_PREFIXES) or head[span] == magic:
        raise CaptureError(f"cannot import {name}: it is an archive; unpack it, and import the log in it")


def _recognise_format(log: Log, name: str) -> str:
    """Returns the name of the format that a log seems to have.

    Raises:
        CaptureError: no format fits, or several do.
    """
    matching_forms = fitting_forms(log)
    if len(matching_forms) == 1:
        return matching_forms[0]
    if matching_forms:
        titles = " or ".join(f"{forms()[form].title} ({form})" for form in matching_forms)
        raise CaptureError(f"cannot import {name}: it may be {titles}; choose with --from")
    raise CaptureError(
        f"cannot import {name}: its format is not recognised; choose one with --from: {', '.join(forms())}"
    )


def _import(log: Log, form_name: str, options: argparse.Namespace) -> int:
    form, remarks = forms()[form_name], []
    omissions = LimitedReports(lambda omission: say(f"not imported from {options.file}: {omission}"))
    with CaptureFiles(options.output) as files:
        conversations = Conversations(form_name, form, files.create)
        try:
            for item in form.read(log):
                if isinstance(item, Remark):
                    remarks.append(item.text)
                elif options.case is not None and item.name != options.case:
                    continue
                elif isinstance(item, LeftOut):
                    omissions.report_or_count(_omission(item))
                    conversations.mark_loss(item)
                elif left_out := conversations.add(item):
                    omissions.report_or_count(_omission(left_out))
        except InvalidLine as error:
            raise CaptureError(f"cannot import {options.file}: {error}") from None
        conversations.close()
        remarks += conversations.remarks()
    return _report(form_name, form, files, omissions, remarks, options)


def _report(
    form_name: str,
    form: Form,
    files: CaptureFiles,
    omissions: LimitedReports,
    remarks: list[str],
    options: argparse.Namespace,
) -> int:
    """Report what was left out and what the captures lack; returns the exit code."""
    if omissions.unreported_count:
        hint = "" if files.count or files.exit_code else f"; is it in another format than {form_name}?"
        say(f"not imported from {options.file}: {omissions.unreported_count:,} more{hint}")
    if files.count:
        for remark in [*remarks, *([form.limitation] if form.limitation else [])]:
            say(remark)
    elif omissions.count and not omissions.unreported_count and not files.exit_code:
        say(f"nothing was imported from {options.file}")
    elif not (files.exit_code or omissions.count):
        if options.case is not None:
            return fail(f"cannot import {options.file}: it contains no conversation named {options.case}")
        hint = f"; {form.limitation}" if form.limitation else ""
        return fail(f"cannot import {options.file}: it contains no conversation{hint}")
    code = max(files.exit_code, int(Exit.USAGE if omissions.count else Exit.FINE))
    if code == Exit.FINE:
        files.check_report()
    return code


def _omission(left_out: LeftOut) -> str:
    return f"{left_out.place}: {left_out.reason}"
