"""Responses of Streamable HTTP: status, content type and kind of body."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.failure import failed_party
from analysis.conversation.http_exchange import BODILESS_STATUSES, EVENT_STREAM, MAX_BODY_MESSAGES, HttpExchange
from analysis.conversation.message import InvalidMessage, Notification, Request, Response
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.rules.base import Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.echoes import echoed_message
from analysis.rules.support.eras import shortened
from analysis.rules.support.exchanges import (
    JSON,
    SESSION_REVISIONS,
    SUCCESS_STATUSES,
    ExchangeEndRule,
    HttpRule,
    ResponseStartRule,
    is_cancelled,
    lacks_session,
    messages_of,
    requests_of,
)
from analysis.rules.support.message_text import is_not_json

_TRANSPORTS: Final = "2025-03-26 basic/transports"
_STREAMABLE_REVISIONS: Final = features.STREAMABLE_HTTP
_ACCEPTED_STATUS: Final = 202
_USUAL_REFUSAL_STATUSES: Final = frozenset({401, 403, 405, 429})
"""Statuses with which a server may refuse any request, or should refuse a GET (405)."""


class NotificationStatus(ExchangeEndRule):
    """A POST with only notifications or responses succeeds with a status other than 202.

    **Why it matters.** Any other success status means that the body contains a response, so clients look for one that
    is not there.

    **On the wire.** `> {"method":"notifications/initialized"}`, answered with `200 OK`

    **Instead.** Send `202 Accepted` without a body. 204 is not allowed, although it has no body either.
    """

    id = "http/notification-status"
    who = "server"
    versions = _STREAMABLE_REVISIONS
    statuses = frozenset({*SUCCESS_STATUSES} - {_ACCEPTED_STATUS})
    exchanges = ExchangeOddity.SENT
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if (
            not http.client_messages
            or isinstance(http.client_messages[0].message, Request)
            or len(http.client_messages) >= MAX_BODY_MESSAGES
        ):
            return ()
        if not all(isinstance(context.message, (Notification, Response)) for context in http.client_messages):
            return ()
        if any(isinstance(context.message, Response) for context in http.server_messages):
            return ()  # `jsonrpc/notification-answered` reports the response
        if any(echoed_message(context) is not None for context in http.server_messages):
            return ()  # `id/echoed-frame` reports this
        first = http.client_messages[0]
        if first.message.index is not None and features.BATCHES.includes(first.rank):
            return ()  # `batch/empty-response` reports this
        kind = "a response" if isinstance(first.message, Response) else "a notification"
        return self.findings_in_response(http, session, f"{kind} is accepted with status {http.status} instead of 202")


class AcceptedWithBody(ExchangeEndRule):
    """A response with the status 202 has a body.

    **Why it matters.** Status 202 promises no response, so clients do not read the body.

    **On the wire.** `202 Accepted` … `ok`

    **Instead.** Send no body. An empty chunked body is not reported.
    """

    id = "http/accepted-with-body"
    who = "server"
    impact = Impact.HINT
    versions = _STREAMABLE_REVISIONS
    statuses = frozenset({_ACCEPTED_STATUS})
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if not http.response_size or not messages_of(http):
            return ()
        return self.findings_in_response(http, session, f"status 202 has a body of {http.response_size:,} bytes")


class RequestNotAnswered(ExchangeEndRule):
    """A POST with a request succeeds without returning a response.

    **Why it matters.** The HTTP exchange has ended, so the response can no longer arrive, and the caller waits until it
    gives up.

    **On the wire.** `> {"id":4,"method":"tools/call",…}`, answered with `202 Accepted` and nothing else

    **Instead.** Send 200 with the response as JSON, or with a stream of events that contains it.
    """

    id = "http/request-not-answered"
    needs_body = True
    who = "server"
    versions = _STREAMABLE_REVISIONS
    statuses = SUCCESS_STATUSES
    exchanges = ExchangeOddity.RECEIVED
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.ended_by != "complete" or http.media_type == EVENT_STREAM or http.server_messages:
            return ()
        if http.response_size and (http.status not in BODILESS_STATUSES or http.media_type == JSON):
            return ()
        # If records were lost after a request was sent, its cancellation may be among them.
        requests = [context for context in requests_of(http) if context.message.seq > context.session.lost_seq]
        cancelled_seqs = {call.request.seq for call in http.ended_calls if call.outcome is Outcome.CANCELLED}
        unanswered_requests = [
            context
            for context in requests
            if not is_cancelled(context, self.fold) and context.message.seq not in cancelled_seqs
        ]
        if not unanswered_requests:
            return ()
        text = f"{shortened(unanswered_requests[0].method)} is answered with status {http.status} and nothing else"
        return self.findings_in_response(http, session, text)


class ResponseContentType(ExchangeEndRule):
    """A request is answered with something that is neither JSON nor a stream of events.

    **Why it matters.** Clients choose a parser by the content type, and do not read any other type.

    **On the wire.** `> {"id":4,"method":"tools/list"}`, answered with `200 OK` and `Content-Type: text/html`

    **Instead.** Send `application/json` or `text/event-stream`.
    """

    id = "http/response-content-type"
    needs_body = True
    who = "server"
    versions = _STREAMABLE_REVISIONS
    statuses = frozenset({*SUCCESS_STATUSES} - BODILESS_STATUSES)
    source = _TRANSPORTS

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        return like.media_type not in (JSON, EVENT_STREAM) and super().concerns_exchange(hook, like)

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if not http.response_size or not requests_of(http):
            return ()
        media, gist_text = shortened(http.media_type), f": {http.response_gist}" if http.response_gist else ""
        text = (
            f"a request is answered with {media}{gist_text}" if media else f"a response has no content type{gist_text}"
        )
        return self.findings_in_response(http, session, text)


class BodyNotJson(HttpRule):
    """A body that should be a message is not JSON.

    **Why it matters.** The receiver cannot parse it. A server correctly refuses such a request with 400 and a parse
    error; to a client, such a response means that the call has failed.

    **On the wire.** `POST /mcp`, `Content-Type: application/json`, and a body that breaks off after
    `{"jsonrpc":"2.0","id":3,`

    **Instead.** Send one JSON value, in UTF-8, and a `Content-Length` that counts its bytes. Text that is meant for
    people belongs in a response with another content type and a status of 400 or higher.
    """

    id = "http/body-not-json"
    exchanges = ExchangeOddity.SENT | ExchangeOddity.RECEIVED
    source = _TRANSPORTS

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.is_from_recorder:
            return ()
        if len(http.client_messages) == 1 and is_not_json(http.client_messages[0]):
            return [
                self.finding(
                    http.client_messages[0],
                    "the body of the POST is not JSON, so it cannot be read as a message",
                    session=session,
                )
            ]
        first_received = http.server_messages[0] if http.server_messages else None
        if first_received is None or not is_not_json(first_received) or http.is_for_stream or not requests_of(http):
            return ()
        if http.status is None or http.status not in SUCCESS_STATUSES or http.status in BODILESS_STATUSES:
            return ()
        return [
            self.finding(
                first_received,
                f"the response to {shortened(requests_of(http)[0].method)} has status {http.status}, but is not JSON",
                session=session,
            )
        ]


class JsonNotSingle(ExchangeEndRule):
    """The JSON that answers a request is not a single response.

    **Why it matters.** Clients treat the body as the response that they are waiting for. A server that also sends other
    messages has to use a stream of events.

    **On the wire.** `< {"method":"notifications/message",…}` as the whole body, of type `application/json`

    **Instead.** Send one response object; in 2025-03-26, if the requests were sent in a batch, a batch of responses.
    """

    id = "http/json-not-single"
    who = "server"
    versions = _STREAMABLE_REVISIONS
    statuses = SUCCESS_STATUSES
    media = JSON
    exchanges = ExchangeOddity.RECEIVED
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        received = http.server_messages
        if len(received) == 1 and isinstance(received[0].message, Response) and received[0].message.index is None:
            return ()
        if not requests_of(http):
            return ()
        bodies = [context for context in http.server_messages if context.message.frames[0].unit == "http_body"]
        for context in bodies:
            message = context.message
            if isinstance(message, (Request, Notification)):
                if echoed_message(context) is not None:
                    # `id/echoed-frame` reports all other echoes.
                    text = "the JSON response is the request itself"
                    return [self.finding(context, text, session=session)] if context.method == "ping" else []
                kind = "a request" if isinstance(message, Request) else "a notification"
                return [self.finding(context, f"the JSON response is {kind}", session=session)]
        # In other revisions `batch/not-supported-version` reports the batch.
        is_batch = bool(bodies) and bodies[0].message.index is not None
        if (
            not is_batch
            or not features.BATCHES.includes(bodies[0].rank)
            or http.client_messages[0].message.index is not None
        ):
            return ()
        return [self.finding(bodies[0], "one request is answered with an array", session=session)]


class ResponseIdMismatch(Rule):
    """The JSON that answers a POST has an id that none of its requests has.

    **Why it matters.** The client drops the response, or assigns it to another call that happens to have that id. Other
    responses with an id that no request used, on a stream or after a POST without a request, are reported as
    `id/unknown-response`.

    **On the wire.** `> {"id":4,"method":"tools/list"}`, answered with `< {"id":5,"result":{…}}`

    **Instead.** Send the id of the request, with the same type and value.
    """

    id = "http/response-id-mismatch"
    who = "server"
    versions = _STREAMABLE_REVISIONS
    needs_http = True
    sender = "server"
    replaces = ("id/unknown-response",)
    source = _TRANSPORTS

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        http, message = context.http, context.message
        if http is None or message.frames[0].unit != "http_body" or not isinstance(message, Response):
            return ()
        id_ = message.id
        for sent_context in http.client_messages:
            if isinstance(sent_context.message, InvalidMessage) or (
                isinstance(sent_context.message, Request) and sent_context.message.id == id_
            ):
                return ()
        if id_ is None or id_.type == "null" or context.is_converted:
            return ()
        if not 0 < len(requests_of(http)) < MAX_BODY_MESSAGES or not http.is_streamable:
            return ()
        return [self.finding(context, "the id of the response matches no request in its POST", pointer="/id")]


class GetAnswer(ResponseStartRule):
    """A GET is answered with something other than a stream of events or 405.

    **Why it matters.** With a GET a client opens a stream for messages that the server sends on its own initiative.
    Official clients read 405 as "no such stream", and any other refusal as a failed connection.

    **On the wire.** `GET /mcp`, answered with `200 OK` and `Content-Type: application/json`, or with `404 Not Found`

    **Instead.** Send `text/event-stream`, or 405 if the server offers no stream. Not reported: 401, 403, 429, and
    refusals that may be about the session or come from a gateway.
    """

    id = "http/get-answer"
    needs_body = True
    who = "server"
    versions = SESSION_REVISIONS
    http_methods = frozenset({"GET"})
    statuses = frozenset({*SUCCESS_STATUSES, *range(400, 502)} - _USUAL_REFUSAL_STATUSES)
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.media_type == EVENT_STREAM and http.status in SUCCESS_STATUSES:
            return ()
        if http.status not in SUCCESS_STATUSES:
            if not http.accepts_stream or lacks_session(http) or failed_party(http) != "server":
                return ()  # the refusal may be right, or may not come from the server
            session_id = http.session_ids.get(http.session_id or "")
            if any("error" in context.body for context in http.server_messages) or (
                session_id is not None and session_id.had_stream
            ):
                return ()  # the server may have forgotten the session
            return self.findings_in_response(
                http,
                session,
                f"a GET for a stream is refused with status {http.status}; a server without one should send 405",
            )
        media = shortened(http.media_type) or "no content type"
        return self.findings_in_response(http, session, f"a GET is answered with status {http.status} and {media}")
