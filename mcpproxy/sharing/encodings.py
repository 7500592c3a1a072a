"""Encoded text: base64, percent-encoding and hexadecimal that spell a secret, or something personal.

Base64 is also opened behind a sign of its own alphabet (`v1-…`, `a/b/…`), and when it is wrapped into lines. Each
character is decoded a bounded number of times, so the time is linear in the text.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from itertools import islice, product
from typing import Final
from urllib.parse import unquote

from mcpproxy.sharing.catalogue import Secret
from mcpproxy.sharing.patterns import credentials, people
from mcpproxy.sharing.pseudonyms import PSEUDONYM

SIGNS_BEFORE: Final = 4
"""How many signs of its alphabet are taken for the end of something else, in front of base64 that has such signs."""

_BASE64_WORD: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}+={0,2}")
_BASE64_PIECE: Final = re.compile(r"[A-Za-z0-9]{20,}+={0,2}")
_NEXT_LINE: Final = re.compile(
    r"[ \t]{0,8}+\r?\n[ \t]{0,40}+(?P<line>[A-Za-z0-9+/_-]++={0,2})(?=[ \t]{0,8}+[\r\n\"'<\x1f]|\Z)"
)
_SIGN: Final = re.compile(r"[+/_-]")
_HEX_WORD: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[0-9a-f]{2}){12,}+(?![A-Za-z0-9])|(?<![A-Za-z0-9])(?:[0-9A-F]{2}){12,}+(?![A-Za-z0-9])"
)
_PERCENT_WORD: Final = re.compile(r"(?<![A-Za-z0-9%._~+-])[A-Za-z0-9._~+-]*+%[A-Za-z0-9%._~+-]++")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_BLANKS: Final = dict.fromkeys(map(ord, "\r\n\t"))


def encoded(text: str) -> Iterator[Secret]:
    """What spells a secret or something personal, in no particular order; it may overlap."""
    for word in _BASE64_WORD.finditer(text):
        yield from _in_word(text, *word.span())
    if "\n" in text:
        yield from _in_lines(text)
    if "%" in text:
        yield from _in_percent(text)
    for word in _HEX_WORD.finditer(text):
        plain = bytes.fromhex(word[0]).decode("ascii", "replace")
        kind = _kind_inside(plain) if plain.translate(_BLANKS).isprintable() else None
        if kind is not None:
            yield Secret(*word.span(), f"{kind}-in-hexadecimal")


def decoded_base64(word: str) -> str | None:
    """The text that base64 spells, if it is one."""
    raw = word.encode("ascii", "replace").translate(_STANDARD, b"= \t\r\n")
    try:
        plain = b64decode(raw + b"=" * (-len(raw) % 4), validate=False).decode()
    except (NotBase64, ValueError):
        return None
    return plain if plain.translate(_BLANKS).isprintable() else None


def _in_word(text: str, start: int, end: int) -> Iterator[Secret]:
    """A word of base64, or one that begins or ends with something else and a sign."""
    for at in _beginnings(text, start, end):
        plain = decoded_base64(text[at:end])
        if plain:
            kind = _kind_of(plain)
            if kind is not None:
                yield Secret(at, end, kind)
            return
    for piece in _BASE64_PIECE.finditer(text, start, end):
        # A single character behind groups of four spells nothing; it is where a sign of the same base64 follows.
        size = len(piece[0].rstrip("="))
        kind = _kind_of(decoded_base64(piece[0][: size - (size % 4 == 1)]) or "")
        if kind is not None:
            yield Secret(*piece.span(), kind)


def _beginnings(text: str, start: int, end: int) -> Iterator[int]:
    """Where the base64 in a word may begin: with the word, or behind each of its first signs."""
    yield start
    for sign in islice(_SIGN.finditer(text, start, end), SIGNS_BEFORE):
        yield sign.end()


def _in_lines(text: str) -> Iterator[Secret]:
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
                kind = _kind_of(plain)
                if kind is not None:
                    yield Secret(start, end, kind)
                break


def _in_percent(text: str) -> Iterator[Secret]:
    for word in _PERCENT_WORD.finditer(text):
        plain = unquote(word[0])
        kind = _kind_inside(plain) if plain != word[0] else None
        if kind is not None:
            yield Secret(*word.span(), f"{kind}-in-percent-encoding")


def _kind_of(plain: str) -> str | None:
    """The kind of base64 that spells this; it may be base64 of base64, as in some headers."""
    if not plain or PSEUDONYM.fullmatch(plain):
        return None
    kind = _kind_inside(plain)
    if kind is None and _BASE64_WORD.fullmatch(plain):
        kind = _kind_inside(decoded_base64(plain) or "")
    return f"{kind}-in-base64" if kind is not None else None


def _kind_inside(text: str) -> str | None:
    """Whether a decoded text has a secret in it, or something personal."""
    if any(credentials(text)):
        return "secret"
    return "personal" if any(people(text)) else None
