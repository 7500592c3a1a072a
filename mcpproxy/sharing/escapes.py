"""Removes escapes from text: terminal colour codes, JSON escapes and percent-encoding.

A code or an escape often ends in a letter or a digit, which would otherwise seem to belong to the secret after it. The
time is linear in the text.
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
"""Matches a character in UTF-8, or else a single byte."""
_WHITE_SPACE: Final = {"n": "\n", "r": "\r", "t": "\t"}


class UnescapedText(NamedTuple):
    """A text with one character in place of each escape."""

    text: str
    starts: list[int]
    """The offset in `text` of the character for each escape."""
    ends: list[int]
    """The end of each escape in the original."""
    encoding: str = ""
    """The encoding that the kind of a secret with escapes names; empty if the kind does not change."""

    @property
    def is_encoded(self) -> bool:
        """Whether anything other than escapes was decoded."""
        return bool(self.encoding)

    def original_secrets(self, secrets: Iterable[Secret]) -> Iterator[Secret]:
        """Yields the secrets found in `text`, with their positions in the original."""
        for start, end, kind, inner in secrets:
            original_start, original_end = self._original_position(start), self._original_position(end)
            if original_end - original_start != end - start:
                inner = inner or PlainSecret(kind, self.text[start:end])
                if self.encoding and not is_encoded(kind):
                    kind = kind_in_encoding(kind, self.encoding)
            yield Secret(original_start, original_end, kind, inner)

    def _original_position(self, offset: int) -> int:
        index = bisect_right(self.starts, offset - 1) - 1
        return offset if index < 0 else self.ends[index] + offset - self.starts[index] - 1


class _UnescapedTextBuilder:
    """Builds an `UnescapedText` piece by piece."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._copied_end = self._size = 0

    def replace(self, start: int, end: int, character: str) -> None:
        """Replace a stretch after the previous one with one character."""
        self._pieces += self._text[self._copied_end : start], character
        self._size += start - self._copied_end
        self._starts.append(self._size)
        self._ends.append(end)
        self._size += 1
        self._copied_end = end

    def result(self, encoding: str = "") -> UnescapedText | None:
        """Returns the text, or None if nothing was replaced."""
        if not self._starts:
            return None
        return UnescapedText(
            "".join([*self._pieces, self._text[self._copied_end :]]), self._starts, self._ends, encoding
        )


def unescape(text: str) -> UnescapedText | None:
    """Returns a text without its JSON escapes and colour codes, or None if it has none."""
    if "\\" not in text and "\x1b" not in text:
        return None
    unescaping = _UnescapedTextBuilder(text)
    for match in _ESCAPE.finditer(text):
        start = match.start() + (_literal_backslashes(match[0].index("u")) if match["code"] else 0)
        unescaping.replace(start, match.end(), _character(match["code"], match["letter"]))
    return unescaping.result()


def decode_percent(text: str) -> UnescapedText | None:
    """Decode the percent-encoded words of a text, and put a line end between them; returns None if there are none."""
    if "%" not in text:
        return None
    unescaping = _UnescapedTextBuilder(text)
    last_end = 0
    for word in _PERCENT_WORD.finditer(text):
        if word.start() > last_end:
            unescaping.replace(last_end, word.start(), "\n")
        last_end = word.end()
        for escape in _PERCENT.finditer(text, *word.span()):
            unescaping.replace(*escape.span(), unquote(escape[0])[0])
    if last_end and last_end < len(text):
        unescaping.replace(last_end, len(text), "\n")
    return unescaping.result("percent-encoding")


def _literal_backslashes(count: int) -> int:
    """Returns how many of the backslashes before an escape represent a literal backslash, as in `C:\\\\\\u0055`."""
    # In nested JSON, the backslash of an escape is written as 2, 4, 8 …, and a literal one before it as twice as many.
    third, remainder = divmod(count, 3)
    return 2 * third if remainder == 0 and third & (third - 1) == 0 else 0


def _character(code: str | None, letter: str | None) -> str:
    if letter is not None:
        return _WHITE_SPACE.get(letter, letter)
    char = " " if code is None else chr(int(code, 16))
    return char if char >= " " and not "\ud800" <= char <= "\udfff" else " "
