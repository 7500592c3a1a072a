"""`mcpproxy serve` passes on exactly what was sent: every byte except Host, at the same time, with the same end."""

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy.relay.http.upstream import set_reset_on_close
from tests.harness import DEADLINE_S, Place, members_of, wait_until
from tests.http_harness import (
    GET,
    OK,
    PING,
    STREAM,
    Authority,
    Serving,
    Upstream,
    Wire,
    answering,
    assert_ours,
    chunked,
    free_port,
    listening,
    post,
    serving,
)
from tests.mcpproxy.cli.typed import mcpproxy

MEMORY = 60 << 20


# --- unchanged bytes ---

REQUESTS = {
    "order, case, doubles": b"GET /mcp HTTP/1.1\r\nX-b: 1\r\nx-A: 2\r\nHost: localhost\r\nX-B: 3\r\nx-b:4\r\n\r\n",
    "white space and empty values": b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nA:   1  \r\nB:\r\nC:\t2\t\r\n\r\n",
    "latin-1": b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX-Name: caf\xe9 \xff\r\n\r\n",
    "odd target": b"GET /x%2Fy/../z?q=%41&&=&a=b?c HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "OPTIONS *": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "DELETE": b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: 1\r\n\r\n",
    "unknown method": b"Query /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a length": post(PING, b"Connection: keep-alive", b"Keep-Alive: timeout=5", b"TE: trailers"),
    "an empty body": post(b""),
    "chunks, extensions and trailers": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'05;a=b;c="d e"\r\nhello\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n',
    "HTTP/1.0": b"GET /mcp HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
}


def test_requests_go_on_as_sent_but_for_host(place: Place) -> None:
    with Upstream(listening) as upstream, serving(place, upstream) as served:
        for number, (what, request) in enumerate(REQUESTS.items()):
            with served.client() as client:
                client.say(request)
                client.hang_up()
                assert client.rest() == b""
            assert bytes(upstream.connection(number).received) == upstream.as_seen(request), what


def test_host_is_the_upstream_s_in_whatever_form_it_was_sent(place: Place) -> None:
    with Upstream(listening) as upstream, serving(place, upstream) as served:
        for number, line in enumerate((b"HOST:  LocalHost:%d \r\n", b"host:127.0.0.1:%d\r\n", b"Host: [::1]:%d\r\n")):
            sent = line % served.address[1]
            with served.client() as client:
                client.say(b"GET / HTTP/1.1\r\n" + sent + b"\r\n")
                client.hang_up()
                client.rest()
            name, colon, value = sent.partition(b":")
            seen = name + colon + value.replace(value.strip(), upstream.authority)
            assert bytes(upstream.connection(number).received) == b"GET / HTTP/1.1\r\n" + seen + b"\r\n"


def test_what_is_between_client_and_us_alone_stays_here(place: Place) -> None:
    offer = b"Proxy-Connection: close\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n"
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET[:-2] + offer + b"\r\n")
        assert client.hear(len(OK)) == OK
        kept = b"Connection: Upgrade, HTTP2-Settings\r\n\r\n"
        assert upstream.heard() == upstream.as_seen(GET[:-2]) + kept


def test_a_request_that_is_answered_from_its_head_is_recorded_to_its_end(place: Place) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"late"}'
    whole = post(body)

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        assert wire.hear(len(body)) == body
        wire.say(b"")
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(whole[: -len(body)])
        assert client.head().startswith(b"HTTP/1.1 404 ")
        client.say(body)
        (end,) = served.ended()
        assert (end["ended_by"], end["request_size"], end["response"]["status"]) == ("complete", len(body), 404)
        assert end["times"]["response_end"] < end["times"]["request_end"]
        upstream.heard()
    assert [record.members["method"] for record in served.records() if record.rec == "frame"] == ["late"]


EMPTY = b"Content-Length: 0\r\n\r\n"
# The request, the response, and whether the server closes the connection afterwards.
ANSWERS: dict[str, tuple[bytes, bytes, bool]] = {
    "odd case, order and doubles": (
        GET,
        b"HTTP/1.1 200 Very  fine \xe9\r\nx-B: 1\r\nX-b: 2\r\nX-B:3\r\nSet-Cookie: a=1\r\nX-L: \xe9\xff\r\n" + EMPTY,
        False,
    ),
    "no reason": (GET, b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", False),
    "102, then 200": (GET, b"HTTP/1.1 102 Processing\r\n\r\n" + OK, False),
    "103, then 200": (GET, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 More\r\n\r\n" + OK, False),
    "202": (post(PING), b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", False),
    "204": (GET, b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", False),
    "304": (GET, b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 1000\r\n\r\n', False),
    "301": (GET, b"HTTP/1.1 301 Moved\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n", False),
    "307": (post(PING), b"HTTP/1.1 307 T\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", False),
    "401": (
        GET,
        b'HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer resource_metadata="https://example.com/x"\r\n'
        b'WWW-Authenticate: Basic realm="a, b"\r\n' + EMPTY,
        False,
    ),
    "405": (GET, b"HTTP/1.1 405 Method Not Allowed\r\nAllow: POST\r\nContent-Length: 0\r\n\r\n", False),
    "421": (GET, b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 2\r\n\r\nno", False),
    "499": (GET, b"HTTP/1.1 499 \r\nContent-Length: 0\r\n\r\n", False),
    "HEAD": (GET.replace(b"GET", b"HEAD"), b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", False),
    "HEAD in chunks": (GET.replace(b"GET", b"HEAD"), STREAM, False),
    "chunks, extensions and trailers": (
        GET,
        STREAM + b'5;a="b"\r\nhello\r\n00003\r\nabc\r\n0;z\r\nX-T: 1\r\nX-T: 2\r\n\r\n',
        False,
    ),
    "a coding that lies": (
        GET,
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\nabc",
        False,
    ),
    "until close": (GET, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end", True),
    "HTTP/1.0": (GET.replace(b"1.1", b"1.0"), b"HTTP/1.0 200 OK\r\n\r\nto the end", True),
    "nothing": (GET, b"", True),
    "no HTTP": (GET, b"SSH-2.0-OpenSSH\r\n", True),
    "bare LF": (GET, b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", False),
    "two lengths": (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", True),
    "more than was asked for": (GET, OK + OK, True),
}


UNFOLLOWED = {"nothing": "server", "no HTTP": "error", "bare LF": "error", "two lengths": "error"}
"""Responses that the recorder cannot follow, and how it records the ends of their exchanges."""


@pytest.mark.parametrize("slowly", [False, True], ids=["at once", "byte by byte"])
def test_responses_go_on_as_sent(place: Place, slowly: bool) -> None:
    cases = iter(ANSWERS.values())

    def script(wire: Wire) -> None:
        _, answer, closes = next(cases)
        wire.request()
        (wire.say_slowly if slowly else wire.say)(answer)
        if not closes:
            wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        for number, (what, (request, answer, closes)) in enumerate(ANSWERS.items()):
            with served.client() as client:
                client.say(request)
                assert (client.rest() if closes else client.hear(len(answer))) == answer, what
            upstream.wait_for_end(number)  # then the next case may begin
            assert bytes(upstream.connection(number).received) == upstream.as_seen(request), what
        for (what, (_, answer, _)), members in zip(ANSWERS.items(), served.ended(len(ANSWERS)), strict=True):
            if what in UNFOLLOWED:
                assert members["ended_by"] == UNFOLLOWED[what], what
            else:
                final = answer.rpartition(b"HTTP/1.1 ")[2] if what != "HTTP/1.0" else b"200"
                assert (members["response"]["status"], members["ended_by"]) == (int(final[:3]), "complete"), what


def test_all_requests_of_a_packet_go_on_and_are_answered_in_order(place: Place) -> None:
    asked = [post(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number) for number in range(300)]

    def script(wire: Wire) -> None:
        requests = [wire.request() for _ in asked]
        wire.say(b"".join(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%03d" % n for n, _ in enumerate(requests)))
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(b"".join(asked))
            for number in range(300):
                assert client.head().startswith(b"HTTP/1.1 200")
                assert client.hear(3) == b"%03d" % number
        assert upstream.heard() == upstream.as_seen(b"".join(asked))
        assert [members["ended_by"] for members in served.ended(300)] == ["complete"] * 300
    assert served.ids() == list(range(300))


# --- timing ---


def test_100_continue_goes_from_end_to_end(place: Place) -> None:
    head = post(PING, b"Expect: 100-continue")[: -len(PING)]
    with Upstream(listening) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(head)
            server = upstream.connection()
            wait_until(lambda: bytes(server.received) == upstream.as_seen(head), "the head alone")
            server.say(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.say(PING)
            wait_until(lambda: server.received.endswith(PING), "the body")
            server.say(OK)
            assert client.hear(len(OK)) == OK
        (exchange,) = served.ended()
        assert (exchange["ended_by"], exchange["response"]["status"]) == ("complete", 200)


def test_an_expectation_may_be_refused_without_the_body(place: Place) -> None:
    refusal = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(refusal)

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(post(PING, b"Expect: 100-continue")[: -len(PING)])
        assert client.rest() == refusal


def test_heads_do_not_wait_for_bodies(place: Place) -> None:
    with Upstream(listening) as upstream, serving(place, upstream) as served, served.client() as client:
        head = post(PING)[: -len(PING)]
        client.say(head)
        server = upstream.connection()
        wait_until(lambda: bytes(server.received) == upstream.as_seen(head), "the request's head")
        server.say(STREAM)
        assert client.head() == STREAM
        wait_until(lambda: "response" in served.stages(), "the head to be recorded")
        for part in (b"7\r\nda", b"ta: 1\n", b"\r\n1\r\n\n\r\n"):
            server.say(part)
            assert client.hear(len(part)) == part
        (frame,) = wait_until(lambda: members_of(served.capture, "frame"), "the event to be recorded")
        assert (frame["raw"], frame["unit"]) == ("1", "sse_event")


def test_bytes_that_come_one_by_one(place: Place) -> None:
    request = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    request += chunked(*(bytes([byte]) for byte in PING))
    answer = STREAM + chunked(*(bytes([byte]) for byte in b"id: 1\r\ndata: " + PING + b"\r\n\r\n"))

    def script(wire: Wire) -> None:
        wire.request()
        wire.say_slowly(answer)
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say_slowly(request)
            assert client.hear(len(answer)) == answer
        assert upstream.heard() == upstream.as_seen(request)
        served.ended()
    assert [(record.members["dir"], record.members["raw"]) for record in served.records() if record.rec == "frame"] == [
        ("c2s", PING.decode()),
        ("s2c", PING.decode()),
    ]


def test_silence_is_not_cut(place: Place) -> None:
    # Three seconds here; `make soak` waits for longer than any timeout in the code.
    _be_silent(place, 3)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_silence_is_not_cut_for_two_minutes(place: Place) -> None:
    _be_silent(place, 125)


def _be_silent(place: Place, seconds: float) -> None:
    with (
        Upstream(listening) as upstream,
        serving(place, upstream) as served,
        served.client() as stream,
        served.client() as upload,
    ):
        stream.say(GET)
        server = upstream.connection()
        server.say(STREAM)
        assert stream.head() == STREAM
        upload.say(post(PING)[: -len(PING)])
        assert stream.is_silent(seconds)
        assert upload.is_silent(0.1)
        server.say(b"2\r\n:\n\r\n")
        assert stream.hear(7) == b"2\r\n:\n\r\n"
        upload.say(PING)
        wait_until(lambda: upstream.connection(1).received.endswith(PING), "the body")


# --- how it ends ---


def test_a_half_close_of_the_client_leaves_the_other_half_open(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.rest()
        wire.say(OK)

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET)
        client.hang_up()
        assert client.end() == (OK, "eof")


def test_a_half_close_of_the_upstream_leaves_the_other_half_open(place: Place) -> None:
    body = b"x" * 100_000

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(OK)
        wire.hang_up()
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        sent = post(body)
        client.say(sent[:50_000])
        assert client.end() == (OK, "eof")
        client.say(sent[50_000:])
        client.hang_up()
        server = upstream.connection()
        wait_until(lambda: len(server.received) == len(upstream.as_seen(sent)), "the rest of the upload")
        assert bytes(server.received) == upstream.as_seen(sent)


@pytest.mark.parametrize("form", ["length", "chunks", "until close"])
def test_a_reset_in_mid_body_is_never_a_complete_message(place: Place, form: str) -> None:
    body = b'{"jsonrpc":"2.0"}'
    if form == "chunks":
        body = chunked(body[:9], body[9:])
    head = {
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body),
        "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "until close": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    }[form]
    turns = iter(range(len(body) + 1))
    taken = threading.Semaphore(0)

    def script(wire: Wire) -> None:
        count = next(turns)
        wire.request()
        wire.say(head + body[:count])
        taken.acquire(timeout=DEADLINE_S)  # the client has read everything, so only the reset follows
        wire.reset()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        for count in range(len(body) + 1):
            with served.client() as client:
                client.say(GET)
                assert client.hear(len(head) + count) == head + body[:count]
                taken.release()
                assert client.end() == (b"", "reset"), f"{count} of {len(body)} bytes"
        ends = [members["ended_by"] for members in served.ended(len(body) + 1)]
        whole = "server" if form == "until close" else "complete"
        assert ends == ["server"] * len(body) + [whole]


@pytest.mark.parametrize("form", ["length", "chunks"])
def test_a_close_in_mid_body_is_never_a_complete_message(place: Place, form: str) -> None:
    head, body = {
        "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n", b'{"jsonrpc":"2.0"}'),
        "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunked(b'{"jsonrpc', b'":"2.0"}')),
    }[form]
    turns = iter(range(len(body)))

    def script(wire: Wire) -> None:
        wire.request()
        wire.say(head + body[: next(turns)])

    with Upstream(script) as upstream, serving(place, upstream) as served:
        for count in range(len(body)):
            with served.client() as client:
                client.say(GET)
                assert client.end() == (head + body[:count], "eof")
        assert {members["ended_by"] for members in served.ended(len(body))} == {"server"}


def _stream_without_end(wire: Wire) -> None:
    wire.request()
    wire.say(STREAM + b"2\r\n:\n\r\n")
    wire.end()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_a_stream_leaves_the_upstream_at_once(place: Place, how: str) -> None:
    with Upstream(_stream_without_end) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(GET)
            client.hear(len(STREAM) + 7)
            server = upstream.connection()
            if how == "close":
                client.close()
            else:
                client.reset()
            wait_until(lambda: server.is_closed, "the upstream to hear of it")
        (exchange,) = served.ended()
        assert exchange["ended_by"] == "client"


def test_a_reset_of_the_client_is_one_for_the_upstream(place: Place) -> None:
    endings = []

    def script(wire: Wire) -> None:
        wire.request()
        wire.say(OK)
        endings.append(wire.end())

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(GET)
            client.hear(len(OK))
            client.reset()
        wait_until(lambda: endings, "the upstream to hear of it")
        assert endings == [(b"", "reset")]


def test_a_reset_while_much_is_still_being_asked(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.request()
        wire.reset()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        with contextlib.suppress(OSError):  # the reset may arrive at any point here
            client.say(GET * 20_000)
        with contextlib.suppress(OSError):
            assert client.rest() == b""
        assert served.ended()[0]["ended_by"] == "server"


def test_why_an_upload_is_not_wanted_arrives(place: Place) -> None:
    answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(answer)  # closing with unread bytes causes a reset

    with Upstream(script) as upstream, serving(place, upstream) as served:
        for _ in range(6):
            with served.client() as client:
                with contextlib.suppress(OSError):
                    client.say(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (8 << 20))
                    client.say(bytes(8 << 20))
                with contextlib.suppress(OSError):
                    client.end()
                assert bytes(client.received) == answer
        assert [members["response"]["status"] for members in served.ended(6)] == [413] * 6


def test_an_upstream_that_closes_without_an_answer(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.head()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET)
        assert client.end() == (b"", "eof")
        # The client is still connected, yet the record of who ended the exchange is written at once.
        assert served.ended()[0]["ended_by"] == "server"


def test_an_upstream_that_closes_an_idle_connection_closes_the_client_s(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.request()
        wire.say(OK)

    with Upstream(script) as upstream, serving(place, upstream) as served:
        idle = served.descriptors()
        with served.client() as client:
            client.say(GET)
            assert client.end() == (OK, "eof")
        wait_until(lambda: served.descriptors() <= idle, "both connections to be gone")


# --- large amounts of data ---

FLOOD = 48 << 20
PIECE = os.urandom(1 << 16)


def test_a_slow_client_slows_the_upstream_down_and_costs_no_memory(place: Place) -> None:
    sent = 0

    def script(wire: Wire) -> None:
        nonlocal sent
        wire.request()
        wire.say(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % FLOOD)
        for _ in range(FLOOD // len(PIECE)):
            wire.say(PIECE)
            sent += len(PIECE)

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client(receive_buffer=1 << 16) as client:
            client.say(GET)
            client.head()
            _wait_for_standstill(lambda: sent)
            assert sent < FLOOD // 2
            assert served.memory() < MEMORY
            digest, size = hashlib.sha256(bytes(client.received[client.received.find(b"\r\n\r\n") + 4 :])), 0
            size = len(client.received) - client.received.find(b"\r\n\r\n") - 4
            for piece in client.pieces():
                digest.update(piece)
                size += len(piece)
        assert size == FLOOD
        assert digest.digest() == hashlib.sha256(PIECE * (FLOOD // len(PIECE))).digest()
        assert served.memory() < MEMORY


def test_a_slow_upstream_slows_the_client_down_and_costs_no_memory(place: Place) -> None:
    go = threading.Event()
    found: list[tuple[int, bytes]] = []

    def script(wire: Wire) -> None:
        wire.head()
        go.wait(DEADLINE_S)
        digest, size = hashlib.sha256(wire.received[wire.received.find(b"\r\n\r\n") + 4 :]), 0
        size = len(wire.received) - wire.received.find(b"\r\n\r\n") - 4
        for piece in wire.pieces():
            digest.update(piece)
            size += len(piece)
            if size == FLOOD:
                break
        found.append((size, digest.digest()))
        wire.say(OK)
        wire.rest()

    sent = 0

    def upload(client: Wire) -> None:
        nonlocal sent
        for _ in range(FLOOD // len(PIECE) - 32):
            client.say(PIECE)
            sent += len(PIECE)

    with Upstream(script, receive_buffer=1 << 16) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            # Much data at once, so that the upstream's buffers are full as soon as its connection is open.
            client.say(b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % FLOOD + PIECE * 32)
            thread = threading.Thread(target=upload, args=(client,), daemon=True)
            thread.start()
            _wait_for_standstill(lambda: sent)
            assert sent < FLOOD // 2
            assert served.memory() < MEMORY
            go.set()
            assert client.hear(len(OK)) == OK
            thread.join(DEADLINE_S)
        assert found == [(FLOOD, hashlib.sha256(PIECE * (FLOOD // len(PIECE))).digest())]
        assert served.memory() < MEMORY


def _wait_for_standstill(count: Callable[[], int]) -> None:
    """Wait until a count above zero has not changed for half a second."""
    last, since = 0, time.monotonic()

    def stands() -> bool:
        nonlocal last, since
        if (now := count()) != last or not now:
            last, since = now, time.monotonic()
        return time.monotonic() - since > 0.5

    wait_until(stands, "the flow to stop")


def test_a_large_upload_streams(place: Place) -> None:
    size = 96 << 20
    digests: list[bytes] = []

    def script(wire: Wire) -> None:
        head = wire.head()
        body = hashlib.sha256(wire.received[len(head) :])
        left = size - (len(wire.received) - len(head))
        while left:
            piece = wire.sock.recv(min(left, 1 << 18))
            assert piece
            body.update(piece)
            left -= len(piece)
        digests.append(body.digest())
        wire.say(OK)
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)
            expected = hashlib.sha256()
            for _ in range(size // len(PIECE)):
                client.say(PIECE)
                expected.update(PIECE)
            assert client.hear(len(OK)) == OK
        assert digests == [expected.digest()]
        assert served.memory() < MEMORY
        (exchange,) = served.ended()
        assert exchange["body_hash"]["request"] == {"size": size}


# --- an upstream that cannot be reached ---


def assert_unreachable(served: Serving, status: int, reason: str) -> None:
    """Check that the client, the user and the capture learn that the upstream cannot be reached."""
    with served.client() as client:
        client.say(post(PING))
        assert_ours(client.rest(), status)
    (exchange,) = served.ended()
    assert exchange["ended_by"] == "proxy"
    assert (exchange["response"]["status"], exchange["response"]["by"]) == (status, "proxy")
    assert reason in exchange["error"]
    assert served.stop() == 0
    lines = [line for line in served.errors.decode().splitlines() if f"the client got {status}" in line]
    assert len(lines) == 1
    assert reason in lines[0]


def test_an_upstream_that_refuses(place: Place) -> None:
    with serving(place, f"http://127.0.0.1:{free_port()}/mcp") as served:
        for _ in range(20):
            with served.client() as client:
                client.say(post(PING))
                assert_ours(client.rest(), 502)
        exchanges = served.ended(20)
        assert {members["ended_by"] for members in exchanges} == {"proxy"}
        assert {members["response"]["by"] for members in exchanges} == {"proxy"}
    assert served.errors.count(b"Connection refused") == 1  # the same line is not printed twenty times


def test_an_upstream_that_comes_later(place: Place) -> None:
    port = free_port()
    with serving(place, f"http://127.0.0.1:{port}/mcp") as served:
        with served.client() as client:
            client.say(GET)
            assert_ours(client.rest(), 502)
        with socket.create_server(("127.0.0.1", port)) as listener, served.client() as client:
            client.say(GET)
            accepted, _ = listener.accept()
            with Wire(accepted) as server:
                server.head()
                server.say(OK)
                assert client.hear(len(OK)) == OK


def test_an_upstream_that_resolves_to_nothing(place: Place) -> None:
    with serving(place, "http://nowhere.invalid/mcp") as served:
        assert_unreachable(served, 502, "cannot be reached")


def test_an_upstream_that_does_not_answer(place: Place) -> None:
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):  # until its queue is full, and the system leaves connections pending
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        probe = stack.enter_context(socket.socket())
        probe.settimeout(0.5)
        try:
            probe.connect(address)
        except TimeoutError:
            pass
        else:
            pytest.skip("this system has room for more connections than were asked for")
        with serving(place, f"http://127.0.0.1:{address[1]}/mcp") as served:
            assert_unreachable(served, 504, "did not answer")


# --- TLS ---


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    try:
        return Authority(tmp_path)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make certificates with")


def test_tls_is_verified_and_relayed(place: Place, authority: Authority) -> None:
    tls = authority.context("IP:127.0.0.1")
    body = os.urandom(1 << 20)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with (
        Upstream(answering(answer), tls=tls) as upstream,
        serving(place, upstream, "--ca-file", str(authority.file)) as served,
        served.client() as client,
    ):
        for _ in range(2):
            client.say(post(body))
            assert client.hear(len(answer)) == answer
        assert upstream.heard() == upstream.as_seen(post(body)) * 2
    assert members_of(served.capture, "header")[0]["opt_outs"] == ["rewrite-location"]


def test_a_server_behind_tls_that_calls_itself_http_is_meant(place: Place, authority: Authority) -> None:
    redirect = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %b/mcp/\r\nContent-Length: 0\r\n\r\n"
    here: list[bytes] = []

    def script(wire: Wire) -> None:
        answering(redirect % here[0])(wire)

    with (
        Upstream(script, tls=authority.context("IP:127.0.0.1")) as upstream,
        serving(place, upstream, "--ca-file", str(authority.file)) as served,
        served.client() as client,
    ):
        here.append(b"http://" + upstream.authority)
        client.say(GET)
        assert client.head() == redirect % b""
        (end,) = served.ended()
    assert dict(end["response"]["headers"])["Location"] == f"{here[0].decode()}/mcp/"
    assert end["rewritten"] == {"location": "/mcp/"}
    assert "flags" not in end


def test_what_is_held_is_forwarded_when_the_upstream_goes(place: Place) -> None:
    """A head that may need rewriting is not lost if the connection ends before it is complete, however it ends."""
    begun = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127"
    for is_reset in (False, True):

        def script(wire: Wire, is_reset: bool = is_reset) -> None:
            wire.request()
            wire.say(begun)
            if is_reset:
                wire.reset()

        with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
            client.say(GET)
            heard, ending = client.end()
            assert begun.startswith(heard)
            assert (heard, ending) == (begun, "eof") or is_reset
            assert served.ended()[0]["ended_by"] == "server"


def tunnelling(wire: Wire) -> None:
    """The script of an HTTP proxy: one tunnel to the requested address, until one of its ends closes."""
    method, target, _ = wire.through(b"\r\n\r\n").split(b"\r\n")[0].split(b" ")
    assert method == b"CONNECT"
    host, _, port = target.decode().rpartition(":")
    with socket.create_connection((host, int(port))) as far:
        wire.say(b"HTTP/1.1 200 Connection established\r\n\r\n")

        def answer() -> None:
            for data in iter(lambda: far.recv(65536), b""):
                wire.say(data)

        back = threading.Thread(target=answer)
        back.start()
        for data in wire.pieces():
            far.sendall(data)
        far.shutdown(socket.SHUT_RDWR)
        back.join(DEADLINE_S)


def test_https_goes_through_the_proxy_that_the_environment_names(place: Place, authority: Authority) -> None:
    with Upstream(answering(OK), tls=authority.context("IP:127.0.0.1")) as upstream, Upstream(tunnelling) as proxy:
        place.environment["HTTPS_PROXY"] = proxy.url.rpartition("/")[0]
        with serving(place, upstream, "--ca-file", str(authority.file)) as served, served.client() as client:
            client.say(post(PING))
            assert client.hear(len(OK)) == OK
        assert proxy.heard().startswith(b"CONNECT " + upstream.authority + b" HTTP/1.1\r\n")
    assert members_of(served.capture, "header")[0]["via"] == proxy.authority.decode()


def test_a_proxy_that_makes_no_tunnel_is_told(place: Place, authority: Authority) -> None:
    refusing = answering(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    with Upstream(refusing) as proxy:
        place.environment["HTTPS_PROXY"] = proxy.url.rpartition("/")[0]
        with serving(place, "https://127.0.0.1:9/mcp", "--ca-file", str(authority.file)) as served:
            assert_unreachable(served, 502, "did not open a tunnel")


def test_a_tls_connection_that_was_closed_twice_can_be_reset(authority: Authority) -> None:
    """When a connect is cancelled, asyncio closes the connection once more, which made the recorder fail at its end."""

    class Waiting(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    async def reset(port: int) -> None:
        trusted = ssl.create_default_context(cafile=authority.file)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(Waiting, "127.0.0.1", port, ssl=trusted)
        transport.close()
        transport.close()
        set_reset_on_close(transport)
        transport.abort()
        await asyncio.wait_for(lost.wait(), DEADLINE_S)

    lost = asyncio.Event()
    with Upstream(answering(OK), tls=authority.context("IP:127.0.0.1")) as upstream:
        asyncio.run(reset(upstream.port))


def test_an_abort_over_tls_is_never_a_complete_message(place: Place, authority: Authority) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"

    def script(wire: Wire) -> None:
        wire.request()
        wire.say(head + b"half")

    with (
        Upstream(script, tls=authority.context("IP:127.0.0.1")) as upstream,
        serving(place, upstream, "--ca-file", str(authority.file)) as served,
    ):
        with served.client() as client:
            client.say(GET)
            assert client.end()[0] == head + b"half"
        assert served.ended()[0]["ended_by"] == "server"


def test_a_client_that_leaves_a_stream_over_tls(place: Place, authority: Authority) -> None:
    with (
        Upstream(_stream_without_end, tls=authority.context("IP:127.0.0.1")) as upstream,
        serving(place, upstream, "--ca-file", str(authority.file)) as served,
    ):
        with served.client() as client:
            client.say(GET)
            client.hear(len(STREAM) + 7)
        server = upstream.connection()
        wait_until(lambda: server.is_closed, "the upstream to hear of it")
        assert served.ended()[0]["ended_by"] == "client"


@pytest.mark.parametrize("fault", ["untrusted", "wrong name", "expired", "no TLS"])
def test_an_upstream_that_cannot_be_trusted_hears_nothing(place: Place, authority: Authority, fault: str) -> None:
    def script(wire: Wire) -> None:
        wire.hear(1)
        wire.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        wire.end()

    name = "DNS:example.com" if fault == "wrong name" else "IP:127.0.0.1"
    tls = None if fault == "no TLS" else authority.context(name, days=-1 if fault == "expired" else 2)
    trusted = () if fault == "untrusted" else ("--ca-file", str(authority.file))
    with Upstream(script, tls=tls) as upstream:
        url = upstream.url.replace("http://", "https://")
        with serving(place, url, *trusted) as served:
            assert_unreachable(served, 502, "cannot be reached" if fault == "no TLS" else "is not trusted")
        assert b"ping" not in upstream.heard()
    assert b"Operation not permitted" not in served.errors


def test_what_is_insecure_is_asked_for_and_recorded(place: Place, authority: Authority) -> None:
    with (
        Upstream(answering(OK), tls=authority.context("DNS:example.com")) as upstream,
        serving(place, upstream, "--insecure") as served,
        served.client() as client,
    ):
        client.say(GET)
        assert client.hear(len(OK)) == OK
    assert members_of(served.capture, "header")[0]["opt_outs"] == ["insecure", "rewrite-location"]


# --- the end of the recorder ---


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_whatever_is_open(place: Place, name: str) -> None:
    with Upstream(_stream_without_end) as upstream, serving(place, upstream) as served, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(served.client()) for _ in range(20)]
        for stream in streams:
            stream.say(GET)
            stream.hear(len(STREAM) + 7)
        idle = stack.enter_context(served.client())
        assert served.stop(signal.Signals[name]) == 0
        assert [stream.end() for stream in streams] == [(b"", "reset")] * 20
        assert idle.end() == (b"", "eof")
    assert [members["ended_by"] for members in served.exchanges()] == ["proxy"] * 20
    last = served.records()[-1]
    assert (last.rec, last.members["ending"]) == ("close", "signal")
    assert mcpproxy("verify", served.capture).returncode == 0


@pytest.mark.parametrize("refuser", ["upstream", "us"])
def test_our_answer_to_head_has_no_body(place: Place, refuser: str) -> None:
    with serving(place, f"http://127.0.0.1:{free_port()}/mcp") as served, served.client() as client:
        host = b"localhost" if refuser == "upstream" else b"evil.example"
        client.say(b"HEAD /mcp HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
        head, end, body = client.rest().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 502 " if refuser == "upstream" else b"HTTP/1.1 421 ")
        assert (end, body) == (b"\r\n\r\n", b"")
        assert int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]) > 0


def test_a_client_that_does_not_read_does_not_hold_up_the_end(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.request()
        wire.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % FLOOD)
        with contextlib.suppress(OSError):
            wire.say(bytes(FLOOD))

    with (
        Upstream(script) as upstream,
        serving(place, upstream) as served,
        served.client(receive_buffer=1 << 14) as client,
    ):
        client.say(GET)
        client.head()
        wait_until(lambda: "response" in served.stages(), "the response")
        assert served.stop() == 0


def test_a_kill_loses_a_moment_at_most(place: Place) -> None:
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served, served.client() as client:
        for number in range(200):
            client.say(post(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number))
            assert client.hear(len(OK)) == OK
        served.ended(200)
        client.say(GET)
        assert client.hear(len(OK)) == OK
        os.kill(served.pid, signal.SIGKILL)
        assert client.end()[0] == b""
        served.session.end()
    assert served.ids() == list(range(200))
    assert mcpproxy("verify", served.capture).returncode == 3


# --- what must not be stored ---


def test_credentials_are_never_in_a_capture(place: Place) -> None:
    secrets = {name: f"canary-{name}-{os.urandom(6).hex()}" for name in (
        "authorization", "cookie", "session", "key", "query", "bare", "proxy", "set-cookie", "location", "upstream"
    )}  # fmt: skip
    request = (
        f"POST /mcp?token={secrets['query']}&{secrets['bare']} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {secrets['authorization']}\r\nCookie: a={secrets['cookie']}\r\n"
        f"mcp-session-id: {secrets['session']}\r\nX-Api-Key: {secrets['key']}\r\n"
        f"Proxy-Authorization: Basic {secrets['proxy']}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(PING)}\r\n\r\n"
    ).encode() + PING
    answer = (
        f"HTTP/1.1 200 OK\r\nSet-Cookie: s={secrets['set-cookie']}; Secure\r\nMcp-Session-Id: {secrets['session']}\r\n"
        f"Location: https://example.com/?code={secrets['location']}\r\nContent-Length: 0\r\n\r\n"
    ).encode()
    with Upstream(answering(answer)) as upstream:
        with serving(place, f"{upstream.url}?key={secrets['upstream']}") as served:
            with served.client() as client:
                client.say(request)
                assert client.hear(len(answer)) == answer
                client.say(request)
                assert client.hear(len(answer)) == answer
            first, second = served.ended(2)
        assert upstream.heard() == upstream.as_seen(request) * 2
    written = b"".join(path.read_bytes() for path in place.root.rglob("*") if path.is_file())
    assert [name for name, secret in secrets.items() if secret.encode() in written] == []
    assert PING in served.capture.read_bytes().replace(b'\\"', b'"')
    # Equal secrets get equal replacements, so sessions can be told apart.
    assert first["request"]["headers"] == second["request"]["headers"]
