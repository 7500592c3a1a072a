"""What a recording is made of: frames, and the words for their direction, kind and unit.

The names are those of FORMAT.md. They are plain strings, so that a record, a row and a type say the same.
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
    """The verdict on one frame: its JSON-RPC envelope, and the first thing that is wrong with it."""

    kind: Kind
    """What it is; `invalid` where it is no message, `unjudged` where nobody looked."""
    id: bytes | None = None
    """The id's JSON token, verbatim; None where there is none, or where `omitted` names it."""
    method: str | None = None
    """The method, where it is a string."""
    code: int | None = None
    """`error.code`, where it is an integer within ±(2^53−1)."""
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
    """The bytes as forwarded, delimiter apart."""
    verdict: Envelope
    """kind, id, method, code and problem, judged anew from `raw` when it was read."""
    delim: bytes = b"\n"
    """The delimiter as forwarded; empty where there was none."""
    whole: bool = True
    """False when the stream ended before the delimiter came, or when parts of it are lost."""
    conn: int = 0
    """Which connection carried it. Always 0 on stdio."""
    exchange: int | None = None
    """Which HTTP exchange carried it; None on stdio."""
    unit: Unit = "line"
    """What delimits it."""
    event_id: str | None = None
    """The SSE event id in force."""
    event: str | None = None
    """The type of an SSE event that is not `message`, so that no client of MCP takes it for one: it is not judged."""
    skipped: int = 0
    """How many numbers of records are missing right before it; see `Record.skipped`."""
    is_partial: bool = False
    """Whether parts of it are lost, or its end was never recorded: what it looks like is nobody's doing."""
    body: dict[str, Any] | None = None
    """The message as parsed, of a flawless frame that is written as orjson writes: no object in it names a member
    twice. Kept to spare readers the parsing; nobody may change it."""
    id_again: bool = False
    """Whether an SSE event itself names the id that the one before it had; recorders of earlier versions never tell."""
