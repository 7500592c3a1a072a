"""What can be read in a copy, however it is written: a decoder that knows nothing of the one that it tests."""

import base64
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

DEPTH: Final = 5
"""How often a text is decoded."""
_HALVED: Final = 24
"""Of a secret of so many characters, half is as bad as all of it."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LINE_END: Final = re.compile(r"(?<=[A-Za-z0-9+/_=-])\r?\n[ \t]*(?=[A-Za-z0-9+/_-])")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{12,}")
_HEX: Final = re.compile(r"[0-9a-fA-F]{16,}")
_TEXT: Final = re.compile(rb"(?:[\t\n\r\x20-\x7e]|\xc2\xa0){8,}")
_STANDARD: Final = str.maketrans("-_", "+/")


def left(secret: str, text: str) -> bool:
    """Whether a secret is in a text; of a long one, half is enough."""
    if len(secret) < _HALVED:
        return secret in text
    middle = len(secret) // 2
    return secret[:middle] in text or secret[middle:] in text


def readings(text: str) -> set[str]:
    """A text and all that it spells, in any mixture of JSON escapes, percent-encoding, hexadecimal and base64."""
    seen = {text}
    fresh = [text]
    for _ in range(DEPTH):
        fresh = [reading for one in fresh for reading in _decoded(one) if reading and reading not in seen]
        seen.update(fresh)
    return seen


def _decoded(text: str) -> Iterator[str]:
    """What a text spells, one level down."""
    if "\\" in text:
        yield _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _NAMED.get(match[2], match[2]), text)
    if "%" in text:
        yield unquote(text)
    if "\n" in text:
        yield _LINE_END.sub("", text)
    for run in _HEX.findall(text):
        yield from (_printable(bytes.fromhex(piece[: len(piece) & ~1])) for piece in (run, run[1:]))
    for run in _BASE64.findall(text):
        for start in range(4):
            piece = run[start:].translate(_STANDARD)
            raw = base64.b64decode((piece[:-1] if len(piece) % 4 == 1 else piece) + "==")
            plain = _printable(raw)
            yield plain
            if len(plain) == len(raw):  # then it is nothing else from another place on
                break


def _printable(raw: bytes) -> str:
    """The stretches of bytes that may be text."""
    return "\n".join(piece.decode() for piece in _TEXT.findall(raw))
