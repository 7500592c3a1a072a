"""Logs of Cursor: calls with their times, stderr, and servers that share a log."""

import json

from tests.mcpproxy.importers.logs import ImportedLog, imported, recognised


def entry(second: int, text: str, level: str = "info") -> str:
    """An entry."""
    return f"2026-03-01 10:12:{second:02}.377 [{level}] {text}\n"


def log(*entries: str, file_name: str = "mcp-server-user-files.log") -> ImportedLog:
    """What becomes of a log."""
    return imported("cursor", "".join(entries).encode(), file_name)


def test_calls_and_how_they_ended() -> None:
    result = log(
        entry(1, "Starting new stdio process with command: notes-server"),
        entry(2, "Handling CallTool action for tool 'read' with toolCallId: call_1\nfc_2"),
        entry(2, "Calling tool 'read' with toolCallId: call_1\nfc_2"),
        entry(3, "Calling tool 'read'"),
        entry(4, "Successfully called tool 'read'"),
        entry(6, "Error calling tool 'read': MCP error -32602: no such note", "error"),
        entry(7, "Calling tool 'write'"),
        entry(8, "Error calling tool 'write': MCP error -32000: Connection closed", "error"),
        entry(8, "Client closed for command"),
    )
    (capture,) = result.captures
    assert [(side, json.loads(raw)) for side, raw in capture.messages] == [
        ("c2s", {"jsonrpc": "2.0", "id": "call 1", "method": "tools/call", "params": {"name": "read"}}),
        ("c2s", {"jsonrpc": "2.0", "id": "call 2", "method": "tools/call", "params": {"name": "read"}}),
        ("s2c", {"jsonrpc": "2.0", "id": "call 1", "result": {}}),
        ("s2c", {"jsonrpc": "2.0", "id": "call 2", "error": {"code": -32602, "message": "no such note"}}),
        ("c2s", {"jsonrpc": "2.0", "id": "call 3", "method": "tools/call", "params": {"name": "write"}}),
    ]
    assert [frame.t_ns // 10**9 for frame in capture.frames] == [1, 2, 3, 5, 6]
    assert not any(frame.whole for frame in capture.frames)
    assert (capture.name, capture.header["observed_start"]) == ("files", True)
    assert result.left_out == []


def test_errors_in_other_words_are_stderr() -> None:
    result = log(
        entry(1, "reading notes\nsecond line\n\nthird line", "error"),
        entry(2, "No server info found", "error"),
        "    at x\n",
        entry(3, """Client error for command Unexpected token 'L', "Loading no"... is not valid JSON""", "error"),
        entry(4, "Client error for command Unexpected end of JSON input", "error"),
    )
    (capture,) = result.captures
    lines = [record.members["raw"] for record in capture.records if record.rec == "stderr"]
    assert lines == ["reading notes", "second line", "third line"]
    assert capture.messages == [("s2c", "Loading no...")]
    assert [left_out.place for left_out in result.left_out] == ["line 8"]


def test_servers_that_share_a_log_have_their_own_captures() -> None:
    result = log(
        entry(1, "iles: Calling tool 'read'"),
        entry(1, " db1: Calling tool 'read'"),
        entry(2, "iles: Reusing existing stdio client"),
        entry(3, "iles: Successfully called tool 'read'"),
        file_name="Cursor MCP.log",
    )
    assert [(capture.name, len(capture.frames)) for capture in result.captures] == [("iles", 2), (" db1", 1)]


def test_an_end_without_a_beginning_is_left_out() -> None:
    result = log(entry(1, "Successfully called tool 'read'"), entry(2, "Calling tool 'read'"))
    assert [left_out.reason for left_out in result.left_out] == ["the end of a call whose start is not in this log"]
    (capture,) = result.captures
    assert len(capture.frames) == 1


def test_the_name_of_a_server_is_that_of_the_file() -> None:
    for file_name, name in (
        ("MCP user-my notes.log", "my notes"),
        ("MCP user-notes.2.log", "notes"),
        ("MCP project-0-shop-notes.log", "shop-notes"),
        ("mcp-server-user-notes.log", "notes"),
        ("log.txt", "log"),
    ):
        (capture,) = log(entry(1, "Calling tool 'read'"), file_name=file_name).captures
        assert capture.name == name


def test_it_is_recognised_by_its_first_words() -> None:
    assert recognised(entry(1, "Handling CreateClient action").encode()) == ["cursor"]
    assert recognised(("\n" + entry(1, "r-ai: Handling ListOfferings action")).encode()) == ["cursor"]
    assert recognised(("2026-03-01 10:12:01 x\n" + entry(1, "Calling tool 'read'")).encode()) == []
    assert recognised(("x\n" + entry(1, "Calling tool 'read'")).encode(), "MCP user-notes.log") == ["cursor"]
