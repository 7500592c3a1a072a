"""Abandoned requests: which requests count as abandoned, and that the fold, the rules and lists agree on each."""

import json
from typing import Any, Final

import pytest
from msgspec.structs import replace

from analysis.conversation.call import Call, IdState, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.record_ref import RecordRef
from analysis.protocol.error_codes import REQUEST_CANCELLED
from analysis.reading import AbandonedCount, Reading, Step
from analysis.rules.finding import Level
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction
from tests.analysis.judged import Judged
from tests.analysis.talk import unanswered

S: Final = 1_000_000_000
MODERN: Final = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def frame(seq: int, at_s: float, direction: Direction, exchange: int | None = None, **members: Any) -> Frame:
    raw = json.dumps({"jsonrpc": "2.0", **members}).encode()
    made = Frame(seq, int(at_s * S), direction, raw, judge(raw, direction))
    return made if exchange is None else replace(made, exchange=exchange, unit="http_body")


def call(exchange: int | None = None) -> Frame:
    return frame(1, 0, "c2s", exchange, id=7, method="tools/call", params={"name": "reindex"})


def cancel(at_s: float, reason: str | None = None, seq: int = 2) -> Frame:
    params = {"requestId": 7} | ({} if reason is None else {"reason": reason})
    return frame(seq, at_s, "c2s", method="notifications/cancelled", params=params)


def left(*items: object) -> Call:
    fold = Fold()
    for item in items:
        fold.feed(item)
    (exchange,) = fold.open_calls()
    return exchange


@pytest.mark.parametrize(
    "reason",
    [
        "timed out after 0.7s",
        "Error: MCP error -32001: Request timed out",
        "McpError: Request timeout",
        "TIME-OUT",
        "deadline exceeded",
        "ETIMEDOUT",
    ],
)
def test_a_reason_that_says_time_out_is_enough(reason: str) -> None:
    exchange = left(call(), cancel(0.7, reason))
    assert (exchange.outcome, exchange.abandoned_ns, exchange.cancel_reason) == (Outcome.CANCELLED, 7 * S // 10, reason)


@pytest.mark.parametrize(("at_s", "is_abandoned"), [(0.5, False), (4.999, False), (5.0, True), (35.0, True)])
@pytest.mark.parametrize("reason", [None, "User requested cancellation", "sometimes"])
def test_without_one_the_time_decides(at_s: float, is_abandoned: bool, reason: str | None) -> None:
    assert (left(call(), cancel(at_s, reason)).abandoned_ns is not None) == is_abandoned


def test_a_subscription_ends_by_a_cancellation_while_all_is_well() -> None:
    listening = frame(1, 0, "c2s", id=7, method="subscriptions/listen", params={"_meta": MODERN})
    assert left(listening, cancel(60)).abandoned_ns is None


def test_an_answer_that_comes_too_late_is_told_with_its_time() -> None:
    fold = Fold()
    fold.feed(call())
    (cancelled,) = fold.feed(cancel(30, "Request timed out"))
    assert cancelled.cancelled is not None
    assert cancelled.cancelled.abandoned_ns == 30 * S
    (answered,) = fold.feed(frame(3, 32.5, "s2c", id=7, result={}))
    assert answered.answered is not None
    assert answered.answered.outcome is Outcome.RESULT
    assert (answered.answered.abandoned_ns, answered.answered.late_ns) == (30 * S, 5 * S // 2)


def test_an_error_that_acknowledges_the_cancellation_is_no_late_answer() -> None:
    for code, late_ns in ((REQUEST_CANCELLED, None), (-32603, S)):
        reading, count = Reading(), AbandonedCount()
        error = frame(3, 31, "s2c", id=7, error={"code": code, "message": "Request cancelled"})
        (call_, *_) = [
            answered for step in map(reading.feed, (call(), cancel(30), error)) for answered in counted(count, step)
        ]
        assert (call_.is_acknowledged, call_.late_ns, call_.abandoned_ns) == (late_ns is None, late_ns, 30 * S)
        assert (count.calls, count.answered_late) == (1, 0 if late_ns is None else 1)


def counted(count: AbandonedCount, step: Step) -> list[Call]:
    """Count a step; returns the calls that it answers."""
    count.on_step(step)
    return [context.answered for context in step.messages if context.answered is not None]


def test_only_the_first_cancellation_counts() -> None:
    fold = Fold()
    fold.feed(call())
    fold.feed(cancel(1, "no longer wanted"))
    (again,) = fold.feed(cancel(40, "timed out", seq=3))
    assert again.cancelled is None
    (exchange,) = fold.open_calls()
    assert (exchange.abandoned_ns, exchange.cancel_reason) == (None, "no longer wanted")


@pytest.mark.parametrize(("at_s", "waited_ns"), [(6.0, 6 * S), (1.0, None)])
def test_closing_the_response_is_a_cancellation_since_2026(at_s: float, waited_ns: int | None) -> None:
    fold = Fold()
    fold.feed(frame(1, 0, "c2s", 3, id=7, method="ping", params={"_meta": MODERN}))
    fold.feed(Record(9, "exchange", int(at_s * S), {"exchange": 3, "stage": "end", "ended_by": "client"}))
    (exchange,) = unanswered(fold)
    assert (exchange.outcome, exchange.abandoned_ns, exchange.cancelled_seq) == (Outcome.CANCELLED, waited_ns, 9)
    assert fold.failed_count == 0


def test_a_request_that_was_cancelled_has_not_failed_when_its_exchange_breaks_off() -> None:
    fold = Fold()
    for number in (3, 4):
        fold.feed(begun(0, number))
    fold.feed(call(exchange=3))
    fold.feed(replace(cancel(30, "timed out"), exchange=4, unit="http_body"))
    fold.feed(Record(9, "exchange", 31 * S, {"exchange": 3, "stage": "end", "ended_by": "client"}))
    (exchange,) = unanswered(fold)
    assert (exchange.outcome, exchange.abandoned_ns, exchange.cancelled_seq) == (Outcome.CANCELLED, 30 * S, 2)
    assert fold.failed_count == 0


def test_a_client_that_closes_the_response_before_2026_has_given_up_at_any_time() -> None:
    fold = Fold()
    fold.feed(call(exchange=3))
    fold.feed(Record(9, "exchange", 3 * S // 2, {"exchange": 3, "stage": "end", "ended_by": "client"}))
    (exchange,) = unanswered(fold)
    assert (exchange.outcome, exchange.abandoned_ns, exchange.has_client_closed) == (
        Outcome.CANCELLED,
        3 * S // 2,
        True,
    )
    assert exchange.exchange_end == RecordRef(9, 3 * S // 2)


STREAM: Final = {"status": 200, "headers": [["Content-Type", "text/event-stream"], ["Mcp-Session-Id", "a"]]}


def stream_end(at_s: float, by: str = "complete", exchange: int = 3) -> Record:
    members = {"exchange": exchange, "stage": "end", "response": STREAM, "ended_by": by}
    return Record(9, "exchange", int(at_s * S), members)


def begun(at_s: float, exchange: int) -> Record:
    request = {"method": "POST", "headers": [["Mcp-Session-Id", "a"]]}
    return Record(0, "exchange", int(at_s * S), {"exchange": exchange, "stage": "request", "request": request})


def posted(at_s: float) -> tuple[Record, Frame]:
    """A cancellation, sent in a POST of the same session."""
    return begun(at_s, 4), replace(cancel(at_s, "timed out", seq=11), exchange=4, unit="http_body")


def test_what_had_failed_before_it_was_cancelled_has_failed() -> None:
    exchange = left(begun(0, 3), call(exchange=3), stream_end(1), *posted(30))
    assert exchange.exchange_end is not None
    assert (exchange.outcome, exchange.exchange_end.t_ns) == (Outcome.FAILED, S)
    assert (exchange.cancelled_ns, exchange.abandoned_ns) == (30 * S, 30 * S)
    assert exchange.end_ref == exchange.failure == exchange.exchange_end
    assert exchange.lasted_ns == S


def test_what_was_cancelled_before_it_failed_was_cancelled() -> None:
    exchange = left(begun(0, 3), call(exchange=3), *posted(30), stream_end(31))
    assert (exchange.outcome, exchange.abandoned_ns) == (Outcome.CANCELLED, 30 * S)
    assert (exchange.failure, exchange.end_ref, exchange.lasted_ns) == (None, RecordRef(11, 30 * S), 30 * S)


def test_a_stream_that_is_resumed_has_not_failed_unless_that_ends_too() -> None:
    for ends, outcome in (((), Outcome.CANCELLED), ((stream_end(4, exchange=5),), Outcome.FAILED)):
        event = Frame(2, S // 2, "s2c", b"", judge(b"", "s2c", "sse_event"), exchange=3, unit="sse_event", event_id="e")
        asked = {"method": "GET", "headers": [["Mcp-Session-Id", "a"], ["Last-Event-ID", "e"]]}
        again = Record(12, "exchange", 2 * S, {"exchange": 5, "stage": "request", "request": asked})
        opened = Record(13, "stream", 3 * S, {"exchange": 5, "event": "opened", "last_event_id": "e"})
        broken = (begun(0, 3), call(exchange=3), event, stream_end(1))
        exchange = left(*broken, again, opened, *ends, *posted(30))
        assert exchange.outcome is outcome


def test_initialize_must_not_be_cancelled_so_it_stays_unanswered() -> None:
    exchange = left(frame(1, 0, "c2s", id=7, method="initialize", params={}), cancel(60, "timed out"))
    assert (exchange.outcome, exchange.abandoned_ns) == (Outcome.UNANSWERED, 60 * S)


def test_a_server_that_is_dead_does_not_answer_whether_its_client_cancels_or_not() -> None:
    dead = Record(2, "eof", S, {"dir": "s2c", "by": "sender"})
    exchange = left(call(), dead, cancel(30, "timed out", seq=3))
    assert (exchange.outcome, exchange.abandoned_ns) == (Outcome.UNANSWERED, 30 * S)


def test_a_cancellation_of_what_has_failed_names_a_request_that_was_seen() -> None:
    fold = Fold()
    for number in (3, 4):
        fold.feed(begun(0, number))
    fold.feed(call(exchange=3))
    refused = {"exchange": 3, "stage": "end", "response": {"status": 502}, "ended_by": "complete"}
    fold.feed(Record(9, "exchange", 2 * S, refused))
    (context,) = fold.feed(replace(cancel(30, seq=11), exchange=4, unit="http_body"))
    assert context.id_state is IdState.FAILED
    (context,) = fold.feed(frame(12, 31, "s2c", 4, id=7, result={}))
    assert context.id_state is IdState.FAILED


def test_the_rule_reports_it_at_its_request_and_blames_only_a_side_that_is_silent_for_long() -> None:
    progress = frame(3, 1, "s2c", method="notifications/progress", params={"progressToken": 1, "progress": 1})
    for items, level, blames, more in (
        ((cancel(29, "timed out"),), Level.NOTE, "unknown", ""),
        ((cancel(35, "no longer wanted"),), Level.NOTE, "unknown", ""),
        ((progress, cancel(35, "timed out")), Level.NOTE, "unknown", ""),
        ((cancel(35, "timed out"),), Level.WARNING, "server", " without a message from the server"),
    ):
        checker = Judged()
        found = [one for item in (call(), *items) for one in checker.feed(item)]
        (finding,) = (one for one in found if one.rule == "timeout/abandoned-request")
        assert (finding.level, finding.frame, finding.related, finding.blames) == (level, 1, (2,), blames)
        assert finding.message == f"tools/call reindex (id 7) was abandoned after {items[-1].t_ns // S}.0 s{more}"


def test_a_response_that_no_client_can_read_answers_nothing() -> None:
    """The response is cut short, lacks the blank line that ends an event, or arrives after the end of its exchange."""
    answer = frame(5, 2, "s2c", 3, id=7, result={})
    cut = replace(answer, whole=False)
    for items in (
        (cut, stream_end(3)),
        (replace(cut, unit="sse_event"), stream_end(3)),
        (stream_end(1), replace(answer, unit="sse_event")),
    ):
        assert left(begun(0, 3), call(exchange=3), *items).outcome is Outcome.FAILED
    fold = Fold()
    for item in (begun(0, 3), call(exchange=3), replace(answer, unit="sse_event"), stream_end(3)):
        fold.feed(item)
    assert fold.open_calls() == ()
