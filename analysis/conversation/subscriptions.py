"""Subscriptions: the changes of which a client wants to be notified, and the resulting messages.

Up to 2025-11-25 a client subscribes to one resource at a time, by its URI. Since 2026-07-28 it sends one request that
stays open, `subscriptions/listen`, with a filter; the resulting messages carry the id of that request, and over HTTP
they come on the stream of its exchange, which decides if the two disagree.

Memory is bounded by the number of subscriptions and by the bytes of the requests for them. Forgotten subscriptions are
counted.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from analysis.conversation.addressing import RequestKey
from analysis.conversation.message import Id, Notification, Request, Response, id_of, parse_exactly
from analysis.conversation.session import Session
from analysis.facts import size_of
from analysis.protocol.extensions import EXTENSION_METHODS, is_draft

MAX_SUBSCRIPTIONS: Final = 10_000
"""The most subscriptions that are kept, including ended ones; the oldest are forgotten first."""
MAX_TOTAL_SUBSCRIPTION_BYTES: Final = 8 << 20
"""The most bytes in the frames that requested or acknowledged them; a single subscription may exceed the limit."""
MAX_PREFIX_URI_CHARS: Final = 512
"""The most characters of a URI that can match longer URIs as a prefix; a longer URI matches only itself."""

MAX_SEARCHED_SUBSCRIPTIONS: Final = 1_000
"""The most subscriptions of a session that are searched for an open one."""

SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
"""The member of `_meta` that names the `subscriptions/listen` to which a message belongs."""
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
REQUESTS: Final = frozenset({"resources/subscribe", "resources/unsubscribe", LISTEN})
NOTIFICATIONS: Final = frozenset({UPDATED, "resources/updated"})
"""Methods of notifications about a subscribed resource, including a spelling without the prefix."""

_EXTENSION_CHANGES: Final = {
    name: method.filter_member for name, (_, method) in EXTENSION_METHODS.items() if method.filter_member
}
CHANGES: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    UPDATED: "resourceSubscriptions",
    **{name: member for name, member in _EXTENSION_CHANGES.items() if not is_draft(name)},
}
"""The methods of change notifications, and the members of a filter that select them; drafts are left out."""
DRAFT_MEMBERS: Final = frozenset(_EXTENSION_CHANGES.values()) - frozenset(CHANGES.values())
"""The members of a filter that only drafts of extensions define."""


ValidMessage: TypeAlias = Request | Notification | Response
"""A valid message."""


class UriPrefixSet:
    """A set of URIs in which the prefixes of another URI can be found."""

    def __init__(self, uris: Iterable[str] = ()) -> None:
        self._uris: set[str] = set()
        self._lengths: dict[int, int] = {}
        for uri in uris:
            self.add(uri)

    def __len__(self) -> int:
        return len(self._uris)

    def __iter__(self) -> Iterator[str]:
        return iter(self._uris)

    def __contains__(self, uri: object) -> bool:
        return uri in self._uris

    def add(self, uri: str) -> None:
        """Add a URI; adding it again changes nothing."""
        if uri not in self._uris:
            self._uris.add(uri)
            if len(uri) <= MAX_PREFIX_URI_CHARS:
                self._lengths[len(uri)] = self._lengths.get(len(uri), 0) + 1

    def discard(self, uri: str) -> None:
        """Remove a URI, if present."""
        if uri in self._uris:
            self._uris.remove(uri)
            if len(uri) <= MAX_PREFIX_URI_CHARS:
                self._lengths[len(uri)] -= 1
                if not self._lengths[len(uri)]:
                    del self._lengths[len(uri)]

    def longest_prefix(self, uri: str) -> str | None:
        """Returns the longest URI that is a prefix of `uri` or equals it, or None.

        An update may concern a part of a resource.

        """
        if uri in self._uris:
            return uri
        matching_lengths = (length for length in self._lengths if length < len(uri) and uri[:length] in self._uris)
        length = max(matching_lengths, default=None)
        return None if length is None else uri[:length]


class ListenFilter(NamedTuple):
    """The filter that a `subscriptions/listen` requests, or that its acknowledgement grants."""

    flags: frozenset[str]
    """Members that are true, such as `toolsListChanged`."""
    uris: UriPrefixSet
    """The URIs in `resourceSubscriptions`."""
    task_ids: frozenset[str]
    """The ids in `taskIds`, a member of the tasks extension."""

    @property
    def types(self) -> frozenset[str]:
        """The members of the filter that select something."""
        lists = (("resourceSubscriptions", self.uris), ("taskIds", self.task_ids))
        return self.flags | {name for name, values in lists if values}

    def selects(self, method: str) -> bool:
        """Whether the filter selects notifications of a method; only change notifications can be selected."""
        return CHANGES.get(method) in self.types


class ResourceSubscription:
    """A resource to which a client of the handshake era has subscribed, or has tried to."""

    def __init__(self, session: Session, uri: str, request: Request) -> None:
        self.session = session
        self.uri = uri
        self.seq = request.seq
        """Number of the frame that first requested the subscription."""
        self.requested_ns = request.t_ns
        self.since_ns: int | None = None
        """Stamp of the result that created the subscription."""
        self.unsubscribed_ns: int | None = None
        """Stamp of an `unsubscribe` that was not refused; updates may still come until its response."""
        self.ended_ns: int | None = None
        """Stamp of the response to `unsubscribe`, or of the refusal of the subscription."""
        self.is_refused = False
        """Whether the request for the subscription was answered with an error."""
        self.update_count = 0
        """The number of notifications for this subscription."""
        self.memory: dict[str, Any] = {}
        """State that rules keep, by their ids."""
        self.size = size_of(request.frames)

    @property
    def is_open(self) -> bool:
        """Whether updates may come: from the request for the subscription to the response to `unsubscribe`."""
        return self.ended_ns is None


class ListenSubscription:
    """A `subscriptions/listen` and its history."""

    def __init__(self, session: Session, key: RequestKey, request: Request) -> None:
        params = request.params
        self.session = session
        self.key = key
        """The key of the request: its exchange, which is None on stdio, and its id, which is also that of the
        subscription."""
        self.seq = request.seq
        """Number of the frame of the request."""
        self.requested_ns = request.t_ns
        self.requested_filter = _filter(params.get("notifications") if isinstance(params, dict) else None)
        self.granted_filter: ListenFilter | None = None
        """The filter that the first acknowledgement grants; None before it."""
        self.acknowledged_ns: int | None = None
        """Stamp of the first acknowledgement."""
        self.acknowledgement_count = 0
        self.message_count = 0
        """How many messages belong to the subscription, including acknowledgements but not the response to the
        request."""
        self.answered_ns: int | None = None
        """Stamp of the response to the request, which ends the subscription."""
        self.is_refused = False
        """Whether the response is an error."""
        self.cancelled_by_client_ns: int | None = None
        self.cancelled_by_server_ns: int | None = None
        self.stream_ended_ns: int | None = None
        """When the exchange of the request ended."""
        self.stream_ended_by: str | None = None
        """How that exchange ended: `complete`, `client`, `server`, `proxy` or `error`."""
        self.memory: dict[str, Any] = {}
        """State that rules keep, by their ids."""
        self.size = size_of(request.frames)

    @property
    def id(self) -> Id:
        """The id of the subscription."""
        return self.key.id

    @property
    def ended_ns(self) -> int | None:
        """When the subscription first ended, in any way, or None while it is open."""
        ends = (self.answered_ns, self.cancelled_by_client_ns, self.cancelled_by_server_ns, self.stream_ended_ns)
        return min((end for end in ends if end is not None), default=None)

    @property
    def is_open(self) -> bool:
        """Whether the subscription has not ended."""
        return self.ended_ns is None


Subscription: TypeAlias = ResourceSubscription | ListenSubscription


class Subscriptions:
    """The subscriptions of a capture."""

    def __init__(self, limit: int = MAX_SUBSCRIPTIONS, bytes_limit: int = MAX_TOTAL_SUBSCRIPTION_BYTES) -> None:
        """Create an empty table of subscriptions.

        Args:
            limit: the most subscriptions that are kept.
            bytes_limit: the most bytes in the frames that requested or acknowledged them.
        """
        self.forgotten_count = 0
        """How many subscriptions had to be forgotten: their messages are assigned to nothing."""
        self.has_listen = False
        """Whether the capture contains a `subscriptions/listen`: only then can a message belong to one."""
        self._limit, self._bytes_limit, self._bytes = limit, bytes_limit, 0
        self._all: OrderedDict[Subscription, None] = OrderedDict()
        self._by_uri: dict[int, dict[str, ResourceSubscription]] = {}
        self._open_uris: dict[int, UriPrefixSet] = {}
        self._by_key: dict[int, dict[RequestKey, ListenSubscription]] = {}
        self._by_exchange: dict[int, list[ListenSubscription]] = {}
        self._requested: OrderedDict[tuple[int, int | None], ResourceSubscription] = OrderedDict()
        self._requested_bytes = 0

    def __len__(self) -> int:
        """The number of subscriptions that are kept."""
        return len(self._all)

    def resources(self, session: Session) -> list[ResourceSubscription]:
        """Returns the resource subscriptions of a session: the last one for each URI."""
        return list(self._by_uri.get(session.number, {}).values())

    def listen_subscriptions(self, session: Session) -> list[ListenSubscription]:
        """Returns the listen subscriptions of a session: the last one for each id."""
        return list(self._by_key.get(session.number, {}).values())

    def last_listen(self, session: Session, key: RequestKey) -> ListenSubscription | None:
        """Returns the last listen subscription of a session under a key, open or not, or None."""
        return self._by_key.get(session.number, {}).get(key)

    def is_listening(self, session: Session) -> bool:
        """Whether any of the latest listen subscriptions of a session is open."""
        return any(
            subscription.is_open
            for subscription in islice(
                reversed(self._by_key.get(session.number, {}).values()), MAX_SEARCHED_SUBSCRIPTIONS
            )
        )

    # ---- events

    def on_request(self, request: Request, session: Session) -> Subscription | None:
        """Process a request that begins or ends a subscription; return the subscription, or None if it ends none."""
        if request.method == LISTEN:
            return self._listen(request, session)
        params = request.params
        uri = params.get("uri") if isinstance(params, dict) else None
        if not isinstance(uri, str):
            return None
        subscription = self._by_uri.get(session.number, {}).get(uri)
        if request.method == "resources/subscribe":
            if subscription is None or not subscription.is_open or subscription.unsubscribed_ns is not None:
                subscription = self._subscribe(uri, request, session, subscription)
        elif subscription is None:
            return None
        elif subscription.is_open and subscription.unsubscribed_ns is None:
            subscription.unsubscribed_ns = request.t_ns
        self._remember_request(request, subscription)
        return subscription

    def on_response(self, request: Request, response: Response, session: Session) -> Subscription | None:
        """Process the response to a request that begins or ends a subscription; return the subscription."""
        if request.method == LISTEN:
            listen_subscription = self._listen_of_request(request, session)
            if listen_subscription is not None and listen_subscription.answered_ns is None:
                listen_subscription.answered_ns, listen_subscription.is_refused = response.t_ns, response.is_error
            return listen_subscription
        subscription = self._pop_request(request)
        if subscription is None:
            return None
        if request.method == "resources/subscribe":
            self._on_subscribe_response(subscription, response)
        elif response.is_error:
            subscription.unsubscribed_ns = None  # the subscription continues, as far as is known
        elif subscription.is_open:
            self._end(subscription, response.t_ns)
        return subscription

    def on_resource_updated(self, notification: Notification, session: Session) -> ResourceSubscription | None:
        """Process a resource update; return the subscription to the resource, or to a resource that contains it.

        The subscription has ended if no open one fits.
        """
        params = notification.params
        uri = params.get("uri") if isinstance(params, dict) else None
        by_uri = self._by_uri.get(session.number)
        if by_uri is None or not isinstance(uri, str):
            return None
        subscribed_uri = self._open_uris[session.number].longest_prefix(uri)
        subscription = by_uri.get(uri if subscribed_uri is None else subscribed_uri)
        if subscription is not None:
            subscription.update_count += 1
        return subscription

    def on_server_message(
        self, message: ValidMessage, meta: dict[str, Any], session: Session, exchange: int | None
    ) -> ListenSubscription | None:
        """Process a server message; return the listen subscription to which it belongs, or None.

        Args:
            message: the message.
            meta: the `_meta` of the message.
            session: its session.
            exchange: number of the HTTP exchange that carried it, or of the first one if it repeats a redirected
                exchange; None on stdio.
        """
        subscription = self._listen_of_message(message, meta, session, exchange)
        if subscription is None or isinstance(message, Response):
            return subscription
        subscription.message_count += 1
        if isinstance(message, Notification) and message.method == ACKNOWLEDGED:
            subscription.acknowledgement_count += 1
            if subscription.granted_filter is None:
                params = message.params
                subscription.granted_filter = _filter(params.get("notifications") if isinstance(params, dict) else None)
                subscription.acknowledged_ns = message.t_ns
                subscription.size += size_of(message.frames)
                self._bytes += size_of(message.frames)
                self._enforce_limits()
        return subscription

    def on_cancelled(self, request: Request, by: Notification, session: Session) -> ListenSubscription | None:
        """Process the cancellation of a request; return the subscription that it ends, if any."""
        if request.method != LISTEN:
            return None
        subscription = self._listen_of_request(request, session)
        if subscription is not None and by.sender == "client" and subscription.cancelled_by_client_ns is None:
            subscription.cancelled_by_client_ns = by.t_ns
        elif subscription is not None and by.sender == "server" and subscription.cancelled_by_server_ns is None:
            subscription.cancelled_by_server_ns = by.t_ns
        return subscription

    def on_stream_ended(self, exchange: int, t_ns: int, by: str | None) -> None:
        """End the subscriptions of an HTTP exchange that has ended, except on the older transport.

        Args:
            exchange: the number of the exchange, or of the first one if it repeats a redirected exchange.
            t_ns: when it ended.
            by: how it ended, as in `ListenSubscription.stream_ended_by`.
        """
        for subscription in self._by_exchange.get(exchange, ()):
            if subscription.stream_ended_ns is None and not subscription.session.is_legacy:
                subscription.stream_ended_ns, subscription.stream_ended_by = t_ns, by

    def _subscribe(
        self, uri: str, request: Request, session: Session, earlier: ResourceSubscription | None
    ) -> ResourceSubscription:
        if earlier is not None:
            self._drop(earlier)
        subscription = ResourceSubscription(session, uri, request)
        self._by_uri.setdefault(session.number, {})[uri] = subscription
        self._open_uris.setdefault(session.number, UriPrefixSet()).add(uri)
        self._keep(subscription)
        return subscription

    def _on_subscribe_response(self, subscription: ResourceSubscription, response: Response) -> None:
        """Process the response to a subscribe request; if there are several for one URI, one success is enough."""
        if not response.is_error:
            if subscription.since_ns is None:
                subscription.since_ns = response.t_ns
            if subscription.is_refused:
                subscription.is_refused, subscription.ended_ns = False, None
                if self._is_last(subscription):
                    self._open_uris[subscription.session.number].add(subscription.uri)
        elif subscription.since_ns is None and subscription.is_open:
            subscription.is_refused = True
            self._end(subscription, response.t_ns)

    def _is_last(self, subscription: ResourceSubscription) -> bool:
        """Whether a subscription is the last one to its URI and is not forgotten."""
        return self._by_uri.get(subscription.session.number, {}).get(subscription.uri) is subscription

    def _end(self, subscription: ResourceSubscription, t_ns: int) -> None:
        subscription.ended_ns = t_ns
        if self._is_last(subscription):
            self._open_uris[subscription.session.number].discard(subscription.uri)

    def _listen(self, request: Request, session: Session) -> ListenSubscription | None:
        if not request.id.is_answerable:
            return None
        self.has_listen = True
        key = _key(request)
        earlier = self._by_key.get(session.number, {}).get(key)
        if earlier is not None:
            self._drop(earlier)
        subscription = ListenSubscription(session, key, request)
        self._by_key.setdefault(session.number, {})[key] = subscription
        if key.exchange is not None:
            self._by_exchange.setdefault(key.exchange, []).append(subscription)
        self._keep(subscription)
        return subscription

    def _listen_of_request(self, request: Request, session: Session) -> ListenSubscription | None:
        subscription = self._by_key.get(session.number, {}).get(_key(request))
        return subscription if subscription is not None and subscription.seq == request.seq else None

    def _listen_of_message(
        self, message: ValidMessage, meta: dict[str, Any], session: Session, exchange: int | None
    ) -> ListenSubscription | None:
        by_key = self._by_key.get(session.number)
        if session.is_legacy:
            # All messages come on one stream, and only the id distinguishes subscriptions.
            if by_key is None or SUBSCRIPTION_ID not in meta:
                return None
            own_id = subscription_id(message, meta)
            return next(
                (
                    subscription
                    for subscription in islice(reversed(by_key.values()), MAX_SEARCHED_SUBSCRIPTIONS)
                    if subscription.id == own_id
                ),
                None,
            )
        if exchange is not None:
            candidates = self._by_exchange.get(exchange, ())
            if len(candidates) < 2 or by_key is None:
                return candidates[0] if candidates else None
        elif by_key is None:
            return None
        if SUBSCRIPTION_ID not in meta:
            return None
        return by_key.get(RequestKey(exchange, subscription_id(message, meta)))

    # ---- memory

    def _remember_request(self, request: Request, subscription: ResourceSubscription) -> None:
        """Remember the subscription to which the response to a request will apply."""
        self._requested[request.seq, request.index] = subscription
        self._requested_bytes += subscription.size
        while len(self._requested) > 1 and (
            len(self._requested) > self._limit or self._requested_bytes > self._bytes_limit
        ):
            _, oldest = self._requested.popitem(last=False)
            self._requested_bytes -= oldest.size

    def _pop_request(self, request: Request) -> ResourceSubscription | None:
        subscription = self._requested.pop((request.seq, request.index), None)
        self._requested_bytes -= 0 if subscription is None else subscription.size
        return subscription

    def _keep(self, subscription: Subscription) -> None:
        self._all[subscription] = None
        self._bytes += subscription.size
        self._enforce_limits()

    def _enforce_limits(self) -> None:
        while len(self._all) > 1 and (len(self._all) > self._limit or self._bytes > self._bytes_limit):
            self._drop(next(iter(self._all)))
            self.forgotten_count += 1

    def _drop(self, subscription: Subscription) -> None:
        del self._all[subscription]
        self._bytes -= subscription.size
        number = subscription.session.number
        if isinstance(subscription, ResourceSubscription):
            self._open_uris[number].discard(subscription.uri)
            del self._by_uri[number][subscription.uri]
            if not self._by_uri[number]:
                del self._by_uri[number], self._open_uris[number]
            return
        del self._by_key[number][subscription.key]
        if not self._by_key[number]:
            del self._by_key[number]
        if subscription.key.exchange is not None:
            exchange_subscriptions = self._by_exchange[subscription.key.exchange]
            exchange_subscriptions.remove(subscription)
            if not exchange_subscriptions:
                del self._by_exchange[subscription.key.exchange]


def _key(request: Request) -> RequestKey:
    return RequestKey(request.frames[0].exchange, request.id)


def _filter(notifications: object) -> ListenFilter:
    members = notifications if isinstance(notifications, dict) else {}
    return ListenFilter(
        frozenset(name for name in (*CHANGES.values(), *DRAFT_MEMBERS) if members.get(name) is True),
        UriPrefixSet(_texts(members.get("resourceSubscriptions"))),
        frozenset(_texts(members.get("taskIds"))),
    )


def _texts(values: object) -> Iterator[str]:
    return (value for value in values if isinstance(value, str)) if isinstance(values, list) else iter(())


def subscription_id(message: ValidMessage, meta: dict[str, Any]) -> Id:
    """Returns the exact subscription id in a message; orjson makes floats of `1.0` and integers above 64 bits."""
    value = meta[SUBSCRIPTION_ID]
    if isinstance(value, float) and message.index is None and len(message.frames) == 1:
        try:
            body = parse_exactly(message.frames[0].raw)
            part = body["result" if isinstance(message, Response) else "params"]
            return id_of(part["_meta"][SUBSCRIPTION_ID])
        except (ValueError, RecursionError, LookupError, TypeError):
            return id_of(value)
    return id_of(value)
