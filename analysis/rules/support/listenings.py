"""Base classes and helpers for rules about `subscriptions/listen`."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Notification, Request
from analysis.conversation.session import Session
from analysis.conversation.subscriptions import CHANGES, LISTEN, SUBSCRIPTION_ID, ListenSubscription
from analysis.protocol.methods import METHODS
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import ResponsibleSide, Rule
from analysis.rules.finding import Finding
from analysis.rules.odd_exchange import ExchangeOddity


class ListenRule(Rule):
    """A rule about what a server sends for a `subscriptions/listen`."""

    who: ClassVar[ResponsibleSide] = "server"
    versions = MODERN_ERA
    era = "modern"
    sender = "server"
    source = "2026-07-28 basic/patterns/subscriptions"


class ListenMessageRule(ListenRule):
    """A rule about notifications that belong to a `subscriptions/listen`."""

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        subscription = context.subscription
        return self.check(context, subscription) if isinstance(subscription, ListenSubscription) else ()

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        """Returns the findings about a notification that belongs to a `subscriptions/listen`."""
        raise NotImplementedError


class ListenStreamRule(Rule):
    """A rule about how a `subscriptions/listen` ends on its stream."""

    who: ClassVar[ResponsibleSide] = "server"
    versions = MODERN_ERA
    exchanges = ExchangeOddity.LISTENING

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterable[Finding]:
        """Check a stream that the server itself has ended; a broken connection may have any cause."""
        if http.ended_by != "complete" or http.status is None or http.status >= 300 or http.end_ref is None:
            return ()
        if session.is_legacy or not http.is_streamable:
            return ()  # in other transports, the response to a POST is not a stream
        return self._check_stream(http)

    def _check_stream(self, http: HttpExchange) -> Iterator[Finding]:
        for context in http.client_messages:
            request = context.message
            if isinstance(request, Request) and request.method == LISTEN:
                key = RequestKey(request.frames[0].exchange, request.id)
                subscription = self.fold.links.subscriptions.last_listen(context.session, key)
                is_excused = (
                    subscription is None or subscription.cancelled_by_client_ns is not None or subscription.is_refused
                )
                if subscription is not None and not is_excused and has_all_messages(subscription):
                    yield from self.on_stream_closed(http, subscription)

    def on_stream_closed(self, http: HttpExchange, subscription: ListenSubscription) -> Iterable[Finding]:
        """Returns the findings about a `subscriptions/listen` stream that the server has closed."""
        raise NotImplementedError


def has_all_messages(subscription: ListenSubscription) -> bool:
    """Whether the capture contains all messages that the server has sent since the request."""
    session = subscription.session
    return max(session.lost_seq, session.unjudged.get("server", -1)) < subscription.seq


def is_listening(session: Session, fold: Fold) -> bool:
    """Whether a session on stdio has an open `subscriptions/listen`, as far as the capture shows."""
    return fold.links.subscriptions.is_listening(session)


def is_change(context: MessageContext) -> bool:
    """Whether a message is a notification of a change."""
    return isinstance(context.message, Notification) and context.message.method in CHANGES


def requests_in(context: MessageContext) -> list[Request]:
    """Returns the client's requests in the exchange of a message, or an empty list on stdio."""
    sent_contexts = () if context.http is None else context.http.client_messages
    return [sent_context.message for sent_context in sent_contexts if isinstance(sent_context.message, Request)]


def is_named(context: MessageContext) -> bool:
    """Whether a message names the `subscriptions/listen` to which it belongs.

    Extensions use the same member of `_meta` to name their own requests, so only methods of the core count, and those
    that a `subscriptions/listen` can request.
    """
    message = context.message
    if not isinstance(message, Notification) or not (message.method in METHODS or message.method in CHANGES):
        return False
    return SUBSCRIPTION_ID in message.meta
