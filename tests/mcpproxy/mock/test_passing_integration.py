"""What was not recorded goes to a real server, and into a capture of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from captures.reader import Capture
from mcpproxy.mock.miss import FAILURE_REASON
from mcpproxy.mock.outgoing import Outgoing
from mcpproxy.mock.passing import MAX_OPEN_BYTES, RealServer
from tests.analysis.playback.recordings import Recording
from tests.harness import DEADLINE_S, frames, peer, wait_until

_INITIALIZE = b'{"jsonrpc":"2.0","id":"c0","method":"initialize","params":{"protocolVersion":"2025-11-25","x":1}}'


class _Client:
    """A client of a mock that recorded nothing: all that it asks goes to the real server."""

    def __init__(self, target: list[str], capture: str) -> None:
        self.notices: list[str] = []
        self._has_arrived = threading.Event()
        fields = {"Authorization": "Bearer secret-token"}
        self.server = RealServer(target, capture, self._has_arrived.set, self.notices.append, fields)
        self.received: list[Outgoing] = []

    def ask(self, raw: str, request: int) -> None:
        self.server.pass_request(raw.encode(), request)

    def next(self) -> tuple[Any, int | None, bool]:
        """Wait for the next message: its JSON, its request, and whether it ends that."""
        wait_until(self._has_received, "a message of the real server")
        outgoing = self.received.pop(0)
        return json.loads(outgoing.raw), outgoing.request, outgoing.ends_request

    def _has_received(self) -> bool:
        self.received += self.server.received()
        return bool(self.received)


@pytest.fixture
def new_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., _Client]]:
    """Makes clients whose real servers are ended after the test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    clients: list[_Client] = []

    def make(target: list[str] | None = None, capture: Path = tmp_path / "new.mcpcap") -> _Client:
        clients.append(_Client(target or [str(word) for word in peer("asking_server")], str(capture)))
        return clients[-1]

    yield make
    for client in clients:
        client.server.close()


def _recorded(path: Path) -> list[tuple[str, Any]]:
    return [(frame.dir, json.loads(frame.raw)) for frame in frames(path)]


def test_what_missed_is_answered_and_recorded_after_a_handshake_like_that_of_the_client(
    new_client: Callable[..., _Client], tmp_path: Path
) -> None:
    client = new_client()
    client.server.note_initialize(_INITIALIZE)
    client.ask('{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "x", "n": 1.50}}', 5)
    client.ask('{\n  "jsonrpc": "2.0",\r\n  "id": 7,\n  "method": "tools/list"\n}', 6)  # the server must get one line
    first, second = client.next(), client.next()
    assert first[1:] == (5, True)
    assert second[1:] == (6, True)
    assert first[0] == {
        "jsonrpc": "2.0",
        "id": "a",
        "result": {"got": '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "x", "n": 1.50}}'},
    }
    client.server.close()
    capture = tmp_path / "new.mcpcap"
    (notice,) = client.notices
    assert str(capture) in notice
    sent = [body for direction, body in _recorded(capture) if direction == "c2s"]
    assert [body.get("method") for body in sent] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
        "tools/list",
    ]
    assert sent[0]["params"] == {"protocolVersion": "2025-11-25", "x": 1}
    assert [body.get("id") for body in sent] == [1, None, 2, 3]
    assert len(_recorded(capture)) == 7


def test_a_request_over_several_lines_is_one_line_for_the_real_server(new_client: Callable[..., _Client]) -> None:
    client = new_client()
    client.ask('{"id":3,\n"method":\r\n"tools/call","params":\r{"name":"x"}}', 0)
    answer, request, is_last = client.next()
    assert (answer["id"], request, is_last) == (3, 0, True)
    assert answer["result"]["got"] == '{"id":1, "method":  "tools/call","params": {"name":"x"}}'
    client.ask('{"id":4,"method":"tools/list","params":\n' + "[" * 100_000 + "]" * 100_000 + "}", 1)
    answer, request, is_last = client.next()
    assert (answer["id"], request, is_last) == (4, 1, True)
    assert "a line break in bytes that are not JSON would end the line" in answer["error"]["message"]


def test_progress_and_requests_of_the_server_go_both_ways(new_client: Callable[..., _Client]) -> None:
    client = new_client()
    client.ask('{"id":3,"method":"tools/call","params":{"name":"progress","_meta":{"progressToken":"p"}}}', 0)
    progress, request, is_last = client.next()
    assert (progress["params"]["progressToken"], request, is_last) == ("p", 0, False)
    assert client.next()[0]["id"] == 3
    client.ask('{"id":1,"method":"tools/call","params":{"name":"ask"}}', 1)
    question, request, is_last = client.next()
    assert (question["method"], request, is_last) == ("sampling/createMessage", 1, False)
    ours = question["id"]
    assert question["params"]["_meta"]["progressToken"] == ours != 1
    assert not client.server.pass_message(b'{"id":1,"result":{}}'), "an answer to a recorded request"
    assert not client.server.pass_message(b'{"method":"notifications/initialized"}')
    assert not client.server.pass_message(b'{"method":"notifications/cancelled","params":{"requestId":99}}')
    assert client.server.pass_message(json.dumps({"id": ours, "result": {"role": "user"}}).encode())
    assert not client.server.pass_message(json.dumps({"id": ours, "result": {}}).encode()), "it was answered"
    answer = client.next()
    assert answer[1:] == (1, True)
    assert json.loads(answer[0]["result"]["got"]) == {"id": 1, "result": {"role": "user"}}


def test_cancellations_name_the_id_that_the_server_knows(new_client: Callable[..., _Client], tmp_path: Path) -> None:
    client = new_client()
    client.ask('{"id":"a","method":"tools/call"}', 0)
    client.next()
    cancellation = b'{"method":"notifications/cancelled","params":{"requestId":"a"}}'
    assert client.server.pass_message(cancellation)
    client.ask('{"id":"b","method":"tools/call"}', 1)
    client.next()
    client.server.close()
    cancelled = [body["params"] for _, body in _recorded(tmp_path / "new.mcpcap") if "cancelled" in str(body)]
    assert {"requestId": 1} in cancelled


def test_a_client_whose_initialize_missed_opens_the_conversation_itself(new_client: Callable[..., _Client]) -> None:
    client = new_client()
    client.server.note_initialize(_INITIALIZE)
    client.ask(_INITIALIZE.decode(), 0)
    assert client.next()[0]["result"]["protocolVersion"] == "2025-11-25"
    assert client.server.pass_message(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    client.ask('{"id":"a","method":"x"}', 1)
    assert client.next()[0]["id"] == "a"


def test_a_server_that_cannot_be_reached_is_an_error_and_the_mock_goes_on(
    new_client: Callable[..., _Client], tmp_path: Path
) -> None:
    asking = [str(word) for word in peer("asking_server")]
    for target, capture, request, reason in (
        (["/does/not/exist"], tmp_path / "a.mcpcap", '{"id":1,"method":"x"}', "not"),
        (asking, tmp_path / "b.txt", '{"id":1,"method":"x"}', "cannot be started"),
        (asking, tmp_path / "c.mcpcap", '{"id":1,"method":"x","params":{"name":"end"}}', "this is the end"),
        (["http://127.0.0.1:1/mcp"], tmp_path / "d.mcpcap", '{"id":1,"method":"x"}', "cannot be reached"),
    ):
        client = new_client(target, capture)
        for number in range(2):
            client.ask(request, number)
            answer, answered, is_last = client.next()
            assert (answer["id"], answered, is_last) == (1, number, True), target
            assert answer["error"]["data"] == {"mcpproxy": FAILURE_REASON}
            assert reason in answer["error"]["message"], answer
        client.server.close()


def test_a_refused_handshake_is_an_error_for_what_waited(new_client: Callable[..., _Client]) -> None:
    client = new_client()
    client.server.note_initialize(_INITIALIZE.replace(b"2025-11-25", b"refused"))
    for number in range(2):
        client.ask('{"id":1,"method":"x"}', number)
        answer, answered, _ = client.next()
        assert answered == number
        assert "refused the client's initialize" in answer["error"]["message"]


def test_requests_that_the_server_does_not_read_are_bounded(new_client: Callable[..., _Client]) -> None:
    client = new_client([sys.executable, "-c", "import time; [time.sleep(1) for _ in range(999)]"])
    large = '{"id":1,"method":"x","params":"' + "x" * (MAX_OPEN_BYTES // 2) + '"}'
    client.ask(large, 0)
    client.ask(large, 1)
    answer, answered, _ = client.next()
    assert answered == 1
    assert "too many requests" in answer["error"]["message"]


_HOSTILE = r"""
import json, sys
id_ = json.loads(sys.stdin.readline())["id"]
for line in (
    b"", b" ", b"[]", b"[[]]", b"[[1,2],{}]", b"7", b"not JSON", b"\xff\x00", b"{}", b"[" * 100000 + b"]" * 100000,
    b'{"id":99,"result":{}}', b'{"id":"1","result":{}}', b'{"id":null,"error":{}}', b'{"id":1.5,"result":{}}',
    b'{"id":"' + b"x" * 100000 + b'","method":"ping"}', b'{"id":{},"method":"ping"}',
    b'{"id":%d,"result":"\\ud800"}' % id_, b'{"id":%d,"result":"again"}' % id_,
):
    sys.stdout.buffer.write(line + b"\n")
sys.stdout.buffer.flush()
sys.stdin.read()
"""


def test_a_hostile_server_does_no_harm(new_client: Callable[..., _Client]) -> None:
    client = new_client([sys.executable, "-c", _HOSTILE])
    client.ask('{"id":"a","method":"x"}', 0)
    assert client.next() == ({"id": "a", "result": "\ud800"}, 0, True)
    client.server.close()
    assert client.server.received() == []


def test_an_id_may_not_be_endless(new_client: Callable[..., _Client]) -> None:
    client = new_client()
    client.ask(json.dumps({"id": "x" * 10_000, "method": "x"}), 0)
    answer, request, is_last = client.next()
    assert (answer["id"], request, is_last) == ("x" * 10_000, 0, True)
    assert "the id has more than" in answer["error"]["message"]


def test_a_second_conversation_is_recorded_next_to_the_first(
    new_client: Callable[..., _Client], tmp_path: Path
) -> None:
    for name in ("new.mcpcap", "new-2.mcpcap"):
        client = new_client()
        client.ask('{"id":"a","method":"x"}', 0)
        client.next()
        client.server.close()
        assert len(_recorded(tmp_path / name)) == 2


def test_without_a_place_the_new_capture_is_not_a_recording_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCPPROXY_CAPTURES", str(tmp_path / "captures"))
    server = RealServer([str(word) for word in peer("asking_server")], None, lambda: None, lambda _: None)
    server.pass_request(b'{"id":"a","method":"x"}', 0)
    wait_until(server.received, "the answer of the real server")
    server.close()
    (capture,) = (tmp_path / "captures").rglob("*.mcpcap")
    assert capture.parent.name.endswith("-mock")
    assert Capture(capture).header.members["name"] == capture.parent.name


class _JsonServer(BaseHTTPRequestHandler):
    """Answers each POST with what it got."""

    def do_POST(self) -> None:
        """Answer a request, or accept a notification."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        version, credentials = self.headers["MCP-Protocol-Version"], self.headers["Authorization"]
        result = {"got": message, "protocolVersion": "2025-11-25", "version": version, "credentials": credentials}
        body = (
            json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() if "id" in message else b""
        )
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def test_the_real_server_may_have_a_url(new_client: Callable[..., _Client], tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _JsonServer) as server:
        threading.Thread(target=server.serve_forever).start()
        client = new_client([f"http://127.0.0.1:{server.server_port}/mcp"])
        client.server.note_initialize(_INITIALIZE)
        client.ask('{"jsonrpc":"2.0","id":"a","method":"tools/list"}', 4)
        answer, request, is_last = client.next()
        client.server.close()
        server.shutdown()
    assert (answer["id"], request, is_last) == ("a", 4, True)
    assert answer["result"]["got"] == {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert answer["result"]["version"] == "2025-11-25"
    assert answer["result"]["credentials"] == "Bearer secret-token"
    assert len(_recorded(tmp_path / "new.mcpcap")) == 5


@pytest.mark.costly("starts the command, a recorder and a server")
def test_the_command_asks_the_real_server_for_what_was_not_recorded_only(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1, arguments={"q": "a"})
    made.server(id=1, result={"content": "recorded"})
    old = made.write(tmp_path, "old.mcpcap")
    before = old.read_bytes()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "new", "version": "1"}}
    lines = (
        {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"id": "a", "method": "tools/call", "params": {"name": "search", "arguments": {"q": "a"}}},
        {"id": "b", "method": "tools/call", "params": {"name": "search", "arguments": {"q": "b"}}},
        [
            {"id": "c", "method": "tools/call", "params": {"name": "search", "arguments": {"q": "a"}}},
            {"id": "d", "method": "tools/call", "params": {"name": "search", "arguments": {"q": "d"}}},
        ],
    )
    words = ["--on-miss", "pass", "--capture", f"{tmp_path}/new/", str(old), "--", *map(str, peer("asking_server"))]
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "mock", *words],
        input=b"".join(json.dumps(line).encode() + b"\n" for line in lines),
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    answers = {
        answer["id"]: answer["result"] for line in said for answer in (line if isinstance(line, list) else [line])
    }
    assert answers.pop("i")["serverInfo"]["name"] == "s"
    assert answers["a"] == answers["c"] == {"content": "recorded"}
    assert [json.loads(answers[id_]["got"])["params"]["arguments"] for id_ in "bd"] == [{"q": "b"}, {"q": "d"}]
    assert [len(line) for line in said if isinstance(line, list)] == [2]
    assert done.returncode == 0, done.stderr
    (new,) = (tmp_path / "new").glob("*.mcpcap")
    assert str(new) in done.stderr.decode()
    sent = [body for direction, body in _recorded(new) if direction == "c2s"]
    assert sent[0]["params"] == hello
    assert [body["params"]["arguments"] for body in sent[2:]] == [{"q": "b"}, {"q": "d"}]
    assert old.read_bytes() == before


_MOCK = """
import sys, threading
from mcpproxy.mock.passing import RealServer
has_arrived = threading.Event()
server = RealServer(sys.argv[2:], sys.argv[1], has_arrived.set, lambda notice: None)
server.pass_request(b'{"id":1,"method":"x"}', 0)
while not server.received():
    has_arrived.wait()
    has_arrived.clear()
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.costly("starts a mock, a recorder and a server, twice")
def test_nothing_is_left_when_the_mock_is_killed(tmp_path: Path) -> None:
    mark = f"marked-{tmp_path.name}-{os.getpid()}"
    with ThreadingHTTPServer(("127.0.0.1", 0), _JsonServer) as server:
        threading.Thread(target=server.serve_forever).start()
        for target in (
            [*map(str, peer("asking_server")), mark],
            [f"http://127.0.0.1:{server.server_port}/{mark}"],
        ):
            capture = tmp_path / f"{len(target)}.mcpcap"
            with subprocess.Popen(
                [sys.executable, "-c", _MOCK, str(capture), *target], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as mock:
                assert mock.stdout is not None
                assert mock.stdout.readline()
                assert len(_marked(mark)) > 1
                mock.send_signal(signal.SIGKILL)
            wait_until(lambda: not _marked(mark), f"the end of all processes for {target}")
        server.shutdown()


def _marked(mark: str) -> list[str]:
    """Returns the processes whose command line has the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found
