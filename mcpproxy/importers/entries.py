"""Logs whose lines begin with a time: which program wrote them."""

from collections.abc import Callable
from typing import Final

from mcpproxy.importers.source import first_lines

MAX_SNIFFED_LINES: Final = 1000


def is_log_of(
    head: bytes, is_entry: Callable[[bytes], object], is_known: Callable[[bytes], bool], *, is_named: bool
) -> bool:
    """Whether a log begins with an entry, and one of its first entries is known.

    Args:
        head: the beginning of the log.
        is_entry: whether a line is an entry as the program writes them.
        is_known: whether a line is an entry with words of the program.
        is_named: whether the file has a name that the program gives. Then it may begin in the middle of an entry.
    """
    lines = first_lines(head, MAX_SNIFFED_LINES)
    if not lines or not (is_named or is_entry(lines[0])):
        return False
    return any(is_known(line) for line in lines)
