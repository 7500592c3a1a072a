"""Exports of MCP Inspector: one file for each tab."""

import json
from typing import Any

import pytest

from mcpproxy.importers.source import InvalidLine
from tests.mcpproxy.importers.logs import imported, recognised

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
ROOTS = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}


def entry(ms: int, direction: str, message: Any, **more: Any) -> dict[str, Any]:
    return {"id": "x", "timestamp": f"2026-03-01T10:12:05.{ms:03}Z", "direction": direction, "message": message} | more


def export(*entries: Any) -> bytes:
    return json.dumps(entries, indent=2).encode()


def test_messages_are_in_the_order_in_which_they_crossed() -> None:
    data = export(
        entry(100, "request", CALL, origin="client", response=RESULT, duration=50),
        entry(120, "notification", PROGRESS, origin="server"),
        entry(130, "request", ROOTS, origin="server", response=RESULT, duration=None),
        entry(140, "request", CALL | {"id": 2}),
        entry(150, "response", RESULT | {"id": 2}),
    )
    assert recognised(data) == ["inspector"]
    name = "inspector-protocol-my%20notes-2026-03-01T10-12-05.377Z.json"
    (capture,) = imported("inspector", data, name).captures
    assert capture.name == "my notes"
    assert [(side, json.loads(raw)) for side, raw in capture.messages] == [
        ("c2s", CALL),
        ("s2c", PROGRESS),
        ("s2c", ROOTS),
        ("c2s", RESULT),
        ("c2s", CALL | {"id": 2}),
        ("s2c", RESULT),
        ("s2c", RESULT | {"id": 2}),
    ]
    assert [frame.t_ns // 10**6 for frame in capture.frames] == [0, 20, 30, 30, 40, 50, 50]


def test_what_cannot_be_read_is_left_out() -> None:
    result = imported(
        "inspector",
        export(entry(1, "request", CALL), 5, entry(2, "request", None), entry(3, "request", CALL, response=1)),
    )
    assert [left_out.place for left_out in result.left_out] == ["entry 1", "entry 2", "entry 3"]
    for data in (b"{}", b"[]", b"[1]", b"[", export(entry(1, "x", CALL))):
        with pytest.raises(InvalidLine):
            imported("inspector", data)


def test_the_network_tab_has_exchanges() -> None:
    def fetched(url: str, **more: Any) -> dict[str, Any]:
        made = {
            "id": "1-a",
            "timestamp": "2026-03-01T10:12:05.377Z",
            "method": "POST",
            "url": url,
            "requestHeaders": {},
        }
        return made | {"category": "transport", "duration": 12} | more

    headers = {"content-type": "application/json"}
    data = export(
        fetched("https://login.example/token", category="auth", requestBody="code=%5BREDACTED%5D", responseStatus=200),
        fetched(
            "https://notes.example/mcp",
            requestHeaders=headers | {"authorization": "[REDACTED]"},
            requestBody=json.dumps(CALL),
            responseStatus=200,
            responseStatusText="OK",
            responseHeaders=headers,
            responseBody=json.dumps(RESULT),
        ),
        fetched("https://notes.example/mcp", requestBody=json.dumps(CALL), error="fetch failed"),
        fetched("nowhere"),
    )
    assert recognised(data) == ["inspector"]
    result = imported("inspector", data)
    (capture,) = result.captures
    assert (capture.name, capture.header["transport"]) == ("notes.example", "http")
    assert [(side, json.loads(raw)) for side, raw in capture.messages] == [
        ("c2s", CALL),
        ("c2s", CALL),
        ("s2c", RESULT),
    ]
    assert [left_out.place for left_out in result.left_out] == ["entry 3"]
    assert result.remarks == ["skipped 1 exchange that is not with an MCP server"]


def test_the_other_tabs_have_log_messages_and_stderr() -> None:
    params = {"level": "info", "data": "hello"}
    logs = export({"receivedAt": "2026-03-01T10:12:05.377Z", "params": params}, {"receivedAt": None, "params": None})
    assert recognised(logs) == ["inspector"]
    result = imported("inspector", logs)
    assert [(side, json.loads(raw)["params"]) for side, raw in result.captures[0].messages] == [("s2c", params)]
    assert len(result.left_out) == 1
    console = export(
        {"timestamp": "2026-03-01T10:12:05.377Z", "message": "one\ntwo\n"}, {"timestamp": "x", "message": 1}
    )
    name = "inspector-console-notes-2026-03-01T10-12-05.377Z.json"
    assert (recognised(console, name), recognised(console)) == (["inspector"], [])
    result = imported("inspector", console, name)
    assert [record.members["raw"] for record in result.captures[0].records if record.rec == "stderr"] == ["one", "two"]
    assert len(result.left_out) == 1
