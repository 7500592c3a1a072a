"""Streams of events: how they begin and end, and what keeps them alive."""

from collections.abc import Iterable, Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Notification, Request
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session
from analysis.conversation.subscriptions import SUBSCRIPTION_ID
from analysis.rules.base import CaptureEnd
from analysis.rules.finding import Finding
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.event_messages import (
    ACTIVE,
    STREAM_NOTIFICATIONS,
    EventStream,
    StreamMessage,
    StreamRule,
    streams_of,
)
from analysis.rules.support.pipes import pipes_of
from captures.record import Record

MAX_SILENCE_NS: Final = 60_000_000_000
"""How long a stream may be silent: twice the interval of heartbeats, after which a client gives up on it."""
_MIN_UNSUCCESSFUL_STATUS: Final = 300
_ID_POINTER: Final = "/params/_meta/io.modelcontextprotocol~1subscriptionId"


class UnknownStream(StreamRule):
    """A notification about events names no stream, or one that the client did not open.

    **Why it matters.** The client cannot assign the event to a subscription, and drops it.

    **On the wire.** `> {"id":7,"method":"events/stream",…}` and
    `< {"method":"notifications/events/event","params":{…,"_meta":{"io.modelcontextprotocol/subscriptionId":"7"}}}`

    **Instead.** Send back the id of the request unchanged, including its JSON type, and over HTTP on the stream that
    answers it.
    """

    id = "ext-events/unknown-stream"
    who = "server"
    needs_start = True
    needs_session = True

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        message, session, streams = context.message, context.session, streams_of(context.session)
        place = streams.record(context)
        if place is not None or context.method not in STREAM_NOTIFICATIONS or not isinstance(message, Notification):
            return ()
        if session.unjudged.get("client") is not None or not streams.is_complete or session.is_legacy:
            return ()
        if context.http is not None and context.http.method != "POST":
            return ()  # a stream that was resumed
        if SUBSCRIPTION_ID not in message.meta:
            text = f"{context.method} does not name its stream"
            return [self.finding(context, text, pointer="/params/_meta")]
        text = f"{context.method} names a stream that the client did not open"
        return [self.finding(context, text, pointer=_ID_POINTER)]

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:  # noqa: ARG002 - as above
        return ()


class NotActiveFirst(StreamRule):
    """A stream of events does not begin with the confirmation of the subscription.

    **Why it matters.** The confirmation tells the client from which cursor on it gets events, and whether some were
    skipped.

    **On the wire.** `> {"id":3,"method":"events/stream",…}` and then `< {"method":"notifications/events/event",…}`

    **Instead.** Send `notifications/events/active` first, or answer with an error.
    """

    id = "ext-events/not-active-first"
    who = "server"

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:
        if not place.is_first or context.method == ACTIVE or not _has_all_messages(context.session, place.stream):
            return ()
        text = f"the stream begins with {context.method}, not with {ACTIVE}"
        return [self.finding(context, text, pointer="/method", related=(place.stream.request.seq,))]


class AfterEnd(StreamRule):
    """A notification is sent on a stream of events that has ended.

    **Why it matters.** The client has forgotten the subscription, so the event is lost. If the client has cancelled the
    subscription, the server still spends effort on it.

    **On the wire.** `< {"id":3,"result":{"resultType":"complete",…}}` and then a
    `notifications/events/event` with that id; or
    `> {"method":"notifications/cancelled","params":{"requestId":3}}` and then such an event

    **Instead.** Release the subscription before you send its result, and when it is cancelled.
    """

    id = "ext-events/after-end"
    who = "server"

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:
        stream, session, seq = place.stream, context.session, context.message.seq
        if stream.ended_seq is not None and stream.ended_seq < seq:
            text = f"{context.method} is sent on a stream that the server has ended"
            return [self.finding(context, text, pointer="/method", related=(stream.request.seq, stream.ended_seq))]
        if stream.cancelled_seq is not None and session.has_received("server", stream.cancelled_seq):
            text = f"{context.method} is sent on a stream that the client has cancelled"
            return [self.finding(context, text, pointer="/method", related=(stream.request.seq, stream.cancelled_seq))]
        return ()


class AbruptEnd(StreamRule):
    """A server closes a stream of events without a result.

    **Why it matters.** The client cannot distinguish this from a network failure, and reconnects at once although the
    server ended the subscription on purpose.

    **On the wire.** The HTTP response to an `events/stream` ends after an event, without a result.

    **Instead.** Send the result of the request, which has only `resultType` and, in `_meta`, the id of the
    subscription. Then close.
    """

    id = "ext-events/abrupt-end"
    who = "server"
    needs_http = True
    exchanges = ExchangeOddity.LISTENING

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:
        """Check a stream that the server itself has ended; a broken connection may have any cause."""
        if http.ended_by != "complete" or http.status is None or http.status >= _MIN_UNSUCCESSFUL_STATUS:
            return
        if session.is_legacy or not http.is_streamable or http.end_ref is None:
            return
        for context in http.client_messages:
            request = context.message
            stream = streams_of(context.session).of_request(request) if isinstance(request, Request) else None
            if stream is None or stream.ended_seq is not None or stream.cancelled_seq is not None:
                continue
            if _has_all_messages(context.session, stream):
                text = "the server closes a stream of events without a result"
                yield self.finding(http.end_ref, text, related=(stream.request.seq,), session=context.session)

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:  # noqa: ARG002 - as above
        return ()


class NoHeartbeat(StreamRule):
    """A stream of events is silent for more than a minute.

    **Why it matters.** The client cannot distinguish a quiet stream from a dead one. It gives up after twice the usual
    interval of 30 s, and opens another stream.

    **On the wire.** No message of a stream for 75 s, and then `< {"method":"notifications/events/event",…}`

    **Instead.** Send `notifications/events/heartbeat` with the current cursor at least every 30 s.
    """

    id = "ext-events/no-heartbeat"
    who = "server"
    needs_time = True
    once = True

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:
        silence_ns = context.message.t_ns - place.previous_ns
        if silence_ns <= MAX_SILENCE_NS or place.previous_seq <= context.session.lost_seq:
            return ()
        return [self.finding(context, _silence_text(silence_ns), related=(place.previous_seq,))]

    def on_record(self, record: Record, session: Session) -> Iterable[Finding]:
        pipes_of(session).update(record, session, self.fold)
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        if ending.reason != "closed" or not ending.is_clear or session.is_http:
            return
        pipes = pipes_of(session)
        ends_ns = (ending.t_ns, pipes.client_gone_ns, pipes.server_gone_ns)
        until_ns = min(end_ns for end_ns in ends_ns if end_ns is not None)
        for stream in streams_of(session).all_streams():
            silence_ns = until_ns - stream.last_ns
            is_open = stream.cancelled_seq is None and stream.ended_seq is None
            if is_open and silence_ns > MAX_SILENCE_NS and stream.last_seq > session.lost_seq:
                at = RecordRef(stream.last_seq, stream.last_ns)
                yield self.finding(at, _silence_text(silence_ns), session=session)


# ---- shared by the rules


def _silence_text(silence_ns: int) -> str:
    return f"the stream of events was silent for {silence_ns // 1_000_000_000:,} s"


def _has_all_messages(session: Session, stream: EventStream) -> bool:
    """Whether the capture contains all messages that the server has sent since it was asked for a stream."""
    return max(session.lost_seq, session.unjudged.get("server", -1)) < stream.request.seq
