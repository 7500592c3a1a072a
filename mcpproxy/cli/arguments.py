"""The argument parser of every command except `run`; its errors are one line on stderr, like all of mcpproxy's errors.

Arguments are parsed before a command prints anything, help included, so this is where stdout is set up.
"""

import argparse
import os
import re
import sys
import time
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn

from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.recorder.machine_name import checked_name
from mcpproxy.report.output import set_up_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.nearest import hint

SHORT_FORM: Final = "the same as --format json"
_UNIT_BYTES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MIN_MEMORY_BYTES: Final = 64 << 20
_MAX_MEMORY_BYTES: Final = 1 << 50
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def count(text: str) -> int:
    """Parse a count of up to nine digits.

    Raises:
        argparse.ArgumentTypeError: it is not a count.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number of up to nine digits")
    return int(text)


def add_machine(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add `--machine NAME`: a name that the user chooses for this machine."""
    parser.add_argument("--machine", type=_machine, metavar="NAME", help=help_text)


def _machine(text: str) -> str:
    try:
        return checked_name(text, "the name")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def memory(text: str) -> int:
    """Parse an amount of memory in bytes, such as `512M` or `4G`; at least 64M.

    Raises:
        argparse.ArgumentTypeError: it is not a valid size.
    """
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", text.upper())
    if not match or not _MIN_MEMORY_BYTES <= int(match[1]) * _UNIT_BYTES[match[2]] <= _MAX_MEMORY_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a size of at least 64M, such as 512M or 4G")
    return int(match[1]) * _UNIT_BYTES[match[2]]


def age(text: str) -> int:
    """Parse an age such as `90m`, `12h`, `30d` or `4w`; returns seconds.

    Raises:
        argparse.ArgumentTypeError: it is not an age.
    """
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not an age such as 30d, 12h or 90m")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def moment(text: str) -> int:
    """Parse an age, or an ISO 8601 date with or without a time, local if it has no zone; returns ns since 1970.

    Raises:
        argparse.ArgumentTypeError: the text is neither an age nor a date.
    """
    return _moment(text, timedelta())


def span_end(text: str) -> int:
    """Parse the end of a time span like `moment`, but read a date without a time as the end of that day."""
    return _moment(text, timedelta(days=1))


def _moment(text: str, date_offset: timedelta) -> int:
    if re.fullmatch(r"[0-9]{1,9}[smhdw]", text):
        return time.time_ns() - age(text) * 1_000_000_000
    try:
        date = datetime.fromisoformat(text)
        offset = date_offset if re.fullmatch(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}", text) else timedelta()
        return int((date + offset).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r:.40} is neither an age such as 2h or 3d nor a date such as 2026-11-20 or 2026-11-20T10:15"
        ) from None


_UNRECOGNIZED_PREFIX: Final = "unrecognized arguments: "
"""The beginning of argparse's message about options that a command does not have."""


class Parser(argparse.ArgumentParser):
    """The parser of a command. Options cannot be abbreviated: a new option could change an abbreviation's meaning."""

    def __init__(self, command: str, description: str | None) -> None:
        """Create a parser without arguments; `description` is the docstring of the command's module."""
        super().__init__(
            f"mcpproxy {command}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments, and set stdout up for the chosen format."""
        set_up_stdout("text")
        options = super().parse_args(args, namespace)
        set_up_stdout(getattr(options, "format", "text"))
        return options

    def parse_intermixed(self, args: list[str]) -> argparse.Namespace:
        """Parse arguments in which options and operands of several kinds may be mixed."""
        set_up_stdout("text")
        options = self.parse_intermixed_args(args)
        set_up_stdout(getattr(options, "format", "text"))
        return options

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Reject a word that is not one of the choices, and suggest the nearest ones."""
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            text = f"{str(value)!r:.80} is not one of {', '.join(words)}{hint(str(value), words)}"
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        """Exit with one line about the error; argparse itself would also print the usage."""
        unknown_options = message.removeprefix(_UNRECOGNIZED_PREFIX)
        option = unknown_options.split(" ", 1)[0].partition("=")[0]
        suggestion = (
            hint(option, self._option_string_actions) if unknown_options != message and option.startswith("--") else ""
        )
        raise SystemExit(fail(f"{sanitise(message)}{suggestion}; see {self.prog} --help", Exit.USAGE))


def add_format(parser: argparse.ArgumentParser, *more: str, of_json: str = "one JSON object per line") -> None:
    """Add `--format text|json` and its short form `--json`.

    Args:
        parser: the command's parser.
        more: further formats.
        of_json: the description of `json` in the help, if there are no further formats.
    """
    formats_help = "human-readable text (default), JSON lines, or a format for other tools"
    parser.add_argument(
        "--format",
        choices=("text", "json", *more),
        default="text",
        help=formats_help if more else f"human-readable text (default), or {of_json}",
    )
    add_json(parser, SHORT_FORM)


def add_json(parser: argparse.ArgumentParser, help_: str = "print one JSON object per server") -> None:
    """Add `--json`.

    Args:
        parser: the command's parser.
        help_: the help text; `SHORT_FORM` for a command that also has `--format`.
    """
    parser.add_argument("--json", action="store_const", const="json", dest="format", help=help_)


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add `--color auto|always|never`."""
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="default: auto, which respects NO_COLOR"
    )


def add_follow(parser: argparse.ArgumentParser) -> None:
    """Add `--follow`."""
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="follow the session that is being recorded, or wait for the next one",
    )


def add_memory(parser: argparse.ArgumentParser, default: int, help_: str) -> None:
    """Add `--memory`, with a default in bytes."""
    parser.add_argument("--memory", type=memory, default=default, metavar="SIZE", help=help_)


def report_filter_error(error: ValueError, option: str = "--filter") -> None:
    """Report an invalid filter expression on stderr, without the caret if line wrapping would misplace it."""
    reason, *lines = f"{option}: {error}".split("\n")
    if lines and sys.stderr is not None and sys.stderr.isatty():
        width = os.get_terminal_size(sys.stderr.fileno()).columns - len("mcpproxy: ")
        del lines[1 if 0 < width < max(map(cells, lines)) else len(lines) :]
    for line in (reason, *lines):
        say(line)
