"""Creates frames from the records of a capture, and giant frames from their parts; each is judged again.

Promises: the code never raises, regardless of the contents of a record; a record that is not a valid frame stays a
record; the memory for unfinished giant frames is bounded.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from captures.damage import Damage
from captures.envelope import MAX_READER_JUDGED_BYTES, judge_and_read, judge_and_read_part
from captures.flawless import read_flawless
from captures.frame import Frame
from captures.limits import MAX_STRUCTURAL_CHARS
from captures.record import Record, raw_bytes
from captures.verdict import UNJUDGED, Direction, Envelope, Unit

MAX_UNFINISHED_BYTES: Final = 256 << 20
"""The most bytes of unfinished giant frames that a reader keeps."""
PIECE_OVERHEAD_BYTES: Final = 2000
"""The overhead of keeping one piece, in bytes."""


class _GiantFrameParts:
    """The pieces of one giant frame that have arrived so far."""

    def __init__(self, first: Record) -> None:
        values: dict[str, Any] = {name: first.members.get(name) for name in ("dir", "conn", "exchange")}
        self.first_record = first._replace(members={**values, "whole": False, "delim": ""}, line=b"")
        """A substitute for the record of the frame if its end was not recorded."""
        self.pieces: list[bytes] = []
        self.size = 0
        self.cost = 0
        self.is_broken = False

    def add(self, part: Record, room: int) -> None:
        """Add a piece if there is room for it and no earlier piece is missing."""
        raw = raw_bytes(part.members)
        is_next = not self.is_broken and part.members.get("part") == len(self.pieces) + 1
        if raw is None or not is_next or len(raw) + PIECE_OVERHEAD_BYTES > room:
            self.is_broken = True
            return
        self.pieces.append(raw)
        self.size += len(raw)
        self.cost += len(raw) + PIECE_OVERHEAD_BYTES


class FrameAssembler:
    """Turns `frame` and `part` records into frames, judged again; all other items pass unchanged and in order."""

    def __init__(self, limit: int = MAX_READER_JUDGED_BYTES, room: int = MAX_UNFINISHED_BYTES) -> None:
        """Create an assembler.

        Args:
            limit: the size in bytes above which a frame is `unjudged`.
            room: the most bytes of unfinished giant frames that are kept; further bytes count as lost.
        """
        self._limit = limit
        self._room = room
        self._parts: dict[tuple[object, ...], _GiantFrameParts] = {}
        self._abandoned_parts: list[_GiantFrameParts] = []
        self._skipped = 0

    def feed(self, item: Frame | Record | Damage) -> Frame | Record | Damage | None:
        """Convert an item of a capture; return the result, or None for a part, whose frame comes later."""
        if isinstance(item, Frame) and self._skipped:
            item, self._skipped = replace(item, skipped=self._skipped), 0
        if not isinstance(item, Record):
            return item
        if item.rec == "gap" and self._parts:
            self._abandon(item.members.get("lost"))
        if item.rec == "part":
            self._skipped += item.skipped  # the next item that is returned reports them
            return self._add_part(item)
        if self._skipped:
            item, self._skipped = item._replace(skipped=item.skipped + self._skipped), 0
        if item.rec != "frame":
            return item
        parts = self._parts.pop(stream_of(item.members), None) if "parts" in item.members else None
        self._room += parts.cost if parts is not None else 0
        return _frame(item, parts, self._limit) or item

    def _add_part(self, part: Record) -> Frame | None:
        """Keep a part; if it is the first of a frame, return any previous unfinished frame of its stream."""
        stream = stream_of(part.members)
        unfinished = self._parts.pop(stream, None) if part.members.get("part") == 1 else None
        self._room += unfinished.cost if unfinished is not None else 0
        parts = self._parts.get(stream) or _GiantFrameParts(part)
        cost = parts.cost
        parts.add(part, self._room)
        self._room -= parts.cost - cost
        if parts.pieces:
            self._parts[stream] = parts
        return _frame(unfinished.first_record, unfinished, self._limit) if unfinished is not None else None

    def _abandon(self, lost_traffic: object) -> None:
        """Give up unfinished frames after lost frames of a stdio direction: later parts belong to another frame."""
        for stream in list(self._parts):
            direction, _, exchange = stream
            side = lost_traffic.get(direction) if isinstance(lost_traffic, dict) else None
            if exchange is None and isinstance(side, dict) and side.get("frames"):
                self._abandoned_parts.append(self._parts.pop(stream))

    def finish(self) -> Iterator[Frame | Record]:
        """Yield the giant frames whose end was not recorded, with `whole` False."""
        for parts in (*self._abandoned_parts, *self._parts.values()):
            yield _frame(parts.first_record, parts, self._limit) or parts.first_record


def stream_of(values: dict[str, Any]) -> tuple[str | None, int, int | None]:
    """Returns the key that all parts of one frame share."""
    direction = values.get("dir")
    conn, exchange = _integer(values.get("conn")) or 0, _integer(values.get("exchange"))
    return (direction if direction in ("c2s", "s2c") else None), conn, exchange


_AnyItem = TypeVar("_AnyItem", bound=Frame | Record | Damage)


def assemble(
    items: Iterable[_AnyItem], limit: int = MAX_READER_JUDGED_BYTES
) -> Iterator[tuple[_AnyItem | None, Frame | Record | Damage | None]]:
    """Yield all items of a capture, each with its result: a frame, the item itself, or None for a part of a frame.

    The frames that were never completed come last, each with None instead of an item.
    """
    assembler = FrameAssembler(limit)
    for item in items:
        yield item, assembler.feed(item)
    for frame in assembler.finish():
        yield None, frame


def plain_frame(
    values: dict[str, Any], offset: int, line_size: int, limit: int = MAX_READER_JUDGED_BYTES
) -> Frame | None:
    """Returns the frame in a record with a whole flawless message or an event without data; None for any other record.

    Args:
        values: the record's members.
        offset: the offset of its line in the segment's file.
        line_size: the size of the line in bytes.
        limit: the size in bytes above which frames are left out.
    """
    text, direction = values.get("raw"), values.get("dir")
    if type(text) is not str or (direction != "c2s" and direction != "s2c"):
        return None
    raw = text.encode()  # orjson rejects lone surrogates, so this cannot fail
    message = read_flawless(raw) if len(raw) <= MAX_STRUCTURAL_CHARS and len(raw) <= limit else None
    if _UNUSUAL_STDIO_MEMBERS.isdisjoint(values):
        if message is None:
            return None
        verdict, body, is_as_written = message
        return Frame(values["seq"], values["t_ns"], direction, raw, verdict, body, is_as_written, offset, line_size)
    conn, exchange, event_id = values.get("conn", 0), values.get("exchange"), values.get("event_id")
    unit: Unit = values.get("unit", "line")
    is_known = type(conn) is type(exchange) is int and (unit == "http_body" or unit == "sse_event")
    if (
        not is_known
        or (event_id is not None and type(event_id) is not str)
        or not _UNUSUAL_HTTP_MEMBERS.isdisjoint(values)
    ):
        return None
    if message is None:
        if unit != "sse_event" or raw:
            return None
        message = _judge_without_data(direction)
    verdict, body, is_as_written = message
    return Frame(
        values["seq"],
        values["t_ns"],
        direction,
        raw,
        verdict,
        body,
        is_as_written,
        offset,
        line_size,
        b"",
        conn=conn,
        exchange=exchange,
        unit=unit,
        event_id=event_id,
        id_again=values.get("id_again") is True,
    )


@cache
def _judge_without_data(direction: Direction) -> tuple[Envelope, Any, bool]:
    """Returns the result of `judge_and_read` for an event with only an id, like the first event of many streams."""
    return judge_and_read(b"", direction, "sse_event", whole=True, limit=MAX_READER_JUDGED_BYTES)


_UNUSUAL_STDIO_MEMBERS: Final = frozenset(
    {"parts", "delim", "whole", "conn", "exchange", "unit", "event", "event_id", "time_is_exact"}
)
"""Members that `frame` records from stdio rarely have."""
_UNUSUAL_HTTP_MEMBERS: Final = frozenset({"parts", "delim", "whole", "event", "time_is_exact"})
"""The members in `_UNUSUAL_STDIO_MEMBERS` that `frame` records from HTTP rarely have."""


def _frame(record: Record, parts: _GiantFrameParts | None, limit: int) -> Frame | None:
    """Returns the frame in a record, or None if its members are invalid; it then stays a record."""
    values = record.members
    frame = None if parts is not None else plain_frame(values, record.offset, len(record.line), limit)
    if frame is not None:
        return replace(frame, skipped=record.skipped) if record.skipped else frame
    direction = values.get("dir")
    unit = values.get("unit", "line")
    if direction not in ("c2s", "s2c") or unit not in ("line", "http_body", "sse_event"):
        return None
    raw, whole, is_complete = _content(values, parts)
    if raw is None:
        return None
    event = values["event"] if isinstance(values.get("event"), str) else None
    is_partial, is_as_written = values.get("partial") is True, False
    verdict, body = UNJUDGED, None
    if is_partial and is_complete and not event:
        verdict, body = judge_and_read_part(raw, direction, unit, limit)
    elif not event and not is_partial:
        verdict, body, is_as_written = judge_and_read(raw, direction, unit, whole=whole, limit=limit)
    return Frame(
        seq=record.seq,
        t_ns=record.t_ns,
        dir=direction,
        raw=raw,
        verdict=verdict,
        delim=_delimiter(values, unit),
        whole=whole,
        conn=_integer(values.get("conn")) or 0,
        exchange=_integer(values.get("exchange")),
        unit=unit,
        event_id=values["event_id"] if isinstance(values.get("event_id"), str) else None,
        event=event,
        skipped=record.skipped,
        is_partial=not is_complete or (is_partial and verdict is UNJUDGED),
        is_abridged=is_partial and verdict is not UNJUDGED,
        time_is_exact=values.get("time_is_exact") is not False,
        body=body,
        id_again=values.get("id_again") is True,
        is_as_written=is_as_written,
        offset=record.offset,
        line_size=len(record.line),
    )


def _content(values: dict[str, Any], parts: _GiantFrameParts | None) -> tuple[bytes | None, bool, bool]:
    """Returns the bytes of a frame, whether its delimiter arrived, and whether the bytes are complete."""
    whole = values.get("whole") is not False
    if parts is not None:
        declared = {"parts": len(parts.pieces), "size": parts.size}
        is_complete = not parts.is_broken and {name: values.get(name) for name in declared} == declared
        return b"".join(parts.pieces), whole and is_complete, is_complete
    if "parts" in values:
        return b"", False, False
    return raw_bytes(values), whole, True


def _delimiter(values: dict[str, Any], unit: Unit) -> bytes:
    delim = values.get("delim")
    if isinstance(delim, str):
        return delim.encode("utf-8", "replace")
    return b"\n" if unit == "line" else b""


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
