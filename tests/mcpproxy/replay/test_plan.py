"""Which of the client's items are sent, and over which connections."""

import json
from pathlib import Path

import pytest

from analysis.filter import FilterError
from mcpproxy.replay.conversation import Conversation
from mcpproxy.replay.options import ReplayOptions
from mcpproxy.replay.own_handshake import missing_revision
from mcpproxy.replay.plan import Plan, plan
from tests.analysis.http_trace import ASKED, SERVED, VERSION, HttpTrace, notification, request, result
from tests.analysis.store.capture_writer import CaptureWriter
from tests.mcpproxy.replay.replays import read_whole


def write(folder: Path, trace: HttpTrace) -> Path:
    """Write a trace as a capture."""
    path = folder / "http.mcpcap"
    path.write_bytes(b"".join(line for _, line in trace.case().records()))
    return path


def sent(path: Path, only: str = "") -> tuple[Plan, list[list[str]]]:
    """Returns the plan for a capture, and what is sent over each connection: methods, or frame numbers."""
    script = read_whole(path)
    try:
        chosen = plan(script, path, only)
        return chosen, [
            [item.method or str(item.seq) for item in chosen._replace(connections=(each,)).items(script)]
            for each in chosen.connections
        ]
    finally:
        script.close()


def test_each_session_of_the_handshake_era_has_a_connection(tmp_path: Path) -> None:
    trace = HttpTrace()
    for session in ("a", "b"):
        first = trace.post(request(1, "initialize", **ASKED), peer=session)
        trace.answer(first, result(1, **SERVED), Mcp_Session_Id=session)
        trace.answer(
            trace.post(notification("notifications/initialized"), session=session, peer=session), status="202 Accepted"
        )
    late = trace.post(request(2, "tools/list"), session="a", peer="a")
    trace.answer(late, result(2, tools=[]))
    _, connections = sent(write(tmp_path, trace))
    handshake = ["initialize", "notifications/initialized"]
    assert connections == [[*handshake, "tools/list"], handshake]


def test_what_was_refused_and_repeated_with_credentials_is_sent_once(tmp_path: Path) -> None:
    trace = HttpTrace()
    refused = trace.post(request(1, "initialize", **ASKED))
    trace.answer(refused, status="401 Unauthorized", WWW_Authenticate="Bearer")
    accepted = trace.post(request(1, "initialize", **ASKED))
    trace.answer(accepted, result(1, **SERVED))
    forbidden = trace.post(request(2, "tools/list"))
    trace.answer(forbidden, status="403 Forbidden")
    chosen, connections = sent(write(tmp_path, trace))
    assert connections == [["initialize", "tools/list"]]
    assert chosen.refused_count == 1


def test_a_filter_keeps_the_handshake_and_leaves_out_cancellations_of_what_it_leaves_out(tmp_path: Path) -> None:
    capture = CaptureWriter(tmp_path / "old.mcpcap", "weather")
    capture.handshake()
    for id_, name in ((1, "find"), (2, "save")):
        capture.call(20, id_, name)
        capture.say(20, "c2s", method="notifications/cancelled", params={"requestId": id_})
    capture.say(22, "c2s", method="notifications/roots/list_changed")
    capture.raw(23, "c2s", b"nonsense")
    path = capture.close()
    chosen, (methods,) = sent(path, "name:find")
    assert methods == [
        *("initialize", "notifications/initialized", "tools/call"),
        *("notifications/cancelled", "notifications/roots/list_changed"),
    ]
    assert chosen.skipped_count == 3
    with pytest.raises(FilterError):
        sent(path, "no-such-key:1")


def test_clients_that_now_share_a_connection_get_ids_of_their_own(tmp_path: Path) -> None:
    trace = HttpTrace()
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    calls = []
    for client in ("one", "two"):
        info = {"io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"}}
        calls.append(trace.post(request(1, "tools/list", _meta=meta | info), peer=client))
    for call in reversed(calls):
        trace.answer(call, result(1, tools=[]))
    path = write(tmp_path, trace)
    script = read_whole(path)
    (connection,) = plan(script, path, "").connections
    assert len(script.sessions) == 2
    conversation = Conversation(script, connection.numbers, ReplayOptions(), connection.skipped)
    first, second = conversation.due(0)
    assert b'"id": 1' in first.raw
    assert b'"id": "replay-1"' in second.raw
    conversation.receive(b'{"jsonrpc":"2.0","id":"replay-1","result":{"tools":[]}}', 0)
    assert not conversation.is_over(0)
    conversation.receive(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}', 0, first.calls)
    assert conversation.is_over(0)
    script.close()


def test_a_filter_leaves_out_what_brings_a_call_that_it_does_not_select(tmp_path: Path) -> None:
    def call(name: str, id_: int | None) -> bytes:
        message = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": name}}
        return json.dumps(message if id_ is None else {**message, "id": id_}).encode()

    capture = CaptureWriter(tmp_path / "old.mcpcap", "weather")
    capture.handshake()
    capture.raw(20, "c2s", call("save", None))
    for number, batch in enumerate(
        (
            [call("find", 1), call("find", 2)],
            [call("find", 3), call("save", 4)],
            [call("find", 5), call("save", None)],
            [call("find", 6), b"[]"],
        )
    ):
        capture.raw(21 + number, "c2s", b"[%b]" % b",".join(batch))
    chosen, (methods,) = sent(capture.close(), "name:find")
    assert methods == ["initialize", "notifications/initialized", "5"]
    assert chosen.skipped_count == 4


def test_a_cancellation_that_was_posted_is_posted_again(tmp_path: Path) -> None:
    trace, meta = HttpTrace(), {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    trace.post(request(1, "tools/call", name="slow", arguments={}, _meta=meta))
    left = trace.post(notification("notifications/cancelled", requestId=1))
    trace.answer(left, status="202 Accepted")
    script = read_whole(write(tmp_path, trace))
    (connection,) = plan(script, tmp_path / "http.mcpcap", "").connections
    conversation = Conversation(script, connection.numbers, ReplayOptions())
    call, cancellation = (unit for at_ns in (0, 3_600_000_000_000) for unit in conversation.due(at_ns))
    script.close()
    for unit in (call, cancellation):
        assert unit.abandoned is None
        assert unit.recorded is not None
        assert ("mcp-protocol-version", VERSION) in unit.recorded.fields


def test_a_session_whose_handshake_was_not_recorded_needs_one_of_the_recorded_revision(tmp_path: Path) -> None:
    for session, revision in (("a", VERSION), ("", None)):
        trace = HttpTrace()
        trace.answer(trace.post(request(2, "tools/list"), session=session), result(2, tools=[]))
        script = read_whole(write(tmp_path, trace))
        (connection,) = plan(script, tmp_path / "http.mcpcap", "").connections
        assert missing_revision(script, connection.numbers) == revision
        script.close()
