"""Frames, the units of a recording, as readers see them; the recorder creates none, so it need not load this."""

from typing import Any

from msgspec import Struct

from captures.verdict import Direction, Envelope, Unit


class Frame(Struct):
    """One delimited unit of bytes, exactly as it crossed the proxy. Only the code that creates one may modify it."""

    seq: int
    """The record's number in the capture; unique, ordered over both directions."""
    t_ns: int
    """When its last byte was read: nanoseconds since the capture opened, monotonic."""
    dir: Direction
    """Who sent it to whom."""
    raw: bytes
    """The bytes as forwarded, without the delimiter."""
    verdict: Envelope
    """kind, id, method, code and problem, judged again from `raw` when it was read."""
    body: dict[str, Any] | None = None
    """The parsed message, if the frame is flawless. Kept so that readers need not parse it again; it must not be
    modified."""
    is_as_written: bool = False
    """Whether orjson would write the same bytes: then no object in it, at any depth, has a member twice."""
    offset: int = -1
    """The offset in bytes of its record in the segment's file; for a giant frame, of the record that ends it."""
    line_size: int = 0
    """Bytes of that record, without its LF."""
    delim: bytes = b"\n"
    """The delimiter as forwarded; empty if there was none."""
    whole: bool = True
    """False if the stream ended before the delimiter arrived, or if parts of the frame are lost."""
    conn: int = 0
    """Which connection carried it. Always 0 on stdio."""
    exchange: int | None = None
    """Which HTTP exchange carried it; None on stdio."""
    unit: Unit = "line"
    """What delimits it."""
    event_id: str | None = None
    """The SSE event id in force."""
    id_again: bool = False
    """Whether an SSE event itself names the id that the one before it had; earlier recorders never say so."""
    event: str | None = None
    """The type of an SSE event that is not `message`, so MCP clients ignore it: it is not judged."""
    skipped: int = 0
    """How many record numbers are missing right before it; see `Record.skipped`."""
    is_partial: bool = False
    """Whether parts of it are lost, or its end was never recorded, or was not in an imported log: neither peer is to
    blame for its state."""
    time_is_exact: bool = True
    """False if `t_ns` is only about right, or unknown: the imported log has no exact time of this frame."""

    @property
    def is_ignored(self) -> bool:
        """Whether it is an event that MCP clients ignore: of another type, or without data (a priming event)."""
        return self.event is not None or self.is_priming

    @property
    def is_priming(self) -> bool:
        """Whether it is an event without data, which only gives a client an id from which to resume the stream."""
        return self.unit == "sse_event" and not self.raw and self.event is None

    @property
    def problem(self) -> str | None:
        """The first rule that it breaks by itself; None for an event that clients ignore."""
        return None if self.is_ignored else self.verdict.problem
