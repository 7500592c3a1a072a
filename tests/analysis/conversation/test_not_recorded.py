"""What a capture lacks, because it was not recorded or was deleted, is unknown, and no peer is blamed for it."""

from typing import Any

from orjson import loads

from analysis.conversation.call import Outcome
from analysis.rules.finding import Finding
from captures.frames import FrameAssembler
from captures.record import Record, decode
from tests.analysis.growth import assert_linear
from tests.analysis.http_trace import ASKED, SERVED, HttpTrace, notification, request, result
from tests.analysis.judged import Judged
from tests.analysis.talk import Talk
from tests.analysis.traces import check, checked, grave, stdio


def handshake() -> list[Any]:
    """The frames of a handshake on stdio."""
    return [
        ("c2s", request(0, "initialize", **ASKED)),
        ("s2c", result(0, **SERVED)),
        ("c2s", notification("notifications/initialized")),
    ]


def calls(count: int) -> list[Any]:
    """The frames of `count` calls with their results."""
    return [
        frame
        for id_ in range(1, count + 1)
        for frame in (
            ("c2s", request(id_, "tools/call", name="dig", arguments={"deep": id_})),
            ("s2c", result(id_, content=[])),
        )
    ]


def records(*frames: Any) -> list[Record]:
    """The records of a capture with these frames."""
    made = [decode(line.rstrip(b"\n"), 0, loads) for _, line in stdio("ring", *frames).records()]
    return [record for record in made if record is not None]


def header(first: Record, seq: int, segment: int) -> Record:
    """The header of a later segment."""
    return first._replace(seq=seq, members={**first.members, "segment": segment})


def judged(items: list[Record]) -> tuple[Judged, list[Finding]]:
    """The checker at the end of a closed capture, and its findings."""
    checker, assembler, findings = Judged(), FrameAssembler(), list[Finding]()
    for record in items:
        item = assembler.feed(record)
        findings += checker.feed(item) if item is not None else []
    return checker, [*findings, *checker.finish("closed")]


def test_a_capture_whose_beginning_the_ring_has_deleted_blames_nobody_and_says_where_it_begins() -> None:
    whole = records(*handshake(), *calls(20))
    cut = 16  # the response to a call whose request was deleted
    checker, findings = judged([header(whole[0], cut, 2), *(one for one in whole if one.seq > cut)])
    assert findings == []
    assert checker.fold.first_seq == cut
    assert not checker.fold.observed_start


def test_a_segment_that_is_missing_in_between_counts_as_lost_records() -> None:
    whole = records(*handshake(), *calls(20))
    end = Record(12, "close", whole[11].t_ns, {"ending": "segment"})
    later = [one._replace(seq=one.seq + 20) for one in whole if one.seq > 14]
    checker, findings = judged([*whole[:12], end, header(whole[0], 34, 3), *later])
    assert findings == []
    assert checker.fold.lost_count == 34 - 12 - 1


def test_a_request_whose_response_may_be_among_lost_records_is_not_called_unanswered() -> None:
    whole = records(*handshake(), ("c2s", request(1, "tools/call", name="dig")))
    gap = Record(5, "gap", whole[4].t_ns + 1, {"first": 5, "last": 5, "reason": "slow"})
    checker, findings = judged([*whole[:5], gap._replace(seq=6)])
    assert findings == []
    assert [one.outcome for one in checker.fold.open_calls()] == [Outcome.NOT_RECORDED]


def exchange(body: dict[str, Any], status: str = "200 OK", *, lacks: str) -> HttpTrace:
    """A POST whose request or response body is missing from the capture."""
    trace = HttpTrace()
    trace.answer(trace.post(request(0, "initialize", **ASKED)), result(0, **SERVED))
    posted = trace.post(body)
    if lacks == "req":
        trace.frames[-1] |= {"raw": trace.frames[-1]["raw"].partition("\r\n\r\n")[0] + "\r\n\r\n", "body": False}
    trace.answer(posted, result(1, content=[]) if lacks == "req" else None, status=status)
    if lacks == "res":
        trace.frames[-1]["body"] = False
    return trace


def test_a_response_that_is_not_recorded_is_not_called_missing() -> None:
    trace = exchange(request(1, "tools/call", name="dig"), lacks="res")
    checker, found = checked(trace.case())
    assert not grave(found)
    assert checker.fold.unrecorded_count == 1
    assert checker.fold.failed_count == 0


def test_a_refusal_that_is_not_recorded_may_have_said_why() -> None:
    assert not grave(check(exchange(request(1, "tools/call", name="dig"), "400 Bad Request", lacks="res").case()))


def test_the_response_to_a_request_that_is_not_recorded_is_not_called_unknown() -> None:
    assert not grave(check(exchange(request(1, "tools/call", name="dig"), lacks="req").case()))


def test_a_stream_that_cannot_be_decoded_is_told_while_it_is_open() -> None:
    trace = exchange(request(1, "tools/call", name="dig"), lacks="req")
    trace.stream(trace.post(method="GET"))
    trace.frames[-1]["raw"] = trace.frames[-1]["raw"].replace("\r\n\r\n", "\r\nContent-Encoding: compress\r\n\r\n")
    checker, found = checked(trace.case())
    assert not grave(found)
    assert checker.fold.unrecorded_count == 2


def test_a_refused_get_is_no_stream_whatever_its_coding() -> None:
    trace = HttpTrace()
    trace.answer(trace.post(request(0, "initialize", **ASKED)), result(0, **SERVED))
    trace.answer(trace.post(method="GET"), "no", status="405 Method Not Allowed", Content_Encoding="compress")
    trace.answer(trace.post(request(1, "tools/list")), result(66))
    assert ("http/response-id-mismatch", 5) in grave(check(trace.case()))


def test_bodies_of_unknown_sessions_cost_the_same_however_many_sessions_there_are() -> None:
    def judge(count: int) -> None:
        talk = Talk("http")
        for number in range(count):
            talk.http(number, mcp_session_id=f"{number}")
            talk.ask(number, "tools/list", number)
        for number in range(count, 2 * count):
            talk.http(number)
            talk.record("exchange", exchange=number, stage="end", missing=["request"], ended_by="complete")
        assert talk.fold.unrecorded_count == count

    assert_linear(judge, 300, 2_400)
