"""Sessions of mcpsnoop: its own files, and its exports as JSON and as HAR."""

import json
from typing import Any

import pytest

from mcpproxy.importers.source import InvalidLine
from tests.mcpproxy.importers.logs import imported, recognised

INITIALIZE = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
RESULT = {"jsonrpc": "2.0", "id": 7, "result": {}}


def frame(seq: int, direction: str, ms: int = 0, **more: Any) -> dict[str, Any]:
    made = {"session_id": "s-1", "server_label": "notes", "seq": seq, "ts": f"2026-03-01T10:12:05.{ms:03}Z"}
    return made | {"direction": direction, "transport": "stdio"} | more


def lines(*frames: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in frames)


def test_a_session_is_read_with_its_digits() -> None:
    data = lines(
        frame(1, "meta", raw={"command": ["notes"]}),
        frame(2, "c2s", 250, raw=INITIALIZE),
        frame(3, "s2c", 300, raw={"jsonrpc": "2.0", "raw": {}, "id": 7, "result": {"n": 1}}),
        frame(4, "stderr", 310, text="hello"),
        frame(5, "s2c", 320, text="not JSON"),
        frame(6, "s2c", 330, raw=[1], truncated=True),
        frame(7, "s2c", 340, raw=12),
    ).replace(b'"n":1', b'"n":1.10')
    assert recognised(data) == ["mcpsnoop"]
    (capture,) = imported("mcpsnoop", data).captures
    assert (capture.name, capture.header["observed_start"]) == ("notes", True)
    assert [(frame.dir, frame.raw, frame.whole) for frame in capture.frames] == [
        ("c2s", json.dumps(INITIALIZE, separators=(",", ":")).encode(), True),
        ("s2c", b'{"jsonrpc":"2.0","raw":{},"id":7,"result":{"n":1.10}}', True),
        ("s2c", b"not JSON", True),
        ("s2c", b"[1]", False),
        ("s2c", b"12", True),
    ]
    assert [frame.t_ns // 10**6 for frame in capture.frames] == [250, 300, 320, 330, 340]
    (said,) = [record.members["raw"] for record in capture.records if record.rec == "stderr"]
    assert said == "hello"


def test_each_session_is_a_capture_and_frames_that_were_dropped_are_told() -> None:
    other = frame(1, "c2s", raw=INITIALIZE) | {"session_id": "s-2"}
    result = imported(
        "mcpsnoop", lines(frame(1, "c2s", raw=INITIALIZE), other, frame(4, "s2c", raw=RESULT), frame(6, "s2c", raw=1))
    )
    assert [len(capture.frames) for capture in result.captures] == [3, 1]
    assert result.remarks == ["3 frames missing: mcpsnoop dropped frames that it could not write in time"]


def test_what_cannot_be_read_is_left_out() -> None:
    result = imported("mcpsnoop", lines(frame(1, "c2s", raw=INITIALIZE), frame(2, "up")) + b"x\n[1]\n")
    assert [left_out.place for left_out in result.left_out] == ["line 2", "line 3", "line 4"]


def test_the_export_as_json_is_read() -> None:
    def event(seq: int, direction: str, **more: Any) -> dict[str, Any]:
        return {"seq": seq, "timestamp": f"2026-03-01T10:12:0{seq}.000Z", "direction": direction, "kind": "x"} | more

    export = {
        "generated_at": "2026-03-01T10:13:00Z",
        "session": {"id": "s-1", "label": "notes", "missing_frames": 1},
        "calls": [],
        "events": [event(1, "c2s", raw=INITIALIZE), event(2, "s2c", raw=RESULT), event(3, "stderr", text="x"), 4],
    }
    data = json.dumps(export, indent=2).encode()
    assert recognised(data) == ["mcpsnoop"]
    result = imported("mcpsnoop", data)
    (capture,) = result.captures
    assert [(frame.dir, frame.t_ns // 10**9) for frame in capture.frames] == [("c2s", 0), ("s2c", 1)]
    assert [left_out.place for left_out in result.left_out] == ["event 3"]
    assert result.remarks == ["1 frame missing: mcpsnoop dropped frames that it could not write in time"]
    with pytest.raises(InvalidLine, match="events"):
        imported("mcpsnoop", b'{"generated_at":"","session":{}}')


def call(second: int, path: str, params: Any, answer: Any, status: int, time: Any = 250.5) -> dict[str, Any]:
    return {
        "startedDateTime": f"2026-03-01T10:12:0{second}Z",
        "time": time,
        "request": {"method": "POST", "url": f"mcp://notes/{path}"}
        | ({"postData": {"mimeType": "application/json", "text": json.dumps(params)}} if params is not None else {}),
        "response": {"status": status, "content": {"text": "" if answer is None else json.dumps(answer)}},
    }


def test_the_export_as_har_has_a_message_for_each_half_of_a_call() -> None:
    entries = [
        call(1, "initialize", {}, {"serverInfo": {}}, 200, 2500),
        call(2, "tools/call/read/all", {"name": "read/all"}, {"isError": True, "code": "x"}, 500),
        call(3, "tools/list", None, {"code": -32603, "message": "no"}, 500),
        call(4, "ping", None, None, 0),
        call(5, "sampling/createMessage", {}, {}, 200, None),
        {"request": {"url": "https://x/"}},
        5,
    ]
    log = {"version": "1.2", "creator": {"name": "mcpsnoop", "version": "0.18"}, "entries": entries}
    data = json.dumps({"log": log | {"comment": "mcpsnoop: capture incomplete, 1 frame"}}).encode()
    assert recognised(data) == ["mcpsnoop"]
    result = imported("mcpsnoop", data)
    (capture,) = result.captures
    assert [(side, json.loads(raw)) for side, raw in capture.messages] == [
        ("c2s", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}),
        ("c2s", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read/all"}}),
        ("s2c", {"jsonrpc": "2.0", "id": 2, "result": {"isError": True, "code": "x"}}),
        ("c2s", {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}),
        ("s2c", {"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "no"}}),
        ("s2c", {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {}}}),
        ("c2s", {"jsonrpc": "2.0", "id": 4, "method": "ping"}),
        ("s2c", {"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {}}),
        ("c2s", {"jsonrpc": "2.0", "id": 5, "result": {}}),
    ]
    assert [left_out.place for left_out in result.left_out] == ["entry 5", "entry 6"]
    assert result.remarks == ["the file says that mcpsnoop dropped frames"]
