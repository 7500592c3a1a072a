"""Finds objects and arrays in text without parsing, in linear time, so that numbers keep their original digits."""

import re
from typing import Final

_TOKEN: Final = re.compile(
    rb"""(?P<text>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`)|(?P<open>[{\[(])|(?P<close>[}\])])|["'`]""",
    re.DOTALL,
)
_VALUE: Final = re.compile(rb"\s*:\s*(?=[{\[])").match


class Nesting:
    """Counts the open brackets in a text that arrives line by line, ignoring brackets in strings.

    Strings may be in JSON, or in the quotes that Python and JavaScript print. No string spans lines.
    """

    def __init__(self) -> None:
        self._depth = 0

    def find_end(self, line: bytes, start: int = 0) -> int | None:
        """Add a line from `start` on; returns the offset after the bracket that closes all, or None without one."""
        for match in _TOKEN.finditer(line, start):
            if match.lastgroup == "open":
                self._depth += 1
            elif match.lastgroup == "close":
                self._depth -= 1
                if self._depth <= 0:
                    return match.end()
            elif match.lastgroup is None:
                return None
        return None


def end_of_value(text: bytes, start: int) -> int | None:
    """Returns the offset after the object or array that begins at `start`; None if it does not end in the text."""
    return Nesting().find_end(text, start)


def member_text(text: bytes, name: bytes) -> bytes | None:
    """Returns the text of a member's value in a JSON object, or None if that is not an object or an array."""
    depth = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "open":
            depth += 1
        elif match.lastgroup == "close":
            depth -= 1
        elif depth == 1 and match[0][1:-1] == name and (value := _VALUE(text, match.end())):
            end = end_of_value(text, value.end())
            return None if end is None else text[value.end() : end]
    return None
