"""The end of a subscription, and messages that are sent after it."""

from collections.abc import Iterable, Iterator

from analysis.conversation.call import MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Notification, Response
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session
from analysis.conversation.subscriptions import LISTEN, SUBSCRIPTION_ID, ListenSubscription, subscription_id
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.listenings import (
    ListenMessageRule,
    ListenRule,
    ListenStreamRule,
    has_all_messages,
    is_named,
)

_ID_POINTER = "/result/_meta/io.modelcontextprotocol~1subscriptionId"
_PAGE = "2026-07-28 basic/patterns/subscriptions"


class AfterEnd(ListenMessageRule):
    """A message is sent in a subscription after its end.

    **Why it matters.** The client has released the subscription, and may have reused its id.

    **On the wire.** `< {"id":"l","result":{…}}` and then `< {"method":"notifications/tools/list_changed",…}` with the
    subscription id `l`

    **Instead.** Remove the subscription from your list before you send its result.
    """

    id = "listen/after-end"
    yields_to_extensions = True
    impact = Impact.WRONG
    required_word = b"subscriptionId"

    def check(self, context: MessageContext, subscription: ListenSubscription) -> Iterable[Finding]:
        # A server may end a subscription with both a result and a cancellation, in either order.
        if context.cancels is not None or not is_named(context) or not isinstance(context.message, Notification):
            return ()
        if subscription.answered_ns is None and subscription.cancelled_by_server_ns is None:
            return self._findings_after_client_end(context, subscription, _client_cancel_seq(subscription, self.fold))
        text = f"{context.method} is sent in a subscription that the server has ended"
        return [self.finding(context, text, pointer="/method", related=(subscription.seq,))]

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        subscription, call = context.subscription, context.answered
        if not isinstance(subscription, ListenSubscription) or call is None:
            return ()
        is_by_client = call.cancelled_ns is not None and call.cancelled_ns == subscription.cancelled_by_client_ns
        return self._findings_after_client_end(context, subscription, call.cancelled_seq if is_by_client else None)

    def _findings_after_client_end(
        self, context: MessageContext, subscription: ListenSubscription, cancel_seq: int | None
    ) -> Iterable[Finding]:
        if cancel_seq is None or not context.session.has_received("server", cancel_seq):
            return ()
        text = "a message is sent in a subscription that the client has ended"
        return [self.finding(context, text, related=(subscription.seq, cancel_seq))]


class ResultWithoutSubscriptionId(ListenRule):
    """The result that ends a subscription does not contain its subscription id.

    **Why it matters.** The id tells clients which subscription the server has ended.

    **On the wire.** `< {"id":"l","result":{"resultType":"complete"}}`

    **Instead.** `…"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l",…}}`
    """

    id = "listen/result-without-subscription-id"
    methods = frozenset({LISTEN})
    replaces = ("schema/invalid-result",)
    source = f"{_PAGE}; 2026-07-28 schema"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        response = context.message
        if not isinstance(response, Response) or response.id is None or context.is_converted:
            return ()
        if SUBSCRIPTION_ID not in response.meta:
            text = "the result of a subscription has no subscription id"
            has_meta = isinstance(member(context.body.get("result"), "_meta"), dict)
            return [self.finding(context, text, pointer=_ID_POINTER if has_meta else "/result/_meta")]
        if subscription_id(response, response.meta) == response.id:
            return ()
        text = "the result of a subscription has a subscription id that differs from its id"
        return [self.finding(context, text, pointer=_ID_POINTER)]


class AbruptEnd(ListenStreamRule):
    """A server closes the stream of a subscription without a result.

    **Why it matters.** The client cannot distinguish this from a network failure, and reconnects at once although the
    server ended the subscription on purpose.

    **On the wire.** The stream of a `subscriptions/listen` ends after a change, without a result.

    **Instead.** Send the result of the request, then close.
    """

    id = "listen/abrupt-end"
    level = WARNING
    impact = Impact.COST
    needs_http = True
    source = _PAGE

    def on_stream_closed(self, http: HttpExchange, subscription: ListenSubscription) -> Iterable[Finding]:
        is_announced = subscription.answered_ns is not None or subscription.cancelled_by_server_ns is not None
        if is_announced or http.end_ref is None:
            return ()
        text = "the server closes the stream of a subscription without a result"
        return [self.finding(http.end_ref, text, related=(subscription.seq,), session=subscription.session)]


class EndedByCancelOnly(Rule):
    """A server ends a subscription with a cancellation but no result, or with a result but no cancellation.

    **Why it matters.** One page of the specification requires a cancellation, and another recommends a result. Either
    is fine, but clients have to understand both.

    **On the wire.** `< {"method":"notifications/cancelled","params":{"requestId":"l"}}`, and no result

    **Instead.** Send both: some clients understand only one of them.
    """

    id = "listen/ended-by-cancel-only"
    who = "server"
    versions = MODERN_ERA
    level = NOTE
    source = "2026-07-28 basic/patterns/cancellation; 2026-07-28 basic/patterns/subscriptions"

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        if ending.reason == "open":
            return
        for subscription in self.fold.links.subscriptions.listen_subscriptions(session):
            has_result = subscription.answered_ns is not None and not subscription.is_refused
            is_cancelled = subscription.cancelled_by_server_ns is not None
            if has_result == is_cancelled or subscription.is_refused or not has_all_messages(subscription):
                continue
            text = "the server ends a subscription only with its result"
            if is_cancelled:
                text = "the server ends a subscription only with a cancellation"
            yield self.finding(RecordRef(subscription.seq, subscription.requested_ns), text, session=session)


# ---- shared by the rules


def _client_cancel_seq(subscription: ListenSubscription, fold: Fold) -> int | None:
    """Returns the number of the client's cancellation, or None if there is none."""
    if subscription.cancelled_by_client_ns is None:
        return None
    open_call = fold.tables["client"].get(subscription.key)
    return open_call.cancelled_by if open_call is not None and open_call.request.seq == subscription.seq else None
