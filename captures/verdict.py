"""The verdict on a frame, and the words for its direction, kind and unit.

The names are those of FORMAT.md. They are plain strings, so that a record, a row and a type use the same words.
"""

from __future__ import annotations

from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias

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
