"""Encoded text: base64, percent-encoding and hexadecimal that spell a secret, or something personal.

Base64 is also decoded after one of `+/_-` (`v1-…`, `a/b/…`), and when it is wrapped into lines. Each
character is decoded a bounded number of times, so the time is linear in the text.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice, product
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.patterns import credentials, people
from mcpproxy.sharing.pseudonyms import PSEUDONYM

SIGNS_BEFORE: Final = 4
"""How many of `+/_-`, counted from the start of a word, may precede the base64 in it."""
TOGETHER: Final = 1 << 16
"""How many characters of decoded texts are searched together for tokens of services: one search each takes longer."""

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
_BETWEEN: Final = "\n\x1f\n"
"""The separator of decoded texts that are searched together."""
_BLANKS: Final = dict.fromkeys(map(ord, "\r\n\t"))


class _Decoded(NamedTuple):
    """A stretch of a text, and the text that it encodes."""

    start: int
    end: int
    encoding: str
    text: str


def encoded(text: str, search: Callable[[str], Iterable[Secret]]) -> Iterator[Secret]:
    """The stretches that spell a secret or something personal, in no particular order; they may overlap.

    Args:
        text: the text.
        search: finds the tokens of services in a text.
    """
    waiting: list[_Decoded] = []
    size = 0
    for one in _decoded(text):
        kind = _kind_inside(one.text)
        if kind is not None:
            yield Secret(one.start, one.end, f"{kind}-in-{one.encoding}")
            continue
        waiting.append(one)
        size += len(one.text)
        if size >= TOGETHER:
            yield from _with_tokens(waiting, search)
            waiting, size = [], 0
    yield from _with_tokens(waiting, search)


def _with_tokens(given: list[_Decoded], search: Callable[[str], Iterable[Secret]]) -> Iterator[Secret]:
    """The stretches that spell a token of a service."""
    starts = [0, *accumulate(len(one.text) + len(_BETWEEN) for one in given)]
    found = search(_BETWEEN.join(one.text for one in given)) if given else ()
    for index in {bisect_right(starts, token.start) - 1 for token in found}:
        start, end, encoding, _ = given[index]
        yield Secret(start, end, f"secret-in-{encoding}")


def _decoded(text: str) -> Iterator[_Decoded]:
    """The encoded stretches of a text; base64 that spells base64 comes with both texts."""
    for word in _BASE64_WORD.finditer(text):
        yield from _in_word(text, *word.span())
    if "\n" in text:
        yield from _in_lines(text)
    if "%" in text:
        yield from _in_percent(text)
    for word in _HEX_WORD.finditer(text):
        plain = bytes.fromhex(word[0]).decode("ascii", "replace")
        if plain.translate(_BLANKS).isprintable():
            yield _Decoded(*word.span(), "hexadecimal", plain)


def decoded_base64(word: str) -> str | None:
    """The text that base64 spells, or None if it spells no text."""
    raw = word.encode("ascii", "replace").translate(_STANDARD, b"= \t\r\n")
    try:
        plain = b64decode(raw + b"=" * (-len(raw) % 4), validate=False).decode()
    except (NotBase64, ValueError):
        return None
    return plain if plain.translate(_BLANKS).isprintable() else None


def _in_word(text: str, start: int, end: int) -> Iterator[_Decoded]:
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
    for sign in islice(_SIGN.finditer(text, start, end), SIGNS_BEFORE):
        yield sign.end()


def _in_lines(text: str) -> Iterator[_Decoded]:
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


def _in_percent(text: str) -> Iterator[_Decoded]:
    for word in _PERCENT_WORD.finditer(text):
        plain = unquote(word[0])
        if plain != word[0]:
            yield _Decoded(*word.span(), "percent-encoding", plain)


def _spelt(start: int, end: int, plain: str) -> Iterator[_Decoded]:
    """What base64 spells; that may be base64 again, as in some headers."""
    if not plain or PSEUDONYM.fullmatch(plain):
        return
    yield _Decoded(start, end, "base64", plain)
    inner = decoded_base64(plain) if _BASE64_WORD.fullmatch(plain) else None
    if inner:
        yield _Decoded(start, end, "base64", inner)


def _kind_inside(text: str) -> str | None:
    """The kind of secret or personal data in a decoded text, if any."""
    if any(credentials(text)):
        return "secret"
    return "personal" if any(people(text)) else None
