"""Over HTTP, ids are paired within their exchange, and across exchanges only within a session."""

import json
from typing import Any

from analysis.conversation.addressing import Addressing
from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import id_of
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import UNJUDGED, Direction
from tests.analysis.talk import unanswered


class Talk:
    """A synthetic capture over HTTP."""

    def __init__(self) -> None:
        self.session = Fold()
        self.seq = 0

    def exchange(self, number: int, *, session: str | None = None, by: str = "request", **more: Any) -> None:
        """Feed an `exchange` record; the headers of the request or response have the `session` id, if any."""
        headers = [["Mcp-Session-Id", session]] if session else []
        self.seq += 1
        members = {"exchange": number, "stage": by, by: {"headers": headers}, **more}
        self.session.feed(Record(self.seq, "exchange", self.seq, members))

    def record(self, exchange: int, stage: str, **members: Any) -> None:
        self.seq += 1
        self.session.feed(Record(self.seq, "exchange", self.seq, {"exchange": exchange, "stage": stage, **members}))

    def say(self, exchange: int, dir_: Direction, **message: Any) -> MessageContext:
        raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.seq += 1
        frame = Frame(self.seq, self.seq, dir_, raw, judge(raw), exchange=exchange, unit="http_body")
        (context,) = self.session.feed(frame)
        return context

    def ask(self, exchange: int, id_: int = 1, method: str = "ping", dir_: Direction = "c2s") -> MessageContext:
        return self.say(exchange, dir_, id=id_, method=method)

    def answer(self, exchange: int, id_: int = 1, dir_: Direction = "s2c") -> MessageContext:
        return self.say(exchange, dir_, id=id_, result={})


def asked_in(context: MessageContext) -> int | None:
    return None if context.answered is None else context.answered.request.frames[0].exchange


def test_the_same_ids_of_many_clients_are_told_apart() -> None:
    talk = Talk()
    for number in range(1, 65):
        talk.ask(number)
    assert [asked_in(talk.answer(number)) for number in range(64, 0, -1)] == list(range(64, 0, -1))
    assert talk.session.open_calls() == ()


def test_an_answer_in_an_exchange_of_nobody_means_nothing() -> None:
    talk = Talk()
    talk.ask(1)
    assert asked_in(talk.answer(2)) is None
    (left,) = talk.session.open_calls()
    assert left.outcome is Outcome.UNANSWERED


def test_a_client_answers_by_an_exchange_of_its_own() -> None:
    talk = Talk()
    for number, session in ((1, "a"), (2, "b")):
        talk.exchange(number, session=session)
        talk.ask(number, 7, "roots/list", "s2c")
    talk.exchange(3, session="b")
    assert asked_in(talk.answer(3, 7, "c2s")) == 2
    talk.exchange(4, session="a")
    assert asked_in(talk.answer(4, 7, "c2s")) == 1


def test_without_sessions_a_client_can_mean_only_an_open_request() -> None:
    talk = Talk()
    talk.ask(1, 7, "roots/list", "s2c")
    assert asked_in(talk.answer(2, 7, "c2s")) == 1
    assert asked_in(talk.answer(3, 7, "c2s")) is None


def test_a_resumed_stream_brings_what_an_earlier_one_lost() -> None:
    talk = Talk()
    talk.exchange(1, session="a")
    talk.ask(1, 3, "tools/call")
    talk.exchange(2, session="a")
    assert asked_in(talk.answer(2, 3)) == 1


def test_the_legacy_transport_answers_everything_on_one_stream() -> None:
    talk = Talk()
    talk.exchange(1, by="response", uri_key="hmac:1")
    talk.exchange(2, by="response", uri_key="hmac:2")
    talk.exchange(3, uri_key="hmac:2")
    talk.ask(3, 5)
    talk.exchange(4, uri_key="hmac:1")
    talk.ask(4, 5)
    assert asked_in(talk.answer(1, 5)) == 4
    assert asked_in(talk.answer(2, 5)) == 3


def test_a_cancellation_finds_its_request_across_exchanges() -> None:
    talk = Talk()
    for number in (1, 2):
        talk.exchange(number, session=f"{number}")
        talk.ask(number, 9, "tools/call")
    talk.exchange(3, session="2")
    context = talk.say(3, "c2s", method="notifications/cancelled", params={"requestId": 9})
    assert context.cancels is not None
    assert context.cancels.frames[0].exchange == 2


def test_what_an_exchange_says_of_itself_is_checked() -> None:
    talk = Talk()
    for headers in (None, 5, [5], [["Mcp-Session-Id"]], [["mcp-session-id", 5]], {"a": 1}):
        record = {"exchange": 1, "request": {"headers": headers}, "uri_key": 7}
        talk.session.feed(Record(0, "exchange", 0, record))
    talk.session.feed(Record(0, "exchange", 0, {"exchange": "x", "request": []}))
    talk.ask(1)
    assert asked_in(talk.answer(1)) == 1


def test_events_that_no_client_takes_for_messages_leave_nothing_open() -> None:
    session = Fold()
    empty = Frame(1, 1, "s2c", b"", judge(b"", "s2c", "sse_event"), exchange=1, unit="sse_event", event_id="1")
    other = Frame(2, 2, "s2c", b"tick", UNJUDGED, exchange=1, unit="sse_event", event="heartbeat")
    for frame in (empty, other):
        session.feed(frame)
    assert session.is_complete
    session.feed(Frame(3, 3, "s2c", b"x", UNJUDGED, exchange=1, unit="sse_event"))
    assert not session.is_complete


def test_requests_of_an_exchange_that_failed_are_not_awaited() -> None:
    for end, left in (
        ({"response": {"status": 502}, "ended_by": "proxy"}, 0),
        ({"response": {"status": 404}, "ended_by": "complete"}, 0),
        ({"ended_by": "server"}, 0),
        ({"response": {"status": 200}, "ended_by": "server"}, 0),
        ({"response": {"status": 202}, "ended_by": "complete"}, 1),
    ):
        talk = Talk()
        talk.ask(1)
        talk.session.feed(Record(9, "exchange", 9, {"exchange": 1, "stage": "end", **end}))
        assert (len(talk.session.open_calls()), talk.session.failed_count) == (left, 1 - left), end


def test_a_stream_of_a_session_that_its_client_left_may_be_resumed_if_its_events_have_ids() -> None:
    for event_id in ("e1", None):
        talk = Talk()
        talk.exchange(1, session="a")
        talk.ask(1, 3)
        talk.session.feed(Frame(5, 5, "s2c", b"", UNJUDGED, exchange=1, unit="sse_event", event_id=event_id))
        response = {"status": 200, "headers": [["Content-Type", "text/event-stream"]]}
        end = {"exchange": 1, "stage": "end", "response": response, "ended_by": "client"}
        talk.session.feed(Record(9, "exchange", 9, end))
        talk.exchange(2, session="a")
        assert asked_in(talk.answer(2, 3)) == (None if event_id is None else 1)


def test_an_error_without_an_id_answers_the_only_request_of_its_exchange() -> None:
    talk = Talk()
    talk.ask(1, 3)
    talk.ask(2, 3)
    assert asked_in(talk.say(2, "s2c", id=None, error={"code": -32700, "message": "no"})) == 2
    assert asked_in(talk.say(2, "s2c", id=None, error={"code": -32700, "message": "no"})) is None
    talk.ask(3, 1)
    talk.ask(3, 2)
    assert asked_in(talk.say(3, "s2c", error={"code": -32700, "message": "no"})) is None


def test_a_record_without_heads_does_not_take_the_session_away() -> None:
    """The request's head is recorded only once; the URL that all POSTs share is not a session where an id is known."""
    addressing = Addressing()
    headers = [["Mcp-Session-Id", "s1"]]
    addressing.on_exchange({"exchange": 1, "stage": "request", "request": {"headers": headers}, "uri_key": "u"})
    addressing.on_exchange({"exchange": 1, "stage": "response", "response": {"headers": []}, "uri_key": "u"})
    addressing.on_exchange({"exchange": 2, "stage": "request", "request": {"headers": headers}, "uri_key": "u"})
    frame = Frame(1, 1, "s2c", b"{}", judge(b"{}"), exchange=1)
    key = addressing.add_request("server", frame, id_of(5))
    assert key in list(addressing.keys_elsewhere("server", 2, id_of(5)))


def test_a_client_that_closes_the_response_gave_up_in_either_era() -> None:
    for era, end, outcome in (
        ("modern", {"response": {"status": 200}, "ended_by": "client"}, Outcome.CANCELLED),
        ("modern", {"ended_by": "client"}, Outcome.CANCELLED),
        ("modern", {"response": {"status": 503}, "ended_by": "client"}, Outcome.FAILED),
        ("modern", {"response": {"status": 200}, "ended_by": "server"}, Outcome.FAILED),
        ("handshake", {"response": {"status": 200}, "ended_by": "client"}, Outcome.CANCELLED),
        ("handshake", {"ended_by": "client"}, Outcome.CANCELLED),
        ("handshake", {"response": {"status": 503}, "ended_by": "client"}, Outcome.FAILED),
        ("handshake", {"ended_by": "proxy"}, None),  # the recorder exited, so the outcome is unknown
    ):
        talk = Talk()
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"} if era == "modern" else {}
        talk.say(1, "c2s", id=1, method="ping", params={"_meta": meta})
        talk.session.feed(Record(9, "exchange", 9, {"exchange": 1, "stage": "end", **end}))
        assert [one.outcome for one in unanswered(talk.session)] == ([] if outcome is None else [outcome]), (era, end)
        assert talk.session.failed_count == (outcome is Outcome.FAILED)


def redirected(talk: Talk, exchange: int, **message: Any) -> MessageContext:
    """A POST to `/mcp`, which is redirected to `/mcp/`."""
    request = {"method": "POST", "target": "/mcp", "headers": [["User-Agent", "one"]]}
    talk.record(exchange, "request", request=request)
    context = talk.say(exchange, "c2s", **message)
    talk.record(exchange, "end", response={"status": 307, "headers": [["Location", "/mcp/"]]}, ended_by="complete")
    return context


def repeated(talk: Talk, exchange: int, *, agent: str = "one", target: str = "/mcp/", **message: Any) -> MessageContext:
    request = {"method": "POST", "target": target, "headers": [["User-Agent", agent]]}
    talk.record(exchange, "request", request=request)
    return talk.say(exchange, "c2s", **message)


ASKED: dict[str, Any] = {"id": 1, "method": "tools/call", "params": {"name": "echo"}}


def test_a_request_that_is_repeated_after_a_redirect_is_one_call() -> None:
    talk = Talk()
    first = redirected(talk, 1, **ASKED)
    again = repeated(talk, 2, **ASKED)
    assert (again.is_repeat, again.request, again.session) == (True, first.message, first.session)
    answered = talk.answer(2)
    assert answered.answered is not None
    assert (answered.request, answered.answered.redirects) == (first.message, 1)
    assert answered.answered.http is talk.session.exchanges.get(2)
    assert talk.session.open_calls() == ()
    assert talk.session.routing.count == 1


def test_a_request_that_is_redirected_and_fails_elsewhere_has_failed_there() -> None:
    talk = Talk()
    redirected(talk, 1, **ASKED)
    assert unanswered(talk.session) == []
    repeated(talk, 2, **ASKED)
    talk.record(2, "end", response={"status": 502}, ended_by="complete")
    (failed,) = unanswered(talk.session)
    assert (failed.outcome, failed.redirects, failed.http) == (Outcome.FAILED, 1, talk.session.exchanges.get(2))


def test_a_redirect_that_nobody_follows_is_the_end_of_a_call() -> None:
    talk = Talk()
    redirected(talk, 1, **ASKED)
    (left,) = talk.session.open_calls()
    assert (left.outcome, left.redirects) == (Outcome.FAILED, 0)


def test_a_client_follows_as_soon_as_it_has_the_head() -> None:
    """This is what fetch does; the rest of the redirect arrives later, and changes nothing."""
    talk = Talk()
    request = {"method": "POST", "target": "/mcp", "headers": [["User-Agent", "one"]]}
    redirect = {"status": 307, "headers": [["Location", "/mcp/"]]}
    for is_early in (False, True):
        number = talk.seq + 1
        talk.record(number, "request", request=request)
        if is_early:  # the server redirects before it has read the body
            talk.record(number, "response", response=redirect)
        talk.say(number, "c2s", **ASKED)
        if not is_early:
            talk.record(number, "response", response=redirect)
        assert repeated(talk, number + 1, **ASKED).is_repeat
        talk.record(number, "end", response=redirect, ended_by="complete")
        answered = talk.answer(number + 1)
        assert answered.answered is not None
        assert (answered.answered.outcome, answered.answered.redirects) == (Outcome.RESULT, 1)
    assert talk.session.open_calls() == ()


def test_sessions_and_connections_tell_equal_messages_apart() -> None:
    talk = Talk()
    first, second = [["Mcp-Session-Id", "a"]], [["Mcp-Session-Id", "b"]]
    for number, headers in ((1, first), (2, second)):
        talk.record(number, "request", request={"method": "POST", "target": "/mcp", "headers": headers}, conn=number)
        talk.say(number, "c2s", **ASKED)
        response = {"status": 307, "headers": [["Location", "/mcp/"]]}
        talk.record(number, "end", response=response, ended_by="complete")
    for number, headers, of in ((3, second, 2), (4, first, 1)):
        talk.record(number, "request", request={"method": "POST", "target": "/mcp/", "headers": headers})
        talk.say(number, "c2s", **ASKED)
        assert asked_in(talk.answer(number)) == of


def test_a_long_chain_of_redirects_and_large_bodies_upset_nothing() -> None:
    talk = Talk()
    large = {**ASKED, "params": {"name": "x" * 200_000}}
    for number in range(1, 21, 2):
        redirected(talk, number, **large)
        assert repeated(talk, number + 1, **large).is_repeat
        assert asked_in(talk.answer(number + 1)) == number
    talk = Talk()
    for number in range(1, 3001):
        request = {"method": "POST", "target": f"/{number}", "headers": []}
        talk.record(number, "request", request=request)
        talk.say(number, "c2s", **ASKED)
        response = {"status": 307, "headers": [["Location", f"/{number + 1}"]]}
        talk.record(number, "end", response=response, ended_by="complete")
    talk.record(3001, "request", request={"method": "POST", "target": "/3001", "headers": []})
    assert talk.say(3001, "c2s", **ASKED).is_repeat
    assert asked_in(talk.answer(3001)) == 1
    talk = Talk()
    redirected(talk, 1, **ASKED)
    talk.record(1, "end", response={"status": 307}, ended_by="complete")  # the response no longer has a target
    assert not repeated(talk, 2, target="/mcp", **ASKED).is_repeat
    redirected(talk, 3, **ASKED)
    talk.say(3, "c2s", **ASKED)  # the same id in the same exchange


def test_what_another_client_asks_or_asks_elsewhere_or_later_repeats_nothing() -> None:
    others: list[dict[str, Any]] = [{"agent": "two"}, {"target": "/mcp"}, {"params": {"name": "other"}}]
    for other in others:
        talk = Talk()
        redirected(talk, 1, **ASKED)
        assert not repeated(talk, 2, **{**ASKED, **other}).is_repeat
    talk = Talk()
    redirected(talk, 1, **ASKED)
    talk.seq += 31_000_000_000
    assert not repeated(talk, 2, **ASKED).is_repeat


def test_a_notification_and_a_response_that_come_again_mean_nothing_new() -> None:
    talk = Talk()
    messages: list[dict[str, Any]] = [{"method": "notifications/initialized"}, {"id": 9, "result": {}}]
    for message in messages:
        redirected(talk, talk.seq, **message)
        again = repeated(talk, talk.seq + 1, **message)
        assert (again.is_repeat, again.answered, again.id_state) == (True, None, None)
