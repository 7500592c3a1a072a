"""Text with messages in it: directions from the words in front, objects over several lines, as JSON or as printed."""

import json

import pytest

from tests.mcpproxy.importers.logs import ImportedCapture, imported, recognised

INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"n":1.10}}'
RESULT = '{"jsonrpc":"2.0","id":1,"result":{}}'
CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}'
PONG = '{"jsonrpc":"2.0","id":7,"result":{}}'


def capture_of(*lines: str) -> ImportedCapture:
    (capture,) = imported("text", "\n".join(lines).encode(), "client.log").captures
    return capture


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("write: ", "read: "),
        ("[t] Sending request: ", "[t] Received response: "),
        ("--> ", "<-- "),
        ("→ ", "← "),
        ("[send] ", "[recv] "),
        ('{"dir":"out","m":', '{"dir":"in","m":'),
        (">> ", "<< "),
        ("2026-03-01T10:12:05.377Z 📤 ", "📥 "),
        ("[read-server] outgoing message => ", "[read-server] incoming message => "),
    ],
)
def test_the_log_of_either_side_is_read(sent: str, received: str) -> None:
    client = capture_of(f"{sent}{INITIALIZE}", f"{received}{RESULT}", f"{received}{PING}", f"{sent}{PONG}")
    assert client.messages == [("c2s", INITIALIZE), ("s2c", RESULT), ("s2c", PING), ("c2s", PONG)]
    server = capture_of(f"{received}{INITIALIZE}", f"{sent}{RESULT}", f"{sent}{PING}", f"{received}{PONG}")
    assert server.messages == client.messages


@pytest.mark.parametrize(
    ("from_client", "from_server"),
    [
        ("client -> server ", "server -> client "),
        ("[Client → Server] ", "[Client ← Server] "),
        ("message from client: ", "message from the server: "),
        ("sending to server: ", "sending to client: "),
        ("[9] [Local→Remote] ", "[9] [Remote→Local] "),
        ("SSE → Child: ", "Child → SSE: "),
        ("stdin ", "stdout "),
        ('{"direction":"c2s","message":', '{"direction":"s2c","message":'),
        ('{"direction":"client_to_server","m":', '{"direction":"server-to-client","m":'),
        ("clientToServer ", "serverToClient "),
    ],
)
def test_both_sides_may_be_named(from_client: str, from_server: str) -> None:
    capture = capture_of(
        f"{from_server}{PING}", f"{from_client}{PONG}", f"{from_client}{CALL}", f"{from_server}{RESULT}"
    )
    assert capture.messages == [("s2c", PING), ("c2s", PONG), ("c2s", CALL), ("s2c", RESULT)]


def test_without_words_the_method_decides() -> None:
    assert capture_of("hello", INITIALIZE, RESULT, f"DEBUG {PING}").messages == [
        ("c2s", INITIALIZE),
        ("s2c", RESULT),
        ("c2s", PING),
    ]


def test_the_line_before_a_message_may_announce_it() -> None:
    indented = json.dumps(json.loads(PING), indent=2)
    capture = capture_of("Sending at 2026-03-01T10:12:05.377Z:", INITIALIZE, "Received:", indented, "Received.", PING)
    assert [side for side, _ in capture.messages] == ["c2s", "s2c", "c2s"]
    assert capture.wall_ns == 1772359925377 * 10**6


def test_words_around_a_message_in_json_may_follow_it() -> None:
    def wrapped(message: str, way: str, ms: int) -> str:
        return f'{{"id":5,"message":{message},"way":"{way}","ts":{ms}}}'

    capture = capture_of(wrapped(INITIALIZE, "incoming", 1772359925377), wrapped(RESULT, "outgoing", 1772359925387))
    assert capture.messages == [("c2s", INITIALIZE), ("s2c", RESULT)]
    assert [frame.t_ns for frame in capture.frames] == [0, 10**7]


def test_what_the_console_prints_is_read_and_what_it_hides_is_missing() -> None:
    capture = capture_of(
        "onmessage {",
        "  \x1b[32mjsonrpc\x1b[39m: '2.0',",
        "  id: 1,",
        "  result: { text: 'a}\\n' +",
        '    "it\'s", n: undefined }',
        "}",
        "send { method: 'tools/list', params: { cursor: [Object] }, jsonrpc: '2.0', id: 2 }",
    )
    assert [(side, json.loads(raw)) for side, raw in capture.messages] == [
        ("s2c", {"jsonrpc": "2.0", "id": 1, "result": {"text": "a}\nit's"}}),
        ("c2s", {"method": "tools/list", "params": {}, "jsonrpc": "2.0", "id": 2}),
    ]
    assert [frame.whole for frame in capture.frames] == [True, False]


def test_what_is_cut_or_shortened_is_incomplete() -> None:
    log = (
        f"-> {INITIALIZE}",
        '<- {"jsonrpc":"2.0","id":1,"result":{"a":[1,... 12 kB more',
        '<- {"jsonrpc":"2.0","id":2,"result":{...}}',
        '-> {"jsonrpc":"2.0", ...',
        'x {"a": "jsonrpc: 2"}',
        "{ jsonrpc: V2 }",
    )
    result = imported("text", "\n".join(log).encode())
    assert [left_out.place for left_out in result.left_out] == ["line 4"]
    assert [(frame.raw, frame.whole) for frame in result.captures[0].frames[1:]] == [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}', False),
        (b'{"jsonrpc":"2.0","id":2,"result":{}}', False),
    ]


def test_a_message_whose_middle_was_cut_out_is_paired_by_its_id() -> None:
    called = '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"read","arguments":{}}}'
    log = (
        f"-> {called}",
        '<- {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"a...[900 chars truncated]...b"\\"}]}}',
        f"-> {called}",
        '<- {"result":{"content":[{"type":"text","text":"a...[900 chars truncated]...b"\\"}]},"jsonrpc":"2.0","id":3}',
    )
    result = imported("text", "\n".join(log).encode())
    assert result.left_out == []
    answers = [json.loads(frame.raw) for frame in result.captures[0].frames if not frame.whole]
    assert [answer["id"] for answer in answers] == [3, 3]
    assert all(answer["result"]["content"][0]["text"].startswith("a") for answer in answers)


def test_other_objects_are_skipped_and_give_way() -> None:
    capture = capture_of(
        "config {", "  a: 1,", f"  -> {INITIALIZE}", f'<- {{"a":{{"id":1}}}} {RESULT} -> [{PING},{PING}]'
    )
    assert capture.messages == [("c2s", INITIALIZE), ("s2c", RESULT), ("c2s", f"[{PING},{PING}]")]


def test_it_is_recognised_if_no_other_form_fits() -> None:
    assert recognised(f"started\n{INITIALIZE}\n".encode()) == ["text"]
    assert recognised(f"{INITIALIZE}\n".encode()) == ["messages"]
    assert (
        recognised(b'id: 1\n{ jsonrpc: "1.0", method: "a" }\n') == recognised(b'the member "jsonrpc":"2.0" is\n') == []
    )
