"""Frames, the units of a recording, as readers see them. The recorder creates none, and does not load this module."""

from typing import Any

from msgspec import Struct

from captures.verdict import Direction, Envelope, Unit


class Frame(Struct):
    """One delimited unit of bytes, exactly as it crossed the proxy. Only the code that creates one may modify it."""

    seq: int
    """The number of its record in the capture: unique, and in order over both directions."""
    t_ns: int
    """The time at which its last byte was read: nanoseconds since the capture opened, monotonic."""
    dir: Direction
    """The direction in which it crossed: `c2s` or `s2c`."""
    raw: bytes
    """The bytes as forwarded, without the delimiter."""
    verdict: Envelope
    """Its kind, id, method, code and problem, judged again from `raw` by the reader."""
    body: dict[str, Any] | None = None
    """The parsed message, if the frame is flawless; kept to save readers from parsing it again. It must not be
    modified."""
    is_as_written: bool = False
    """Whether orjson would write the same bytes: then no object in it, at any depth, has a duplicate member."""
    offset: int = -1
    """The offset of its record in the segment's file, in bytes; for a giant frame, of the record that ends it."""
    line_size: int = 0
    """The size of that record in bytes, without its LF."""
    delim: bytes = b"\n"
    """The delimiter as forwarded; empty if there was none."""
    whole: bool = True
    """False if the stream ended before the delimiter arrived, or if parts of the frame are lost."""
    conn: int = 0
    """The number of the connection that carried it; always 0 on stdio."""
    exchange: int | None = None
    """The number of the HTTP exchange that carried it; None on stdio."""
    unit: Unit = "line"
    """The kind of unit, which determines the delimiter."""
    event_id: str | None = None
    """The SSE event id in force; None if there is none."""
    id_again: bool = False
    """Whether an SSE event itself repeats the id of the previous event; earlier versions of the recorder did not record
    this."""
    event: str | None = None
    """The type of an SSE event if it is not `message`; MCP clients ignore such an event, and it is not judged."""
    skipped: int = 0
    """How many record numbers are missing right before this frame; see `Record.skipped`."""
    is_partial: bool = False
    """Whether parts of the frame are lost, or its end was never recorded or not in an imported log. Such a frame is not
    a message, and neither peer is to blame for that."""
    is_abridged: bool = False
    """Whether an imported log contains only a part of it, and `raw` is a message with the known members. It is paired
    with other messages, but no rule judges it."""
    time_is_exact: bool = True
    """Whether `t_ns` is exact; False if it is approximate or unknown, as an imported log has no exact time."""

    @property
    def is_ignored(self) -> bool:
        """Whether this is an event that MCP clients ignore: one of another type, or without data (a priming event)."""
        return self.event is not None or self.is_priming

    @property
    def is_priming(self) -> bool:
        """Whether this is an event without data, which only gives a client an id from which to resume the stream."""
        return self.unit == "sse_event" and not self.raw and self.event is None

    @property
    def problem(self) -> str | None:
        """The first rule that the frame breaks by itself; None if there is none or clients ignore the event."""
        return None if self.is_ignored else self.verdict.problem
