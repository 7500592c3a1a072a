"""Completes a capture from the journal of a recorder that has died; runs in the guard process.

Promises: unless the disk keeps refusing writes, each record of the journal that is not in the file is appended, once
and in order, even if an earlier recovery was interrupted at any point; a line torn by the kill is cut off first; a
`gap` at the end reports numbers that were assigned but belong to no record. Recovery uses the standard library only,
and may wait for the disk without a limit: its process has nothing else to do.
"""

from __future__ import annotations

import errno
import os
import time
from zlib import crc32

from captures.file import create
from captures.paths import segment_path
from captures.record import CRC_MARK, CRC_TAIL, LINE_START, MAX_LINE_BYTES, members, seal
from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from captures.file import CaptureFile, WriteCall
    from captures.journal import Journal

RETRY_S: Final = 1.0
MAX_WRITE_ATTEMPTS: Final = 10
"""How many times a refused write is tried, one second apart, before the remaining records are abandoned."""
MAX_LINES_PER_WRITE: Final = 256
_OPEN_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_RETRIED_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR)


class _LastRecord(NamedTuple):
    """The last whole record of a file."""

    seq: int = -1
    t_ns: int = 0
    end: int = 0
    """The offset at which the line ends, in bytes; any bytes after it are torn."""


class Recovery:
    """Recovers one capture from its journal. The recorder creates it, and the guard uses it."""

    def __init__(self, file: CaptureFile, journal: Journal, write: WriteCall = os.write) -> None:
        self.fd = file.fd
        """The segment that is being written. While the guard has it open, the capture stays locked."""
        self._path = file.path
        self._segment = file.segment
        self._journal = journal
        self._write = write

    @property
    def is_needed(self) -> bool:
        """Whether records wait in the journal."""
        return self._journal.next_seq > 0

    def follow_segment(self, segment: int) -> None:
        """Switch to a segment that the recorder has begun, and release the previous one."""
        self._try_enter(segment)

    def _switch_to(self, fd: int, segment: int) -> None:
        os.close(self.fd)
        self.fd, self._segment = fd, segment

    def close(self) -> None:
        """Release the capture and its lock."""
        os.close(self.fd)

    def complete_capture(self) -> bool:
        """Append the waiting records; return False if the disk kept refusing them."""
        while self._try_enter(self._segment + 1):
            pass
        last = self._last_record()
        if last.end < os.fstat(self.fd).st_size:
            os.ftruncate(self.fd, last.end)
        seq, t_ns = last.seq, last.t_ns
        holes: list[tuple[int, int]] = []
        pending_lines: list[bytes] = []
        for line in whole_lines(self._journal.content()):
            number = _integer_member(line, b'"seq":')
            if number <= seq:
                continue
            if _is_header(line):
                if not self._append(pending_lines):
                    return False
                if not self._begin_segment():
                    continue
            if number > seq + 1:
                holes.append((seq + 1, number - 1))
            if b',"rec":"gap",' in line[:64]:
                holes = _remaining_holes(holes, _integer_member(line, b'"first":'), _integer_member(line, b'"last":'))
            seq, t_ns = number, _integer_member(line, b'"t_ns":')
            pending_lines.append(line)
            if len(pending_lines) >= MAX_LINES_PER_WRITE and not self._append(pending_lines):
                return False
        if self._journal.next_seq > seq + 1:
            holes.append((seq + 1, self._journal.next_seq - 1))
        return self._append([*pending_lines, *_gap_lines(holes, max(seq + 1, self._journal.next_seq), t_ns)])

    def _last_record(self) -> _LastRecord:
        """Returns the last whole record of the capture, even of an earlier segment; `end` always refers to this one."""
        last = last_record(self.fd)
        segment = self._segment
        while last.seq < 0 and segment > 1:
            segment -= 1
            try:
                fd = os.open(segment_path(self._path, segment), _OPEN_FLAGS)
            except OSError:
                break
            last = last_record(fd)._replace(end=last.end)
            os.close(fd)
        return last

    def _try_enter(self, segment: int) -> bool:
        """Switch to a segment if the recorder has begun it; return False if this capture has no such segment."""
        try:
            fd = os.open(segment_path(self._path, segment), _OPEN_FLAGS)
        except OSError:
            return False
        if _capture_id(fd) == _capture_id(self.fd) != b"":
            self._switch_to(fd, segment)
            return True
        os.close(fd)
        return False

    def _begin_segment(self) -> bool:
        """Create the next segment, or use an empty one that the recorder left; return False if another file is there.

        In that case, the records after the header go into the old segment, and a `gap` gets the number of the header.
        """
        path = segment_path(self._path, self._segment + 1)
        try:
            fd = create(path)
        except FileExistsError:
            try:
                fd = os.open(path, _OPEN_FLAGS)
            except OSError:
                return False
            if os.fstat(fd).st_size and _capture_id(fd):
                os.close(fd)
                return False
            os.ftruncate(fd, 0)  # the file contains at most part of a header
        except OSError:
            return False
        self._switch_to(fd, self._segment + 1)
        return True

    def _append(self, lines: list[bytes]) -> bool:
        """Append lines, with retries; return False, with only whole lines in the file, if the disk kept refusing."""
        data = b"".join(lines)
        lines.clear()
        for attempt in range(MAX_WRITE_ATTEMPTS):
            if attempt:
                time.sleep(RETRY_S)
            try:
                while data:
                    data = data[self._write(self.fd, data) :]
            except OSError as error:
                if error.errno not in _RETRIED_ERRORS:
                    break
            else:
                return True
        end = last_record(self.fd).end
        if end < os.fstat(self.fd).st_size:
            os.ftruncate(self.fd, end)
        return False


def whole_lines(content: bytes) -> Iterator[bytes]:
    """Yield the lines with a correct checksum, LF included."""
    for body in content.split(b"\n"):
        line = body + b"\n"
        if _is_whole(line):
            yield line


def last_record(fd: int) -> _LastRecord:
    """Returns the last whole record of a file; its number is -1 if there is none."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, min(size, 2 * MAX_LINE_BYTES), max(0, size - 2 * MAX_LINE_BYTES))
    end = tail.rfind(b"\n") + 1
    while end > 0:
        start = tail.rfind(b"\n", 0, end - 1) + 1
        line = tail[start:end]
        if _is_whole(line):
            return _LastRecord(
                _integer_member(line, b'"seq":'), _integer_member(line, b'"t_ns":'), size - len(tail) + end
            )
        end = start
    return _LastRecord(end=size)


def _remaining_holes(holes: list[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """Returns the holes, or parts of holes, that a `gap` over these numbers does not account for."""
    remainders: list[tuple[int, int]] = []
    for low, high in holes:
        remainders += [(low, min(high, first - 1)), (max(low, last + 1), high)]
    return sorted({hole for hole in remainders if hole[0] <= hole[1]})


def _gap_lines(holes: list[tuple[int, int]], seq: int, t_ns: int) -> list[bytes]:
    """Returns a `gap` line for each hole, numbered from `seq`."""
    gaps = [members(first=first, last=last, reason="killed") for first, last in holes]
    return [seal(number, t_ns, "gap", gap) for number, gap in enumerate(gaps, seq)]


def _is_header(line: bytes) -> bool:
    return b',"rec":"header",' in line[:64]


def _is_whole(line: bytes) -> bool:
    end = len(line) - CRC_TAIL - 1
    return end > 0 and line.startswith(LINE_START) and line[end:] == b'%b%08x"}\n' % (CRC_MARK, crc32(line[:end]))


def _integer_member(line: bytes, name: bytes) -> int:
    """Returns an integer among the first members of a whole line, or -1 if there is none."""
    position = line.find(name, 0, 128)
    digits = line[position + len(name) : position + len(name) + 20].partition(b",")[0].partition(b"}")[0]
    return int(digits) if position > 0 and digits.isdigit() else -1


def _capture_id(fd: int) -> bytes:
    """Returns the id of the capture to which a file belongs, by its header; empty if the header is torn or missing."""
    start = os.pread(fd, 4096, 0)
    position = start.find(b'"capture":"')
    return (
        start[position + 11 : position + 43]
        if position > 0 and start.startswith(LINE_START) and b"\n" in os.pread(fd, MAX_LINE_BYTES, 0)
        else b""
    )
