"""Write a copy of a capture, without its secrets, that you can give to others.

Secrets, e-mail addresses, home directories, users and hosts are replaced by pseudonyms; the conversation stays as it
was. Anything that cannot be parsed, such as stderr, is replaced entirely. The copy is a capture like any other. Review
it before you publish it: no list of secrets is complete.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from mcpproxy.cli.arguments import Parser, add_format, age, report_filter_error
from mcpproxy.cli.diagnostics import Exit, Progress, fail, say
from mcpproxy.cli.outputs import check_copy_output
from mcpproxy.cli.selection import select_captures
from mcpproxy.report.output import json_line

PROGRESS_INTERVAL_S = 0.2


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `share`."""
    parser = Parser("share", __doc__)
    parser.add_argument("capture", help="a capture, a server's name, or - for stdin")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the file to write; its name must end in .mcpcap"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace an earlier redacted copy of that name, or an empty file, but never a recording",
    )
    pattern = "a JSON Pointer with * for any name or index, the name of a member, or re:REGEX; can be repeated"
    parser.add_argument("--keep", metavar="PATTERN", action="append", default=[], help=f"keep what matches: {pattern}")
    parser.add_argument(
        "--redact", metavar="PATTERN", action="append", default=[], help=f"also replace what matches: {pattern}"
    )
    parser.add_argument("--no-bodies", action="store_true", help="replace every value in params, results and errors")
    parser.add_argument(
        "--keep-unparsed",
        action="store_true",
        help="search stderr, broken frames and binary data as text, instead of replacing them entirely",
    )
    parser.add_argument(
        "--personal",
        action="store_true",
        help="also replace telephone numbers, bank accounts (IBAN) and MAC addresses; e-mail addresses, user names, "
        "hosts and IP addresses are replaced without it, except those of examples",
    )
    parser.add_argument(
        "--only", metavar="EXPR", help="only messages that EXPR selects, each with its request or response"
    )
    parser.add_argument("--last", metavar="AGE", type=age, help="only the end of the capture, such as 2m")
    parser.add_argument(
        "--cassette",
        action="store_true",
        help="write a cassette for version control: the same conversation, recorded again, gives the same file",
    )
    parser.add_argument(
        "--keep-times",
        action="store_true",
        help="with --cassette, keep the recorded order and times, which differ each time",
    )
    parser.add_argument("--review", action="store_true", help="ask before each secret is replaced; needs a terminal")
    add_format(parser, of_json="one JSON object")
    return parser


def run(arguments: list[str]) -> int:
    """Write the copy and print the account; returns 2 if the capture is damaged, 73 if the copy cannot be created."""
    options = parser().parse_args(arguments)
    if options.review and not (sys.stdin is not None and sys.stdin.isatty() and os.isatty(2)):
        return fail("--review asks questions, so it needs a terminal")
    if options.keep_times and not options.cassette:
        return fail("--keep-times is only for --cassette: any other copy keeps the times")
    if not options.output:
        return fail("the name of the file to write is empty")
    with select_captures([options.capture]) as selection:
        check_copy_output(options.output, selection.paths[0], force=options.force)
        return _write_copy(selection.paths[0], options)


def _write_copy(path: Path, options: argparse.Namespace) -> int:
    # Loading the rules takes a moment; --help should not wait for it.
    from analysis.filter import FilterError, parse
    from mcpproxy.cli.review import ReviewCancelled, SecretReview
    from mcpproxy.report.sharing import account_lines, account_row
    from mcpproxy.sharing import ShareOptions, redacted_copy
    from mcpproxy.sharing.choices import InvalidPattern, ShareChoices

    try:
        message_filter = None if options.only is None else parse(options.only)
    except FilterError as error:
        report_filter_error(error, "--only")
        return int(Exit.USAGE)
    if message_filter is not None and message_filter.needs_findings:
        return fail(
            "--only cannot use rule, level or has:finding: `share` does not run the rules; use them in `mcpproxy check`"
        )
    progress = _RedactionProgress()
    review = SecretReview(progress.clear) if options.review else None
    try:
        choices = ShareChoices(options.keep, options.redact, review)
        account = redacted_copy(
            path,
            Path(options.output),
            ShareOptions(
                choices,
                keeps_bodies=not options.no_bodies,
                keeps_unparsed=options.keep_unparsed,
                replaces_personal_numbers=options.personal,
                message_filter=message_filter,
                replaces=options.force,
                last_ns=None if options.last is None else options.last * 1_000_000_000,
                is_cassette=options.cassette,
                keeps_times=options.keep_times,
                progress=progress.show,
            ),
        )
    except InvalidPattern as error:
        return fail(str(error))
    except ReviewCancelled:
        return fail("stopped; nothing was written")
    finally:
        progress.clear()
    if options.format == "json":
        sys.stdout.write(json_line(account_row(account)))
    else:
        sys.stdout.write("\n".join(account_lines(account)) + "\n")
    if account.is_damaged:
        say(f"{path} is damaged: the copy has only what is intact; `mcpproxy verify` lists the damage")
    return int(Exit.USAGE if account.is_damaged else Exit.FINE)


class _RedactionProgress:
    """Updates the progress line on a terminal, a few times a second."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._next_s = 0.0

    def show(self, done: int, total: int) -> None:
        """Show what part of the capture has been read, unless the line was updated a moment ago."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + PROGRESS_INTERVAL_S
            self._progress.show(f"redacting, {done / total if total else 1:.0%}")

    def clear(self) -> None:
        """Remove the progress line."""
        self._progress.clear()
