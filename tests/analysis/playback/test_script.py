"""What a script holds: the items of small recordings, the calls that they belong to, and how the recording ends."""

from pathlib import Path
from typing import Any

import pytest

from analysis.playback.script import Script
from captures.errors import CaptureError
from captures.record import part_members, stderr_members
from tests.analysis.playback.recordings import MS, Recording, closed_scripts, grown, key_of
from tests.captures.samples import in_pieces

__all__ = ["closed_scripts"]

SSE = "text/event-stream"


def _numbers(script: Script, *seqs: int) -> list[int]:
    """The numbers of the items with these frames."""
    by_seq = {item.seq: item.number for item in script.items}
    return [by_seq[seq] for seq in seqs]


def test_a_call_has_what_the_server_sent_for_it(tmp_path: Path) -> None:
    made = Recording().handshake()
    asked = made.call(1, arguments={"q": "a"}, _meta={"progressToken": "t"})
    progress = made.server(method="notifications/progress", params={"progressToken": "t", "progress": 1})
    log = made.server(method="notifications/message", params={"level": "info", "data": "x"})
    sampling = made.server(id=9, method="sampling/createMessage", params={})
    sampled = made.client(id=9, result={})
    said = made.add("stderr", stderr_members(b"warning"))
    answer = made.server(id=1, result={"content": []})
    changed = made.server(method="notifications/tools/list_changed")
    script = made.script(tmp_path)

    item = script.items[_numbers(script, asked)[0]]
    assert (item.kind, item.sender, item.method, item.name) == ("request", "client", "tools/call", "search")
    assert item.key == key_of("tools/call", {"name": "search", "arguments": {"q": "a"}}, "search")
    assert script.requests(1, item.key) == (item.number,)
    assert not script.requests(2, item.key)
    of_call = [*script.items_of_call(item.call)]
    assert of_call == _numbers(script, progress, log, sampling, sampled, said, answer)
    assert script.answer_of(item.call) == of_call[-1]
    asks, replies = script.items[of_call[2]], script.items[of_call[3]]
    assert asks.outer == replies.outer == item.call
    assert asks.call == replies.call != item.call
    assert script.answer_of(asks.call) == replies.number
    assert (replies.kind, replies.method) == ("response", "sampling/createMessage")
    stderr = script.items[of_call[4]]
    assert (stderr.kind, stderr.session, stderr.sender, script.raw(stderr)) == ("stderr", 0, "server", b"warning")
    assert [*script.items_of(0)] == [stderr.number]
    assert script.items[_numbers(script, changed)[0]].call == -1
    assert [*script.sessions] == [1]
    assert [*script.items_of(1)] == [number for number in range(len(script.items)) if number != stderr.number]


def test_concurrent_calls_are_told_apart_by_their_tokens_only(tmp_path: Path) -> None:
    made = Recording().handshake()
    first, second = (made.call(n, n=n, _meta={"progressToken": n}) for n in (1, 2))
    progress = made.server(method="notifications/progress", params={"progressToken": 1, "progress": 1})
    log = made.server(method="notifications/message", params={"level": "info", "data": "x"})
    late, soon = made.server(id=2, result={}), made.server(id=1, result={})
    script = made.script(tmp_path)
    one, two, reported, logged, answered_two, answered_one = (
        script.items[number] for number in _numbers(script, first, second, progress, log, late, soon)
    )
    assert reported.call == one.call
    assert logged.call == -1
    assert (script.answer_of(one.call), script.answer_of(two.call)) == (answered_one.number, answered_two.number)


def test_equal_requests_are_listed_in_order(tmp_path: Path) -> None:
    made = Recording().handshake()
    asked = []
    for n in range(1, 6):
        asked.append(made.call(n, arguments={"same": True}))
        made.server(id=n, result={"n": n})
    script = made.script(tmp_path)
    key = script.items[_numbers(script, asked[0])[0]].key
    assert [*script.requests(1, key)] == _numbers(script, *asked)


def test_a_batch_is_one_item_even_of_one_message(tmp_path: Path) -> None:
    made = Recording().handshake()
    two = made.raw(
        "c2s",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},'
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search"}}]',
    )
    answers = made.raw("s2c", b'[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]')
    one = made.raw("c2s", b'[{"jsonrpc":"2.0","id":3,"method":"ping"}]')
    script = made.script(tmp_path)
    batch, answered, single = (script.items[number] for number in _numbers(script, two, answers, one))
    assert (batch.kind, batch.call, single.kind) == ("batch", -1, "batch")
    assert [(member.kind, member.method, member.name) for member in batch.members] == [
        ("request", "ping", ""),
        ("notification", "notifications/x", ""),
        ("request", "tools/call", "search"),
    ]
    assert [*script.requests(1, batch.members[0].key)] == [batch.number, single.number]
    calls = [batch.members[0].call, batch.members[2].call]
    assert [member.call for member in answered.members] == calls[::-1]
    for call in calls:
        assert script.answer_of(call) == answered.number
        assert [*script.items_of_call(call)] == [answered.number]
    assert not script.answer_of(single.members[0].call)
    assert script.raw(single) == b'[{"jsonrpc":"2.0","id":3,"method":"ping"}]'


def test_a_late_answer_and_a_stray_one_stay(tmp_path: Path) -> None:
    made = Recording().handshake()
    asked = made.call(1)
    made.client(method="notifications/cancelled", params={"requestId": 1})
    late = made.server(id=1, result={})
    stray = made.server(id=77, result={})
    script = made.script(tmp_path)
    call, answer, other = (script.items[number] for number in _numbers(script, asked, late, stray))
    assert script.answer_of(call.call) == answer.number
    assert (other.kind, other.call) == ("response", -1)


def test_lines_of_one_message_and_parts_of_a_frame_are_read_back(tmp_path: Path) -> None:
    made = Recording().handshake()
    spread = [made.raw("s2c", line) for line in (b'{"jsonrpc":"2.0",', b'"method":"notifications/x"', b"}")]
    made.raw("s2c", b"{ not closed")
    huge = b'{"jsonrpc":"2.0","method":"notifications/huge","params":{"x":"' + b"y" * 5_000 + b'"}}'
    for rec, middle in in_pieces("s2c", huge, 2_000):
        giant = made.add(rec, middle)
    made.add("part", part_members("s2c", 1, b'{"cut'))
    made.add("part", part_members("s2c", 2, b" off"))
    script = made.script(tmp_path)
    joined = script.items[_numbers(script, spread[0])[0]]
    assert (joined.kind, joined.method, joined.t_ns) == ("notification", "notifications/x", spread[2] * MS)
    assert script.raw(joined) == b'{"jsonrpc":"2.0",\n"method":"notifications/x"\n}'
    assert script.raw(script.items[_numbers(script, giant)[0]]) == huge
    assert [(item.kind, script.raw(item)) for item in script.items[-2:]] == [
        ("invalid", b"{ not closed"),
        ("invalid", b'{"cut off'),
    ] or [(item.kind, script.raw(item)) for item in script.items[-1:]] == [("invalid", b'{"cut off')]


def test_what_cannot_be_read_again_is_an_error(tmp_path: Path) -> None:
    made = Recording().handshake()
    script = made.script(tmp_path)
    (tmp_path / "made.mcpcap").write_bytes(b"")
    with pytest.raises(CaptureError, match=r"cannot read record 1 of .*the file has changed"):
        script.raw(script.items[0])


def test_what_a_head_says_about_the_message_is_kept(tmp_path: Path) -> None:
    made = Recording("http")
    kept = {"accept": SSE, "mcp_method": "x", "mcp_param_city": "Köln", "mcp_protocol_version": "hmac:0123456789abcdef"}
    made.http(1, **kept, authorization="hmac:0123456789abcdef", mcp_session_id="s", user_agent="host/1")
    asked = made.call(1, exchange=1)
    made.http(2)
    bare = made.call(2, exchange=2)
    unknown = made.call(3, exchange=3)
    script = made.script(tmp_path)
    first, second, third = (script.items[n] for n in _numbers(script, asked, bare, unknown))
    assert first.fields == (("accept", SSE), ("mcp-method", "x"), ("mcp-param-city", "Köln"), ("mcp-session-id", ""))
    assert second.fields == ()
    assert third.fields is None


def test_on_http_the_exchange_tells_the_call(tmp_path: Path) -> None:
    made = Recording("http")
    made.http(1, accept=SSE)
    asked = made.call(1, exchange=1)
    made.http(2, accept=SSE)
    other = made.call(1, exchange=2)
    made.answer(1, content_type=SSE, www_authenticate="Bearer", mcp_session_id="hmac:0123456789abcdef")
    primed = made.raw("s2c", b"", exchange=1, conn=1, unit="sse_event", event_id="e0", delim=b"")
    logged = made.server(1, "e1", method="notifications/message", params={})
    same_id = made.server(1, "e1", method="notifications/message", params={"n": 2})
    answered = made.server(1, id=1, result={})
    made.end(1)
    made.answer(2, 503, retry_after="3", date="today", x_token="hmac:0123456789abcdef")
    made.end(2, response_text="busy")
    made.http(3, "GET", accept=SSE)
    made.answer(3, content_type=SSE)
    pushed = made.server(3, method="notifications/tools/list_changed")
    script = made.script(tmp_path)
    call, unanswered, priming, log, further, answer, push = (
        script.items[n] for n in _numbers(script, asked, other, primed, logged, same_id, answered, pushed)
    )
    assert (priming.kind, priming.event_id, priming.call, priming.channel) == ("priming", "e0", call.call, "request")
    assert (log.call, log.event_id, further.event_id) == (call.call, "e1", None)
    assert script.answer_of(call.call) == answer.number
    assert script.answer_of(unanswered.call) is None
    assert script.is_over(unanswered.call)
    assert (push.call, push.channel, push.exchange) == (-1, "stream", 3)
    first, second, third = (script.http_answer(n) for n in (1, 2, 3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.status, first.calls, first.ended_by) == (200, (call.call,), "complete")
    assert first.fields == (("content-type", SSE), ("www-authenticate", "Bearer"))
    assert first.assigns_session_id
    assert (second.status, second.text, second.fields) == (503, "busy", (("retry-after", "3"),))
    assert (third.method, third.ended_by, third.ended_ns) == ("GET", "", -1)
    assert [answer.exchange for answer in script.http_answers_of(push.session)] == [3]
    assert script.http_answer(4) is None


@pytest.mark.parametrize("status", [-1, 99, 1_000, 10**30])
def test_a_status_that_http_cannot_have_is_none(tmp_path: Path, status: int) -> None:
    made = Recording("http")
    made.http(1)
    made.call(1, exchange=1)
    made.answer(1, status)
    made.end(1)
    answer = made.script(tmp_path).http_answer(1)
    assert answer is not None
    assert answer.status == 0


def test_a_resumed_stream_goes_on_with_its_call(tmp_path: Path) -> None:
    made = Recording("http")
    session = {"mcp_session_id": "hmac:0123456789abcdef"}
    made.http(1, accept=SSE, **session)
    asked = made.call(1, exchange=1)
    made.answer(1, content_type=SSE)
    sent = made.server(1, "e1", method="notifications/message", params={"n": 1})
    lost = made.server(1, "e2", method="notifications/message", params={"n": 2})
    made.end(1, by="server")
    made.http(2, "GET", accept=SSE, last_event_id="e1", **session)
    made.answer(2, content_type=SSE)
    made.record("stream", conn=1, exchange=2, dir="s2c", event="opened", last_event_id="e1")
    again = made.server(2, "e2", method="notifications/message", params={"n": 2})
    answered = made.server(2, "e3", id=1, result={})
    made.record("stream", conn=1, exchange=2, dir="s2c", event="ended", events=2, event_id="e3", retry=50)
    made.end(2)
    script = made.script(tmp_path)
    call, first, missed, repeated, answer = (
        script.items[n] for n in _numbers(script, asked, sent, lost, again, answered)
    )
    assert (first.is_repeat, missed.is_repeat, repeated.is_repeat, answer.is_repeat) == (False, False, True, False)
    assert {item.call for item in (first, missed, repeated, answer)} == {call.call}
    assert (repeated.channel, answer.channel, answer.exchange) == ("request", "request", 2)
    assert script.answer_of(call.call) == answer.number
    resumed = script.http_answer(2)
    assert resumed is not None
    assert resumed.retry_ms == 50


def test_the_older_transport_sends_everything_on_one_stream(tmp_path: Path) -> None:
    made, key = Recording("http"), "hmac:0123456789abcdef"
    made.http(1, "GET", accept=SSE)
    made.record(
        "exchange",
        conn=1,
        exchange=1,
        stage="response",
        response={"status": 200, "reason": "", "headers": [["Content-Type", SSE]]},
        uri_key=key,
        endpoints=["/messages?s=1"],
    )
    asked, logged, answered, pushed = [], [], [], []
    for number in (2, 3):
        request = {"method": "POST", "target": "/messages?s=1", "headers": []}
        made.record("exchange", conn=1, exchange=number, stage="request", request=request, uri_key=key)
        asked.append(made.call(number, exchange=number))
        made.answer(number, 202)
        made.end(number, uri_key=key)
        logged.append(made.server(1, method="notifications/message", params={}))
        answered.append(made.server(1, id=number, result={}))
        pushed.append(made.server(1, method="notifications/tools/list_changed"))
    script = made.script(tmp_path)
    calls = [script.items[number].call for number in _numbers(script, *asked)]
    assert [script.items[number].call for number in _numbers(script, *logged)] == calls
    assert [script.items[number].call for number in _numbers(script, *pushed)] == [-1, -1]
    assert [script.answer_of(call) for call in calls] == _numbers(script, *answered)
    assert {script.items[number].channel for number in _numbers(script, *answered, *logged)} == {"stream"}
    stream = script.http_answer(1)
    assert stream is not None
    assert stream.is_legacy


def test_a_redirected_request_is_a_repeat(tmp_path: Path) -> None:
    made = Recording("http")
    made.http(1)
    asked = made.call(1, exchange=1)
    made.answer(1, 307, location="/mcp/")
    made.end(1)
    made.record(
        "exchange",
        conn=1,
        exchange=2,
        stage="request",
        request={"method": "POST", "target": "/mcp/", "headers": []},
    )
    again = made.call(1, exchange=2)
    made.answer(2)
    answered = made.server(2, id=1, result={})
    script = made.script(tmp_path)
    first, second, answer = (script.items[n] for n in _numbers(script, asked, again, answered))
    assert (first.is_repeat, second.is_repeat, first.call, answer.call) == (False, True, second.call, second.call)
    assert [*script.requests(first.session, first.key)] == [first.number]
    moved = script.http_answer(1)
    assert moved is not None
    assert (moved.status, moved.fields) == (307, (("location", "/mcp/"),))


_EXIT = {"event": "ended", "pid": 1, "status": 3}
_ENDINGS: list[tuple[list[tuple[str, dict[str, Any]]], bool]] = [
    ([("process", _EXIT), ("close", {"ending": "server", "status": 3})], True),
    ([("eof", {"dir": "s2c", "by": "sender"}), ("eof", {"dir": "c2s", "by": "sender"}), ("process", _EXIT)], True),
    ([("eof", {"dir": "c2s", "by": "receiver"}), ("process", _EXIT)], True),
    ([("eof", {"dir": "c2s", "by": "sender"}), ("process", _EXIT), ("close", {"ending": "client"})], False),
    ([("eof", {"dir": "s2c", "by": "receiver"}), ("process", _EXIT), ("close", {"ending": "server"})], False),
    ([("eof", {"dir": "s2c", "by": "sender"}), ("process", _EXIT), ("close", {"ending": "client"})], False),
    ([("signal", {"event": "sent", "name": "SIGTERM"}), ("process", _EXIT)], False),
    ([("close", {"ending": "client"})], False),
    ([], False),
]


def test_the_server_ended_by_itself_only_if_nobody_asked_it_to(tmp_path: Path) -> None:
    for records, is_by_server in _ENDINGS:
        made = Recording().handshake()
        for rec, values in records:
            made.record(rec, **values)
        ending = made.script(tmp_path).ending
        assert ending is not None
        assert ending.by_server is is_by_server, records
        assert ending.is_whole
        assert bool(ending.caveats) is not any(rec == "close" for rec, _ in records)
        assert not ending.is_lossy
        assert ending.status == (3 if any(rec == "process" for rec, _ in records) else None)


def test_what_cannot_be_played_is_said(tmp_path: Path) -> None:
    made = Recording(redacted_by="mcpproxy 1").handshake()
    made.call(1, arguments={"user": "user-1"})
    made.record("gap", reason="damage")
    made.lines.append(b"no record\n")
    made.raw("s2c", b"[%b1]" % (b"1," * 1_000_001))
    ending = made.script(tmp_path).ending
    assert ending is not None
    assert not ending.is_whole
    assert ending.is_lossy
    assert ending.caveats == (
        "1 record lost",
        "damaged in 1 place",
        "its recorder was killed, so its end may be missing",
        "1 frame too large, too deep or too incomplete to examine",
        "pseudonyms stand for values that were redacted",
    )


def test_a_body_that_was_not_recorded_is_a_loss_and_a_message_too_large_to_examine_is_none(tmp_path: Path) -> None:
    for missing in ([], ["response"]):
        made = Recording("http")
        made.http(1)
        made.call(1, exchange=1)
        made.raw("s2c", b"[%b1]" % (b"1," * 1_000_001))
        made.answer(1, content_type="application/json")
        made.end(1, missing=missing)
        ending = made.script(tmp_path).ending
        assert ending is not None
        assert ending.is_lossy is bool(missing)
        assert not ending.is_whole


def test_a_copy_in_which_nothing_was_replaced_is_as_good_as_the_recording(tmp_path: Path) -> None:
    for argument, caveats in (("flour", ()), ("token-1", ("pseudonyms stand for values that were redacted",))):
        made = Recording(redacted_by="mcpproxy", cassette=True, env={}).handshake()
        made.call(1, arguments={"q": argument})
        ending = made.closed().script(tmp_path).ending
        assert ending is not None
        assert ending.caveats == caveats


def test_a_recording_without_an_end_is_said_to_be_cut_off(tmp_path: Path) -> None:
    ending = Recording().handshake().script(tmp_path).ending
    assert ending is not None
    assert ending.caveats == ("its recorder was killed, so its end may be missing",)


def test_a_damaged_capture_goes_on_after_the_damage(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.lines.insert(3, b"\x00\xff garbage\n")
    asked = made.call(1)
    script = made.script(tmp_path)
    assert script.items[-1].seq == asked


def test_a_line_of_stderr_without_its_bytes_is_no_item(tmp_path: Path) -> None:
    made = Recording()
    made.record("stderr", size=3)
    made.record("stderr", size=3, raw_b64="not base64")
    assert not made.script(tmp_path).items


@pytest.mark.parametrize("content", [b"", b"no capture\n"])
def test_what_is_no_capture_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.mcpcap"
    path.write_bytes(content)
    with pytest.raises(CaptureError):
        grown(path)
    with pytest.raises(CaptureError):
        grown(tmp_path / "missing.mcpcap")
