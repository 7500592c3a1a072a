"""The engine of a replay: the order, what a message waits for, and what becomes of what the server chooses."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from analysis.protocol.revisions import LAST_HANDSHAKE_REVISION
from mcpproxy.replay.conversation import MAX_WAITING_ANSWERS
from mcpproxy.replay.options import ReplayOptions
from mcpproxy.replay.order import PATIENCE_NS
from tests.analysis.store.capture_writer import CaptureWriter
from tests.mcpproxy.replay.replays import MS, Replayed

Begin = Callable[..., Replayed]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begins replays whose captures are closed at the end."""
    with ExitStack() as stack:

        def begin_one(*arguments: object) -> Replayed:
            replayed = Replayed(*arguments)  # type: ignore[arg-type]
            stack.callback(replayed.script.close)
            return replayed

        yield begin_one


def writer(folder: Path) -> CaptureWriter:
    """Returns a capture that begins with the handshake."""
    capture = CaptureWriter(folder / "old.mcpcap", "weather")
    capture.handshake()
    return capture


def test_a_message_waits_for_the_answers_that_came_before_it_and_for_no_others(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "slow")
    capture.call(21, 2, "fast")
    capture.answer(30, 2, content=[])
    capture.call(40, 3, "next")
    capture.answer(50, 1, content=[])
    capture.answer(60, 3, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/call", "tools/call"]
    assert replayed.named() == []
    replayed.hear(id=1, result={"content": []})
    assert replayed.named() == []
    replayed.hear(id=2, result={"content": []})
    assert replayed.named() == ["tools/call"]
    assert not replayed.is_over()
    replayed.hear(id=3, result={"content": []})
    assert replayed.is_over()
    assert replayed.conversation.outcome.sent == 5
    assert replayed.conversation.outcome.lines() == []


def test_what_the_server_chose_is_translated_and_all_other_bytes_stay(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.ask(20, 1, "tools/list")
    capture.answer(21, 1, tools=[], nextCursor="old-cursor")
    capture.raw(22, "c2s", b'{"jsonrpc":"2.0", "id":2,"method":"tools/list","params":{"cursor":"old-cursor"}}')
    capture.answer(23, 2, tools=[], jobs=[{"jobId": 17}])
    capture.raw(
        24,
        "c2s",
        b'{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"job",  "arguments":{"id":17,"jobId":"17",'
        b'"count":17,"big":12345678901234567890123,"text":"\\ud800","note":"old-cursor"}}}',
    )
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/list"]
    replayed.hear(id=1, result={"tools": [], "nextCursor": "new-cursor"})
    (page,) = replayed.due()
    assert page.raw == b'{"jsonrpc":"2.0", "id":2,"method":"tools/list","params":{"cursor":"new-cursor"}}'
    replayed.hear(id=2, result={"tools": [], "jobs": [{"jobId": 99}]})
    (call,) = replayed.due()
    assert call.raw == (
        b'{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"job",  "arguments":{"id":99,"jobId":"17",'
        b'"count":17,"big":12345678901234567890123,"text":"\\ud800","note":"new-cursor"}}}'
    )


def test_values_in_texts_that_are_json_are_translated(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "open")
    capture.answer(21, 1, content=[{"type": "text", "text": '{"sessionId": "aaaa-1111"}'}])
    capture.call(22, 2, "read", handle="aaaa-1111")
    replayed = begin(capture)
    replayed.shake_hands()
    replayed.due()
    replayed.hear(id=1, result={"content": [{"type": "text", "text": '{"sessionId": "bbbb-2222"}'}]})
    (call,) = replayed.sent()
    assert call["params"]["arguments"] == {"handle": "bbbb-2222"}


def test_inputs_that_a_server_asks_for_get_the_names_of_today(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "book")
    asked = {"method": "elicitation/create", "params": {}}
    capture.answer(21, 1, resultType="input_required", inputRequests={"a1": asked}, requestState="old-state")
    capture.ask(22, 2, "tools/call", name="book", requestState="old-state", inputResponses={"a1": {"action": "accept"}})
    replayed = begin(capture)
    replayed.shake_hands()
    replayed.due()
    replayed.hear(id=1, result={"inputRequests": {"b2": asked}, "requestState": "new-state"})
    (retry,) = replayed.sent()
    assert retry["params"]["inputResponses"] == {"b2": {"action": "accept"}}
    assert retry["params"]["requestState"] == "new-state"


def test_requests_of_the_server_get_the_recorded_answers_whenever_they_come(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "dream")
    capture.say(21, "s2c", id=70, method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
    capture.say(22, "s2c", id=71, method="sampling/createMessage", params={"messages": [], "maxTokens": 2})
    capture.say(30, "c2s", id=71, result={"model": "second"})
    capture.say(31, "c2s", id=70, result={"model": "first"})
    capture.answer(40, 1, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/call"]
    replayed.hear(id="x", method="sampling/createMessage", params={"messages": [], "maxTokens": 2})
    assert replayed.sent() == [{"jsonrpc": "2.0", "id": "x", "result": {"model": "second"}}]
    replayed.hear(id=5, method="sampling/createMessage", params={"messages": ["other"], "maxTokens": 9})
    assert replayed.sent() == [{"jsonrpc": "2.0", "id": 5, "result": {"model": "first"}}]
    replayed.hear(id=6, method="ping")
    replayed.hear(id=7, method="roots/list")
    replayed.hear(id=8, method="no/such")
    answers = replayed.sent()
    assert [answer.get("result", answer.get("error", {}).get("code")) for answer in answers] == [{}, -32603, -32601]
    assert any("roots/list" in line for line in replayed.conversation.outcome.lines())


def test_an_answer_that_does_not_come_holds_up_the_rest_only_for_the_timeout(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    for number in range(1, 6):
        capture.call(20 * number, number, "find")
        capture.answer(20 * number + 1, number, content=[])
    replayed = begin(capture, ReplayOptions(timeout_ns=1_000 * MS))
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/call"]
    for _ in range(2):
        replayed.now_ms += 1_000  # then, it took a millisecond
        assert replayed.named() == []
        replayed.now_ms += 1
        assert replayed.named() == ["tools/call"]
    replayed.now_ms += 1_001
    assert replayed.named() == []
    assert replayed.is_over()
    outcome = replayed.conversation.outcome
    assert outcome.unsent == 2
    assert "3 calls in a row were not answered in time" in outcome.lines()[-1]
    assert "tools/call find (frame 4 of the recording): no answer within 1.0 s" in outcome.lines()


def test_a_call_that_was_never_answered_is_waited_for_as_long_as_then(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "hang")
    capture.call(30, 2, "find")
    capture.answer(520, 2, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/call", "tools/call"]
    replayed.hear(id=2, result={"content": []})
    assert not replayed.is_over()
    replayed.now_ms = 500 + PATIENCE_NS // MS
    replayed.due()
    assert replayed.is_over()
    assert replayed.conversation.outcome.lines() == []


def test_a_handshake_without_an_answer_ends_the_replay(tmp_path: Path, begin: Begin) -> None:
    replayed = begin(writer(tmp_path))
    assert replayed.named() == ["initialize"]
    replayed.conversation.end("the server closed its stdout")
    assert replayed.is_over()
    outcome = replayed.conversation.outcome
    assert outcome.failure == "initialize was not answered: the server closed its stdout"
    assert outcome.unsent == 1


def test_a_cancellation_comes_after_as_much_progress_as_then(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.ask(20, 1, "tools/call", name="count", arguments={}, _meta={"progressToken": "p"})
    for step in (1, 2):
        capture.say(20 + step, "s2c", method="notifications/progress", params={"progressToken": "p", "progress": step})
    capture.say(30, "c2s", method="notifications/cancelled", params={"requestId": 1})
    capture.call(31, 2, "find")
    capture.answer(32, 2, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/call"]
    replayed.hear(method="notifications/progress", params={"progressToken": "p", "progress": 1})
    assert replayed.named() == []
    replayed.hear(method="notifications/progress", params={"progressToken": "p", "progress": 2})
    assert replayed.named() == ["notifications/cancelled", "tools/call"]
    replayed.hear(id=2, result={"content": []})
    assert replayed.is_over()


def test_a_cancellation_without_progress_comes_after_as_long_as_then(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "count")
    capture.say(270, "c2s", method="notifications/cancelled", params={"requestId": 1})
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/call"]
    replayed.now_ms = 249
    assert replayed.named() == []
    assert replayed.conversation.next_due_ns(249 * MS) == 250 * MS
    replayed.now_ms = 250
    assert replayed.named() == ["notifications/cancelled"]
    assert replayed.is_over()


def test_with_a_speed_the_pauses_are_kept(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(1_015, 1, "find")
    capture.answer(1_020, 1, content=[])
    replayed = begin(capture, ReplayOptions(speed=2.0))
    replayed.shake_hands()
    assert replayed.named() == []  # `initialized` came 5 ms after the answer
    replayed.now_ms = 3
    assert replayed.named() == ["notifications/initialized"]
    replayed.now_ms = 502
    assert replayed.named() == []
    replayed.now_ms = 503
    assert replayed.named() == ["tools/call"]


def test_a_reaction_to_a_notification_waits_for_it_but_not_for_ever(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.say(20, "s2c", method="notifications/tools/list_changed")
    capture.ask(21, 1, "tools/list")
    capture.answer(22, 1, tools=[])
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized"]
    replayed.now_ms = PATIENCE_NS // MS - 1
    assert replayed.named() == []
    replayed.hear(method="notifications/tools/list_changed")
    assert replayed.named() == ["tools/list"]

    hopeless = begin(capture)
    hopeless.shake_hands()
    assert hopeless.named() == ["notifications/initialized"]
    hopeless.now_ms = PATIENCE_NS // MS
    assert hopeless.named() == ["tools/list"]


def test_bytes_that_are_no_message_and_batches_are_sent_as_they_were(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.raw(20, "c2s", b'{"jsonrpc":"2.0","id":1,"method"')
    batch = b'[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","id":2,"method":"ping"}]'
    capture.raw(21, "c2s", batch)
    capture.answer(22, 2)
    capture.answer(23, 1)
    capture.call(24, 3, "find")
    replayed = begin(capture)
    replayed.shake_hands()
    assert [outgoing.raw for outgoing in replayed.due()][1:] == [b'{"jsonrpc":"2.0","id":1,"method"', batch]
    replayed.hear(id=2, result={})
    assert replayed.named() == []
    replayed.hear(id=1, result={})
    assert replayed.named() == ["tools/call"]


def test_an_answer_whose_id_changed_its_type_is_an_answer(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "find")
    capture.answer(21, 1, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    replayed.due()
    replayed.hear(id="1", result={"content": []})
    assert replayed.is_over()


def test_another_revision_is_told_and_used(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    replayed = begin(capture)
    replayed.due()
    replayed.hear(id=0, result={"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {}})
    (ready,) = replayed.due()
    assert ready.version == "2025-03-26"
    (line,) = replayed.conversation.outcome.lines()
    assert line == "the server agreed on revision 2025-03-26; in the recording, it was 2025-06-18"


def test_hostile_messages_of_the_server_change_nothing(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "find")
    capture.answer(21, 1, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    replayed.due()
    for raw in (
        b"",
        b"\x00\xff",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"result":{}}',
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"\\ud800"}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[1]}}',
        b"[" + b",".join([b'{"jsonrpc":"2.0","method":"notifications/message"}'] * 1_000) + b"]",
    ):
        replayed.conversation.receive(raw, 0)
    assert not replayed.is_over()
    replayed.hear(id=1, result={"content": []})
    replayed.due()
    assert replayed.is_over()


def test_polls_keep_their_pauses_at_any_speed(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    for at_ms, id_ in ((100, 1), (600, 2)):
        capture.ask(at_ms, id_, "tasks/get", taskId="t")
        capture.answer(at_ms + 1, id_, taskId="t", status="working")
    replayed = begin(capture)
    replayed.shake_hands()
    replayed.now_ms = 85
    assert replayed.named() == ["notifications/initialized"]
    replayed.now_ms = 170
    assert replayed.named() == ["tasks/get"]
    replayed.hear(id=1, result={"taskId": "t", "status": "working"})
    assert replayed.named() == []
    replayed.now_ms = 170 + 499
    assert replayed.named() == ["tasks/get"]


def test_a_recording_that_begins_in_the_middle_gets_a_handshake(tmp_path: Path, begin: Begin) -> None:
    capture = CaptureWriter(tmp_path / "late.mcpcap", "weather", observed_start=False)
    capture.call(20, 1, "find")
    capture.answer(21, 1, content=[])
    replayed = begin(capture)
    (initialize,) = replayed.sent()
    assert initialize["params"]["clientInfo"]["name"] == "mcpproxy-replay"
    assert initialize["params"]["protocolVersion"] == LAST_HANDSHAKE_REVISION
    assert replayed.named() == []
    replayed.hear(id=initialize["id"], result={"protocolVersion": "2025-06-18"})
    assert replayed.named() == ["notifications/initialized", "tools/call"]
    replayed.hear(id=1, result={"content": []})
    assert replayed.is_over()
    (line,) = replayed.conversation.outcome.lines()
    assert line.endswith("began with one of its own, on revision 2025-06-18")


def test_a_server_that_refuses_our_handshake_gets_the_messages_all_the_same(tmp_path: Path, begin: Begin) -> None:
    capture = CaptureWriter(tmp_path / "late.mcpcap", "weather", observed_start=False)
    capture.call(20, 1, "find")
    capture.answer(21, 1, content=[])
    replayed = begin(capture)
    (initialize,) = replayed.sent()
    replayed.hear(id=initialize["id"], error={"code": -32601, "message": "no"})
    assert replayed.named() == ["tools/call"]
    assert "which the server refused" in replayed.conversation.outcome.lines()[0]


def test_a_whole_recording_without_a_handshake_stays_without_one(tmp_path: Path, begin: Begin) -> None:
    capture = CaptureWriter(tmp_path / "bare.mcpcap", "weather")
    capture.call(20, 1, "find")
    capture.answer(21, 1, content=[])
    assert begin(capture).named() == ["tools/call"]


def test_the_recorded_end_of_a_subscription_is_waited_for(tmp_path: Path, begin: Begin) -> None:
    capture = CaptureWriter(tmp_path / "old.mcpcap", "weather")
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    capture.ask(10, 1, "subscriptions/listen", notifications={}, _meta=meta)
    capture.answer(20, 1)
    replayed = begin(capture)
    assert replayed.named() == ["subscriptions/listen"]
    assert not replayed.is_over()
    replayed.now_ms = PATIENCE_NS // MS
    assert replayed.is_over()


def test_what_cannot_be_sent_is_told_and_makes_the_replay_incomplete(begin: Begin, tmp_path: Path) -> None:
    capture = CaptureWriter(tmp_path / "old.mcpcap", "weather")
    capture.handshake()
    capture.call(20, 1, "find")
    capture.answer(21, 1, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    _, call = replayed.due()
    replayed.conversation.note_unsent(call, "it is no line")
    outcome = replayed.conversation.outcome
    assert outcome.lines() == [
        "tools/call find (frame 4 of the recording): not sent",
        "1 message not sent: it is no line",
    ]
    assert (outcome.sent, outcome.is_incomplete, replayed.is_over()) == (2, True, True)


def test_a_server_that_ended_by_itself_gets_the_time_to_do_so_again(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    replayed = begin(capture, None, "server", 5_015)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized"]
    assert not replayed.is_over()
    replayed.now_ms = 5_999
    assert not replayed.is_over()
    replayed.now_ms = 6_000
    assert replayed.is_over()


def test_a_server_that_never_stops_talking_cannot_keep_the_replay_from_its_end(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.say(20, "s2c", method="notifications/tools/list_changed")
    replayed = begin(capture)
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized"]
    while not replayed.is_over():
        assert replayed.now_ms < 60_000
        replayed.now_ms += 500
        replayed.hear(method="notifications/message", params={"level": "info", "data": "still here"})


def test_answers_that_the_server_does_not_read_end_the_replay(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "find")
    capture.answer(30, 1, content=[])
    replayed = begin(capture)
    replayed.shake_hands()
    for number in range(MAX_WAITING_ANSWERS):
        replayed.hear(id=number, method="roots/list")
    assert not replayed.is_over()
    replayed.hear(id="one-more", method="roots/list")
    assert replayed.is_over()
    assert replayed.due() == []
    outcome = replayed.conversation.outcome
    assert outcome.failure == "the server did not read 10,000 answers to its requests"
    assert (outcome.sent, outcome.unsent) == (1, 2)


def test_answers_that_the_server_reads_do_not_end_the_replay(tmp_path: Path, begin: Begin) -> None:
    replayed = begin(writer(tmp_path))
    replayed.shake_hands()
    for number in range(MAX_WAITING_ANSWERS + 1):
        replayed.hear(id=number, method="ping")
        assert replayed.due()
    assert replayed.conversation.outcome.failure == ""


def test_times_count_while_nothing_can_be_sent(tmp_path: Path, begin: Begin) -> None:
    capture = writer(tmp_path)
    capture.call(20, 1, "find")
    capture.call(21, 2, "find")
    capture.answer(30, 1, content=[])
    capture.answer(30, 2, content=[])
    capture.call(40, 3, "find")
    capture.answer(50, 3, content=[])
    replayed = begin(capture, ReplayOptions(timeout_ns=100 * MS))
    replayed.shake_hands()
    assert replayed.named() == ["notifications/initialized", "tools/call", "tools/call"]
    for replayed.now_ms in (50, 109, 110, 208):
        replayed.conversation.note_blocked(replayed.now_ms * MS)
        assert not replayed.is_over()
    replayed.conversation.note_blocked(209 * MS)
    assert replayed.is_over()
    outcome = replayed.conversation.outcome
    assert outcome.unanswered_in_a_row == 2
    assert outcome.failure == "the server did not read what it was sent in time"
