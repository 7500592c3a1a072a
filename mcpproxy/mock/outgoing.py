"""What a mocked conversation sends, for the transport to carry."""

from typing import NamedTuple

from analysis.playback.items import HttpAnswer


class Outgoing(NamedTuple):
    """One unit of bytes for the client."""

    raw: bytes
    """The bytes, translated, without a delimiter; empty for a priming event or an HTTP failure without a text."""
    request: int | None
    """The number that `Conversation.receive` gave to the client's request to which it belongs; None if it belongs to
    none: on HTTP, it goes to the stream that the client opened by GET."""
    ends_request: bool = False
    """Whether nothing more follows for that request: its response, or its failure."""
    event_id: str | None = None
    """The SSE event id with which it was sent."""
    is_priming: bool = False
    http: HttpAnswer | None = None
    """How the exchange was answered when it was recorded over HTTP; of a failure (a status of 300 or more, or no
    response at all), there is nothing else."""
    is_stderr: bool = False
    """Whether it is a line for stderr instead."""
    ends_stream: bool = False
    """Whether the HTTP exchange that carried it in the recording ended after it, although its request goes on: a client
    must resume the stream to get the rest. Of a stream opened by GET, whether the stream ended after it."""
    failed_id: bytes = b""
    """The id of the request, as its JSON token, if it ends with a failure of HTTP that `http` describes."""
    event: str | None = None
    """The type of an SSE event if it is not `message`: clients ignore such an event. Untrusted text."""
    failure: str = ""
    """Why the real server gave no answer, if this is the error that says so. Untrusted text."""
