"""Item: one unit of bytes that a side sent, with what is needed to send it again.

Items are rows: `msgspec` writes them to a cache and reads them back. The bytes stay in the capture.
"""

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from analysis.playback.request_fields import Fields, fields_of

if TYPE_CHECKING:
    from analysis.conversation.message import Side

ItemKind: TypeAlias = Literal["request", "response", "notification", "batch", "invalid", "priming", "stderr"]
"""What an item is. `invalid` is bytes that are not a message; `priming` an event without data, which gives a client an
id from which to resume; `stderr` a line of the server's stderr."""
Channel: TypeAlias = Literal["pipe", "request", "stream"]
"""What carried an item: the pipes of stdio; the HTTP exchange of a client's request; or a stream of its own, opened by
GET (Streamable HTTP's, or that of the older transport)."""


class Stored(Struct, array_like=True, frozen=True, gc=False):
    """Where the bytes of an item are in the capture."""

    segment: int
    """The position of the file among the segments, from 0."""
    offset: int
    """The offset of the record in that file; of a giant frame, of the record that ends it."""
    parts: tuple[tuple[int, int], ...] = ()
    """Segment and offset of each part, if a giant frame was written in parts, or of each further line of a message that
    spans lines."""


class Member(Struct, array_like=True, gc=False):
    """One message of a batch."""

    kind: ItemKind
    call: int = -1
    method: str = ""
    name: str = ""
    key: str = ""


class Item(Struct, array_like=True, gc=False):
    """One unit of bytes that a side sent: a frame, or the lines of one message."""

    number: int
    """The position among the items of the script, from 0; items are in the order of the capture."""
    sender: "Side"
    kind: ItemKind
    session: int
    """The number of the session, from 1; 0 for stderr."""
    seq: int
    """The number of the (first) record."""
    t_ns: int
    """The stamp: nanoseconds since the capture opened."""
    stored: Stored
    call: int = -1
    """`Call.number` of the call that it opens or answers; of a server's other item, the client's call that it belongs
    to: because of its progress token, its stream, its subscription, or because it came during that call only. -1 if it
    belongs to none."""
    outer: int = -1
    """For a server's request, and the client's response to it: the client's call during which it was sent; -1 if
    unknown. (Its `call` is the server's request itself.)"""
    method: str = ""
    """The method of a request or notification, or of the request that a response answers. Untrusted text."""
    name: str = ""
    """The tool, prompt or URI that a request names. Untrusted text."""
    key: str = ""
    """For a request: its key under the matching of the script, see `Matching.key_of`."""
    exchange: int = 0
    """The number of the HTTP exchange; 0 on stdio."""
    channel: Channel = "pipe"
    event_id: str | None = None
    """The id of the SSE event, if it has one of its own."""
    members: tuple[Member, ...] = ()
    """The messages of a batch; empty for anything else."""
    is_repeat: bool = False
    """Whether it repeats an item that was sent before: a request after a redirect, an event after a resumption."""
    event: str | None = None
    """The type of an SSE event if it is not `message`: clients ignore such an event. Untrusted text."""
    fields_text: str = ""
    """The value of `fields` as one text."""

    @property
    def fields(self) -> Fields | None:
        """The header fields of the client's HTTP request that are sent again; None if no head is known."""
        return fields_of(self.fields_text)


class HttpAnswer(Struct, array_like=True, gc=False):
    """How a server answered one HTTP exchange, apart from the messages in it."""

    exchange: int
    session: int
    method: str
    """The HTTP method, such as `POST`."""
    calls: tuple[int, ...]
    """The client's calls that the exchange carried."""
    status: int
    """The status; 0 if none came."""
    fields: tuple[tuple[str, str], ...] = ()
    """The header fields of the response that can be repeated: content type, challenges, `Retry-After`, `Allow`, …; none
    that describes connection, length, coding or date, and none whose value is a hash."""
    text: str = ""
    """What the response said (`response_text` in FORMAT.md) if it was not a message, or one that answers no request.
    Untrusted text."""
    ended_by: str = ""
    """How it ended: `complete`, `client`, `server`, `proxy` or `error`; empty if it was still open."""
    started_ns: int = 0
    ended_ns: int = -1
    """The stamp of its end; -1 if it was still open."""
    is_legacy: bool = False
    """Whether it belongs to the older transport (HTTP+SSE)."""
    retry_ms: int | None = None
    """Milliseconds to wait before reconnecting, as the event stream said."""
    assigns_session_id: bool = False
    """Whether the response had an `Mcp-Session-Id`. A capture holds only its hash."""


class Ending(Struct, array_like=True, gc=False):
    """How the recording ended, and what is not in it."""

    by_server: bool
    """Whether the server's process ended by itself: the client had not closed its input, and no signal was sent."""
    status: int | None
    """The exit status of the server's process, if it is known."""
    signal: str | None
    t_ns: int
    """The stamp of the end."""
    is_whole: bool
    """Whether the recording has all messages, from the server's first byte on."""
    begins_late: bool
    """Whether its beginning is missing, or may be."""
    is_growing: bool
    """Whether a recorder was still writing when it was read: it was used up to its end at that moment."""
    caveats: tuple[str, ...] = ()
    """What cannot be played, a clause each: damage, lost records, bodies that were not recorded, a beginning in the
    middle. Words of ours; never text from the traffic."""
    is_lossy: bool = False
    """Whether messages, or parts of some, are missing in the recording up to its end, so that they may have said
    anything."""
