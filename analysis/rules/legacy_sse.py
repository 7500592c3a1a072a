"""The group `legacy-sse`: HTTP+SSE of 2024-11-05, with one stream for all messages of a server and a URI for POSTs.

The records of an exchange contain the address that its stream announces, which shows that it uses this transport.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import ClassVar, Final
from urllib.parse import urlsplit

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import EVENT_STREAM, VERSION_FIELD, HttpExchange
from analysis.conversation.message import InvalidMessage
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.rules.base import NOTE, RACE_NS, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.sse.delivery import NOT_JSON, is_older_transport
from analysis.rules.support.exchanges import POST_ONLY, SUCCESS_STATUSES, HttpRule
from analysis.rules.support.message_text import reason
from analysis.rules.support.origins import is_own

MAX_UNANNOUNCED_POSTS: Final = 1_000
"""The most POSTs to unannounced addresses that are remembered."""

_GET: Final = frozenset({"GET"})
_PAGE: Final = "2024-11-05 basic/transports"
_FORBIDDEN_CHARS: Final = frozenset(map(chr, (*range(0x21), *b'"<>\\^`{|}', 0x7F)))
"""ASCII characters that URI references may not contain."""


class _StreamRule(HttpRule):
    """A rule that checks streams when they end."""

    who = "server"
    http_methods: ClassVar[frozenset[str]] = _GET
    media = EVENT_STREAM
    source = _PAGE

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return () if http.is_from_recorder else self.check_exchange(http, session)


class _PostRule(HttpRule):
    """A rule that checks POSTs when they are answered."""

    who = "client"
    http_methods: ClassVar[frozenset[str]] = POST_ONLY
    source = _PAGE

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return () if http.is_from_recorder or not http.client_messages else self.check_exchange(http, session)


class NoEndpointFirst(_StreamRule):
    """A stream sends another event before the address for POSTs.

    **Why it matters.** The client waits for the address and ignores everything else; some clients give up.

    **On the wire.** `> GET /sse`, answered with a stream whose first event is a message

    **Instead.** Send `< event: endpoint`, `data: /messages?sessionId=…`, before all other events. Comments may precede
    it.
    """

    id = "legacy-sse/no-endpoint-first"
    impact = Impact.CONNECTION

    def check_exchange(self, http: HttpExchange, _session: Session | None) -> Iterable[Finding]:
        if not http.server_messages or http.session_id is not None or http.started_ref is None:
            return ()
        first_message = http.server_messages[0]
        if http.announced_ref is not None:
            is_late = http.uri_key is not None and first_message.message.seq < http.announced_ref.seq
        else:
            is_late = _has_legacy_stream(http)
        if not is_late or not http.is_unbroken:
            return ()
        return [self.finding(first_message, "an HTTP+SSE stream does not begin with an endpoint event")]


class EndpointInvalid(_StreamRule):
    """The address that a stream announces is not valid for a POST.

    **Why it matters.** The client cannot send any message. Clients refuse an address of another origin, because
    otherwise a server could make them send their messages elsewhere.

    **On the wire.** `< event: endpoint` with an empty `data:`

    **Instead.** Send a path with a query, such as `/messages?sessionId=…`.
    """

    id = "legacy-sse/endpoint-invalid"
    impact = Impact.CONNECTION

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.announced_ref is None or not http.endpoints:
            return ()
        address = http.endpoints[0]
        if not address:
            return [self._finding(http, session, "the endpoint event has no address")]
        try:
            parts = urlsplit(address)
            is_valid = _FORBIDDEN_CHARS.isdisjoint(address) and address.isascii()
        except ValueError:
            is_valid = False
        if not is_valid:
            return [self._finding(http, session, "the address in the endpoint event is not a valid URI")]
        if not parts.netloc or is_own(address, http):
            return ()
        finding = self._finding(http, session, "the address in the endpoint event has another origin")
        return [finding._replace(level=WARNING)]

    def _finding(self, http: HttpExchange, session: Session | None, text: str) -> Finding:
        announcement = http.announced_ref or RecordRef(0, 0)
        return self.finding(announcement, text, session=session)


class EndpointAgain(_StreamRule):
    """A stream announces an address a second time.

    **Why it matters.** Some clients use the first address and some the last, so messages may go to an address that no
    longer accepts them.

    **On the wire.** `< event: endpoint` twice on one stream

    **Instead.** Announce it once, as the first event.
    """

    id = "legacy-sse/endpoint-again"
    level = WARNING

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.second_announced_ref is None:
            return ()
        return [self.finding(http.second_announced_ref, "a stream has a second endpoint event", session=session)]


class WrongPostUri(_PostRule):
    """A message is POSTed to an address other than the announced one, or before an address was announced.

    **Why it matters.** The server identifies the session by the address, including its query.

    **On the wire.** `< event: endpoint`, `data: /messages?sessionId=1`, and `> POST /messages`

    **Instead.** POST to the announced address, resolved against the URL of the stream.
    """

    id = "legacy-sse/wrong-post-uri"
    exchanges = ExchangeOddity.HEADERS | ExchangeOddity.OLDER | ExchangeOddity.SENT
    media = None

    def __init__(self) -> None:
        super().__init__()
        self._early_posts: OrderedDict[str, tuple[RecordRef, HttpExchange]] = OrderedDict()
        """The last POST to each address that had not been announced yet."""

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        return (
            like.method == "POST"
            if hook == "response_start"
            else like.method == "GET" and like.media_type == EVENT_STREAM
        )

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        key = http.uri_key
        if key is None or http.started_ref is None or http.announced_by is not None or not http.is_whole:
            return ()
        if http.is_redirect or _uses_streamable_http(http):
            return ()
        if not any(
            stream.client_fingerprint == http.client_fingerprint and stream.end_ref is None
            for stream in http.legacy_streams
        ):
            self._early_posts[key] = http.started_ref, http
            if len(self._early_posts) > MAX_UNANNOUNCED_POSTS:
                self._early_posts.popitem(last=False)
            return ()
        is_probe = http.status is not None and 400 <= http.status < 500 and _has_legacy_stream(http)
        return (
            () if is_probe else self.findings_in_request(http, session, "a POST does not go to the announced address")
        )

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        early_post = (
            self._early_posts.pop(http.uri_key, None) if http.uri_key is not None and self._early_posts else None
        )
        if early_post is None or http.announced_ref is None or http.started_ref is None or not http.is_whole:
            return ()
        start, post = early_post
        # The POST was sent after the stream had opened, but before it announced its address.
        if (
            not http.started_ref.seq < start.seq < http.announced_ref.seq
            or post.client_fingerprint != http.client_fingerprint
        ):
            return ()
        return self.findings_in_request(post, session, "a POST is sent before its address was announced")


class EventType(Rule):
    """A server sends a message in an event of a type other than `message`, or a `message` event without a message.

    **Why it matters.** Clients handle only `message` and `endpoint` events, and expect JSON in `message`.

    **On the wire.** `< event: response`, `data: {"jsonrpc":"2.0",…}`

    **Instead.** Send `< event: message`, with one message in each event.
    """

    id = "legacy-sse/event-type"
    who = "server"
    level = WARNING
    needs_http = True
    sender = "server"
    source = _PAGE

    def on_invalid(self, context: MessageContext) -> Iterable[Finding]:
        frame = context.message.frames[0]
        if frame.unit != "sse_event" or not is_older_transport(context.http):
            return ()
        if frame.event is not None:
            text = "a message from the server is sent in an event whose type is not message"
            return [self.finding(context, text)] if b'"jsonrpc"' in frame.raw else ()
        return (
            [self.finding(context, "the data of an event is not JSON")] if reason(context.message) == NOT_JSON else ()
        )


class AnswerInPost(HttpRule):
    """A server sends a message in the response to a POST.

    **Why it matters.** On this transport the server sends messages only on the stream. Clients do not read the body of
    a response to a POST.

    **On the wire.** `> POST /messages?sessionId=1`, `< HTTP/1.1 200 OK`, `{"jsonrpc":"2.0","id":1,"result":…}`

    **Instead.** Answer the POST with 202, and send the response on the stream.
    """

    id = "legacy-sse/answer-in-post"
    who = "server"
    level = WARNING
    http_methods: ClassVar[frozenset[str]] = POST_ONLY
    statuses = SUCCESS_STATUSES
    exchanges = ExchangeOddity.OLDER
    source = _PAGE

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if (
            not http.server_messages
            or not http.is_for_stream
            or isinstance(http.server_messages[0].message, InvalidMessage)
        ):
            return ()
        text = "a message is sent in the response to a POST instead of on the stream"
        return self.findings_in_response(http, session, text, self.level)


class PostAfterClose(_PostRule):
    """A message is POSTed after its stream has ended.

    **Why it matters.** The server cannot deliver the response.

    **On the wire.** The stream ends, and seconds later `> POST /messages?sessionId=1`

    **Instead.** Open a new stream, and begin with `initialize`.
    """

    id = "legacy-sse/post-after-close"
    level = WARNING
    exchanges = ExchangeOddity.OLDER
    source = "2024-11-05 basic/transports"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        stream = http.announced_by
        if stream is None or stream.end_ref is None or http.started_ref is None or not http.is_for_stream:
            return ()
        if http.started_ref.t_ns - stream.end_ref.t_ns <= RACE_NS or not stream.is_unbroken:
            return ()
        return self.findings_in_request(http, session, "a POST is sent after its stream has ended", self.level)


class NoVersionHeader(_PostRule):
    """A client does not name the revision in a header over HTTP+SSE.

    **Why it matters.** It hardly matters. The specification's lifecycle page requires the header over any HTTP
    transport, but the page about this transport does not mention it, and official clients do not send it.

    **On the wire.** `> POST /messages?sessionId=1` without `MCP-Protocol-Version` after a handshake for 2025-06-18

    **Instead.** Send `MCP-Protocol-Version: 2025-06-18` with each request after the handshake.
    """

    id = "legacy-sse/no-version-header"
    versions = features.VERSION_HEADER
    level = NOTE
    once = True
    exchanges = ExchangeOddity.OLDER
    source = "2025-06-18 basic/lifecycle"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if VERSION_FIELD in http.fields or not http.is_for_stream or http.is_initializing:
            return ()
        if session is None or session.state not in ("init-answered", "ready"):
            return ()
        return self.findings_in_request(http, session, "the request does not name the revision")


# ---- shared by the rules


def _uses_streamable_http(http: HttpExchange) -> bool:
    """Whether a POST shows that its client uses Streamable HTTP."""
    return http.session_id is not None or http.is_modern or http.media_type == EVENT_STREAM or http.accepts_stream


def _has_legacy_stream(http: HttpExchange) -> bool:
    """Whether the older transport was used at the path of an exchange."""
    return any(stream.path == http.path for stream in http.legacy_streams)
