"""The events of a stream, and whether clients can read them."""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import EVENT_STREAM, HttpExchange
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.rules.base import ERROR, NOTE, WARNING, Rule
from analysis.rules.finding import Finding
from analysis.rules.support.eras import shortened
from analysis.rules.support.exchanges import ALL_METHODS, POST_ONLY, ExchangeEndRule, is_cut
from analysis.rules.support.message_text import reason

NOT_JSON: Final = "sse/data-not-json"

_PAGE: Final = "2025-03-26 basic/transports"


class DataNotJson(Rule):
    """The data of an event is not JSON.

    **Why it matters.** The client drops the event, or the whole stream. If the event was a response, its caller waits
    forever.

    **On the wire.** `< data: ok`

    **Instead.** Send one JSON-RPC message in each event; to keep a stream alive, send a comment (`: ping`).
    """

    id = NOT_JSON
    who = "server"
    versions = features.STREAMABLE_HTTP
    needs_http = True
    sender = "server"
    source = _PAGE

    def on_invalid(self, context: MessageContext) -> Iterable[Finding]:
        frame = context.message.frames[0]
        if (
            frame.unit != "sse_event"
            or frame.event is not None
            or is_older_transport(context.http)
            or reason(context.message) != self.id
        ):
            return ()
        return [self.finding(context, "the data of an event is not JSON")]


class EventType(Rule):
    """An event has a type other than `message`.

    **Why it matters.** Clients handle only events of type `message`, and ignore this one.

    **On the wire.** `< event: progress`

    **Instead.** Leave `event:` out, or write `event: message`.
    """

    id = "sse/event-type"
    who = "server"
    versions = features.STREAMABLE_HTTP
    level = WARNING
    needs_http = True
    once = True
    sender = "server"
    source = _PAGE

    def on_invalid(self, context: MessageContext) -> Iterable[Finding]:
        event = context.message.frames[0].event
        if event is None or is_older_transport(context.http):
            return ()
        return [self.finding(context, f"an event has the type {shortened(event)!r}, which clients ignore")]


class UnterminatedEvent(ExchangeEndRule):
    """A stream ends inside an event.

    **Why it matters.** An event ends with a blank line. Without it, the standard requires clients to discard the data.

    **On the wire.** `< data: {"jsonrpc":"2.0",…}`, and then the stream ends

    **Instead.** End each event, including the last, with a blank line.
    """

    id = "sse/unterminated-event"
    who = "server"
    versions = features.STREAMABLE_HTTP
    level = WARNING
    http_methods: ClassVar[frozenset[str]] = ALL_METHODS
    media = EVENT_STREAM
    source = "WHATWG SSE §9.2.6"

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return super().on_exchange_end(http, session) if is_cut(http) else ()

    def check_exchange(self, http: HttpExchange, _session: Session | None) -> Iterable[Finding]:
        last_message = http.last_server_message
        if http.ended_by != "complete" or last_message is None or last_message.message.frames[-1].unit != "sse_event":
            return ()
        if last_message.request is None:
            return [self.finding(last_message, "the stream ends inside an event, which is lost")]
        text = f"the stream ends inside the event that answers {shortened(last_message.method)}, which is lost"
        return [self.finding(last_message, text, level=ERROR)]


class NoPrimingEvent(ExchangeEndRule):
    """A stream does not begin with an event that has an id but no data.

    **Why it matters.** A client that loses the connection before the first message has no id to resume with. Servers
    that do not support resumption need no such event.

    **On the wire.** A POST is answered with a stream whose first event has data.

    **Instead.** Send `id: 1`, `data:` and a blank line first.
    """

    id = "sse/no-priming-event"
    who = "server"
    versions = features.SSE_POLLING
    level = NOTE
    once = True
    http_methods: ClassVar[frozenset[str]] = POST_ONLY
    media = EVENT_STREAM
    source = "2025-11-25 basic/transports"

    def check_exchange(self, http: HttpExchange, _session: Session | None) -> Iterable[Finding]:
        if not http.server_messages:
            return ()
        frame = http.server_messages[0].message.frames[0]
        if frame.event_id is not None and not frame.raw:
            return ()
        return [self.finding(http.server_messages[0], "the stream does not begin with an event that has only an id")]


# ---- shared by the rules


def is_older_transport(http: HttpExchange | None) -> bool:
    """Whether a stream belongs to the older transport."""
    return http is not None and http.method == "GET" and http.uri_key is not None
