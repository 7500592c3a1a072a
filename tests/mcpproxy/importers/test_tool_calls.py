"""Calls without ids: each end belongs to the oldest call of its tool, and nothing is answered that was not."""

import json

from mcpproxy.importers.log_items import LeftOut, LoggedFrame
from mcpproxy.importers.tool_calls import MAX_OPEN_CALLS, ToolCalls


def body(item: LoggedFrame | LeftOut | None) -> dict[str, object]:
    assert isinstance(item, LoggedFrame)
    assert not item.is_whole
    value: dict[str, object] = json.loads(item.raw)
    return value


def test_calls_of_the_same_tool_end_in_their_order() -> None:
    calls = ToolCalls()
    assert body(calls.begin("files", "read", 1)) == {
        "jsonrpc": "2.0",
        "id": "call 1",
        "method": "tools/call",
        "params": {"name": "read"},
    }
    calls.begin("files", "write", 2)
    calls.begin("files", "read", 3)
    calls.begin("other", "read", 4)
    ids = [body(calls.succeed("files", tool, 5, "line 5"))["id"] for tool in ("read", "read", "write")]
    assert ids == ["call 1", "call 3", "call 2"]
    left_out = calls.succeed("files", "read", 6, "line 6")
    assert isinstance(left_out, LeftOut)
    assert left_out.place == "line 6"


def test_errors_of_the_server_are_answers_and_those_of_the_client_are_not() -> None:
    for text, is_result, answer in (
        ("MCP error -32602: no such note", False, {"error": {"code": -32602, "message": "no such note"}}),
        ("McpError: MCP error -32602: no such note", True, {"error": {"code": -32602, "message": "no such note"}}),
        ("MCP error -32000: Connection closed", True, None),
        ("MCP error -32001: Request timed out", True, None),
        ("fetch failed", False, None),
        ("no such note", True, {"result": {"content": [{"type": "text", "text": "no such note"}], "isError": True}}),
    ):
        calls = ToolCalls()
        calls.begin("files", "read", 1)
        failed = calls.fail("files", "read", text, 2, "line 2", is_result=is_result)
        if answer is None:
            assert failed is None, text
        else:
            assert body(failed) == {"jsonrpc": "2.0", "id": "call 1"} | answer, text


def test_a_start_of_the_server_ends_its_calls() -> None:
    calls = ToolCalls()
    calls.begin("files", "read", 1, "a")
    calls.begin("files", "read", 1, "b")
    calls.forget_calls("files", "a")
    assert isinstance(calls.succeed("files", "read", 2, "line 2", "a"), LeftOut)
    assert body(calls.succeed("files", "read", 2, "line 2", "b"))["id"] == "call 2"


def test_calls_under_way_are_bounded() -> None:
    calls = ToolCalls()
    for number in range(MAX_OPEN_CALLS + 1):
        calls.begin("files", f"tool {number}", 1)
    assert isinstance(calls.succeed("files", f"tool {MAX_OPEN_CALLS}", 2, "line 2"), LeftOut)
    assert body(calls.succeed("files", "tool 0", 2, "line 2"))["id"] == "call 1"
