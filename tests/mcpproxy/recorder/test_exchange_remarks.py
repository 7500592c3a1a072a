"""What `show` prints about HTTP exchanges and streams in addition to their messages."""

import json
from typing import Any

import pytest
from orjson import loads

from captures.frames import FrameAssembler
from captures.record import Record, decode
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from mcpproxy.wording.records import remark_on
from tests.mcpproxy.conversation_text import ConversationText

STREAM = {"status": 200, "headers": [["Content-Type", "text/event-stream; charset=utf-8"]]}
JSON = {"status": 200, "headers": [["content-type", "application/json"]]}
OURS = {"status": 403, "reason": "the Origin header names a page", "by": "proxy"}


def ended(method: str, response: object, by: str = "complete", **more: Any) -> dict[str, Any]:
    request = {"method": method, "target": "/mcp", "version": "HTTP/1.1", "headers": []}
    return {"exchange": 3, "stage": "end", "request": request, "response": response, "ended_by": by, **more}


@pytest.mark.parametrize(
    ("members", "glyph", "text", "detail"),
    [
        (ended("POST", JSON), None, "", ""),
        (ended("POST", {"status": 202}, body_hash={"response": {"size": 8}}), None, "", ""),
        (ended("POST", STREAM), None, "", ""),
        (ended("POST", STREAM, "client"), None, "", ""),
        (ended("GET", STREAM, "client"), None, "", ""),
        (
            ended("POST", STREAM, "server", error="it broke off"),
            "▲",
            "POST /mcp → 200, ended by the server",
            "it broke off",
        ),
        (ended("POST", {"status": 404}), "▲", "POST /mcp → 404", ""),
        (
            ended("POST", {"status": 404}, body_hash={}, response_size=9) | {"body_hash": {"response": {"size": 9}}},
            "▲",
            "POST /mcp → 404, 9 B not stored",
            "",
        ),
        (
            ended("POST", {"status": 401}, response_text="log in first", oauth={"leg": "challenge", "scope": "a"}),
            "▲",
            "POST /mcp → 401: log in first",
            "",
        ),
        (
            ended("POST", {"status": 401}, response_text="no", oauth={"leg": "challenge", "error": "invalid_token"}),
            "▲",
            "POST /mcp → 401: invalid_token",
            "",
        ),
        (ended("GET", OURS, "proxy", error=OURS["reason"]), "▲", "GET /mcp → 403 by mcpproxy", OURS["reason"]),
        (ended("DELETE", {"status": 200}), "·", "DELETE /mcp → 200", ""),
        (ended("POST", None, "client"), "▲", "POST /mcp: no answer, ended by the client", ""),
        (ended("GET", JSON, flags=["bypass/resource"]), "▲", "GET /mcp → 200", "bypass/resource"),
        ({"exchange": 3, "stage": "response", "response": JSON}, None, "", ""),
        ({"exchange": 3, "stage": "request", "request": {"method": "GET", "target": "/mcp"}}, "·", "GET /mcp", ""),
        (
            {
                "exchange": 3,
                "stage": "end",
                "response": {"status": 400, "by": "proxy"},
                "ended_by": "proxy",
                "error": "no",
            },
            "▲",
            "a request that could not be read → 400 by mcpproxy",
            "no",
        ),
    ],
)
def test_an_exchange_is_worth_a_line_where_its_messages_do_not_say_it(
    members: dict[str, Any], glyph: str | None, text: str, detail: str
) -> None:
    remark = remark_on(Record(1, "exchange", 1, members), ended=False)
    if glyph is None:
        assert remark is None
    else:
        assert remark is not None
        assert (remark.glyph, remark.text, remark.detail, remark.exchange) == (glyph, text, detail, 3)


def shown(*records: tuple[str, dict[str, Any]]) -> list[str]:
    conversation = ConversationText()
    items = [Record(number, rec, number, members) for number, (rec, members) in enumerate(records)]
    return [line for item in items for thing in conversation.things_of(item) for line in conversation.lines(thing)]


def test_a_stream_that_answers_a_post_in_order_has_no_lines_of_its_own() -> None:
    request = {"exchange": 3, "stage": "request", "request": {"method": "POST", "target": "/mcp"}}
    opened, closed = {"exchange": 3, "event": "opened"}, {"exchange": 3, "event": "ended", "events": 2}
    for by in ("complete", "client", "server"):
        assert shown(("exchange", request), ("stream", opened), ("stream", closed | {"ended_by": by})) == []
    (line,) = shown(("exchange", request), ("stream", opened), ("stream", closed | {"ended_by": "proxy"}))
    assert line.endswith("3 ·  stream ended by the proxy after 2 events")
    resumed = opened | {"last_event_id": "7"}
    (line,) = shown(("exchange", request), ("stream", resumed))
    assert line.endswith("3 ·  stream opened, resumed after event 7")


def test_the_stream_of_a_get_says_when_it_begins_and_ends() -> None:
    request = {"exchange": 3, "stage": "request", "request": {"method": "GET", "target": "/mcp"}}
    lines = shown(
        ("exchange", request),
        ("stream", {"exchange": 3, "event": "opened"}),
        ("stream", {"exchange": 3, "event": "ended", "events": 1, "ended_by": "client"}),
    )
    assert [line.split("·  ")[1] for line in lines] == [
        "GET /mcp",
        "stream opened",
        "stream ended by the client after 1 event",
    ]


def told_of_stream(*, answered: bool) -> list[str]:
    """Returns what `show` prints for a POST whose client leaves the stream, before or after the response."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow"}}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
    head = "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n"
    frames: list[dict[str, object]] = [
        {"x": 1, "dir": "c2s", "k": "req", "raw": head + json.dumps(request)},
        {"x": 1, "dir": "s2c", "k": "head", "raw": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"},
        {"x": 1, "dir": "c2s", "k": "end", "by": "client", "raw": ""},
    ]
    if answered:
        frames.insert(2, {"x": 1, "dir": "s2c", "k": "sse", "raw": f"data: {json.dumps(answer)}\n\n"})
    (case,) = cases([json.dumps({"name": "left", "transport": "http", "frames": frames}).encode()])
    assert isinstance(case, Case)
    conversation, assembler, lines = ConversationText(), FrameAssembler(), list[str]()
    for _, line in case.records():
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        item = assembler.feed(record)
        lines += conversation.said(item) if item is not None else []
    return [*lines, *conversation.ended()]


def test_a_stream_that_its_client_leaves_before_the_answer_has_a_line() -> None:
    assert any("stream ended by the client" in line for line in told_of_stream(answered=False))
    assert not any("stream ended" in line for line in told_of_stream(answered=True))
