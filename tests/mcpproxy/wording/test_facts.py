"""The facts about a call on the page of a message."""

from typing import Any

import orjson
import pytest

from analysis.conversation.call import Call, IdState, context_of
from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.listed_ui import ListedUi
from analysis.conversation.message import Request, Response, messages
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session
from captures.envelope import judge
from captures.frame import Frame
from captures.verdict import Direction
from mcpproxy.wording.facts import Fact, facts, outcome, outcome_facts, title

S = 1_000_000_000
SESSION = Session(1, "stdio", 0)
METHOD = "tools/call"


def message(seq: int, at_s: float, way: Direction, body: dict[str, Any]) -> Any:
    raw = orjson.dumps({"jsonrpc": "2.0", **body})
    (made,) = messages(Frame(seq, round(at_s * S), way, raw, judge(raw, way)))
    return made


def asked(method: str = METHOD) -> Request:
    request: Request = message(3, 1, "c2s", {"id": 7, "method": method, "params": {"name": "add"}})
    return request


def answered(at_s: float) -> Response:
    response: Response = message(4, at_s, "s2c", {"id": 7, "result": {"content": [{"type": "text", "text": "3"}]}})
    return response


def a_call(*, method: str = METHOD, cancelled_s: float | None = None, reason: str | None = None, **what: Any) -> Call:
    mark = None if cancelled_s is None else RecordRef(9, round(cancelled_s * S))
    return Call(asked(method), cancellation=mark, cancel_reason=reason, **what)


def test_an_answer_is_told_with_its_frame_its_latency_and_its_status() -> None:
    call = a_call()
    call.answer(answered(1.25))
    assert [*outcome_facts(call)] == [Fact("answered", "by frame 4 after 250 ms: ok")]


def test_a_call_to_a_tool_that_is_only_for_apps_says_so() -> None:
    call = a_call(is_app_call=True)
    call.answer(answered(1.25))
    assert [*outcome_facts(call)] == [
        Fact("tool", "only for apps: the host hides it from its model"),
        Fact("answered", "by frame 4 after 250 ms: ok"),
    ]


def test_a_call_of_a_tool_with_a_ui_names_it_and_a_ui_its_tools() -> None:
    session = Session(1, "stdio", 0)
    session.listed_ui = ListedUi()
    names = ("add", "sum\x1b[2J")
    session.listed_ui.add_tools([{"name": name, "_meta": {"ui": {"resourceUri": "ui://chart"}}} for name in names], 3)
    assert Fact("its UI", "ui://chart") in outcome_facts(Call(asked(METHOD), session=session))
    reading = message(3, 1, "c2s", {"id": 8, "method": "resources/read", "params": {"uri": "ui://chart"}})
    (fact,) = [fact for fact in outcome_facts(Call(reading, session=session)) if fact.name == "UI of"]
    assert fact.text.startswith("add, sum")
    assert "\x1b" not in fact.text
    other = message(3, 1, "c2s", {"id": 8, "method": "resources/read", "params": {"uri": "file:///a"}})
    assert not [fact for fact in outcome_facts(Call(other, session=session)) if "UI" in fact.name]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": []}, "ok with empty content"),
        ({"content": [{"type": "text", "text": ""}]}, "ok with empty content"),
        ({}, "ok without content"),
        ({"content": [], "structuredContent": {"n": 1}}, "ok"),
        ({"content": [], "isError": True}, "tool error"),
    ],
)
def test_an_answer_without_what_was_asked_for_says_so(result: dict[str, Any], text: str) -> None:
    call = a_call()
    call.answer(message(4, 1.25, "s2c", {"id": 7, "result": result}))
    fact = outcome(call)
    assert fact is not None
    assert fact.text == text


@pytest.mark.parametrize(
    ("cancelled_s", "name", "text"),
    [(2, "cancelled", "after 1.0 s by frame 9: no\\nneed"), (8, "abandoned", "after 7.0 s by frame 9: no\\nneed")],
)
def test_a_late_answer_is_told_with_the_cancellation(cancelled_s: float, name: str, text: str) -> None:
    call = a_call(cancelled_s=cancelled_s, reason="no\nneed")
    call.answer(answered(10))
    late = "8.0 s" if cancelled_s == 2 else "2.0 s"
    assert [*outcome_facts(call)] == [
        Fact("answered", f"by frame 4 after 9.0 s: ok, {late} late"),
        Fact(name, text, is_bad=name == "abandoned"),
    ]


def test_what_has_no_answer_says_its_outcome_and_by_what_it_was_cancelled() -> None:
    assert [*outcome_facts(a_call())] == [Fact("outcome", "unanswered", is_bad=True)]
    assert [*outcome_facts(a_call(), 3 * S)] == [Fact("outcome", "waiting for 3.0 s")]
    assert [*outcome_facts(a_call(cancelled_s=8, reason="slow"))] == [
        Fact("outcome", "abandoned after 7.0 s: slow", is_bad=True),
        Fact("cancelled", "by frame 9"),
    ]


def test_a_call_cancelled_by_closing_its_exchange_says_so_once_and_after_how_long() -> None:
    http = HttpExchanges().on_record({"exchange": 1, "stage": "end", "ended_by": "client"})
    assert http is not None
    http.end_ref = RecordRef(9, 2 * S)
    call = a_call(cancelled_s=2, http=http)
    assert [*outcome_facts(call)] == [
        Fact("outcome", "cancelled after 1.0 s"),
        Fact("cancelled", "by closing its HTTP exchange (record 9)"),
    ]
    assert [*outcome_facts(a_call(cancelled_s=2))] == [
        Fact("outcome", "cancelled after 1.0 s"),
        Fact("cancelled", "by frame 9"),
    ]


def test_a_subscription_is_due_no_answer() -> None:
    assert [*outcome_facts(a_call(method="subscriptions/listen"))] == []


def test_a_response_says_what_it_answers_or_why_it_answers_nothing() -> None:
    call, response = a_call(), answered(2)
    call.answer(response)
    paired = context_of(response, SESSION, call)
    assert [*facts(paired, None)] == [Fact("answers", "frame 3 after 1.0 s: ok")]
    assert title(paired) == "answer to tools/call #7 add"
    alone = context_of(response, SESSION, id_state=IdState.ANSWERED)
    assert [*facts(alone, None)] == [Fact("answers", "nothing: answered before, ok 3", is_bad=True)]
    assert title(alone) == "answer #7"


def test_a_cancellation_names_what_it_cancels() -> None:
    notification = message(9, 5, "c2s", {"method": "notifications/cancelled", "params": {"requestId": 7}})
    context = context_of(notification, SESSION, cancels=asked())
    assert [*facts(context, None)] == [Fact("cancels", "tools/call #7 add (frame 3)")]
    first = context_of(notification, SESSION, cancels=asked(), cancelled=a_call(cancelled_s=5))
    assert [*facts(first, None)] == [Fact("cancels", "tools/call #7 add (frame 3), cancelled after 4.0 s")]
    given_up = context_of(notification, SESSION, cancels=asked(), cancelled=a_call(cancelled_s=8))
    assert [*facts(given_up, None)] == [Fact("cancels", "tools/call #7 add (frame 3), abandoned after 7.0 s", True)]
    assert title(context) == "notifications/cancelled"
