"""Frames, the units of a recording, and the types for their direction, kind and unit.

The names are those of FORMAT.md. They are plain strings, so that a record, a row and a type use the same words.
"""

from __future__ import annotations

from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, Literal, TypeAlias

    Direction: TypeAlias = Literal["c2s", "s2c"]
    """Client to server, or server to client."""

    Kind: TypeAlias = Literal["request", "response", "error", "notification", "batch", "invalid", "unjudged"]
    """What one frame is as a JSON-RPC message, judged by itself."""

    Unit: TypeAlias = Literal["line", "http_body", "sse_event"]
    """What delimits a frame."""
else:
    Direction = Kind = Unit = str

C2S: Final = "c2s"
S2C: Final = "s2c"


class Envelope(NamedTuple):
    """The verdict on one frame: its JSON-RPC envelope, and the first problem found in it."""

    kind: Kind
    """What it is; `invalid` if it is not a message, `unjudged` if it was not examined."""
    id: bytes | None = None
    """The id's JSON token, verbatim; None if there is no id, or if `omitted` names it."""
    method: str | None = None
    """The method, if it is a string."""
    code: int | None = None
    """`error.code`, if it is an integer within ±(2^53−1)."""
    problem: str | None = None
    """The first rule of the catalogue that this frame by itself breaks."""
    omitted: tuple[str, ...] = ()
    """Which of `id` and `method` were left out as too long or not representable."""


UNJUDGED: Final = Envelope("unjudged")


class Frame(NamedTuple):
    """One delimited unit of bytes, exactly as it crossed the proxy."""

    seq: int
    """The record's number in the capture; unique, ordered over both directions."""
    t_ns: int
    """When its last byte was read: nanoseconds since the capture opened, monotonic."""
    dir: Direction
    """Who sent it to whom."""
    raw: bytes
    """The bytes as forwarded, without the delimiter."""
    verdict: Envelope
    """kind, id, method, code and problem, judged anew from `raw` when it was read."""
    delim: bytes = b"\n"
    """The delimiter as forwarded; empty if there was none."""
    whole: bool = True
    """False if the stream ended before the delimiter came, or if parts of the frame are lost."""
    conn: int = 0
    """Which connection carried it. Always 0 on stdio."""
    exchange: int | None = None
    """Which HTTP exchange carried it; None on stdio."""
    unit: Unit = "line"
    """What delimits it."""
    event_id: str | None = None
    """The SSE event id in force."""
    event: str | None = None
    """The type of an SSE event that is not `message`, so MCP clients ignore it: it is not judged."""
    skipped: int = 0
    """How many record numbers are missing right before it; see `Record.skipped`."""
    is_partial: bool = False
    """Whether parts of it are lost, or its end was never recorded: neither peer is to blame for its state."""
    body: dict[str, Any] | None = None
    """The parsed message, if the frame is flawless. Kept so that readers need not parse it again; it must not be
    modified."""
    id_again: bool = False
    """Whether an SSE event itself names the id that the one before it had; earlier recorders never say so."""
    is_as_written: bool = False
    """Whether orjson would write the same bytes: then no object in it, at any depth, has a member twice."""
    offset: int = -1
    """The offset of its record in the segment's file, in bytes; of a giant frame's, the record that ends it."""
    line_size: int = 0
    """Bytes of that record, without its LF."""

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
