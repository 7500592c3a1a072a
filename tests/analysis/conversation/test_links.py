"""The fold knows the threads of each message: chains, tasks, subscriptions, and streams that resume others."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Response
from analysis.conversation.subscriptions import ListenSubscription, ResourceSubscription
from captures.frames import FrameAssembler
from captures.record import decode
from captures.verdict import Direction
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.talk import META, MS, Talk
from tests.analysis.traces import corpus

ID = "io.modelcontextprotocol/subscriptionId"
RELATED = "io.modelcontextprotocol/related-task"


def fold_of(case: Case) -> tuple[Fold, list[MessageContext]]:
    """Convert a trace to the records of a capture and fold them."""
    fold, assembler = Fold(), FrameAssembler()
    context: list[MessageContext] = []
    for _, line in case.records():
        record = decode(line.rstrip(b"\n"), 0, json.loads)
        assert record is not None
        item = assembler.feed(record)
        if item is not None:
            context += fold.feed(item)
    return fold, context


def test_a_chain_shows_in_messages_and_exchanges() -> None:
    talk = Talk()
    first = talk.ask(1, "tools/call", name="a")
    interim = talk.answer(1, resultType="input_required", requestState="S")
    other = talk.ask(2, "tools/list")
    retry = talk.ask(3, "tools/call", name="a", requestState="S")
    assert talk.answer(2, resultType="complete", tools=[]).chain is None
    last = talk.answer(3, resultType="complete", content=[])
    chain = interim.chain
    assert chain is not None
    assert (first.chain, other.chain, retry.chain, last.chain) == (None, None, chain, chain)
    assert [one.round.number for one in (interim, retry, last) if one.round is not None] == [1, 2, 2]
    for context in (interim, last):
        assert context.answered is not None
        assert context.answered.round is context.round
    assert (chain.is_waiting, chain.client_ns) == (False, 2 * MS)
    talk.ask(4, "tools/call", name="a")
    talk.answer(4, resultType="input_required", requestState="T")
    talk.ask(5, "tools/call", name="a", requestState="T")
    (left,) = talk.fold.open_calls()
    assert left.round is not None
    assert left.round.number == 2
    assert talk.fold.links.chains.count == 2


def test_a_server_cannot_begin_a_chain_with_its_own_request() -> None:
    talk = Talk()
    talk.say("s2c", id=1, method="tools/call", params={"name": "a"})
    context = talk.say("c2s", id=1, result={"resultType": "input_required", "requestState": "S"})
    assert context.answered is not None
    assert context.answered.outcome is Outcome.INPUT_REQUIRED
    assert context.chain is None


def test_a_retry_whose_exchange_failed_is_sent_again() -> None:
    talk = Talk("http")
    talk.http(1)
    talk.ask(1, "tools/call", 1, name="a")
    chain = talk.answer(1, 1, resultType="input_required", requestState="S").chain
    talk.http_end(1)
    for number in (2, 3):
        talk.http(number)
        retry = talk.ask(2, "tools/call", number, name="a", requestState="S")
        assert retry.chain is chain
        talk.http_end(number, status=503)
    assert chain is not None
    assert chain.is_waiting
    assert talk.fold.failed_count == 2


def test_tasks_show_in_all_messages_about_them() -> None:
    talk = Talk()
    talk.handshake()
    assert talk.ask(1, "tools/call", name="a", task={}).task is None
    created = talk.answer(1, task={"taskId": "t", "status": "working"})
    task = created.task
    assert task is not None
    assert created.answered is not None
    assert created.answered.outcome is Outcome.TASK
    about = [
        talk.ask(2, "tasks/get", taskId="t"),
        talk.answer(2, taskId="t", status="input_required"),
        talk.say("s2c", id=1, method="elicitation/create", params={"_meta": {RELATED: {"taskId": "t"}}}),
        talk.say("c2s", id=1, result={"action": "decline"}),  # it belongs to the task of its request
        talk.tell("notifications/tasks/status", taskId="t", status="completed"),
        talk.ask(3, "tasks/result", taskId="t"),
        talk.answer(3, content=[]),
    ]
    assert [one.task for one in about] == [task] * len(about)
    assert [one.status for one in task.reports] == ["working", "input_required", "completed"]
    assert task.delivered_ns is not None
    assert talk.tell("notifications/message", level="info").task is None
    assert talk.fold.links.tasks.count == 1


def test_a_task_of_the_extension_is_followed() -> None:
    talk = Talk()
    talk.ask(1, "tools/call", name="a")
    created = talk.answer(1, resultType="task", taskId="t", status="working", ttlMs=None)
    assert created.task is not None
    assert created.task.ttl_ms is None
    assert talk.ask(2, "tasks/get", taskId="t").task is created.task


def test_a_task_that_nobody_asked_for_is_followed() -> None:
    talk = Talk()
    talk.ask(1, "tools/call", name="a")
    context = talk.answer(1, content=[], task={"taskId": "t", "status": "working"})
    assert context.task is not None
    talk.ask(2, "tools/call", name="a")
    assert talk.answer(2, content=[], task="t").task is None


def test_subscriptions_of_both_eras_show_on_one_connection() -> None:
    talk = Talk()
    talk.handshake()
    asked = talk.ask(1, "resources/subscribe", uri="x:a", _meta={})
    one = asked.subscription
    assert isinstance(one, ResourceSubscription)
    assert talk.answer(1).subscription is one
    listening = talk.ask("l", "subscriptions/listen", notifications={"resourceSubscriptions": ["x:"]}).subscription
    assert isinstance(listening, ListenSubscription)
    updated = "notifications/resources/updated"
    assert talk.tell(updated, uri="x:a").subscription is one
    assert talk.tell(updated, uri="x:a", _meta={ID: "l"}).subscription is listening
    assert talk.tell("notifications/tools/list_changed", _meta={ID: "m"}).subscription is None
    assert talk.fold.links.subscriptions.listen_subscriptions(asked.session) == [listening]
    cancelled = talk.say("s2c", method="notifications/cancelled", params={"requestId": "l"})
    assert cancelled.subscription is listening
    assert talk.answer("l", _meta={ID: "l"}).subscription is listening
    assert (listening.cancelled_by_server_ns, listening.message_count) == (cancelled.message.t_ns, 1)
    assert listening.answered_ns == talk.seq * MS


def test_the_end_of_an_exchange_ends_what_was_listened_to_in_it() -> None:
    talk = Talk("http")
    talk.http(1)
    context = talk.ask("l", "subscriptions/listen", 1, notifications={"toolsListChanged": True})
    acknowledged = talk.tell("notifications/subscriptions/acknowledged", 1, notifications={}, _meta={ID: "l"})
    assert isinstance(context.subscription, ListenSubscription)
    assert acknowledged.subscription is context.subscription
    talk.http_end(1, by="server")
    assert (context.subscription.stream_ended_by, context.subscription.ended_ns) == ("server", talk.seq * MS)


def test_a_stream_that_goes_on_with_another_says_so() -> None:
    """TypeScript servers send a priming event and close the stream; a GET fetches the rest."""
    talk = Talk("http")
    place: dict[str, Any] = {"unit": "sse_event"}
    talk.http(1, mcp_session_id="s")
    talk.http_answer(1, content_type="text/event-stream")
    talk.record("stream", exchange=1, dir="s2c", event="opened")
    talk.ask(1, "tools/call", 1, _meta={})
    talk.raw("s2c", b"", 1, event_id="a-0", **place)
    talk.http_end(1, by="complete")
    talk.http(2, "GET", mcp_session_id="s")
    talk.http_answer(2, content_type="text/event-stream")
    talk.record("stream", exchange=2, dir="s2c", event="opened", last_event_id="a-0")
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    (context,) = talk.raw("s2c", answer, 2, event_id="a-1", **place)
    assert isinstance(context.message, Response)
    assert context.http is not None
    assert context.http.resumed_exchange is talk.fold.exchanges.get_or_create(1)
    talk.http(3, "GET", mcp_session_id="s")
    talk.record("stream", exchange=3, dir="s2c", event="opened", last_event_id="zz")
    assert (talk.fold.exchanges.get_or_create(3).resumption, talk.fold.exchanges.get_or_create(3).resumed_exchange) == (
        "unknown",
        None,
    )


def test_odd_records_of_streams_are_passed_over() -> None:
    talk = Talk("http")
    odd: list[dict[str, Any]] = [
        {},
        {"exchange": "x"},
        {"exchange": 1, "last_event_id": 5},
        {"exchange": 1, "event": []},
    ]
    for members in odd:
        talk.record("stream", **{"event": "opened", "last_event_id": "a", **members})
    assert talk.fold.exchanges.get_or_create(1).resumption is None


def threads_are_whole(every_nth: int) -> None:
    """Check that no interim result has two retries, and that every call that one ends knows its round."""
    counts = {"chains": 0, "tasks": 0, "listenings": 0}
    for _, case in corpus()[::every_nth]:
        fold, contexts = fold_of(case)
        retries = [one.round for one in contexts if one.round is not None and not isinstance(one.message, Response)]
        assert len({(one.chain.number, one.number) for one in retries}) == len(retries)
        for one in contexts:
            call = one.answered
            if call is not None and call.outcome is Outcome.INPUT_REQUIRED and call.request.sender == "client":
                assert call.round is not None
        counts["chains"] += fold.links.chains.count
        counts["tasks"] += fold.links.tasks.count
        counts["listenings"] += sum(isinstance(one.subscription, ListenSubscription) for one in contexts)
    assert all(counts.values()), counts


def test_conversations_of_the_corpus_have_whole_threads() -> None:
    """One in six is checked; `make soak` checks all."""
    threads_are_whole(6)


@pytest.mark.soak
def test_all_conversations_of_the_corpus_have_whole_threads() -> None:
    threads_are_whole(1)


TWO_ROUNDS = {
    "name": "two-rounds",
    "transport": "stdio",
    "frames": [
        {"dir": direction, "t": t, "raw": json.dumps({"jsonrpc": "2.0", **message})}
        for t, direction, message in (
            (0, "c2s", {"id": 1, "method": "tools/call", "params": {"name": "a", "_meta": META}}),
            (5, "s2c", {"id": 1, "result": {"resultType": "input_required", "requestState": "S"}}),
            (4005, "c2s", {"id": 2, "method": "tools/call", "params": {"name": "a", "requestState": "S"}}),
            (4010, "s2c", {"id": 2, "result": {"resultType": "complete", "content": []}}),
        )
    ],
}


def test_what_a_user_took_is_not_the_time_of_the_server() -> None:
    (case,) = cases([json.dumps(TWO_ROUNDS).encode()])
    assert isinstance(case, Case)
    _, context = fold_of(case)
    chain = context[-1].chain
    assert chain is not None
    assert chain.ended_ns is not None
    assert (chain.ended_ns - chain.started_ns, chain.client_ns) == (4_010 * MS, 4_000 * MS)


# Any conversation.

values = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["t", "S", "x:a", "working", "input_required"])
nested = values | st.dictionaries(st.sampled_from(["taskId", "status", "t", ID, RELATED]), values, max_size=2)
names = ["name", "uri", "taskId", "task", "status", "requestState", "inputResponses", "inputRequests", "resultType"]
bodies = st.dictionaries(st.sampled_from([*names, "notifications", "requestId", "_meta"]), nested, max_size=4) | values
methods = st.sampled_from(
    [
        *("tools/call", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "notifications/tasks/status"),
        *("resources/subscribe", "resources/unsubscribe", "notifications/resources/updated", "notifications/cancelled"),
        *("subscriptions/listen", "notifications/subscriptions/acknowledged", "notifications/tasks", "initialize"),
    ]
)
steps = st.lists(
    st.tuples(st.sampled_from(["c2s", "s2c"]), st.integers(0, 3), st.integers(0, 2), methods, bodies), max_size=25
)


@given(steps, st.booleans())
def test_any_conversation_is_followed_without_raising(
    script: list[tuple[Direction, int, int, str, Any]], over_http: bool
) -> None:
    talk = Talk("http" if over_http else "stdio")
    for direction, act, id_, method, body in script:
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        message |= {"id": id_} if act != 2 else {}
        message |= {"result": body} if act == 1 else {"method": method, "params": body}
        more: dict[str, Any] = {"event_id": f"{id_}", "unit": "sse_event"} if over_http and direction == "s2c" else {}
        if act == 3 and over_http:
            talk.record("stream", exchange=id_, event="opened", last_event_id=method[:1])
            talk.http_end(id_, status=200 + 300 * (act % 2))
        (context,) = talk.raw(direction, json.dumps(message).encode(), id_ if over_http else None, **more)
        assert context.round is None or context.answered is None or context.answered.round is context.round
    talk.fold.open_calls()
