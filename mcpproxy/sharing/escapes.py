"""Text without escapes: colour codes of terminals, the escapes of JSON, percent-encoding.

A code or an escape often ends in a letter or a digit, which would otherwise seem to belong to the secret after it. Time
is linear.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcpproxy.sharing.kinds import is_encoded, kind_in_encoding
from mcpproxy.sharing.kingfisher import PlainSecret, Secret

_ESCAPE: Final = re.compile(
    r"(?:[\x1b]|\\{1,64}+(?:u001[bB]|x1[bB]|033|e(?=\[)))(?:\[[0-?]{0,64}+[ -/]{0,8}+[@-~]|[()][0-9A-B])"
    r"|\\{1,64}+(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>[nrt\"/]))"
)
_PERCENT_WORD: Final = re.compile(r"(?<![^%\s\"'<>`\x1f])[^%\s\"'<>`\x1f]*+%[0-9A-Fa-f]{2}[^\s\"'<>`\x1f]*+")
_PERCENT: Final = re.compile(
    r"%[fF][0-4](?:%[89abAB][0-9a-fA-F]){3}|%[eE][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){2}"
    r"|%[cdCD][0-9a-fA-F]%[89abAB][0-9a-fA-F]|%[0-9a-fA-F]{2}"
)
"""The UTF-8 of a character, or a byte."""
_BLANKS: Final = {"n": "\n", "r": "\r", "t": "\t"}


class UnescapedText(NamedTuple):
    """A text with one character in place of each escape."""

    text: str
    starts: list[int]
    """Where the character for each escape is in `text`."""
    ends: list[int]
    """Where each escape ends in the original."""
    encoding: str = ""
    """What a secret with an escape in it is encoded in; empty if its kind does not say so."""

    @property
    def is_encoded(self) -> bool:
        """Whether more than escapes has been decoded."""
        return bool(self.encoding)

    def original(self, secrets: Iterable[Secret]) -> Iterator[Secret]:
        """Yields the secrets found in `text`, with their positions in the original."""
        for start, end, kind, inner in secrets:
            first, last = self._place(start), self._place(end)
            if last - first != end - start:
                inner = inner or PlainSecret(kind, self.text[start:end])
                if self.encoding and not is_encoded(kind):
                    kind = kind_in_encoding(kind, self.encoding)
            yield Secret(first, last, kind, inner)

    def _place(self, at: int) -> int:
        index = bisect_right(self.starts, at - 1) - 1
        return at if index < 0 else self.ends[index] + at - self.starts[index] - 1


class _Unescaping:
    """Builds an `UnescapedText` piece by piece."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._at = self._size = 0

    def replace(self, start: int, end: int, character: str) -> None:
        """Put one character in place of a stretch after the previous one."""
        self._pieces += self._text[self._at : start], character
        self._size += start - self._at
        self._starts.append(self._size)
        self._ends.append(end)
        self._size += 1
        self._at = end

    def result(self, encoding: str = "") -> UnescapedText | None:
        """The text, or None if nothing was replaced."""
        if not self._starts:
            return None
        return UnescapedText("".join([*self._pieces, self._text[self._at :]]), self._starts, self._ends, encoding)


def unescaped(text: str) -> UnescapedText | None:
    """A text without the escapes of JSON and of terminals, or None if it has none."""
    if "\\" not in text and "\x1b" not in text:
        return None
    unescaping = _Unescaping(text)
    for match in _ESCAPE.finditer(text):
        start = match.start() + (_literal_backslashes(match[0].index("u")) if match["code"] else 0)
        unescaping.replace(start, match.end(), _character(match["code"], match["letter"]))
    return unescaping.result()


def percent_decoded(text: str) -> UnescapedText | None:
    """The words of a text that have percent-encoding, decoded, with a line end between them; None if there are none."""
    if "%" not in text:
        return None
    unescaping = _Unescaping(text)
    at = 0
    for word in _PERCENT_WORD.finditer(text):
        if word.start() > at:
            unescaping.replace(at, word.start(), "\n")
        at = word.end()
        for escape in _PERCENT.finditer(text, *word.span()):
            unescaping.replace(*escape.span(), unquote(escape[0])[0])
    if at and at < len(text):
        unescaping.replace(at, len(text), "\n")
    return unescaping.result("percent-encoding")


def _literal_backslashes(count: int) -> int:
    """How many of the backslashes before the code of a character spell a backslash, as in `C:\\\\\\u0055`."""
    # In JSON in JSON, the backslash of an escape is written as 2, 4, 8 …, and one before it as twice as many.
    third, rest = divmod(count, 3)
    return 2 * third if rest == 0 and third & (third - 1) == 0 else 0


def _character(code: str | None, letter: str | None) -> str:
    if letter is not None:
        return _BLANKS.get(letter, letter)
    char = " " if code is None else chr(int(code, 16))
    return char if char >= " " and not "\ud800" <= char <= "\udfff" else " "
