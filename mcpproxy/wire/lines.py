"""Newline-delimited frames: chunks in, pieces out, no byte lost or duplicated, memory bounded.

The one delimiter on stdio is the byte 0A (MCP, basic/transports, stdio). `str.splitlines` and text-mode readers also
split at CR, VT, FF, U+0085 and U+2028, some of which may occur unescaped inside a JSON string, so they are never used
here.
"""

from __future__ import annotations

from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAX_PENDING_BYTES: Final = 1 << 20
"""An unfinished line longer than this is returned in pieces as it arrives."""
LINES_AT_ONCE: Final = 256


class Piece(NamedTuple):
    """A whole line, or a part of a line that is too long to wait for."""

    raw: bytes
    """The bytes, without the delimiter."""
    delim: bytes
    """`b"\\n"`, `b"\\r\\n"`, or `b""` if there was none."""
    last: bool = True
    """False for a part with more parts to follow."""
    part: int = 0
    """From 1 for the parts of a line in several pieces; 0 for a line in one piece."""


class LineSplitter:
    """Splits one direction of a stream into lines.

    Joining `raw` and `delim` of all pieces gives back exactly the bytes that were fed.
    """

    def __init__(self, max_pending: int = MAX_PENDING_BYTES) -> None:
        self._max = max_pending
        self._chunks: list[bytes] = []
        self._size = 0
        self._parts = 0

    def feed_complete(self, chunk: bytes) -> list[bytes] | None:
        """The lines that `chunk` completes, if all end in a bare LF and none is giant.

        Otherwise returns None and consumes nothing. Meant for ordinary chunks, where an object per line would cost as
        much as the splitting.
        """
        if self._parts or len(chunk) > self._max or b"\r" in chunk:
            return None
        lines = chunk.split(b"\n")
        if self._chunks:
            if self._size + len(chunk) > self._max or len(lines) == 1:
                return None
            lines[0] = b"".join((*self._chunks, lines[0]))
            if lines[0].endswith(b"\r"):
                return None
        rest = lines.pop()
        self._chunks, self._size = ([rest], len(rest)) if rest else ([], 0)
        return lines

    def feed(self, chunk: bytes) -> list[Piece]:
        """Returns the pieces that `chunk` completes."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        pieces = []
        for line in lines:
            pieces += self._finish(line)
        if rest:
            self._chunks.append(rest)
            self._size += len(rest)
            if self._size > self._max:
                pieces += self._spill()
        return pieces

    def _finish(self, line: bytes) -> list[Piece]:
        """The line that ends here, with its pending beginning."""
        if self._chunks:
            self._chunks.append(line)
            line = b"".join(self._chunks)
            self._chunks, self._size = [], 0
        if len(line) > self._max or self._parts:
            *cuts, end = self._cut(line)
            whole = _line(end)
            pieces = [*map(self._next_part, cuts), self._next_part(whole.raw, whole.delim, last=True)]
            self._parts = 0
            return pieces
        return [_line(line)]

    def _spill(self) -> list[Piece]:
        """Return what is pending except its end: a character, or a CR before LF, may be split there."""
        *pieces, rest = self._cut(b"".join(self._chunks))
        self._chunks, self._size = [rest], len(rest)
        return [self._next_part(piece) for piece in pieces]

    def _cut(self, data: bytes) -> list[bytes]:
        """Pieces of at most the maximum, cut between UTF-8 characters; the last may be short or empty."""
        pieces, start = [], 0
        while len(data) - start > self._max:
            stop = character_border(data, start + self._max)
            pieces.append(data[start:stop])
            start = stop
        if self._parts or pieces:
            pieces.append(data[start:])
            return pieces
        return [data]

    def _next_part(self, raw: bytes, delim: bytes = b"", *, last: bool = False) -> Piece:
        self._parts += 1
        return Piece(raw, delim, last, self._parts)

    def finish(self) -> list[Piece]:
        """Returns the unfinished line at the end of the stream; nothing if it ended with a delimiter."""
        if not self._size and not self._parts:
            return []
        rest = b"".join(self._chunks)
        self._chunks, self._size = [], 0
        if not self._parts:
            return [Piece(rest, b"")]
        piece = self._next_part(rest, last=True)
        self._parts = 0
        return [piece]

    @property
    def held(self) -> bytes:
        """The bytes that wait for the end of their line."""
        return b"".join(self._chunks)

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._chunks) or self._parts > 0


def _line(line: bytes) -> Piece:
    return Piece(line[:-1], b"\r\n") if line.endswith(b"\r") else Piece(line, b"\n")


def character_border(data: bytes, at: int) -> int:
    """The last UTF-8 character boundary at or before `at`; `at` itself if the bytes are not UTF-8."""
    for back in range(4):
        if data[at - back] & 0xC0 != 0x80:
            return at - back
    return at


def first_lines(data: bytes) -> int:
    """How many bytes the first lines of a chunk take: as many lines as can be judged and written in a few milliseconds.

    A chunk of 64 KiB may hold as many empty lines, and 64 Ki records take a second.
    """
    # `count` examines each byte of a chunk, `replace` skips from newline to newline: a fifth of the time.
    if len(data) - len(data.replace(b"\n", b"")) <= LINES_AT_ONCE:
        return len(data)
    at = -1
    for _ in range(LINES_AT_ONCE):
        at = data.find(b"\n", at + 1)
    return at + 1
