"""Streams that a client opens with GET (2025-03-26 to 2025-11-25), and messages that are sent on several streams."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from analysis.conversation.call import IdState, MessageContext
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Id, Request, Response
from analysis.conversation.session import Session
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.http.streams import PROGRESS, ProgressTokenRule, reported_token
from analysis.rules.support.eras import AllEras, shortened
from analysis.rules.support.exchanges import SESSION_REVISIONS

_TRANSPORTS: Final = "2025-03-26 basic/transports"
_LAST_EVENT_ID: Final = "last-event-id"
_MAX_INTERVAL_NS: Final = 1_000_000_000
"""The most time between two equal notifications that have the same cause."""
_MAX_REMEMBERED_MESSAGES: Final = 256
"""The most messages that are remembered for the streams of a session."""
_MAX_NOTIFICATION_BYTES: Final = 4096
"""The most bytes of a notification that is remembered."""
_PER_REQUEST_NOTIFICATIONS: Final = frozenset({PROGRESS, "notifications/message", "notifications/cancelled"})
"""Notifications that several requests may each cause."""
_WAITING_STATES: Final = (IdState.OPEN, IdState.CANCELLED)


class ResponseOnGetStream(Rule):
    """A response arrives on the stream that a client opened with GET for messages unrelated to a request.

    **Why it matters.** The client waits for the response on the stream of the request.

    **On the wire.** `GET /mcp` without `Last-Event-ID`, and on its stream `< {"id":4,"result":{…}}`

    **Instead.** Send the response on the stream of the POST. On a GET stream, a response is allowed only after
    `Last-Event-ID`, which resumes an earlier stream.
    """

    id = "http/response-on-get-stream"
    who = "server"
    versions = SESSION_REVISIONS
    needs_http = True
    sender = "server"
    source = _TRANSPORTS

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        http = context.http
        if http is None or http.method != "GET" or _LAST_EVENT_ID in http.fields or not http.is_streamable:
            return ()
        id_ = context.message.id if isinstance(context.message, Response) else None
        if context.message.frames[0].unit != "sse_event" or id_ is None or id_.type == "null":
            return ()  # `id/unknown-response` checks which request the response answers
        return [self.finding(context, "a response is sent on a stream that was opened by GET")]


class RelatedOnGetStream(ProgressTokenRule):
    """Progress of an open request arrives on the stream that the client opened with GET.

    **Why it matters.** That stream is for messages that are not related to a request, and a client may not look for
    progress there.

    **On the wire.** On the stream of `GET /mcp`: `< {"method":"notifications/progress",…}` of a call by POST

    **Instead.** Send the progress on the stream that answers the request.
    """

    id = "http/related-on-get-stream"
    needs_session = True
    who = "server"
    versions = SESSION_REVISIONS
    level = NOTE
    needs_http = True
    once = True
    source = _TRANSPORTS

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        http = context.http
        if http is None or http.method != "GET" or _LAST_EVENT_ID in http.fields or not http.is_streamable:
            return ()
        progress = reported_token(context, self.fold)
        if progress is None or progress.task is not None:
            return ()
        return [
            self.finding(context, "progress of a request is sent on the stream opened by GET", related=(progress.seq,))
        ]


class _SentMessage(NamedTuple):
    """A message that a server sent on a stream."""

    body: dict[str, Any]
    http: HttpExchange
    t_ns: int
    seq: int


class Broadcast(Rule):
    """A server sends the same message on two streams of a session.

    **Why it matters.** The client handles the message twice: it asks its user twice, or answers one request twice.

    **On the wire.** `< {"id":0,"method":"roots/list"}` on two streams that are both open

    **Instead.** Send each message on one stream only. Messages that are replayed after `Last-Event-ID` are not
    reported.
    """

    id = "http/broadcast"
    who = "server"
    versions = AllEras(*SESSION_REVISIONS)
    impact = Impact.WRONG
    needs_http = True
    sender = "server"
    replaces = ("id/duplicate-in-flight",)
    source = _TRANSPORTS

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        http, message = context.http, context.message
        if http is None or not isinstance(message, Request) or http.session_id is None or context.era == "modern":
            return ()
        requests: OrderedDict[Id, _SentMessage] = self._messages_of(context.session)[0]
        earlier = requests.pop(message.id, None)
        requests[message.id] = _SentMessage(context.body, http, message.t_ns, message.seq)
        if len(requests) > _MAX_REMEMBERED_MESSAGES:
            requests.popitem(last=False)
        if (
            earlier is None
            or context.earlier is None
            or context.earlier.state not in _WAITING_STATES
            or not _is_on_other_stream(earlier, http)
        ):
            return ()
        if earlier.body != context.body:
            return ()  # each stream may number its requests from the start
        text = f"{shortened(message.method)} is sent on two streams of the session"
        return [self.finding(context, text, related=(earlier.seq,))]

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        http = context.http
        if (
            http is None
            or http.session_id is None
            or context.method in _PER_REQUEST_NOTIFICATIONS
            or context.era == "modern"
        ):
            return ()
        notifications: OrderedDict[bytes, _SentMessage] = self._messages_of(context.session)[1]
        raw = context.message.frames[0].raw
        earlier = notifications.pop(raw, None)
        notifications[raw] = _SentMessage(context.body, http, context.message.t_ns, context.message.seq)
        if len(notifications) > _MAX_REMEMBERED_MESSAGES or len(raw) > _MAX_NOTIFICATION_BYTES:
            notifications.popitem(last=len(raw) > _MAX_NOTIFICATION_BYTES)
        if earlier is None or earlier.http.end_ref is not None or not _is_on_other_stream(earlier, http):
            return ()
        if context.message.t_ns - earlier.t_ns > _MAX_INTERVAL_NS:
            return ()
        text = f"{shortened(context.method)} is sent on two streams of the session"
        return [self.finding(context, text, related=(earlier.seq,), level=WARNING)]

    def _messages_of(self, session: Session) -> tuple[OrderedDict[Id, _SentMessage], OrderedDict[bytes, _SentMessage]]:
        messages: tuple[OrderedDict[Id, _SentMessage], OrderedDict[bytes, _SentMessage]] = self.state_for(
            session, _empty_messages
        )
        return messages


def _empty_messages() -> tuple[OrderedDict[Id, _SentMessage], OrderedDict[bytes, _SentMessage]]:
    return OrderedDict(), OrderedDict()


def _is_on_other_stream(earlier: _SentMessage, http: HttpExchange) -> bool:
    """Whether two messages were sent on different streams of one session, and neither is a replay."""
    if earlier.http.number == http.number or earlier.http.stream == http.stream:
        return False
    if _LAST_EVENT_ID in http.fields or _LAST_EVENT_ID in earlier.http.fields:
        return False
    return earlier.http.session_id == http.session_id and bool(http.method) and bool(earlier.http.method)
