"""Cuts a read into portions, which are processed one at a time, so that no other connection waits long.

Every unit of HTTP and of event streams that takes a step to process ends in CR or LF: a chunk, a field, a trailer, a
request line, an event and each of its lines. So both the bytes and the line ends of a portion are limited, regardless
of its content.
"""

from collections.abc import Iterator
from typing import Final

MAX_PORTION_BYTES: Final = 64 << 10
MAX_PORTION_LINES: Final = 128
"""The maximum number of line ends; CR and LF each count as one. A portion may extend to the end of the block in which
it exceeds this.
"""
_BLOCK_BYTES: Final = 512


def portion_end(data: bytes, position: int = 0) -> int:
    """Returns the end of the portion that begins at `position`."""
    end = min(position + MAX_PORTION_BYTES, len(data))
    lines, size = 0, _BLOCK_BYTES
    while position < end:
        # Steps grow only while line ends are few, because the portion may be short and the data after it long.
        stop = min(position + size, end)
        line_ends = data.count(b"\n", position, stop) + data.count(b"\r", position, stop)
        if lines + line_ends <= MAX_PORTION_LINES:
            lines += line_ends
            position = stop
            size *= 2
        elif size > _BLOCK_BYTES:
            size //= 2
        else:
            return stop
    return position


def portions(data: bytes) -> Iterator[bytes]:
    """Yields the data, cut into portions."""
    start = 0
    while start < len(data):
        stop = portion_end(data, start)
        yield data[start:stop] if start or stop < len(data) else data
        start = stop
