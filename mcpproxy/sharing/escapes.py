"""Text as a person sees it: without colour codes of terminals, and with the escapes of JSON decoded.

Such a code or escape ends in a letter, which would otherwise seem to belong to the secret after it. Time is linear.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpproxy.sharing.kingfisher import Secret

_ESCAPE: Final = re.compile(
    r"(?:[\x1b]|\\{1,8}(?:u001[bB]|x1[bB]|033|e(?=\[)))(?:\[[0-?]{0,64}+[ -/]{0,8}+[@-~]|[()][0-9A-B])"
    r"|\\{1,8}(?:u(?P<code>[0-9a-fA-F]{4})|(?P<sign>[nrt\"/]))"
)
_BLANKS: Final = {"n": "\n", "r": "\r", "t": "\t"}


class Unescaped(NamedTuple):
    """A text without escapes."""

    text: str
    starts: list[int]
    """Where the character for each escape is in `text`."""
    ends: list[int]
    """Where each escape ends in the original."""

    def original(self, secrets: list[Secret]) -> Iterator[Secret]:
        """The secrets found in `text`, with their positions in the original."""
        for start, end, kind in secrets:
            yield Secret(self._place(start), self._place(end), kind)

    def _place(self, at: int) -> int:
        index = bisect_right(self.starts, at - 1) - 1
        return at if index < 0 else self.ends[index] + at - self.starts[index] - 1


def unescaped(text: str) -> Unescaped | None:
    """A text with one character in place of each escape, or None if there are no escapes."""
    if "\\" not in text and "\x1b" not in text:
        return None
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = size = 0
    for match in _ESCAPE.finditer(text):
        pieces += text[at : match.start()], _sign(match["code"], match["sign"])
        size += match.start() - at
        starts.append(size)
        ends.append(match.end())
        size += 1
        at = match.end()
    return Unescaped("".join([*pieces, text[at:]]), starts, ends) if starts else None


def _sign(code: str | None, sign: str | None) -> str:
    if sign is not None:
        return _BLANKS.get(sign, sign)
    char = " " if code is None else chr(int(code, 16))
    return char if char >= " " and not "\ud800" <= char <= "\udfff" else " "
