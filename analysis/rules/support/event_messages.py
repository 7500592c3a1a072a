"""What messages of the Events extension say: subscriptions, occurrences of events, and the streams that carry them.

A client subscribes by polling (`events/poll`), with a stream (`events/stream`) or with a webhook (`events/subscribe`);
what a server sends to the callback of a webhook is not in a capture. Notifications name their stream by the id of its
request.

All rules that follow streams share their state; it does not matter which of them sees a message first.
"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, NamedTuple

from analysis.conversation.addressing import RequestKey
from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message, Notification, Request, Response
from analysis.conversation.session import Session
from analysis.conversation.subscriptions import SUBSCRIPTION_ID, subscription_id
from analysis.protocol.extensions import EVENTS
from analysis.rules.base import Rule
from analysis.rules.finding import Finding
from analysis.rules.support.digests import json_digest
from analysis.rules.support.eras import member

LIST_EVENTS: Final = "events/list"
POLL: Final = "events/poll"
STREAM: Final = "events/stream"
SUBSCRIBE: Final = "events/subscribe"
ACTIVE: Final = "notifications/events/active"
EVENT: Final = "notifications/events/event"
HEARTBEAT: Final = "notifications/events/heartbeat"
TERMINATED: Final = "notifications/events/terminated"
LIST_CHANGED: Final = "notifications/events/list_changed"
STREAM_NOTIFICATIONS: Final = frozenset(
    method.name for method in EVENTS.methods if not method.is_request and method.name != LIST_CHANGED
)
"""The notifications that belong to a stream."""
MAX_STREAMS: Final = 1_000
"""The most streams of a session that are kept; the oldest are forgotten first."""
MAX_EVENTS_PER_RESULT: Final = 1_000
"""The most events of one result that are examined."""
MAX_REMEMBERED_EVENTS: Final = 2_000
"""The most events of one subscription whose ids are kept; the oldest are forgotten first."""

_KEY: Final = "event streams"


class EventsRule(Rule):
    """A rule about messages of the Events extension. It is a draft, so all findings are notes."""

    extension = EVENTS


class Occurrence(NamedTuple):
    """One event as a server reports it."""

    value: Any
    """The object, which may be of any type."""
    pointer: str
    """Its place in the message."""
    request: Request | None
    """The request of its subscription, or None if it is unknown."""


class EventStream:
    """One `events/stream`, as far as the capture shows it."""

    def __init__(self, request: Request) -> None:
        """Create the stream that a request opens."""
        self.request = request
        self.message_count = 0
        """How many notifications have named it."""
        self.last_ns = request.t_ns
        """When its last notification came, or when it was requested."""
        self.last_seq = request.seq
        self.ended_seq: int | None = None
        """Number of the first message with which the server ended it: its response, or that it is terminated."""
        self.cancelled_seq: int | None = None
        """Number of the cancellation by the client."""
        self.event_seqs: BoundedDict[bytes, int] = BoundedDict(MAX_REMEMBERED_EVENTS)
        """The numbers of the messages that reported its events, by the digests of their ids."""


class StreamMessage(NamedTuple):
    """What a message is in its stream."""

    stream: EventStream
    previous_ns: int
    """When the previous message of the stream came."""
    previous_seq: int
    is_first: bool
    """Whether it is the first notification of its stream."""
    repeated_seq: int | None
    """Number of the message that has already reported the same event on the stream."""


class EventStreams:
    """The streams of a session."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._streams: BoundedDict[RequestKey, EventStream] = BoundedDict(MAX_STREAMS)
        self._last: tuple[Message, StreamMessage | None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether no stream was forgotten."""
        return not self._streams.forgotten

    def all_streams(self) -> Iterator[EventStream]:
        """Yields all streams that are kept."""
        yield from self._streams.values()

    def record(self, context: MessageContext) -> StreamMessage | None:
        """Record a message on the first call; returns what it is in its stream, or None if it belongs to none."""
        if self._last is None or self._last[0] is not context.message:
            self._last = context.message, self._record(context)
        return self._last[1]

    def _record(self, context: MessageContext) -> StreamMessage | None:
        message = context.message
        if isinstance(message, Request):
            if message.method == STREAM and message.sender == "client" and message.id.is_answerable:
                self._streams[_key_of(message)] = EventStream(message)
            return None
        if isinstance(message, Response):
            stream = None if context.request is None else self.of_request(context.request)
            if stream is not None and stream.ended_seq is None:
                stream.ended_seq = message.seq
            return None
        if not isinstance(message, Notification):
            return None
        if context.cancels is not None:
            stream = self.of_request(context.cancels)
            if stream is not None and message.sender == "client" and stream.cancelled_seq is None:
                stream.cancelled_seq = message.seq
            return None
        return self._record_notification(context, message)

    def _record_notification(self, context: MessageContext, message: Notification) -> StreamMessage | None:
        if message.method not in STREAM_NOTIFICATIONS or SUBSCRIPTION_ID not in message.meta:
            return None
        exchange = message.frames[0].exchange if context.http is None else context.http.first_carrier.number
        stream = self._streams.get(RequestKey(exchange, subscription_id(message, message.meta)))
        if stream is None:
            return None
        repeated_seq = None
        event_id = member(message.params, "eventId")
        if message.method == EVENT and isinstance(event_id, str) and (digest := json_digest(event_id)) is not None:
            repeated_seq = stream.event_seqs.setdefault(digest, message.seq)
            repeated_seq = None if repeated_seq == message.seq else repeated_seq
        place = StreamMessage(stream, stream.last_ns, stream.last_seq, not stream.message_count, repeated_seq)
        stream.message_count, stream.last_ns, stream.last_seq = stream.message_count + 1, message.t_ns, message.seq
        if message.method == TERMINATED and stream.ended_seq is None:
            stream.ended_seq = message.seq
        return place

    def of_request(self, request: Request) -> EventStream | None:
        """Returns the stream that a request has opened, or None if it opened none or the stream is forgotten."""
        stream = self._streams.get(_key_of(request))
        return stream if stream is not None and stream.request.seq == request.seq else None


class StreamRule(Rule):
    """A rule that follows streams."""

    extension = EVENTS
    methods = STREAM_NOTIFICATIONS | {STREAM, "notifications/cancelled", "cancelled"}

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return _is_from_its_side(hook, method, like)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        streams_of(context.session).record(context)
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        streams_of(context.session).record(context)
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        place = streams_of(context.session).record(context)
        return () if place is None else self.check_message(context, place)

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:
        """Returns the findings about a notification of a stream."""
        raise NotImplementedError


class OccurrenceRule(Rule):
    """A rule about single events, from polls and on streams."""

    extension = EVENTS
    methods: ClassVar[frozenset[str]] = StreamRule.methods | {POLL}
    who = "server"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return _is_from_its_side(hook, method, like)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        streams_of(context.session).record(context)
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        streams_of(context.session).record(context)
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        events = member(context.body.get("result"), "events") if context.method == POLL else None
        if not isinstance(events, list):
            return ()
        occurrences = (
            Occurrence(value, f"/result/events/{index}", context.request)
            for index, value in enumerate(events[:MAX_EVENTS_PER_RESULT])
        )
        return self.capped(finding for each in occurrences for finding in self.check_occurrence(context, each))

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        place = streams_of(context.session).record(context)
        if context.method != EVENT:
            return ()
        request = None if place is None else place.stream.request
        return self.check_occurrence(context, Occurrence(context.body.get("params"), "/params", request))

    def check_occurrence(self, context: MessageContext, occurrence: Occurrence) -> Iterable[Finding]:
        """Returns the findings about one event."""
        raise NotImplementedError


def _is_from_its_side(hook: str, method: str, like: MessageContext) -> bool:
    """Whether a message comes from the side that sends it: the server for responses and notifications of streams."""
    is_from_server = like.message.sender == "server"
    return is_from_server == (method in STREAM_NOTIFICATIONS or hook in ("response", "result"))


def streams_of(session: Session) -> EventStreams:
    """Returns the streams of a session."""
    streams: EventStreams | None = session.memory.get(_KEY)
    if streams is None:
        streams = session.memory[_KEY] = EventStreams()
    return streams


def subscription_key(request: Request | None) -> bytes | None:
    """Returns what a request subscribes to, its event type and its arguments, as a digest; None if that is unclear."""
    params = None if request is None else request.params
    name = member(params, "name")
    return json_digest([name, member(params, "arguments") or {}]) if isinstance(name, str) else None


def _key_of(request: Request) -> RequestKey:
    return RequestKey(request.frames[0].exchange, request.id)
