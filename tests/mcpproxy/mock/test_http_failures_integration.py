"""What a mock repeats of the HTTP of a recording: statuses, fields, broken streams, refused methods, session ids."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Place
from tests.http_harness import Upstream, Wire, post, serving
from tests.mcpproxy.mock.http_mocks import http_mock
from tests.mcpproxy.test_serve_sdk_integration import own_place

JSON_TYPE = b"Content-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def whole(status: bytes, fields: bytes, body: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, fields, len(body), body)


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


def result(number: int, text: str) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}]}}
    ).encode()


def progress(token: int) -> bytes:
    params = {"progressToken": token, "progress": 1}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode()


SESSION = b"Mcp-Session-Id: 0123456789\r\n"
HANDSHAKE = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"serverInfo":{"name":"s","version":"1"}}}'
)
ERROR = b'{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"no"}}'
UNFITTING = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}'
CHALLENGE = b'WWW-Authenticate: Bearer scope="notes"\r\n'
BUSY = b"Server: gate/1.2\r\nRetry-After: 7\r\nContent-Type: text/plain\r\n"
RESPONSES: dict[str, list[bytes]] = {
    "initialize": [whole(b"200 OK", JSON_TYPE + SESSION, HANDSHAKE)],
    "notifications/initialized": [whole(b"202 Accepted", JSON_TYPE)],
    "busy": [whole(b"503 Service Unavailable", BUSY, b"later, please")],
    "login": [whole(b"401 Unauthorized", CHALLENGE), whole(b"200 OK", JSON_TYPE, result(3, "welcome"))],
    "locked": [whole(b"403 Forbidden", CHALLENGE)],
    "cut": [EVENTS + chunk(b"id: a\ndata: %b\n\n" % progress(5))],
    "events": [EVENTS + chunk(b"id: 7\nretry: 250\ndata: %b\n\n" % result(6, "alone")) + b"0\r\n\r\n"],
    "body": [whole(b"200 OK", JSON_TYPE, result(7, "body"))],
    "refused": [whole(b"400 Bad Request", JSON_TYPE, ERROR)],
    "empty": [b"HTTP/1.1 204 No Content\r\nContent-Type: text/event-stream\r\n\r\n"],
    "unknown": [whole(b"400 Bad Request", JSON_TYPE + SESSION, UNFITTING)],
    "GET": [whole(b"405 Method Not Allowed", b"Allow: POST, DELETE\r\n")],
    "DELETE": [whole(b"405 Method Not Allowed", b"Allow: POST\r\n")],
}
"""What the recorded server answers, by the tool or method, in order."""
TOOLS = ("busy", "login", "login", "locked", "cut", "events", "body", "refused", "unknown", "empty")


def name_of(request: bytes) -> str:
    method = request.partition(b" ")[0].decode()
    if method != "POST":
        return method
    message = json.loads(request.partition(b"\r\n\r\n")[2])
    return str(message["params"]["name"] if message["method"] == "tools/call" else message["method"])


def serve_recorded(wire: Wire) -> None:
    while request := wire.request():
        answers = RESPONSES[name_of(request)]
        wire.say(answers[0] if len(answers) == 1 or b"Authorization" not in request else answers[1])
        if name_of(request) == "cut":
            return


def message(number: int | None, method: str, **params: object) -> bytes:
    members = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(members if number is None else {**members, "id": number}).encode()


INITIALIZE = message(
    0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c", "version": "1"}
)
ACCEPT = b"Accept: application/json, text/event-stream"


def call(number: int, tool: str) -> bytes:
    return message(number, "tools/call", name=tool, arguments={}, _meta={"progressToken": number})


def bare(method: bytes, *fields: bytes) -> bytes:
    lines = (method + b" /mcp HTTP/1.1", b"Host: localhost", b"Accept: text/event-stream", *fields)
    return b"\r\n".join((*lines, b"", b""))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A recording of a server with failures of every kind."""
    with own_place(tmp_path_factory.mktemp("failures")) as place, Upstream(serve_recorded) as upstream:
        with serving(place, upstream) as recorder:
            session = b"Mcp-Session-Id: 0123456789"
            with recorder.client() as wire:
                wire.say(post(INITIALIZE, ACCEPT))
                wire.request()
                for sent in (post(message(None, "notifications/initialized"), session), bare(b"GET", session)):
                    wire.say(sent)
                    wire.request()
            for number, tool in enumerate(TOOLS, 1):
                with recorder.client() as wire:
                    fields = [b"Authorization: Bearer abc"] if number == 3 else []
                    wire.say(post(call(number, tool), ACCEPT, session, *fields))
                    if tool == "cut":
                        wire.end()
                    else:
                        wire.request()
            with recorder.client() as wire:
                wire.say(bare(b"DELETE", session))
                wire.request()
            recorder.ended(2 + len(TOOLS) + 1)
        yield recorder.capture


def session_of(wire: Wire) -> bytes:
    """Begin a session; returns the field with its id."""
    wire.say(post(INITIALIZE, ACCEPT))
    answer = wire.request()
    found = re.search(rb"\r\n(Mcp-Session-Id: [!-~]+)\r\n", answer)
    assert found, answer
    return found[1]


def test_statuses_fields_and_bodies_are_repeated(place: Place, capture: Path) -> None:
    with http_mock(place, capture) as mock, mock.client() as wire:
        session = session_of(wire)
        assert session != SESSION.strip()

        wire.say(post(message(None, "notifications/initialized"), session))
        accepted = wire.request()
        assert accepted.startswith(b"HTTP/1.1 202 ")
        assert b"\r\nContent-Type: application/json\r\nContent-Length: 0\r\n" in accepted

        def answer(tool: str, number: int) -> bytes:
            wire.say(post(call(number, tool), ACCEPT, session))
            return wire.request()

        busy = answer("busy", 41)
        assert busy.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 7\r\n" in busy or b"\r\nretry-after: 7\r\n" in busy
        assert b"\r\nserver: gate/1.2\r\n" in busy.lower()
        locked = answer("locked", 42)
        assert locked.startswith(b"HTTP/1.1 403 ")
        assert b'Bearer scope="notes"' in locked
        unknown = answer("unknown", 43)
        assert unknown.startswith(b"HTTP/1.1 400 ")
        assert session in unknown, "the session id that the client has"
        assert unknown.endswith(UNFITTING)
        login = answer("login", 43)
        assert login.startswith(b"HTTP/1.1 200 ")
        assert b"welcome" in login
        body = answer("body", 44)
        assert b"\r\nContent-Type: application/json\r\n" in body
        assert json.loads(body.partition(b"\r\n\r\n")[2]) == json.loads(result(44, "body"))
        refused = answer("refused", 45)
        assert refused.startswith(b"HTTP/1.1 400 ")
        assert json.loads(refused.partition(b"\r\n\r\n")[2])["id"] == 45
        events = answer("events", 46)
        assert b"\r\nContent-Type: text/event-stream\r\n" in events
        assert b"id: 7\nretry: 250\ndata: " in events
        assert b'"id": 46' in events or b'"id":46' in events
        empty = answer("empty", 47)
        assert empty.startswith(b"HTTP/1.1 204 ")
        assert b"Transfer-Encoding" not in empty
        for method in (b"GET", b"DELETE"):
            wire.say(bare(method, session))
            assert wire.request().startswith(b"HTTP/1.1 405 ")


def test_a_stream_that_broke_breaks_at_the_same_place(place: Place, capture: Path) -> None:
    with http_mock(place, capture) as mock, mock.client() as wire:
        session = session_of(wire)
        wire.say(post(call(9, "cut"), ACCEPT, session))
        answer, _ = wire.end()
        assert b'"progressToken": 9' in answer or b'"progressToken":9' in answer
        assert not answer.endswith(b"0\r\n\r\n")


LONE_ERROR = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session ID"}}'
LONE_SESSION_ERROR = LONE_ERROR.replace(b"Missing session ID", b"Session not found")
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
DISCOVER = message(1, "server/discover", _meta=MODERN)


def serve_lone_errors(wire: Wire) -> None:
    """Refuse as servers that know only older revisions do: with an error that answers no request, and a session."""
    while request := wire.request():
        if request.startswith(b"POST"):
            wire.say(whole(b"400 Bad Request", JSON_TYPE + SESSION, LONE_ERROR))
        else:
            wire.say(whole(b"404 Not Found", JSON_TYPE, LONE_SESSION_ERROR))


def test_an_error_that_answers_no_request_is_the_body_of_its_response(place: Place) -> None:
    modern = (ACCEPT, b"Mcp-Method: server/discover", b"MCP-Protocol-Version: 2026-07-28")
    with Upstream(serve_lone_errors) as upstream, serving(place, upstream) as recorder:
        with recorder.client() as wire:
            for sent in (post(DISCOVER, *modern), bare(b"DELETE", SESSION.strip(), modern[2])):
                wire.say(sent)
                wire.request()
        recorder.ended(2)
    with http_mock(place, recorder.capture) as mock, mock.client() as wire:
        for _ in range(2):
            wire.say(post(DISCOVER, *modern))
            answer = wire.request()
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b"\r\nContent-Type: application/json\r\n" in answer
            assert answer.endswith(b"\r\n\r\n" + LONE_ERROR)
            session = re.search(rb"\r\n(Mcp-Session-Id: [!-~]+)\r\n", answer)
            assert session
            wire.say(bare(b"DELETE", session[1], modern[2]))
            answer = wire.request()
            assert answer.startswith(b"HTTP/1.1 404 ")
            assert answer.endswith(b"\r\n\r\n" + LONE_SESSION_ERROR)
