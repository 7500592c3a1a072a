"""Responses and events that a mock writes."""

import pytest

from analysis.playback.items import HttpAnswer
from mcpproxy.mock.http.messages import (
    EVENT_STREAM,
    JSON,
    accepts,
    event_bytes,
    media_type_of,
    repeated_fields,
    response_head,
)
from mcpproxy.wire.response import ResponseTap
from mcpproxy.wire.sse import EventSplitter


def answer(*fields: tuple[str, str], is_legacy: bool = False) -> HttpAnswer:
    return HttpAnswer(1, 1, "POST", (), 200, fields, is_legacy=is_legacy)


def test_recorded_fields_are_repeated_unless_they_describe_the_connection_or_lead_away() -> None:
    kept = [("WWW-Authenticate", 'Bearer scope="notes"'), ("Retry-After", "3"), ("Location", "/mcp/")]
    dropped = [
        ("Content-Type", "application/json"),
        ("content-length", "7"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Set-Cookie", "a=b"),
        ("Mcp-Session-Id", "abc"),
        ("Location", "https://server.example/mcp"),
        ("Location", "//server.example/mcp"),
        ("Location", "/\\server.example/mcp"),
        ("Location", "/\t/server.example/mcp"),
        ("Location", " \\/server.example/mcp"),
        ("X-Split", "a\r\nInjected: yes"),
        ("X-Nul", "a\0b"),
        ("X-Wide", "\N{SNOWMAN}"),
        ("X-Surrogate", "\ud800"),
        ("bad name", "x"),
        ("", "x"),
        ("Bad\r\n", "x"),
    ]
    assert repeated_fields(answer(*dropped, *kept)) == tuple(kept)
    assert repeated_fields(answer(*kept, is_legacy=True)) == ()
    assert repeated_fields(None) == ()


def test_the_media_type_has_no_parameters() -> None:
    assert media_type_of(answer(("content-type", "Text/Event-Stream; charset=utf-8"))) == EVENT_STREAM
    assert media_type_of(answer()) == media_type_of(None) == ""


@pytest.mark.parametrize("data", [b'{"a":\n\r 1}', b"{}", b'{"a":"\xff"}', b"\n", b"a\r\nb"])
def test_events_are_read_back_with_line_ends_as_lf(data: bytes) -> None:
    (event,) = EventSplitter().feed(event_bytes(data, event_id="7", retry_ms=100))
    assert event.data == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert (event.id, event.retry, event.event) == (b"7", 100, b"message")


def test_a_priming_event_has_an_id_and_empty_data() -> None:
    (event,) = EventSplitter().feed(event_bytes(b"", event_id="1"))
    assert (event.data, event.id, event.event) == (b"", b"1", b"")


def test_a_negative_time_before_reconnecting_is_left_out() -> None:
    assert b"retry" not in event_bytes(b"{}", retry_ms=-5)


def test_an_id_cannot_break_out_of_its_line() -> None:
    for event_id in ("1\ndata: x", "1\r\n\r\n", "1\0", "1\ud800"):
        (event,) = EventSplitter().feed(event_bytes(b"{}", event_id=event_id))
        assert event.data == b"{}"
        assert event.id is not None
        assert event.id.startswith(b"1")


def test_an_event_has_the_recorded_type_in_one_line() -> None:
    for event, expected in (("note", b"note"), ("a\ndata: x", b"a"), ("", b"message")):
        (found,) = EventSplitter().feed(event_bytes(b"{}", event=event))
        assert (found.data, found.event) == (b"{}", expected)


def test_heads_are_responses_of_http() -> None:
    for status in (200, 202, 204, 304, 405, 418, 499, 599, 999):
        tap = ResponseTap()
        tap.expect_response(b"POST")
        head = response_head(status, (("A", "b"),), JSON, 0, is_chunked=False, closes=False)
        assert tap.feed(head)
        assert tap.awaited_count == 0, head


def test_which_types_a_client_accepts() -> None:
    assert accepts([], JSON)
    assert accepts([b"*/*"], JSON)
    assert accepts([b"text/html, application/*;q=0.9"], JSON)
    assert accepts([b"application/json", b"text/event-stream"], EVENT_STREAM)
    assert not accepts([b"application/json"], EVENT_STREAM)
    assert not accepts([b"text/event-stream;q=1"], JSON)
