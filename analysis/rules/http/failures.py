"""HTTP failures: messages that are refused or never reach the server, and responses that break off.

For the user, the call has failed, whether or not a revision of MCP forbids what happened. So each finding says who
failed, if that is known, and what the response says. Equal findings are reported once per session and then only
counted.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.failure import GATEWAY_STATUSES, failed_party
from analysis.conversation.http_exchange import EVENT_STREAM, HttpExchange
from analysis.conversation.message import Response
from analysis.conversation.response_text import MAX_GIST_CHARS
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.rules.base import WARNING, Rule
from analysis.rules.finding import Blames, Finding, Impact
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.eras import shortened
from analysis.rules.support.exchanges import POST_ONLY, ExchangeEndRule, HttpRule, is_open, messages_of, requests_of

_PROBE_METHODS: Final = frozenset({"initialize", "server/discover"})
"""Requests with which clients find out what a server supports; a 4xx status is a valid answer to them."""
_LOGIN_STATUSES: Final = frozenset({401, 403})
"""Statuses that ask for credentials; the group `auth` checks what follows."""
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_OVERLOAD_STATUSES: Final = frozenset({429, 503})
_STATUS_PHRASES: Final = {
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    402: "Payment Required",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
"""What statuses mean (RFC 9110 §15). Servers may send any phrase, and Python's own phrases differ between its
versions."""
_SESSION_REFUSAL_STATUSES: Final = frozenset({400, 404, 503})
"""Statuses of servers that do not know, or cannot find, a session."""
_MIN_REFUSALS_IN_A_ROW: Final = 3
"""After this many refusals in a row, the client evidently will not begin a new session."""


_MIN_CLIENT_WAIT_NS: Final = 3_000_000_000
"""A missing HTTP response is reported if the client gave up after waiting at least this long."""
_MAX_WAIT_NS: Final = 10_000_000_000
"""A missing HTTP response is reported after this long even if the client is still waiting: it may never arrive."""


class Culprit(NamedTuple):
    """The server or gateway at fault."""

    name: str
    """What findings call it, such as `a gateway (nginx)`."""
    blames: Blames


def culprit_of(http: HttpExchange) -> Culprit:
    """Returns the sender of a response that refuses a request, as far as it is known."""
    via, product = http.answer_fields.get("via"), http.answer_fields.get("server", "").partition(" ")[0]
    maker = product.partition("/")[0]
    if failed_party(http) == "gateway":
        name = shortened(maker or via or "")
        return Culprit(f"a gateway ({name})" if name else "a gateway", "transport")
    if http.is_behind_gateway:
        return Culprit("the server or a gateway", "unknown")
    return Culprit("the server", "server")


def status_text(http: HttpExchange) -> str:
    """Returns the status of a response with its meaning."""
    phrase = _STATUS_PHRASES.get(http.status or 0)
    return f"{http.status} {phrase}" if phrase else str(http.status)


def gist_suffix(http: HttpExchange) -> str:
    """Returns the gist of a response as the end of a sentence, or an empty string if it only repeats the status."""
    gist = http.response_gist
    return f": {gist}" if gist and gist.lower() not in status_text(http).lower() else ""


def _has_mcp_response(http: HttpExchange) -> bool:
    return any(isinstance(context.message, Response) for context in http.server_messages)


def _is_about_request(http: HttpExchange) -> bool:
    """Whether a refusal has the id of the request; official servers refuse sessions with errors that have no id."""
    answers = [context.message for context in http.server_messages if isinstance(context.message, Response)]
    return any(answer.id is not None and answer.id.type != "null" for answer in answers)


def _message_name(context: MessageContext) -> str:
    """Returns what findings call a message."""
    return "the client's response" if isinstance(context.message, Response) else shortened(context.method)


def _blame_for_break(http: HttpExchange) -> Blames:
    """Returns the side at fault for a response that breaks off, which is unknown behind a gateway."""
    return "unknown" if http.is_behind_gateway else "server"


class _RefusalRule(HttpRule):
    """A rule about POSTs that are refused without an MCP response."""

    statuses = frozenset(range(400, 600))
    once = True
    once_each = True
    source = "RFC 9110 §15"

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        stream = http.announced_by
        is_of_older_transport = http.is_for_stream and stream is not None and stream.end_ref is None
        if http.is_from_recorder or (self.needs_body and "server" in http.unrecorded_sides):
            return ()
        return self.check_exchange(http, session) if is_of_older_transport or http.is_streamable else ()

    def refusal_findings(self, http: HttpExchange, session: Session | None, subject: str) -> list[Finding]:
        """Returns the finding that says what was refused, by which side, and why."""
        wait = http.answer_fields.get("retry-after", "")
        retry_text = (
            f", retry after {shortened(wait)} s" if wait.isdigit() and http.status in _OVERLOAD_STATUSES else ""
        )
        culprit = culprit_of(http)
        text = f"{subject} is refused with {status_text(http)} by {culprit.name}{retry_text}{gist_suffix(http)}"
        related = (http.end_ref.seq,) if http.end_ref is not None else ()
        findings = self.findings_in_request(http, session, text)
        return [finding._replace(blames=culprit.blames, related=related) for finding in findings]


def _has_its_own_finding(http: HttpExchange, first_message: MessageContext) -> bool:
    """Whether a refusal with 4xx is correct, or is reported by another rule."""
    if first_message.method in _PROBE_METHODS:
        return True  # the refusal answers the probe
    if http.status == _NOT_FOUND and (http.session_id or http.is_modern):
        return True  # the client learns that its session has ended, or another rule reports that the error is missing
    if first_message.message.index is not None and http.status == _BAD_REQUEST:
        return True  # the revision does not have batches
    return FIELD not in http.fields and bool(http.session_ids.issued_to(http.client_fingerprint))


class CallRefused(_RefusalRule):
    """A request is refused with an HTTP status instead of a response.

    **Why it matters.** The call has failed, and the caller often learns only the status: many clients do not read the
    rest of such a response.

    **On the wire.** `> {"id":4,"method":"tools/call",…}`, answered with `502 Bad Gateway` and an nginx page

    **Instead.** As a server, answer with a JSON-RPC error. If a gateway refuses the request, check the server behind
    it. With 429 or 503, send `Retry-After`; clients should wait that long.
    """

    id = "http/call-refused"
    needs_body = True
    who = "server"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        requests = requests_of(http)
        status = http.status or 0
        if not requests or _has_mcp_response(http) or status in _LOGIN_STATUSES:
            return ()
        if status < 500 and status not in _OVERLOAD_STATUSES and _has_its_own_finding(http, requests[0]):
            return ()
        return self.refusal_findings(http, session, shortened(requests[0].method))


class MessageRefused(_RefusalRule):
    """A notification or a client's response is refused.

    **Why it matters.** The message is lost, and most clients do not notice. A server that never receives
    `notifications/initialized` may refuse all further requests.

    **On the wire.** `> {"method":"notifications/initialized"}`, answered with `500 Internal Server Error`

    **Instead.** Send 202, even if the server ignores the message.
    """

    id = "http/message-refused"
    needs_body = True
    who = "server"
    level = WARNING

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        messages = messages_of(http)
        status = http.status or 0
        if not messages or requests_of(http) or _has_mcp_response(http) or status in _LOGIN_STATUSES:
            return ()
        if status < 500 and _has_its_own_finding(http, messages[0]):
            return ()
        return self.refusal_findings(http, session, _message_name(messages[0]))


class MessageNotAnswered(ExchangeEndRule):
    """A POST of a notification or a client's response gets no HTTP response.

    **Why it matters.** Clients wait for 202 before they continue. If there is none for `notifications/initialized`, the
    user never gets a session, although the handshake has succeeded.

    **On the wire.** `> POST {"method":"notifications/initialized"}`, then nothing for ten seconds, or for three seconds
    until the client gives up

    **Instead.** Send 202 as soon as the message has been read, before it is processed.
    """

    id = "http/message-not-answered"
    who = "server"
    impact = Impact.CONNECTION
    needs_time = True
    once = True
    source = "2025-03-26 basic/transports"

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        return like.status is None and super().concerns_exchange(hook, like)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._wait_for_answer(context)

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        return self._wait_for_answer(context)

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        messages = messages_of(http)
        if http.status is not None or http.ended_by != "client" or not messages or requests_of(http):
            return ()
        waited_ns = http.end_ref.t_ns - messages[0].message.t_ns if http.end_ref is not None else 0
        if waited_ns < _MIN_CLIENT_WAIT_NS or self.id in http.memory:
            return ()
        text = f"{_message_name(messages[0])} got no HTTP response for {waited_ns / 1e9:.0f} s; then the client gave up"
        return self.findings_in_request(http, session, text)

    def _wait_for_answer(self, context: MessageContext) -> Iterable[Finding]:
        http, at_ns = context.http, context.message.t_ns
        if (
            http is not None
            and http.method == "POST"
            and context.message.sender == "client"
            and len(http.client_messages) < 2
        ):
            self.check_later(at_ns + _MAX_WAIT_NS, lambda: self._check_still_waiting(context, http))
        return ()

    def _check_still_waiting(self, context: MessageContext, http: HttpExchange) -> Iterable[Finding]:
        if http.answered_ref is not None or not http.is_streamable or http.session is None or requests_of(http):
            return []
        http.memory[self.id] = True
        return [self.finding(context, f"{_message_name(context)} got no HTTP response for {_MAX_WAIT_NS / 1e9:.0f} s")]


class BodyCut(ExchangeEndRule):
    """The connection ends within a response that is not a stream.

    **Why it matters.** The part that has arrived cannot be parsed, so the call has failed, although its status reported
    success.

    **On the wire.** `200 OK`, `Content-Length: 500`, then 22 bytes and the end of the connection

    **Instead.** Find out why the server, or a gateway in front of it, drops the connection: there may be a
    crash, or a limit on time or size.
    """

    id = "http/body-cut"
    needs_body = True
    who = "server"
    statuses = range(200, 300)
    exchanges = ExchangeOddity.END
    source = "RFC 9112 §8"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        failed_requests = [call.request for call in http.ended_calls if call.outcome is Outcome.FAILED]
        if http.media_type == EVENT_STREAM or http.ended_by not in ("server", "error") or not failed_requests:
            return ()
        content_length = http.answer_fields.get("content-length", "")
        size_text = f"{http.response_size:,}" + (f" of {int(content_length):,}" if content_length.isdigit() else "")
        text = f"the response to {shortened(failed_requests[0].method)} ends after {size_text} bytes"
        return [
            finding._replace(blames=_blame_for_break(http))
            for finding in self.findings_in_response(http, session, text)
        ]


class NoResponse(ExchangeEndRule):
    """The connection ends before the response to a message.

    **Why it matters.** The call has failed, or the notification may be lost, and nothing says why: the server may have
    crashed, or a gateway may have dropped the connection.

    **On the wire.** `> {"id":4,"method":"tools/call",…}`, then the end of the connection

    **Instead.** Check whether the server process has ended, and whether a gateway imposes a limit. As a server, answer
    with an error instead of dropping the connection.
    """

    id = "http/no-response"
    who = "server"
    exchanges = ExchangeOddity.END
    source = "RFC 9112 §9"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        messages = requests_of(http) or messages_of(http)
        if http.status is not None or http.ended_by not in ("server", "error") or not messages:
            return ()
        text = f"the connection ends before the HTTP response to {_message_name(messages[0])}"
        findings = self.findings_in_request(http, session, f"{text}: {http.error}" if http.error else text)
        return [finding._replace(blames=_blame_for_break(http)) for finding in findings]


class StreamBroken(ExchangeEndRule):
    """The connection ends within the stream that should carry a response.

    **Why it matters.** The call has failed unless the client resumes the stream, which it can do only if the events
    have ids.

    **On the wire.** `200 OK`, `Content-Type: text/event-stream`, some progress, then the end of the connection

    **Instead.** Find out what drops the connection: the server may have crashed, or a gateway may limit how long a
    response may take or pause. Send events with ids, so that clients can resume the stream.
    """

    id = "http/stream-broken"
    needs_body = True
    who = "server"
    statuses = range(200, 300)
    media = EVENT_STREAM
    source = "RFC 9112 §8"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        requests = [context for context in requests_of(http) if is_open(context, self.fold)]
        if http.ended_by not in ("server", "error") or not requests or http.event_id is not None:
            return ()
        first_request = requests[0]
        # The time is measured from the request because a gateway may hold back the response's head until it gives up.
        lasted_ns = http.end_ref.t_ns - first_request.message.t_ns if http.end_ref is not None else 0
        text = f"the stream breaks off {lasted_ns / 1e9:.1f} s after the request, without the response to "
        findings = self.findings_at_end(http, session, text + shortened(first_request.method))
        return [
            finding._replace(related=(first_request.message.seq,), blames=_blame_for_break(http))
            for finding in findings
        ]


class Unreachable(Rule):
    """A request does not reach the server: its name is unknown, it refuses the connection, or TLS fails.

    **Why it matters.** The server, or the network path to it, is down. The client gets a 502 or 504 from the recorder;
    without the recorder, its connection would have failed.

    **On the wire.** Nothing, as the connection failed.

    **Instead.** Start the server, or correct the address that was passed to `mcpproxy serve`.
    """

    id = "http/unreachable"
    who = "server"
    impact = Impact.CONNECTION
    needs_http = True
    once = True
    once_each = True
    source = "RFC 9110 §15.6.3"

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:  # noqa: ARG002 - there is one hook
        return like.status in GATEWAY_STATUSES

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        start = http.started_ref or http.end_ref
        if not http.is_from_recorder or start is None:
            return ()
        evidence = http.client_messages[0] if http.client_messages else start
        related = (http.end_ref.seq,) if http.end_ref is not None else ()
        text = http.reason[:MAX_GIST_CHARS] or "the server cannot be reached"
        return [self.finding(evidence, text, blames="transport", related=related, session=session)]


class SessionRefused(ExchangeEndRule):
    """A session is refused repeatedly.

    **Why it matters.** Nothing works until the client begins a new session, which many clients do only when
    they are restarted.

    **On the wire.** `404 Not Found` to every request with the same `Mcp-Session-Id`

    **Instead.** As a client, send `initialize` without a session id after a 404. As a server, answer 404 (not 400) for
    a session that you do not know, and store sessions where every instance behind a load balancer can find them.
    """

    id = "http/session-refused"
    follows = ("http/session-reused-after-404",)
    who = "server"
    http_methods = POST_ONLY
    impact = Impact.CONNECTION
    source = "2025-03-26 basic/transports"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        session_id = http.fields.get(FIELD)
        if session_id is None or session is None or http.is_redirect:
            return ()
        refusals_by_id: dict[str, list[int]] = self.state_for(session, dict)
        if http.status not in _SESSION_REFUSAL_STATUSES or _is_about_request(http):
            refusals_by_id.pop(session_id, None)
            return ()
        if not messages_of(http):
            return ()
        refusal_seqs = refusals_by_id.setdefault(session_id, [])
        refusal_seqs.append(http.end_ref.seq if http.end_ref is not None else 0)
        if len(refusal_seqs) != _MIN_REFUSALS_IN_A_ROW:
            return ()
        text = f"the session is refused {len(refusal_seqs)} times in a row with {status_text(http)}{gist_suffix(http)}"
        blames: Blames = "client" if http.status == _NOT_FOUND else culprit_of(http).blames
        return [
            finding._replace(blames=blames, related=tuple(refusal_seqs[:-1]))
            for finding in self.findings_in_response(http, session, text)
        ]
