"""Converts an HTTP exchange into records: its heads, its times, how it ended, and what else is kept of its bodies.

`mcpproxy.recorder.body_recorder` records the bodies themselves. What is read was already forwarded, so this module
cannot delay traffic.
"""

from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin, urlsplit

from orjson import dumps

from captures.addresses import escaped_text
from captures.loss import PendingRecord
from captures.record import members
from captures.verdict import Direction
from mcpproxy.recorder.body_recorder import BodyRecorder
from mcpproxy.recorder.bypasses import Bypass, BypassDetector, issuers
from mcpproxy.recorder.exchange_context import ConnectionContext
from mcpproxy.recorder.exchange_summary import ExchangeSummary
from mcpproxy.recorder.oauth_exchange import OauthExchange, secrets_of_form, with_secrets
from mcpproxy.recorder.oauth_legs import WELL_KNOWN, announced_paths
from mcpproxy.recorder.oauth_members import challenge_member, without_secret_members
from mcpproxy.recorder.oauth_parameters import FORMS
from mcpproxy.recorder.response_text import TextCleaner
from mcpproxy.relay.http.observer import RewrittenAddress
from mcpproxy.wire import http1, response
from mcpproxy.wire.forwarded import client_address
from mcpproxy.wire.framing import Fields

MAX_METADATA_BYTES: Final = 64 << 10
MAX_ENDPOINTS: Final = 2
"""The maximum number of addresses recorded per stream: clients use the first one, and a second one is an error."""
MAX_ENDPOINT_BYTES: Final = 8192
MAX_MCP_PLACES: Final = 256
"""The maximum number of paths, in addition to the server's own, that are remembered because messages go there."""
_FIRST_ERROR_STATUS: Final = 400
_NO_FIELDS: Final = Fields()
_USUAL_REASONS: Final = frozenset({"", *(status.phrase.lower() for status in HTTPStatus)})
_SELF_EXPLANATORY_STATUSES: Final = frozenset({202, 204, 205})
"""The statuses of responses whose text is not stored, because they can be understood without it."""


class ExchangeRecorder:
    """One request and its response."""

    __slots__ = (
        "_endpoints",
        "_error",
        "_flags",
        "_forwarded_addresses",
        "_forwarded_for",
        "_has_announced_address",
        "_has_extras",
        "_host",
        "_is_response_recorded",
        "_message",
        "_metadata",
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
        "is_request_open",
        "missing",
        "number",
        "recorder",
        "uri_key",
    )

    def __init__(self, connection: ConnectionContext, number: int) -> None:
        """Begin an exchange on a connection; `number` is its number in the capture."""
        self.recorder = connection.recorder
        self.connection = connection
        self.number = number
        self.is_request_open = True
        self._has_announced_address = False
        self._has_extras = False
        self._endpoints: list[str] = []
        self._forwarded_addresses: dict[tuple[str, bytes], bytes] = {}
        """The address that was forwarded instead, by the field or event of the original, and the original."""
        self._rewritten_addresses: dict[str, str] = {}
        self._outcome: tuple[str, str | None] | None = None
        self._flags: list[str] = []
        self.missing: list[str] = []
        """`request` and `response`, if an imported log lacks their bodies; a recording never lacks them."""
        self.uri_key: str | None = None
        self._metadata: str | None = None
        self._response_text: str | None = None
        self._oauth_members: dict[str, object] | None = None
        self.authorization: OauthExchange | None = None
        """What the exchange has to do with an authorization; None if messages are expected."""
        self._request_head: http1.RequestHead | None = None
        self._response_head: response.ResponseHead | None = None
        self._request_members = b',"peer":%b' % dumps(connection.peer)
        self._response_members = b""
        self._times: dict[str, int] = {"request_head": connection.at_ns}
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
            dumps(escaped_text(head.method)),
            dumps(recorder.clean_address(head.target)),
            dumps(escaped_text(head.version)),
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

    def note_extras(self) -> None:
        """Note that the request has trailers or chunk extensions, whose values texts of the response may repeat."""
        self._has_extras = True
        if self.authorization is not None:
            self.authorization.read_extras()

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
            dumps(self._kept_reason(head)),
            dumps(escaped_text(head.version)),
            self.recorder.redacted_fields(head.headers),
        )
        if self.authorization is not None:
            self.authorization.read_response_head(head)
        self._check_response_head(head)
        self._response_head = head
        last_event_id = self._request_body.last_event_id if self._request_body is not None else None
        self._response_body = BodyRecorder(self, "s2c", head.headers, last_event_id=last_event_id, status=head.status)
        if self._response_body.is_stream:
            self._record_stage("response")
            self._response_body.record_begin()
        else:
            self._is_response_recorded = False

    def _kept_reason(self, head: response.ResponseHead) -> str:
        """Returns the reason phrase if it is the usual one or, where messages are expected, without credentials."""
        reason = escaped_text(head.reason)
        if reason.lower() in _USUAL_REASONS or self.recorder.secret_hash is None:
            return reason
        request = self._request_head
        cleaner = self._cleaner(request, head) if request is not None and self.authorization is None else None
        return cleaner.cleaned_texts({"reason": reason}).get("reason", "") if cleaner is not None else ""

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

    def count_tunnelled(self, direction: Direction, size: int) -> None:
        """Count bytes that were forwarded on the upgraded connection."""
        if self._tunnelled_bytes is not None:
            self._tunnelled_bytes[direction] += size
            self.recorder.byte_counts[direction] += size

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
            "" if request is None else escaped_text(request.method),
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
        return self.recorder.is_endpoint(self._target)

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
            return challenge_member(head, self._cleaner(request, head), recorder.secret_hash, recorder.clean_address)
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
        content_type = b",".join(head.headers.values_of(b"content-type")[:1])
        if cleaner := self._cleaner(request, head):
            self._response_text = cleaner.cleaned_body(body, content_type, is_cut=is_cut)

    def _cleaner(self, request: http1.RequestHead, head: response.ResponseHead) -> TextCleaner | None:
        """Returns a cleaner for texts where messages are expected; None if it is not known what they may repeat."""
        body = self._request_body
        secrets = secrets_of_form(body.form) if body is not None and body.form else []
        if secrets is None or self._has_extras or (body is not None and body.form is None):
            return None
        target = with_secrets(request.target, secrets)
        recorder = self.recorder
        return TextCleaner(target, request.headers, head.headers, recorder.secret_hash, recorder.clean_address)

    def is_metadata(self) -> bool:
        """Returns whether the request is for a document that describes the server (RFC 8615)."""
        request, body = self._request_head, self._request_body
        if request is None or request.method != b"GET" or (body is not None and body.size):
            return False
        is_for_metadata = self.authorization is not None and self.authorization.is_for_metadata
        return is_for_metadata or self._target.startswith(WELL_KNOWN)

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
        self._check_address("bypass/endpoint", text)
        return True

    def _is_own_address(self, address: str) -> bool:
        """Returns whether an address belongs to the server, or to the host that the client connected to."""
        try:
            host = urlsplit(address).netloc.lower()
        except ValueError:
            return False
        return host == self._host or self.recorder.is_own(address)

    def _check_address(self, flag: str, address: str) -> None:
        """Flag an address in the response if it leads the client around the recorder."""
        detector = self.recorder.bypass_detector
        if detector is not None and (bypass := detector.in_address(flag, address, self._host)):
            self._flag(detector, bypass)

    def _check_response_head(self, head: response.ResponseHead) -> None:
        """Flag what in the head of the response leads the client around the recorder."""
        detector = self.recorder.bypass_detector
        if detector is None:
            return
        authorization = self.authorization
        # A login may end at the client. In front of a public server, it also begins where the server wants it to.
        is_login = authorization is not None and (
            authorization.is_sent_back or (self.recorder.is_public and authorization.is_of_browser)
        )
        for bypass in detector.in_head(head, self._host, self._forwarded_addresses, is_login=is_login):
            self._flag(detector, bypass)

    def _flag(self, detector: BypassDetector, bypass: Bypass) -> None:
        if bypass.flag not in self._flags:
            self._flags.append(bypass.flag)
        detector.report(bypass)

    def keep_metadata(self, body: bytes) -> bool:
        """Keep a `.well-known` document, and flag it if it names another host than the client's URL.

        Returns:
            Whether the document is kept whole.
        """
        from orjson import JSONDecodeError, loads

        try:
            document = loads(body)
        except JSONDecodeError:  # not JSON, regardless of its media type, so only its size and hash are stored
            return False
        if not isinstance(document, dict):
            return False
        mcp_places = self.recorder.mcp_places
        for path, leg in announced_paths(document, self._is_own_address):
            if mcp_places.isdisjoint((path, path + b"/")):  # a path at which messages have passed is not a leg
                self.recorder.oauth_legs.add(path, leg)
        secret_hash = self.recorder.secret_hash
        kept_document = document if secret_hash is None else without_secret_members(document, secret_hash)
        self._metadata = self.recorder.clean_document(kept_document)[:MAX_METADATA_BYTES].decode("utf-8", "replace")
        resource = document.get("resource")
        if isinstance(resource, str):
            self._check_address("bypass/resource", resource)
        if self.recorder.is_public:
            for issuer in issuers(document):
                self._check_address("bypass/issuer", issuer)
        return len(body) <= MAX_METADATA_BYTES

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
            flags=self._flags or None,
            rewritten=self._rewritten_addresses or None,
            uri_key=self.uri_key,
            endpoints=self._endpoints or None,
            body_hash=self._unstored_bodies() if ended_by else None,
            missing=self.missing or None,
            tunnelled=self._tunnelled_bytes if ended_by else None,
            metadata=self._metadata,
            response_text=self._response_text,
            oauth=self._oauth_members,
        )
        position = b',"conn":%d,"exchange":%d,"stage":"%b"' % (self.connection.number, self.number, stage.encode())
        self.connection.entries.append(PendingRecord("exchange", position + head + stage_members))

    def _unstored_bodies(self) -> dict[str, object] | None:
        bodies = {"request": self._request_body, "response": self._response_body}
        hashes: dict[str, object] = {}
        for name, body in bodies.items():
            if body is not None and (size_and_hash := body.unstored_members()):
                hashes[name] = size_and_hash
                if name == "response" and self._request_head and self._request_head.headers.media_type in FORMS:
                    size_and_hash.pop("sha256", None)  # a password that the response repeats could be guessed from it
        return hashes or None


def _last_event_id(head: http1.RequestHead) -> str | None:
    ids = head.headers.values_of(b"last-event-id")
    return escaped_text(ids[0]) if ids else None
