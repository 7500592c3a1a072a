"""How much of one read is processed at once, so that no other connection waits long.

Every unit of HTTP and of event streams that takes a step to process ends in CR or LF: a chunk, a field, a trailer, a
request line, an event and each of its lines. So a portion is bounded in bytes and in line ends, regardless of what it
contains.
"""

from collections.abc import Iterator
from typing import Final

PORTION_BYTES: Final = 64 << 10
PORTION_LINES: Final = 128
"""CR and LF each count as one; a portion may run to the end of the block in which it exceeds this."""
_BLOCK: Final = 512


def portion(data: bytes, at: int = 0) -> int:
    """Returns where the portion that begins at `at` ends."""
    end = min(at + PORTION_BYTES, len(data))
    lines, size = 0, _BLOCK
    while at < end:
        # Steps grow while there are few line ends, as the portion may be short and the data after it long.
        stop = min(at + size, end)
        line_ends = data.count(b"\n", at, stop) + data.count(b"\r", at, stop)
        if lines + line_ends <= PORTION_LINES:
            lines += line_ends
            at = stop
            size *= 2
        elif size > _BLOCK:
            size //= 2
        else:
            return stop
    return at


def portions(data: bytes) -> Iterator[bytes]:
    """All of the data, cut into portions."""
    at = 0
    while at < len(data):
        stop = portion(data, at)
        yield data[at:stop] if at or stop < len(data) else data
        at = stop
