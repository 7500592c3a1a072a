"""How a subscription begins: the request and its acknowledgement."""

from collections.abc import Iterable

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.subscriptions import (
    ACKNOWLEDGED,
    DRAFT_MEMBERS,
    LISTEN,
    ListenFilter,
    ListenSubscription,
)
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.listenings import (
    ListenMessageRule,
    ListenRule,
    ListenStreamRule,
    has_all_messages,
    is_named,
)

_POINTER = "/params/notifications"


class NotAcknowledgedFirst(ListenMessageRule):
    """The first message of a subscription is not its acknowledgement.

    **Why it matters.** The acknowledgement says which changes the server will announce. Clients that wait for it drop
    earlier messages.

    **On the wire.** `> {"id":"l","method":"subscriptions/listen",…}` and then
    `< {"method":"notifications/tools/list_changed",…}`

    **Instead.** Send `notifications/subscriptions/acknowledged` before anything else with that subscription id.
    """

    id = "listen/not-acknowledged-first"
    yields_to_extensions = True
    required_word = b"subscriptionId"

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        if self.id in subscription.memory or not is_named(context):
            return ()
        subscription.memory[self.id] = True
        if subscription.acknowledgement_count or context.cancels is not None or not has_all_messages(subscription):
            return ()
        text = "a subscription begins with something other than its acknowledgement"
        return [self.finding(context, text, pointer="/method", related=(subscription.seq,))]


class NeverAcknowledged(ListenRule, ListenStreamRule):
    """A subscription ends without ever having been acknowledged.

    **Why it matters.** The client never learned which changes it was subscribed to, if any.

    **On the wire.** `> {"id":"l","method":"subscriptions/listen",…}` and then `< {"id":"l","result":{…}}`

    **Instead.** Acknowledge first. Leave unsupported changes out of the acknowledgement; answer with an error if you
    cannot grant the subscription at all.
    """

    id = "listen/never-acknowledged"
    methods = frozenset({LISTEN})
    replaces = ("listen/abrupt-end",)
    _text = "a subscription ends without having been acknowledged"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        subscription = context.subscription
        if (
            not isinstance(subscription, ListenSubscription)
            or subscription.acknowledgement_count
            or not has_all_messages(subscription)
        ):
            return ()
        return [self.finding(context, self._text, related=(subscription.seq,))]

    def on_stream_closed(self, http: HttpExchange, subscription: ListenSubscription) -> Iterable[Finding]:
        if subscription.acknowledgement_count or subscription.answered_ns is not None or http.end_ref is None:
            return ()
        return [self.finding(http.end_ref, self._text, related=(subscription.seq,), session=subscription.session)]


class DuplicateAcknowledgement(ListenMessageRule):
    """A subscription is acknowledged a second time.

    **Why it matters.** Some clients use the first acknowledgement and some the last, so they expect different
    notifications.

    **On the wire.** `< {"method":"notifications/subscriptions/acknowledged",…}`, twice with one subscription id

    **Instead.** Acknowledge once. To change the selection, the client ends this subscription and creates a new one.
    """

    id = "listen/duplicate-acknowledgement"
    level = WARNING
    impact = Impact.WRONG
    methods = frozenset({ACKNOWLEDGED})

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        if subscription.acknowledgement_count < 2:
            return ()
        return [self.finding(context, "this subscription was already acknowledged", related=(subscription.seq,))]


class AcknowledgedMore(ListenMessageRule):
    """The acknowledgement grants more than was requested.

    **Why it matters.** The client gets notifications that it cannot use, and may report them as errors.

    **On the wire.** `> …"notifications":{"toolsListChanged":true}` and
    `< …"notifications":{"toolsListChanged":true,"promptsListChanged":true}`

    **Instead.** Acknowledge at most the changes that were requested.
    """

    id = "listen/acknowledged-more"
    impact = Impact.WRONG
    methods = frozenset({ACKNOWLEDGED})

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        granted_filter, requested_filter = subscription.granted_filter, subscription.requested_filter
        if granted_filter is None or subscription.acknowledgement_count != 1:
            return ()
        extra_members = _extra_members(granted_filter, requested_filter)
        if not extra_members:
            return ()
        text = f"the acknowledgement grants more than was requested: {', '.join(extra_members)}"
        pointer, level = f"{_POINTER}/{extra_members[0]}", NOTE if DRAFT_MEMBERS.issuperset(extra_members) else None
        return [self.finding(context, text, pointer=pointer, related=(subscription.seq,), level=level)]


class AcknowledgedLess(ListenMessageRule):
    """The acknowledgement grants less than was requested.

    **Why it matters.** It is legal. Clients that do not compare the two wait for notifications that never come.

    **On the wire.** `> …"notifications":{"toolsListChanged":true,"promptsListChanged":true}` and
    `< …"notifications":{"toolsListChanged":true}`

    **Instead.** As a client, regularly request the lists that are not covered.
    """

    id = "listen/acknowledged-less"
    level = NOTE
    methods = frozenset({ACKNOWLEDGED})

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        granted_filter, requested_filter = subscription.granted_filter, subscription.requested_filter
        if granted_filter is None or subscription.acknowledgement_count != 1:
            return ()
        missing_members = _extra_members(requested_filter, granted_filter)
        if not missing_members:
            return ()
        text = f"the acknowledgement grants less than was requested, without {', '.join(missing_members)}"
        return [self.finding(context, text, pointer=_POINTER, related=(subscription.seq,))]


class EmptyFilter(Rule):
    """A subscription requests no notifications.

    **Why it matters.** It keeps a stream open on which no notification will ever come.

    **On the wire.** `> {"id":"l","method":"subscriptions/listen","params":{"notifications":{},…}}`

    **Instead.** Name the changes that you need, or do not subscribe.
    """

    id = "listen/empty-filter"
    who = "client"
    versions = MODERN_ERA
    level = NOTE
    impact = Impact.COST
    methods = frozenset({LISTEN})
    sender = "client"
    source = "2026-07-28 basic/patterns/subscriptions"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        selection = member(context.body.get("params"), "notifications")
        if not isinstance(selection, dict) or any(selection.values()):
            return ()
        return [self.finding(context, "the filter of this subscription selects nothing", pointer=_POINTER)]


# ---- shared by the rules


def _extra_members(filter_: ListenFilter, other: ListenFilter) -> list[str]:
    """Returns the names of the members of `filter_` that select something that `other` does not."""
    members = sorted(filter_.flags - other.flags)
    if any(uri not in other.uris for uri in filter_.uris):
        members.append("resourceSubscriptions")
    if filter_.task_ids - other.task_ids:
        members.append("taskIds")
    return members
