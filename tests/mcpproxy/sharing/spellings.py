"""The ways in which a text can be written into another text."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from textwrap import wrap
from typing import Final
from urllib.parse import quote

_MARKED: Final = range(0xE000, 0xE080)
"""Private characters that stand for letters and digits which are to be escaped in the finished record."""

WRAPPED: Final = "base64 in lines"


def marked(text: str) -> str:
    """A text whose letters and digits are to be escaped, for `escaped`."""
    return "".join(chr(_MARKED[ord(char)]) if char.isascii() and char.isalnum() else char for char in text)


def escaped(raw: str) -> str:
    """A text in which what `marked` marked is written as JSON escapes."""
    return re.sub("[\ue000-\ue07f]", lambda char: f"\\u{ord(char[0]) - _MARKED.start:04x}", raw)


def escaped_alone(text: str) -> str:
    """The same where no JSON surrounds the text: its other characters are escaped, too, if any are."""
    return text if escaped(text) == text else escaped(json.dumps(text, ensure_ascii=False)[1:-1])


def base64_of(text: str) -> str:
    """Base64 with its padding."""
    return base64.b64encode(text.encode()).decode()


def hexadecimal(text: str) -> str:
    """Hexadecimal digits in lower case."""
    return text.encode().hex()


def percent(text: str) -> str:
    """Percent-encoding of all characters but letters, digits and `-._~`; what is marked stays so."""
    return re.sub("[^\ue000-\ue07f]+", lambda plain: quote(plain[0], safe=""), text)


def in_prose(text: str) -> str:
    """A text between words."""
    return f"see {text} for more"


SPELLINGS: Final[dict[str, Callable[[str], str]]] = {
    "plain": str,
    "JSON escapes": marked,
    "JSON in JSON": lambda text: json.dumps({"a": json.dumps([text])}),
    "JSON five times": lambda text: json.dumps(json.dumps(json.dumps(json.dumps(json.dumps([text]))))),
    "percent, after %20": lambda text: percent(in_prose(text)),
    "percent, each character": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "percent twice": lambda text: percent(percent(in_prose(text))),
    "hex": hexadecimal,
    "hex in capitals": lambda text: hexadecimal(in_prose(text)).upper(),
    "base64": base64_of,
    "base64, URL-safe": lambda text: base64.urlsafe_b64encode(f"user: {text}".encode()).decode().rstrip("="),
    WRAPPED: lambda text: "\n".join(wrap(base64_of(in_prose(text) * 2), 60)),
    "base64 twice": lambda text: base64_of(base64_of(text)),
    "base64 three times": lambda text: base64_of(base64_of(base64_of(text))),
    "percent in base64": lambda text: base64_of(percent(in_prose(text))),
    "base64 in hex": lambda text: hexadecimal(base64_of(text)),
    "hex in base64": lambda text: base64_of(hexadecimal(text)),
}
"""Each spelling of a text."""

UNDECODED: Final[dict[str, Callable[[str], str]]] = {
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hex with colons": lambda text: text.encode().hex(":"),
    "HTML entities": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "quoted-printable": lambda text: "".join(f"={byte:02X}" for byte in text.encode()),
    "UTF-16 in base64": lambda text: base64.b64encode(text.encode("utf-16")).decode(),
    "deflated, in base64": lambda text: base64.b64encode(zlib.compress(text.encode())).decode(),
    "base64 four times": lambda text: base64_of(base64_of(base64_of(base64_of(text)))),
}
"""Spellings that `share` does not decode."""
