"""Logs of Claude Desktop: every version of them, servers that take turns, and what they do not hold."""

import json

from tests.mcpproxy.importers.logs import ImportedCapture, ImportedLog, imported, recognised

INITIALIZE = '{"method":"initialize","params":{"protocolVersion":"2025-11-25"},"jsonrpc":"2.0","id":0}'
INITIALIZED = '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}'
PING = '{"method":"ping","jsonrpc":"2.0","id":1}'
NONE = " { metadata: undefined }"


def entry(second: int, text: str, *, name: str = "files", level: str = "info", suffix: str = NONE) -> str:
    """An entry of `mcp-server-NAME.log`."""
    return f"2026-03-01T09:40:{second:02}.125Z [{name}] [{level}] {text}{suffix}"


def common(second: int, text: str, *, name: str = "files", level: str = "info") -> str:
    """An entry of `mcp.log`."""
    return f"2026-03-01T09:40:{second:02}.125Z [{level}] [{name}] {text}"


def log(*lines: str, file_name: str = "mcp-server-files.log") -> ImportedLog:
    """What becomes of a log."""
    return imported("claude-desktop", "".join(f"{line}\n" for line in lines).encode(), file_name)


def stderr(capture: ImportedCapture) -> list[str]:
    return [str(record.members["raw"]) for record in capture.records if record.rec == "stderr"]


def test_messages_with_their_times_in_each_version() -> None:
    for suffix in (NONE, "", ' {"context":"connection"}', " { metadata: { context: 'connection', stack: undefined } }"):
        result = log(
            entry(1, "Initializing server...", suffix=suffix),
            entry(2, f"Message from client: {INITIALIZE}", suffix=suffix),
            entry(3, f"Message from server: {INITIALIZED}", suffix=suffix),
        )
        (capture,) = result.captures
        assert capture.messages == [("c2s", INITIALIZE), ("s2c", INITIALIZED)], suffix
        assert [frame.t_ns for frame in capture.frames] == [10**9, 2 * 10**9]
        assert all(frame.whole for frame in capture.frames)
        assert (capture.name, capture.wall_ns) == ("files", 1_772_358_001_125_000_000)
        assert (result.left_out, result.remarks) == ([], [])


def test_a_message_whose_middle_is_missing_keeps_its_beginning_and_its_id() -> None:
    text = json.dumps({"method": "tools/call", "params": {"name": "write", "arguments": {"text": "\u00e9" * 900}}})
    whole = text.replace("\\u00e9", "\u00e9").removesuffix("}") + ', "jsonrpc": "2.0", "id": 5}'
    cut = f"{whole[:256]}...[{len(whole) - 512} chars truncated]...{whole[-256:]}"
    result = log(entry(2, f"Message from client: {cut}"))
    (capture,) = result.captures
    (frame,) = capture.frames
    assert (frame.whole, frame.raw.decode()) == (False, cut)
    assert result.remarks == ["1 message partial: the log does not contain the rest"]


def test_words_of_a_missing_middle_in_a_short_message_are_its_own() -> None:
    message = '{"jsonrpc":"2.0","id":1,"result":{"text":"...[9 chars truncated]..."}}'
    (capture,) = log(entry(2, f"Message from server: {message}")).captures
    assert [(frame.raw.decode(), frame.whole) for frame in capture.frames] == [(message, True)]


def test_summaries_become_messages_without_content() -> None:
    result = log(
        entry(1, 'Message from client: method="initialize" id=0 params'),
        entry(2, "Message from server: id=0 result"),
        entry(3, 'Message from client: method="notifications/initialized"'),
        entry(4, 'Message from client: method="resources/list" id=1'),
        entry(5, "Message from server: id=1 result(2 blocks)"),
        entry(6, 'Message from server: method="elicitation/create" id="a b" params'),
        entry(7, 'Message from client: id="a b" error(code=-32603)'),
        entry(8, "Message from client: id=a result"),
        entry(9, "Message from client: id=9 whatever"),
    )
    (capture,) = result.captures
    assert capture.messages == [
        ("c2s", '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'),
        ("s2c", '{"jsonrpc":"2.0","id":0,"result":{}}'),
        ("c2s", '{"jsonrpc":"2.0","method":"notifications/initialized"}'),
        ("c2s", '{"jsonrpc":"2.0","id":1,"method":"resources/list"}'),
        ("s2c", '{"jsonrpc":"2.0","id":1,"result":{}}'),
        ("s2c", '{"jsonrpc":"2.0","id":"a b","method":"elicitation/create","params":{}}'),
        ("c2s", '{"jsonrpc":"2.0","id":"a b","error":{"code":-32603,"message":""}}'),
        ("c2s", '{"jsonrpc":"2.0","id":"a","result":{}}'),
    ]
    assert not any(frame.whole for frame in capture.frames)
    assert [left_out.place for left_out in result.left_out] == ["line 9"]


def test_lines_without_a_time_are_stderr_unless_they_continue_an_entry() -> None:
    result = log(
        "starting",
        entry(1, "Using MCP server command: x with args and path: {", suffix=""),
        "  metadata: {",
        "    args: [ [length]: 0 ]",
        "  }",
        "} %o",
        "listening",
        entry(2, f"Message from client: {PING}"),
        "  indented",
        entry(3, "[", level="error", suffix=""),
        "  {",
        "]",
        "}",
    )
    (capture,) = result.captures
    assert stderr(capture) == ["starting", "listening", "  indented", "}"]
    assert result.left_out == []
    assert [left_out.place for left_out in log("starting", file_name="").left_out] == ["line 1"]


def test_servers_that_take_turns_have_their_own_captures() -> None:
    result = log(
        common(1, f"Message from client: {PING}", name="a (1) [x]"),
        common(1, f"Message from client: {PING}", name="b"),
        common(2, "Some error", name="b", level="error"),
        common(2, 'Message from server: {"jsonrpc":"2.0","id":1,"result":{}}', name="a (1) [x]"),
        "lost",
        file_name="mcp.log",
    )
    assert [(capture.name, len(capture.frames)) for capture in result.captures] == [("a (1) [x]", 2), ("b", 1)]
    assert [left_out.place for left_out in result.left_out] == ["line 5"]


def test_each_run_of_a_server_has_its_own_capture() -> None:
    run = [
        entry(1, "Initializing server..."),
        entry(1, "Shutting down server..."),
        entry(2, f"Message from client: {INITIALIZE}"),
        entry(3, "Server transport closed"),
        entry(3, "Server transport closed unexpectedly, this is likely due to the process exiting early."),
        "npm notice",
    ]
    result = log(entry(0, "Server transport closed"), *run, *run)
    assert [capture.messages for capture in result.captures] == [[("c2s", INITIALIZE)]] * 2
    assert [stderr(capture) for capture in result.captures] == [["npm notice"]] * 2


def test_both_files_as_tail_shows_them_are_not_mixed() -> None:
    result = log(
        "==> /home/ann/.config/Claude/logs/mcp.log <==",
        common(1, f"Message from client: {PING}"),
        "==> /home/ann/.config/Claude/logs/mcp-server-files.log <==",
        entry(1, f"Message from client: {PING}"),
        file_name="",
    )
    assert [capture.messages for capture in result.captures] == [[("c2s", PING)]] * 2
    assert result.left_out == []


def test_a_line_that_is_not_json_is_there_as_far_as_the_log_has_it() -> None:
    result = log(
        entry(1, f"Message from client: {PING}"),
        entry(2, """Unexpected token 'L', "Loading no"... is not valid JSON""", level="error"),
        entry(3, "Unexpected end of JSON input", level="error"),
        entry(4, 'Message from client: {"method":"initialize"...}'),
    )
    (capture,) = result.captures
    assert capture.messages == [("c2s", PING), ("s2c", "Loading no...")]
    assert [left_out.place for left_out in result.left_out] == ["line 3", "line 4"]


def test_it_is_recognised_by_its_first_entry() -> None:
    lines = f"{entry(1, 'Initializing server...')}\n{entry(2, f'Message from client: {PING}')}\n"
    assert recognised(lines.encode()) == ["claude-desktop"]
    assert recognised(f"==> /x/mcp.log <==\n{lines}".encode()) == ["claude-desktop"]
    assert recognised(f"2026-03-01T10:12:01 x\n{lines}".encode()) == ["text"]
    assert recognised(f"2026-03-01T10:12:01 x\n{lines}".encode(), "mcp-server-files.log") == ["claude-desktop"]
    assert recognised(entry(1, "Some other words").encode()) == []
