"""What the commands that print have in common: `--format`, `--json`, and one JSON object a line."""

import argparse
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson

from mcpproxy.sanitise import sanitise

# With the character before: a combining mark is drawn onto it.
_FOREIGN: Final = re.compile(r"[ -~]?[^ -~]+")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add `--format text|json` and its short form `--json`."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people (default), or one JSON object a line",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def json_line(row: Mapping[str, Any]) -> str:
    """One object as a line of JSON. Text that is no Unicode (a file's name, say) is written with escapes."""
    try:
        return for_stdout(orjson.dumps(row, default=str).decode()) + "\n"
    except (TypeError, orjson.JSONEncodeError):
        import json

        return json.dumps(row, default=str) + "\n"


def for_stdout(line: str) -> str:
    """One line of JSON, with escapes in place of all that could act on a terminal where stdout is one.

    Programs get the text as it is. Escaped or not, it means the same: of what is replaced, control characters can only
    stand between the tokens of JSON, where they are blanks, and everything else only inside strings.
    """
    return _FOREIGN.sub(_harmless, line) if sys.stdout.isatty() else line


def _harmless(found: re.Match[str]) -> str:
    text = found[0]
    return text if sanitise(text, None) == text else "".join(map(_escape, text))


def _escape(char: str) -> str:
    if " " <= char <= "~":
        return char
    if char in "\t\r":
        return " "
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
