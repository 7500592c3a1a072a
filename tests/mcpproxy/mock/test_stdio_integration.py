"""The mock as a process on stdio: as the SDK's client sees it, with hostile clients, and how it ends."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CreateMessageResult, ElicitResult, TextContent

from tests.analysis.playback.recordings import Recording
from tests.harness import DEADLINE_S

pytestmark = pytest.mark.costly("each test starts the command")

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": HELLO}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def command(capture: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "mcpproxy", "mock", *words, str(capture)]


def play(capture: Path, *messages: Any, words: tuple[str, ...] = ()) -> tuple[list[Any], str, int]:
    """Send messages to a mock, close its stdin; returns what it said, its stderr and its exit status."""
    lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
    done = subprocess.run(
        command(capture, *words), input=b"".join(line + b"\n" for line in lines), capture_output=True, check=False,
        timeout=DEADLINE_S,
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    stderr = done.stderr.decode()
    assert "Traceback" not in stderr, stderr
    return said, stderr, done.returncode


@contextmanager
def started(capture: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command(capture, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as mock:
        try:
            yield mock
        finally:
            mock.kill()


def searches(folder: Path, *ending: tuple[str, dict[str, Any]]) -> Path:
    """A capture with a handshake and one call."""
    made = Recording().handshake()
    made.call(1, arguments={"q": "a"})
    made.server(id=1, result={"content": [{"type": "text", "text": "found"}]})
    for rec, values in ending:
        made.record(rec, **values)
    return (made if ending else made.closed()).write(folder)


SEARCH = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "search", "arguments": {"q": "a"}}}


def test_the_sdk_client_gets_lists_progress_sampling_and_elicitation(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.client(id=1, method="tools/list")
    tool = {"name": "search", "inputSchema": {"type": "object"}}
    made.server(id=1, result={"tools": [tool]})
    made.call(2, arguments={"q": "a"}, _meta={"progressToken": 2})
    made.server(method="notifications/progress", params={"progressToken": 2, "progress": 1, "total": 2})
    message = {"role": "user", "content": {"type": "text", "text": "which?"}}
    made.server(id=1, method="sampling/createMessage", params={"messages": [message], "maxTokens": 5})
    made.client(id=1, result={})
    schema = {"type": "object", "properties": {}}
    made.server(id=2, method="elicitation/create", params={"message": "sure?", "requestedSchema": schema})
    made.client(id=2, result={})
    made.server(id=2, result={"content": [{"type": "text", "text": "found"}]})
    seen: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(f"progress {progress:g}/{total:g}")

    async def on_sampling(_context: object, params: Any) -> CreateMessageResult:
        seen.append(f"sampling {params.max_tokens}")
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="b"), model="m")

    async def on_elicitation(_context: object, params: Any) -> ElicitResult:
        seen.append(f"elicitation {params.message}")
        return ElicitResult(action="decline")

    async def talk() -> None:
        first, *rest = command(made.write(tmp_path))
        server = stdio_client(StdioServerParameters(command=first, args=rest))
        callbacks: dict[str, Any] = {"sampling_callback": on_sampling, "elicitation_callback": on_elicitation}
        with anyio.fail_after(DEADLINE_S):
            async with Client(server, mode="legacy", **callbacks) as client:
                assert [listed.name for listed in (await client.list_tools()).tools] == ["search"]
                result = await client.call_tool("search", {"q": "a"}, progress_callback=on_progress)
        assert result.content == [TextContent(type="text", text="found")]

    anyio.run(talk)
    assert seen == ["progress 1/2", "sampling 5", "elicitation sure?"]


def test_the_exit_status_tells_misses_and_what_was_never_asked_for(tmp_path: Path) -> None:
    capture = searches(tmp_path)
    said, stderr, status = play(capture, INITIALIZE, INITIALIZED, SEARCH)
    assert ([message["id"] for message in said], stderr, status) == (["i", 9], "", 0)
    _, stderr, status = play(capture, INITIALIZE)
    assert (stderr, status) == ("mcpproxy: never asked for: tools/call search (frame 4)\n", 0)
    _, stderr, status = play(capture, INITIALIZE, words=("--strict",))
    assert (status, stderr.splitlines()[-1].startswith("mcpproxy: --strict: 1 recorded request")) == (1, True)
    _, stderr, status = play(capture, {"id": 0, "method": "server/discover"}, INITIALIZE, INITIALIZED, SEARCH)
    assert (stderr.startswith("mcpproxy: note: a client tried server/discover first, "), status) == (True, 0)
    said, stderr, status = play(capture, INITIALIZE, SEARCH | {"params": {"name": "\u001b[31m"}}, SEARCH)
    assert (status, said[-1]["id"], "\x1b" in stderr) == (1, 9, False)
    assert "the nearest is frame 4" in stderr


def test_a_server_that_ended_by_itself_ends_with_its_status_once_it_has_answered(tmp_path: Path) -> None:
    ending = ("process", {"event": "ended", "status": 3}), ("close", {"ending": "server"})
    with started(searches(tmp_path, *ending)) as mock:
        assert mock.stdin is not None
        assert mock.stdout is not None
        for message in (INITIALIZE, INITIALIZED, SEARCH):
            mock.stdin.write(json.dumps(message).encode() + b"\n")
        mock.stdin.flush()
        assert [json.loads(line)["id"] for line in mock.stdout] == ["i", 9]
        assert mock.wait(DEADLINE_S) == 3


def test_it_ends_by_a_signal_as_a_server_does_and_reports_before(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with started(searches(tmp_path)) as mock:
            assert mock.stdin is not None
            assert mock.stdout is not None
            assert mock.stderr is not None
            mock.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            mock.stdin.flush()
            assert json.loads(mock.stdout.readline())["id"] == "i"
            mock.send_signal(number)
            assert mock.wait(DEADLINE_S) == -number
            assert mock.stderr.read() == b"mcpproxy: never asked for: tools/call search (frame 4)\n"


def test_a_client_that_stops_reading_ends_it_quietly(tmp_path: Path) -> None:
    with started(searches(tmp_path)) as mock:
        assert mock.stdin is not None
        assert mock.stdout is not None
        assert mock.stderr is not None
        mock.stdout.close()
        mock.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        mock.stdin.flush()
        assert mock.wait(DEADLINE_S) == 0
        assert b"Traceback" not in mock.stderr.read()


def test_hostile_lines_are_answered_and_the_next_request_as_well(tmp_path: Path) -> None:
    capture = searches(tmp_path)
    giant = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"' + b"y" * (17 << 20) + b'"}}'
    said, stderr, status = play(capture, b"\x00\xff", b"[" * 200_000, giant, b"", b"  ", INITIALIZE)
    assert [message["id"] for message in said] == [None, None, None, "i"]
    assert "3 lines from the client are not messages" in stderr
    assert status == 0


def test_a_client_that_sends_much_before_it_reads_gets_everything(tmp_path: Path) -> None:
    capture, count = searches(tmp_path), 5_000
    with started(capture) as mock:
        assert mock.stdin is not None
        assert mock.stdout is not None
        mock.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        for number in range(count):
            mock.stdin.write(json.dumps(SEARCH | {"id": number}).encode() + b"\n")
        mock.stdin.flush()
        assert [json.loads(mock.stdout.readline())["id"] for _ in range(count + 1)] == ["i", *range(count)]


def test_wrong_usage_and_unreadable_captures_are_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mcpcap"
    bad.write_bytes(b"nothing")
    capture = searches(tmp_path)
    for words, path in (
        ((), bad),
        ((), tmp_path / "missing.mcpcap"),
        (("--speed", "0"), capture),
        (("--on-miss", "pass"), capture),
        (("--capture", "x"), capture),
        (("--session", "7"), capture),
        (("--ignore", "nowhere"), capture),
        (("--listen", "nowhere"), capture),
        ((), Path("-")),
    ):
        said, stderr, status = play(path, words=words)
        assert (said, stderr.count("\n"), status) == ([], 1, 2), (words, stderr)


def new_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def test_a_missing_capture_is_told_with_its_folder_and_what_it_could_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches(tmp_path)
    _, stderr, status = play(tmp_path / "made.mcpca")
    assert (stderr, status) == (
        f"mcpproxy: there is no made.mcpca (did you mean made.mcpcap?) in {tmp_path}\n",
        2,
    )
    _, stderr, status = play(tmp_path)
    assert (stderr, status) == (f"mcpproxy: {tmp_path} is a folder; name one capture in it\n", 2)
    _, stderr, status = play(Path("gone.mcpcap"))
    assert f"there is no gone.mcpcap in {Path.cwd()}; clients may start" in stderr
    monkeypatch.setenv("MCPPROXY_CAPTURES", str(tmp_path))
    searches(new_folder(tmp_path, "com.example.mcp"))
    for name in ("com.example.mcp", "com.example.mcp/made.mcpcap"):
        said, _, status = play(Path(name), INITIALIZE)
        assert (len(said), status) == (1, 0), "a server, and the name that `ls` prints"
    _, stderr, _ = play(tmp_path / "made.mcpcap", words=("--ignore", "nowhere"))
    assert "whole result" not in stderr, "the places are in the params"


@pytest.mark.costly("a capture that is not read before the client leaves")
def test_the_capture_is_read_to_its_end_before_the_report(tmp_path: Path) -> None:
    made = Recording().handshake()
    for number in range(1, 4_000):
        made.call(number, arguments={"q": number})
        made.server(id=number, result={})
    _, stderr, status = play(made.closed().write(tmp_path), INITIALIZE, words=("--strict",))
    assert ("may be more" in stderr, status) == (False, 1)
    assert "--strict: 3999 recorded requests" in stderr.replace(",", "")


def test_the_real_servers_url_can_follow_the_options(tmp_path: Path) -> None:
    words = ["--on-miss", "pass", "http://127.0.0.1:1/mcp"]
    done = subprocess.run(
        [*command(searches(tmp_path)), *words], input=b"", capture_output=True, check=False, timeout=DEADLINE_S
    )
    assert (done.returncode, b"unrecognized" in done.stderr) == (0, False)


def test_a_request_that_the_real_server_did_not_answer_is_a_miss(tmp_path: Path) -> None:
    missing = {"id": 7, "method": "tools/call", "params": {"name": "other"}}
    words = ["--on-miss", "pass", "--capture", str(tmp_path / "new.mcpcap"), "--", str(tmp_path / "nosuch")]
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in (INITIALIZE, missing))
    done = subprocess.run(
        [*command(searches(tmp_path)), *words], input=lines, capture_output=True, check=False, timeout=DEADLINE_S
    )
    assert json.loads(done.stdout.splitlines()[-1])["error"]["data"] == {"mcpproxy": "not-passed"}
    assert b"no recorded answer for tools/call other, and the real server gave none: " in done.stderr
    assert done.returncode == 1


def test_stdout_is_never_written_to_by_anything_else(tmp_path: Path) -> None:
    made = Recording()
    made.record("stderr", raw="loud\x1b[31m")
    made.handshake()
    said, stderr, _ = play(
        made.closed().write(tmp_path), INITIALIZE | {"params": HELLO | {"protocolVersion": "2024-11-05"}}
    )
    assert [message["id"] for message in said] == ["i"]
    first, second, *_ = stderr.splitlines()
    assert first == "loud\x1b[31m"
    assert second.startswith("mcpproxy: the client asks for revision 2024-11-05; it gets the recorded answer")


def test_each_recorded_message_is_one_line_for_every_reader(tmp_path: Path) -> None:
    made = Recording().handshake()
    for number, raw in enumerate((b'{"jsonrpc":"2.0","id":%d,\r"result":\n{}}', b'{"id":%d,"result":{}}\r{"x":1}'), 1):
        made.call(number, arguments={"q": number})
        made.raw("s2c", raw % number, unit="http_body", delim=b"")
    calls = [SEARCH | {"id": n, "params": {"name": "search", "arguments": {"q": n}}} for n in (1, 2)]
    done = subprocess.run(
        command(made.write(tmp_path)),
        input=b"".join(json.dumps(each).encode() + b"\n" for each in (INITIALIZE, INITIALIZED, *calls)),
        capture_output=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip
    assert b"\r" not in done.stdout
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["i", 1]
    assert b"1 recorded message not sent: a line break in bytes that are not JSON would end the line" in done.stderr
