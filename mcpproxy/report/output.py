"""Output to stdout, for all commands that print: its width, its encoding, and JSON Lines.

No command fails because stdout is not UTF-8: text for people is written in its encoding, with legible replacements for
characters that the encoding lacks; output for programs is always UTF-8.
"""

import codecs
import io
import os
import re
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson

from mcpproxy.sanitise import escape
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.json_lines import escape_all, escape_line

LEGIBLE_ERRORS: Final = "mcpproxy.legible"
"""The name of mcpproxy's codec error handler, which replaces characters that an encoding lacks."""

# Most replacements are one cell wide, like the character, because lines may be aligned.
_REPLACEMENTS: Final = {
    "→": ">",
    "←": "<",
    "…": "~",
    "·": "-",
    "●": "*",
    "○": "o",
    "✝": "+",
    "▲": "!",
    "■": "#",
    "✗": "x",
}
_REPLACEMENTS.update({"–": "-", "×": "x", "≤": "<=", "≥": ">=", "±": "+/-", "§": "section "})

# Invisible characters that JSON allows in a string: control characters, marks that set the writing direction, format
# characters and others without a glyph, and line ends that are not line ends in JSON.
_INVISIBLE_CHARS: Final = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def page_width() -> int:
    """Returns how many cells a line of an explanation may take, on a terminal or not."""
    return min(100, max(40, shutil.get_terminal_size().columns))


def width_of_stdout(max_width: int = UNLIMITED_WIDTH) -> int:
    """Returns how many cells a line may take.

    It is `UNLIMITED_WIDTH` if stdout is not a terminal and COLUMNS does not set a width.

    Args:
        max_width: the maximum width of a line on any terminal, in cells.
    """
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").lstrip("0").isdecimal():
        return min(max_width, shutil.get_terminal_size().columns)
    return UNLIMITED_WIDTH


def set_up_stdout(output_format: str) -> None:
    """Make stdout accept any character that a command prints as `text`, or in a format that programs read."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if output_format == "text" else "utf-8", errors=LEGIBLE_ERRORS)


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Returns replacements for characters that an encoding lacks, and the index after them (a codec error handler)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_REPLACEMENTS.get(char) or escape(char) for char in error.object[error.start : error.end]), error.end


codecs.register_error(LEGIBLE_ERRORS, _replace_unencodable)


def keeps_width(text: str, encoding: str) -> bool:
    """Whether a text takes as many cells in an encoding as in UTF-8, so that markers under it are correctly placed."""
    return text.isascii() or cells(text.encode(encoding, LEGIBLE_ERRORS).decode(encoding)) == cells(text)


def json_line(row: Mapping[str, Any]) -> str:
    """Returns an object as one line of JSON.

    Text that is not valid Unicode (in a file name, say) is escaped, and so are invisible characters on which a terminal
    that shows the line later could act. A program reads the same text with and without the escapes.
    """
    try:
        return safe_for_stdout(_INVISIBLE_CHARS.sub(_escape_match, orjson.dumps(row, default=str).decode())) + "\n"
    except (TypeError, orjson.JSONEncodeError):
        import json

        return json.dumps(row, default=str) + "\n"


def safe_for_stdout(line: str) -> str:
    """Returns a line of JSON in which, if stdout is a terminal, everything that could act on a terminal is escaped.

    If stdout leads to a program, the line is returned as it is.
    """
    return escape_line(line) if sys.stdout.isatty() else line


def _escape_match(match: re.Match[str]) -> str:
    return escape_all(match[0])
