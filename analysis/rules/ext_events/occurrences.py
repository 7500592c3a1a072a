"""Single events: their ids, and how many of them a result has."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.rules.finding import Finding
from analysis.rules.support.digests import json_digest
from analysis.rules.support.eras import member
from analysis.rules.support.event_messages import (
    MAX_EVENTS_PER_RESULT,
    MAX_REMEMBERED_EVENTS,
    MAX_STREAMS,
    POLL,
    EventsRule,
    StreamMessage,
    StreamRule,
    subscription_key,
)


class RepeatedOnStream(StreamRule):
    """An event is reported twice on one stream.

    **Why it matters.** It is legal. A client that does not compare `eventId` with those that it has seen handles the
    event twice.

    **On the wire.** `< {"method":"notifications/events/event","params":{"eventId":"e1",…}}`, twice on one stream

    **Instead.** As a server, report each event once on a stream. As a client, ignore events with a known `eventId`.
    """

    id = "ext-events/repeated-on-stream"
    who = "server"

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:
        if place.repeated_seq is None:
            return ()
        text = "this event was already reported on the stream"
        return [self.finding(context, text, pointer="/params/eventId", related=(place.repeated_seq,))]


class RepeatedInPolls(EventsRule):
    """A poll returns an event that came before the cursor of the poll.

    **Why it matters.** It is legal. A client that does not compare `eventId` with those that it has seen handles the
    event twice.

    **On the wire.** `< …"events":[{"eventId":"e1",…}],"cursor":"c1"`, `> …"method":"events/poll",…"cursor":"c1"`,
    `< …"events":[{"eventId":"e1",…}]`

    **Instead.** As a server, return only events after the cursor. As a client, ignore events with a known `eventId`.
    """

    id = "ext-events/repeated-in-polls"
    needs_session = True
    who = "server"
    sender = "server"
    methods: ClassVar[frozenset[str]] = frozenset({POLL})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, result = context.request, context.body.get("result")
        events, key = member(result, "events"), subscription_key(request)
        if request is None or key is None or not isinstance(events, list):
            return ()
        seen_events: BoundedDict[bytes, _SeenEvents] = self.state_for(context.session, lambda: BoundedDict(MAX_STREAMS))
        cursor = member(request.params, "cursor")
        seen = seen_events.get(key)
        if seen is None or not isinstance(cursor, str) or cursor not in (seen.cursor, seen.previous_cursor):
            seen = seen_events[key] = _SeenEvents()
        is_repeat = cursor == seen.previous_cursor  # the client requests the same events again
        findings = [] if is_repeat else self._new_findings(context, events, seen, request)
        next_cursor = member(result, "cursor")
        if isinstance(next_cursor, str):
            seen.previous_cursor, seen.cursor = cursor if isinstance(cursor, str) else None, next_cursor
        return findings

    def _new_findings(
        self, context: MessageContext, events: list[object], seen: "_SeenEvents", request: Request
    ) -> list[Finding]:
        return self.capped(self._repeats(context, events, seen, request))

    def _repeats(
        self, context: MessageContext, events: list[object], seen: "_SeenEvents", request: Request
    ) -> Iterator[Finding]:
        for index, event in enumerate(events[:MAX_EVENTS_PER_RESULT]):
            event_id = member(event, "eventId")
            digest = json_digest(event_id) if isinstance(event_id, str) else None
            if digest is None:
                continue
            first_seq = seen.seqs.setdefault(digest, context.message.seq)
            if first_seq != context.message.seq:
                text = "this event was already returned, before the cursor of this poll"
                pointer = f"/result/events/{index}/eventId"
                yield self.finding(context, text, pointer=pointer, related=(first_seq, request.seq))


class TooManyEvents(EventsRule):
    """A poll returns more events than the client allows.

    **Why it matters.** Clients set the limit to what they can handle at once.

    **On the wire.** `> {"id":3,"method":"events/poll","params":{…,"maxEvents":2}}`, and three events in the result

    **Instead.** Return at most `maxEvents` events, and `"hasMore":true` if there are more.
    """

    id = "ext-events/too-many-events"
    who = "server"
    sender = "server"
    methods: ClassVar[frozenset[str]] = frozenset({POLL})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, events = context.request, member(context.body.get("result"), "events")
        limit = None if request is None else member(request.params, "maxEvents")
        if request is None or not isinstance(events, list) or type(limit) is not int or not 0 < limit < len(events):
            return ()
        text = f"the poll returns {len(events):,} events, more than maxEvents ({limit:,})"
        return [self.finding(context, text, pointer="/result/events", related=(request.seq,))]


class _SeenEvents:
    """The events that polls of one subscription have returned, since its cursors form a chain."""

    def __init__(self) -> None:
        self.seqs: BoundedDict[bytes, int] = BoundedDict(MAX_REMEMBERED_EVENTS)
        self.cursor: str | None = None
        self.previous_cursor: str | None = None
