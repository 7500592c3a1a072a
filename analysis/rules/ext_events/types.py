"""Types of events: what the server's list says about them, and whether clients and servers keep to it."""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.event_messages import (
    LIST_CHANGED,
    LIST_EVENTS,
    POLL,
    STREAM,
    SUBSCRIBE,
    EventsRule,
    Occurrence,
    OccurrenceRule,
)
from analysis.rules.support.listings import ListedItem, events_of

_MODES: Final = {POLL: "poll", STREAM: "push", SUBSCRIBE: "webhook"}
"""The delivery mode that each request uses."""


class _ListedTypeRule(OccurrenceRule):
    """A rule that compares events with the list of their types."""

    methods: ClassVar[frozenset[str]] = OccurrenceRule.methods | {LIST_EVENTS, LIST_CHANGED}
    needs_lists = True

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method == LIST_EVENTS:
            events_of(context.session).record_page(context)
            return ()
        return super().on_result(context)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.method == LIST_CHANGED:
            events_of(context.session).on_list_changed(context)
            return ()
        return super().on_notification(context)

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        is_list = method in (LIST_EVENTS, LIST_CHANGED)
        return like.message.sender == "server" if is_list else super().concerns(hook, method, like)

    def entry(self, context: MessageContext, occurrence: Occurrence) -> ListedItem | None:
        """Returns the type of an event as it was listed before its subscription, or None if it is unknown."""
        request = occurrence.request
        if request is None:
            return None
        return events_of(context.session).entry(member(occurrence.value, "name"), request, context.session)


class ModeNotOffered(EventsRule):
    """A client subscribes to events in a mode that their type does not offer.

    **Why it matters.** The server refuses the subscription, or accepts it and never reports anything.

    **On the wire.** `…"name":"email.received","delivery":["poll"]…` and then
    `> {"id":3,"method":"events/stream","params":{"name":"email.received",…}}`

    **Instead.** Choose one of the modes in `delivery`: `poll`, `push` (`events/stream`) or `webhook`
    (`events/subscribe`).
    """

    id = "ext-events/mode-not-offered"
    needs_session = True
    who = "client"
    needs_lists = True
    once = True
    once_each = True
    methods = frozenset({LIST_EVENTS, LIST_CHANGED, *_MODES})

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        is_from_server = like.message.sender == "server"
        return is_from_server != (hook == "request") and (hook != "result" or method == LIST_EVENTS)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        events_of(context.session).record_page(context)
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        events_of(context.session).on_list_changed(context)
        return ()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request, mode = context.message, _MODES.get(context.method)
        if not isinstance(request, Request) or mode is None:
            return ()
        name = member(request.params, "name")
        listed = events_of(context.session).entry(name, request, context.session)
        modes = None if listed is None else listed.item.get("delivery")
        if listed is None or not isinstance(modes, list) or not modes or mode in modes:
            return ()
        text = f"the type of event {shortened(name)!r} does not offer {mode}"
        return [self.finding(context, text, pointer="/method", related=(listed.seq,))]


class UnlistedType(_ListedTypeRule):
    """A server reports an event of a type that is not in its list.

    **Why it matters.** The client knows neither what the event means nor what its payload contains.

    **On the wire.** `events/list` has `email.received` only, and then
    `< {"method":"notifications/events/event","params":{"name":"sms.received",…}}`

    **Instead.** List every type of event, and send `notifications/events/list_changed` when a new one is added.
    """

    id = "ext-events/unlisted-type"
    needs_session = True
    once = True
    once_each = True

    def check_occurrence(self, context: MessageContext, occurrence: Occurrence) -> Iterable[Finding]:
        name, request = member(occurrence.value, "name"), occurrence.request
        if not isinstance(name, str) or request is None:
            return ()
        if not events_of(context.session).lacks(name, request, context.session):
            return ()
        text = f"the server does not list the type of event {shortened(name)!r}"
        return [self.finding(context, text, pointer=f"{occurrence.pointer}/name", related=(request.seq,))]


class OtherType(OccurrenceRule):
    """A server reports an event of another type than the subscription named.

    **Why it matters.** A subscription is for one type of event. The client did not ask for this one, and its handler
    may misread the payload.

    **On the wire.** `> {"id":3,"method":"events/poll","params":{"name":"email.received",…}}`
    `< {"id":3,"result":{"events":[{"name":"email.sent",…}],…}}`

    **Instead.** Report each event only in the subscriptions for its type.
    """

    id = "ext-events/other-type"
    once = True
    once_each = True

    def check_occurrence(self, context: MessageContext, occurrence: Occurrence) -> Iterable[Finding]:
        name, request = member(occurrence.value, "name"), occurrence.request
        requested_name = None if request is None else member(request.params, "name")
        if request is None or not isinstance(name, str) or not isinstance(requested_name, str):
            return ()
        if name == requested_name:
            return ()
        text = f"an event of the type {shortened(name)!r} is reported in a subscription to another type"
        return [self.finding(context, text, pointer=f"{occurrence.pointer}/name", related=(request.seq,))]


class PayloadMismatch(_ListedTypeRule):
    """The payload of an event does not fit the `payloadSchema` of its type.

    **Why it matters.** Programs that handle events rely on the schema.

    **On the wire.** `…"name":"email.received","payloadSchema":{"type":"object","required":["messageId"]}`, and then
    `< {"method":"notifications/events/event","params":{"name":"email.received","data":{},…}}`

    **Instead.** Validate payloads against your own schema before you send them.
    """

    id = "ext-events/payload-mismatch"
    needs_session = True

    def check_occurrence(self, context: MessageContext, occurrence: Occurrence) -> Iterable[Finding]:
        payload = member(occurrence.value, "data")
        if not isinstance(payload, dict):
            return ()
        listed = self.entry(context, occurrence)
        schema = None if listed is None else listed.schema("payloadSchema", context.rank)
        mismatch = None if schema is None else schema.mismatch(payload)
        if listed is None or mismatch is None:
            return ()
        text = f"data does not fit the payloadSchema of the event: {shortened(mismatch.sentence)}"
        pointer = f"{occurrence.pointer}/data{mismatch.pointer}"
        return [self.finding(context, text, pointer=pointer, related=(listed.seq,))]
