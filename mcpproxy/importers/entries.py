"""Logs whose lines begin with a time: which program wrote them."""

import re
from collections.abc import Callable
from typing import Final

from mcpproxy.importers.source import first_lines

MAX_SNIFFED_LINES: Final = 1000
MAX_FOREIGN_LINES: Final = 100
"""Lines before the first entry that may be something else: a sentence, or what `tail` left of an entry."""
MAX_FOREIGN_BYTES: Final = 4096
"""The longest such line."""
_OF_A_LOG: Final = re.compile(
    rb"\s*(?:\{\s*(?:[\"}]|$)|\[\s*(?:[\]{\[\"\d]|$)|\[[A-Z]+\]|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d{1,12}:)"
    rb"|[^\r\n]*[\x00-\x08\x0e-\x1a]"
).match
"""What is no sentence: an entry of some log, JSON, or binary."""
_FENCE: Final = re.compile(rb"\s{0,3}(?:```|~~~)[\w+-]{0,32}\s*").fullmatch


def from_first_entry(lines: list[bytes], is_entry: Callable[[bytes], object]) -> list[bytes]:
    """Returns the lines from the first entry on; none if anything but a few other lines of text is before it."""
    for index, line in enumerate(lines[: MAX_FOREIGN_LINES + 1]):
        if is_entry(line):
            return lines[index:]
        if _OF_A_LOG(line) or len(line) > MAX_FOREIGN_BYTES:
            break
    return []


def is_fence(line: bytes) -> bool:
    """Whether a line begins or ends a block of code in Markdown, in which people paste logs."""
    return _FENCE(line) is not None


def is_log_of(
    head: bytes, is_entry: Callable[[bytes], object], is_known: Callable[[bytes], bool], *, is_named: bool
) -> bool:
    """Whether the first entry in a log is one of a program, and one of the next entries is known.

    Args:
        head: the beginning of the log.
        is_entry: whether a line is an entry as the program writes them.
        is_known: whether a line is an entry with words of the program.
        is_named: whether the file has a name that the program gives. Then it may begin in the middle of an entry.
    """
    lines = first_lines(head, MAX_SNIFFED_LINES)
    return any(is_known(line) for line in (lines if is_named else from_first_entry(lines, is_entry)))
