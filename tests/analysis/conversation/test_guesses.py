"""The request for which an unmatched response was probably meant, and the probable answer noted at that request."""

from typing import Any

import pytest

from analysis.conversation.call import Outcome, ProbableAnswer
from tests.analysis.talk import Talk


@pytest.fixture
def talk() -> Talk:
    made = Talk()
    made.handshake()
    return made


def call(talk: Talk, id_: object, name: str) -> int:
    return talk.ask(id_, "tools/call", name=name).message.seq


def meant(talk: Talk, id_: object) -> str | None:
    context = talk.answer(id_)
    assert context.answered is None
    return None if context.guessed_request is None else context.guessed_request.text


def left(talk: Talk) -> list[tuple[object, ProbableAnswer | None]]:
    return [(one.request.id.value, one.probable_answer) for one in talk.fold.open_calls()]


def test_it_was_probably_meant_for_the_only_request_that_is_open(talk: Talk) -> None:
    asked = call(talk, 4, "reindex")
    assert meant(talk, 99) == f"probably meant for tools/call reindex #4 (frame {asked}), the only request open then"
    (one,) = talk.fold.open_calls()
    assert one.outcome is Outcome.UNANSWERED
    assert one.probable_answer == ProbableAnswer(talk.seq, "99")
    assert one.probable_answer.text == f"probably answered by frame {talk.seq} with id 99"


def test_of_several_it_was_for_the_oldest_and_the_next_one_for_the_next(talk: Talk) -> None:
    first, second = call(talk, 4, "a"), call(talk, "x", "b")
    third = talk.ask(6, "tools/list").message.seq
    assert meant(talk, 97) == f"probably meant for tools/call a #4 (frame {first}), the oldest of 3 requests open then"
    assert meant(talk, 98) == f'probably meant for tools/call b #"x" (frame {second}), the next of 3 requests open then'
    assert meant(talk, 99) == f"probably meant for tools/list #6 (frame {third}), the next of 3 requests open then"
    assert meant(talk, 100) == f"probably meant for tools/call a #4 (frame {first}), the oldest of 3 requests open then"
    assert [one and one.id for _, one in left(talk)] == ["97", "98", "99"]


def test_what_is_answered_after_all_was_not_meant(talk: Talk) -> None:
    call(talk, 4, "a")
    meant(talk, 99)
    ended = talk.answer(4).answered
    assert ended is not None
    assert (ended.outcome, ended.probable_answer) == (Outcome.RESULT, None)


def test_a_request_that_is_cancelled_keeps_its_answer_and_gets_no_other(talk: Talk) -> None:
    call(talk, 4, "a")
    meant(talk, 98)
    said = talk.seq
    talk.say("c2s", method="notifications/cancelled", params={"requestId": 4, "reason": "timed out"})
    assert meant(talk, 99) is None
    assert left(talk) == [("4", ProbableAnswer(said, "98"))]


def test_nothing_is_said_where_nothing_is_open(talk: Talk) -> None:
    assert meant(talk, 99) is None


def test_a_listening_request_waits_for_no_answer() -> None:
    talk = Talk()
    talk.ask(1, "subscriptions/listen", notifications={})
    assert meant(talk, 99) is None


def test_an_answer_may_be_meant_for_a_request_that_is_lost(talk: Talk) -> None:
    call(talk, 4, "a")
    talk.record("gap", first=9, last=9, reason="slow")
    assert meant(talk, 99) is None


def test_an_id_of_a_request_of_its_own_side_is_known(talk: Talk) -> None:
    talk.say("s2c", id=7, method="roots/list")
    call(talk, 4, "a")
    assert meant(talk, 7) is None


def test_a_second_answer_is_known(talk: Talk) -> None:
    call(talk, 3, "a")
    talk.answer(3)
    call(talk, 4, "b")
    assert meant(talk, 3) is None


def test_an_answer_of_the_client_is_meant_for_a_request_of_the_server(talk: Talk) -> None:
    call(talk, 4, "a")
    asked = talk.say("s2c", id=1, method="roots/list").message.seq
    context = talk.say("c2s", id=9, result={"roots": []})
    assert context.guessed_request is not None
    assert (
        context.guessed_request.text == f"probably meant for roots/list #1 (frame {asked}), the only request open then"
    )


@pytest.mark.parametrize("members", [{"id": None, "result": {}}, {"result": {}}])
def test_an_answer_without_an_id_was_meant_for_what_is_open(talk: Talk, members: dict[str, Any]) -> None:
    call(talk, 4, "a")
    assert talk.say("s2c", **members).guessed_request is not None
    assert left(talk) == [("4", ProbableAnswer(talk.seq, None))]
    assert left(talk)[0][1].text == f"probably answered by frame {talk.seq} without an id"  # type: ignore[union-attr]


def test_an_error_without_an_id_answers_what_could_not_be_read(talk: Talk) -> None:
    call(talk, 4, "a")
    talk.raw("c2s", b"not a message")
    error = {"code": -32700, "message": "no"}
    assert talk.say("s2c", id=None, error=error).guessed_request is None
    assert talk.say("s2c", id=None, error=error).guessed_request is not None


def test_over_http_the_response_to_a_post_is_meant_for_what_was_posted() -> None:
    talk = Talk("http")
    for number in (1, 2):
        talk.http(number)
        talk.ask(number, "tools/call", number, name=f"t{number}")
    asked = talk.seq
    context = talk.answer(99, 2)
    assert context.guessed_request is not None
    assert context.guessed_request.text == (
        f"probably meant for tools/call t2 #2 (frame {asked}), the only request open then in its exchange"
    )
    talk.http(3)
    talk.say("c2s", 3, method="notifications/initialized")
    assert talk.answer(98, 3).guessed_request is None


def test_one_session_never_explains_another() -> None:
    talk = Talk("http")
    for number, session in ((1, "a"), (2, "b")):
        talk.http(number)
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": session}}
        talk.say("c2s", number, id=0, method="initialize", params=opening)
        talk.http_answer(number, mcp_session_id=session)
        talk.answer(0, number, protocolVersion="2025-11-25", capabilities={}, serverInfo={"name": "s", "version": "1"})
        talk.http_end(number)
    talk.http(3, mcp_session_id="a")
    asked = talk.say("c2s", 3, id=1, method="tools/call", params={"name": "t"})
    for number, session in ((4, "b"), (5, "a")):
        talk.http(number, "GET", mcp_session_id=session)
        talk.http_answer(number, mcp_session_id=session)
    assert talk.event(4, id=98, result={}).guessed_request is None
    found = talk.event(5, id=99, result={}).guessed_request
    assert found is not None
    assert found.call is asked.call


def test_names_are_cut_and_what_is_counted_is_bounded(talk: Talk) -> None:
    for number in range(300):
        call(talk, number + 10, "n" * 1000)
    text = meant(talk, 5)
    assert text is not None
    assert len(text) < 200
    assert text.endswith("the oldest of 256 or more requests open then")
