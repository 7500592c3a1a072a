"""A whole message as lines: JSON with one member per line, in the exact tokens that crossed; anything else as text.

Nothing is cut and nothing is parsed into values, so numbers keep every digit and duplicate members are kept. Time and
memory are linear in the size, regardless of nesting: from `MAX_INDENT_DEPTH` on, lines are indented no further.
"""

from collections.abc import Callable, Iterator
from typing import Final

from captures.frame import Frame
from mcpproxy.sanitise import sanitise_bytes
from mcpproxy.wording.excerpts import TOKEN

MAX_INDENT_DEPTH: Final = 40
"""The most levels that are indented."""
_INDENT: Final = 2


def _sanitised(line: bytes) -> str:
    return sanitise_bytes(line, None)


def message_lines(frame: Frame) -> Iterator[str]:
    """The lines of a frame, safe on a screen. A frame that is not JSON keeps its own lines."""
    if frame.verdict.kind in ("invalid", "unjudged"):
        yield from (_sanitised(line) for line in frame.raw.split(b"\n"))
    else:
        yield from json_lines(frame.raw)


def json_lines(raw: bytes, safe: Callable[[bytes], str] = _sanitised) -> Iterator[str]:
    """The lines of JSON; for anything else, the lines of its tokens.

    Args:
        raw: the JSON.
        safe: makes a line safe on a screen.
    """
    line = _Line(safe)
    depth = 0
    has_opened = False
    for token in TOKEN.finditer(raw):
        text = token[0]
        closes = text in (b"}", b"]")
        depth -= closes
        if has_opened != closes:
            yield from line.flush()
        line.add(text, depth)
        has_opened = text in (b"{", b"[")
        depth += has_opened
        if text == b",":
            yield from line.flush()
    yield from line.flush()


class _Line:
    """A line that is being built."""

    def __init__(self, safe: Callable[[bytes], str]) -> None:
        self._safe = safe
        self._tokens: list[bytes] = []
        self._depth = 0

    def add(self, token: bytes, depth: int) -> None:
        if not self._tokens:
            self._depth = min(MAX_INDENT_DEPTH, max(0, depth))
        self._tokens.append(b": " if token == b":" else token)

    def flush(self) -> Iterator[str]:
        if self._tokens:
            yield " " * (_INDENT * self._depth) + self._safe(b"".join(self._tokens))
        self._tokens = []
