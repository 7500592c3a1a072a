"""The parts of an HTML report's file, read without a browser."""

import json
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any


class Parts(HTMLParser):
    """The elements of a file that may run, load or hold data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.policy = ""
        self.blocks: dict[str, str] = {}
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes += attrs
        if given.get("http-equiv") == "Content-Security-Policy":
            assert not self.scripts + self.styles, "the policy comes too late"
            self.policy = given["content"] or ""
        self._open = given.get("id") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts.append(data)
        elif self._open == "style":
            self.styles.append(data)
        elif self._open:
            self.blocks[self._open] = self.blocks.get(self._open, "") + data

    def block(self, name: str) -> Any:
        value = json.loads(self.blocks[name])
        return json.loads(zlib.decompress(b64decode(value))) if isinstance(value, str) else value

    def data(self) -> str:
        """Returns all data, as JSON."""
        return json.dumps([self.block(name) for name in self.blocks], ensure_ascii=False)

    def payloads(self) -> list[str]:
        count = len(self.block("data-overview")["payloads"]["starts"])
        return [text for at in range(count) for text in self.block(f"data-payloads-{at}")]
