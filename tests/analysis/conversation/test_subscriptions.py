"""Subscriptions of both eras: what begins and ends them, and which messages belong to them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Id, InvalidMessage, Notification, Request, Response
from analysis.conversation.session import Session
from analysis.conversation.subscriptions import (
    MAX_PREFIX_URI_CHARS,
    NOTIFICATIONS,
    REQUESTS,
    ListenSubscription,
    ResourceSubscription,
    Subscription,
    Subscriptions,
    UriPrefixSet,
)
from tests.analysis.talk import META, MS, Talk

ID = "io.modelcontextprotocol/subscriptionId"


class SubscriptionTalk(Talk):
    """A conversation whose subscriptions are followed."""

    def __init__(self, subscriptions: Subscriptions | None = None, transport: str = "stdio") -> None:
        self.subscriptions = subscriptions if subscriptions is not None else Subscriptions()
        self.of: dict[int, Subscription | None] = {}
        super().__init__(transport)

    def follow(self, context: MessageContext) -> None:
        message, session, all_ = context.message, context.session, self.subscriptions
        found: Subscription | None = None
        if message.sender == "server" and not isinstance(message, InvalidMessage):
            found = all_.on_server_message(message, message.meta, session, message.frames[0].exchange)
        if isinstance(message, Request) and message.sender == "client" and message.method in REQUESTS:
            found = all_.on_request(message, session)
        elif isinstance(message, Response) and context.answered is not None:
            if context.answered.request.method in REQUESTS:
                found = all_.on_response(context.answered.request, message, session)
        elif context.cancels is not None and isinstance(message, Notification):
            found = all_.on_cancelled(context.cancels, message, session)
        elif isinstance(message, Notification) and message.method in NOTIFICATIONS and found is None:
            found = all_.on_resource_updated(message, session)
        self.of[message.seq] = found

    @property
    def session(self) -> Session:
        return self.fold.routing.begin_pipe(0)

    def subscribe(self, uri: object, id_: object = 1) -> ResourceSubscription:
        found = self.of[self.ask(id_, "resources/subscribe", uri=uri).message.seq]
        assert isinstance(found, ResourceSubscription)
        return found

    def unsubscribe(self, uri: str, id_: object = 2) -> Subscription | None:
        return self.of[self.ask(id_, "resources/unsubscribe", uri=uri).message.seq]

    def update(self, uri: object, **more: Any) -> Subscription | None:
        return self.of[self.tell("notifications/resources/updated", uri=uri, **more).message.seq]

    def listen(self, id_: object = "l", exchange: int | None = None, **chosen: Any) -> ListenSubscription:
        found = self.of[self.ask(id_, "subscriptions/listen", exchange, notifications=chosen).message.seq]
        assert isinstance(found, ListenSubscription)
        return found

    def hear(self, method: str, id_: object = "l", exchange: int | None = None, **params: Any) -> Subscription | None:
        return self.of[self.tell(f"notifications/{method}", exchange, _meta={ID: id_}, **params).message.seq]


@pytest.fixture
def ear() -> SubscriptionTalk:
    made = SubscriptionTalk()
    made.handshake()
    return made


# Resources, up to 2025-11-25.


def test_a_subscription_lasts_from_its_request_to_the_answer_to_unsubscribe(ear: SubscriptionTalk) -> None:
    one = ear.subscribe("file:///a")
    assert (one.is_open, one.requested_ns, one.since_ns, one.seq) == (True, 4 * MS, None, 4)
    assert ear.update("file:///a") is one
    assert ear.of[ear.answer(1).message.seq] is one
    assert one.since_ns == 6 * MS
    assert ear.update("file:///a") is one
    assert ear.unsubscribe("file:///a") is one
    assert (one.unsubscribed_ns, one.ended_ns) == (8 * MS, None)
    assert ear.update("file:///a") is one  # it has crossed the request to unsubscribe
    assert ear.of[ear.answer(2).message.seq] is one
    assert one.ended_ns == 10 * MS
    assert ear.update("file:///a") is one  # attributed to the ended subscription, so that a rule can report it
    assert one.update_count == 4
    assert ear.subscriptions.resources(ear.session) == [one]


def test_an_update_may_be_of_a_part_of_a_resource(ear: SubscriptionTalk) -> None:
    short, long = ear.subscribe("file:///a"), ear.subscribe("file:///a/b/")
    assert ear.update("file:///a/b/c") is long
    assert ear.update("file:///a/x") is short
    assert ear.update("file:///") is None
    assert ear.update("file:///A/x") is None
    ear.unsubscribe("file:///a/b/")
    ear.answer(2)
    assert ear.update("file:///a/b/c") is short
    assert ear.update("file:///a/b/") is short  # an open subscription is preferred to an ended one


def test_subscribing_twice_is_one_subscription(ear: SubscriptionTalk) -> None:
    one = ear.subscribe("x:a", 1)
    assert ear.subscribe("x:a", 2) is one
    ear.refuse(1)
    assert (one.is_open, one.is_refused) == (False, True)
    ear.answer(2)  # one success is enough
    assert one.is_open
    assert ear.update("x:ab") is one
    assert ear.subscribe("x:a", 3) is one
    ear.refuse(3)
    assert one.is_open


def test_a_subscription_that_was_refused_is_none(ear: SubscriptionTalk) -> None:
    one = ear.subscribe("x:a")
    ear.refuse(1)
    assert (one.is_refused, one.ended_ns) == (True, 5 * MS)
    assert ear.update("x:ab") is None
    assert ear.subscribe("x:a") is not one


def test_an_unsubscribe_that_was_refused_changes_nothing(ear: SubscriptionTalk) -> None:
    one = ear.subscribe("x:a")
    ear.answer(1)
    ear.unsubscribe("x:a")
    ear.refuse(2)
    assert (one.is_open, one.unsubscribed_ns) == (True, None)


def test_subscribing_again_while_the_end_is_under_way(ear: SubscriptionTalk) -> None:
    first = ear.subscribe("x:a", 1)
    ear.answer(1)
    ear.unsubscribe("x:a", 2)
    second = ear.subscribe("x:a", 3)
    assert second is not first
    assert ear.of[ear.answer(2).message.seq] is first
    ear.answer(3)
    assert (first.is_open, second.is_open) == (False, True)
    assert ear.update("x:ab") is second


def test_the_end_of_nothing_and_what_has_no_uri_are_no_subscription(ear: SubscriptionTalk) -> None:
    assert ear.unsubscribe("x:a") is None
    assert ear.of[ear.answer(2).message.seq] is None
    uris: list[Any] = [None, 5, ["x"], {}]
    for uri in uris:
        assert ear.of[ear.ask(1, "resources/subscribe", uri=uri).message.seq] is None
        assert ear.of[ear.refuse(1).message.seq] is None
        assert ear.update(uri) is None
    assert len(ear.subscriptions) == 0


def test_sessions_have_subscriptions_of_their_own() -> None:
    ear = SubscriptionTalk(transport="http")
    found = {}
    for number, session in ((1, "a"), (2, "b")):
        ear.http(number, mcp_session_id=session)
        context = ear.ask(1, "resources/subscribe", number, uri=f"x:{session}", _meta={})
        found[session] = ear.of[context.message.seq]
        ear.answer(1, number)
    ear.http(3, "GET", mcp_session_id="a")
    assert ear.of[ear.tell("notifications/resources/updated", 3, uri="x:a").message.seq] is found["a"]
    assert ear.of[ear.tell("notifications/resources/updated", 3, uri="x:b").message.seq] is None


# `subscriptions/listen`, since 2026-07-28.


def test_a_listening_from_its_request_to_its_result() -> None:
    ear = SubscriptionTalk()
    one = ear.listen("l", toolsListChanged=True, promptsListChanged=False, resourceSubscriptions=["x:a", 5])
    assert one.id == Id("string", "l")
    assert one.requested_filter.types == {"toolsListChanged", "resourceSubscriptions"}
    assert set(one.requested_filter.uris) == {"x:a"}
    ear.ask(2, "tools/list")
    assert ear.of[ear.answer(2, tools=[]).message.seq] is None
    assert ear.of[ear.tell("notifications/tools/list_changed").message.seq] is None  # it does not name its subscription
    assert one.message_count == 0
    assert ear.hear("subscriptions/acknowledged", notifications={"toolsListChanged": True}) is one
    assert (one.acknowledged_ns, one.acknowledgement_count, one.message_count) == (5 * MS, 1, 1)
    assert one.granted_filter is not None
    assert one.granted_filter.types == {"toolsListChanged"}
    ear.hear("subscriptions/acknowledged", notifications={})
    assert one.granted_filter.types == {"toolsListChanged"}
    assert one.acknowledgement_count == 2
    assert ear.hear("tools/list_changed") is one
    assert one.is_open
    assert ear.of[ear.answer("l", resultType="complete", _meta={ID: "l"}).message.seq] is one
    assert (one.answered_ns, one.ended_ns, one.message_count) == (8 * MS, 8 * MS, 3)
    assert ear.hear("tools/list_changed") is one  # after the end; still attributed, so that a rule can report it
    assert ear.subscriptions.listen_subscriptions(ear.session) == [one]


def test_filters_say_what_they_select() -> None:
    one = SubscriptionTalk().listen("l", resourcesListChanged=True, taskIds=["t"], resourceSubscriptions=["x:a"])
    chosen = one.requested_filter
    assert chosen.task_ids == {"t"}
    methods = ["tools/list_changed", "resources/list_changed", "resources/updated", "tasks", "progress"]
    assert [chosen.selects(f"notifications/{method}") for method in methods] == [False, True, True, True, False]
    assert (chosen.uris.longest_prefix("x:ab"), chosen.uris.longest_prefix("x:")) == ("x:a", None)
    odd = {"toolsListChanged": 1, "taskIds": "t", "resourceSubscriptions": {"a": 1}}
    for told in (None, 5, ["toolsListChanged"], odd):
        found = SubscriptionTalk()
        context = found.say("c2s", id=1, method="subscriptions/listen", params={"notifications": told, "_meta": META})
        none = found.of[context.message.seq]
        assert isinstance(none, ListenSubscription)
        assert not none.requested_filter.types


def test_ids_are_equal_when_type_and_exact_value_are() -> None:
    ear = SubscriptionTalk()
    one, other = ear.listen(1), ear.listen("1")
    big = 2**70
    raw = b'{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{}}'
    (context,) = ear.raw("c2s", raw % big)
    giant = ear.of[context.message.seq]
    assert (ear.hear("x", 1), ear.hear("x", "1"), ear.hear("x", 2), ear.hear("x", None)) == (one, other, None, None)
    told = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"%b":%b}}}'
    for written, found in ((b"1.0", one), (b"1e0", one), (b"%d" % big, giant), (b"%d" % (big + 1), None)):
        (context,) = ear.raw("s2c", told % (ID.encode(), written))
        assert ear.of[context.message.seq] is found


def test_either_side_may_cancel_it() -> None:
    ear = SubscriptionTalk()
    one, other = ear.listen("a"), ear.listen("b")
    mine = ear.say("c2s", method="notifications/cancelled", params={"requestId": "a"})
    theirs = ear.say("s2c", method="notifications/cancelled", params={"requestId": "b", "_meta": {ID: "b"}})
    assert (ear.of[mine.message.seq], ear.of[theirs.message.seq]) == (one, other)
    assert (one.cancelled_by_client_ns, one.cancelled_by_server_ns) == (3 * MS, None)
    assert (other.cancelled_by_client_ns, other.cancelled_by_server_ns) == (None, 4 * MS)
    ear.answer("b", _meta={ID: "b"})
    assert (other.answered_ns, other.ended_ns) == (5 * MS, 4 * MS)
    ear.ask(9, "tools/call")
    no = ear.say("c2s", method="notifications/cancelled", params={"requestId": 9})
    assert ear.of[no.message.seq] is None


def test_an_error_refuses_it() -> None:
    ear = SubscriptionTalk()
    one = ear.listen("a")
    ear.refuse("a")
    assert (one.is_refused, one.is_open, one.granted_filter) == (True, False, None)


def test_an_id_that_comes_again_is_another_listening() -> None:
    ear = SubscriptionTalk()
    first = ear.listen("a")
    ear.answer("a")
    second = ear.listen("a")
    assert second is not first
    assert ear.hear("tools/list_changed", "a") is second
    assert second.is_open


def test_the_answer_to_an_older_request_with_its_id_is_not_its_own() -> None:
    ear = SubscriptionTalk()
    ear.listen("a")
    second = ear.listen("a")
    assert ear.of[ear.answer("a").message.seq] is None  # responses go to the oldest request
    assert second.is_open
    assert ear.of[ear.answer("a").message.seq] is second


def test_over_http_what_is_on_its_stream_belongs_to_it() -> None:
    ear = SubscriptionTalk(transport="http")
    for number in (1, 2):
        ear.http(number)
    one, other = ear.listen("l", 1), ear.listen("l", 2)  # from two clients that cannot be told apart
    for id_ in ("l", "wrong", None):
        assert ear.hear("tools/list_changed", id_, 1) is one
        assert ear.hear("tools/list_changed", id_, 2) is other
    assert ear.of[ear.tell("notifications/progress", 1, progressToken=1).message.seq] is one
    ear.http(3)
    ear.ask(1, "tools/call", 3)
    assert ear.hear("tools/list_changed", "l", 3) is None
    http = ear.fold.exchanges.get_or_create(1)
    ear.http_end(1, by="server")
    ear.subscriptions.on_stream_ended(1, ear.seq * MS, http.ended_by)
    assert (one.stream_ended_by, one.stream_ended_ns, one.is_open) == ("server", ear.seq * MS, False)
    assert other.is_open
    ended_ns = ear.seq * MS
    ear.subscriptions.on_stream_ended(1, ended_ns + MS, http.ended_by)
    assert one.stream_ended_ns == ended_ns


def test_two_in_one_exchange_are_told_apart_by_their_ids() -> None:
    ear = SubscriptionTalk(transport="http")
    ear.http(1)
    one, other = ear.listen("a", 1), ear.listen("b", 1)
    assert (ear.hear("x", "b", 1), ear.hear("x", "a", 1), ear.hear("x", "c", 1)) == (other, one, None)


# URIs.

texts = st.text(alphabet="ab", max_size=6)


@given(st.lists(st.tuples(st.booleans(), texts)), texts)
def test_covering_agrees_with_a_plain_model(script: list[tuple[bool, str]], uri: str) -> None:
    uris, model = UriPrefixSet(), set[str]()
    for adds, one in script:
        (uris.add if adds else uris.discard)(one)
        (model.add if adds else model.discard)(one)
    assert uris.longest_prefix(uri) == max((one for one in model if uri.startswith(one)), key=len, default=None)
    assert (set(uris), len(uris)) == (model, len(model))


def test_a_giant_uri_stands_for_itself_alone() -> None:
    uris = UriPrefixSet(["x" * MAX_PREFIX_URI_CHARS, "y" * (MAX_PREFIX_URI_CHARS + 1)])
    assert uris.longest_prefix("x" * (MAX_PREFIX_URI_CHARS + 9)) == "x" * MAX_PREFIX_URI_CHARS
    assert uris.longest_prefix("y" * (MAX_PREFIX_URI_CHARS + 1)) is not None
    assert uris.longest_prefix("y" * (MAX_PREFIX_URI_CHARS + 9)) is None
    uris.discard("y" * (MAX_PREFIX_URI_CHARS + 1))
    assert len(uris) == 1


# Memory.


def test_the_oldest_subscriptions_are_forgotten_and_counted() -> None:
    ear = SubscriptionTalk(Subscriptions(limit=10))
    for n in range(15):
        ear.subscribe(f"x:{n:02}", n)
        ear.listen(f"{n}")
    assert (len(ear.subscriptions), ear.subscriptions.forgotten_count) == (10, 20)
    assert len(ear.subscriptions.resources(ear.session)) == 5
    assert ear.update("x:09") is None
    assert ear.hear("x", "9") is None
    assert ear.update("x:10") is not None
    assert ear.hear("x", "10") is not None
    assert ear.of[ear.answer(3).message.seq] is None  # its request was forgotten with it
    for n in range(15, 40):
        ear.listen(f"{n}")
    assert ear.subscriptions.resources(ear.session) == []


def test_subscriptions_are_bounded_by_their_bytes_too() -> None:
    ear = SubscriptionTalk(Subscriptions(bytes_limit=20_000))
    for n in range(20):
        ear.subscribe(f"x:{n}" + "x" * 6_000, n)
        ear.unsubscribe(f"x:{n}" + "x" * 6_000, n + 100)
        ear.subscribe(f"x:{n}" + "x" * 6_000, n + 200)
    assert len(ear.subscriptions) == 3
    ear.listen("l")
    ear.hear("subscriptions/acknowledged", notifications={"taskIds": ["t" * 30_000]})
    assert len(ear.subscriptions) == 1


def test_what_is_answered_or_forgotten_takes_no_room() -> None:
    ear = SubscriptionTalk(Subscriptions(bytes_limit=20_000))
    for n in range(20):
        ear.subscribe(f"x:{n}" + "x" * 6_000, n)
        ear.answer(n)
    one, other = ear.subscribe("y" * 6_000, "a"), ear.subscribe("z" * 6_000, "b")
    assert [ear.of[ear.answer(id_).message.seq] for id_ in ("a", "b")] == [one, other]
    for _ in range(20):
        ear.listen("l")
        ear.hear("subscriptions/acknowledged", notifications={"taskIds": ["t" * 10_000]})
        ear.listen("m")
    ear.listen("l")
    for n in range(20):
        ear.listen(n)
    assert len(ear.subscriptions) > 20


# Any conversation.

values = st.none() | st.booleans() | st.integers(0, 2) | st.floats() | st.sampled_from(["a", "ab", "x"])
bodies = values | st.dictionaries(
    st.sampled_from(["uri", "notifications", "_meta", "requestId"]),
    values | st.dictionaries(st.sampled_from([ID, "resourceSubscriptions", "taskIds"]), values | st.lists(values)),
)
methods = st.sampled_from([*sorted(REQUESTS), *sorted(NOTIFICATIONS), "notifications/cancelled", "x"])
steps = st.lists(
    st.tuples(st.sampled_from(["c2s", "s2c"]), st.integers(0, 5), values, methods, bodies, st.integers(0, 2)),
    max_size=25,
)


@given(steps, st.booleans())
def test_nothing_raises_and_memory_is_bounded(
    script: list[tuple[Any, int, Any, str, Any, int]], over_http: bool
) -> None:
    ear = SubscriptionTalk(Subscriptions(limit=3), "http" if over_http else "stdio")
    for direction, act, id_, method, body, number in script:
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        if act < 2:
            message |= {"id": id_, "method": method, "params": body}
        elif act < 4:
            message |= {"id": id_, "result" if act == 2 else "error": body}
        elif act == 4:
            message |= {"method": method, "params": body}
        elif over_http:
            ear.subscriptions.on_stream_ended(number, 0, None)
            continue
        ear.raw(direction, json.dumps(message).encode(), number if over_http else None)
    assert len(ear.subscriptions) <= 3
    held = ear.subscriptions
    sessions = ear.fold.routing.sessions()
    assert sum(len(held.resources(one)) + len(held.listen_subscriptions(one)) for one in sessions) == len(held)
