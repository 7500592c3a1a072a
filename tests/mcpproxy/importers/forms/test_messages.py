"""Files of messages: who sent each is guessed, and what is not a message is left out."""

import json

from tests.mcpproxy.importers.logs import imported, recognised
from tests.mcpproxy.importers.test_conversations import rules_in

OPENING = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
OPENED = '{"jsonrpc":"2.0","id":1,"result":{"n":1.10}}'
CALL = '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
PING = '{"jsonrpc":"2.0","id":2,"method":"ping"}'


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def test_messages_have_the_direction_that_their_method_implies() -> None:
    (capture,) = imported("messages", lines(OPENING, OPENED, PING), "files.jsonl").captures
    assert capture.messages == [("c2s", OPENING), ("s2c", OPENED), ("c2s", PING)]
    assert {
        name: capture.header.get(name) for name in ("name", "imported", "verbatim", "observed_start", "wall_ns")
    } == {
        "name": "files",
        "imported": "messages",
        "verbatim": False,
        "observed_start": True,
        "wall_ns": None,
    }


def test_one_side_alone_has_one_direction() -> None:
    roots = '{"jsonrpc":"2.0","id":"a","method":"roots/list"}'
    progress = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}'
    (server,) = imported("messages", lines(OPENED, roots, PING, progress)).captures
    assert {side for side, _ in server.messages} == {"s2c"}
    (client,) = imported("messages", lines(OPENING, CALL, PING, progress)).captures
    assert {side for side, _ in client.messages} == {"c2s"}
    assert client.header["observed_start"] is False


def test_a_server_that_is_initialized_again_is_in_another_capture() -> None:
    both = imported("messages", lines(OPENING, OPENED, OPENING, OPENED)).captures
    assert [capture.messages for capture in both] == [[("c2s", OPENING), ("s2c", OPENED)]] * 2


def test_other_lines_are_left_out_and_a_cut_last_line_is_recorded() -> None:
    result = imported("messages", lines(OPENING, "hello", "[1]", "") + CALL[:20].encode())
    assert [left_out.place for left_out in result.left_out] == ["line 2", "line 3"]
    (capture,) = result.captures
    assert [(frame.raw.decode(), frame.whole) for frame in capture.frames] == [(OPENING, True), (CALL[:20], False)]


def test_it_is_recognised_by_its_first_line() -> None:
    assert recognised(lines("", OPENING, "x")) == ["messages"]
    assert recognised(json.dumps([json.loads(OPENING)]).encode()) == ["messages"]
    assert recognised(b'{"jsonrpc":"2.0","x":"' + b"x" * (2 << 20)) == ["messages"]
    assert recognised(lines('{"a":1}')) == recognised(b"") == recognised(b"\0\1") == []


def test_a_line_of_a_servers_stdout_that_is_not_json_is_recorded() -> None:
    called = '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'
    for data in (lines("Loading config...", OPENED, called), lines(OPENED, "Loading config...", called)):
        assert recognised(data) == ["messages"]
        result = imported("messages", data, "stdout.log")
        assert result.left_out == []
        (capture,) = result.captures
        assert {side for side, _ in capture.messages} == {"s2c"}
        assert "Loading config..." in [text for _, text in capture.messages]
        assert "framing/stdout-not-json" in rules_in(capture)


def test_text_among_messages_of_both_sides_is_nobodys() -> None:
    result = imported("messages", lines("started", OPENING, OPENED, CALL))
    assert ([left_out.place for left_out in result.left_out], len(result.captures[0].frames)) == (["line 1"], 3)
