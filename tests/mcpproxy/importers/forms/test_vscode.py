"""Logs of VS Code: messages at any level, stderr, lines that are not JSON, starts and exits."""

import time

import pytest

from tests.mcpproxy.importers.logs import imported, recognised

INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
INITIALIZED = '{"result":{},"jsonrpc":"2.0","id":1}'


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> object:
    """The zone of the machine."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def entry(second: int, text: str, level: str = "info") -> str:
    """An entry."""
    return f"2026-03-01 18:12:{second:02}.377 [{level}] {text}\n"


def test_messages_stderr_and_the_exit_of_a_server() -> None:
    log = (
        entry(1, "Starting server files")
        + entry(1, "Connection state: Starting")
        + entry(1, "Starting server from LocalProcess extension host")
        + entry(2, "Connection state: Running")
        + entry(2, f"[editor -> server] {INITIALIZE}", "debug")
        + entry(3, "[server stderr] reading notes", "warning")
        + entry(3, "[server stderr] ", "warning")
        + entry(4, r'Failed to parse message: "hello \"you\"\n"', "warning")
        + entry(5, f"[server -> editor] {INITIALIZED}", "trace")
        + entry(6, "Error: MPC -32601: Method not found", "error")
        + "    at x (file:1:2)\n"
        + entry(7, "Connection state: Error Process exited with code 3")
    )
    result = imported("vscode", log.encode(), "copied.txt")
    (capture,) = result.captures
    assert capture.messages == [("c2s", INITIALIZE), ("s2c", 'hello "you"'), ("s2c", INITIALIZED)]
    assert [record.members["raw"] for record in capture.records if record.rec == "stderr"] == ["reading notes", ""]
    (process,) = (record.members for record in capture.records if record.rec == "process")
    assert (process["event"], process["status"]) == ("ended", 3)
    assert (capture.name, capture.header["observed_start"]) == ("files", True)
    assert capture.wall_ns == 1_772_356_321_377_000_000, "09:12:01 UTC"
    assert [frame.t_ns // 10**9 for frame in capture.frames] == [1, 3, 4]
    assert (result.left_out, result.remarks) == ([], [])


def test_the_words_of_early_versions() -> None:
    log = entry(1, f"[Client Says] {INITIALIZE}") + entry(2, f"[Server Says] {INITIALIZED}")
    assert recognised(log.encode()) == ["vscode"]
    (capture,) = imported("vscode", log.encode(), "mcpServer.mcp.config.usrlocal.my.notes.log").captures
    assert capture.messages == [("c2s", INITIALIZE), ("s2c", INITIALIZED)]
    assert capture.name == "my.notes"


def test_each_run_has_its_own_capture() -> None:
    run = (
        entry(1, "Starting server files")
        + entry(2, f"[editor -> server] {INITIALIZE}", "debug")
        + entry(3, "Stopping server files")
        + entry(3, "Connection state: Stopped")
    )
    captures = imported("vscode", (entry(0, "Connection state: Stopped") + run + run).encode()).captures
    assert [capture.messages for capture in captures] == [[("c2s", INITIALIZE)]] * 2


def test_what_is_not_json_is_left_out_and_a_cut_last_line_is_recorded() -> None:
    log = "x\n" + entry(1, "[editor -> server] {1}", "debug") + entry(2, "Failed to parse message: hello", "warning")
    result = imported("vscode", (log + entry(3, f"[editor -> server] {INITIALIZE}", "debug")[:-9]).encode())
    assert [left_out.place for left_out in result.left_out] == ["line 1", "line 2", "line 3"]
    (capture,) = result.captures
    assert [(frame.raw.decode(), frame.whole) for frame in capture.frames] == [(INITIALIZE[:-8], False)]


def test_it_is_recognised_by_its_first_words() -> None:
    start = entry(1, "Starting server files") + entry(1, "Connection state: Starting")
    calls = entry(2, "Calling tool 'read_note'") + entry(2, "Handling ListOfferings action")
    assert recognised(start.encode()) == recognised((start + calls).encode()) == ["vscode"]
    assert recognised(f"Connection state: Starting\n{start}".encode()) == ["vscode"]
    assert recognised(f"2026-03-01 10:12:01 x\n{start}".encode()) == []
    assert recognised(f"    at x\n{start}".encode(), "mcpServer.mcp.config.usrlocal.files.log") == ["vscode"]
    assert recognised((calls + start).encode()) == ["cursor"]
    assert recognised(entry(1, "Activating extension").encode()) == []
