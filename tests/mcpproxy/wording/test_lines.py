"""What one line says about a message, regardless of what draws the line."""

from typing import Any

import orjson
import pytest

from analysis.conversation.call import Call, IdState
from analysis.conversation.message import Request, Response, message_of, messages, parse_exactly
from analysis.conversation.record_ref import RecordRef
from captures.envelope import judge
from captures.frame import Frame
from captures.verdict import Direction
from mcpproxy.wording import lines
from mcpproxy.wording.lines import Line, line
from mcpproxy.wording.meaning import UNKNOWN_MEANING, Meaning
from mcpproxy.wording.statuses import Status

MS = 1_000_000
CALL = {"id": 7, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}


def frame(raw: bytes, way: Direction = "c2s", at_ms: int = 0) -> Frame:
    return Frame(1, at_ms * MS, way, raw, judge(raw, way))


def packed(body: dict[str, Any]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **body})


def said(body: dict[str, Any], way: Direction = "c2s", meaning: Meaning = UNKNOWN_MEANING) -> Line:
    (message,) = messages(frame(packed(body), way))
    return line(message, meaning)


def asked() -> Request:
    (message,) = messages(frame(packed(CALL)))
    assert isinstance(message, Request)
    return message


def answered(body: dict[str, Any], at_ms: int = 100) -> Call:
    (response,) = messages(frame(packed(body), "s2c", at_ms))
    assert isinstance(response, Response)
    call = Call(asked())
    call.answer(response)
    return call


def of_response(call: Call, **meaning: Any) -> Line:
    assert call.response is not None
    return line(call.response, Meaning(call, **meaning))


def test_a_request_says_its_method_id_name_and_arguments() -> None:
    it = said(CALL)
    assert (it.kind, it.direction.text, it.subject.text, it.id, it.name, it.gist.text) == (
        *("request", "→", "tools/call", "#7", "add"),
        '{"a":1}',
    )
    assert it.status is None
    assert it.problem == ""


def test_a_response_says_what_was_asked_and_what_came() -> None:
    it = of_response(answered({"id": 7, "result": {"content": [{"type": "text", "text": "It is\n3"}]}}))
    assert (it.kind, it.direction.text, it.subject.text, it.id, it.name) == ("response", "←", "tools/call", "#7", "add")
    assert it.status == Status("ok", "It is 3")
    assert it.subject.role == it.role == "dim"


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (IdState.NEVER_SEEN, "fits no request"),
        (IdState.ANSWERED, "answered before"),
        (IdState.OPEN, "not readable"),
        (None, "fits no request"),
    ],
)
def test_a_response_without_a_call_says_why(state: IdState | None, word: str) -> None:
    it = said({"id": 8, "result": {"tools": []}}, "s2c", Meaning(id_state=state))
    assert (it.subject.text, it.id) == ("answer", "#8")
    assert it.status == Status(word, "ok 0 tools", is_bad=True)


def test_a_converted_id_is_marked_as_a_broken_rule() -> None:
    it = of_response(answered({"id": "7", "result": {}}), is_converted=True)
    assert (it.direction.text, it.direction.role, it.problem, it.id) == ("←!", "bad", "id/type-changed", "#7")


@pytest.mark.parametrize(
    ("meaning", "text"),
    [
        (Meaning(cancels=asked()), "#7 tools/call add: no longer needed"),
        (
            Meaning(cancels=asked(), cancelled_after_ns=7 * 10**9, is_abandoned=True),
            "#7 abandoned after 7.0 s: tools/call add: no longer needed",
        ),
        (
            Meaning(cancels=asked(), cancelled_after_ns=3 * 10**8),
            "#7 cancelled after 300 ms: tools/call add: no longer needed",
        ),
        (Meaning(id_state=IdState.ANSWERED), "#7, answered before: no longer needed"),
        (UNKNOWN_MEANING, "#7, no request seen: no longer needed"),
    ],
)
def test_a_cancellation_says_what_it_cancels(meaning: Meaning, text: str) -> None:
    params = {"requestId": 7, "reason": "no longer needed"}
    assert said({"method": "notifications/cancelled", "params": params}, meaning=meaning).gist.text == text


def test_what_is_repeated_after_a_redirect_says_nothing_else() -> None:
    it = said(CALL, meaning=Meaning(is_repeat=True))
    assert (it.kind, it.subject.text, it.id, it.name) == ("request", "tools/call", "", "")
    assert it.gist.text == "again, after the redirect"


def test_a_frame_that_is_no_message_is_quoted_and_breaks_a_rule() -> None:
    (message,) = messages(frame(b"Loaded\x1b[31m 3 plugins", "s2c"))
    it = line(message, UNKNOWN_MEANING)
    assert (it.kind, it.direction.text, it.subject.text, it.problem) == (
        *("invalid", "←✗", "not a message"),
        "framing/stdout-not-json",
    )
    assert it.gist.text == r'"Loaded\x1b[31m 3 plugins"'


def test_a_body_where_no_message_is_due_breaks_none() -> None:
    (message,) = messages(frame(b"<html>", "s2c"))
    it = line(message, Meaning(is_stray_body=True))
    assert (it.kind, it.direction.text, it.subject.text, it.gist.text, it.problem) == (
        "aside",
        "←",
        "body",
        "<html>",
        "",
    )


def test_a_batch_says_how_many_and_its_messages_do_not_repeat_its_problem() -> None:
    raw = b"[" + packed(CALL) + b"," + packed({"method": "notifications/initialized"}) + b"]"
    whole = frame(raw)
    it = lines.line_of_batch(whole, 2)
    assert (it.kind, it.subject.text, it.problem) == ("batch", "batch of 2", whole.verdict.problem or "")
    inside = [line(message, UNKNOWN_MEANING) for message in messages(whole)]
    assert [(one.kind, one.problem) for one in inside] == [("request", ""), ("notification", "")]


def test_a_message_that_spans_lines_says_what_is_wrong_with_its_first() -> None:
    first = frame(b'{"jsonrpc":"2.0","id":7,')
    whole = message_of(first, None, parse_exactly(packed(CALL)))
    assert line(whole, UNKNOWN_MEANING).problem == "framing/stdin-not-json"


def test_a_request_is_told_once_more_with_what_became_of_it() -> None:
    it = lines.line_of_ended_request(asked(), Status("unanswered", is_bad=True))
    assert (it.subject.role, it.status, it.gist.text) == ("dim", Status("unanswered", is_bad=True), '{"a":1}')


def test_a_message_of_which_a_log_has_only_a_part_says_so() -> None:
    request, response = frame(packed(CALL)), frame(packed({"id": 7, "result": {"content": []}}), "s2c")
    request.is_abridged = response.is_abridged = True
    (asking,), (answering,) = messages(request), messages(response)
    assert isinstance(answering, Response)
    call = answered({"id": 7, "result": {"content": []}})
    call.response = answering
    assert line(asking, UNKNOWN_MEANING).gist.text == '[partial] {"a":1}'
    status = line(answering, Meaning(call)).status
    assert status is not None
    assert (status.verdict, status.text) == ("ok", "[partial]")


def test_a_late_answer_says_how_late_it_was() -> None:
    call = answered({"id": 7, "error": {"code": -32602, "message": "no such\npage"}}, 2500)
    call.cancellation = RecordRef(2, 100 * MS)
    status = of_response(call).status
    assert status is not None
    assert (status.word, status.short) == ("error -32602, 2.4 s late", "error -32602, late")
    assert (status.text, status.is_bad) == (r"no such\npage", True)
