"""Detects which program wrote a log whose entries begin with a time."""

import re
from collections.abc import Callable
from typing import Final

from mcpproxy.importers.source import first_lines

MAX_SNIFFED_LINES: Final = 1000
MAX_FOREIGN_LINES: Final = 100
"""Lines of other text that may come before the first entry: a sentence, or the end of an entry that `tail` cut."""
MAX_FOREIGN_BYTES: Final = 4096
"""The length of such a line."""
_NOT_A_SENTENCE: Final = re.compile(
    rb"\s*(?:\{\s*(?:[\"}]|$)|\[\s*(?:[\]{\[\"\d]|$)|\[[A-Z]+\]|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d{1,12}:)"
    rb"|[^\r\n]*[\x00-\x08\x0e-\x1a]"
).match
"""Matches a line that is not a sentence: an entry of another log, JSON, or binary data."""
_FENCE: Final = re.compile(rb"\s{0,3}(?:```|~~~)[\w+-]{0,32}\s*").fullmatch


def from_first_entry(lines: list[bytes], is_entry: Callable[[bytes], object]) -> list[bytes]:
    """Returns the lines from the first entry on, or none if more than a few lines of plain text come before it."""
    for index, line in enumerate(lines[: MAX_FOREIGN_LINES + 1]):
        if is_entry(line):
            return lines[index:]
        if _NOT_A_SENTENCE(line) or len(line) > MAX_FOREIGN_BYTES:
            break
    return []


def is_fence(line: bytes) -> bool:
    """Whether a line begins or ends a code block in Markdown; people paste logs into these."""
    return _FENCE(line) is not None


def is_program_log(
    head: bytes, is_entry: Callable[[bytes], object], is_known: Callable[[bytes], bool], *, is_named: bool
) -> bool:
    """Whether a log begins with an entry in a program's format, and one of its first entries is by that program.

    Args:
        head: the beginning of the log.
        is_entry: whether a line is an entry in the program's format.
        is_known: whether a line is an entry with a text that only this program writes.
        is_named: whether the file has the name of the program's log. Such a file may begin in the middle of an entry.
    """
    return any(is_known(line) for line in sniffed_lines(head, is_entry, is_named=is_named))


def sniffed_lines(head: bytes, is_entry: Callable[[bytes], object], *, is_named: bool) -> list[bytes]:
    """Returns the lines that show which program wrote a log; the arguments are those of `is_program_log`."""
    lines = first_lines(head, MAX_SNIFFED_LINES)
    return lines if is_named else from_first_entry(lines, is_entry)
