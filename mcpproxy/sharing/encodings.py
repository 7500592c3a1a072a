"""Encoded text as it reads once decoded: base64, percent-encoding, hexadecimal, the escapes of JSON.

A view holds what a text encodes, and knows which stretch of the text each part of it stands for. A view is a text like
any other, so it has views of its own: that is how base64 in base64 is found. Base64 is also decoded after one of
`+/_-` (`v1-…`, `a/b/…`), and when it is wrapped into lines. Each character is decoded a bounded number of times, so
the time is linear in the text.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice, product
from typing import Final, NamedTuple, Protocol

from mcpproxy.sharing.escapes import percent_decoded, unescaped
from mcpproxy.sharing.kinds import kind_in_encoding
from mcpproxy.sharing.kingfisher import PlainSecret, Secret
from mcpproxy.sharing.pseudonyms import PSEUDONYM

MAX_CHARACTERS_BEFORE: Final = 4
"""How many of `+/_-`, counted from the start of a word, may precede the base64 in it."""

_BASE64_WORD: Final = re.compile(r"(?<![A-Za-z0-9+/_-])(?=[a-z0-9+/_-]{0,200}[A-Z])[A-Za-z0-9+/_-]{16,}+={0,2}")
"""A text in base64 has capital letters; most paths, hashes and names of functions have none."""
_BASE64_PIECE: Final = re.compile(r"[A-Za-z0-9]{16,}+={0,2}")
_NEXT_LINE: Final = re.compile(r"[ \t]{0,8}+\r?\n[ \t]{0,40}+(?P<line>[A-Za-z0-9+/_-]++={0,2})")
_CHARACTER_BEFORE: Final = re.compile(r"[+/_-]")
_HEX_WORD: Final = re.compile(r"(?<![A-Za-z0-9])(?:0[xX])?(?P<digits>(?:[0-9A-Fa-f]{2}){12,}+)(?![A-Za-z0-9])")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_BETWEEN: Final = '"\x1f\n'
"""The separator of decoded texts, across which no secret is found."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search
"""A character that is in binary data, and not in texts."""


class View(Protocol):
    """What a text encodes."""

    @property
    def text(self) -> str:
        """The decoded text."""

    @property
    def is_encoded(self) -> bool:
        """Whether more than escapes has been decoded."""

    def original(self, secrets: Iterable[Secret]) -> Iterator[Secret]:
        """Yields the secrets found in `text`, with their positions in the encoded text."""


def views(text: str) -> Iterator[View]:
    """Yields the views of a text, none if nothing in it is encoded."""
    for view in (unescaped(text), percent_decoded(text), _decoded_words(text)):
        if view is not None:
            yield view


class _DecodedStretch(NamedTuple):
    """A stretch of a text, and the text that it encodes."""

    start: int
    end: int
    encoding: str
    text: str


class _DecodedWords(NamedTuple):
    """The texts that words in base64 and hexadecimal encode, one after the other."""

    text: str
    starts: list[int]
    """Where the text of each stretch begins in `text`."""
    stretches: list[_DecodedStretch]
    is_encoded: bool = True

    def original(self, secrets: Iterable[Secret]) -> Iterator[Secret]:
        """Yields a secret for each secret found in `text`: the whole stretch that encodes it."""
        for secret in secrets:
            if secret.kind == "blob":
                continue  # binary data in a document that is a text: not a reason to replace the document
            start, end, encoding, _ = self.stretches[bisect_right(self.starts, secret.start) - 1]
            inner = secret.inner or PlainSecret(secret.kind, self.text[secret.start : secret.end])
            yield Secret(start, end, kind_in_encoding(secret.kind, encoding), inner)


def _decoded_words(text: str) -> _DecodedWords | None:
    """The words of a text that spell a text in base64 or hexadecimal, or None if there are none."""
    stretches = list(_stretches(text))
    if not stretches:
        return None
    starts = [0, *accumulate(len(stretch.text) + len(_BETWEEN) for stretch in stretches[:-1])]
    return _DecodedWords(_BETWEEN.join(stretch.text for stretch in stretches), starts, stretches)


def _stretches(text: str) -> Iterator[_DecodedStretch]:
    for word in _BASE64_WORD.finditer(text):
        yield from _in_word(text, *word.span())
    if "\n" in text:
        yield from _in_lines(text)
    for word in _HEX_WORD.finditer(text):
        plain = bytes.fromhex(word["digits"]).decode("utf-8", "replace")
        if not _CONTROL(plain):
            yield _DecodedStretch(*word.span("digits"), "hexadecimal", plain)


def decoded_base64(word: str) -> str | None:
    """The text that base64 spells, or None if it spells no text."""
    raw = word.encode("ascii", "replace").translate(_STANDARD, b"= \t\r\n")
    try:
        plain = b64decode(raw + b"=" * (-len(raw) % 4), validate=False).decode()
    except (NotBase64, ValueError):
        return None
    return None if _CONTROL(plain) else plain


def _in_word(text: str, start: int, end: int) -> Iterator[_DecodedStretch]:
    """The base64 in a word; one of `+/_-` may separate it from something else before or after it."""
    for at in _beginnings(text, start, end):
        plain = decoded_base64(text[at:end])
        if plain:
            yield from _spelt(at, end, plain)
            return
    for piece in _BASE64_PIECE.finditer(text, start, end):
        # A single character after groups of four spells nothing; it occurs if one of `+/_-` in the same base64 follows.
        size = len(piece[0].rstrip("="))
        yield from _spelt(*piece.span(), decoded_base64(piece[0][: size - (size % 4 == 1)]) or "")


def _beginnings(text: str, start: int, end: int) -> Iterator[int]:
    """Where the base64 in a word may begin: with the word, or after each of its first `+/_-`."""
    yield start
    for character in islice(_CHARACTER_BEFORE.finditer(text, start, end), MAX_CHARACTERS_BEFORE):
        yield character.end()


def _in_lines(text: str) -> Iterator[_DecodedStretch]:
    """Base64 that is wrapped into lines."""
    at = 0
    while word := _BASE64_WORD.search(text, at):
        second = before_last = at = word.end()
        width = 0
        while line := _NEXT_LINE.match(text, at):
            size = len(line["line"])
            if size > width > 0:
                break
            second = second if width else line.start("line")
            before_last, at = at, line.end()
            if size < width:
                break  # the last line
            width = size
        if not width:
            continue
        # The first line, a part of it, and the last line may be something else.
        for start, end in product((*_beginnings(text, *word.span()), second), (at, before_last)):
            plain = decoded_base64(text[start:end])
            if plain:
                yield from _spelt(start, end, plain)
                break


def _spelt(start: int, end: int, plain: str) -> Iterator[_DecodedStretch]:
    if plain and not PSEUDONYM.fullmatch(plain):
        yield _DecodedStretch(start, end, "base64", plain)
