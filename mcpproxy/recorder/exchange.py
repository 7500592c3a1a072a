"""One HTTP exchange and its two bodies, converted into records.

This module decides which bodies are kept: JSON-RPC, the events of a stream and `.well-known` documents, and, where a
message was due, the text of a response that is not one (`mcpproxy.recorder.response_text`); of all others only size
and hash. A body is a copy of bytes already forwarded, so nothing here can delay traffic.
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
from mcpproxy.recorder.login_redirects import is_login_step
from mcpproxy.recorder.response_text import MAX_BODY_TEXT_BYTES, Cleaner
from mcpproxy.relay.http.observer import Rewritten
from mcpproxy.wire import http1, response
from mcpproxy.wire.content import MAX_DECODED_BYTES, Decoder, Undecodable, decoder
from mcpproxy.wire.forwarded import client_address
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.lines import character_border
from mcpproxy.wire.portions import portions
from mcpproxy.wire.sse import Event, EventSplitter

if TYPE_CHECKING:
    from mcpproxy.recorder.http import ConnectionRecorder

METADATA_BYTES: Final = 64 << 10
ENDPOINTS: Final = 2
"""How many addresses announced on a stream are recorded: the first counts, a second one is a mistake."""
MAX_ENDPOINT_BYTES: Final = 8192
MAX_CODING_CHARS: Final = 64
PLACES: Final = 256
"""How many paths, in addition to the server's URL, are remembered as places of messages."""
STREAM_BYTES: Final = 1 << 40
"""The largest decoded size of a stream with a content coding."""
SNIFFED: Final = b'"jsonrpc"'
MAX_SNIFFED_BYTES: Final = 1 << 20
_WELL_KNOWN: Final = b"/.well-known/"
_STREAM: Final = b"text/event-stream"
_FAILURE: Final = 400
_MESSAGES: Final = frozenset({"request", "notification", "response", "error", "batch"})
_SILENT: Final = frozenset({202, 204, 205})
"""Statuses whose responses need no text to be understood."""
_METADATA: Final = re.compile(rb'(?i)\bresource_metadata="?([^",\s]++)').search
_JSON: Final = (b"application/json", b"application/json-rpc", b"")


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
        "_forwarded_for",
        "_host",
        "_is_announced",
        "_is_told",
        "_message",
        "_oauth",
        "_outcome",
        "_own_status",
        "_received",
        "_replaced",
        "_request",
        "_request_head",
        "_response",
        "_response_head",
        "_rewritten",
        "_sent",
        "_target",
        "_text",
        "_times",
        "_tunnelled",
        "conn",
        "conversation",
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
        self.conversation = conversation
        self.conn = conversation.number
        self.number = number
        self.is_request_open = True
        self._is_announced = False
        self._endpoints: list[str] = []
        self._replaced: dict[tuple[str, bytes], bytes] = {}
        """The address that was forwarded instead, by the place of the original and the original itself."""
        self._rewritten: dict[str, str] = {}
        self._outcome: tuple[str, str | None] | None = None
        self.flags: list[str] = []
        self.missing: list[str] = []
        """`request` and `response`, if an import lacks their bodies; a recording never does."""
        self.uri_key: str | None = None
        self.metadata: str | None = None
        self._text: str | None = None
        self._oauth: dict[str, str] | None = None
        self._request_head: http1.Head | None = None
        self._response_head: response.ResponseHead | None = None
        self._request = b',"peer":%b' % dumps(conversation.peer)
        self._response = b""
        self._times: dict[str, int] = {"request_head": conversation.at_ns}
        self._target = b""
        self._host = ""
        self._sent: BodyRecorder | None = None
        self._received: BodyRecorder | None = None
        self._own_status: int | None = None
        """The status with which we ourselves answered."""
        self._forwarded_for: str | None = None
        self._message: str | None = None
        """The method of the message that was sent; empty if there was more than one."""
        self._tunnelled: dict[Direction, int] | None = None
        """The bytes that passed in each direction after an upgrade."""
        self._error: str | None = None
        self._is_told = True

    def begin_request(self, head: http1.Head) -> None:
        """The request's head was forwarded."""
        self._target, self._request_head = head.target, head
        self._host = b"".join(head.headers.values_of(b"host")[:1]).decode("latin-1").lower()
        recorder = self.recorder
        self._request = b',"request":{"method":%b,"target":%b,"version":%b,"headers":%b}%b' % (
            dumps(_text(head.method)),
            dumps(recorder.clean(head.target)),
            dumps(_text(head.version)),
            recorder.redacted(head.headers),
            self._request,
        )
        if self.conversation.believes_proxies and (address := client_address(head.headers)):
            self._forwarded_for = address
            self._request += b',"forwarded_for":%b' % dumps(address)
        if head.method == b"POST":
            self.uri_key = recorder.uri_key(head.target)
        self._sent = BodyRecorder(self, "c2s", head.headers, last_event_id=_last_event_id(head))
        self._record("request")

    def add_to_request(self, payload: bytes) -> Iterator[None] | None:
        """A piece of the request's content was forwarded; returns the work left on it, if any."""
        return self._sent.feed(payload) if self._sent is not None else None

    def end_request(self) -> None:
        """The request is complete."""
        self.is_request_open = False
        self._times["request_end"] = self.conversation.at_ns
        if self._sent is not None:
            self._sent.end(whole=True)
        if self._outcome is not None:
            self.end(*self._outcome)

    def rewrite(self, rewritten: Rewritten) -> None:
        """An address in the response, which is yet to come, was not forwarded as sent."""
        self._replaced[rewritten.place, rewritten.sent] = rewritten.forwarded
        self._rewritten.setdefault(rewritten.place, self.recorder.clean(rewritten.forwarded))

    def begin_response(self, head: response.ResponseHead) -> None:
        """The response's head was forwarded."""
        self._times["response_head"] = self.conversation.at_ns
        self._response = b',"response":{"status":%d,"reason":%b,"version":%b,"headers":%b}' % (
            head.status,
            dumps(_text(head.reason)),
            dumps(_text(head.version)),
            self.recorder.redacted(head.headers),
        )
        self._look_around(head)
        self._response_head = head
        opened = self._sent.last_event_id if self._sent is not None else None
        self._received = BodyRecorder(self, "s2c", head.headers, last_event_id=opened, status=head.status)
        if self._received.is_stream:
            self._record("response")
            self._received.begin()
        else:
            self._is_told = False

    def switch(self) -> None:
        """The connection is no longer HTTP: what passes from now on belongs to this exchange, and is only counted."""
        self._tunnelled = {"c2s": 0, "s2c": 0}
        self.recorder.report_upgrade()

    def count_tunnelled(self, direction: Direction, size: int) -> None:
        """Bytes were forwarded on the upgraded connection."""
        if self._tunnelled is not None:
            self._tunnelled[direction] += size
            self.recorder.bytes[direction] += size

    def record_response(self) -> None:
        """Record the response's head, if that has not been done."""
        if not self._is_told:
            self._is_told = True
            self._record("response")

    def add_to_response(self, payload: bytes) -> Iterator[None] | None:
        """A piece of the response's content was forwarded; returns the work left on it, if any."""
        self._times.setdefault("first_byte", self.conversation.at_ns)
        return self._received.feed(payload) if self._received is not None else None

    def respond_ourselves(self, status: int, reason: str) -> None:
        """We refused the request, or could not reach the upstream."""
        self._own_status = status
        self._response = members(response={"status": status, "reason": reason, "by": "proxy"})
        self.end("proxy", reason)

    def respond(self, by: str, error: str | None) -> None:
        """The response has ended, complete or broken off; the rest of the request may still follow."""
        self._end_response(by)
        if self.is_request_open:
            self._outcome = by, error
            self.record_response()
        else:
            self.end(by, error)

    def _end_response(self, by: str) -> None:
        if self._received is not None:
            self._received.end(whole=by == "complete", ended_by=by)
        self._times.setdefault("response_end", self.conversation.at_ns)

    def end(self, by: str, error: str | None) -> None:
        """The exchange has ended."""
        self._end_response(by)
        if self._outcome is not None and self._outcome[0] != "complete":
            by, error = self._outcome  # the first outcome is the cause
        if self.is_request_open and self._sent is not None:
            self._sent.end(whole=False)
        self.is_request_open = False
        self._error = error
        self._is_told = True
        self._record("end", ended_by=by)
        if self.recorder.on_exchange_end is not None:
            self.recorder.on_exchange_end(self._summary(by))

    def _summary(self, ended_by: str) -> ExchangeSummary:
        request, response_, at_ns = self._request_head, self._response_head, self.conversation.at_ns
        status = response_.status if response_ is not None else self._own_status
        return ExchangeSummary(
            self._forwarded_for or self.conversation.peer,
            "" if request is None else _text(request.method),
            "an unreadable request" if request is None else self.recorder.clean(request.target),
            self._message or "",
            status,
            self._own_status is not None,
            ended_by,
            self._received.size if self._received is not None else 0,
            at_ns - self._times.get("request_head", at_ns),
        )

    @property
    def is_answered(self) -> bool:
        """Whether the response ended before the request."""
        return self._outcome is not None

    @property
    def path(self) -> bytes:
        """The target of the request without its query."""
        return self._target.partition(b"?")[0]

    def is_endpoint(self) -> bool:
        """Whether the request goes to the URL that `serve` was given: traffic there is MCP."""
        return self.path == self.recorder.endpoint

    def carries_mcp(self) -> bool:
        """Whether a message is due: at that URL, at an announced address, or where one has passed before."""
        places = self.recorder.mcp_places
        return self.is_endpoint() or self.path in places or (self.uri_key or "") in places

    def note_message(self) -> None:
        """A message has passed: from now on, messages are due at this path."""
        if self._request_head is not None and not self.is_endpoint():
            self._note_place(self.path)

    def note_method(self, method: str) -> None:
        """Note the method of a message that the client has sent."""
        self._message = method if self._message is None else ""

    def _note_place(self, place: bytes | str) -> None:
        if len(self.recorder.mcp_places) < PLACES:
            self.recorder.mcp_places.add(place)

    def keep_text(self, body: bytes, *, is_cut: bool) -> None:
        """Keep the text of a response that is not a message; of an error elsewhere, only what OAuth describes."""
        request, head = self._request_head, self._response_head
        if request is None or head is None or head.status in _SILENT or request.method in (b"HEAD", b"OPTIONS"):
            return
        is_due = self.carries_mcp()
        if not is_due and (head.status < _FAILURE or head.headers.media_type not in _JSON):
            return
        cleaner = Cleaner(request.target, request.headers, head.headers, self.recorder.secret_hash, self.recorder.clean)
        if is_due:
            media = b",".join(head.headers.values_of(b"content-type")[:1])
            self._text = cleaner.body(body, media, is_cut=is_cut)
        else:
            self._oauth = cleaner.oauth_error(body)

    def is_metadata(self) -> bool:
        """Whether the request is for a document that describes the server (RFC 8615)."""
        return self._target.startswith(_WELL_KNOWN)

    def flag(self, name: str, where: str) -> None:
        """Flag something in the response that could lead the client past the recorder."""
        if name not in self.flags:
            self.flags.append(name)
        self.recorder.warn(name, where)

    def announce(self, endpoint: bytes) -> None:
        """Record a legacy `endpoint` event, which says where the client is to POST."""
        is_news = len(self._endpoints) < ENDPOINTS  # recording each would repeat the head every time
        if is_news:
            self._endpoints.append(self.recorder.clean(endpoint[:MAX_ENDPOINT_BYTES]))
        forwarded = self._replaced.get(("endpoint", endpoint), endpoint)
        if self.store_address(forwarded.decode("utf-8", "replace")) or is_news:
            # Now, not at the end of the stream: responses on it are found by this key.
            self._record("response")

    def store_address(self, text: str) -> bool:
        """Store the key of an announced address if it is the first, which the client uses; returns whether it is."""
        if self._is_announced:
            return False
        try:
            address = urljoin(self.recorder.address(self._target), text)
        except ValueError:  # not an address: no client can POST there
            return False
        self._is_announced = True
        self.uri_key = self.recorder.hash(address.encode("utf-8", "surrogateescape"))
        self._note_place(self.uri_key)
        if self._leads_away(text):
            self.flag("bypass/endpoint", _origin(address))
        return True

    def _leads_away(self, address: str) -> bool:
        """Whether an address given by the server names a host other than the one where the client found us."""
        try:
            parts = urlsplit(address)
            if self.recorder.is_public:
                return parts.netloc != "" and not self.recorder.is_own(address)
        except ValueError:  # not an address: no client can go there
            return False
        return parts.netloc != "" and (parts.scheme or "http", parts.netloc.lower()) != ("http", self._host)

    def _look_around(self, head: response.ResponseHead) -> None:
        for name in ("location", "content-location"):
            for value in head.headers.values_of(name.encode()):
                address = self._replaced.get((name, value), value).decode("latin-1")
                if self._leads_away(address) and not is_login_step(address):
                    self.flag(f"bypass/{name}", _origin(address))
        for value in () if self.recorder.is_public else head.headers.values_of(b"set-cookie"):
            attributes = [word.strip().lower() for word in value.split(b";")[1:]]
            if b"secure" in attributes or any(word.startswith(b"domain=") for word in attributes):
                self.flag("bypass/cookie", "Secure, or for a domain")
        for value in head.headers.values_of(b"www-authenticate"):
            named = _METADATA(value)
            if named and self._leads_away(named[1].decode("latin-1")):
                self.flag("bypass/challenge", _origin(named[1].decode("latin-1")))

    def look_at_metadata(self, body: bytes) -> None:
        """Keep a `.well-known` document, and compare it with the URL that the client was given."""
        from orjson import JSONDecodeError, loads

        try:
            read = loads(body)
        except JSONDecodeError:  # not JSON, regardless of its media type: only size and hash are kept
            return
        if not isinstance(read, dict):
            return
        self.metadata = self.recorder.clean_document(read)[:METADATA_BYTES].decode("utf-8", "replace")
        resource = read.get("resource")
        if isinstance(resource, str) and self._leads_away(resource):
            self.flag("bypass/resource", _origin(resource))

    def _record(self, stage: str, ended_by: str | None = None) -> None:
        # The request's head is not repeated with the response: it is most of an exchange's size in a capture.
        head = self._response if stage == "response" else self._request + self._response
        rest = members(
            times=self._times,
            request_size=self._sent.size if self._sent is not None and not self.is_request_open else None,
            response_size=self._received.size if self._received is not None and ended_by else None,
            ended_by=ended_by,
            error=self._error,
            flags=self.flags or None,
            rewritten=self._rewritten or None,
            uri_key=self.uri_key,
            endpoints=self._endpoints or None,
            body_hash=self._hashes() if ended_by else None,
            missing=self.missing or None,
            tunnelled=self._tunnelled if ended_by else None,
            metadata=self.metadata,
            response_text=self._text,
            oauth=self._oauth,
        )
        place = b',"conn":%d,"exchange":%d,"stage":"%b"' % (self.conn, self.number, stage.encode())
        self.conversation.entries.append(PendingRecord("exchange", place + head + rest))

    def _hashes(self) -> dict[str, object] | None:
        bodies = {"request": self._sent, "response": self._received}
        hashes: dict[str, object] = {}
        for name, body in bodies.items():
            if body is not None and (unstored := body.unstored()):
                hashes[name] = unstored
        return hashes or None


class BodyRecorder:
    """Records one body of an exchange: as frames, or as its size and hash."""

    __slots__ = (
        "_coding",
        "_decoder",
        "_dir",
        "_event_count",
        "_event_id",
        "_event_parts_size",
        "_events",
        "_exchange",
        "_framed_id",
        "_has_frames",
        "_hash",
        "_held",
        "_is_broken",
        "_is_kept",
        "_is_opaque",
        "_is_over",
        "_media",
        "_metadata_size",
        "_parts",
        "_parts_size",
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
        self._dir: Direction = direction
        self._media = fields.media_type
        codings = fields.values_of(b"content-encoding")
        self._coding = _text(b", ".join(codings))[:MAX_CODING_CHARS]
        # A stream may last for days, but how far a few bytes can expand is bounded.
        total = STREAM_BYTES if self._media == _STREAM else MAX_DECODED_BYTES
        self._decoder: Decoder | None = decoder(codings, total) if codings else None
        self._is_opaque = bool(codings) and self._decoder is None
        self._is_broken = False
        self._events = EventSplitter(MAX_RAW_BYTES) if status is not None and self._media == _STREAM else None
        self._event_count = 0
        self._event_id: str | None = None
        self._framed_id: str | None = None
        """The id in force at the last event that is a frame."""
        self._retry: int | None = None
        self._held = bytearray()
        self._parts = 0
        self._parts_size = 0
        self._event_parts_size = 0
        is_json = self._media in _JSON or self._media.endswith(b"+json")
        # OAuth and gateway errors are JSON too, but not messages.
        is_due = exchange.carries_mcp() if status is None else exchange.is_endpoint() and status < _FAILURE
        self._is_kept = is_json and is_due
        # Content that is certain to be in the capture needs no hash.
        self._hash = None if self._is_kept and not codings else hashlib.sha256()
        self._has_frames = False
        self._metadata_size = 0
        self._is_over = False

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream."""
        return self._events is not None

    def begin(self) -> None:
        """Record that the event stream begins."""
        self._place("stream", event="opened", last_event_id=self.last_event_id)

    def feed(self, payload: bytes) -> Iterator[None] | None:
        """Process a piece of the body, as transferred.

        Returns:
            For a body with a content coding, the work left on the piece, in small steps; else None.
        """
        self.size += len(payload)
        self._exchange.recorder.bytes[self._dir] += len(payload)
        if self._hash is not None:
            self._hash.update(payload)
        if self._decoder is not None:
            return self._decode(self._decoder, payload)
        self._take(payload)
        return None

    def _decode(self, coding: Decoder, payload: bytes) -> Iterator[None]:
        """Decode a piece and process its content, one portion per step of the iterator.

        From a stream, it processes all that can be decoded; from other bodies, nothing of a piece that is damaged or
        expands out of proportion.
        """
        output = bytearray()
        try:
            for decoded in coding.slices(payload):
                for content in portions(decoded) if self.is_stream else ():
                    self._take(content)
                    yield
                if not self.is_stream:
                    output += decoded
                if not (decoded and self.is_stream):
                    yield
        except Undecodable:
            output.clear()
            self._decoder = None
            self._is_opaque = self._is_broken = True
            if not self._parts:
                self._let_go()
        for at in range(0, len(output), MAX_RAW_BYTES):
            self._take(bytes(output[at : at + MAX_RAW_BYTES]))
            yield

    def _take(self, payload: bytes) -> None:
        """Process a piece of the decoded content."""
        if self._is_opaque or not payload:
            return
        if self._events is not None:
            for event in self._events.feed(payload):
                self._record_event(event)
            return
        self._held += payload
        while len(self._held) > MAX_RAW_BYTES:
            if not self._parts and not self._is_stored():
                self._keep_text(is_cut=True)
                self._let_go()
                return
            piece = bytes(self._held[: MAX_RAW_BYTES + 1])
            cut = character_border(piece, MAX_RAW_BYTES)
            self._place_part(piece[:cut])
            del self._held[:cut]

    def _let_go(self) -> None:
        """Keep only its size and hash."""
        self._held = bytearray()
        self._is_opaque = True

    def end(self, *, whole: bool, ended_by: str | None = None) -> None:
        """The body has ended."""
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
            stream = {"events": self._event_count, "event_id": self._event_id, "retry": self._retry}
            self._place("stream", event="ended", **stream, ended_by=ended_by)
        elif self._parts:
            if self._held:
                self._place_part(bytes(self._held))
            self._place_frame(b"", whole=whole, parts=(self._parts, self._parts_size))
        elif self._held and self._exchange.is_metadata() and self._dir == "s2c":
            self._metadata_size = len(self._held)
            self._exchange.look_at_metadata(bytes(self._held))
        elif self._held and self._is_stored():
            self._place_frame(bytes(self._held), whole=whole)
        elif self._held:
            self._keep_text(is_cut=not whole)
        self._held = bytearray()

    def _keep_text(self, *, is_cut: bool) -> None:
        if self._dir == "s2c":
            # A bug in mcpproxy costs this text, never the record of the exchange.
            with suppress(Exception):
                self._exchange.keep_text(bytes(self._held[: MAX_BODY_TEXT_BYTES + 1]), is_cut=is_cut)

    def _is_stored(self) -> bool:
        """Whether it is JSON-RPC: sent as JSON to the server's URL, or a message under any other media type."""
        return self._is_kept or (SNIFFED in self._held and _is_message(bytes(self._held)))

    def unstored(self) -> dict[str, object] | None:
        """Size and hash of a body that has no frame in the capture."""
        metadata = self._exchange.metadata if self._dir == "s2c" else None
        is_metadata = metadata is not None and self._metadata_size <= METADATA_BYTES
        if not self.size or self._has_frames or self._hash is None or is_metadata:
            return None
        undecoded = {"undecoded": self._coding} if self._is_opaque and self._coding else {}
        return {"size": self.size, "sha256": self._hash.hexdigest(), **undecoded}

    def _record_event(self, event: Event) -> None:
        self._event_count += event.last
        # A giant id stays in force: with each small event it would be stored again.
        event_id = (
            None if event.id is None or len(event.id) > MAX_ENVELOPE_TEXT_BYTES else event.id.decode("utf-8", "replace")
        )
        if event.last:
            self._event_id, self._retry = event_id, self._retry if event.retry is None else event.retry
        if event.event == b"endpoint" and event.data is not None:
            self._exchange.announce(event.data)
            return
        if event.data is None:
            return
        if event.part:
            self._event_parts_size += len(event.data)
            self._place_part(event.data, event.part)
            if event.last:
                parts = (event.part, self._event_parts_size)
                self._event_parts_size = 0
                self._place_frame(b"", event=event, event_id=event_id, parts=parts)
        else:
            self._place_frame(event.data, event=event, event_id=event_id)

    def _place_frame(
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
        whole = whole if event is None else event.whole
        # MCP clients only read events of type `message`; this event keeps its type, up to a size limit.
        other = (
            None if event is None or event.event in (b"", b"message") else _text(event.event[:MAX_ENVELOPE_TEXT_BYTES])
        )
        id_again = event is not None and event.has_id and event_id is not None and event_id == self._framed_id
        self._framed_id = event_id
        verdict, fault = UNJUDGED, None
        try:
            if not (parts or other):
                verdict = judge_before_forwarding(raw, self._dir, unit, whole=whole)
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy costs a frame its verdict, never its record
            fault = type(error).__name__
            recorder.faults.in_verdict(error)
        self._has_frames = True
        if verdict.kind in _MESSAGES:
            exchange.note_message()
            if self._dir == "c2s":
                exchange.note_method(verdict.method or "")
        recorder.frames[self._dir] += 1
        text = frame_members(
            self._dir,
            raw,
            verdict,
            whole=whole,
            parts=parts,
            conn=exchange.conn,
            exchange=exchange.number,
            unit=unit,
            event_id=event_id,
            event=other,
            id_again=id_again,
            fault=fault,
        )
        exchange.conversation.entries.append(PendingRecord("frame", text, self._dir, len(raw)))

    def _place_part(self, raw: bytes, number: int = 0) -> None:
        if not number:
            self._parts += 1
            self._parts_size += len(raw)
        exchange = self._exchange
        text = part_members(self._dir, number or self._parts, raw, conn=exchange.conn, exchange=exchange.number)
        exchange.conversation.entries.append(PendingRecord("part", text, self._dir, len(raw)))

    def _place(self, rec: str, **fields: object) -> None:
        exchange = self._exchange
        text = members(conn=exchange.conn, exchange=exchange.number, dir=self._dir, **fields)
        exchange.conversation.entries.append(PendingRecord(rec, text))


def _is_message(body: bytes) -> bool:
    """Whether a body of an unusual media type is exactly one JSON-RPC message or batch."""
    from orjson import JSONDecodeError, loads

    if len(body) > MAX_SNIFFED_BYTES:
        return False
    try:
        read = loads(body)
    except JSONDecodeError:
        return False
    messages = read if isinstance(read, list) else [read]
    return bool(messages) and all(isinstance(message, dict) and message.get("jsonrpc") == "2.0" for message in messages)


def _last_event_id(head: http1.Head) -> str | None:
    ids = head.headers.values_of(b"last-event-id")
    return _text(ids[0]) if ids else None


def _origin(address: str) -> str:
    """The origin of an address, without anything secret in it."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    except ValueError:
        return "another address"
    return f"{parts.scheme or 'http'}://{host}{port}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
