"""Streams that resume earlier ones, as recorded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.http_exchange import MAX_HTTP_EXCHANGES, CrossStreamEvent, HttpExchange
from analysis.conversation.http_exchanges import HttpExchanges
from analysis.conversation.message import id_of
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.resumption import EventIds
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases


class Streams:
    """Exchanges with event streams on one server."""

    def __init__(self, limit: int = 1_000) -> None:
        self.exchanges, self.ids = HttpExchanges(), EventIds(limit)
        self.seq = 0

    def begin(
        self, number: int, method: str = "POST", session: str | None = "s", after: str | None = None, **more: Any
    ) -> HttpExchange:
        """Begin an exchange: a request, and the head of a response that is a stream."""
        fields = [["Mcp-Session-Id", session]] if session else []
        fields += [[name.replace("_", "-"), value] for name, value in more.pop("fields", {}).items()]
        request = {"method": method, "target": "/mcp", "headers": fields}
        told = {"exchange": number, "stage": "request", "peer": "127.0.0.1:5", "request": request, **more}
        http = self.exchanges.on_record(told)
        assert http is not None
        self.exchanges.on_record({"exchange": number, "stage": "response", "response": {"status": 200, "headers": []}})
        if after is not None:
            self.ids.on_stream_opened(http, after)
        return http

    def send(self, http: HttpExchange, *ids: str) -> None:
        for event_id in ids:
            self.seq += 1
            self.ids.on_event(http, event_id, self.seq)


@pytest.fixture
def streams() -> Streams:
    return Streams()


def test_a_stream_goes_on_with_the_one_that_sent_the_event(streams: Streams) -> None:
    first, other = streams.begin(1), streams.begin(2)
    streams.send(first, "a-0", "a-1")
    streams.send(other, "b-0")
    second = streams.begin(3, "GET", after="a-1")
    assert (second.resumption, second.resumed_exchange, second.resumed_number, second.stream) == ("known", first, 1, 1)
    assert second.last_event_id == id_of("a-1")
    streams.send(second, "a-2")
    third = streams.begin(4, "GET", after="a-2")
    assert (third.resumed_exchange, third.stream) == (second, 1)
    assert (first.resumption, first.resumed_exchange, first.stream) == (None, None, 1)


def test_a_replay_makes_the_replaying_stream_the_last_one(streams: Streams) -> None:
    first = streams.begin(1)
    streams.send(first, "a-0", "a-1", "a-2")
    second = streams.begin(2, "GET", after="a-0")
    streams.send(second, "a-1", "a-2", "a-3")
    assert (second.replay_count, second.stray_events) == (2, ())
    assert streams.begin(3, "GET", after="a-2").resumed_exchange is second
    assert streams.begin(4, "GET", after="a-0").resumed_exchange is first


def test_an_id_stays_in_force_and_can_be_taken_back(streams: Streams) -> None:
    first = streams.begin(1)
    streams.send(first, "a", "a", "a", "", "b", "a")
    assert (first.replay_count, first.stray_events, first.event_id) == (0, (), id_of("a"))
    assert len(streams.ids) == 2
    assert streams.begin(2, "GET", after="").resumption == "unknown"


def test_an_unknown_id_leads_nowhere(streams: Streams) -> None:
    streams.send(streams.begin(1), "a")
    second = streams.begin(2, "GET", after="b")
    assert (second.resumption, second.resumed_exchange, second.stream) == ("unknown", None, 2)
    assert streams.begin(3, "GET").resumption is None


def test_ids_are_of_their_session(streams: Streams) -> None:
    one, other = streams.begin(1, session="s"), streams.begin(2, session="t")
    streams.send(one, "1")
    streams.send(other, "1", "2")
    assert streams.begin(3, "GET", session="t", after="1").resumed_exchange is other
    assert streams.begin(4, "GET", session="s", after="1").resumed_exchange is one
    assert streams.begin(5, "GET", session="s", after="2").resumption == "unknown"


def test_the_session_may_be_given_out_by_the_response(streams: Streams) -> None:
    first = streams.begin(1, session=None)
    answer = {"status": 200, "headers": [["mcp-session-id", "s"]]}
    streams.exchanges.on_record({"exchange": 1, "stage": "response", "response": answer})
    streams.send(first, "a")
    assert streams.begin(2, "GET", after="a").resumed_exchange is first


def test_without_sessions_clients_are_told_apart(streams: Streams) -> None:
    one = streams.begin(1, session=None, fields={"User_Agent": "x"})
    streams.send(one, "1")
    assert streams.begin(2, "GET", session=None, fields={"User_Agent": "y"}, after="1").resumption == "unknown"
    assert streams.begin(3, "GET", session=None, fields={"User_Agent": "x"}, after="1").resumed_exchange is one


def test_an_id_that_two_streams_sent_could_mean_either(streams: Streams) -> None:
    one, other = streams.begin(1), streams.begin(2)
    streams.send(one, "1")
    streams.send(other, "1")
    assert other.stray_events == (CrossStreamEvent(2, 1),)
    third = streams.begin(3, "GET", after="1")
    assert (third.resumption, third.resumed_exchange, third.stream) == ("ambiguous", None, 3)


def test_an_event_of_another_stream_is_a_stray(streams: Streams) -> None:
    one, other = streams.begin(1), streams.begin(2)
    streams.send(one, "a-0", "a-1")
    streams.send(other, "b-0", "b-1")
    resumed = streams.begin(3, "GET", after="a-0")
    streams.send(resumed, "a-1", "b-1")
    assert (resumed.replay_count, resumed.stray_events) == (1, (CrossStreamEvent(6, 2),))


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("POST", {}),
        ("", {}),
        ("GET", {"fields": {"MCP_Protocol_Version": "2026-07-28"}}),
        ("GET", {"uri_key": "hmac:1"}),
    ],
)
def test_where_nothing_can_be_resumed_an_id_means_nothing(streams: Streams, method: str, more: dict[str, Any]) -> None:
    streams.send(streams.begin(1), "a")
    second = streams.begin(2, method, after="a", **more)
    assert (second.resumption, second.resumed_exchange, second.last_event_id) == ("undefined", None, id_of("a"))


def test_the_older_transport_has_no_streams_to_go_on_with(streams: Streams) -> None:
    legacy = streams.begin(1, "GET", session=None, uri_key="hmac:1")
    streams.send(legacy, "1")
    assert streams.begin(2, "GET", session=None, after="1").resumption == "unknown"


def test_only_the_beginning_of_a_stream_resumes(streams: Streams) -> None:
    first, second = streams.begin(1), streams.begin(2, "GET")
    streams.send(first, "a")
    streams.send(second, "b")
    streams.ids.on_stream_opened(second, "a")
    assert second.resumption is None
    third = streams.begin(3, "GET", after="a")
    streams.ids.on_stream_opened(third, "b")
    assert third.resumed_exchange is first


def test_an_exchange_that_is_forgotten_is_resumed_by_its_number(streams: Streams) -> None:
    first = streams.begin(1)
    streams.send(first, "a")
    second = streams.begin(2, "GET", after="a")
    for number in (1, *range(10, MAX_HTTP_EXCHANGES + 20)):
        streams.exchanges.on_record({"exchange": number, "stage": "end"})
    assert streams.exchanges.get(1) is None
    assert (second.resumed_exchange, second.resumed_number) == (None, 1)
    again = streams.begin(1, "GET")  # another exchange with the same number
    assert again.order > second.order
    assert second.resumed_exchange is None


def test_the_oldest_ids_are_forgotten_and_counted() -> None:
    streams = Streams(limit=10)
    first = streams.begin(1)
    streams.send(first, *(f"{n}" for n in range(25)))
    assert (len(streams.ids), streams.ids.forgotten_count) == (10, 15)
    assert streams.begin(2, "GET", after="14").resumption == "unknown"
    assert streams.begin(3, "GET", after="15").resumed_exchange is first


def test_long_ids_are_short_keys(streams: Streams) -> None:
    first = streams.begin(1)
    streams.send(first, "x" * 100_000)
    assert first.event_id is not None
    assert len(first.event_id.value) < 100
    assert streams.begin(2, "GET", after="x" * 100_000).resumed_exchange is first
    assert streams.begin(3, "GET", after="x" * 99_999).resumption == "unknown"


texts = st.sampled_from(["", "a", "b", "c", "\ud800"])
steps = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["GET", "POST", "send"]), texts, st.sampled_from(["s", "t"])),
    max_size=40,
)


@given(steps)
def test_nothing_raises_and_no_stream_goes_on_with_itself(script: list[tuple[int, str, str, str]]) -> None:
    streams = Streams(limit=3)
    for number, act, text, session in script:
        if act == "send":
            streams.send(streams.exchanges.get_or_create(number), text)
        else:
            streams.begin(number, act, session, after=text)
    assert len(streams.ids) <= 3
    for number in range(6):
        found, steps_back = streams.exchanges.get(number), 0
        while found is not None:
            found, steps_back = found.resumed_exchange, steps_back + 1
            assert steps_back < 7


def say(streams: Streams, http: HttpExchange, event_id: str, raw: bytes) -> list[str]:
    """Feed an event; returns the oddities that it adds."""
    before = len(http.repeated_events)
    streams.seq += 1
    streams.ids.on_event(http, event_id, streams.seq, streams.seq * 10, raw)
    return [one.kind for one in http.repeated_events[before:]]


def asking(streams: Streams, number: int, after: str | None = None) -> HttpExchange:
    """Begin the stream of a GET whose request is fully recorded."""
    http = streams.begin(number, "GET", after=after, fields={"Last_Event_ID": after} if after else {})
    http.started_ref = RecordRef(streams.seq, 0)
    return http


def test_other_data_under_an_id_is_another_event(streams: Streams) -> None:
    first, second = asking(streams, 1), asking(streams, 2)
    assert say(streams, first, "1", b"a") == []
    assert say(streams, second, "1", b"b") == ["changed"]
    assert second.repeated_events[0].earlier == 1


def test_the_same_again_is_right_where_it_was_asked_for(streams: Streams) -> None:
    first = asking(streams, 1)
    for event_id in ("1", "2", "3"):
        assert say(streams, first, event_id, event_id.encode()) == []
    second = asking(streams, 2, after="2")
    assert say(streams, second, "3", b"3") == []
    third = asking(streams, 3, after="2")
    assert [say(streams, third, event_id, event_id.encode()) for event_id in "123"] == [["seen"], ["seen"], []]
    assert say(streams, asking(streams, 4), "3", b"3") == ["unasked"]


def test_an_event_of_another_stream_is_no_replay(streams: Streams) -> None:
    first, other = asking(streams, 1), asking(streams, 2)
    say(streams, first, "a", b"a")
    say(streams, other, "b", b"b")
    assert say(streams, asking(streams, 3, after="a"), "b", b"b") == ["stray"]


def test_events_without_data_and_lost_records_prove_nothing(streams: Streams) -> None:
    first, second = asking(streams, 1), asking(streams, 2)
    say(streams, first, "1", b"")
    assert say(streams, second, "1", b"b") == []
    say(streams, first, "2", b"a")
    streams.exchanges.loss_count += 1
    assert say(streams, second, "2", b"b") == []
    assert not streams.begin(3, "GET", after="x").is_certainly_unknown


def test_a_stream_tells_its_last_id_and_time_to_wait_when_it_ends() -> None:
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    frames = [
        {"dir": "c2s", "k": "req", "x": 1, "raw": "GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n"},
        {"dir": "s2c", "k": "head", "x": 1, "raw": head},
        {"dir": "s2c", "k": "sse", "x": 1, "raw": "id: 1\nretry: 5\ndata: {}\n\nretry: 70\n\nid: 2\n\nid: 3"},
        {"dir": "s2c", "k": "end", "x": 1, "by": "server"},
    ]
    (case,) = cases([json.dumps({"name": "n", "transport": "http", "frames": frames}).encode()])
    assert isinstance(case, Case)
    told = [json.loads(line) for _, line in case.records()]
    (ended,) = [one for one in told if one["rec"] == "stream" and one["event"] == "ended"]
    assert (ended["events"], ended["event_id"], ended["retry"]) == (4, "2", 70)
