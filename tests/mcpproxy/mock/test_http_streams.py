"""Streams that break, and are resumed after any event with an id."""

from collections.abc import Callable
from typing import cast

from mcpproxy.mock.http.connection import HttpResponse
from mcpproxy.mock.http.streams import EventHistory, EventStream


class Reader:
    """A client that reads a stream: what it got, and how the response ended."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.end = ""
        self.is_over = False
        self.on_client_gone: Callable[[], None] | None = None

    def send_events(self, events: bytes) -> None:
        self.events.append(events)

    def end_events(self) -> None:
        self.is_over, self.end = True, "complete"

    def cut(self) -> None:
        self.is_over, self.end = True, "cut"

    def leave(self) -> None:
        self.is_over = True
        assert self.on_client_gone is not None
        self.on_client_gone()

    @property
    def response(self) -> HttpResponse:
        return cast("HttpResponse", self)


def test_what_nobody_read_is_sent_once_the_stream_is_opened() -> None:
    stream = EventStream(EventHistory(), {}, keeps_all=True)
    stream.send(b"a", None)
    first, second = Reader(), Reader()
    stream.open(first.response)
    stream.send(b"b", None)
    first.leave()
    stream.send(b"c", None)
    stream.open(second.response)
    assert (first.events, second.events) == ([b"a", b"b"], [b"c"])


def test_a_broken_stream_is_resumed_after_any_of_its_events() -> None:
    streams: dict[str, EventStream] = {}
    stream = EventStream(EventHistory(), streams)
    first = Reader()
    stream.response = first.response
    for event in ("1", "2"):
        stream.send(event.encode(), event)
    stream.break_off(is_clean=False)
    stream.send(b"x", None)
    stream.send(b"3", "3")
    stream.finish()
    assert (first.events, first.end) == ([b"1", b"2"], "cut")
    for after, expected in (("1", [b"2", b"x", b"3"]), ("2", [b"x", b"3"]), ("3", [])):
        reader = Reader()
        streams[after].open(reader.response, after)
        assert (reader.events, reader.end) == (expected, "complete"), after


def test_a_stream_without_ids_keeps_nothing_for_nobody() -> None:
    stream = EventStream(EventHistory(), {})
    stream.send(b"a", None)
    reader = Reader()
    stream.open(reader.response)
    assert reader.events == []


def test_the_oldest_events_of_all_streams_are_dropped_first() -> None:
    history = EventHistory(1000)
    streams: dict[str, EventStream] = {}
    first, second = EventStream(history, streams), EventStream(history, streams)
    for number in range(10):
        (first, second)[number % 2].send(b"x" * 50, str(number))
    assert sorted(streams) == ["6", "7", "8", "9"]
    history.note_kept(first, 10**6)
    assert not streams


def test_events_that_were_delivered_are_not_counted_against_later_ones() -> None:
    stream = EventStream(EventHistory(1000), {}, keeps_all=True)
    for _ in range(5):
        stream.send(b"a", None)
        stream.open(Reader().response)
        stream.detach()
    stream.send(b"b", None)
    reader = Reader()
    stream.open(reader.response)
    assert reader.events == [b"b"]
