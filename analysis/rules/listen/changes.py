"""Notifications of changes, and the subscriptions that these name."""

from collections.abc import Iterable

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Notification, converted_id
from analysis.conversation.subscriptions import (
    ACKNOWLEDGED,
    CHANGES,
    LISTEN,
    UPDATED,
    ListenSubscription,
    subscription_id,
)
from analysis.rules.base import WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.progress import PROGRESS
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.listenings import (
    ListenMessageRule,
    ListenRule,
    is_change,
    is_listening,
    is_named,
    requests_in,
)

_CHANGE_METHODS = frozenset(CHANGES)
_ID_POINTER = "/params/_meta/io.modelcontextprotocol~1subscriptionId"


class UnrequestedType(ListenMessageRule):
    """A server announces a kind of change that the subscription did not request.

    **Why it matters.** The client has no handler for the change in this subscription, and may attribute the change to
    another one.

    **On the wire.** `> …"notifications":{"toolsListChanged":true}` and
    `< {"method":"notifications/prompts/list_changed",…}` with that subscription id

    **Instead.** Send each subscription only what it requested.
    """

    id = "listen/unrequested-type"
    impact = Impact.WRONG
    methods = _CHANGE_METHODS

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        if not is_change(context) or subscription.requested_filter.selects(context.method):
            return ()
        text = f"{context.method} was not requested by this subscription"
        return [self.finding(context, text, pointer="/method", related=(subscription.seq,))]


class UnacknowledgedType(ListenMessageRule):
    """A server announces a kind of change that was requested but not acknowledged.

    **Why it matters.** The acknowledgement tells the client which changes it has to check for itself.

    **On the wire.** `> …"notifications":{"toolsListChanged":true,"promptsListChanged":true}`,
    `< …"notifications":{"toolsListChanged":true}` and then `< {"method":"notifications/prompts/list_changed",…}`

    **Instead.** Acknowledge everything that will be announced.
    """

    id = "listen/unacknowledged-type"
    level = WARNING
    impact = Impact.WRONG
    methods = _CHANGE_METHODS

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        acknowledged = subscription.granted_filter
        if not is_change(context) or acknowledged is None or acknowledged.selects(context.method):
            return ()
        if not subscription.requested_filter.selects(context.method):
            return ()
        text = f"{context.method} was requested, but not acknowledged"
        return [self.finding(context, text, pointer="/method", related=(subscription.seq,))]


class UnrequestedUri(ListenMessageRule):
    """A server announces a change to a resource that the subscription did not name.

    **Why it matters.** The client cannot use the notification, which may reveal resources of another client.

    **On the wire.** `> …"notifications":{"resourceSubscriptions":["file:///a"]}` and
    `< {"method":"notifications/resources/updated","params":{"uri":"file:///b",…}}`

    **Instead.** Announce only changes to resources that the subscription names, or to resources below these URIs.
    """

    id = "listen/unrequested-uri"
    impact = Impact.WRONG
    methods = frozenset({UPDATED})
    source = "2026-07-28 schema"

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        uri, requested_uris = member(context.body.get("params"), "uri"), subscription.requested_filter.uris
        if (
            not is_change(context)
            or not isinstance(uri, str)
            or not requested_uris
            or requested_uris.longest_prefix(uri) is not None
        ):
            return ()
        text = "a change to a resource that this subscription did not name"
        return [self.finding(context, text, pointer="/params/uri", related=(subscription.seq,))]


class MissingSubscriptionId(ListenRule):
    """A change or an acknowledgement does not say which subscription it belongs to.

    **Why it matters.** On stdio only the id identifies the subscription, so a client with several subscriptions cannot
    tell which one the message belongs to.

    **On the wire.** `< {"method":"notifications/tools/list_changed"}` while a `subscriptions/listen` is open

    **Instead.** `"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}`, the id of that request.
    """

    id = "listen/missing-subscription-id"
    methods = _CHANGE_METHODS | {ACKNOWLEDGED}
    source = "2026-07-28 basic/index; 2026-07-28 basic/patterns/subscriptions"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if (
            is_named(context)
            or not isinstance(context.message, Notification)
            or context.message.method not in self.methods
        ):
            return ()
        if context.http is None:
            is_id_required = is_listening(context.session, self.fold)
        else:
            is_id_required = any(request.method == LISTEN for request in requests_in(context))
        if not is_id_required:
            return ()
        return [self.finding(context, "the subscription id is missing", pointer="/params/_meta")]


class UnknownSubscriptionId(ListenRule):
    """The subscription id of a message matches no subscription, or belongs to another stream.

    **Why it matters.** The client drops the message, and keeps showing the old data.

    **On the wire.** `> {"id":7,"method":"subscriptions/listen",…}` and
    `< …"_meta":{"io.modelcontextprotocol/subscriptionId":"7"}`

    **Instead.** Send back the id of the request unchanged, including its JSON type.
    """

    id = "listen/unknown-subscription-id"
    yields_to_extensions = True
    needs_start = True
    required_word = b"subscriptionId"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        message, session, subscription = context.message, context.session, context.subscription
        if not is_named(context) or not isinstance(message, Notification) or context.cancels is not None:
            return ()
        named_id, subscriptions = subscription_id(message, message.meta), self.fold.links.subscriptions
        if context.http is not None:
            if not isinstance(subscription, ListenSubscription) or named_id == subscription.id:
                return ()
            differs_only_in_type, fault = converted_id(named_id) == subscription.id, "does not belong to this stream"
        elif subscription is not None or subscriptions.forgotten_count or session.unjudged.get("client") is not None:
            return ()
        else:
            differs_only_in_type = (
                subscriptions.last_listen(session, RequestKey(None, converted_id(named_id))) is not None
            )
            fault = "matches no subscription"
        fault = "has another JSON type than the id of the request" if differs_only_in_type else fault
        return [self.finding(context, f"the subscription id {shortened(named_id.text)} {fault}", pointer=_ID_POINTER)]


class OutsideSubscription(ListenRule):
    """A change is announced to a client that has no subscription.

    **Why it matters.** Since 2026-07-28 changes are announced only in subscriptions. A client that waits for a response
    does not expect them.

    **On the wire.** `< {"method":"notifications/tools/list_changed"}` on the stream that answers a `tools/call`

    **Instead.** Announce changes only in subscriptions; other clients request the data again when they need it.
    """

    id = "listen/outside-subscription"
    methods = _CHANGE_METHODS
    source = "2026-07-28 basic/patterns/subscriptions; 2026-07-28 schema"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if not is_change(context):
            return ()
        if context.http is not None:
            requests = requests_in(context)
            if not requests or any(request.method == LISTEN for request in requests):
                return ()
            text = f"a change is announced on the stream of {shortened(requests[0].method)}"
            return [self.finding(context, text, pointer="/method", related=(requests[0].seq,))]
        session = context.session
        is_uncertain = not session.observed_start or session.unjudged.get("client") is not None
        if (
            is_uncertain
            or is_named(context)
            or is_listening(session, self.fold)
            or self.fold.links.subscriptions.forgotten_count
        ):
            return ()
        return [self.finding(context, "a change is announced, but the client has no subscription", pointer="/method")]


class RequestScopedOnListen(ListenRule):
    """Progress or a log message is sent in a subscription.

    **Why it matters.** Both belong to a request and must be sent on its stream. A client that listens for changes does
    not expect them.

    **On the wire.** `< {"method":"notifications/message",…}` on the stream of a `subscriptions/listen`

    **Instead.** Send them on the stream of the request that they are about, without a subscription id.
    """

    id = "listen/request-scoped-on-listen"
    methods = frozenset({PROGRESS, "notifications/message"})
    replaces = (
        *("progress/wrong-stream", "progress/unknown-token", "logging/not-requested"),
        *("listen/not-acknowledged-first", "listen/unknown-subscription-id", "listen/after-end"),
    )
    source = "2026-07-28 basic/transports/streamable-http; 2026-07-28 server/utilities/logging"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        listen_requests = (
            () if context.http is None else [request for request in requests_in(context) if request.method == LISTEN]
        )
        if not listen_requests and not is_named(context):
            return ()
        kind = "progress" if member(context.body, "method") == PROGRESS else "a log message"
        related = tuple(request.seq for request in listen_requests[:1])
        return [self.finding(context, f"{kind} is sent in a subscription", pointer="/method", related=related)]
