"""The outcome of a call, in the words that every surface uses."""

from typing import Any

import orjson
import pytest

from analysis.conversation.call import Call, Outcome, ProbableAnswer
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.message import Request, Response, messages
from analysis.conversation.record_ref import RecordRef
from captures.envelope import judge
from captures.frame import Frame
from mcpproxy.wording.meaning import Meaning
from mcpproxy.wording.statuses import Status, answer_status, fate_status, outcome_status, waiting_status

S = 1_000_000_000


def call(**what: Any) -> Call:
    raw = orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add"}})
    (request,) = messages(Frame(1, 0, "c2s", raw, judge(raw, "c2s")))
    assert isinstance(request, Request)
    return Call(request, **what)


def refused() -> HttpExchange:
    response = {"status": 502, "headers": []}
    http = HttpExchanges().on_record({"exchange": 1, "stage": "end", "ended_by": "server", "response": response})
    assert http is not None
    return http


def left() -> HttpExchange:
    http = HttpExchanges().on_record({"exchange": 1, "stage": "end", "ended_by": "client"})
    assert http is not None
    http.end_ref = RecordRef(9, 2 * S)
    return http


LEFT: dict[str, Any] = {"exchange_end": RecordRef(9, 2 * S), "client_closed": True}


@pytest.mark.parametrize(
    ("what", "text", "is_bad"),
    [
        ({}, "unanswered", True),
        (
            {"guessed_response": ProbableAnswer(9, '"7"')},
            'unanswered, probably answered by frame 9 with id "7"',
            True,
        ),
        ({"cancellation": RecordRef(9, 2 * S)}, "cancelled after 2.0 s", False),
        (
            {"cancellation": RecordRef(9, 2 * S), "cancel_reason": "the user\nleft"},
            r"cancelled after 2.0 s: the user\nleft",
            False,
        ),
        (
            {"cancellation": RecordRef(9, 2 * S), "http": left()},
            "cancelled after 2.0 s by closing its HTTP exchange",
            False,
        ),
        ({"cancellation": RecordRef(9, 7 * S), "cancel_reason": "slow"}, "abandoned after 7.0 s: slow", True),
        ({"cancellation": RecordRef(9, 1 * S), "cancel_reason": "timed out"}, "abandoned after 1.0 s: timed out", True),
        (LEFT, "abandoned after 2.0 s", True),
        (
            {"exchange_end": RecordRef(9, S), "http": refused()},
            "failed: HTTP status 502 by a gateway",
            True,
        ),
        (
            {
                "exchange_end": RecordRef(9, S),
                "http": refused(),
                "cancellation": RecordRef(10, 7 * S),
                "fault": Outcome.FAILED,
            },
            "failed: HTTP status 502 by a gateway, abandoned after 7.0 s",
            True,
        ),
        ({"settled": Outcome.NOT_RECORDED}, "not recorded", False),
    ],
)
def test_a_call_without_an_answer_says_what_became_of_it(what: dict[str, Any], text: str, is_bad: bool) -> None:
    status = fate_status(call(**what))
    assert status.word + status.text == text
    assert status.is_bad == is_bad


def test_a_late_error_says_so_in_twelve_cells() -> None:
    for word in ("tool error", "error -32602"):
        status = Status(word, is_bad=True, late_ns=5)
        assert (status.short, status.shortest) == (f"{word}, late", "error, late")
    assert Status("ok", late_ns=5).shortest == "ok, late"
    assert Status("error -32602", is_bad=True).shortest == "error -32602"


def test_every_outcome_has_a_word() -> None:
    words = [outcome_status(outcome).word for outcome in Outcome]
    assert all(words)
    assert len({*words}) == len(words)
    assert outcome_status(Outcome.CANCELLED, is_abandoned=True) == Status("abandoned", is_bad=True)
    assert outcome_status(Outcome.RESULT, is_abandoned=True) == outcome_status(Outcome.RESULT) == Status("ok")


def test_what_waits_says_for_how_long_if_that_is_known() -> None:
    assert waiting_status().word + waiting_status().text == "waiting"
    assert waiting_status(3 * S).text == " for 3.0 s"


@pytest.mark.parametrize(
    ("code", "word", "is_bad"), [(-32800, "cancelled", False), (-32603, "error -32603, 1.0 s late", True)]
)
def test_an_error_that_acknowledges_a_cancellation_is_no_error(code: int, word: str, is_bad: bool) -> None:
    raw = orjson.dumps({"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": "Request cancelled"}})
    (response,) = messages(Frame(10, 3 * S, "s2c", raw, judge(raw, "s2c")))
    assert isinstance(response, Response)
    cancelled = call(cancellation=RecordRef(9, 2 * S))
    cancelled.answer(response)
    status = answer_status(response, Meaning(cancelled))
    assert (status.word, status.text, status.is_bad) == (word, "Request cancelled", is_bad)
