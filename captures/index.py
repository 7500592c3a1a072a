"""Index: the positions of a capture's records in arrays, so any of a million records can be shown immediately.

The index follows the rules of the reader, checksums and damage included. It is built in steps, while the file may still
be growing. An entry takes 30 bytes; the frame, record or damage that it represents is read on demand, with one `pread`.

The entries represent the items that `assembled_items(Capture(path))` yields, in the same order: parts of a giant frame
have no entries, and a giant frame whose end was not recorded comes after all others. The `kind` of an entry is judged
again if the record alone is a flawless frame; otherwise it is the recorder's verdict, which is good enough for a list.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

import orjson

from captures.cutting import record_in
from captures.damage import Cause, Damage
from captures.frame import Frame
from captures.frames import FrameAssembler, stream_of
from captures.listing import segments
from captures.numbers import NumberList
from captures.reader import upgraded_record
from captures.record import Record, decode, raw_bytes
from captures.tail import STEP, Tail
from captures.verdict import Direction, Kind

MESSAGE_KINDS: Final[tuple[Kind, ...]] = (
    "request",
    "response",
    "error",
    "notification",
    "batch",
    "invalid",
    "unjudged",
)
RECORD_TYPES: Final = ("header", "exchange", "stream", "stderr", "signal", "process", "stall", "gap", "close", "eof")
ENTRY_KINDS: Final = (*MESSAGE_KINDS, *RECORD_TYPES, "damage", "other")
"""The kinds of entries. `other` is a record of an unknown type, or an invalid `frame` record."""

_KIND_CODES: Final = {sort: code for code, sort in enumerate(ENTRY_KINDS)}
_CAUSES: Final[tuple[Cause, ...]] = ("torn", "corrupt", "overlong", "version", "foreign")
_SIDES: Final[tuple[Direction | None, ...]] = (None, "c2s", "s2c")
_SIDE_CODES: Final = {side: code for code, side in enumerate(_SIDES)}
_UNJUDGED_CODE: Final = _KIND_CODES["unjudged"]
_DAMAGE_CODE: Final = _KIND_CODES["damage"]
_OTHER_CODE: Final = _KIND_CODES["other"]
_RESPONSE_CODES: Final = frozenset({_KIND_CODES["response"], _KIND_CODES["error"], _KIND_CODES["batch"]})
_FRAME_CLASSES: Final = bytes(
    0 if code > _UNJUDGED_CODE else 2 if code == _KIND_CODES["batch"] else 1 for code in range(256)
)
_MAX_UINT32: Final = (1 << 32) - 1


OnEntry: TypeAlias = Callable[[int, Frame | Record | Damage], None]


class IndexEntry(NamedTuple):
    """What the index stores about one item."""

    seq: int
    """Number of the record; for damage, of the last record before it."""
    t_ns: int
    """The stamp of the record in nanoseconds; for damage, of the last record before it."""
    kind: str
    """One of `ENTRY_KINDS`; for a frame, its kind, which is judged again only if it is flawless."""
    dir: Direction | None
    size: int
    """The size in bytes of a frame, a line of stderr or damage; at most 4 GiB."""


class Index:
    """The entries of one capture. One thread may grow it while others read."""

    def __init__(self, path: Path | str, limit: int = _MAX_UINT32) -> None:
        """Create an empty index.

        Args:
            path: the capture.
            limit: the most entries that the index keeps.

        Raises:
            NotACapture, NewerFormat: as `Capture`.
        """
        self.left_out_count = 0
        """How many records and stretches of damage have no entry because of the limit."""
        self._limit = limit
        self.tail = Tail(path)
        self.frame_count = 0
        """How many entries are frames."""
        self.has_ended = False
        """Whether no more entries will come."""
        self._seqs, self._offsets, self._times = NumberList(), array("Q"), array("Q")
        self._sizes, self._kinds, self._sides = array("I"), array("B"), array("B")
        self._segments = [0]
        """For each segment, the number of its first entry."""
        self._parts: dict[int, array[int]] = {}
        """The segment and offset of each part in sequence, by the entries of giant frames."""
        self._unfinished_entries: set[int] = set()
        self._open_giants: dict[tuple[object, ...], _GiantFrame] = {}
        self._abandoned_giants: list[_GiantFrame] = []

    @property
    def header(self) -> Record:
        """The first record of the capture."""
        return self.tail.header

    @property
    def path(self) -> Path:
        """The path of the capture."""
        return self.tail.path

    def __len__(self) -> int:
        # This column is filled last, so every counted entry is complete.
        return len(self._sides)

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(sys.getsizeof(column) for column in self._columns)

    @property
    def _columns(self) -> "tuple[array[int], ...]":
        return self._seqs.values, self._offsets, self._times, self._sizes, self._kinds, self._sides

    @property
    def last_ns(self) -> int:
        """The stamp of the last entry."""
        return self._times[-1] if self._times else 0

    def grow(self, size: int = STEP, note: OnEntry | None = None) -> bool:
        """Read up to `size` more bytes; return False if there are none yet, or no more will come (`has_ended`).

        Args:
            size: the most bytes to read.
            note: called with each new entry that is not a frame, is an empty frame, or is a response on a stream.
        """
        if self.has_ended:
            return False
        segment = len(self.tail.segments) - 1
        items = self.tail.step(size)
        self.add_items(items, segment, note)
        return bool(items) or not (self.tail.is_at_end or self.has_ended)

    def add_items(self, items: Iterable[Frame | Record | Damage], segment: int, note: OnEntry | None = None) -> None:
        """Add the items of one step of `tail`, for callers that also need the items.

        Args:
            items: all items of the step.
            segment: the position of the tail's segment before that step.
            note: as in `grow`.
        """
        for item in items:
            number = len(self)
            if number >= self._limit:
                self.left_out_count += not (isinstance(item, Record) and item.rec == "part")
            elif isinstance(item, Frame):
                kind_code = _KIND_CODES[item.verdict.kind]
                self._append(item.seq, item.offset, item.t_ns, len(item.raw), kind_code, _SIDE_CODES[item.dir])
            elif isinstance(item, Record):
                self._add_record(item, segment)
            else:
                side = len(_SIDES) + _CAUSES.index(item.cause)
                self._append(self._seqs.last, item.offset, self.last_ns, item.size, _KIND_CODES["damage"], side)
            is_new = len(self) > number
            if note is not None and is_new and self._is_noted(number, item):
                note(number, item)
        self._segments += [len(self)] * (len(self.tail.segments) - len(self._segments))
        if self.tail.has_ended:
            self._finish()

    def _is_noted(self, number: int, item: Frame | Record | Damage) -> bool:
        kind_code = self._kinds[number]
        if isinstance(item, Damage) or kind_code > _UNJUDGED_CODE or not self._sizes[number]:
            return True
        if kind_code not in _RESPONSE_CODES:
            return False
        return (item.unit if isinstance(item, Frame) else item.members.get("unit")) == "sse_event"

    def entry(self, number: int) -> IndexEntry:
        """Returns the stored properties of an entry, without reading its item."""
        side = self._sides[number]
        return IndexEntry(
            self._seqs.values[number],
            self._times[number],
            ENTRY_KINDS[self._kinds[number]],
            _SIDES[side] if side < len(_SIDES) else None,
            self._sizes[number],
        )

    def is_frame(self, number: int) -> bool:
        """Whether an entry is a frame."""
        return self._kinds[number] <= _UNJUDGED_CODE

    def are_frames(self, first: int, last: int) -> bool:
        """Whether all entries from `first` up to but excluding `last` are frames."""
        return max(self._kinds[first:last], default=0) <= _UNJUDGED_CODE

    def kind(self, number: int) -> str:
        """Returns the kind of an entry: one of `ENTRY_KINDS`."""
        return ENTRY_KINDS[self._kinds[number]]

    @property
    def damage_count(self) -> int:
        """How many of the entries are damage; the incomplete last record that a kill leaves is one of them."""
        return self._kinds.count(_DAMAGE_CODE)

    def frame_classes(self, first: int, last: int) -> bytes:
        """Returns a byte for each entry in a range: 1 for a frame, 2 for a batch, 0 for anything else."""
        return bytes(self._kinds[first:last]).translate(_FRAME_CLASSES)

    def directions(self, first: int, last: int) -> bytes:
        """Returns a byte for each entry in a range, which is different for each direction."""
        return bytes(self._sides[first:last])

    def seqs(self, first: int, last: int) -> "array[int]":
        """Returns the numbers of the records of a range of entries."""
        return self._seqs.values[first:last]

    def end_of_lines(self, first: int, limit: int, size: int) -> int:
        """Returns the end of the range of entries from `first` on whose lines, of one segment, have about `size` bytes.

        Args:
            first: the first entry.
            limit: the end of the range at the latest.
            size: the most bytes, unless one line has more.
        """
        segment = bisect_right(self._segments, first)
        segment_end = self._segments[segment] if segment < len(self._segments) else limit
        end = bisect_right(self._offsets, self._offsets[first] + size, first, min(limit, segment_end))
        return max(first + 1, end)

    def lines(self, first: int, last: int) -> "tuple[bytes, array[int]]":
        """Read the lines of a range of entries of one segment at once.

        Returns:
            The lines, with anything between them, and the place of each entry's line in them. A giant frame, which has
            several lines, has the place of the entry before it.
        """
        offsets = self._offsets[first:last]
        if self._parts:
            previous = next((offsets[n - first] for n in range(first, last) if n not in self._parts), 0)
            for position, number in enumerate(range(first, last)):
                previous = offsets[position] = previous if number in self._parts else offsets[position]
        segment = bisect_right(self._segments, first) - 1
        size = offsets[-1] - offsets[0]
        text = self.tail.read(segment, offsets[0], size) + self.tail.read_line(segment, offsets[-1])
        return text, array("Q", [offset - offsets[0] for offset in offsets])

    def giant_entries(self, first: int, last: int) -> list[int]:
        """Returns the entries in a range that are giant frames, which were recorded in parts."""
        return [number for number in range(first, last) if number in self._parts] if self._parts else []

    def t_ns(self, number: int) -> int:
        """Returns the stamp of an entry."""
        return self._times[number]

    def entry_at_time(self, t_ns: int) -> int:
        """Returns the first entry at or after a stamp, or the number of entries if there is none."""
        return bisect_left(self._times, t_ns, 0, len(self))

    def entry_of_seq(self, seq: int) -> int | None:
        """Returns the entry of the record with this number, or None if there is none."""
        position = self._seqs.position_of(seq)
        return None if position is None or position >= len(self) else position

    def read_item(self, number: int) -> Frame | Record | Damage | None:
        """Read the item of an entry from the file; return it, or None if the ring has deleted it.

        The item is read alone, so it does not say how many numbers are missing before it.
        """
        segment = bisect_right(self._segments, number) - 1
        side, offset = self._sides[number], self._offsets[number]
        if side >= len(_SIDES):
            return Damage(self.tail.segments[segment], offset, self._sizes[number], _CAUSES[side - len(_SIDES)])
        assembler = FrameAssembler()
        parts = self._parts.get(number)
        for position in range(0, len(parts) if parts else 0, 2):
            assert parts is not None
            part = self._read_record(parts[position], parts[position + 1])
            if part is not None:
                assembler.feed(part)
        if number in self._unfinished_entries:
            return next(assembler.finish(), None)
        record = self._read_record(segment, offset)
        return assembler.feed(record) if record is not None else None

    def read_first_part(self, number: int) -> Record | None:
        """Read the record of an entry; for a giant frame only its first part, as the whole may be a gigabyte."""
        parts = self._parts.get(number)
        if parts:
            return self._read_record(parts[0], parts[1])
        return self._read_record(bisect_right(self._segments, number) - 1, self._offsets[number])

    def giant_frame_parts(self, number: int) -> Iterator[bytes] | None:
        """Returns an iterator over the parts of a giant frame, which may be a gigabyte, or None for any other entry."""
        parts = self._parts.get(number)
        return None if parts is None else self._bytes_of(parts)

    def _bytes_of(self, parts: "array[int]") -> Iterator[bytes]:
        for position in range(0, len(parts), 2):
            record = self._read_record(parts[position], parts[position + 1])
            yield (raw_bytes(record.members) if record is not None else None) or b""

    def close(self) -> None:
        """Close the files."""
        self.tail.close()
        self.has_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_record(self, segment: int, offset: int) -> Record | None:
        line = self.tail.read_line(segment, offset)
        record = decode(line, offset, orjson.loads) or record_in(line, offset)
        return upgraded_record(record, self.tail.version(segment)) if record is not None else None

    # ---- saving

    def saved_contents(self) -> Iterator[bytes]:
        """Yield the contents of the index of an ended capture, for `restore`, or nothing if segments were deleted."""
        tail = self.tail
        if tail.segments != segments(self.path):
            return
        yield orjson.dumps(
            {
                "versions": tail.versions,
                "read_bytes": tail.read_bytes,
                "segments": self._segments,
                "parts": [[number, places.tolist()] for number, places in self._parts.items()],
                "unfinished": [*self._unfinished_entries],
                "frames": self.frame_count,
                "left_out": self.left_out_count,
                "is_sorted": self._seqs.is_sorted,
            }
        )
        for column in self._columns:
            yield bytes(column)

    def restore(self, saved: Iterator[bytes]) -> None:
        """Load the contents that another index of the same files has saved, instead of growing.

        Raises:
            LookupError, TypeError, ValueError: the saved contents are invalid, and were not loaded.
        """
        saved_members, columns = orjson.loads(next(saved, b"")), [array(column.typecode) for column in self._columns]
        for column in columns:
            column.frombytes(next(saved, b""))
        counts = {len(column) for column in columns}
        kind_codes, sides = columns[-2:]
        are_valid = max(kind_codes, default=0) < len(ENTRY_KINDS) and max(sides, default=0) < len(_SIDES) + len(_CAUSES)
        if len(counts) > 1 or max(counts) > self._limit or not are_valid:
            raise ValueError("not a valid index")
        segment_starts, unfinished = saved_members["segments"], {*saved_members["unfinished"]}
        parts = {number: array("Q", places) for number, places in saved_members["parts"]}
        frames, left_out, is_sorted = saved_members["frames"], saved_members["left_out"], saved_members["is_sorted"]
        self.tail.skip_to_end(saved_members["versions"], saved_members["read_bytes"])
        self._segments, self._parts, self._unfinished_entries = segment_starts, parts, unfinished
        self.frame_count, self.left_out_count, self._seqs.is_sorted = frames, left_out, is_sorted
        for column, cells in zip(self._columns, columns, strict=True):
            column.extend(cells)
        self.has_ended = True

    # ---- growing

    def _add_record(self, record: Record, segment: int) -> None:
        members, rec = record.members, record.rec
        side, size, kind_code = 0, 0, _OTHER_CODE
        if rec == "frame":
            side = _SIDE_CODES.get(members.get("dir"), 0) if isinstance(members.get("dir"), str) else 0
            text = members.get("raw")
            size = len(text if text.isascii() else text.encode()) if type(text) is str else _size(members)
            kind = members.get("kind")
            kind_code = _KIND_CODES.get(kind, _UNJUDGED_CODE) if type(kind) is str else _UNJUDGED_CODE
            kind_code = min(kind_code, _UNJUDGED_CODE) if side else _OTHER_CODE
            if "parts" in members:
                giant = self._open_giants.pop(stream_of(members), None)
                if giant is not None:
                    self._parts[len(self)] = giant.places
                    size = giant.size
        elif rec == "part":
            self._add_part(record, segment)
            return
        else:
            kind_code = _KIND_CODES.get(rec, _OTHER_CODE) if rec in RECORD_TYPES else _OTHER_CODE
            if rec == "stderr":
                size = len(raw_bytes(members) or b"")
            elif rec == "gap" and self._open_giants:
                self._abandon(members.get("lost"))
        self._append(record.seq, record.offset, record.t_ns, size, kind_code, side)

    def _append(self, seq: int, offset: int, t_ns: int, size: int, kind_code: int, side: int) -> None:
        self._seqs.append(seq)
        self._offsets.append(offset)
        self._times.append(t_ns)
        self._sizes.append(min(size, _MAX_UINT32))
        self._kinds.append(kind_code)
        self.frame_count += kind_code <= _UNJUDGED_CODE
        self._sides.append(side)

    def _add_part(self, part: Record, segment: int) -> None:
        stream = stream_of(part.members)
        raw = raw_bytes(part.members)
        if part.members.get("part") == 1:
            unfinished = self._open_giants.pop(stream, None)
            if unfinished is not None and unfinished.side:
                self._append_unfinished(unfinished)
            if raw is None:
                return
            side = 0 if stream[0] is None else 1 if stream[0] == "c2s" else 2
            self._open_giants[stream] = _GiantFrame(part.seq, part.t_ns, side)
        giant = self._open_giants.get(stream)
        if giant is not None:
            giant.places.extend((segment, part.offset))
            giant.size += len(raw or b"")

    def _append_unfinished(self, giant: "_GiantFrame") -> None:
        number = len(self)
        self._parts[number] = giant.places
        self._unfinished_entries.add(number)
        kind_code = _UNJUDGED_CODE if giant.side else _OTHER_CODE
        self._append(giant.seq, giant.places[1], giant.t_ns, giant.size, kind_code, giant.side)

    def _abandon(self, lost_traffic: object) -> None:
        """Give up unfinished frames after lost frames, as `FrameAssembler` does: later parts belong to other frames."""
        for stream in list(self._open_giants):
            direction, _, exchange = stream
            side: Any = lost_traffic.get(direction) if isinstance(lost_traffic, dict) else None
            if exchange is None and isinstance(side, dict) and side.get("frames"):
                self._abandoned_giants.append(self._open_giants.pop(stream))

    def _finish(self) -> None:
        for giant in (*self._abandoned_giants, *self._open_giants.values()):
            if len(self) < self._limit:
                self._append_unfinished(giant)
        self._abandoned_giants, self._open_giants = [], {}
        self.has_ended = True


class _GiantFrame:
    """A giant frame whose end has not been read yet."""

    def __init__(self, seq: int, t_ns: int, side: int) -> None:
        self.seq, self.t_ns, self.side = seq, t_ns, side
        self.places = array("Q")
        self.size = 0


def _size(members: dict[str, Any]) -> int:
    """Returns the size of a frame that is not UTF-8, or whose parts were recorded before it."""
    raw = raw_bytes(members)
    if raw is not None:
        return len(raw)
    size = members.get("size")
    return size if type(size) is int and size >= 0 else 0
