"""Decodes text in base64, percent-encoding, hexadecimal digits and JSON escapes.

A view contains the decoded text, and maps positions in it to the encoded text. The decoded text can have views of its
own, so base64 in base64 is found as well. Base64 is also decoded after one of `+/_-` (`v1-…`, `a/b/…`), and if it is
wrapped into lines. The number of times that a character is decoded is limited, so the time is linear in the text.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice, product
from typing import Final, NamedTuple, Protocol

from mcpproxy.sharing.escapes import decode_percent, unescape
from mcpproxy.sharing.kinds import kind_in_encoding
from mcpproxy.sharing.kingfisher import PlainSecret, Secret
from mcpproxy.sharing.pseudonyms import PSEUDONYM

MAX_SEPARATORS_BEFORE: Final = 4
"""The number of `+/_-` at the start of a word that may come before the base64."""

_BASE64_WORD: Final = re.compile(r"(?<![A-Za-z0-9+/_-])(?=[a-z0-9+/_-]{0,200}[A-Z])[A-Za-z0-9+/_-]{16,}+={0,2}")
"""Requires a capital letter: base64 almost always has one, while most paths, hashes and function names do not."""
_BASE64_PIECE: Final = re.compile(r"[A-Za-z0-9]{16,}+={0,2}")
_NEXT_LINE: Final = re.compile(r"[ \t]{0,8}+\r?\n[ \t]{0,40}+(?P<line>[A-Za-z0-9+/_-]++={0,2})")
_SEPARATOR_BEFORE: Final = re.compile(r"[+/_-]")
_HEX_WORD: Final = re.compile(r"(?<![A-Za-z0-9])(?:0[xX])?(?P<digits>(?:[0-9A-Fa-f]{2}){12,}+)(?![A-Za-z0-9])")
_TO_STANDARD_ALPHABET: Final = bytes.maketrans(b"-_", b"+/")
_SEPARATOR: Final = '"\x1f\n'
"""Separates decoded texts, so that no secret is found across them."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search
"""Matches a character that occurs in binary data but not in text."""


class DecodedView(Protocol):
    """The text that another text encodes."""

    @property
    def text(self) -> str:
        """The decoded text."""

    @property
    def is_encoded(self) -> bool:
        """Whether anything other than escapes was decoded."""

    def original_secrets(self, secrets: Iterable[Secret]) -> Iterator[Secret]:
        """Yields the secrets found in `text`, with their positions in the encoded text."""


def views(text: str) -> Iterator[DecodedView]:
    """Yields the views of a text; none if it contains no encoded text."""
    for view in (unescape(text), decode_percent(text), _decoded_words(text)):
        if view is not None:
            yield view


class _DecodedStretch(NamedTuple):
    """A stretch of a text, and the text that it encodes."""

    start: int
    end: int
    encoding: str
    text: str


class _DecodedWords(NamedTuple):
    """The decoded texts of all words in base64 and hexadecimal, one after the other."""

    text: str
    starts: list[int]
    """The offset in `text` of each decoded stretch."""
    stretches: list[_DecodedStretch]
    is_encoded: bool = True

    def original_secrets(self, secrets: Iterable[Secret]) -> Iterator[Secret]:
        """Yields, for each secret found in `text`, the whole stretch that encodes it."""
        for secret in secrets:
            if secret.kind == "blob":
                continue  # binary data in an encoded document is not a reason to replace the whole document
            start, end, encoding, _ = self.stretches[bisect_right(self.starts, secret.start) - 1]
            inner = secret.inner or PlainSecret(secret.kind, self.text[secret.start : secret.end])
            yield Secret(start, end, kind_in_encoding(secret.kind, encoding), inner)


def _decoded_words(text: str) -> _DecodedWords | None:
    """Returns the view of the words in base64 or hexadecimal in a text, or None if there are none."""
    stretches = list(_decoded_stretches(text))
    if not stretches:
        return None
    starts = [0, *accumulate(len(stretch.text) + len(_SEPARATOR) for stretch in stretches[:-1])]
    return _DecodedWords(_SEPARATOR.join(stretch.text for stretch in stretches), starts, stretches)


def _decoded_stretches(text: str) -> Iterator[_DecodedStretch]:
    for word in _BASE64_WORD.finditer(text):
        yield from _base64_in_word(text, *word.span())
    if "\n" in text:
        yield from _base64_in_lines(text)
    for word in _HEX_WORD.finditer(text):
        decoded_text = bytes.fromhex(word["digits"]).decode("utf-8", "replace")
        if not _CONTROL(decoded_text):
            yield _DecodedStretch(*word.span("digits"), "hexadecimal", decoded_text)


def decoded_base64(word: str) -> str | None:
    """Decode base64; returns None if the result is not text."""
    raw = word.encode("ascii", "replace").translate(_TO_STANDARD_ALPHABET, b"= \t\r\n")
    try:
        decoded_text = b64decode(raw + b"=" * (-len(raw) % 4), validate=False).decode()
    except (NotBase64, ValueError):
        return None
    return None if _CONTROL(decoded_text) else decoded_text


def _base64_in_word(text: str, start: int, end: int) -> Iterator[_DecodedStretch]:
    """Yields the base64 in a word, which one of `+/_-` may separate from other text before or after it."""
    for position in _possible_starts(text, start, end):
        decoded_text = decoded_base64(text[position:end])
        if decoded_text:
            yield from _base64_stretch(position, end, decoded_text)
            return
    for piece in _BASE64_PIECE.finditer(text, start, end):
        # A single character after groups of four encodes nothing. It occurs before one of `+/_-` in the same base64.
        size = len(piece[0].rstrip("="))
        yield from _base64_stretch(*piece.span(), decoded_base64(piece[0][: size - (size % 4 == 1)]) or "")


def _possible_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Yields each position at which base64 may begin: the start of the word, and after each of its first `+/_-`."""
    yield start
    for character in islice(_SEPARATOR_BEFORE.finditer(text, start, end), MAX_SEPARATORS_BEFORE):
        yield character.end()


def _base64_in_lines(text: str) -> Iterator[_DecodedStretch]:
    """Yields base64 that is wrapped into lines."""
    position = 0
    while word := _BASE64_WORD.search(text, position):
        second_line_start = end_before_last = position = word.end()
        width = 0
        while line := _NEXT_LINE.match(text, position):
            size = len(line["line"])
            if size > width > 0:
                break
            second_line_start = second_line_start if width else line.start("line")
            end_before_last, position = position, line.end()
            if size < width:
                break  # the last line
            width = size
        if not width:
            continue
        # The first line, a part of it, or the last line may not belong to the base64.
        for start, end in product(
            (*_possible_starts(text, *word.span()), second_line_start), (position, end_before_last)
        ):
            decoded_text = decoded_base64(text[start:end])
            if decoded_text:
                yield from _base64_stretch(start, end, decoded_text)
                break


def _base64_stretch(start: int, end: int, decoded_text: str) -> Iterator[_DecodedStretch]:
    if decoded_text and not PSEUDONYM.fullmatch(decoded_text):
        yield _DecodedStretch(start, end, "base64", decoded_text)
