"""Responses: the tap reports what was sent, however it is cut; if it cannot follow, it reports that and stops."""

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.wire.framing import MAX_TRAILER_BYTES, Fields
from mcpproxy.wire.response import (
    MAX_AWAITED_RESPONSES,
    MAX_RESPONSE_HEAD_BYTES,
    Event,
    ParsingLost,
    ResponseAborted,
    ResponseBody,
    ResponseEnd,
    ResponseHead,
    ResponseTap,
)
from tests.examples import examples

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
OK_EVENTS: list[Event] = [
    ResponseHead(200, b"OK", b"HTTP/1.1", Fields([(b"Content-Length", b"2")]), False),
    ResponseBody(b"ok"),
    ResponseEnd(),
]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Answer(NamedTuple):
    """The requests' methods, the bytes on the wire, and the events that they encode."""

    method: bytes
    raw: bytes
    events: list[Event]


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """Returns the data in chunks, cut at some places; no chunk is empty, as no read is."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[start:stop] for start, stop in pairwise(places)]


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def heard(asked: Iterable[bytes], chunks: Iterable[bytes]) -> list[Event]:
    """Returns all events of a stream and of its end, with the pieces of a body joined."""
    tap = ResponseTap()
    for method in asked:
        tap.expect_response(method)
    found: list[Event] = []
    for event in [*(event for chunk in chunks for event in tap.feed(chunk)), *tap.finish()]:
        if isinstance(event, ResponseBody):
            assert event.payload
            if found and isinstance(found[-1], ResponseBody):
                found[-1] = ResponseBody(found[-1].payload + event.payload)
                continue
        found.append(event)
    assert tap.feed(OK) == []
    assert tap.finish() == []
    assert not tap.is_in_response
    return found


def events_of(data: bytes, method: bytes = b"GET") -> list[Event]:
    """Returns the events of the response to one request, which are the same however it is cut."""
    events = heard([method], [data])
    assert heard([method], bytewise(data)) == events
    return events


# --- what can be followed ---

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NOTED = {"content-length", "transfer-encoding", "connection", "upgrade", "proxy-connection"}

spaces = st.text(" ", max_size=2).map(str.encode)
names = st.one_of(
    st.sampled_from(["Content-Type", "x-dup", "X-Dup", "Mcp-Session-Id", "Set-Cookie", "WWW-Authenticate"]),
    st.text(TOKEN, min_size=1, max_size=8).filter(lambda name: name.lower() not in NOTED),
)
printable = st.text([*map(chr, range(0x20, 0x7F)), "\t", *map(chr, range(0x80, 0x100))], max_size=20)
values = printable.map(lambda text: text.encode("latin-1").strip(b" \t"))


@st.composite
def fields(draw: st.DrawFn) -> tuple[Fields, bytes]:
    """Header fields, and their lines."""
    found = draw(st.lists(st.tuples(names.map(str.encode), values), max_size=4))
    return Fields(found), b"".join(b"%b:%b%b%b\r\n" % (n, draw(spaces), v, draw(spaces)) for n, v in found)


@st.composite
def heads(draw: st.DrawFn, statuses: st.SearchStrategy[int], framing: tuple[bytes, bytes] | None) -> Answer:
    """Single response heads."""
    status = draw(statuses)
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.0"]))
    reason = draw(st.sampled_from([b"OK", b"", b"Not \xe9 Thing", b"a  b"]))
    before, lines_before = draw(fields())
    after, lines_after = draw(fields())
    own = b"%b: %b\r\n" % framing if framing else b""
    headers = (*before, *([framing] if framing else []), *after)
    raw = b"%b %d %b\r\n%b%b%b\r\n" % (version, status, reason, lines_before, own, lines_after)
    return Answer(b"", raw, [ResponseHead(status, reason, version, Fields(headers), status < 200)])


def content(payload: bytes) -> list[Event]:
    return [ResponseBody(payload)] if payload else []


@st.composite
def answers(draw: st.DrawFn, *, last: bool = False) -> Answer:
    """The response to a request, with what may come before it; the last of a connection may extend to its end."""
    method = draw(st.sampled_from([b"GET", b"POST", b"DELETE", b"OPTIONS", b"HEAD"]))
    raw, events = b"", list[Event]()
    for interim in draw(st.lists(heads(st.sampled_from([100, 102, 103]), None), max_size=2)):
        raw += interim.raw
        events += interim.events
    kind = draw(st.sampled_from(["length", "chunked", "nothing", *(["close"] if last else [])]))
    statuses = st.sampled_from([200, 202, 301, 307, 400, 401, 404, 405, 421, 500, 599])
    framing: tuple[bytes, bytes] | None = None
    body: list[Event]
    wire = payload = draw(st.binary(max_size=60))
    match kind:
        case "length":
            framing = (draw(st.sampled_from([b"Content-Length", b"content-length"])), b"%d" % len(payload))
            body = [*content(payload), ResponseEnd()]
        case "chunked":
            framing = (b"Transfer-Encoding", draw(st.sampled_from([b"chunked", b"Chunked", b"gzip, chunked"])))
            trailers, lines = draw(fields())
            step = draw(st.integers(1, 9))
            pieces = [payload[i : i + step] for i in range(0, len(payload), step)]
            wire = b"".join(b"%x;x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + lines + b"\r\n"
            body = [*content(payload), ResponseEnd(trailers)]
        case "close":
            body = [*content(payload), ResponseEnd(is_by_close=True)]
        case _:
            statuses = st.sampled_from([204, 304])
            framing = draw(st.sampled_from([None, (b"Content-Length", b"7"), (b"Transfer-Encoding", b"chunked")]))
            wire, body = b"", [ResponseEnd()]
    head = draw(heads(statuses, framing))
    if method == b"HEAD":
        wire, body = b"", [ResponseEnd()]
    return Answer(method, raw + head.raw + wire, [*events, *head.events, *body])


@st.composite
def connections(draw: st.DrawFn) -> list[Answer]:
    return [*draw(st.lists(answers(), max_size=3)), draw(answers(last=True))]


cuts = st.lists(st.integers(0, 2000), max_size=20)


@given(connections(), cuts, st.sampled_from([b"", b"\r\n", b"\n\n"]))
@examples(10)
def test_any_cutting_of_pipelined_responses_gives_what_was_sent(
    sent: list[Answer], at: list[int], between: bytes
) -> None:
    data = between.join(answer.raw for answer in sent)
    asked = [answer.method for answer in sent]
    expected = [event for answer in sent for event in answer.events]
    assert heard(asked, cut(data, at)) == heard(asked, bytewise(data)) == heard(asked, [data]) == expected


@given(st.lists(answers(), min_size=1, max_size=3), st.integers(0, 10_000))
@examples(10)
def test_a_response_cut_short_is_never_called_complete(sent: list[Answer], stop: int) -> None:
    lengths = [*accumulate(len(answer.raw) for answer in sent)]
    stop %= lengths[-1] + 1
    events = heard([answer.method for answer in sent], [b"".join(answer.raw for answer in sent)[:stop]])
    ends = [event for event in events if isinstance(event, ResponseEnd)]
    assert len(ends) == len([length for length in lengths if length <= stop])
    assert not any(end.is_by_close for end in ends)


def test_headers_are_reported_as_sent() -> None:
    raw = b"HTTP/1.1 200 Tr\xe8s bien\r\nX-B: 2\r\nx-b: \xe9\r\nA:\r\nX-B:  2 \r\nContent-Length:0\r\n\r\n"
    headers = ((b"X-B", b"2"), (b"x-b", b"\xe9"), (b"A", b""), (b"X-B", b"2"), (b"Content-Length", b"0"))
    assert events_of(raw) == [ResponseHead(200, b"Tr\xe8s bien", b"HTTP/1.1", Fields(headers), False), ResponseEnd()]


@pytest.mark.parametrize("status", [202, 301, 401, 405, 421])
def test_an_answer_of_no_length_and_no_bytes_ends_at_its_head(status: int) -> None:
    head, end = events_of(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\nLocation: http://b/\r\n\r\n" % status)
    assert isinstance(head, ResponseHead)
    assert (head.status, end) == (status, ResponseEnd())


@pytest.mark.parametrize(
    ("method", "head"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        (b"HEAD", CHUNKED),
        (b"HEAD", b"HTTP/1.1 200 OK\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Same\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No\r\n\r\n"),
    ],
)
def test_what_has_no_content_ends_at_its_head_whatever_the_head_says(method: bytes, head: bytes) -> None:
    first, *others = heard([method, b"GET"], [head + OK])
    assert isinstance(first, ResponseHead)
    assert others == [ResponseEnd(), *OK_EVENTS]


def test_interim_heads_come_before_the_final_one_and_answer_nothing() -> None:
    events = events_of(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK)
    assert [event.is_informational for event in events if isinstance(event, ResponseHead)] == [True, True, False]
    assert events[2:] == OK_EVENTS


def test_only_the_end_of_the_connection_ends_content_without_length() -> None:
    tap = ResponseTap()
    tap.expect_response(b"GET")
    (head,) = tap.feed(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    assert isinstance(head, ResponseHead)
    assert tap.feed(b"data: 1\r\n\r\n" + OK) == [ResponseBody(b"data: 1\r\n\r\n" + OK)]
    assert tap.is_in_response
    assert tap.finish() == [ResponseEnd(is_by_close=True)]


def test_a_coding_that_does_not_end_in_chunked_goes_on_until_the_end() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"
    assert events_of(head + b"0\r\n\r\n")[1:] == [ResponseBody(b"0\r\n\r\n"), ResponseEnd(is_by_close=True)]


def test_a_response_may_come_before_its_request_is_asked_in_full_but_not_before_it_is_known() -> None:
    tap = ResponseTap()
    tap.expect_response(b"POST")
    assert tap.feed(OK) == OK_EVENTS
    assert tap.finish() == []


# --- what ends early ---


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"H", "head"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "head"),
        (OK[:-1], "content"),
        (OK[:-2], "content"),
        (CHUNKED, "content"),
        (CHUNKED + b"2\r\na", "content"),
        (CHUNKED + b"1\r\na\r\n0\r\n", "content"),
    ],
)
def test_a_connection_that_ends_in_a_response_has_aborted_it(data: bytes, part: str) -> None:
    *_, last = events_of(data)
    assert last == ResponseAborted(f"the connection ended in the {part} of a response")


def test_a_connection_that_ends_between_responses_has_aborted_none() -> None:
    assert heard([b"GET", b"GET"], [OK]) == OK_EVENTS
    assert heard([b"GET"], []) == []
    assert [type(event) for event in heard([b"GET"], [b"HTTP/1.1 100 Continue\r\n\r\n"])] == [ResponseHead]


# --- what cannot be followed ---

LOST = {
    "no HTTP": b"\x15\x03\x03\x00\x02",
    "an older HTTP": b"hello",
    "HTTP/2": b"\0\0\x12\x04\0\0\0\0\0",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "one bare LF": b"HTTP/1.1 200 OK\r\nA: b\n\r\n",
    "bare CR": b"HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n",
    "folded header": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "space before the colon": b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nA\r\n\r\n",
    "NUL in a value": b"HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "low status": b"HTTP/1.1 099 OK\r\n\r\n",
    "long status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
    "list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na",
    "odd length": b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
    "empty length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
    "endless length": b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n" % (b"9" * 99),
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("data", LOST.values(), ids=LOST)
def test_a_head_that_cannot_be_read_loses_the_tap(data: bytes) -> None:
    (lost,) = events_of(data)
    assert isinstance(lost, ParsingLost)


@pytest.mark.parametrize(
    "rest",
    [b"x\r\n", b"1\na", b"1\r\nab", b"1 \r\n", b"0\r\na\r\n", b"1;" * 200, b"0\r\na:" + b"b" * MAX_TRAILER_BYTES],
)
def test_a_bad_chunk_loses_the_tap_with_what_was_good_before_it_told(rest: bytes) -> None:
    head, body, lost = events_of(CHUNKED + b"1\r\na\r\n2\r\nbc\r\n" + rest)
    assert isinstance(head, ResponseHead)
    assert body.payload.startswith(b"abc")  # type: ignore[union-attr]
    assert isinstance(lost, ParsingLost)


@pytest.mark.parametrize("fields", [b"", b"Upgrade: websocket\r\nConnection: Upgrade\r\n"])
def test_a_switch_of_protocols_is_told_and_ends_the_watch(fields: bytes) -> None:
    head, lost = events_of(b"HTTP/1.1 101 Switching Protocols\r\n" + fields + b"\r\n\x81\x05hello")
    assert isinstance(head, ResponseHead)
    assert (head.status, lost) == (101, ParsingLost("the upstream switched protocols"))


def test_a_response_that_nobody_asked_for_loses_the_tap() -> None:
    lost = ParsingLost("the upstream sent what no request asked for")
    assert heard([], [OK]) == heard([], bytewise(OK)) == [lost]
    assert heard([b"GET"], [OK + OK]) == [*OK_EVENTS, lost]
    assert heard([b"HEAD"], [OK])[1:] == [ResponseEnd(), lost]


def test_a_head_has_at_most_its_maximum() -> None:
    start = b"HTTP/1.1 204 No\r\nA: "
    fits = start + b"x" * (MAX_RESPONSE_HEAD_BYTES - len(start) - 4) + b"\r\n\r\n"
    assert [type(event) for event in heard([b"GET"], [fits])] == [ResponseHead, ResponseEnd]
    for more in range(1, 5):
        data = fits.replace(b"A: ", b"A: " + b"y" * more)
        for chunks in (
            [data],
            cut(data, range(0, len(data), 1000)),
            cut(data, [MAX_RESPONSE_HEAD_BYTES - 1, MAX_RESPONSE_HEAD_BYTES, MAX_RESPONSE_HEAD_BYTES + 1]),
        ):
            assert heard([b"GET"], chunks) == [
                ParsingLost(f"a response head is longer than {MAX_RESPONSE_HEAD_BYTES} bytes")
            ]


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nA: ", CHUNKED, CHUNKED + b"1\r\na", CHUNKED + b"0\r\n"])
def test_what_waits_without_end_loses_the_tap(start: bytes) -> None:
    tap = ResponseTap()
    tap.expect_response(b"GET")
    tap.feed(start)
    for _ in range(0, MAX_RESPONSE_HEAD_BYTES + 2048, 1024):
        if events := tap.feed(b"1" * 1024):
            assert [type(event) for event in events] == [ParsingLost]
            return
    pytest.fail("it still waits")


def test_requests_that_wait_without_end_lose_the_tap() -> None:
    tap = ResponseTap()
    for _ in range(MAX_AWAITED_RESPONSES):
        tap.expect_response(b"GET")
    assert tap.feed(OK) == OK_EVENTS
    tap.expect_response(b"GET")
    tap.expect_response(b"GET")
    assert [type(event) for event in tap.feed(OK)] == [ParsingLost]


NASTY = [b"\r", b"\n", b"\r\n", b" ", b"\0", b":", b"0", b"HTTP/1.1", b"Content-Length: 5\r\n", b"\r\n\r\n", b"1;", OK]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Valid responses with a few bytes inserted or removed."""
    data = b"".join(answer.raw for answer in draw(connections()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from(NASTY) | st.just(b"")) + data[at + draw(st.integers(0, 3)) :]
    return data


@given(damaged() | st.binary(max_size=80), st.lists(st.sampled_from([b"GET", b"HEAD"]), max_size=4), cuts)
@example(b"\r\n\rHTTP", [b"GET"], [2])
@examples(10)
def test_damage_is_taken_alike_in_any_cutting_and_nothing_escapes(
    data: bytes, asked: list[bytes], at: list[int]
) -> None:
    events = heard(asked, [data] if data else [])
    assert heard(asked, cut(data, at)) == heard(asked, bytewise(data)) == events
    assert not [event for event in events[:-1] if isinstance(event, ParsingLost | ResponseAborted)]
