"""Clients that send a mock over HTTP what no client should: each gets a refusal, and others are served as before."""

import json
import re
import resource
from collections.abc import Iterator

import pytest

from tests.harness import ROOT, Place, wait_until
from tests.http_harness import Wire, chunked, post
from tests.mcpproxy.mock.http_mocks import HttpMockProcess, http_mock
from tests.mcpproxy.test_serve_sdk_integration import own_place

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"
"""A recording over stdio: what it holds can be served over HTTP, too."""
ACCEPT = b"Accept: application/json, text/event-stream"
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":"one","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"c","version":"1"}}}'
)
LIST = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}'


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpMockProcess]:
    with own_place(tmp_path_factory.mktemp("hostile")) as place, http_mock(place, DEMO, codes=(0, 1)) as running:
        yield running


def begin(wire: Wire) -> bytes:
    """Begin a session; returns the field with its id."""
    wire.say(post(INITIALIZE, ACCEPT))
    answer = wire.request()
    found = re.search(rb"\r\n(Mcp-Session-Id: [!-~]+)\r\n", answer)
    assert found, answer
    return found[1]


def body_of(answer: bytes) -> object:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def get(path: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join((b"GET %b HTTP/1.1" % path, b"Host: localhost", *fields, b"", b""))


def test_requests_of_one_connection_are_answered_in_turn(mock: HttpMockProcess) -> None:
    """Pipelined, with bodies in chunks, and in single bytes."""
    with mock.client() as wire:
        session = begin(wire)
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + session + b"\r\n"
        split = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(LIST[:10], LIST[10:])
        for byte in split:
            wire.say(bytes((byte,)))
        wire.say(post(LIST, session) * 20 + split + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers = [wire.request() for _ in range(23)]
    assert {answer.split(b" ")[1] for answer in answers[:-1]} == {b"200"}
    assert len({answer.partition(b"\r\n\r\n")[2] for answer in answers[1:-1]}) == 1
    assert answers[-1].startswith(b"HTTP/1.1 404 ")


REFUSALS = {
    b"nonsense\r\n\r\n": 400,
    b"\x16\x03\x01": 400,
    b"GET /mcp HTTP/2.0\r\n\r\n": 505,
    b"GET /mcp HTTP/1.1\r\n\r\n": 400,
    b"GET /mcp HTTP/1.1\r\nHost: attacker.example\r\n\r\n": 421,
    get(b"/mcp", b"Origin: https://attacker.example"): 403,
    get(b"/mcp", b"Sec-Fetch-Site: cross-site"): 403,
    get(b"/mcp", b"A: " + b"x" * 70_000): 431,
    get(b"/" + b"x" * 17_000): 414,
    post(LIST, b"Transfer-Encoding: chunked"): 400,
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 67108865\r\n\r\n": 413,
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n": 400,
}
"""Requests after which a connection ends, by the status of the refusal."""


def test_what_is_not_http_or_may_come_from_a_web_page_is_refused(mock: HttpMockProcess) -> None:
    for sent, status in REFUSALS.items():
        with mock.client() as wire:
            wire.say(sent)
            answer, ending = wire.end()
            assert answer.startswith(b"HTTP/1.1 %d " % status), (sent[:80], answer)
            assert ending == "eof", sent[:80]


ERRORS = {
    get(b"/"): 404,
    get(b"/.well-known/oauth-protected-resource"): 404,
    get(b"/messages"): 405,
    get(b"/mcp", b"Mcp-Session-Id: nothing"): 404,
    get(b"/mcp", b"Mcp-Session-Id: \xff\xfe"): 404,
    b"PUT /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n": 405,
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n": 204,
    post(LIST, b"Mcp-Session-Id: nothing"): 404,
    post(LIST, b"Accept: text/html"): 406,
    post(LIST).replace(b"application/json", b"text/plain"): 415,
    post(LIST).replace(b"/mcp", b"/messages?session_id=%00"): 404,
    post(LIST).replace(b"/mcp", b"/messages?" + b"&".join([b"a=b"] * 50)): 404,
}
"""Requests after which the connection goes on."""


def test_what_no_session_sends_is_refused_and_the_connection_goes_on(mock: HttpMockProcess) -> None:
    with mock.client() as wire:
        for sent, status in ERRORS.items():
            wire.say(sent)
            answer = wire.head() if status == 204 else wire.request()
            assert answer.startswith(b"HTTP/1.1 %d " % status), (sent, answer)
        wire.say(b"HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.head().startswith(b"HTTP/1.1 405 ")
        begin(wire)


BODIES = {
    b"": 400,
    b"\0": 400,
    b"\xff\xfe": 400,
    b"{": 400,
    b"[]": 400,
    b"7": 400,
    b"{}": 400,
    b'{"jsonrpc":"2.0","id":1,"method":7}': 400,
    b"[" * 100_000: 400,
    b'{"a":' * 100_000: 400,
    b'{"jsonrpc":"2.0","method":"notifications/nothing"}': 202,
    b'{"jsonrpc":"2.0","id":99999999999999999999999,"result":{}}': 202,
    b'{"jsonrpc":"2.0","id":1,"method":"nothing","params":' + b"[" * 200 + b"]" * 200 + b"}": 200,
    b'{"jsonrpc":"2.0","id":1,"method":"\\ud800","params":{"a":"\\udfff","n":1e999}}': 200,
    b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"tools/list","method":"tools/list"}': 200,
}


def test_bodies_that_are_no_messages_are_refused(mock: HttpMockProcess) -> None:
    with mock.client() as wire:
        session = begin(wire)
        for body, status in BODIES.items():
            wire.say(post(body, session, ACCEPT))
            answer = wire.request()
            assert answer.split(b" ")[1] == b"%d" % status, (body[:80], answer[:500])
        wire.say(post(LIST, session))
        assert b'"tools"' in wire.request()


def test_a_batch_is_answered_by_one_array(mock: HttpMockProcess) -> None:
    count = 500
    batch = json.dumps([{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(count)]).encode()
    with mock.client() as wire:
        session = begin(wire)
        wire.say(post(batch, session, b"Accept: application/json"))
        answers = body_of(wire.request())
    assert isinstance(answers, list)
    assert sorted(answer["id"] for answer in answers) == list(range(count))


def test_expect_is_answered_before_the_body(mock: HttpMockProcess) -> None:
    with mock.client() as wire:
        session = begin(wire)
        request = post(LIST, session, b"Expect: 100-continue")
        head, _, body = request.partition(b"\r\n\r\n")
        wire.say(head + b"\r\n\r\n")
        assert wire.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.say(body)
        assert wire.request().startswith(b"HTTP/1.1 200 ")


def test_a_session_ends_with_delete_and_others_go_on(mock: HttpMockProcess) -> None:
    with mock.client() as first, mock.client() as second:
        session, other = begin(first), begin(second)
        assert session != other
        first.say(b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n" + session + b"\r\n\r\n")
        assert first.request().startswith(b"HTTP/1.1 200 ")
        first.say(post(LIST, session))
        assert first.request().startswith(b"HTTP/1.1 404 ")
        second.say(post(LIST, other))
        assert second.request().startswith(b"HTTP/1.1 200 ")


def test_the_older_transport_is_offered_for_a_recording_over_stdio(mock: HttpMockProcess) -> None:
    with mock.client() as stream, mock.client() as posts:
        stream.say(get(b"/sse", b"Accept: text/event-stream"))
        head = stream.through(b"\n\n")
        found = re.search(rb"event: endpoint\ndata: (/messages\?session_id=[0-9a-f]+)\n", head)
        assert found, head
        posts.say(post(INITIALIZE).replace(b"/mcp", found[1], 1))
        assert posts.request().startswith(b"HTTP/1.1 202 ")
        assert b'"id":"one"' in stream.through(b"\n\n").replace(b" ", b"")
        stream.close()

        def is_gone() -> bool:
            posts.say(post(LIST).replace(b"/mcp", found[1], 1))
            return posts.request().startswith(b"HTTP/1.1 404 ")

        wait_until(is_gone, "the end of the session")


def test_http_1_0_gets_a_response_that_ends_with_the_connection(mock: HttpMockProcess) -> None:
    with mock.client() as wire:
        wire.say(post(INITIALIZE, ACCEPT).replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer, ending = wire.end()
    assert b"\r\nConnection: close\r\n" in answer
    assert ending == "eof"


def test_many_connections_that_send_nothing_hinder_nobody(mock: HttpMockProcess) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    wires = [mock.client() for _ in range(200)]
    try:
        for wire in wires:
            wire.say(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        with mock.client() as wire:
            begin(wire)
    finally:
        for wire in wires:
            wire.reset()


def test_a_port_that_others_can_reach_needs_an_option(place: Place) -> None:
    from tests.mcpproxy.cli.typed import mcpproxy

    done = mcpproxy("mock", "--listen", "0.0.0.0:0", DEMO)
    assert done.returncode == 2
    assert b"--dangerously-listen-beyond-loopback" in done.stderr
    assert done.stdout == b""
