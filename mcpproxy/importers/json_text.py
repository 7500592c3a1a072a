"""Finds objects and arrays in text without parsing them, so that they keep their digits; linear in the text."""

import re
from typing import Final

_TOKEN: Final = re.compile(
    rb"""(?P<text>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`)|(?P<open>[{\[(])|(?P<close>[}\])])|["'`]""",
    re.DOTALL,
)
_VALUE: Final = re.compile(rb"\s*:\s*(?=[{\[])").match


class Nesting:
    """The brackets that are open in a text that arrives line by line; those in strings do not count.

    It knows the strings of JSON, and those that Python and JavaScript print, with other quotes. No string spans lines.
    """

    def __init__(self) -> None:
        self._depth = 0

    def end(self, line: bytes, start: int = 0) -> int | None:
        """Takes a line from `start` on; returns the offset after the bracket that closes all, None if it is missing."""
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
    return Nesting().end(text, start)


def member_text(text: bytes, name: bytes) -> bytes | None:
    """Returns the text of a member of the object in a JSON text; None unless its value is an object or an array."""
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
