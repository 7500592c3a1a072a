"""mcp_record and mcp_mock as context managers, in front of real servers and clients."""

import json
import shlex
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client as SdkClient
from mcp import StdioServerParameters

from captures.errors import CannotCreate, NotACapture
from captures.reader import Capture as CaptureFile
from mcpproxy.testing import Capture, RecordedServer, RequestsMissed, mcp_mock, mcp_record
from tests.harness import DEADLINE_S
from tests.mcpproxy.testing.notes_client import Client

NOTES = str(Path(__file__).with_name("notes_server.py"))


def server_of(folder: Path) -> list[str]:
    return [sys.executable, "-I", "-S", NOTES, str(folder / "starts")]


def starts(folder: Path) -> int:
    file = folder / "starts"
    return file.read_text().count("started") if file.exists() else 0


@pytest.fixture(autouse=True)
def _secret_rules(secret_rules: None) -> None:
    """Cassettes are written in this process."""


def record(folder: Path, *texts: str, cassette: Path | None = None) -> RecordedServer:
    with mcp_record(server_of(folder), cassette=cassette) as server, Client(server.command) as client:
        for text in texts:
            client.find(text)
    return server


def test_recorded_conversation_can_be_asserted_and_goes_with_its_object(tmp_path: Path) -> None:
    with mcp_record(shlex.join(server_of(tmp_path))) as server:
        with pytest.raises(NotACapture, match="no client has started the server"):
            _ = server.capture
        with pytest.raises(TypeError, match="is started by a command"):
            _ = server.url
        with Client(server.command) as client:
            assert client.find("milk") == ["groceries"]
            assert server.capture.calls("search")[0].arguments == {"text": "milk"}, "while the client is connected"
    (capture,) = server.captures
    path = capture.path
    del server
    assert capture.calls("search").outcomes == {"result": 1}
    assert capture.findings("error") == []
    assert path.exists()
    del capture
    assert not path.exists()


def test_block_that_fails_keeps_the_capture_and_says_where(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError) as raised,
        mcp_record(server_of(tmp_path)) as server,
        Client(server.command),
    ):
        _ = 1 / 0
    path = server.capture.path
    assert raised.value.__notes__ == [f"the capture is kept: {path}"]
    del server
    assert CaptureFile(path).header
    path.unlink()
    path.parent.rmdir()


@pytest.mark.costly("the official SDK, over HTTP")
def test_official_sdk_takes_parameters_and_url(tmp_path: Path) -> None:
    given = StdioServerParameters(command=sys.executable, args=["server.py"], env={"COLOUR": "blue"}, cwd=tmp_path)
    with mcp_record(given) as server:
        assert type(server.parameters) is StdioServerParameters
        assert server.parameters.args[-3:] == ["--", given.command, *given.args]
        assert (server.parameters.env, server.parameters.cwd) == (given.env, given.cwd)
        with pytest.raises(NotACapture):
            _ = server.capture

    async def search(url: str) -> None:
        with anyio.fail_after(DEADLINE_S):
            async with SdkClient(url, mode="legacy") as client:
                await client.call_tool("search", {"text": "milk"})

    with mcp_record(server_of(tmp_path)) as recorded, Client(recorded.command) as client:
        client.find("milk")
        client.ask("tools/list")  # as this client does after the call
    with mcp_mock(recorded.capture.path) as played, mcp_record(played.url) as server:
        with pytest.raises(TypeError, match="is reached over HTTP"):
            _ = server.command
        anyio.run(search, server.url)
    assert server.capture.calls("search").outcomes == played.capture.calls("search").outcomes == {"result": 1}


def test_what_is_no_server_is_refused() -> None:
    for wrong, message in ((3, "int is not a server"), ([], "is empty"), ("", "is empty")):
        with pytest.raises((TypeError, ValueError), match=message):
            mcp_record(wrong)  # type: ignore[arg-type]


def test_url_that_nothing_can_record_is_an_error_with_its_reason() -> None:
    with mcp_record("http://[") as server, pytest.raises(RuntimeError, match="mcpproxy did not start: mcpproxy: "):
        _ = server.url


@pytest.mark.costly("six servers and mocks")
def test_cassette_is_recorded_once_and_then_played(tmp_path: Path) -> None:
    cassette = tmp_path / "cassettes/notes.mcpcap"
    record(tmp_path, "milk", cassette=cassette)
    assert starts(tmp_path) == 1
    written = cassette.read_bytes()
    assert CaptureFile(cassette).header.members["redacted_by"]
    assert Capture(cassette).calls("search")[0].latency_ms is None, "a cassette has no times"
    assert [path.name for path in cassette.parent.iterdir()] == ["notes.mcpcap"]
    with mcp_record(server_of(tmp_path), cassette=cassette) as server, Client(server.command) as client:
        assert client.find("milk") == ["groceries"]
    assert (starts(tmp_path), cassette.read_bytes()) == (1, written)
    with mcp_mock(cassette, strict=True) as server, Client(server.command) as client:
        assert client.find("milk") == ["groceries"]
    with (
        pytest.raises(RequestsMissed, match=r"1 request is not in notes\.mcpcap\n  tools/call search differs from "),
        mcp_record(server_of(tmp_path), cassette=cassette, mode="none") as server,
        Client(server.command) as client,
    ):
        assert client.find("train") == []
    with (
        pytest.raises(RequestsMissed, match="never"),
        mcp_mock(cassette, strict=True) as server,
        Client(server.command),
    ):
        pass
    assert starts(tmp_path) == 1
    with pytest.raises(FileNotFoundError, match="mode none does not use the server"):
        mcp_record(server_of(tmp_path), cassette=tmp_path / "none.mcpcap", mode="none")
    with pytest.raises(ValueError, match="'often' is not a mode"):
        mcp_record(server_of(tmp_path), cassette=cassette, mode="often")  # type: ignore[arg-type]


def test_secret_in_a_request_is_a_warning_with_the_places_to_ignore(tmp_path: Path) -> None:
    cassette = tmp_path / "notes.mcpcap"

    def find_as_user(*ignore: str) -> RecordedServer:
        user = {"text": "milk", "login": {"password": "correct-horse-7", "token": "ghp_" + "x7Kq" * 9}}
        with (
            mcp_record(server_of(tmp_path), cassette=cassette, ignore=ignore) as server,
            Client(server.command) as client,
        ):
            client.ask("tools/call", name="search", arguments=user)
        return server

    places = ["/arguments/login/password", "/arguments/login/token"]
    with pytest.warns(UserWarning, match="pseudonyms for secrets at") as warned:
        find_as_user("/arguments/now")
    assert str(warned[0].message).endswith(
        'mcp_record(…, ignore=["/arguments/now", "/arguments/login/password", "/arguments/login/token"])'
    )
    with pytest.raises(RequestsMissed) as raised:
        find_as_user()
    assert str(raised.value).count("the recorded value is a pseudonym") == 2
    assert f"mcp_record(…, ignore={json.dumps(places)})" in str(raised.value)
    assert find_as_user(*places).capture.calls("search")[0].text == "groceries"
    cassette.unlink()
    find_as_user(*places)  # without a warning


def test_secret_that_the_server_gave_matches_when_it_is_sent_back(tmp_path: Path) -> None:
    cassette = tmp_path / "notes.mcpcap"
    result = json.dumps({"structuredContent": {"token": "ghp_" + "x7Kq" * 9}})
    answers = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        f"    print(json.dumps({{'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': {result}}}), flush=True)"
    )
    for _ in ("recorded, without a warning", "played"):
        with mcp_record([sys.executable, "-c", answers], cassette=cassette) as server:
            client = Client(server.command)
            token = client.ask("tools/call", name="log_in", arguments={})["result"]["structuredContent"]["token"]
            answer = client.ask("tools/call", name="search", arguments={"token": token})
            client.__exit__()
        assert "result" in answer
    assert token == "secret-1"


def test_client_that_can_open_no_session_fails_the_block_and_one_that_falls_back_does_not(tmp_path: Path) -> None:
    answers = 'import sys\nfor _ in sys.stdin: print(\'{"jsonrpc":"2.0","id":1,"result":{}}\', flush=True)'
    with mcp_record([sys.executable, "-c", answers]) as modern:
        client = Client(modern.command)
        client.ask("server/discover", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})
        client.__exit__()
    with (
        pytest.raises(
            RequestsMissed, match="initialize: the capture is of revision 2026-07-28, not 2025-11-25"
        ) as raised,
        mcp_mock(modern.capture.path) as server,
        Client(server.command),
    ):
        pass
    assert "Record the capture again." in str(raised.value)
    recorded = record(tmp_path, "milk")
    with mcp_mock(recorded.capture.path) as server:
        client = Client(server.command)
        assert "error" in client.ask("server/discover")
        with client:
            assert client.find("milk") == ["groceries"]


def test_what_is_new_is_asked_and_added(tmp_path: Path) -> None:
    cassette = tmp_path / "notes.mcpcap"
    record(tmp_path, "milk", cassette=cassette)
    with mcp_record(server_of(tmp_path), cassette=cassette, mode="new") as server, Client(server.command) as client:
        assert client.find("milk") == ["groceries"]
        assert starts(tmp_path) == 1
        assert client.find("train") == ["travel"]
    assert starts(tmp_path) == 2
    assert [call.text for call in Capture(cassette).calls("search")] == ["groceries", "travel"]


def test_recording_in_the_place_of_a_cassette_is_played_and_never_replaced(tmp_path: Path) -> None:
    recording = tmp_path / "notes.mcpcap"
    recorded = record(tmp_path, "milk")
    recording.write_bytes(recorded.capture.path.read_bytes())
    written = recording.read_bytes()
    with (
        pytest.raises(CannotCreate, match="it is a recording"),
        mcp_record(server_of(tmp_path), cassette=recording, mode="all") as server,
        Client(server.command) as client,
    ):
        client.find("milk")
    assert recording.read_bytes() == written


def test_server_started_twice_is_no_cassette(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="started the server 2 times"),
        mcp_record(server_of(tmp_path), cassette=tmp_path / "notes.mcpcap") as server,
        Client(server.command),
        Client(server.command),
    ):
        pass
    assert [len(capture.calls()) for capture in server.captures] == [1, 1]


def test_mock_needs_a_server_to_pass_on_and_a_capture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='on_miss="pass" needs a `server`'):
        mcp_mock(tmp_path, on_miss="pass")
    with pytest.raises(NotACapture):
        mcp_mock(tmp_path / "missing.mcpcap")
