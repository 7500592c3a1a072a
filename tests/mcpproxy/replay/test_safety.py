"""What is sent only with `--yes`: anything that a server could take for a call of a tool that may write."""

import json
from pathlib import Path
from typing import Any

from analysis.playback.request_fields import Fields
from analysis.playback.script import Script
from mcpproxy.replay.conversation import Outgoing, RecordedPost
from mcpproxy.replay.plan import plan
from mcpproxy.replay.safety import ToolHints, redacted_count, refusal, unsafe_calls
from tests.analysis.playback.recordings import Recording
from tests.analysis.store.capture_writer import CaptureWriter
from tests.mcpproxy.replay.replays import read_whole

SAFE = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}'


def tool(name: str, **annotations: Any) -> dict[str, Any]:
    """Returns a definition."""
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": annotations}


def recording(folder: Path, *raw: bytes) -> Script:
    """Returns the script of a capture with a list of tools, and these frames of the client."""
    capture = CaptureWriter(folder / "old.mcpcap", "weather")
    capture.handshake()
    for page in (
        [
            tool("read", readOnlyHint=True),
            tool("write"),
            tool("later", readOnlyHint=True),
            tool("text", readOnlyHint=1),
            tool("1.0", readOnlyHint=True),
        ],
        [tool("later", readOnlyHint=False)],
    ):
        capture.ask(20, 9, "tools/list")
        capture.answer(20, 9, tools=page)
    for each in raw:
        capture.raw(30, "c2s", each)
    return read_whole(capture.close())


def unsafe_in(folder: Path, *raw: bytes) -> list[tuple[str, int]]:
    """Returns what is unsafe among these frames, and how often."""
    script = recording(folder, *raw)
    try:
        items = plan(script, folder / "old.mcpcap", "").items(script)
        return [(each.what, each.times) for each in unsafe_calls(script, items, ToolHints(script))]
    finally:
        script.close()


def test_only_tools_whose_every_definition_says_that_they_only_read_are_safe(tmp_path: Path) -> None:
    def calls(name: str) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}).encode()

    names = ("read", "write", "later", "text", "unlisted", "write")
    found = unsafe_in(tmp_path, *map(calls, names))
    assert found == [("write", 2), ("later", 1), ("text", 1), ("unlisted", 1)]


def test_what_a_lenient_server_may_take_for_a_call_is_not_safe(tmp_path: Path) -> None:
    assert unsafe_in(tmp_path, SAFE, SAFE.replace(b"{}", b'{"a":[%b]}' % SAFE)) == []
    for raw in (
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"write"}}',
        b'{"id":1,"method":"tools/call","params":{"name":"write"}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write"}}]',
        b'{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{"name":"\\u0077rite"}}',
        SAFE.replace(b'"name"', b'"name":"write","name"'),
        SAFE.replace(b'"method"', b'"method":"ping","method"'),
        SAFE.replace(b'"name"', b'"Name":"write","name"'),
        SAFE.replace(b'"params"', b'"PARAMS":{"name":"write"},"params"'),
        SAFE.replace(b'"name"', b'"Name"'),
        SAFE.replace(b"tools/call", b"acme/delete"),
        SAFE.replace(b"{}", b'{"a":[%b]}' % SAFE.replace(b"read", b"write")),
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":%b}}' % SAFE.replace(b"read", b"write"),
        SAFE.replace(b'"read"', b"1.0"),
        SAFE.replace(b'"read"', b'["read"]'),
        SAFE.replace(b'"name":"read",', b""),
        SAFE[:-1],
        b"\xff" + SAFE,
        b"[" * 100_000,
    ):
        assert len(unsafe_in(tmp_path, raw)) == 1, raw[:100]


def test_a_response_that_a_lenient_server_may_take_for_a_call_is_refused(tmp_path: Path) -> None:
    script = recording(tmp_path)
    hints = ToolHints(script)
    script.close()
    assert refusal(Outgoing(SAFE), hints) is None
    assert refusal(Outgoing(b'{"jsonrpc":"2.0","id":1,"result":{"Method":"GET"}}'), hints) is None
    for raw in (
        SAFE.replace(b'"method"', b'"result":{},"Method"'),
        b'{"jsonrpc":"2.0","id":1,"method":["tools/call"],"params":{"name":"write"},"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}',
    ):
        assert refusal(Outgoing(raw), hints) == "it may change something, and --yes is missing"


def test_header_fields_name_no_other_call_and_no_other_encoding(tmp_path: Path) -> None:
    script = recording(tmp_path)
    hints = ToolHints(script)
    script.close()
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"write"}}'

    def is_refused(raw: bytes, *fields: tuple[str, str]) -> bool:
        return refusal(Outgoing(raw, recorded=RecordedPost(raw, fields)), hints) is not None

    call, write = ("mcp-method", "tools/call"), ("mcp-name", "write")
    safe: tuple[tuple[bytes, Fields], ...] = (
        (SAFE, (("content-type", "application/json"), call, ("mcp-name", "read"))),
        (SAFE, (("content-type", 'Application/JSON; charset="UTF-8"'), ("mcp-name", "=?base64?cmVhZA==?="))),
        (ping, (("mcp-method", "ping"), write)),
        (ping, ()),
    )
    for raw, fields in safe:
        assert not is_refused(raw, *fields), fields
    unsafe: tuple[tuple[bytes, Fields], ...] = (
        (ping, (call, write)),
        (ping, (call,)),
        (b"[%b]" % ping, (call,)),
        (ping, (("mcp-method", "ping"), call, write)),
        (ping, (("mcp-method", "acme/delete"),)),
        (SAFE, (write,)),
        (SAFE, (("mcp-name", "=?base64?d3JpdGU=?="),)),
        (SAFE, (("mcp-name", "read"), write)),
        (SAFE, (("content-type", "application/json; charset=gbk"),)),
        (SAFE, (("content-type", "text/plain"),)),
        (SAFE, (("content-type", "application/json"), ("content-type", "application/json"))),
    )
    for raw, fields in unsafe:
        assert is_refused(raw, *fields), fields


def test_a_call_whose_header_fields_repeat_it_is_listed_once(tmp_path: Path) -> None:
    made = Recording("http")
    made.http(1, content_type="application/json", mcp_method="tools/call", mcp_name="write")
    made.call(1, "write", exchange=1)
    made.answer(1)
    made.end(1)
    path = made.write(tmp_path)
    script = read_whole(path)
    (listed,) = unsafe_calls(script, plan(script, path, "").items(script), ToolHints(script))
    script.close()
    assert (listed.what, listed.times, listed.is_tool) == ("write", 1, True)


def test_messages_with_redacted_values_are_counted(tmp_path: Path) -> None:
    redacted = SAFE.replace(b"{}", b'{"key":"hmac:0123456789abcdef"}')
    script = recording(tmp_path, SAFE, redacted)
    assert redacted_count(script, plan(script, tmp_path / "old.mcpcap", "").items(script)) == 1
    script.close()
