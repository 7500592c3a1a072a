"""Send the client's half of a capture to a real server again, and compare what comes back.

Write the server after the options: -- COMMAND [ARGUMENT ...], or a URL. The messages are sent in the recorded order,
and as concurrently as recorded. Ids, cursors and sessions that the server chooses now replace the recorded ones, and
its requests get the recorded answers. The new conversation is recorded, and compared as `mcpproxy compare` does.

Calls of tools that are not marked as read-only are listed, and nothing is sent without --yes.

Exit code: 0 if nothing changed, except what varies by itself, 1 if something did, 2 if this could not be determined.
"""

import argparse
import re
from typing import Final

from analysis.comparison.kind import FailOn
from analysis.filter import FilterError
from captures.addresses import is_web_address
from mcpproxy.cli.arguments import Parser, add_color, add_format, report_filter_error
from mcpproxy.cli.compare_options import (
    DEFAULT_PAGE,
    HTML,
    FailOnChoice,
    add_fail_on,
    add_ignored,
)
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.replay_headers import HeaderError, header_fields
from mcpproxy.cli.replay_run import ReplayRun, Target
from mcpproxy.report.comparison import FORMATS
from mcpproxy.sanitise import sanitise

_DEFAULT_WORDS: Final[frozenset[FailOn]] = frozenset(("breaking", "may-break", "outcome", "finding", "value"))
_UNIT_NS: Final = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "": 1_000_000_000}
_USAGE: Final = "mcpproxy replay CAPTURE [OPTION ...] -- COMMAND [ARGUMENT ...], or mcpproxy replay CAPTURE URL"


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `replay`."""
    return _parser()


def _parser() -> Parser:
    own_parser = Parser("replay", __doc__)
    own_parser.add_argument("capture", metavar="CAPTURE", help="a capture, a server name, or - for stdin")
    own_parser.add_argument("url", metavar="URL", nargs="?", help="the server's URL, instead of -- COMMAND")
    own_parser.add_argument(
        "--only", metavar="FILTER", default="", help="send, and compare, only calls that FILTER selects"
    )
    own_parser.add_argument(
        "--yes", action="store_true", help="also send calls of tools that are not marked as read-only"
    )
    own_parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: env:VARIABLE'",
        help="send this header field, whose value is in an environment variable, to a URL; a scheme can precede it, "
        "as in 'Authorization: Bearer env:TOKEN'; can be repeated",
    )
    own_parser.add_argument(
        "--capture",
        dest="new_capture",
        metavar="FILE|DIR/",
        help="record to a new FILE.mcpcap, or to a new file in DIR (default: the user's data directory)",
    )
    own_parser.add_argument(
        "--speed",
        type=_speed,
        metavar="max|N",
        help="max: send each message as soon as the answers before it have come (default); 1: with the pauses as "
        "recorded; 2: twice as fast",
    )
    own_parser.add_argument(
        "--timeout",
        type=_duration_ns,
        default=30_000_000_000,
        metavar="TIME",
        help="how much longer than in the recording to wait for an answer, such as 500ms, 30s or 2m (default: 30s)",
    )
    default = FailOnChoice(_DEFAULT_WORDS, is_given=False)
    add_fail_on(own_parser, default, "breaking,may-break,outcome,finding,value")
    add_ignored(own_parser)
    own_parser.add_argument(
        "-o",
        "--output",
        metavar="F",
        help=f"write the comparison to this file instead of stdout; --format html writes {DEFAULT_PAGE} if none is "
        "given",
    )
    own_parser.add_argument("--force", action="store_true", help="replace an existing file of -o")
    add_color(own_parser)
    add_format(own_parser, *(name for name in FORMATS if name not in ("text", "json")), HTML)
    return own_parser


def run(arguments: list[str]) -> int:
    """Replay and compare; returns the exit code."""
    words, command = _split_at_command(arguments)
    options = _parser().parse_intermixed(words)
    try:
        target = _target(options, command)
    except (HeaderError, ValueError) as error:
        return fail(str(error))
    _complete(options)
    if options.no_findings and options.fail_on.is_given and "finding" in options.fail_on.words:
        return fail("--no-findings cannot be combined with --fail-on finding, which needs them")
    try:
        return ReplayRun(options, target).run()
    except FilterError as error:
        report_filter_error(error, "--only")
        return int(Exit.USAGE)


def _complete(options: argparse.Namespace) -> None:
    """Give the options of `compare` that `replay` has under another name, or not at all, their values."""
    options.filter = options.only
    options.baseline = None
    options.update_baseline = False
    if options.format == HTML and options.output is None:
        options.output = DEFAULT_PAGE
    if options.no_findings and not options.fail_on.is_given:
        options.fail_on = options.fail_on._replace(words=options.fail_on.words - {"finding"})


def _split_at_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _target(options: argparse.Namespace, command: list[str]) -> Target:
    """Returns the server that the user named.

    Raises:
        ValueError: there is none, or more than one.
        HeaderError: an option `--header` is not valid.
    """
    if options.url is not None and command:
        raise ValueError(f"there are two servers, {sanitise(options.url)} and the one after --; type {_USAGE}")
    words = command or ([options.url] if options.url else [])
    if not words or not words[0]:
        raise ValueError(f"the server is missing; type {_USAGE}")
    is_url = is_web_address(words[0].encode("utf-8", "surrogateescape"))
    if options.url and not is_url:
        raise ValueError(f"{sanitise(options.url)} is not a URL; a command goes after --: {_USAGE}")
    if not is_url and options.header:
        raise ValueError("--header is for a URL; a command inherits the environment")
    if is_url and len(words) > 1:
        raise ValueError(f"there are words after the URL {sanitise(words[0])}; options go before it")
    return Target(tuple(words), is_url, header_fields(options.header))


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    if not re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r:.40} is neither max nor a number above 0, such as 1 or 2")
    return float(text)


def _duration_ns(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m|)", text)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a time such as 500ms, 30s or 2m")
    return int(float(match[1]) * _UNIT_NS[match[2]])
