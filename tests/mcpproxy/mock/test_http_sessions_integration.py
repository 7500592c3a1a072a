"""Which recorded session a client over HTTP is played: several recorded, several clients, with ids and without."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Place
from tests.http_harness import Upstream, Wire, post, serving
from tests.mcpproxy.mock.http_mocks import HttpMockProcess, http_mock
from tests.mcpproxy.test_serve_sdk_integration import own_place

ACCEPT = b"Accept: application/json, text/event-stream"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def initialize(version: str = "2025-11-25") -> bytes:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


def call(number: int, text: str, *, is_modern: bool = False) -> bytes:
    params = {"name": "echo", "arguments": {"text": text}, **({"_meta": META} if is_modern else {})}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


DISCOVER = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": META}}).encode()


class CountingServer:
    """Answers each request with the number of its session and a count."""

    def __init__(self, *, gives_ids: bool) -> None:
        self.sessions = self.count = 0
        self._gives_ids = gives_ids

    def __call__(self, wire: Wire) -> None:
        while request := wire.request():
            message = json.loads(request.partition(b"\r\n\r\n")[2])
            fields = b"Content-Type: application/json\r\n"
            if message["method"] in ("initialize", "server/discover"):
                self.sessions += 1
                if self._gives_ids:
                    fields += b"Mcp-Session-Id: session-%d\r\n" % self.sessions
            self.count += 1
            server = {"name": "s", "version": str(self.sessions)}
            result = {
                "protocolVersion": "2025-11-25",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {},
                "serverInfo": server,
                "content": [{"type": "text", "text": f"{self.sessions}.{self.count}"}],
            }
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            wire.say(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (fields, len(body), body))


def record(place: Place, bodies: list[list[bytes]], *, gives_ids: bool) -> Path:
    """Record sessions, each over a connection of its own."""
    with Upstream(CountingServer(gives_ids=gives_ids)) as upstream, serving(place, upstream) as recorder:
        for number, session_bodies in enumerate(bodies, 1):
            with recorder.client() as wire:
                for body in session_bodies:
                    is_first = body is session_bodies[0]
                    fields = [b"Mcp-Session-Id: session-%d" % number] if gives_ids and not is_first else []
                    wire.say(post(body, ACCEPT, b"User-Agent: client-%d" % number, *fields))
                    wire.request()
        recorder.ended(sum(map(len, bodies)))
    return recorder.capture


@pytest.fixture(scope="module")
def with_ids(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with own_place(tmp_path_factory.mktemp("ids")) as place:
        yield record(place, [[initialize(), call(1, "a"), call(2, "a")], [initialize(), call(1, "a")]], gives_ids=True)


class Client:
    """A client that keeps its session id."""

    def __init__(self, mock: HttpMockProcess, program: bytes = b"client") -> None:
        self._wire = mock.client()
        self._fields = [ACCEPT, b"User-Agent: " + program]

    def ask(self, body: bytes) -> str:
        """Returns the text of the answer."""
        self._wire.say(post(body, *self._fields))
        head, _, content = self._wire.request().partition(b"\r\n\r\n")
        found = re.search(rb"\r\n(Mcp-Session-Id: [!-~]+)", head)
        self._fields += [found[1]] if found else []
        answer = json.loads(content)
        return str(answer["result"]["content"][0]["text"]) if "result" in answer else str(answer["error"]["code"])

    def close(self) -> None:
        self._wire.close()


def test_each_new_session_takes_the_next_recorded_one_and_then_the_last(place: Place, with_ids: Path) -> None:
    with http_mock(place, with_ids) as mock:
        clients = [Client(mock) for _ in range(4)]
        assert [client.ask(initialize()) for client in clients] == ["1.1", "2.4", "2.4", "2.4"]
        # Each has a conversation of its own, which walks through the recorded answers, and then repeats the last.
        assert [clients[0].ask(call(number, "a")) for number in (5, 6, 7)] == ["1.2", "1.3", "1.3"]
        assert [client.ask(call(9, "a")) for client in clients[1:]] == ["2.5"] * 3
        for client in clients:
            client.close()
    with http_mock(place, with_ids, "--session", "2") as mock:
        client = Client(mock)
        assert client.ask(initialize()) == "2.4"
        client.close()


def test_without_ids_a_client_is_known_by_its_connection_or_its_program(place: Place) -> None:
    capture = record(place, [[initialize(), call(1, "a"), call(2, "a")], [initialize(), call(1, "a")]], gives_ids=False)
    with http_mock(place, capture) as mock:
        first, second, same_program = Client(mock, b"x"), Client(mock, b"y"), Client(mock, b"x")
        assert (first.ask(initialize()), second.ask(initialize())) == ("1.1", "2.4")
        assert (same_program.ask(call(1, "a")), second.ask(call(1, "a")), first.ask(call(2, "a"))) == (
            "1.2",
            "2.5",
            "1.3",
        )
        for client in (first, second, same_program):
            client.close()


def test_a_client_of_the_newer_era_is_answered_without_a_handshake(place: Place) -> None:
    calls = [DISCOVER, call(1, "a", is_modern=True), call(2, "b", is_modern=True)]
    capture = record(place, [calls, [DISCOVER]], gives_ids=False)
    with http_mock(place, capture) as mock:
        # Every request over a connection of its own, as some clients send them.
        clients = [Client(mock) for _ in range(3)]
        answers = [client.ask(body) for client, body in zip(clients, calls, strict=True)]
        assert answers == ["1.1", "1.2", "1.3"]
        for client in clients:
            client.close()


def test_a_probe_of_the_newer_era_falls_back_to_a_recorded_handshake(place: Place, with_ids: Path) -> None:
    with http_mock(place, with_ids) as mock:
        client = Client(mock)
        assert client.ask(DISCOVER).startswith("-32")
        assert client.ask(initialize()) == "1.1"
        assert client.ask(call(1, "a")) == "1.2"
        client.close()
