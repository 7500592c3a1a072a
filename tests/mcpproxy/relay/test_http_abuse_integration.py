"""What hostile clients and servers send to `mcpproxy serve` does not reach the upstream, and does not affect others."""

import contextlib
import gzip
import os
import re
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.relay.http.client_connection import HEAD_TIMEOUT_S
from mcpproxy.wire.framing import MAX_FIELDS
from mcpproxy.wire.http1 import MAX_REQUEST_HEAD_BYTES, MAX_TARGET_BYTES
from tests.harness import Place, records, wait_until
from tests.http_harness import (
    GET,
    OK,
    PING,
    STREAM,
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
    start_serving,
)
from tests.mcpproxy.cli.typed import mcpproxy

MEMORY = 60 << 20


def refused(served: Serving, request: bytes) -> int:
    """Returns the status with which a request is refused; the connection must be closed afterwards."""
    with served.client() as client:
        client.say(request)
        answer = client.rest()
    status = int(answer[9:12])
    assert_ours(answer, status)
    return status


def get(*lines: bytes, target: bytes = b"/mcp") -> bytes:
    """Returns a GET request with these header lines."""
    return b"\r\n".join((b"GET %b HTTP/1.1" % target, *lines, b"", b""))


# --- who may connect ---

FOREIGN = {
    "a rebound name": (421, b"Host: evil.example"),
    "with our port": (421, b"Host: evil.example:80"),
    "a name that begins like ours": (421, b"Host: localhost.evil.example"),
    "a name that ends like ours": (421, b"Host: evil-localhost"),
    "an address of the network": (421, b"Host: 192.0.2.1"),
    "the wildcard": (421, b"Host: 0.0.0.0"),
    "the number of loopback": (421, b"Host: 2130706433"),
    "an address within IPv6": (421, b"Host: [::ffff:127.0.0.1]"),
    "a page": (403, b"Host: localhost\r\nOrigin: http://evil.example"),
    "a page named like us": (403, b"Host: localhost\r\nOrigin: https://localhost.evil.example"),
    "a page with a user": (403, b"Host: localhost\r\nOrigin: http://localhost@evil.example"),
    "a page without a name": (403, b"Host: localhost\r\norigin: null"),
    "an empty origin": (403, b"Host: localhost\r\nOrigin:"),
    "an extension": (403, b"Host: localhost\r\nOrigin: chrome-extension://localhost"),
    "a second origin": (403, b"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example"),
    "two origins in one": (403, b"Host: localhost\r\nOrigin: http://evil.example http://localhost"),
    "fetched across sites": (403, b"Host: localhost\r\nSec-Fetch-Site: Cross-Site"),
}
KNOWN = (
    b"Host: localhost",
    b"host: LOCALHOST:1",
    b"Host: 127.0.0.1:65535",
    b"Host: [::1]:80",
    b"Host: localhost\r\nOrigin: http://localhost:3000",
    b"Host: localhost\r\nOrigin: https://127.0.0.1",
    b"Host: localhost\r\nOrigin: http://[::1]:1\r\nSec-Fetch-Site: same-site",
    b"Host: localhost\r\nSec-Fetch-Site: none",
)


def test_foreign_requests_are_refused_before_the_upstream_sees_them(place: Place) -> None:
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served:
        for what, (status, lines) in FOREIGN.items():
            for request in (get(lines), get(lines, b"Content-Length: 40") + PING):
                assert refused(served, request) == status, what
        assert upstream.connections == []
        for lines in KNOWN:
            with served.client() as client:
                client.say(get(lines))
                assert client.hear(len(OK)) == OK, lines
        ends = served.ended(2 * len(FOREIGN) + len(KNOWN))
        assert [members["ended_by"] for members in ends[: 2 * len(FOREIGN)]] == ["proxy"] * 2 * len(FOREIGN)
        assert [members["response"]["status"] for members in ends[: 2 * len(FOREIGN) : 2]] == [
            status for status, _ in FOREIGN.values()
        ]


def test_further_hosts_may_be_named(place: Place) -> None:
    options = ("--allow-host", "Proxy.Example", "--allow-host", "b\u00fccher.example", "--allow-host", "2001:db8::1")
    with Upstream(answering(OK)) as upstream, serving(place, upstream, *options) as served:
        for lines in (
            b"Host: proxy.example:8080",
            b"Host: xn--bcher-kva.example",
            b"Host: [2001:DB8::1]:80",
            b"Host: localhost\r\nOrigin: https://proxy.example",
        ):
            with served.client() as client:
                client.say(get(lines))
                assert client.hear(len(OK)) == OK, lines
        assert refused(served, get(b"Host: sub.proxy.example")) == 421


# --- what two servers could parse in two ways ---

CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
SMUGGLED = {
    "length and coding": post(b"0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "two lengths": post(PING, b"Content-Length: 3"),
    "two equal lengths": post(PING, b"Content-Length: %d" % len(PING)),
    "a list of lengths": get(b"Host: localhost", b"Content-Length: 5, 5") + b"hello",
    "a signed length": get(b"Host: localhost", b"Content-Length: +5") + b"hello",
    "a negative length": get(b"Host: localhost", b"Content-Length: -1"),
    "a hexadecimal length": get(b"Host: localhost", b"Content-Length: 0x5") + b"hello",
    "a length with leading zeros": get(b"Host: localhost", b"Content-Length: 05") + b"hello",
    "a length in other digits": get(b"Host: localhost", "Content-Length: \u0665".encode()) + b"hello",
    "an empty length": get(b"Host: localhost", b"Content-Length:"),
    "a length beyond counting": get(b"Host: localhost", b"Content-Length: 18446744073709551621") + b"hello",
    "an unknown coding": get(b"Host: localhost", b"Transfer-Encoding: identity"),
    "chunked twice": get(b"Host: localhost", b"Transfer-Encoding: chunked, chunked"),
    "chunked not last": get(b"Host: localhost", b"Transfer-Encoding: chunked, gzip"),
    "a coding before chunked": get(b"Host: localhost", b"Transfer-Encoding: gzip, chunked"),
    "chunked with a tab": get(b"Host: localhost", b"Transfer-Encoding:\tchunked"),
    "chunked with a parameter": get(b"Host: localhost", b"Transfer-Encoding: chunked;a=b"),
    "chunked, misspelt": get(b"Host: localhost", b"Transfer-Encoding: xchunked"),
    "two codings": get(b"Host: localhost", b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    "an empty coding": get(b"Host: localhost", b"Transfer-Encoding:"),
    "chunked in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0") + chunked(PING),
    "a space before the colon": get(b"Host: localhost", b"Content-Length : 5") + b"hello",
    "a field that begins with a space": get(b"Host: localhost", b" Content-Length: 5") + b"hello",
    "a folded line": get(b"Host: localhost", b"X: a", b" b"),
    "bare LF": b"GET /mcp HTTP/1.1\nHost: localhost\n\n",
    "bare LF in one line": b"GET /mcp HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    "bare CR": get(b"Host: localhost", b"X: a\rContent-Length: 5") + b"hello",
    "NUL": get(b"Host: localhost", b"X: a\0b"),
    "a control in a name": get(b"Host: localhost", b"Content\x0b-Length: 5"),
    "no colon": get(b"Host: localhost", b"Content-Length 5"),
    "an underscore for a dash": get(b"Host: localhost", b"Content_Length: 5") + b"hello",
    "two hosts": get(b"Host: localhost", b"Host: localhost"),
    "no host": get(b"X: y"),
    "an empty host": get(b"Host:"),
    "a list of hosts": get(b"Host: localhost, evil.example"),
    "a host with a user": get(b"Host: evil@localhost"),
    "Connection names the framing": get(b"Host: localhost", b"Connection: close, Content-Length"),
    "two spaces in the request line": b"GET  /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tab in the request line": b"GET\t/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/0.9": b"GET /mcp\r\n\r\n",
    "a version in lower case": b"GET /mcp http/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/1.2": b"GET /mcp HTTP/1.2\r\nHost: localhost\r\n\r\n",
}
SMUGGLED_CHUNKS = {
    "a bad size": b"5x\r\nhello\r\n0\r\n\r\n",
    "a signed size": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size in 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a space before the size": b" 5\r\nhello\r\n0\r\n\r\n",
    "a size beyond counting": b"ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
    "an empty size": b"\r\nhello\r\n0\r\n\r\n",
    "bare LF behind the size": b"5\nhello\r\n0\r\n\r\n",
    "bare LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "more than the size": b"5\r\nhello!\r\n0\r\n\r\n",
    "no CRLF behind the chunk": b"5\r\nhello0\r\n\r\n",
    "a length as trailer": b"0\r\nContent-Length: 5\r\n\r\n",
    "a bad trailer": b"0\r\nX : 5\r\n\r\n",
}


def test_what_can_be_read_in_two_ways_never_reaches_the_upstream(place: Place) -> None:
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served:
        for what, request in SMUGGLED.items():
            assert refused(served, request + GET) in (400, 501, 505), what
        assert upstream.connections == []
        assert len(served.ended(len(SMUGGLED))) == len(SMUGGLED)


def test_nor_does_it_behind_a_good_request(place: Place) -> None:
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served:
        for number, (what, request) in enumerate(SMUGGLED.items()):
            with served.client() as client:
                client.say(GET + request + GET)
                answers = client.rest()
            assert answers.startswith(OK), what
            assert_ours(answers[len(OK) :], int(answers[len(OK) + 9 :][:3]))
            upstream.wait_for_end(number)
            assert bytes(upstream.connection(number).received) == upstream.as_seen(GET), what


def test_chunks_that_can_be_read_in_two_ways_are_never_a_message(place: Place) -> None:
    endings: list[tuple[bytes, str]] = []
    with (
        Upstream(lambda wire: endings.append(wire.end())) as upstream,
        serving(place, upstream) as served,
    ):
        for number, (what, body) in enumerate(SMUGGLED_CHUNKS.items()):
            with served.client() as client:
                client.say(CHUNKED)
                server = upstream.connection(number)
                wait_until(lambda: server.received.endswith(b"\r\n\r\n"), "the head")  # noqa: B023 - waits here
                client.say(body + GET)
                answer = client.rest()
            assert_ours(answer, 400)
            wait_until(lambda: len(endings) > number, what)  # noqa: B023 - waits here
            seen, ending = endings[number]
            assert ending == "reset", what
            assert b"0\r\n" not in seen[len(upstream.as_seen(CHUNKED)) :], what
            assert b"GET" not in seen


# --- destinations other than the upstream ---


def test_there_is_no_other_destination(place: Place) -> None:
    with Upstream(listening) as canary, Upstream(answering(OK)) as upstream, serving(place, upstream) as served:
        elsewhere = canary.authority
        for target in (
            b"http://%b/mcp" % elsewhere,
            b"HTTP://%b/" % elsewhere,
            b"//%b/mcp" % elsewhere,
            b"@%b/" % elsewhere,
            b":80@%b/" % elsewhere,
            b"/\\%b/" % elsewhere,
            b"\\\\%b/" % elsewhere,
            b"http://localhost@%b/" % elsewhere,
            elsewhere,
            b"*",
            b"/a#@%b" % elsewhere,
            b"/\xe9",
        ):
            assert refused(served, get(b"Host: localhost", target=target)) == 400, target
        assert refused(served, b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (elsewhere, elsewhere)) == 501
        assert upstream.connections == []
        for number, target in enumerate((b"/@%b/" % elsewhere, b"/a/../..//%b/" % elsewhere, b"/http://x")):
            with served.client() as client:
                client.say(get(b"Host: localhost", target=target))
                assert client.hear(len(OK)) == OK
            assert upstream.connection(number).received.startswith(b"GET %b HTTP/1.1\r\n" % target)
        assert canary.connections == []


def test_redirects_are_not_followed(place: Place) -> None:
    with Upstream(listening) as canary:
        answer = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % canary.url.encode()
        with Upstream(answering(answer)) as upstream, serving(place, upstream) as served, served.client() as client:
            client.say(GET)
            assert client.hear(len(answer)) == answer
            assert served.ended()[0]["flags"] == ["bypass/location"]
        assert canary.connections == []


# --- other protocols ---


def test_other_protocols_are_refused_plainly(place: Place) -> None:
    upgrade = get(
        b"Host: localhost", b"Connection: keep-alive, Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x"
    )
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served:
        assert refused(served, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0") == 505
        assert refused(served, upgrade) == 501
        assert refused(served, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500)) == 400
        assert refused(served, b"\0" * 1000 + b"\r\n") == 400
        assert refused(served, PING + b"\n") == 400
        with socket.create_connection(served.address) as plain, pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
        assert upstream.connections == []


# --- too much data ---


def test_too_much_of_a_head_is_refused_and_the_client_can_read_why(place: Place) -> None:
    bombs = {
        "a long value": (431, get(b"Host: localhost", b"X: " + b"x" * MAX_REQUEST_HEAD_BYTES)),
        "a long name": (431, get(b"Host: localhost", b"x" * MAX_REQUEST_HEAD_BYTES + b": x")),
        "many fields": (431, get(b"Host: localhost", *[b"X: y"] * MAX_FIELDS)),
        "a long target": (414, get(b"Host: localhost", target=b"/" + b"x" * MAX_TARGET_BYTES)),
        "a line without end": (414, b"G" * (8 << 20)),
        "a field without end": (431, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (8 << 20)),
        "fields without end": (431, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * (1 << 20)),
    }
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served:
        for what, (status, request) in bombs.items():
            assert refused(served, request) == status, what
        assert upstream.connections == []
        assert served.memory() < MEMORY


def test_a_head_at_the_limit_goes_on(place: Place) -> None:
    start = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n"
    request = start + b"X: " + b"x" * (MAX_REQUEST_HEAD_BYTES - len(start) - 7) + b"\r\n\r\n"
    assert len(request) == MAX_REQUEST_HEAD_BYTES
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(request)
        assert client.hear(len(OK)) == OK
        assert upstream.heard() == upstream.as_seen(request)


def test_many_chunks_cost_no_memory(place: Place) -> None:
    many_chunks(place, 100_000)


@pytest.mark.soak
def test_a_million_chunks_cost_no_memory(place: Place) -> None:
    many_chunks(place, 1_000_000)


def many_chunks(place: Place, count: int) -> None:
    body = b"1\r\nx\r\n" * count + b"0\r\n\r\n"

    def script(wire: Wire) -> None:
        wire.head()
        assert wire.hear(len(body)) == body
        wire.say(STREAM + body)
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        sender = threading.Thread(target=client.say, args=(CHUNKED.replace(b"/mcp", b"/other") + body,), daemon=True)
        sender.start()
        assert client.head() == STREAM
        assert client.hear(len(body)) == body
        sender.join()
        assert served.memory() < MEMORY
        (exchange,) = served.ended()
        assert (exchange["ended_by"], exchange["request_size"]) == ("complete", count)


def test_chunk_extensions_without_end_are_refused(place: Place) -> None:
    with Upstream(listening) as upstream, serving(place, upstream) as served:
        assert refused(served, CHUNKED + b"1;" + b"a" * 1000) == 400
        assert refused(served, CHUNKED + b"1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=b\r\nx\r\n" * 100_000) == 400
        assert refused(served, CHUNKED + b"0\r\n" + b"X: y\r\n" * 100_000) == 431
        assert served.memory() < MEMORY


def test_many_requests_at_once(place: Place) -> None:
    count = 12_000  # more than the recorder keeps track of

    def script(wire: Wire) -> None:
        for _ in range(count):
            wire.head()
        wire.say(OK * count)
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        sender = threading.Thread(target=client.say, args=(GET * count,), daemon=True)
        sender.start()
        assert client.hear(len(OK) * count) == OK * count
        sender.join()
        assert upstream.heard() == upstream.as_seen(GET) * count


def test_hostile_responses_go_on_and_cost_no_memory(place: Place) -> None:
    bomb = gzip.compress(bytes(64 << 20), 1)
    fields = b"Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
    answers = [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (8 << 20) + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000 + OK,
        b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n" % (fields, len(bomb)) + bomb,
        STREAM + b"800000\r\n" + b"data: " + b"x" * ((8 << 20) - 6) + b"\r\n0\r\n\r\n",
    ]
    turns = iter(answers)

    def script(wire: Wire) -> None:
        wire.request()
        wire.say(next(turns))

    with Upstream(script) as upstream, serving(place, upstream) as served:
        for answer in answers:
            with served.client() as client:
                client.say(GET)
                assert client.rest() == answer
        assert served.memory() < MEMORY


# --- too many requests and connections ---


def test_slow_heads_keep_nobody_else_waiting(place: Place) -> None:
    with (
        Upstream(answering(OK)) as upstream,
        serving(place, upstream) as served,
        contextlib.ExitStack() as stack,
    ):
        began = time.monotonic()
        slow = [stack.enter_context(served.client()) for _ in range(20)]
        for client in slow:
            client.say(GET[:20])
        for _ in range(3):
            with served.client() as client:
                client.say(GET)
                assert client.hear(len(OK)) == OK
        assert len(upstream.connections) == 3
        endings = [_ending_of_slow_head(client) for client in slow]
        # A machine so busy that they took longer than a head may take, shows only the above.
        if time.monotonic() - began < HEAD_TIMEOUT_S:
            assert endings == [OK] * len(slow)


def _ending_of_slow_head(client: Wire) -> bytes:
    """Send the rest of a head; returns the answer, or nothing if `serve` has given up waiting for it."""
    with contextlib.suppress(ConnectionError):
        client.say(GET[20:])
        return client.hear(len(OK))
    return b""


@pytest.mark.soak
def test_slow_heads_have_thirty_seconds(place: Place) -> None:
    with (
        Upstream(answering(OK)) as upstream,
        serving(place, upstream) as served,
        contextlib.ExitStack() as stack,
    ):
        slow = [stack.enter_context(served.client()) for _ in range(100)]
        began = time.monotonic()
        for client in slow:
            client.sock.settimeout(60)
            client.say(GET[:20])
        answers = [client.rest() for client in slow]
        assert 29 < time.monotonic() - began < 45
        for answer in answers:
            assert_ours(answer, 408)
        assert upstream.connections == []


def test_more_connections_than_descriptors(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.request()
        wire.say(STREAM)
        wire.request()
        # A connection that was dropped for lack of descriptors accepts no more data.
        with contextlib.suppress(OSError):
            wire.say(chunked(b"data: later\n\n"))
            wire.rest()

    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    with Upstream(script) as upstream, serving(place, upstream, before=limit) as served:
        with contextlib.ExitStack() as stack:
            old = [stack.enter_context(served.client()) for _ in range(10)]
            for client in old:
                client.say(GET)
                assert client.head() == STREAM
            new = [stack.enter_context(served.client()) for _ in range(100)]
            for client in new:
                client.say(GET)
            heads = [client.head() for client in new]
            assert {head[:12] for head in heads} == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
            assert sum(head == STREAM for head in heads) < 10
            for client in old:
                client.say(GET)
                assert client.hear(len(chunked(b"data: later\n\n"))) == chunked(b"data: later\n\n")

        def serves_again() -> bool:
            with served.client() as client:
                client.say(GET)
                return client.head() == STREAM

        wait_until(serves_again, "connections to be taken again")
    assert mcpproxy("verify", served.capture).returncode == 0


def limited(soft: int, hard: int) -> str:
    """Returns code that limits the open files of a process."""
    return f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))"


def test_the_connections_are_as_many_as_the_user_allows(place: Place) -> None:
    with (
        Upstream(_stream) as upstream,
        serving(place, upstream, "--max-connections", "3") as served,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(3):
            client = stack.enter_context(served.client())
            client.say(GET)
            assert client.head() == STREAM
        with served.client() as client:
            client.say(GET)
            answer = client.rest()
            assert_ours(answer, 503)
            assert b"3 connections are already open" in answer


def _stream(wire: Wire) -> None:
    wire.head()
    wire.say(STREAM)
    wire.rest()


def test_the_limit_of_open_files_is_raised_as_far_as_needed(place: Place) -> None:
    before = limited(64, 256)
    with Upstream(_stream) as upstream, serving(place, upstream, "--max-connections", "100", before=before) as served:
        limits = Path(f"/proc/{served.pid}/limits").read_text()
        assert re.search(r"^Max open files +232 +256 ", limits, re.MULTILINE), limits
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                client = stack.enter_context(served.client())
                client.say(GET)
                assert client.head() == STREAM


def test_more_connections_than_the_system_allows_are_refused_at_once(place: Place) -> None:
    session, capture = start_serving(place, "--max-connections", "113", "http://127.0.0.1:9/", before=limited(64, 256))
    assert session.end() == 2
    told = session.errors().decode()
    assert told == (
        "mcpproxy: --max-connections 113 needs 258 open files, but the system allows 256: raise the limit "
        "(ulimit -Hn, LimitNOFILE=), or use 112 or fewer\n"
    )
    assert not capture.exists()


# --- when a request is refused ---


def test_a_refusal_waits_for_the_response_before_it(place: Place) -> None:
    go = threading.Event()

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(OK[:-1])
        go.wait()
        wire.say(OK[-1:])
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET)
        assert client.hear(len(OK) - 1) == OK[:-1]
        client.say(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert client.is_silent(0.3)
        go.set()
        assert client.hear(1) == OK[-1:]
        assert_ours(client.rest(), 421)
        first, second = served.ended(2)
        assert (first["ended_by"], second["ended_by"]) == ("complete", "proxy")
        assert upstream.heard() == upstream.as_seen(GET)


@pytest.mark.parametrize("begun", [False, True], ids=["before the response", "within the response"])
def test_a_refusal_within_a_body_ends_both_sides(place: Place, begun: bool) -> None:
    endings = []

    def script(wire: Wire) -> None:
        wire.head()
        if begun:
            wire.say(STREAM)
        endings.append(wire.end())

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(CHUNKED + b"5\r\nhello\r\n")
            server = upstream.connection()
            wait_until(lambda: server.received.endswith(b"hello\r\n"), "the first chunk")
            if begun:
                assert client.head() == STREAM
            client.say(b"nonsense\r\n0\r\n\r\n")
            if begun:
                assert client.end() == (b"", "reset")
            else:
                assert_ours(client.rest(), 400)
        wait_until(lambda: endings, "the upstream's end")
        assert endings[0][1] == "reset"
        assert not server.received.endswith(b"0\r\n\r\n")
        (exchange,) = served.ended()
        assert exchange["ended_by"] == "proxy"


def test_a_refusal_behind_a_response_that_never_comes(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.head()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET + b"nonsense\r\n\r\n")
        assert client.end()[0] == b""
        first, second = served.ended(2)
        assert (first["ended_by"], second["ended_by"]) == ("server", "proxy")


def test_a_refusal_where_nobody_can_tell_where_a_response_ends(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.head()
        wire.say(b"nonsense\r\n")
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(GET)
            assert client.hear(10) == b"nonsense\r\n"
            client.say(b"nonsense\r\n\r\n")
            assert client.end() == (b"", "reset")
            upstream.wait_for_end()
        with served.client() as client:
            client.say(GET + b"nonsense\r\n\r\n")
            assert client.end()[1] == "reset"
            upstream.wait_for_end(1)


def test_a_head_that_is_never_finished_is_refused(place: Place) -> None:
    with Upstream(listening) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(GET[:-2])
            client.hang_up()
            assert_ours(client.rest(), 400)
        assert upstream.connections == []


def test_a_refusal_after_the_upstream_has_said_all(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.head()
        wire.say(OK)
        wire.hang_up()
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET)
        assert client.rest() == OK
        client.say(b"nonsense\r\n\r\n")
        upstream.wait_for_end()
        assert upstream.heard() == upstream.as_seen(GET)


def test_our_answers_repeat_nothing_of_what_was_sent(place: Place) -> None:
    canary = b"canary\x1b[31m"
    with Upstream(listening) as upstream, serving(place, upstream) as served:
        for request in (
            canary + b" / HTTP/1.1\r\n\r\n",
            get(b"Host: localhost", target=b"/" + canary),
            get(b"Host: canary.example"),
            get(b"Host: localhost", b"Origin: http://canary.example"),
            get(b"Host: localhost", canary + b": x"),
            get(b"Host: localhost", b"Transfer-Encoding: canary"),
        ):
            with served.client() as client:
                client.say(request)
                assert b"canary" not in client.rest()
    assert b"canary" not in served.errors


# --- the command line ---


def usage_error(place: Place, *arguments: str) -> str:
    """Returns the error that a wrong command line of `serve` prints: one line, before anything is started."""
    session, capture = start_serving(place, *arguments)
    assert session.end() == 2
    assert session.rest() == b""
    told = session.errors().decode()
    assert told.count("\n") == 1, told
    assert not capture.exists()
    return told


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("localhost:8000/mcp", "http://"),
        ("example.com", "http://"),
        ("ftp://example.com/", "http://"),
        ("ws://example.com/", "http://"),
        ("/mcp", "http://"),
        ("", "http://"),
        ("http://", "http://HOST"),
        ("http:///mcp", "http://HOST"),
        ("http://example.com:99999/", "http://HOST:PORT"),
        ("http://example.com:x/", "http://HOST:PORT"),
        ("http://[::1/", "http://HOST:PORT"),
        ("http://user:canary@example.com/mcp", "http://example.com/…"),
        ("http://canary@example.com/mcp", "http://example.com/…"),
        ("http://example.com/#fragment", "fragment"),
        ("http://example.com/a b", "white space"),
        ("http://example.com/\r\nX: y", "white space"),
    ],
)
def test_an_address_that_is_none_is_told_what_to_write(place: Place, url: str, hint: str) -> None:
    told = usage_error(place, url)
    assert hint in told
    assert "canary" not in told


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "0", "", "[::]", "::", "[::ffff:0.0.0.0]", "0x0", "00.0", "[0:0:0:0:0:0:0:0]", "192.0.2.1"]
)
def test_listening_beyond_loopback_must_be_asked_for(place: Place, host: str) -> None:
    assert "--dangerously-listen-beyond-loopback" in usage_error(place, "--listen", f"{host}:0", "http://127.0.0.1:9/")


def test_listening_beyond_loopback_still_knows_its_own_names_only(place: Place) -> None:
    options = ("--listen", "0.0.0.0:0", "--dangerously-listen-beyond-loopback")
    with Upstream(answering(OK)) as upstream, serving(place, upstream, *options) as served:
        with served.client() as client:
            client.say(GET)
            assert client.hear(len(OK)) == OK
        assert refused(served, get(b"Host: 0.0.0.0:%d" % served.address[1])) == 421
        assert refused(served, get(b"Host: evil.example")) == 421


def test_loopback_of_ipv6(place: Place) -> None:
    with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this system has no IPv6")
    with Upstream(answering(OK)) as upstream, serving(place, upstream, "--listen", "[::1]:0") as served:
        assert served.url == f"http://[::1]:{served.address[1]}/mcp"
        with socket.create_connection(served.address) as sock, Wire(sock) as client:
            client.say(get(b"Host: [::1]:%d" % served.address[1]))
            assert client.hear(len(OK)) == OK
        assert served.ended()[0]["peer"].startswith("[::1]:")


@pytest.mark.parametrize("listen", ["", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1", "[::1]"])
def test_an_address_to_listen_on_that_is_none(place: Place, listen: str) -> None:
    assert "--listen" in usage_error(place, "--listen", listen, "http://127.0.0.1:9/")


def test_a_port_that_is_busy(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        told = usage_error(place, "--listen", f"127.0.0.1:{port}", "http://127.0.0.1:9/")
        assert "choose another port" in told


@pytest.mark.parametrize("host", ["127.0.0.1:", ""], ids=["with a host", "alone"])
def test_the_port_is_the_one_asked_for(place: Place, host: str) -> None:
    port = free_port()
    with Upstream(answering(OK)) as upstream, serving(place, upstream, "--listen", f"{host}{port}") as served:
        assert served.url == f"http://127.0.0.1:{port}/mcp"


def test_a_capture_that_cannot_be_made(place: Place) -> None:
    found = place.run("serve", "--capture", str(place.root / "no" / "such" / "x.mcpcap"), "http://127.0.0.1:9/")
    assert (found.returncode, found.stdout) == (73, b"")


def test_a_stdout_that_nobody_reads(place: Place) -> None:
    with Upstream(answering(OK)) as upstream:
        port = free_port()
        reading, writing = os.pipe()
        os.close(reading)
        session, capture = start_serving(place, "--listen", f"127.0.0.1:{port}", upstream.url, stdout=writing)
        os.close(writing)

        def connected() -> Any:
            with contextlib.suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", port))

        with Wire(wait_until(connected, "it to listen")) as client:
            client.say(GET)
            assert client.hear(len(OK)) == OK
        session.process.terminate()
        assert session.end() == 0
        assert b"Traceback" not in session.errors()
        assert records(capture)[-1].rec == "close"
