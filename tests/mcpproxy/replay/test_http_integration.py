"""The HTTP client of a replay, against a server that the test writes byte by byte."""

import json
import re
from collections.abc import Callable
from functools import partial

from mcpproxy.replay.arrivals import Arrival
from mcpproxy.replay.conversation import Outgoing, RecordedPost
from mcpproxy.replay.http import HttpOptions, HttpTransport
from tests.harness import DEADLINE_S, wait_until
from tests.http_harness import Upstream, Wire, chunked

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


def request(id_: int, method: str, version: str | None = None, **params: object) -> Outgoing:
    """Returns a request, whose recorded call has the number of its id."""
    raw = json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode()
    return Outgoing(raw, (id_,), method, version)


def answer(id_: int) -> bytes:
    """Returns an answer."""
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": {}}).encode()


def each_request(respond: Callable[[bytes], bytes | None]) -> Callable[[Wire], None]:
    """Returns a script that answers each request on a connection; None closes it."""

    def script(wire: Wire) -> None:
        response = respond(wire.request())
        if response is not None:
            wire.say(response)

    return script


def said(response: bytes | None, _head: bytes) -> bytes | None:
    """Returns a response, whatever the request."""
    return response


def transport_to(upstream: Upstream, *, is_legacy: bool = False, path: str = "mcp") -> HttpTransport:
    """Returns a transport without a recorder in between."""
    return HttpTransport(f"{upstream.url.rstrip('/')}/{path}", HttpOptions({"X-Key": "k"}, DEADLINE_S, is_legacy))


def arrived(transport: HttpTransport) -> Arrival:
    """Returns what arrives next."""
    arrival = transport.next_arrival(DEADLINE_S)
    assert arrival is not None
    return arrival


def test_session_version_and_credentials_go_with_every_request() -> None:
    def respond(head: bytes) -> bytes:
        if head.startswith(b"GET"):
            return b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
        if head.startswith(b"DELETE") or b"notifications/" in head:
            return ACCEPTED
        id_ = 2 if b"tools/list" in head else 1
        return JSON % (b"Mcp-Session-Id: s-1\r\n" if id_ == 1 else b"", len(answer(id_)), answer(id_))

    with Upstream(each_request(respond)) as upstream:
        transport = transport_to(upstream)
        transport.send(request(1, "initialize"))
        assert arrived(transport) == Arrival(answer(1), (1,))
        ready = Outgoing(
            b'{"jsonrpc":"2.0","method":"notifications/initialized"}', (), "notifications/initialized", "v"
        )
        transport.send(ready)
        transport.send(request(2, "tools/list", "v"))
        wait_until(lambda: arrived(transport).raw == answer(2), "the answer")
        transport.close("v")
        heads = re.findall(rb"(?:POST|GET|DELETE) /mcp.*?\r\n\r\n", upstream.heard(), re.DOTALL)
    assert len(heads) == 5
    assert all(b"X-Key: k\r\n" in head for head in heads)
    assert [b"Mcp-Session-Id: s-1" in head for head in heads] == [False, True, True, True, True]
    assert [b"MCP-Protocol-Version: v" in head for head in heads] == [False, True, True, True, True]


def test_a_modern_request_repeats_its_method_and_name_in_the_head() -> None:
    with Upstream(each_request(lambda _: JSON % (b"", len(answer(1)), answer(1)))) as upstream:
        transport = transport_to(upstream)
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        transport.send(request(1, "tools/call", name="größe\n", arguments={}, _meta=meta))
        assert arrived(transport).raw == answer(1)
        transport.close()
        head = upstream.heard()
    assert b"\r\nMCP-Protocol-Version: 2026-07-28\r\n" in head
    assert b"\r\nMcp-Method: tools/call\r\n" in head
    assert b"\r\nMcp-Name: =?base64?Z3LDtsOfZQo=?=\r\n" in head


def test_a_stream_that_breaks_is_resumed_and_one_that_answered_is_not() -> None:
    def respond(head: bytes) -> bytes:
        if head.startswith(b"GET"):
            return STREAM + chunked(b"id: e2\ndata: " + answer(1) + b"\n\n", b"")
        return STREAM + chunked(b"retry: 1\nid: e1\ndata:\n\n", b"")

    with Upstream(each_request(respond)) as upstream:
        transport = transport_to(upstream)
        transport.send(request(1, "tools/call"))
        assert arrived(transport) == Arrival(answer(1), (1,))
        assert arrived(transport).failed_calls == (1,)  # which it is not any more
        transport.close()
        heard = upstream.heard()
    assert heard.count(b"GET /mcp") == 1
    assert b"Last-Event-ID: e1\r\n" in heard


def test_a_failure_is_told_with_its_status() -> None:
    refusal = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    for response, reason in ((refusal, "HTTP status 401"), (ACCEPTED, "HTTP status 202"), (None, "the connection")):
        with Upstream(each_request(partial(said, response))) as upstream:
            transport = transport_to(upstream)
            transport.send(request(1, "tools/call"))
            failure = arrived(transport)
            assert failure.failed_calls == (1,)
            assert failure.reason.startswith(reason)
            transport.close()


def test_a_redirect_within_the_server_is_followed() -> None:
    def respond(head: bytes) -> bytes:
        if head.startswith(b"POST /mcp "):
            return b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n"
        return JSON % (b"", len(answer(1)), answer(1))

    with Upstream(each_request(respond)) as upstream:
        transport = transport_to(upstream)
        transport.send(request(1, "tools/call"))
        assert arrived(transport).raw == answer(1)
        transport.close()


def test_the_older_transport_posts_to_the_endpoint_that_its_stream_names() -> None:
    def script(wire: Wire) -> None:
        head = wire.request()
        if head.startswith(b"GET"):
            wire.say(STREAM + b"%x\r\n%b\r\n" % (len(ENDPOINT), ENDPOINT))
            wait_until(lambda: b"POST /messages?s=1 " in upstream.heard(), "the POST")
            event = b"event: message\ndata: " + answer(1) + b"\n\n"
            wire.say(b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event))
        else:
            wire.say(ACCEPTED)

    ENDPOINT = b"event: endpoint\ndata: /messages?s=1\n\n"  # noqa: N806 # it stays the same
    with Upstream(script) as upstream:
        transport = transport_to(upstream, is_legacy=True, path="sse")
        transport.send(request(1, "initialize"))
        assert arrived(transport).raw == answer(1)
        transport.close()


def test_an_abandoned_call_is_the_end_of_its_exchange() -> None:
    def script(wire: Wire) -> None:
        wire.request()
        wire.say(STREAM)
        wire.rest()

    with Upstream(script) as upstream:
        transport = transport_to(upstream)
        transport.send(request(1, "tools/call"))
        wait_until(lambda: b"tools/call" in upstream.heard(), "the request")
        transport.send(Outgoing(b"", method="notifications/cancelled", abandoned=1))
        upstream.wait_for_end()
        assert arrived(transport).failed_calls == (1,)
        transport.close()
        assert upstream.heard().count(b"POST") == 1


def test_a_post_has_the_recorded_header_fields_and_no_others() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    then = request(7, "tasks/get", taskId="old", _meta=meta).raw
    fields = (("accept", "*/*"), ("mcp-protocol-version", "2026-07-28"), ("mcp-name", "old"))
    cancelled = Outgoing(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', recorded=RecordedPost(b"", fields))
    with Upstream(each_request(lambda _: JSON % (b"", len(answer(7)), answer(7)))) as upstream:
        transport = transport_to(upstream)
        transport.send(request(7, "tasks/get", taskId="new", _meta=meta)._replace(recorded=RecordedPost(then, fields)))
        assert arrived(transport).raw == answer(7)
        transport.send(cancelled)
        transport.close()
        heads = re.findall(rb"POST /mcp.*?\r\n\r\n", upstream.heard(), re.DOTALL)
    assert len(heads) == 2
    for head, name in zip(heads, (b"new", b"old"), strict=True):
        assert b"\r\nmcp-protocol-version: 2026-07-28\r\n" in head
        assert b"\r\naccept: */*\r\n" in head
        assert b"\r\nmcp-name: %b\r\n" % name in head
        assert b"content-type" not in head.lower()
        assert b"mcp-method" not in head.lower()
