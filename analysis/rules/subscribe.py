"""The group `subscribe`: subscriptions to single resources, up to 2025-11-25."""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.subscriptions import UPDATED, ResourceSubscription
from analysis.protocol.revisions import HANDSHAKE_ERA
from analysis.rules.base import NOTE, RACE_NS, WARNING, ResponsibleSide, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.progress import is_replay
from analysis.rules.support.eras import member

_POINTER: Final = "/params/uri"


class _UpdateRule(Rule):
    """The base class of the rules about updates."""

    who: ClassVar[ResponsibleSide] = "server"
    versions = HANDSHAKE_ERA
    level = WARNING
    methods = frozenset({UPDATED, "resources/unsubscribe"})
    sender = "server"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        last_unsubscribe: dict[str, int] = self.state_for(context.session, dict)
        last_unsubscribe["ns"] = context.message.t_ns
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        uri, session = member(context.body.get("params"), "uri"), context.session
        if not isinstance(uri, str) or is_replay(context):
            return ()
        last_unsubscribe: dict[str, int] | None = session.memory.get(self.id)
        if last_unsubscribe and context.http is not None and context.message.t_ns <= last_unsubscribe["ns"] + RACE_NS:
            return ()  # the order between two streams is unknown
        return self.check_update(
            context, context.subscription if isinstance(context.subscription, ResourceSubscription) else None
        )

    def check_update(self, context: MessageContext, subscription: ResourceSubscription | None) -> Iterable[Finding]:
        """Returns the findings about an update of a resource; `subscription` is None if the client has none to it."""
        raise NotImplementedError


class UpdateWithoutSubscription(_UpdateRule):
    """A server announces a change of a resource to which the client has not subscribed.

    **Why it matters.** Clients drop it, or needlessly read a resource that they do not show. Often the server sends
    updates to all sessions instead of only to subscribers.

    **On the wire.** `> {"id":2,"method":"resources/subscribe","params":{"uri":"file:///a"}}` and
    `< {"method":"notifications/resources/updated","params":{"uri":"file:///b"}}`

    **Instead.** Keep a list of URIs for each session. You may also announce changes of a part of a resource, such as
    `file:///a/1`.
    """

    id = "subscribe/update-without-subscription"
    needs_session = True
    needs_start = True
    source = "2024-11-05 schema ResourceUpdatedNotification"

    def check_update(self, context: MessageContext, subscription: ResourceSubscription | None) -> Iterable[Finding]:
        session = context.session
        if subscription is not None and not subscription.is_refused:
            return ()
        if self.fold.links.subscriptions.forgotten_count or session.unjudged.get("client") is not None:
            return ()
        declaration = session.declared.get("handshake")
        if declaration is not None and UPDATED in declaration.uncovered_methods:
            return ()  # `capability/undeclared-resource-updates` reports it
        return [self.finding(context, "the client has not subscribed to this resource", pointer=_POINTER)]


class UpdateAfterUnsubscribe(_UpdateRule):
    """A server announces a change of a resource although it has ended the subscription.

    **Why it matters.** The client has released the resource, but the server keeps watching it.

    **On the wire.** `> {"id":3,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}`,
    `< {"id":3,"result":{}}` and then `< {"method":"notifications/resources/updated","params":{"uri":"file:///a"}}`

    **Instead.** Remove the URI from the list before you answer. An update that comes before the response is fine.
    """

    id = "subscribe/update-after-unsubscribe"
    needs_session = True
    replaces = ("subscribe/update-without-subscription",)
    source = "2024-11-05 schema"

    def check_update(self, context: MessageContext, subscription: ResourceSubscription | None) -> Iterable[Finding]:
        if subscription is None or subscription.is_open or subscription.is_refused:
            return ()
        session = context.session
        if max(session.lost_seq, session.unjudged.get("client", -1)) >= subscription.seq:
            return ()  # the client may have subscribed again
        text = "the subscription to this resource has ended"
        return [self.finding(context, text, pointer=_POINTER, related=(subscription.seq,))]


class UnsubscribeUnknown(Rule):
    """A client unsubscribes from a resource to which it has not subscribed.

    **Why it matters.** The request has no effect. If the URI is merely spelt differently than in a subscription, that
    subscription continues.

    **On the wire.** `> {"id":3,"method":"resources/unsubscribe","params":{"uri":"file:///b"}}`, without a subscription
    to that URI

    **Instead.** Use exactly the URI of the subscription.
    """

    id = "subscribe/unsubscribe-unknown"
    needs_session = True
    who = "client"
    versions = HANDSHAKE_ERA
    level = NOTE
    impact = Impact.COST
    needs_start = True
    methods = frozenset({"resources/unsubscribe"})
    sender = "client"
    source = "2024-11-05 schema UnsubscribeRequest"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        has_uri = isinstance(member(context.body.get("params"), "uri"), str)
        if not has_uri or context.subscription is not None or self.fold.links.subscriptions.forgotten_count:
            return ()
        return [self.finding(context, "the client has no subscription to this resource", pointer=_POINTER)]


class Duplicate(Rule):
    """A client subscribes to a resource a second time.

    **Why it matters.** It does no harm unless the server announces each change twice. One `unsubscribe` ends both.

    **On the wire.** `> {"id":2,"method":"resources/subscribe","params":{"uri":"file:///a"}}` and, after its result, the
    same with another id

    **Instead.** Keep track of your subscriptions.
    """

    id = "subscribe/duplicate"
    needs_session = True
    who = "client"
    versions = HANDSHAKE_ERA
    level = NOTE
    methods = frozenset({"resources/subscribe"})
    sender = "client"
    source = "2024-11-05 server/resources"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        subscription = context.subscription
        if (
            not isinstance(subscription, ResourceSubscription)
            or subscription.seq == context.message.seq
            or subscription.since_ns is None
        ):
            return ()
        if context.session.lost_seq >= subscription.seq:
            return ()  # the subscription may have ended
        text = "the client has already subscribed to this resource"
        return [self.finding(context, text, pointer=_POINTER, related=(subscription.seq,))]
