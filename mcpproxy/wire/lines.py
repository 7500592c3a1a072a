"""Splits newline-delimited frames, in limited memory, without losing or duplicating a byte.

The only delimiter on stdio is the byte 0A (MCP, basic/transports, stdio). `str.splitlines` and text-mode readers also
split at CR, VT, FF, U+0085 and U+2028, some of which may occur unescaped inside a JSON string, so they are never used
here.
"""

from __future__ import annotations

from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAX_PENDING_BYTES: Final = 1 << 20
"""Longer lines are returned in pieces as they arrive."""
MAX_LINES_AT_ONCE: Final = 256


class LinePiece(NamedTuple):
    """A whole line, or part of a line that is too long to hold."""

    raw: bytes
    """The bytes, without the delimiter."""
    delim: bytes
    """`b"\\n"`, `b"\\r\\n"`, or `b""` if there was none."""
    is_last: bool = True
    """Whether this is the last part of its line."""
    part_number: int = 0
    """The number of the part, from 1, if the line is split; 0 for a whole line."""


class LineSplitter:
    """Splits one direction of a stream into lines.

    The concatenation of `raw` and `delim` of all pieces is exactly the input.
    """

    def __init__(self, max_pending: int = MAX_PENDING_BYTES) -> None:
        self._max_pending = max_pending
        self._chunks: list[bytes] = []
        self._size = 0
        self._part_count = 0

    def feed_complete(self, chunk: bytes) -> list[bytes] | None:
        """Returns the lines that `chunk` completes, if all of them end in a bare LF and none is giant.

        Otherwise returns None, and consumes nothing. It is meant for ordinary chunks, for which an object per line
        would cost as much as the splitting.
        """
        if self._part_count or len(chunk) > self._max_pending or b"\r" in chunk:
            return None
        lines = chunk.split(b"\n")
        if self._chunks:
            if self._size + len(chunk) > self._max_pending or len(lines) == 1:
                return None
            lines[0] = b"".join((*self._chunks, lines[0]))
            if lines[0].endswith(b"\r"):
                return None
        unfinished_line = lines.pop()
        self._chunks, self._size = ([unfinished_line], len(unfinished_line)) if unfinished_line else ([], 0)
        return lines

    def feed(self, chunk: bytes) -> list[LinePiece]:
        """Returns the pieces that `chunk` completes."""
        lines = chunk.split(b"\n")
        unfinished_line = lines.pop()
        pieces = []
        for line in lines:
            pieces += self._finish_line(line)
        if unfinished_line:
            self._chunks.append(unfinished_line)
            self._size += len(unfinished_line)
            if self._size > self._max_pending:
                pieces += self._spill_pending()
        return pieces

    def _finish_line(self, line: bytes) -> list[LinePiece]:
        """Returns the line that ends here, together with its pending beginning, as pieces."""
        if self._chunks:
            self._chunks.append(line)
            line = b"".join(self._chunks)
            self._chunks, self._size = [], 0
        if len(line) > self._max_pending or self._part_count:
            *leading_parts, last_part = self._cut_pieces(line)
            last_piece = _whole_line(last_part)
            pieces = [
                *map(self._next_part, leading_parts),
                self._next_part(last_piece.raw, last_piece.delim, last=True),
            ]
            self._part_count = 0
            return pieces
        return [_whole_line(line)]

    def _spill_pending(self) -> list[LinePiece]:
        """Returns the pending bytes except their end, where a character, or a CR before LF, may be split."""
        *pieces, unfinished_line = self._cut_pieces(b"".join(self._chunks))
        self._chunks, self._size = [unfinished_line], len(unfinished_line)
        return [self._next_part(piece) for piece in pieces]

    def _cut_pieces(self, data: bytes) -> list[bytes]:
        """Returns pieces of at most the maximum size, cut between UTF-8 characters; the last may be short or empty."""
        pieces, start = [], 0
        while len(data) - start > self._max_pending:
            stop = character_border(data, start + self._max_pending)
            pieces.append(data[start:stop])
            start = stop
        if self._part_count or pieces:
            pieces.append(data[start:])
            return pieces
        return [data]

    def _next_part(self, raw: bytes, delim: bytes = b"", *, last: bool = False) -> LinePiece:
        self._part_count += 1
        return LinePiece(raw, delim, last, self._part_count)

    def finish(self) -> list[LinePiece]:
        """Returns the unfinished line at the end of the stream, or no pieces if the stream ended with a delimiter."""
        if not self._size and not self._part_count:
            return []
        unfinished_line = b"".join(self._chunks)
        self._chunks, self._size = [], 0
        if not self._part_count:
            return [LinePiece(unfinished_line, b"")]
        piece = self._next_part(unfinished_line, last=True)
        self._part_count = 0
        return [piece]

    @property
    def pending_bytes(self) -> bytes:
        """The bytes of the unfinished line."""
        return b"".join(self._chunks)

    @property
    def is_pending(self) -> bool:
        """Whether a line is unfinished."""
        return bool(self._chunks) or self._part_count > 0


def _whole_line(line: bytes) -> LinePiece:
    return LinePiece(line[:-1], b"\r\n") if line.endswith(b"\r") else LinePiece(line, b"\n")


def character_border(data: bytes, position: int) -> int:
    """Returns the last UTF-8 character boundary at or before a position, or the position if the bytes are not UTF-8."""
    for offset in range(4):
        if data[position - offset] & 0xC0 != 0x80:
            return position - offset
    return position


def first_lines_size(data: bytes) -> int:
    """Returns the size of the first lines of a chunk, as many as can be judged and written in a few milliseconds.

    A chunk of 64 KiB may contain 64 Ki empty lines, and writing as many records takes a second.
    """
    # `replace` skips from newline to newline, which takes a fifth of the time of `count`, which examines each byte.
    if len(data) - len(data.replace(b"\n", b"")) <= MAX_LINES_AT_ONCE:
        return len(data)
    newline_at = -1
    for _ in range(MAX_LINES_AT_ONCE):
        newline_at = data.find(b"\n", newline_at + 1)
    return newline_at + 1
