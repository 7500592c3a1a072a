"""HttpExchange: one HTTP request and its response, as recorded in the `exchange` records of a capture."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from weakref import ref

from msgspec import Struct

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.message import Id, Side
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.response_text import MAX_GIST_CHARS, gist
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD as _SESSION_FIELD
from analysis.conversation.session_ids import SessionId, SessionIds
from analysis.protocol.challenges import NONCE_ERROR
from analysis.protocol.features import STREAMABLE_HTTP
from analysis.protocol.revisions import Era, before, era_of, rank_of
from captures.heads import Head
from captures.metadata_paths import WELL_KNOWN

if TYPE_CHECKING:
    from analysis.conversation.call import Call, MessageContext

VERSION_FIELD: Final = "mcp-protocol-version"
"""The header field that names the revision."""
MAX_HTTP_EXCHANGES: Final = 10_000
"""The most finished exchanges that are kept; the oldest are forgotten first."""
MAX_OPEN_HTTP_EXCHANGES: Final = 15_000
"""The most open exchanges that are kept: a stream may be opened first and closed last."""
MIN_PROGRAM_NAME_CHARS: Final = 4
"""The length of the shortest program name that is looked for in a page: shorter names occur in other words."""
MAX_SEARCHED_LEGACY_STREAMS: Final = 100
"""The most streams of the older transport that are searched for the stream of a client."""
MAX_BODY_MESSAGES: Final = 16
"""The most messages of each body that are kept."""

EVENT_STREAM: Final = "text/event-stream"
"""The media type of event streams."""
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
"""Statuses of responses that send the client to another address (RFC 9110 §15.4)."""
BODILESS_STATUSES: Final = frozenset({202, 204})
"""Statuses of responses that normally have no body."""
_OLDER_REVISIONS: Final = before(STREAMABLE_HTTP)
_SIDES: Final[tuple[Side, ...]] = ("client", "server")
DECODED_CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "identity"})
"""The content codings that every version of the recorder decodes."""
_MESSAGELESS_STATUSES: Final = frozenset({202, 204, 205, 304, *range(100, 200)})
"""Statuses of responses that contain no messages."""
_CHALLENGE: Final = "www-authenticate"
_CODING: Final = "content-encoding"
_RARE_MEMBERS: Final = frozenset({"error", "metadata", "response_text", "endpoints", "oauth"})
"""Members that few `exchange` records have."""
OAUTH_TEXTS: Final = (
    "leg",
    "grant_type",
    "response_type",
    "error",
    "error_description",
    "error_uri",
    "scope",
    "resource",
    "iss",
    "as_server",
    "client_id",
    "redirect_uri",
    "code_challenge_method",
    "token_type",
)
"""The members of `oauth` in FORMAT.md that are texts."""
MAX_OAUTH_CHARS: Final = 2048
"""The most characters of such a text; no recorder writes a longer one."""
_EMPTY_SET: Final[frozenset[Any]] = frozenset()

Resumption: TypeAlias = Literal["known", "unknown", "ambiguous", "undefined"]
"""Whether a last event id belongs to one stream, to none or to several, or is sent where nothing can be resumed."""


Oddity: TypeAlias = Literal["changed", "unasked", "stray", "seen"]
"""What is odd about an event whose id was sent before; see `RepeatedEventId.kind`."""


class CrossStreamEvent(NamedTuple):
    """An event that had already come on another stream."""

    seq: int
    """Number of its frame."""
    stream: int
    """The other stream, by the number of its first exchange."""


class RepeatedEventId(NamedTuple):
    """An event whose id was sent before."""

    seq: int
    """Number of its frame."""
    t_ns: int
    kind: Oddity
    """What is odd about the event: its data differs; or the data is the same, but the event came on a stream that
    resumes none, on a stream that resumes another one, or although the client already had it."""
    earlier: int
    """Number of the earlier frame."""


class HttpExchange(Struct, eq=False, weakref=True):
    """One HTTP exchange, as far as it is known."""

    _traffic: "HttpTraffic"
    _losses_before: int
    number: int
    stream: int
    """The event stream to which the exchange belongs, as the number of the stream's first exchange; usually its own."""
    order: int
    """The position of the exchange among all exchanges, in the order in which they first appeared."""
    _request: Head | None = None
    _response: Head | None = None
    has_news: bool = True
    """Whether the last record of the exchange contained a new head or address."""
    method: str = ""
    """The HTTP method, such as `POST`; empty if the head is lost."""
    target: str = ""
    fields: dict[str, str] = {}
    """The request's header fields by lower-case name, the last value of each; secrets are hashed."""
    repeated_fields: frozenset[str] = _EMPTY_SET
    """Names of fields that occur more than once in the request."""
    peer: str = ""
    """Address of the client."""
    conn: int = 0
    uri_key: str | None = None
    endpoints: tuple[str, ...] = ()
    """The first two addresses (or invalid values instead) that events of the older transport announced."""
    announced_ref: RecordRef | None = None
    """The record that announced the first address."""
    second_announced_ref: RecordRef | None = None
    """The record that announced the second address."""
    status: int | None = None
    """The status of the response; None before its head, and if there was none."""
    answer_fields: dict[str, str] = {}
    """The response's header fields, in the form of `fields`."""
    challenges: tuple[str, ...] = ()
    """The values of all `WWW-Authenticate` fields of the response, in order."""
    metadata: str | None = None
    """The `.well-known` document that the response contained, truncated."""
    oauth: dict[str, str] | None = None
    """The members of `oauth` in FORMAT.md that are texts: what is known of a leg of an authorization. None if the
    exchange has nothing to do with one. Untrusted texts."""
    has_code: bool = False
    """Whether a browser was sent back to a client with a code of an authorization."""
    response_gist: str = ""
    """The gist of a response that is not an MCP message, in one line. Untrusted text."""
    is_signed: bool = False
    """Whether that response contains the name in its `Server` field: then that program wrote it, and did not pass on
    the response of another server."""
    ended_by: str | None = None
    """How the exchange ended: `complete`, `client_fingerprint`, `server`, `proxy` or `error`; None while it is open."""
    reason: str = ""
    """The reason phrase of the response, which follows its status."""
    error: str = ""
    """Why the exchange broke off, as the recorder or the system worded it; empty if it did not, or if that is
    unknown."""
    is_from_recorder: bool = False
    """Whether the recorder itself sent the response."""
    started_ref: RecordRef | None = None
    """The first record of the request; None if it is lost."""
    answered_ref: RecordRef | None = None
    """The first record of the response, or of an end without one."""
    end_ref: RecordRef | None = None
    """The record of the end of the exchange; None while it is open."""
    request_size: int = 0
    response_size: int = 0
    unrecorded_sides: frozenset[Side] = _EMPTY_SET
    """The sides whose body may contain messages but is not in the capture, as far as is known."""
    unread_bodies: frozenset[str] = _EMPTY_SET
    """`request` or `response`, if its body was not imported or could not be decoded. Then nothing in it is known."""
    counted_unrecorded: int = 0
    """How many of the sides in `unrecorded_sides` the fold has counted."""
    session: Session | None = None
    """The session of the exchange; None before its first message."""
    client_messages: "tuple[MessageContext, ...]" = ()
    """The client's messages in the exchange."""
    server_messages: "tuple[MessageContext, ...]" = ()
    """The server's messages in the exchange."""
    last_answer: "MessageContext | None" = None
    """The server's last response to a request."""
    origin: "HttpExchange | None" = None
    """The exchange that carried the messages first, if this one repeats them after a redirect; else None."""
    repeated_by: "ref[HttpExchange] | None" = None
    """The last exchange that repeats these messages after a redirect; weak, because that exchange refers to this
    one."""
    closed_count: int = 0
    """How many of the first requests in the exchange were no longer open when it last ended."""
    ended_calls: "Sequence[Call]" = ()
    """The calls in the exchange for which no response is expected after its end."""
    _is_streamable: bool | None = None
    memory: dict[str, Any] = {}
    """State that rules keep for the exchange, under names that they choose."""
    event_id: Id | None = None
    """The id of the last event; None if there was none."""
    last_event_id: Id | None = None
    """The `Last-Event-ID` of the request, if the response is an event stream."""
    resumption: Resumption | None = None
    """What is known about the `Last-Event-ID`; None without one."""
    resumed_number: int | None = None
    """Number of the exchange that this one resumes: the last that carried the event named by `Last-Event-ID`."""
    replay_count: int = 0
    """How many events of the exchange an earlier exchange of the same stream had carried."""
    stray_events: tuple[CrossStreamEvent, ...] = ()
    """The first 16 events of the exchange that another stream had carried."""
    repeated_events: tuple[RepeatedEventId, ...] = ()
    """The first 16 events of the exchange that repeat an earlier id in an odd way."""
    is_certainly_unknown: bool = False
    """Whether the server certainly never sent the `Last-Event-ID`."""
    resumed_order: int = 0
    """The position, among all events, of the event named by `Last-Event-ID`."""
    retry: int | None = None
    """Milliseconds to wait before reconnecting, as the event stream last said; known once the stream has ended."""
    is_retry_known: bool = False
    """Whether `retry` is recorded at all: it is not for streams without ids, or in captures by earlier versions."""
    last_server_message: "MessageContext | None" = None
    """The server's last message."""
    assigned_id: SessionId | None = None
    """The session id that the response assigned."""
    held_bytes: int = 0
    """How many bytes are in the frames of the messages that the exchange keeps."""

    @property
    def is_replay(self) -> bool:
        """Whether the exchange was opened to replay the messages of a broken stream."""
        return "last-event-id" in self.fields

    def single_field(self, name: str) -> str | None:
        """Returns the value of a header field of the request; None if it is absent or occurs more than once."""
        return None if name in self.repeated_fields else self.fields.get(name)

    @property
    def field_lines(self) -> list[tuple[str, str]]:
        """All header fields of the request, also repeated ones, in order: name in lower case, value."""
        return [] if self._request is None else self._request.field_lines

    @property
    def answer_field_lines(self) -> list[tuple[str, str]]:
        """All header fields of the response, in the form of `field_lines`."""
        return [] if self._response is None else self._response.field_lines

    def update(self, members: dict[str, Any], at: RecordRef | None = None) -> None:
        """Update the exchange from an `exchange` record; `at` is the number and stamp of the record."""
        request, response, stage = members.get("request"), members.get("response"), members.get("stage")
        self.has_news = False
        if request is not self._request and isinstance(request, dict):
            self._set_request(request)
        if stage == "request" and self.started_ref is None and isinstance(request, dict):
            self.started_ref = at
        if isinstance(response, dict):
            if response is not self._response:
                self._set_response(response)
            self.answered_ref = self.answered_ref or at
        if stage == "end":
            self.answered_ref = self.answered_ref or at
            self.ended_by = _text(members.get("ended_by")) or "error"
            self.end_ref = self.end_ref or at
        self._update_common_members(members)
        if not _RARE_MEMBERS.isdisjoint(members):
            self._update_rare_members(members, at)
        if "missing" in members or _CODING in self.answer_fields or _CODING in self.fields:
            self.unrecorded_sides = frozenset([side for side in _SIDES if self._lacks_body(side, members)])
            self.unread_bodies = _unread_bodies(members)

    def _update_common_members(self, members: dict[str, Any]) -> None:
        """Update the exchange from the members that most records have, apart from the heads."""
        # Behind a proxy, every connection comes from that proxy.
        peer = members.get("forwarded_for") or members.get("peer")
        conn, key = members.get("conn"), members.get("uri_key")
        if peer and isinstance(peer, str):
            self.peer = peer
        if type(conn) is int:
            self.conn = conn
        if isinstance(key, str) and key != self.uri_key:
            self.uri_key, self.has_news = key, True
        request_size, response_size = members.get("request_size"), members.get("response_size")
        if type(request_size) is int:
            self.request_size = request_size
        if type(response_size) is int:
            self.response_size = response_size

    def _set_request(self, request: dict[str, Any]) -> None:
        """Update the exchange from the head of the request."""
        head = request if type(request) is Head else Head(request)
        self._request, self.has_news = head, True
        self.method, self.target = _text(head.get("method")), _text(head.get("target"))
        self.fields, self.repeated_fields = head.fields, head.repeated_fields
        if self.assigned_id is not None:
            self.assigned_id.path = self.path

    def _set_response(self, response: dict[str, Any]) -> None:
        """Update the exchange from the head of the response."""
        head = response if type(response) is Head else Head(response)
        self._response, self.has_news = head, True
        status = head.get("status")
        self.status = status if type(status) is int else None
        self.reason = _text(head.get("reason"))
        self.answer_fields = head.fields
        self.is_from_recorder = head.get("by") == "proxy"
        if _CHALLENGE in head.fields:
            self.challenges = values_of(head.get("headers"), _CHALLENGE)

    def _update_rare_members(self, members: dict[str, Any], at: RecordRef | None) -> None:
        """Update the exchange from the members that few records have."""
        self.error = _text(members.get("error"))[:MAX_GIST_CHARS] or self.error
        self.metadata = _text(members.get("metadata")) or self.metadata
        oauth = members.get("oauth")
        if isinstance(oauth, dict):
            texts = ((name, oauth.get(name)) for name in OAUTH_TEXTS)
            self.oauth = {name: text[:MAX_OAUTH_CHARS] for name, text in texts if isinstance(text, str)}
            self.has_code = oauth.get("has_code") is True
        if "response_text" in members and not self.response_gist:
            text = _text(members["response_text"])
            self.response_gist = gist(text)
            self.is_signed = len(self.program) >= MIN_PROGRAM_NAME_CHARS and self.program in text.lower()
        if "endpoints" in members:
            self._set_endpoints(members["endpoints"], at)

    def _lacks_body(self, side: Side, members: dict[str, Any]) -> bool:
        """Whether the capture lacks a body that may contain messages.

        Such a body was not among the imported data, or it could not be decoded, so only its size and hash were
        recorded.
        """
        name, fields = ("request", self.fields) if side == "client" else ("response", self.answer_fields)
        missing, hashes = members.get("missing"), members.get("body_hash")
        if isinstance(missing, list) and name in missing:
            return self.method == "POST" if side == "client" else self._may_contain_messages(side)
        coding = fields.get(_CODING, "").strip().lower()
        if not coding:
            return False
        if isinstance(hashes, dict) and isinstance(hashes.get(name), dict):
            # Earlier versions recorded the same for a body that they could decode but that contained no message.
            return ("undecoded" in hashes[name] or coding not in DECODED_CODINGS) and self._may_contain_messages(side)
        return self.ended_by is None and coding not in DECODED_CODINGS and self._may_contain_messages(side)

    def _may_contain_messages(self, side: Side) -> bool:
        """Whether messages are due in a body."""
        if side == "client":
            is_mcp = self.accepts_stream or VERSION_FIELD in self.fields or _SESSION_FIELD in self.fields
            return self.method == "POST" and (is_mcp or self.announced_by is not None)
        if self.status is None or self.status in _MESSAGELESS_STATUSES or self.is_for_stream:
            return False
        is_pulled = self.is_get_stream or (self.method == "GET" and self.status >= 400)
        return bool(self.client_messages) or "client" in self.unrecorded_sides or is_pulled

    def _set_endpoints(self, endpoints: object, at: RecordRef | None) -> None:
        addresses = endpoints if isinstance(endpoints, list) else []
        self.endpoints = tuple(address for address in addresses[:2] if isinstance(address, str))
        if self.endpoints:
            self.announced_ref = self.announced_ref or at
        if len(self.endpoints) > 1:
            self.second_announced_ref = self.second_announced_ref or at

    @property
    def asks_for_nonce(self) -> bool:
        """Whether the response asks the client to repeat the request with a nonce in its proof (DPoP)."""
        return self.oauth is not None and self.oauth.get("error") == NONCE_ERROR

    @property
    def is_get_stream(self) -> bool:
        """Whether the exchange is a stream of events that the client opened by GET."""
        return self.method == "GET" and self.media_type == EVENT_STREAM and self.status == 200

    @property
    def is_initializing(self) -> bool:
        """Whether the exchange carries `initialize`."""
        return any(context.method == "initialize" for context in self.client_messages)

    @property
    def is_modern(self) -> bool:
        """Whether the exchange carries messages of the modern era."""
        return bool(self.client_messages) and self.client_messages[0].era == "modern"

    def revision_and_era(self, session: Session | None) -> tuple[int | None, Era | None]:
        """Returns the rank of the revision in force for the exchange, and its era; each is None if unknown.

        For `initialize`, this is the revision agreed on. If there are no messages, the header field decides, or else
        the handshake of the session, which may be unknown.
        """
        if self.client_messages:
            context = self.client_messages[0]
            if (
                context.method == "initialize"
                and self.server_messages
                and self.server_messages[0].request is context.message
            ):
                context = self.server_messages[0]
            return context.rank, context.era
        rank = rank_of(self.fields.get(VERSION_FIELD))
        if rank is None and session is not None:
            rank = rank_of(session.handshake)
        return rank, None if rank is None else era_of(rank)

    def transport_revision_and_era(self, session: Session | None) -> tuple[int | None, Era | None]:
        """Returns the same as `revision_and_era`, except that 2024-11-05 over Streamable HTTP counts as 2025-03-26.

        Servers agree on any revision over any transport, but only 2025-03-26 and later define Streamable HTTP.
        """
        rank, era = declared = self.revision_and_era(session)
        if not _OLDER_REVISIONS.includes(rank) or not self.is_streamable:
            return declared
        has_id = _SESSION_FIELD in self.fields or _SESSION_FIELD in self.answer_fields
        is_newer = has_id or self.accepts_stream or self.media_type == EVENT_STREAM
        return (STREAMABLE_HTTP.first if is_newer else rank), era

    @property
    def is_streamable(self) -> bool:
        """Whether the exchange certainly uses Streamable HTTP with the endpoint, and not the older transport.

        The revision proves nothing: peers may agree on any revision, and send it in the header, on the older transport
        too.
        """
        if self._is_streamable is None:
            looks_streamable = self._looks_streamable()
            if self.answered_ref is None or self.method != "POST":
                return looks_streamable  # later records may show that it does not
            self._is_streamable = looks_streamable
        return self._is_streamable

    def _looks_streamable(self) -> bool:
        if not self.method or self.method == "OPTIONS" or WELL_KNOWN in self.target:
            return False
        if (self.session is not None and self.session.is_legacy) or (self.uri_key and self.method == "GET"):
            return False
        if _SESSION_FIELD in self.fields or _SESSION_FIELD in self.answer_fields:
            return True
        if self.method != "POST":
            if VERSION_FIELD in self.fields:
                return True
            return self._traffic.is_whole and not self._traffic.has_legacy and self.path in self._traffic.paths
        if self.may_be_legacy:
            return False  # a stream of the older transport may have announced this address
        if self.accepts_stream or self.media_type == EVENT_STREAM:
            return True
        if self.is_modern:
            # If the request is lost, it may have been sent to the address of an older-transport stream.
            return self.started_ref is not None or not self._traffic.has_legacy
        return bool(self.client_messages) and self._traffic.is_whole and not self._traffic.has_legacy

    @property
    def is_whole(self) -> bool:
        """Whether all exchanges so far are in the capture."""
        return self._traffic.is_whole

    @property
    def announced_by(self) -> "HttpExchange | None":
        """For a POST: the stream of the older transport that announced its address."""
        return None if self.uri_key is None else self._traffic.legacy_streams.get(self.uri_key)

    @property
    def is_for_stream(self) -> bool:
        """Whether this is a POST to an announced address: then the reply is due on that stream, not in the response.

        Clients of both transports accept streams everywhere, but an address with a query belongs to one stream alone.
        """
        return self.announced_by is not None and (not self.accepts_stream or "?" in self.target)

    @property
    def may_be_legacy(self) -> bool:
        """Whether a stream that is not in the capture may have announced the address of the exchange."""
        return self._traffic.has_unread_stream

    @property
    def accepts_stream(self) -> bool:
        """Whether the request accepts an event stream as its response."""
        return EVENT_STREAM in self.fields.get("accept", "").lower()

    @property
    def legacy_streams(self) -> "list[HttpExchange]":
        """The last streams of the older transport, the latest first."""
        return [*islice(reversed(self._traffic.legacy_streams.values()), MAX_SEARCHED_LEGACY_STREAMS)]

    @property
    def loss_count(self) -> int:
        """How many times records have been lost so far."""
        return self._traffic.loss_count

    @property
    def is_unbroken(self) -> bool:
        """Whether no record has been lost since the exchange began."""
        return self._traffic.loss_count == self._losses_before

    @property
    def session_ids(self) -> SessionIds:
        """The session ids of the capture."""
        return self._traffic.session_ids

    @property
    def program(self) -> str:
        """The program named by the field `Server`, in lower case, or an empty string if there is none."""
        return _program(self.answer_fields.get("server", ""))

    @property
    def is_behind_gateway(self) -> bool:
        """Whether any response in the capture so far shows that a gateway is in front of the server."""
        return self._traffic.has_gateway

    @property
    def upstream(self) -> str:
        """Origin and path of the server, if the recorder knew it; else empty."""
        return self._traffic.upstream

    @property
    def has_public_url(self) -> bool:
        """Whether `upstream` is the URL by which clients know the server."""
        return self._traffic.has_public_url

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def media_type(self) -> str:
        """The media type of the response, in lower case and without parameters, or an empty string if there is none."""
        return media_type_of(self.answer_fields.get("content-type", ""))

    @property
    def resumed_exchange(self) -> "HttpExchange | None":
        """The exchange that this one resumes, or None if there is none or it has been forgotten."""
        stream = None if self.resumed_number is None else self._traffic.get(self.resumed_number)
        # A malicious peer could reuse a forgotten number to cause an endless loop.
        return stream if stream is not None and stream.order < self.order else None

    @property
    def session_id(self) -> str | None:
        """The session id (hashed) of the request, or of the response that assigned it."""
        return self.fields.get("mcp-session-id") or self.answer_fields.get("mcp-session-id")

    @property
    def is_redirect(self) -> bool:
        """Whether the response sends the client to another address."""
        return self.status in REDIRECT_STATUSES and "location" in self.answer_fields

    @property
    def location(self) -> str:
        """The address to which the response redirects, as the server wrote it, or an empty string if there is none."""
        return self.answer_fields.get("location", "")

    @property
    def first_carrier(self) -> "HttpExchange":
        """The exchange that first carried these messages: this one, unless it repeats a redirected exchange."""
        return self if self.origin is None else self.origin

    @property
    def last_carrier(self) -> "HttpExchange":
        """The exchange that last carried these messages: this one, unless the client followed a redirect from it."""
        repeated = self.repeated_by() if self.repeated_by is not None else None
        return self if repeated is None else repeated

    @property
    def peer_host(self) -> str:
        """The address of the client without its port, which a proxy in front of mcpproxy does not report."""
        has_port = self.peer.count(":") == 1 or self.peer.startswith("[")
        return self.peer.rpartition(":")[0] if has_port else self.peer

    @property
    def client_fingerprint(self) -> str:
        """A fingerprint of the client, for requests without a session id: its address, credentials and program."""
        return "\n".join((self.peer_host, self.fields.get("authorization", ""), self.fields.get("user-agent", "")))

    @property
    def is_settled(self) -> bool:
        """Whether nothing that comes later can affect the messages of this exchange, which has ended."""
        is_usual = self.method == "POST" and self.repeated_by is None and not self.is_redirect
        return is_usual and all(
            context.call is None or context.call.response is not None for context in self.client_messages
        )

    def drop_messages(self) -> None:
        """Drop the messages and calls: each refers to the exchange, and reference cycles are freed late."""
        (
            self.client_messages,
            self.server_messages,
            self.ended_calls,
            self.last_server_message,
            self.last_answer,
            self.held_bytes,
        ) = (), (), (), None, None, 0


class HttpTraffic:
    """The properties of all exchanges of a capture together; each exchange refers to this object."""

    def __init__(self) -> None:
        self.loss_count = 0
        """How many times records were lost."""
        self.is_whole = False
        """Whether the recording began before the first exchange, with no loss since."""
        self.has_gateway = False
        """Whether a response has shown that a gateway is in front of the server."""
        self.has_unread_stream = False
        """Whether there was a stream, opened by GET without a session id, whose events are not in the capture."""
        self.has_legacy = False
        """Whether there was a stream of the older transport."""
        self.legacy_streams: BoundedDict[str, HttpExchange] = BoundedDict(MAX_HTTP_EXCHANGES)
        """The streams of the older transport, by the keys of the addresses that they announced."""
        self.upstream = ""
        """Origin and path of the server, if the recorder knew it; else empty."""
        self.has_public_url = False
        """Whether `upstream` is the URL by which clients know the server (`serve --public`)."""
        self.paths: dict[str, None] = {}
        """The first 64 paths to which messages were POSTed successfully."""
        self.session_ids = SessionIds()
        self._open_exchanges: BoundedDict[int, HttpExchange] = BoundedDict(MAX_OPEN_HTTP_EXCHANGES)
        self._ended_exchanges: BoundedDict[int, HttpExchange] = BoundedDict(MAX_HTTP_EXCHANGES)

    def get(self, number: int) -> HttpExchange | None:
        """Returns the exchange with this number, or None if it is unknown or forgotten."""
        return self._open_exchanges.get(number) or self._ended_exchanges.get(number)


def values_of(headers: object, name: str) -> tuple[str, ...]:
    """Returns all values of a field in the header list of a record; `name` is in lower case."""
    pairs = headers if isinstance(headers, list) else []
    valid_pairs = (pair for pair in pairs if isinstance(pair, list) and len(pair) == 2)
    return tuple(
        value
        for field, value in valid_pairs
        if isinstance(field, str) and isinstance(value, str) and field.lower() == name
    )


@lru_cache
def _program(server: str) -> str:
    return server.partition("/")[0].partition(" ")[0].lower()


def media_type_of(value: str) -> str:
    """Returns a media type in lower case, without its parameters."""
    return value.partition(";")[0].strip().lower()


def _unread_bodies(members: dict[str, Any]) -> frozenset[str]:
    missing, hashes = members.get("missing"), members.get("body_hash")
    names = {name for name in missing if isinstance(name, str)} if isinstance(missing, list) else set()
    if isinstance(hashes, dict):
        names |= {name for name, value in hashes.items() if isinstance(value, dict) and "undecoded" in value}
    return frozenset(names)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
