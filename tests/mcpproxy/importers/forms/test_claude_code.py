"""Logs of Claude Code: the debug log, and the files of a server, as lines and as an array."""

import json

from tests.mcpproxy.importers.logs import ImportedLog, imported, recognised

STAMPS = [f"2026-03-01T09:12:{second:02}.377Z" for second in range(60)]


def entries(*texts: str) -> list[dict[str, str]]:
    """Entries of a server's file; a text that begins with `!` is an error."""
    return [
        {
            ("error" if text[0] == "!" else "debug"): text.removeprefix("!"),
            "timestamp": stamp,
            "sessionId": "s1",
            "cwd": "/x",
        }
        for text, stamp in zip(texts, STAMPS, strict=False)
    ]


def lines(values: list[dict[str, str]]) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for value in values).encode()


def debug_log(*texts: str, name: str = "files") -> bytes:
    """A debug log; a text that begins with `!` is an error."""
    return "".join(
        f'{stamp} [ERROR] MCP server "{name}" {text[1:]}\n'
        if text[0] == "!"
        else f'{stamp} [DEBUG] MCP server "{name}": {text}\n'
        for text, stamp in zip(texts, STAMPS, strict=False)
    ).encode()


SESSION = (
    "Starting connection with timeout of 30000ms",
    "!Server stderr: reading notes",
    "Successfully connected (transport: stdio) in 164ms",
    "Calling MCP tool: read",
    "Tool 'read' still running (30s elapsed)",
    "Calling MCP tool: write",
    "Tool 'write' failed after 1s: MCP error -32602: no such note",
    "Tool 'read' completed successfully in 3s",
    "STDIO connection closed after 9s (cleanly)",
    "MCP server process exited cleanly",
)


def check_session(result: ImportedLog) -> None:
    """The capture of `SESSION`."""
    (capture,) = result.captures
    assert [(side, json.loads(raw)) for side, raw in capture.messages] == [
        ("c2s", {"jsonrpc": "2.0", "id": "call 1", "method": "tools/call", "params": {"name": "read"}}),
        ("c2s", {"jsonrpc": "2.0", "id": "call 2", "method": "tools/call", "params": {"name": "write"}}),
        ("s2c", {"jsonrpc": "2.0", "id": "call 2", "error": {"code": -32602, "message": "no such note"}}),
        ("s2c", {"jsonrpc": "2.0", "id": "call 1", "result": {}}),
    ]
    assert [record.members["raw"] for record in capture.records if record.rec == "stderr"] == ["reading notes"]
    assert [frame.t_ns // 10**9 for frame in capture.frames] == [3, 5, 6, 7]
    assert not any(frame.whole for frame in capture.frames)
    assert (capture.name, capture.header["observed_start"]) == ("files", True)
    assert result.left_out == []


def test_the_files_of_a_server_and_the_debug_log_say_the_same() -> None:
    values = entries(*SESSION)
    for data in (
        lines(values),
        json.dumps(values, indent=2).encode(),
        json.dumps(values).encode(),
        json.dumps(values, indent=2).replace("[\n  {", "[{").encode(),
    ):
        assert recognised(data) == ["claude-code"], data[:20]
        check_session(imported("claude-code", data, "2026-03-01T09-12-00-000Z.jsonl", "mcp-logs-files"))
    data = debug_log(*SESSION)
    assert recognised(data) == ["claude-code"]
    check_session(imported("claude-code", data, "debug.txt"))


def test_other_entries_and_lines_of_a_debug_log_are_skipped() -> None:
    other = f"{STAMPS[0]} [DEBUG] Stream started\n    second line\n"
    log = other.encode() + debug_log("Calling MCP tool: read", name="a") + other.encode()
    log += debug_log('!Server stderr: one\ntwo\n  "three"', name="b") + other.encode()
    assert recognised(log) == ["claude-code"]
    result = imported("claude-code", log)
    assert [(capture.name, len(capture.frames)) for capture in result.captures] == [("a", 1), ("b", 0)]
    stderr = [record.members["raw"] for record in result.captures[1].records if record.rec == "stderr"]
    assert stderr == ["one", "two", '  "three"']
    assert result.left_out == []


def test_output_of_a_terminal_has_no_times() -> None:
    log = b'[DEBUG] MCP server "files": Calling MCP tool: read\n[DEBUG] Config parsed\n'
    assert recognised(log) == ["claude-code"]
    (capture,) = imported("claude-code", log).captures
    assert (capture.name, capture.wall_ns, len(capture.frames)) == ("files", None, 1)


def test_sessions_in_one_file_have_their_own_captures() -> None:
    values = entries("Calling MCP tool: read", "Calling MCP tool: read", "Tool 'read' completed successfully in 1s")
    values[1]["sessionId"] = values[2]["sessionId"] = "s2"
    result = imported("claude-code", lines(values), "x.jsonl", "mcp-logs-files")
    assert sorted(len(capture.frames) for capture in result.captures) == [1, 2]


def test_errors_of_results_and_of_the_protocol() -> None:
    progress = '{"method":"notifications/progress","params":{"progress":1}}'
    result = imported(
        "claude-code",
        lines(
            entries(
                "Calling MCP tool: read",
                "!no such note",
                "Tool 'read' failed after 0s: no such note",
                f"Connection error: Received a progress notification for an unknown token: {progress}",
                """!Unexpected token 'L', "Loading no"... is not valid JSON""",
            )
        ),
    )
    (capture,) = result.captures
    failed = '{"content":[{"type":"text","text":"no such note"}],"isError":true}'
    assert capture.messages[1:] == [
        ("s2c", '{"jsonrpc":"2.0","id":"call 1","result":' + failed + "}"),
        ("s2c", '{"jsonrpc":"2.0",' + progress[1:]),
        ("s2c", "Loading no..."),
    ]


def test_what_is_no_entry_is_left_out() -> None:
    log = lines(entries("Calling MCP tool: read")) + b'hello\n{"debug":1}\n{"debug":"x"'
    result = imported("claude-code", log, "x.jsonl")
    assert [left_out.place for left_out in result.left_out] == ["line 2", "line 3", "line 4"]
    cut = imported("claude-code", debug_log("Calling MCP tool: read")[:-2])
    assert [left_out.reason for left_out in cut.left_out] == ["the last line may be truncated"]


def test_other_objects_are_not_recognised() -> None:
    assert recognised(b'{"error":"x","timestamp":"2026-03-01T09:12:00.377Z","level":3}\n') == []
    assert recognised(b'{"level":"info"}\n') == recognised(b"[DEBUG] x\n") == recognised(b"[\n]\n") == []
