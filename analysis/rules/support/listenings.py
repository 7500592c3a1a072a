"""Base classes for rules about `subscriptions/listen`, and which request a message or exchange belongs to."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Notification, Request
from analysis.conversation.session import Session
from analysis.conversation.subscriptions import CHANGES, LISTEN, SUBSCRIPTION_ID, ListenSubscription
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import Rule, Who
from analysis.rules.finding import Finding
from analysis.rules.odd_exchange import OddExchange


class ListenRule(Rule):
    """A rule about a server and a `subscriptions/listen`."""

    who: ClassVar[Who] = "server"
    versions = MODERN_ERA
    era = "modern"
    sender = "server"
    source = "2026-07-28 basic/patterns/subscriptions"


class ListenMessageRule(ListenRule):
    """A rule about notifications that belong to a `subscriptions/listen`."""

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        listening = context.subscription
        return self.check(context, listening) if isinstance(listening, ListenSubscription) else ()

    def check(self, context: MessageContext, listening: ListenSubscription) -> Iterable[Finding]:
        """Findings for a notification of a `subscriptions/listen`."""
        raise NotImplementedError


class ListenStreamRule(Rule):
    """A rule about how a `subscriptions/listen` ends on its stream."""

    who: ClassVar[Who] = "server"
    versions = MODERN_ERA
    exchanges = OddExchange.LISTENING

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterable[Finding]:
        """Check streams that the server itself has ended, as a broken connection may have any cause."""
        if http.ended_by != "complete" or http.status is None or http.status >= 300 or http.over is None:
            return ()
        if session.is_legacy or not http.is_streamable:
            return ()  # the response to a POST is not a stream there
        return self._in_stream(http)

    def _in_stream(self, http: HttpExchange) -> Iterator[Finding]:
        for context in http.sent:
            request = context.message
            if isinstance(request, Request) and request.method == LISTEN:
                key = RequestKey(request.frames[0].exchange, request.id)
                listening = self.fold.links.subscriptions.listening(context.session, key)
                is_left = listening is None or listening.cancelled_by_client_ns is not None or listening.is_refused
                if listening is not None and not is_left and is_sure(listening):
                    yield from self.closed(http, listening)

    def closed(self, http: HttpExchange, listening: ListenSubscription) -> Iterable[Finding]:
        """Findings for the end of a `subscriptions/listen` stream that the server has closed."""
        raise NotImplementedError


def is_sure(listening: ListenSubscription) -> bool:
    """Whether all messages of the server since the request are known."""
    session = listening.session
    return max(session.lost_seq, session.unjudged.get("server", -1)) < listening.seq


def is_listening(session: Session, fold: Fold) -> bool:
    """Whether a session on stdio has an open `subscriptions/listen`, as far as known."""
    return fold.links.subscriptions.is_listening(session)


def is_change(context: MessageContext) -> bool:
    """Whether it is a notification of a change."""
    return isinstance(context.message, Notification) and context.message.method in CHANGES


def requests_in(context: MessageContext) -> list[Request]:
    """Returns the client's requests in the exchange of a message, or an empty list on stdio."""
    sent = () if context.http is None else context.http.sent
    return [seen_request.message for seen_request in sent if isinstance(seen_request.message, Request)]


def is_named(context: MessageContext) -> bool:
    """Whether a message names the `subscriptions/listen` to which it belongs."""
    return isinstance(context.message, Notification) and SUBSCRIPTION_ID in context.message.meta
