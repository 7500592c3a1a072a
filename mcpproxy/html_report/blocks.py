"""Blocks of data inside the HTML file: JSON that no HTML parser mistakes for markup, plain or compressed.

A block is never run: its element has a data type (`application/json`), and scripts read its text. Compressed blocks are
Base64 of zlib, which browsers decompress themselves.
"""

import zlib
from base64 import b64encode
from collections.abc import Iterator
from typing import Final

import orjson

BLOCK_CHARACTERS: Final = 256 << 10
"""How many characters of payloads are in one block: few enough to be decompressed between two frames of the screen."""
_LEVEL: Final = 6

_MARKUP: Final = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
"""JSON escapes for characters that could end the element, or open a comment in it. In JSON, these characters occur only
inside strings.
"""


def plain(name: str, value: object) -> str:
    """Returns a value as a block."""
    return _element(name, orjson.dumps(value).decode().translate(_MARKUP))


def packed(name: str, value: object) -> str:
    """Returns a value as a compressed block."""
    return _element(name, f'"{b64encode(zlib.compress(orjson.dumps(value), _LEVEL)).decode()}"')


def _element(name: str, json_text: str) -> str:
    return f'<script type="application/json" id="{name}">{json_text}</script>\n'


class Payloads:
    """The payloads of a report, compressed as they are added: they need no more memory than room in the file."""

    def __init__(self) -> None:
        self.count = 0
        self.starts: list[int] = []
        """For each block, the number of its first payload."""
        self._open_payloads: list[str] = []
        self._characters = 0
        self._blocks: list[str] = []

    def add(self, text: str) -> int:
        """Add a payload; returns its number."""
        if not self._open_payloads:
            self.starts.append(self.count)
        self._open_payloads.append(text)
        self._characters += len(text)
        self.count += 1
        if self._characters >= BLOCK_CHARACTERS:
            self._close()
        return self.count - 1

    def elements(self) -> Iterator[str]:
        """Yields the blocks: `data-payloads-0` and so on. Call this after the last payload."""
        if self._open_payloads:
            self._close()
        yield from self._blocks

    def _close(self) -> None:
        self._blocks.append(packed(f"data-payloads-{len(self._blocks)}", self._open_payloads))
        self._open_payloads, self._characters = [], 0
