"""The notification that the list of types of events has changed."""

from collections.abc import Iterable

from analysis.conversation.call import MessageContext
from analysis.conversation.subscriptions import LISTEN, ListenSubscription
from analysis.protocol.extensions import EVENTS, EXTENSION_METHODS
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.finding import Finding
from analysis.rules.support.event_messages import LIST_CHANGED, EventsRule
from analysis.rules.support.extension_rules import UndeclaredExtension
from analysis.rules.support.listenings import is_listening, requests_in

_FILTER_MEMBER = EXTENSION_METHODS[LIST_CHANGED][1].filter_member


class UndeclaredListChange(UndeclaredExtension):
    """A server announces that its types of events have changed, but did not declare that it would.

    **Why it matters.** A client that does not expect such notifications keeps its old list.

    **On the wire.** `< …"extensions":{"io.modelcontextprotocol/events":{}}` …
    `< {"method":"notifications/events/list_changed",…}`

    **Instead.** Declare `"listChanged":true` in the settings of the extension.
    """

    id = "ext-events/undeclared-list-change"
    who = "server"
    extension = EVENTS
    methods = frozenset({LIST_CHANGED})
    once = True


class UnrequestedListChange(EventsRule):
    """A server announces that its types of events have changed to a client that did not request this.

    **Why it matters.** Such notifications come only in a `subscriptions/listen` that selects them. Other clients may
    drop them.

    **On the wire.** `> …"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},…}}` and
    `< {"method":"notifications/events/list_changed",…}`

    **Instead.** Send them only to subscriptions whose filter has `"eventsListChanged":true`.
    """

    id = "ext-events/unrequested-list-change"
    who = "server"
    sender = "server"
    era = "modern"
    versions = MODERN_ERA
    methods = frozenset({LIST_CHANGED})
    needs_start = True
    needs_session = True
    once = True

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        subscription, session = context.subscription, context.session
        if isinstance(subscription, ListenSubscription):
            if _FILTER_MEMBER in subscription.requested_filter.flags:
                return ()
            text = f"the subscription did not request {_FILTER_MEMBER}"
            return [self.finding(context, text, pointer="/method", related=(subscription.seq,))]
        if session.unjudged.get("client") is not None or self.fold.links.subscriptions.forgotten_count:
            return ()
        if context.http is None:
            is_in_subscription = is_listening(session, self.fold)
        else:
            requests = requests_in(context)
            is_in_subscription = not requests or any(request.method == LISTEN for request in requests)
        if is_in_subscription:
            return ()
        return [self.finding(context, "the client did not subscribe to changes of this list", pointer="/method")]
