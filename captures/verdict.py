"""The verdict on a frame, and the names of its direction, kind and unit.

The names come from FORMAT.md. They are plain strings, so a record, a row and a type use the same names.
"""

from __future__ import annotations

from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias

    Direction: TypeAlias = Literal["c2s", "s2c"]
    """Client to server, or server to client."""

    Kind: TypeAlias = Literal["request", "response", "error", "notification", "batch", "invalid", "unjudged"]
    """The kind of JSON-RPC message that a frame is, judged by itself."""

    Unit: TypeAlias = Literal["line", "http_body", "sse_event"]
    """The unit of bytes that makes a frame, which determines the delimiter."""
else:
    Direction = Kind = Unit = str

C2S: Final = "c2s"
S2C: Final = "s2c"


class Envelope(NamedTuple):
    """The verdict on one frame: its JSON-RPC envelope, and the first problem found in it."""

    kind: Kind
    """The kind of message; `invalid` if the frame is not a message, `unjudged` if it was not examined."""
    id: bytes | None = None
    """The id's JSON token, verbatim; None if there is no id or `omitted` names it."""
    method: str | None = None
    """The method, if it is a string."""
    code: int | None = None
    """`error.code`, if it is an integer within ±(2^53−1)."""
    problem: str | None = None
    """The first rule of the catalogue that the frame breaks by itself; None if it breaks none."""
    omitted: tuple[str, ...] = ()
    """The members out of `id` and `method` that were left out because they are too long or not representable."""


UNJUDGED: Final = Envelope("unjudged")
