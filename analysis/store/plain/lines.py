"""One pass over the lines of a capture: the proof that DuckDB reads them as we do, and all that it does not read.

A line is plain if its checksum is right and it is spelt as our recorder spells a frame. Whether its text is then one
JSON string is proved by lengths: DuckDB tells how long all texts are that it has read, when written again. No spelling
of a string is shorter than that, and whatever else a line held would be more bytes. So if the sums agree, each line is
just what it looks like.

Frames that are not plain are kept as their records. Other records are noted by their place, and read again when their
rows are made.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO, Final, Self
from zlib import crc32

import orjson

from analysis.store.plain.doubt import Doubt
from analysis.store.plain.exchanges import Exchanges
from analysis.store.plain.opening import Opening
from analysis.store.values import LARGEST
from captures.cutting import SHORTEST
from captures.errors import NotACapture
from captures.reader import CHUNK, Capture, open_capture
from captures.record import CRC_TAIL, MAX_LINE, Record, decode
from captures.versions import FORMAT_VERSION

MOST_ODD_BYTES: Final = 64 << 20
"""Bytes of the lines of odd frames that are kept."""
APART: Final = 64
"""Frames between two whose places are noted."""

_PLACE: Final = rb'\{"seq":(0|[1-9]\d{0,17}),"rec":"frame","t_ns":(0|[1-9]\d{0,17}),"dir":"(c2s|s2c)"'
_PLACE_OF_HTTP: Final = (
    rb'(?:,"conn":[1-9]\d{0,17})?,"exchange":([1-9]\d{0,17}),"unit":"(?:http_body|sse_event)"'
    rb'(?:,"event_id":"[^"\\\x00-\x1f]{0,240}+")?(?:,"id_again":true)?'
)
_VERDICT: Final = (
    rb',"kind":"(?:request|response|notification|error)"'
    rb'(?:,"id":(?:0|-?[1-9]\d{0,14}|"[ !#-\[\]-~]{0,60}"))?'
    rb'(?:,"method":"[^"\\\x00-\x1f]{1,240}+")?'
    rb'(?:,"code":(?:0|-?[1-9]\d{0,14}))?'
    rb',"size":(?:0|[1-9]\d{0,8}),"raw":"'
)
_PRIMING: Final = rb',"kind":"invalid","size":0,"raw":"'
"""An event without data, which only gives the stream an id."""
_PLAIN: Final = re.compile(_PLACE + _VERDICT)
_PLAIN_OF_HTTP: Final = re.compile(_PLACE + _PLACE_OF_HTTP + rb"(?:" + _VERDICT + rb"|" + _PRIMING + rb")")
_END_OF_TEXT: Final = -CRC_TAIL - 1
_KNOWN: Final = frozenset({"stall", "stderr", "signal", "process", "eof", "close"})
"""Records that may come between frames. All others say more than a pipe has, or that something is lost."""
_EXCHANGE: Final = re.compile(rb'\{"seq":(?:0|[1-9]\d{0,17}),"rec":"(exchange|stream)","t_ns":\d')


def most_odd(frames: int) -> int:
    """The most frames of so many that may be odd: each costs ten times as much as another."""
    return 2_000 + frames // 20


class Lines:
    """The lines of a capture behind its opening, over all segments."""

    def __init__(self, capture: Capture, segments: list[Path], opening: Opening) -> None:
        """Nothing read so far.

        Args:
            capture: the capture.
            segments: its files, or copies of them.
            opening: its opening.
        """
        self._segments, self._opening = segments, opening
        self._capture = capture.header.members.get("capture")
        self._exchanges: Exchanges | None = opening.exchanges
        self.frames = 0
        """Plain lines of frames."""
        self.text_bytes = 0
        """Bytes of their texts as spelt in the capture."""
        self.odd: list[Record] = []
        """The other frames, and the parts of giant ones."""
        self.end = opening.first
        """The number that a further record would have."""
        self._others = array("Q")
        self._marks = array("Q")
        self._odd_bytes = 0
        self.firsts: list[int] = []
        """The number of the first record of each segment, or of the first behind the opening."""
        self._starts: list[int] = []
        """Where each segment begins, in bytes since the beginning of the first."""
        self._headers = 0
        """Segments after the first that begin as they should."""
        self._closed = -1
        """The number of the last record that closes a segment."""
        self.gone = LARGEST
        """The number of the record of the end of the server's output."""

    def read(self, report: Callable[[int], None] | None) -> None:
        """Read all lines.

        Args:
            report: called with the number of bytes read.

        Raises:
            Doubt: some line is damaged, missing, or of a kind that only the fold understands.
        """
        end = 0
        for path in self._segments:
            if self._starts and self._closed != self.end - 1:
                raise Doubt("a segment without its end")
            self._starts.append(end)
            self.firsts.append(self.end)
            end = self._read_segment(path, report)
        if self._headers != len(self._segments) - 1:
            raise Doubt("a segment without its header")
        if self._exchanges is not None:
            self._exchanges.finish()

    def _read_segment(self, path: Path, report: Callable[[int], None] | None) -> int:
        """Read the lines of one segment, and return where the next one begins."""
        offset, rest = max(self._starts[-1], self._opening.offset), b""
        with _opened(path) as file:
            file.seek(offset - self._starts[-1])
            while chunk := file.read(CHUNK):
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                if len(rest) > MAX_LINE:
                    raise Doubt("a line that is too long")
                self._take(lines, offset)
                offset += sum(map(len, lines)) + len(lines)
                if report is not None:
                    report(offset)
        if rest:
            raise Doubt("an unfinished record at the end")
        return offset

    def _take(self, lines: list[bytes], offset: int) -> None:
        expected, plain, text_bytes = self.end, self.frames, self.text_bytes
        marks, exchanges = self._marks, self._exchanges
        match = (_PLAIN if exchanges is None else _PLAIN_OF_HTTP).match
        for line in lines:
            body = line[:-CRC_TAIL]
            if line[-CRC_TAIL:] != b',"crc":"%08x"}' % crc32(body) or not SHORTEST <= len(line) < MAX_LINE:
                raise Doubt("damage")
            if not expected % APART:
                marks.append(offset)
            head = match(body)
            if head is not None and int(head[1]) == expected and line[_END_OF_TEXT] == 34:
                if not line.isascii():  # all other lines are parsed here, which proves it
                    _prove_utf8(line)
                plain += 1
                text_bytes += len(body) - head.end() - 1
                if exchanges is not None:
                    exchanges.carry(expected, int(head[2]), int(head[4]), by_client=head[3] == b"c2s")
            else:
                self._take_other(line, offset, expected)
            expected += 1
            offset += len(line) + 1
        self.end, self.frames, self.text_bytes = expected, plain, text_bytes

    def _take_of_http(self, exchanges: Exchanges, line: bytes, offset: int, expected: int) -> bool:
        """Take a line if it is a record of an HTTP exchange; its checksum is right."""
        head = _EXCHANGE.match(line)
        if head is None:
            return False
        try:
            members = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise Doubt("a loss") from None
        rec, t_ns = head[1].decode(), members["t_ns"]
        if members["seq"] != expected or members["rec"] != rec or type(t_ns) is not int or not 0 <= t_ns <= LARGEST:
            raise Doubt("a loss")
        exchanges.take(expected, rec, t_ns, members, offset, len(line))
        return True

    def _take_other(self, line: bytes, offset: int, expected: int) -> None:
        if self._exchanges is not None and self._take_of_http(self._exchanges, line, offset, expected):
            return
        record = decode(line, offset, orjson.loads)
        if record is None or record.seq != expected or record.t_ns > LARGEST:
            raise Doubt("a loss")
        if record.rec in ("frame", "part"):
            self._carry(record)
            self.odd.append(record)
            self._odd_bytes += len(line)
            if len(self.odd) > most_odd(expected) or self._odd_bytes > MOST_ODD_BYTES:
                raise Doubt("many odd frames")
        elif record.rec in _KNOWN or self._continues(record):
            if record.rec == "stall":
                self._opening.stalls.take(record)
            elif record.rec == "eof" and record.members.get("dir") == "s2c":
                self.gone = min(self.gone, record.seq)
            elif record.rec == "close" and record.members.get("ending") == "segment":
                self._closed = record.seq
            self._others.append(offset)
        else:
            raise Doubt(f"a record of type {record.rec}" if record.rec in ("gap", "header") else "another record")

    def _carry(self, record: Record) -> None:
        """Let an odd frame, or its last record, be part of its exchange."""
        number = record.members.get("exchange")
        if self._exchanges is not None and record.rec == "frame":
            by_client = record.members.get("dir") == "c2s"
            self._exchanges.carry(record.seq, record.t_ns, number if type(number) is int else 0, by_client=by_client)

    def _continues(self, record: Record) -> bool:
        """Whether a record is the header of a further segment of this capture, at its place."""
        named = record.members.get("capture"), record.members.get("format")
        is_next = record.rec == "header" and record.offset == self._starts[-1] > 0
        if not is_next or named != (self._capture, FORMAT_VERSION):
            return False
        self._headers += 1
        return True

    def others(self) -> Iterator[Record]:
        """The records that are no frames, in order, except those of HTTP exchanges whose rows are known."""
        left = [] if self._exchanges is None else self._exchanges.left
        return self._at(sorted([*self._others, *left]) if left else self._others)

    def frames_of(self, numbers: Iterable[int]) -> Iterator[Record]:
        """The records of plain frames.

        Args:
            numbers: their numbers, in order.
        """
        first_mark = -(-self._opening.first // APART) * APART
        at, size = self._opening.first, 0
        with _Reader(self._segments, self._starts) as reader:
            reader.seek(self._opening.offset)
            for number in numbers:
                mark = (number - first_mark) // APART
                if mark >= 0 and first_mark + mark * APART > at:
                    at = first_mark + mark * APART
                    reader.seek(self._marks[mark])
                line = b""
                for _ in range(number - at + 1):
                    line = reader.readline()
                at, size = number + 1, size + len(line)
                if size > MOST_ODD_BYTES:
                    raise Doubt("many odd frames")
                record = decode(line.rstrip(b"\n"), -1, orjson.loads)
                if record is None or record.seq != number:
                    raise Doubt("the file has changed")
                yield record

    def _at(self, offsets: Iterable[int]) -> Iterator[Record]:
        with _Reader(self._segments, self._starts) as reader:
            for offset in offsets:
                reader.seek(offset)
                record = decode(reader.readline().rstrip(b"\n"), offset, orjson.loads)
                if record is None:
                    raise Doubt("the file has changed")
                yield record


def _opened(segment: Path) -> BinaryIO:
    try:
        return open_capture(segment)
    except NotACapture:  # the ring of a recorder deletes old ones
        raise Doubt("a segment that is gone") from None


def _prove_utf8(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError:
        raise Doubt("bytes that are not UTF-8") from None


class _Reader:
    """The lines of all segments, as if they were one file."""

    def __init__(self, segments: list[Path], starts: list[int]) -> None:
        self._segments, self._starts = segments, starts
        self._open(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def seek(self, offset: int) -> None:
        """Go to the line that begins there."""
        number = bisect_right(self._starts, offset) - 1
        if number != self._number:
            self._file.close()
            self._open(number)
        self._file.seek(offset - self._starts[number])

    def readline(self) -> bytes:
        """The next line; empty behind the last."""
        line = self._file.readline(MAX_LINE)
        if not line and self._number + 1 < len(self._starts):
            self.seek(self._starts[self._number + 1])
            line = self._file.readline(MAX_LINE)
        return line

    def _open(self, number: int) -> None:
        file = _opened(self._segments[number])
        assert isinstance(file, FileIO)
        self._number, self._file = number, BufferedReader(file, 1 << 16)
