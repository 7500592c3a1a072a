"""The journal: numbered records that are not in the capture file yet, in memory that outlives the recorder.

While a write hangs or fails, traffic continues and its records wait. A SIGKILL would lose all records in the recorder's
own memory, so they are copied to the journal, an anonymous shared mapping, which the guard process inherits. After the
recorder has died, `captures.recovery` appends them to the file.

Promises: a record is visible to the guard as soon as `store` returns True; `store` stores a record completely or not at
all; while no record waits, no page of the mapping is touched. The contents can be verified: they are whole lines with
number and checksum, in the order of the file.
"""

from __future__ import annotations

from collections import deque
from mmap import mmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

JOURNAL_BYTES: Final = 32 << 20
FREE_STEP_BYTES: Final = 64 << 10
"""Space is freed in steps of about this size."""

_HEAD, _TAIL, _NEXT_SEQ = range(3)
_COUNTERS_BYTES: Final = 24


class Journal:
    """A ring buffer in an anonymous shared mapping: one process writes, and another reads after the writer has died."""

    def __init__(self, size: int = JOURNAL_BYTES) -> None:
        """Map the memory, which only processes forked later share.

        Raises:
            OSError: the system refuses the memory.
        """
        self._size = size
        self._map = mmap(-1, _COUNTERS_BYTES + size)
        # The counters use aligned 8-byte stores: a kill leaves either the old or the new value, never parts of both.
        self._counters = memoryview(self._map)[:_COUNTERS_BYTES].cast("Q")
        self._ring = memoryview(self._map)[_COUNTERS_BYTES:]
        self._marks: deque[tuple[int, int]] = deque()
        self._unmarked_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Free space in bytes."""
        return self._size - (self._counters[_HEAD] - self._counters[_TAIL])

    @property
    def next_seq(self) -> int:
        """One more than the highest number assigned while records waited; 0 while no record waits."""
        return self._counters[_NEXT_SEQ]

    @next_seq.setter
    def next_seq(self, seq: int) -> None:
        self._counters[_NEXT_SEQ] = seq

    def store(self, lines: bytes, last_seq: int) -> bool:
        """Store whole lines, the last one numbered `last_seq`; return False, storing nothing, if they do not fit."""
        if len(lines) > self.free_bytes:
            return False
        head = self._counters[_HEAD]
        position = head % self._size
        first = lines[: self._size - position]
        self._ring[position : position + len(first)] = first
        if len(first) < len(lines):
            self._ring[: len(lines) - len(first)] = lines[len(first) :]
        self._counters[_HEAD] = head + len(lines)
        self._unmarked_bytes += len(lines)
        if self._unmarked_bytes >= FREE_STEP_BYTES:
            self._unmarked_bytes = 0
            self._marks.append((last_seq, head + len(lines)))
        return True

    def free(self, written_seq: int) -> None:
        """Release the space of records up to `written_seq`, which are in the file."""
        new_tail = None
        while self._marks and self._marks[0][0] <= written_seq:
            new_tail = self._marks.popleft()[1]
        if new_tail is not None:
            self._counters[_TAIL] = new_tail

    def clear(self) -> None:
        """Release all space, as no record waits any longer."""
        self._marks.clear()
        self._unmarked_bytes = 0
        self._counters[_TAIL] = self._counters[_HEAD]
        self._counters[_NEXT_SEQ] = 0

    def content(self) -> bytes:
        """Returns the lines that were stored and have not been released."""
        head, tail = self._counters[_HEAD], self._counters[_TAIL]
        position, size = tail % self._size, head - tail
        first = bytes(self._ring[position : position + size])
        return first + bytes(self._ring[: size - len(first)])
