"""Converts an HTTP exchange and its two bodies into records.

This module decides which bodies are stored: JSON-RPC, the events of a stream, and `.well-known` documents. Where a
message was expected, the text of a response that is not one is stored, too (`mcpproxy.recorder.response_text`). Of all
other bodies, only the size and the hash are stored. Where no message was expected, a body may be part of a login, so
only its size is stored, and what `mcpproxy.recorder.oauth_exchange` keeps of it. Bodies are copies of bytes that were
already forwarded, so this module cannot delay traffic.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from orjson import dumps

from captures.envelope import judge_before_forwarding
from captures.limits import MAX_ENVELOPE_TEXT_BYTES
from captures.loss import PendingRecord
from captures.record import MAX_RAW_BYTES, frame_members, members, part_members
from captures.verdict import UNJUDGED, Direction, Unit
from mcpproxy.recorder.oauth_exchange import OauthExchange
from mcpproxy.recorder.oauth_legs import announced_paths
from mcpproxy.recorder.oauth_members import challenge_member, without_secret_members
from mcpproxy.recorder.oauth_parameters import FORMS
from mcpproxy.recorder.response_text import MAX_BODY_TEXT_BYTES, TextCleaner
from mcpproxy.relay.http.observer import RewrittenAddress
from mcpproxy.wire import http1, response
from mcpproxy.wire.content import MAX_DECODED_BYTES, Decoder, Undecodable, new_decoder
from mcpproxy.wire.forwarded import client_address
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.lines import character_border
from mcpproxy.wire.portions import portions
from mcpproxy.wire.sse import Event, EventSplitter

if TYPE_CHECKING:
    from mcpproxy.recorder.http import ConnectionRecorder

MAX_METADATA_BYTES: Final = 64 << 10
MAX_ENDPOINTS: Final = 2
"""The maximum number of addresses recorded per stream: clients use the first one, and a second one is an error."""
MAX_ENDPOINT_BYTES: Final = 8192
MAX_CODING_CHARS: Final = 64
MAX_MCP_PLACES: Final = 256
"""The maximum number of paths, in addition to the server's own, that are remembered because messages go there."""
MAX_STREAM_BYTES: Final = 1 << 40
"""The maximum decoded size of a stream with a content coding."""
JSONRPC_NAME: Final = b'"jsonrpc"'
MAX_SNIFFED_BYTES: Final = 1 << 20
_WELL_KNOWN: Final = b"/.well-known/"
_STREAM_MEDIA_TYPE: Final = b"text/event-stream"
_FIRST_ERROR_STATUS: Final = 400
_NO_FIELDS: Final = Fields()
_MESSAGE_KINDS: Final = frozenset({"request", "notification", "response", "error", "batch"})
_SELF_EXPLANATORY_STATUSES: Final = frozenset({202, 204, 205})
"""The statuses of responses whose text is not stored, because they can be understood without it."""
_METADATA_PARAMETER: Final = re.compile(rb'(?i)\bresource_metadata="?([^",\s]++)').search
_JSON_MEDIA_TYPES: Final = (b"application/json", b"application/json-rpc", b"")


class ExchangeSummary(NamedTuple):
    """What an exchange that has ended was. All texts are untrusted, and without credentials."""

    client: str
    """The client's address."""
    method: str
    target: str
    message: str
    """The method of the JSON-RPC message that was sent; empty if there was none, or more than one."""
    status: int | None
    """The status of the response; None if there was none."""
    is_ours: bool
    """Whether mcpproxy itself answered."""
    ended_by: str
    """As in the record."""
    response_size: int
    lasted_ns: int
    """From the head of the request to the end."""


class ExchangeRecorder:
    """One request and its response."""

    __slots__ = (
        "_endpoints",
        "_error",
        "_forwarded_addresses",
        "_forwarded_for",
        "_has_announced_address",
        "_host",
        "_is_response_recorded",
        "_message",
        "_oauth_members",
        "_outcome",
        "_own_status",
        "_request_body",
        "_request_head",
        "_request_members",
        "_response_body",
        "_response_head",
        "_response_members",
        "_response_text",
        "_rewritten_addresses",
        "_target",
        "_times",
        "_tunnelled_bytes",
        "authorization",
        "connection",
        "connection_number",
        "flags",
        "is_request_open",
        "metadata",
        "missing",
        "number",
        "recorder",
        "uri_key",
    )

    def __init__(self, conversation: "ConnectionRecorder", number: int) -> None:
        self.recorder = conversation.recorder
        self.connection = conversation
        self.connection_number = conversation.number
        self.number = number
        self.is_request_open = True
        self._has_announced_address = False
        self._endpoints: list[str] = []
        self._forwarded_addresses: dict[tuple[str, bytes], bytes] = {}
        """The address that was forwarded instead, by the field or event of the original, and the original."""
        self._rewritten_addresses: dict[str, str] = {}
        self._outcome: tuple[str, str | None] | None = None
        self.flags: list[str] = []
        self.missing: list[str] = []
        """`request` and `response`, if an imported log lacks their bodies; a recording never lacks them."""
        self.uri_key: str | None = None
        self.metadata: str | None = None
        self._response_text: str | None = None
        self._oauth_members: dict[str, object] | None = None
        self.authorization: OauthExchange | None = None
        """What the exchange has to do with an authorization; None if messages are expected."""
        self._request_head: http1.RequestHead | None = None
        self._response_head: response.ResponseHead | None = None
        self._request_members = b',"peer":%b' % dumps(conversation.peer)
        self._response_members = b""
        self._times: dict[str, int] = {"request_head": conversation.at_ns}
        self._target = b""
        self._host = ""
        self._request_body: BodyRecorder | None = None
        self._response_body: BodyRecorder | None = None
        self._own_status: int | None = None
        """The status with which we ourselves answered."""
        self._forwarded_for: str | None = None
        self._message: str | None = None
        """The method of the message that was sent; empty if there was more than one."""
        self._tunnelled_bytes: dict[Direction, int] | None = None
        """The number of bytes that passed in each direction after an upgrade."""
        self._error: str | None = None
        self._is_response_recorded = True

    def begin_request(self, head: http1.RequestHead) -> None:
        """Records the head of the request, which was forwarded."""
        self._target, self._request_head = head.target, head
        self._host = b"".join(head.headers.values_of(b"host")[:1]).decode("latin-1").lower()
        recorder = self.recorder
        self._request_members = b',"request":{"method":%b,"target":%b,"version":%b,"headers":%b}%b' % (
            dumps(_text(head.method)),
            dumps(recorder.clean_address(head.target)),
            dumps(_text(head.version)),
            recorder.redacted_fields(head.headers),
            self._request_members,
        )
        if self.connection.trusts_peer and (address := client_address(head.headers)):
            self._forwarded_for = address
            self._request_members += b',"forwarded_for":%b' % dumps(address)
        if head.method == b"POST":
            self.uri_key = recorder.uri_key(head.target)
        if not self.expects_messages():
            self.authorization = OauthExchange(head, recorder.oauth_legs.leg_of(head.target))
        self._request_body = BodyRecorder(self, "c2s", head.headers, last_event_id=_last_event_id(head))
        self._record_stage("request")

    def add_to_request(self, payload: bytes) -> Iterator[None] | None:
        """Process a piece of the request's content, which was forwarded; returns the remaining work, if any."""
        return self._request_body.feed(payload) if self._request_body is not None else None

    def end_request(self) -> None:
        """Records that the request is complete."""
        self.is_request_open = False
        self._times["request_end"] = self.connection.at_ns
        if self._request_body is not None:
            self._request_body.end_body(whole=True)
        if self._outcome is not None:
            self.end(*self._outcome)

    def on_rewrite(self, rewritten: RewrittenAddress) -> None:
        """Notes that an address in the response, which comes next, is not forwarded as sent."""
        self._forwarded_addresses[rewritten.place, rewritten.sent] = rewritten.forwarded
        self._rewritten_addresses.setdefault(rewritten.place, self.recorder.clean_address(rewritten.forwarded))

    def begin_response(self, head: response.ResponseHead) -> None:
        """Process the head of the response, which was forwarded; for an event stream, records it."""
        self._times["response_head"] = self.connection.at_ns
        self._response_members = b',"response":{"status":%d,"reason":%b,"version":%b,"headers":%b}' % (
            head.status,
            dumps(_text(head.reason)),
            dumps(_text(head.version)),
            self.recorder.redacted_fields(head.headers),
        )
        if self.authorization is not None:
            self.authorization.read_response_head(head)
        self._flag_bypasses(head)
        self._response_head = head
        last_event_id = self._request_body.last_event_id if self._request_body is not None else None
        self._response_body = BodyRecorder(self, "s2c", head.headers, last_event_id=last_event_id, status=head.status)
        if self._response_body.is_stream:
            self._record_stage("response")
            self._response_body.record_begin()
        else:
            self._is_response_recorded = False

    def drop_fields(self) -> None:
        """Drop the header fields of a stream, which are recorded; only what a refusal asks for is read later."""
        request, head = self._request_head, self._response_head
        is_stream = self._response_body is not None and self._response_body.is_stream
        if is_stream and request is not None and head is not None and head.status < _FIRST_ERROR_STATUS:
            self._request_head = request._replace(headers=_NO_FIELDS, wire=b"")
            self._response_head = head._replace(headers=_NO_FIELDS)

    def on_switch(self) -> None:
        """Notes that the connection is no longer HTTP: further bytes belong to this exchange, and are only counted."""
        self._tunnelled_bytes = {"c2s": 0, "s2c": 0}
        self.recorder.report_upgrade()

    def count_tunnelled(self, direction: Direction, size: int) -> None:
        """Count bytes that were forwarded on the upgraded connection."""
        if self._tunnelled_bytes is not None:
            self._tunnelled_bytes[direction] += size
            self.recorder.bytes[direction] += size

    def record_response(self) -> None:
        """Records the head of the response unless it is already recorded."""
        if not self._is_response_recorded:
            self._is_response_recorded = True
            self._record_stage("response")

    def add_to_response(self, payload: bytes) -> Iterator[None] | None:
        """Process a piece of the response's content, which was forwarded; returns the remaining work, if any."""
        self._times.setdefault("first_byte", self.connection.at_ns)
        return self._response_body.feed(payload) if self._response_body is not None else None

    def on_proxy_response(self, status: int, reason: str) -> None:
        """Records that mcpproxy responded itself: it refused the request, or could not reach the upstream."""
        self._own_status = status
        self._response_members = members(response={"status": status, "reason": reason, "by": "proxy"})
        self.end("proxy", reason)

    def on_response_end(self, by: str, error: str | None) -> None:
        """Records that the response has ended, complete or aborted; the rest of the request may still follow."""
        self._end_response(by)
        if self.is_request_open:
            self._outcome = by, error
            self.record_response()
        else:
            self.end(by, error)

    def _end_response(self, by: str) -> None:
        if self._response_body is not None:
            self._response_body.end_body(whole=by == "complete", ended_by=by)
        self._times.setdefault("response_end", self.connection.at_ns)

    def end(self, by: str, error: str | None) -> None:
        """Records that the exchange has ended."""
        self._end_response(by)
        if self._outcome is not None and self._outcome[0] != "complete":
            by, error = self._outcome  # the first outcome is the cause
        if self.is_request_open and self._request_body is not None:
            self._request_body.end_body(whole=False)
        self.is_request_open = False
        self._error = error
        self._is_response_recorded = True
        # A bug in mcpproxy loses this member, but never the record of the exchange.
        with suppress(Exception):
            self._oauth_members = self._make_oauth_members()
        self._record_stage("end", ended_by=by)
        if self.recorder.on_exchange_end is not None:
            self.recorder.on_exchange_end(self._summary(by))
        # The bodies refer to this exchange: without them it is freed at once, not when Python looks for cycles.
        self._request_body = self._response_body = None

    def _summary(self, ended_by: str) -> ExchangeSummary:
        request, response_, at_ns = self._request_head, self._response_head, self.connection.at_ns
        status = response_.status if response_ is not None else self._own_status
        return ExchangeSummary(
            self._forwarded_for or self.connection.peer,
            "" if request is None else _text(request.method),
            "an unreadable request" if request is None else self.recorder.clean_address(request.target),
            self._message or "",
            status,
            self._own_status is not None,
            ended_by,
            self._response_body.size if self._response_body is not None else 0,
            at_ns - self._times.get("request_head", at_ns),
        )

    @property
    def has_early_response(self) -> bool:
        """Whether the response ended before the request."""
        return self._outcome is not None

    @property
    def path(self) -> bytes:
        """The target of the request without its query."""
        return self._target.partition(b"?")[0]

    def is_endpoint(self) -> bool:
        """Returns whether the request goes to the URL that `serve` was given, where all traffic is MCP."""
        return self.path == self.recorder.endpoint

    def expects_messages(self) -> bool:
        """Returns whether to expect messages: at that URL, at an announced address, or where one has passed before."""
        mcp_places = self.recorder.mcp_places
        if self.is_endpoint() or (self.uri_key or "") in mcp_places:
            return True
        return self.path in mcp_places and self.recorder.oauth_legs.leg_of(self._target) is None

    def note_message(self) -> None:
        """Note that a message has passed, so more are expected at this path."""
        # A message at a path such as /register must not make the next registration a message.
        may_be_leg = self.authorization is not None and self.authorization.is_private(is_request_open=True)
        if self._request_head is not None and not self.is_endpoint() and not may_be_leg:
            self._add_mcp_place(self.path)

    def note_method(self, method: str) -> None:
        """Note the method of a message that the client has sent."""
        self._message = method if self._message is None else ""

    def _add_mcp_place(self, place: bytes | str) -> None:
        if len(self.recorder.mcp_places) < MAX_MCP_PLACES:
            self.recorder.mcp_places.add(place)

    def is_private(self) -> bool:
        """Returns whether the bodies must not be stored, because they contain what authorizes a client."""
        authorization = self.authorization
        return authorization is not None and authorization.is_private(is_request_open=self.is_request_open)

    def _make_oauth_members(self) -> dict[str, object] | None:
        request, head, recorder = self._request_head, self._response_head, self.recorder
        if request is None:
            return None
        if self.expects_messages():
            if head is None:
                return None
            return challenge_member(request, head, recorder.secret_hash, recorder.clean_address)
        if self.authorization is None:
            return None
        return self.authorization.member(recorder.secret_hash, recorder.clean_address)

    def keep_text(self, body: bytes, *, is_cut: bool) -> None:
        """Keep the text of a response that is not a message although one was expected."""
        request, head = self._request_head, self._response_head
        if (
            request is None
            or head is None
            or head.status in _SELF_EXPLANATORY_STATUSES
            or request.method in (b"HEAD", b"OPTIONS")
        ):
            return
        if not self.expects_messages():
            return
        cleaner = TextCleaner(
            request.target, request.headers, head.headers, self.recorder.secret_hash, self.recorder.clean_address
        )
        content_type = b",".join(head.headers.values_of(b"content-type")[:1])
        self._response_text = cleaner.cleaned_body(body, content_type, is_cut=is_cut)

    def is_metadata(self) -> bool:
        """Returns whether the request is for a document that describes the server (RFC 8615)."""
        is_for_metadata = self.authorization is not None and self.authorization.is_for_metadata
        return is_for_metadata or self._target.startswith(_WELL_KNOWN)

    def flag(self, name: str, detail: str) -> None:
        """Flag something in the response that could lead the client around the recorder."""
        if name not in self.flags:
            self.flags.append(name)
        self.recorder.report_bypass(name, detail)

    def record_endpoint(self, endpoint: bytes) -> None:
        """Records a legacy `endpoint` event, which says where the client must send its POST requests."""
        is_new = len(self._endpoints) < MAX_ENDPOINTS  # recording each would repeat the head every time
        if is_new:
            self._endpoints.append(self.recorder.clean_address(endpoint[:MAX_ENDPOINT_BYTES]))
        forwarded_address = self._forwarded_addresses.get(("endpoint", endpoint), endpoint)
        if self.store_first_address(forwarded_address.decode("utf-8", "replace")) or is_new:
            # Not only at the end of the stream, because readers need this key to find the responses on it.
            self._record_stage("response")

    def store_first_address(self, text: str) -> bool:
        """Store the key of the first announced address, which the client uses; returns whether it was the first."""
        if self._has_announced_address:
            return False
        try:
            address = urljoin(self.recorder.address(self._target), text)
        except ValueError:  # not a valid address, so no client can POST there
            return False
        self._has_announced_address = True
        self.uri_key = self.recorder.hash(address.encode("utf-8", "surrogateescape"))
        self._add_mcp_place(self.uri_key)
        if self._names_other_host(text):
            self.flag("bypass/endpoint", _origin(address))
        return True

    def _names_other_host(self, address: str) -> bool:
        """Returns whether an address from the server names another host than the one that the client connected to."""
        try:
            parts = urlsplit(address)
            if self.recorder.is_public:
                return parts.netloc != "" and not self.recorder.is_own(address)
        except ValueError:  # not a valid address, so no client can go there
            return False
        return parts.netloc != "" and (parts.scheme or "http", parts.netloc.lower()) != ("http", self._host)

    def _is_own_address(self, address: str) -> bool:
        """Returns whether an address belongs to the server, or to the host that the client connected to."""
        try:
            host = urlsplit(address).netloc.lower()
        except ValueError:
            return False
        return host == self._host or self.recorder.is_own(address)

    def _flag_bypasses(self, head: response.ResponseHead) -> None:
        authorization = self.authorization
        # A login may end at the client. In front of a public server, it also begins where the server wants it to.
        is_login = authorization is not None and (
            authorization.is_sent_back or (self.recorder.is_public and authorization.is_of_browser)
        )
        for name in ("location", "content-location"):
            for value in head.headers.values_of(name.encode()):
                address = self._forwarded_addresses.get((name, value), value).decode("latin-1")
                if self._names_other_host(address) and not is_login:
                    self.flag(f"bypass/{name}", _origin(address))
        for value in () if self.recorder.is_public else head.headers.values_of(b"set-cookie"):
            attributes = [word.strip().lower() for word in value.split(b";")[1:]]
            if b"secure" in attributes or any(word.startswith(b"domain=") for word in attributes):
                self.flag("bypass/cookie", "Secure, or for a domain")
        for value in head.headers.values_of(b"www-authenticate"):
            metadata_url = _METADATA_PARAMETER(value)
            if metadata_url and self._names_other_host(metadata_url[1].decode("latin-1")):
                self.flag("bypass/challenge", _origin(metadata_url[1].decode("latin-1")))

    def keep_metadata(self, body: bytes) -> None:
        """Keep a `.well-known` document, and flag it if it names another host than the client's URL."""
        from orjson import JSONDecodeError, loads

        try:
            document = loads(body)
        except JSONDecodeError:  # not JSON, regardless of its media type, so only its size and hash are stored
            return
        if not isinstance(document, dict):
            return
        mcp_places = self.recorder.mcp_places
        for path, leg in announced_paths(document, self._is_own_address):
            if mcp_places.isdisjoint((path, path + b"/")):  # a path at which messages have passed is not a leg
                self.recorder.oauth_legs.add(path, leg)
        secret_hash = self.recorder.secret_hash
        kept_document = document if secret_hash is None else without_secret_members(document, secret_hash)
        self.metadata = self.recorder.clean_document(kept_document)[:MAX_METADATA_BYTES].decode("utf-8", "replace")
        resource = document.get("resource")
        if isinstance(resource, str) and self._names_other_host(resource):
            self.flag("bypass/resource", _origin(resource))

    def _record_stage(self, stage: str, ended_by: str | None = None) -> None:
        # The request's head is not repeated with the response, because it makes up most of an exchange in a capture.
        head = self._response_members if stage == "response" else self._request_members + self._response_members
        stage_members = members(
            times=self._times,
            request_size=self._request_body.size
            if self._request_body is not None and not self.is_request_open
            else None,
            response_size=self._response_body.size if self._response_body is not None and ended_by else None,
            ended_by=ended_by,
            error=self._error,
            flags=self.flags or None,
            rewritten=self._rewritten_addresses or None,
            uri_key=self.uri_key,
            endpoints=self._endpoints or None,
            body_hash=self._unstored_bodies() if ended_by else None,
            missing=self.missing or None,
            tunnelled=self._tunnelled_bytes if ended_by else None,
            metadata=self.metadata,
            response_text=self._response_text,
            oauth=self._oauth_members,
        )
        position = b',"conn":%d,"exchange":%d,"stage":"%b"' % (self.connection_number, self.number, stage.encode())
        self.connection.entries.append(PendingRecord("exchange", position + head + stage_members))

    def _unstored_bodies(self) -> dict[str, object] | None:
        bodies = {"request": self._request_body, "response": self._response_body}
        hashes: dict[str, object] = {}
        for name, body in bodies.items():
            if body is not None and (size_and_hash := body.unstored_members()):
                hashes[name] = size_and_hash
        return hashes or None


class BodyRecorder:
    """Records one body of an exchange: as frames, or as its size and hash."""

    __slots__ = (
        "_coding",
        "_decoder",
        "_direction",
        "_event_count",
        "_event_id",
        "_event_parts_size",
        "_events",
        "_exchange",
        "_has_frames",
        "_hash",
        "_is_always_stored",
        "_is_broken",
        "_is_hashed",
        "_is_opaque",
        "_is_over",
        "_last_frame_event_id",
        "_media_type",
        "_metadata_size",
        "_part_count",
        "_parts_size",
        "_pending",
        "_retry",
        "last_event_id",
        "size",
    )

    def __init__(
        self,
        exchange: ExchangeRecorder,
        direction: Direction,
        fields: Fields,
        *,
        last_event_id: str | None,
        status: int | None = None,
    ) -> None:
        self.size = 0
        self.last_event_id = last_event_id
        self._exchange = exchange
        self._direction: Direction = direction
        self._media_type = fields.media_type
        codings = fields.values_of(b"content-encoding")
        self._coding = _text(b", ".join(codings))[:MAX_CODING_CHARS]
        # A stream may last for days, but how far a few bytes can expand is bounded.
        max_decoded_bytes = MAX_STREAM_BYTES if self._media_type == _STREAM_MEDIA_TYPE else MAX_DECODED_BYTES
        self._decoder: Decoder | None = new_decoder(codings, max_decoded_bytes) if codings else None
        self._is_opaque = bool(codings) and self._decoder is None
        self._is_broken = False
        is_events = status is not None and self._media_type == _STREAM_MEDIA_TYPE and not exchange.is_private()
        self._events = EventSplitter(MAX_RAW_BYTES) if is_events else None
        self._event_count = 0
        self._event_id: str | None = None
        self._last_frame_event_id: str | None = None
        """The event id that applied to the last event stored as a frame."""
        self._retry: int | None = None
        self._pending = bytearray()
        self._part_count = 0
        self._parts_size = 0
        self._event_parts_size = 0
        is_json = self._media_type in _JSON_MEDIA_TYPES or self._media_type.endswith(b"+json")
        # OAuth errors and gateway errors are JSON, too, but they are not messages.
        expects_message = (
            exchange.expects_messages() if status is None else exchange.is_endpoint() and status < _FIRST_ERROR_STATUS
        )
        self._is_always_stored = is_json and expects_message
        self._is_hashed = self._may_be_hashed(is_encoded=bool(codings))
        self._hash: hashlib._Hash | None = None  # made with the first piece, as it takes 250 bytes
        self._has_frames = False
        self._metadata_size = 0
        self._is_over = False

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self._events is not None

    def _may_be_hashed(self, *, is_encoded: bool) -> bool:
        """Returns whether to hash the body: the hash is useful, and no one can guess from it a password in the body."""
        if self._exchange.authorization is None:
            # Content that is stored in any case needs no hash.
            return self._media_type not in FORMS and (is_encoded or not self._is_always_stored)
        return self._direction == "s2c" and self._exchange.is_metadata() and self._media_type in _JSON_MEDIA_TYPES

    def record_begin(self) -> None:
        """Record that the event stream begins."""
        self._add_record("stream", event="opened", last_event_id=self.last_event_id)

    def feed(self, payload: bytes) -> Iterator[None] | None:
        """Process a piece of the body, as transferred.

        Returns:
            The remaining work on the piece, in small steps, for a body with a content coding; otherwise None.
        """
        self.size += len(payload)
        self._exchange.recorder.bytes[self._direction] += len(payload)
        if self._is_hashed:
            self._hash = self._hash or hashlib.sha256()
            self._hash.update(payload)
        if self._decoder is not None:
            return self._decode(self._decoder, payload)
        self._process_content(payload)
        return None

    def _decode(self, coding: Decoder, payload: bytes) -> Iterator[None]:
        """Decode a piece and process its content, one portion per step of the iterator.

        If a piece is damaged or expands out of proportion, the part of it that can be decoded is processed only for a
        stream, not for other bodies.
        """
        output = bytearray()
        try:
            for decoded_slice in coding.decode_slices(payload):
                for content in portions(decoded_slice) if self.is_stream else ():
                    self._process_content(content)
                    yield
                if not self.is_stream:
                    output += decoded_slice
                if not (decoded_slice and self.is_stream):
                    yield
        except Undecodable:
            output.clear()
            self._decoder = None
            self._is_opaque = self._is_broken = True
            if not self._part_count:
                self._drop_content()
        for start in range(0, len(output), MAX_RAW_BYTES):
            self._process_content(bytes(output[start : start + MAX_RAW_BYTES]))
            yield

    def _process_content(self, payload: bytes) -> None:
        """Process a piece of the decoded content."""
        if self._is_opaque or not payload:
            return
        if self._events is not None:
            for event in self._events.feed(payload):
                self._record_event(event)
            return
        self._pending += payload
        while len(self._pending) > MAX_RAW_BYTES:
            if not self._part_count and not self._is_stored():
                self._keep_text(is_cut=True)
                self._drop_content()
                return
            piece = bytes(self._pending[: MAX_RAW_BYTES + 1])
            cut_index = character_border(piece, MAX_RAW_BYTES)
            self._add_part_record(piece[:cut_index])
            del self._pending[:cut_index]

    def _drop_content(self) -> None:
        """Drop the content, so only the size and the hash are stored."""
        self._pending = bytearray()
        self._is_opaque = True

    def end_body(self, *, whole: bool, ended_by: str | None = None) -> None:
        """Records the end of the body."""
        if self._is_over:
            return
        self._is_over = True
        whole = whole and not self._is_broken
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except Undecodable:
                whole = False
        if self._events is not None:
            for event in self._events.finish():
                self._record_event(event)
            stream_fields = {"events": self._event_count, "event_id": self._event_id, "retry": self._retry}
            self._add_record("stream", event="ended", **stream_fields, ended_by=ended_by)
        elif self._read_authorization(whole=whole):
            pass  # only named facts are kept of the body
        elif self._part_count:
            if self._pending:
                self._add_part_record(bytes(self._pending))
            self._add_frame_record(b"", whole=whole, parts=(self._part_count, self._parts_size))
        elif self._pending and self._exchange.is_metadata() and self._direction == "s2c":
            self._metadata_size = len(self._pending)
            self._exchange.keep_metadata(bytes(self._pending))
        elif self._pending and self._is_stored():
            self._add_frame_record(bytes(self._pending), whole=whole)
        elif self._pending:
            self._keep_text(is_cut=not whole)
        self._pending = bytearray()

    def _read_authorization(self, *, whole: bool) -> bool:
        """Read what the body says about an authorization; returns whether nothing else may be kept of it."""
        authorization = self._exchange.authorization
        if authorization is None:
            return False
        is_readable = whole and not self._is_opaque
        with suppress(Exception):  # a bug in mcpproxy loses facts, but never a record
            if self._direction == "c2s" and self.size:
                authorization.read_request(bytes(self._pending) if is_readable else None, self._media_type)
            elif self._direction == "s2c" and is_readable:
                authorization.read_response(bytes(self._pending))
        return self._exchange.is_private()

    def _keep_text(self, *, is_cut: bool) -> None:
        if self._direction == "s2c":
            # A bug in mcpproxy loses this text, but never the record of the exchange.
            with suppress(Exception):
                self._exchange.keep_text(bytes(self._pending[: MAX_BODY_TEXT_BYTES + 1]), is_cut=is_cut)

    def _is_stored(self) -> bool:
        """Returns whether to store the body: JSON where messages are expected, or a message of any media type."""
        return self._is_always_stored or (JSONRPC_NAME in self._pending and _is_message(bytes(self._pending)))

    def unstored_members(self) -> dict[str, object] | None:
        """Returns the size of a body without a frame in the capture, and its hash if made; None if it has a frame."""
        metadata = self._exchange.metadata if self._direction == "s2c" else None
        is_metadata = metadata is not None and self._metadata_size <= MAX_METADATA_BYTES
        if not self.size or self._has_frames or is_metadata:
            return None
        hash_member = {} if self._hash is None else {"sha256": self._hash.hexdigest()}
        coding_member = {"undecoded": self._coding} if self._is_opaque and self._coding else {}
        return {"size": self.size, **hash_member, **coding_member}

    def _record_event(self, event: Event) -> None:
        self._event_count += event.is_last
        # A giant id is not stored: it applies to all later events, and would be stored with each of them.
        event_id = (
            None if event.id is None or len(event.id) > MAX_ENVELOPE_TEXT_BYTES else event.id.decode("utf-8", "replace")
        )
        if event.is_last:
            self._event_id, self._retry = event_id, self._retry if event.retry is None else event.retry
        if event.event == b"endpoint" and event.data is not None:
            self._exchange.record_endpoint(event.data)
            return
        if event.data is None:
            return
        if event.part_number:
            self._event_parts_size += len(event.data)
            self._add_part_record(event.data, event.part_number)
            if event.is_last:
                parts = (event.part_number, self._event_parts_size)
                self._event_parts_size = 0
                self._add_frame_record(b"", event=event, event_id=event_id, parts=parts)
        else:
            self._add_frame_record(event.data, event=event, event_id=event_id)

    def _add_frame_record(
        self,
        raw: bytes,
        *,
        whole: bool = True,
        event: Event | None = None,
        event_id: str | None = None,
        parts: tuple[int, int] | None = None,
    ) -> None:
        recorder, exchange = self._exchange.recorder, self._exchange
        unit: Unit = "http_body" if event is None else "sse_event"
        whole = whole if event is None else event.is_whole
        # MCP clients read only events of type `message`. The record of any other event contains its type, cut to a
        # limit.
        event_type = (
            None if event is None or event.event in (b"", b"message") else _text(event.event[:MAX_ENVELOPE_TEXT_BYTES])
        )
        repeats_id = (
            event is not None and event.has_id and event_id is not None and event_id == self._last_frame_event_id
        )
        self._last_frame_event_id = event_id
        verdict, fault = UNJUDGED, None
        try:
            if not (parts or event_type):
                verdict = judge_before_forwarding(raw, self._direction, unit, whole=whole)
        except Exception as error:  # noqa: BLE001 - because of a bug, a frame may lack its verdict, never its record
            fault = type(error).__name__
            recorder.faults.on_verdict_fault(error)
        self._has_frames = True
        if verdict.kind in _MESSAGE_KINDS:
            exchange.note_message()
            if self._direction == "c2s":
                exchange.note_method(verdict.method or "")
        recorder.frames[self._direction] += 1
        frame_text = frame_members(
            self._direction,
            raw,
            verdict,
            whole=whole,
            parts=parts,
            conn=exchange.connection_number,
            exchange=exchange.number,
            unit=unit,
            event_id=event_id,
            event=event_type,
            id_again=repeats_id,
            fault=fault,
        )
        exchange.connection.entries.append(PendingRecord("frame", frame_text, self._direction, len(raw)))

    def _add_part_record(self, raw: bytes, number: int = 0) -> None:
        if not number:
            self._part_count += 1
            self._parts_size += len(raw)
        exchange = self._exchange
        text = part_members(
            self._direction, number or self._part_count, raw, conn=exchange.connection_number, exchange=exchange.number
        )
        exchange.connection.entries.append(PendingRecord("part", text, self._direction, len(raw)))

    def _add_record(self, kind: str, **fields: object) -> None:
        exchange = self._exchange
        text = members(conn=exchange.connection_number, exchange=exchange.number, dir=self._direction, **fields)
        exchange.connection.entries.append(PendingRecord(kind, text))


def _is_message(body: bytes) -> bool:
    """Returns whether a body of an unusual media type is exactly one JSON-RPC message or batch."""
    from orjson import JSONDecodeError, loads

    if len(body) > MAX_SNIFFED_BYTES:
        return False
    try:
        document = loads(body)
    except JSONDecodeError:
        return False
    messages = document if isinstance(document, list) else [document]
    return bool(messages) and all(isinstance(message, dict) and message.get("jsonrpc") == "2.0" for message in messages)


def _last_event_id(head: http1.RequestHead) -> str | None:
    ids = head.headers.values_of(b"last-event-id")
    return _text(ids[0]) if ids else None


def _origin(address: str) -> str:
    """Returns the origin of an address, which contains no secret."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    except ValueError:
        return "another address"
    return f"{parts.scheme or 'http'}://{host}{port}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
