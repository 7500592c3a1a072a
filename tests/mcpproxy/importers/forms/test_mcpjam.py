"""Logs of MCPJam Inspector: the newest entry first, several servers, entries that are not messages."""

import json
from typing import Any

import pytest

from mcpproxy.importers.source import InvalidLine
from tests.mcpproxy.importers.logs import ImportedLog, imported, recognised

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}


def entry(ms: int, direction: str, payload: Any, server: str = "notes", **more: Any) -> dict[str, Any]:
    made = {"timestamp": f"2026-03-01T10:12:05.{ms:03}Z", "source": "mcp-server", "serverId": server}
    return made | {"serverName": server, "direction": direction, "method": "x", "payload": payload} | more


def named(result: ImportedLog) -> dict[str, list[tuple[str, str]]]:
    return {capture.name: capture.messages for capture in result.captures}


def test_the_newest_entry_comes_first_and_each_server_is_a_capture() -> None:
    data = json.dumps(
        [
            entry(3, "RECEIVE", RESULT),
            entry(3, "SEND", CALL),
            entry(2, "OAUTH", {"step": "x"}),
            entry(2, "HOST→UI", {"jsonrpc": "2.0"}, source="mcp-apps"),
            entry(1, "SEND", CALL, "files"),
            entry(1, "SEND", "x"),
            7,
        ]
    ).encode()
    assert recognised(data) == ["mcpjam"]
    result = imported("mcpjam", data)
    assert {
        capture.name: [(side, json.loads(raw)) for side, raw in capture.messages] for capture in result.captures
    } == {
        "files": [("c2s", CALL)],
        "notes": [("c2s", CALL), ("s2c", RESULT)],
    }
    assert [left_out.place for left_out in result.left_out] == ["entry 5", "entry 6"]


def test_the_cli_adds_the_messages_to_its_output() -> None:
    logs = [
        {
            "serverId": "1",
            "serverName": "notes",
            "direction": "send",
            "timestamp": "2026-03-01T10:12:05Z",
            "message": CALL,
        },
        {"serverId": "1", "serverName": "notes", "direction": "receive", "timestamp": None, "message": RESULT},
    ]
    data = json.dumps({"tools": [], "_rpcLogs": logs}).encode()
    assert recognised(data) == ["mcpjam"]
    (capture,) = imported("mcpjam", data).captures
    assert [(side, json.loads(raw)) for side, raw in capture.messages] == [("c2s", CALL), ("s2c", RESULT)]


def test_other_json_is_refused() -> None:
    for data in (b"{}", b'{"_rpcLogs":1}', b"7", b"["):
        with pytest.raises(InvalidLine):
            imported("mcpjam", data)
