"""Debug logs of the Python SDK: messages as Python prints them, each of them once."""

import json

import pytest

from tests.mcpproxy.importers.logs import ImportedCapture, imported
from tests.mcpproxy.importers.test_conversations import rules_in

INITIALIZE = "JSONRPCRequest(method='initialize', params={'protocolVersion': '2025-11-25'}, jsonrpc='2.0', id=0)"
INITIALIZED = "JSONRPCNotification(method='notifications/initialized', params=None, jsonrpc='2.0')"
RESULT = "JSONRPCResponse(jsonrpc='2.0', id=0, result={'serverInfo': {'name': 'notes'}})"
ERROR = "JSONRPCError(jsonrpc='2.0', id=1, error=ErrorData(code=-32601, message='no', data=None))"


def capture_of(*lines: str) -> ImportedCapture:
    (capture,) = imported("python-sdk", "\n".join(lines).encode(), "client.log").captures
    return capture


def chunk(message: dict[str, object]) -> str:
    event = f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n"
    return f"chunk: {event.encode()!r}"


def read(capture: ImportedCapture) -> list[tuple[str, object]]:
    return [(side, json.loads(raw)) for side, raw in capture.messages]


INITIALIZE_JSON = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
RESULT_JSON = {"jsonrpc": "2.0", "id": 0, "result": {"serverInfo": {"name": "notes"}}}
ERROR_JSON = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}


def test_a_client_is_read() -> None:
    capture = capture_of(
        "DEBUG:mcp.client.sse:Connecting to SSE endpoint: http://user:pw@localhost:8000/sse",
        f"DEBUG:mcp.client.sse:Sending client message: SessionMessage(message=JSONRPCMessage(root={INITIALIZE}), "
        "metadata=None)",
        "DEBUG:mcp.client.sse:Client message sent successfully: 202",
        f"DEBUG:mcp.client.sse:Received server message: root={RESULT}",
        f"DEBUG:mcp.client.sse:Sending client message: root={INITIALIZED}",
        f"DEBUG:mcp.client.sse:Received server message: root={ERROR}",
    )
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert read(capture) == [("c2s", INITIALIZE_JSON), ("s2c", RESULT_JSON), ("c2s", initialized), ("s2c", ERROR_JSON)]
    assert capture.name == "localhost:8000"
    assert capture.header["observed_start"] is True


def test_version_2_prints_models_with_spaces() -> None:
    capture = capture_of(
        "DEBUG:mcp.client.streamable_http:Sending client message: jsonrpc='2.0' id=0 method='initialize' "
        "params={'protocolVersion': '2025-11-25'}",
        "DEBUG:mcp.client.streamable_http:SSE message: jsonrpc='2.0' id=0 result={'serverInfo': {'name': 'notes'}}",
        "DEBUG:mcp.client.sse:Sending client message: SessionMessage(message=JSONRPCNotification(jsonrpc='2.0', "
        "method='x', params=None), metadata=ClientMessageMetadata(resumption_token=None, headers={'a': 'b'}))",
    )
    assert read(capture) == [
        ("c2s", INITIALIZE_JSON),
        ("s2c", RESULT_JSON),
        ("c2s", {"jsonrpc": "2.0", "method": "x"}),
    ]


def test_what_a_server_logs_several_times_is_recorded_once() -> None:
    def entries(words: str, text: str) -> list[str]:
        # Two handlers, one of them without a time.
        return [f"2026-03-01 10:12:05,377 - mcp.server.sse - DEBUG - {words}: {text}", f"{words}: {text}"]

    received = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
    again = "JSONRPCNotification(method='notifications/progress', params={'progress': 1}, jsonrpc='2.0')"
    capture = capture_of(
        "Initializing server 'notes'",
        *entries("Received JSON", f"b'{received}'"),
        *entries("Validated client message", f"root={INITIALIZE}"),
        *entries(
            "Sending session message to writer",
            f"SessionMessage(message=JSONRPCMessage(root={INITIALIZE}), metadata=X(y=<z at 0x1>))",
        ),
        *entries("Sending message via SSE", f"SessionMessage(message=JSONRPCMessage(root={RESULT}), metadata=None)"),
        f"2026-03-01 10:12:05,377 - sse_starlette.sse - DEBUG - {chunk(RESULT_JSON)}",
        *entries("Validated client message", f"root={INITIALIZED}"),
        f"2026-03-01 10:12:09,000 - mcp.server.sse - DEBUG - Sending message via SSE: root={again}",
        f"2026-03-01 10:12:09,900 - mcp.server.sse - DEBUG - Sending message via SSE: root={again}",
    )
    assert [side for side, _ in read(capture)] == ["c2s", "s2c", "c2s", "s2c", "s2c"]
    assert capture.messages[0] == ("c2s", received)
    assert capture.name == "notes"


def test_the_next_client_of_a_server_may_send_the_same() -> None:
    log = [
        line
        for _ in range(2)
        for line in (
            f"Received JSON: {INITIALIZE_JSON}",
            f"Validated client message: root={INITIALIZE}",
            f"Sending message via SSE: root={RESULT}",
            chunk(RESULT_JSON),
        )
    ]
    captures = imported("python-sdk", "\n".join(log).encode()).captures
    assert [len(capture.frames) for capture in captures] == [2, 2]


def test_times_are_exact_if_they_have_fractions() -> None:
    capture = capture_of(
        f"2026-03-01 10:12:05.250 | DEBUG | mcp.client.sse:x:9 - Sending client message: root={INITIALIZE}",
        f"2026-03-01 10:12:06 [mcp.client.sse] DEBUG: Received server message: root={RESULT}",
        f"Sending client message: root={INITIALIZED}",
    )
    times = [
        (frame.t_ns, record.members.get("time_is_exact", True))
        for frame, record in zip(capture.frames, capture.records[1:], strict=False)
    ]
    assert times == [(0, True), (750_000_000, False), (750_000_000, False)]


@pytest.mark.parametrize("prefix", ["", "notes-1  | "])
def test_a_message_may_span_lines(prefix: str) -> None:
    capture = capture_of(
        f"{prefix}DEBUG:mcp.client.sse:Sending client message: root=JSONRPCRequest(",
        f"{prefix}    method='initialize',",
        f"{prefix}    params={{'protocolVersion': '2025-11-25'}},  # the newest",
        f"{prefix}    jsonrpc='2.0', id=0",
        f"{prefix})",
        f"{prefix}DEBUG    SSE message: root=JSONRPCResponse(jsonrpc='2.0',        streamable_http.py:165",
        f"{prefix}         id=0, result={{'serverInfo': {{'name': 'notes'}}}})",
    )
    assert read(capture) == [("c2s", INITIALIZE_JSON), ("s2c", RESULT_JSON)]
    assert [frame.whole for frame in capture.frames] == [True, False]


def test_what_cannot_be_read_is_left_out_and_chatter_is_not_told() -> None:
    result = imported(
        "python-sdk",
        b"SSE message: root=JSONRPCResponse({...})\nhello\nSSE message: root=JSONRPCRes\n"
        b'chunk: b\'event: message\\r\\ndata: {"jsonrpc":"2.0",\'\n'
        b"SSE message: jsonrpc='2.0' id=1 result={'a': <object at 0x1>}\n"
        b"SSE message: jsonrpc='2.0' id=2 result={'a': 'bc\n"
        b'chunk: b\'event: message\\r\\ndata: {"method":"notifications/x",...',
    )
    assert [left_out.place for left_out in result.left_out] == ["line 1", "line 3"]
    assert [(frame.raw, frame.whole) for frame in result.captures[0].frames] == [
        (b'{"jsonrpc":"2.0",', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', False),
        (b'{"jsonrpc":"2.0","id":2,"result":{}}', False),
        (b'{"method":"notifications/x"}', False),
    ]


def test_blanks_in_a_line_cost_nothing() -> None:
    blanks = " " * 300_000
    capture = capture_of(
        f"SSE message: root=JSONRPCResponse(jsonrpc='2.0',{blanks}#",
        f"{blanks}id=1, result={{}})",
    )
    assert len(capture.frames) == 1


def test_a_chunk_that_was_edited_by_hand_blames_nobody() -> None:
    edited = 'data: {"method":"notifications/message","params":{"data":"1\\n\\n2"},"jsonrpc":"2.0"}'
    capture = capture_of(
        f"chunk: b'event: message\\r\\n{edited}\\r\\n\\r\\n'",
        f"chunk: b'event: message\\r\\ndata: {json.dumps(RESULT_JSON)}\\r\\n\\r\\n'",
    )
    assert [(frame.whole, frame.is_partial) for frame in capture.frames] == [(False, True), (True, False)]
    assert "framing/stdout-not-json" not in rules_in(capture)
