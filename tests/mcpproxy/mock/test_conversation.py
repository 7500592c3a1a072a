"""What a mock says to a client: the recorded answers, in the recorded order, with the ids of today."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from analysis.playback.items import Item
from analysis.playback.matching import Matching
from analysis.playback.script import Script
from mcpproxy.mock.batch_parts import BatchParts
from mcpproxy.mock.conversation import PATIENCE_NS, Conversation
from mcpproxy.mock.options import MockOptions
from mcpproxy.mock.outgoing import Outgoing
from tests.analysis.playback.recordings import MS, Recording, closed_scripts

__all__ = ["closed_scripts"]

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "today", "version": "2"},
}


class Client:
    """A client of today, with a clock that only tests advance."""

    def __init__(self, script: Script, options: MockOptions = MockOptions()) -> None:  # noqa: B008 - it cannot change
        self.conversation = Conversation(script, 1, options)
        self.now_ns = 1_000 * MS

    def send(self, **message: Any) -> list[Any]:
        """Send a message; returns what the mock says at once."""
        return self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_raw(self, raw: bytes) -> list[Any]:
        self.conversation.receive(raw, self.now_ns)
        return self.read()

    def read(self) -> list[Any]:
        return [_text(unit) for unit in self.units()]

    def units(self) -> list[Outgoing]:
        """What is due now, and within the distance that responses keep to notifications."""
        units: list[Outgoing] = []
        while True:
            due = self.conversation.due(self.now_ns)
            units += due
            next_ns = self.conversation.next_due_ns
            if not due and (next_ns is None or next_ns > self.now_ns + 3 * MS):
                return units
            self.now_ns = max(self.now_ns, next_ns or 0)

    def wait(self, duration_ns: int) -> list[Any]:
        self.now_ns += duration_ns
        return self.read()

    def handshake(self) -> "Client":
        self.send(id="i", method="initialize", params=HELLO)
        self.send(method="notifications/initialized")
        return self

    def call(self, id_: Any, name: str = "search", **params: Any) -> list[Any]:
        return self.send(id=id_, method="tools/call", params={"name": name, **params})


def _text(unit: Outgoing) -> Any:
    if unit.is_stderr:
        return f"stderr: {unit.raw.decode()}"
    try:
        message = json.loads(unit.raw)
    except ValueError:
        return unit.raw.decode()
    if isinstance(message, dict):
        del message["jsonrpc"]
    return message


def test_a_client_with_another_name_and_other_ids_gets_the_recorded_answers(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1, arguments={"q": "a"}, _meta={"progressToken": 1})
    made.server(method="notifications/progress", params={"progressToken": 1, "progress": 0.5})
    made.server(id=1, result={"content": ["a"]})
    client = Client(made.script(tmp_path))
    (answer,) = client.send(id="i", method="initialize", params=HELLO)
    assert (answer["id"], answer["result"]["serverInfo"]["name"]) == ("i", "s")
    assert client.send(method="notifications/initialized") == []
    assert client.call("x", arguments={"q": "a"}, _meta={"progressToken": "p"}) == [
        {"method": "notifications/progress", "params": {"progressToken": "p", "progress": 0.5}},
        {"id": "x", "result": {"content": ["a"]}},
    ]
    assert client.call(7, arguments={"q": "a"}) == [{"id": 7, "result": {"content": ["a"]}}], "no token, no progress"
    assert client.conversation.usage.miss_count == 0


def test_equal_requests_walk_through_their_answers_and_repeat_the_last(tmp_path: Path) -> None:
    made = Recording().handshake()
    for number in (1, 2):
        made.call(number)
        made.server(id=number, result={"n": number})
    client = Client(made.script(tmp_path)).handshake()
    assert [client.call(id_)[0]["result"]["n"] for id_ in (1, 2, 3, 4)] == [1, 2, 2, 2]


def test_by_method_a_request_with_the_same_arguments_takes_precedence(tmp_path: Path) -> None:
    made = Recording().handshake()
    for number, question in enumerate("abac", 1):
        made.call(number, arguments={"q": question})
        made.server(id=number, result={"n": number})
    matching = Matching("method")
    client = Client(made.script(tmp_path, matching), MockOptions(matching)).handshake()
    answers = [client.call(id_, arguments={"q": question})[0]["result"]["n"] for id_, question in enumerate("baxaabyz")]
    assert answers == [2, 1, 3, 3, 3, 2, 4, 4], "then what is left, then the last one again"


def test_the_answer_after_a_redirect_is_not_redirected(tmp_path: Path) -> None:
    made = Recording("http")
    made.http(1)
    made.call(1, exchange=1)
    made.answer(1, 307, location="/mcp/")
    made.end(1)
    request = {"method": "POST", "target": "/mcp/", "headers": []}
    made.record("exchange", conn=1, exchange=2, stage="request", request=request)
    made.call(1, exchange=2)
    made.answer(2)
    made.server(2, id=1, result={})
    made.end(2)
    client = Client(made.script(tmp_path))
    client.conversation.receive(b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"search"}}', 0)
    (answer,) = client.units()
    assert answer.http is not None
    assert (answer.raw, answer.http.status) == (b'{"jsonrpc": "2.0", "id": 9, "result": {}}', 200)


def test_in_sequence_the_next_request_gets_the_next_answer(tmp_path: Path) -> None:
    made = Recording().handshake()
    for number, question in ((1, "a"), (2, "b")):
        made.call(number, arguments={"q": question})
        made.server(id=number, result={"n": number})
    matching = Matching("sequence")
    client = Client(made.script(tmp_path, matching), MockOptions(matching)).handshake()
    assert client.call(5, arguments={"q": "b"})[0]["result"] == {"n": 1}
    message = client.send(id=6, method="tools/list")[0]["error"]["message"]
    assert "for tools/list at this point; frame 6 comes next, tools/call search; --match arguments" in message
    assert client.call(7, arguments={"q": "?"})[0]["result"] == {"n": 2}


def test_what_follows_the_answer_to_a_server_request_waits_for_it(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1)
    made.server(id=1, method="sampling/createMessage", params={})
    made.client(id=1, result={"model": "m"})
    made.server(id=1, result={"done": True})
    client = Client(made.script(tmp_path)).handshake()
    assert client.call("c") == [{"id": 1, "method": "sampling/createMessage", "params": {}}]
    assert client.wait(100 * PATIENCE_NS) == []
    assert client.send(id=2, result={}) == [], "nothing was asked with this id"
    assert client.send(id=1, error={"code": -1, "message": "no"}) == [{"id": "c", "result": {"done": True}}]


def test_requests_of_the_server_outside_of_calls_follow_what_came_before_them(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.server(id=9, method="roots/list")
    made.client(id=9, result={"roots": []})
    made.server(method="notifications/tools/list_changed")
    client = Client(made.script(tmp_path))
    client.send(id=0, method="initialize", params=HELLO)
    assert client.send(method="notifications/initialized") == [{"id": 9, "method": "roots/list"}]
    assert client.send(id=9, result={"roots": []}) == [{"method": "notifications/tools/list_changed"}]


def test_concurrent_calls_are_answered_in_the_recorded_order(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1, n=1)
    made.call(2, n=2)
    made.server(id=2, result={"n": 2})
    made.server(id=1, result={"n": 1})
    client = Client(made.script(tmp_path)).handshake()
    assert client.call("a", n=1) == [], "the other call was sent before this answer"
    assert [answer["id"] for answer in client.call("b", n=2)] == ["b", "a"]


def test_a_client_that_asks_one_by_one_is_not_kept_waiting_for_long(tmp_path: Path) -> None:
    made = Recording().handshake()
    for number in (1, 2, 3):
        made.call(number, n=number)
    for number in (3, 2, 1):
        made.server(id=number, result={"n": number})
    client = Client(made.script(tmp_path)).handshake()
    assert client.call(1, n=1) == []
    assert client.wait(PATIENCE_NS)[0]["result"] == {"n": 1}
    assert client.call(2, n=2)[0]["result"] == {"n": 2}, "nobody waits again for what did not come"


def test_the_call_that_was_never_answered_stays_unanswered(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1)
    made.client(id=2, method="tools/list")
    made.server(id=2, result={"tools": []})
    client = Client(made.script(tmp_path)).handshake()
    assert client.call(1) == client.wait(3_600_000 * MS) == []
    assert client.send(id=2, method="tools/list")[0]["result"] == {"tools": []}


def test_no_answer_follows_a_cancellation_unless_one_did_in_the_recording(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1, n=1)
    made.call(2, n=2)
    made.client(method="notifications/cancelled", params={"requestId": 2})
    made.server(id=2, result={"late": True})
    made.server(id=1, result={})
    client = Client(made.script(tmp_path)).handshake()
    assert client.call("a", n=1) == client.call("b", n=2) == []
    assert client.send(method="notifications/cancelled", params={"requestId": "a"}) == []
    assert client.send(method="notifications/cancelled", params={"requestId": "b"})[0]["result"] == {"late": True}
    assert client.wait(PATIENCE_NS) == []


def test_an_answer_to_a_cancellation_waits_for_it_without_end(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1)
    made.client(method="notifications/cancelled", params={"requestId": 1})
    made.call(2, arguments={"q": "b"})
    made.server(id=1, error={"code": -32800, "message": "Request cancelled"})
    made.server(id=2, result={"n": 2})
    client = Client(made.script(tmp_path)).handshake()
    assert client.call("a") == []
    assert client.wait(100 * PATIENCE_NS) == []
    assert client.call("b", arguments={"q": "b"}) + client.wait(100 * PATIENCE_NS) == [{"id": "b", "result": {"n": 2}}]
    (answer,) = client.send(method="notifications/cancelled", params={"requestId": "a"})
    assert answer["error"]["code"] == -32800


def test_batches_are_answered_as_one_or_one_by_one(tmp_path: Path) -> None:
    made = Recording().handshake()
    ping, listing = {"id": 1, "method": "tools/list"}, {"id": 2, "method": "prompts/list"}
    made.raw("c2s", json.dumps([{"jsonrpc": "2.0", **message} for message in (ping, listing)]).encode())
    answers = [{"jsonrpc": "2.0", "id": 2, "result": {"p": 1}}, {"jsonrpc": "2.0", "id": 1, "result": {"t": 1}}]
    made.raw("s2c", json.dumps(answers).encode())
    script = made.script(tmp_path)
    batch = json.dumps([{"jsonrpc": "2.0", **ping, "id": "a"}, {"jsonrpc": "2.0", **listing, "id": "b"}]).encode()
    (answer,) = [unit for unit in Client(script).handshake().send_raw(batch) if unit]
    assert [(part["id"], part["result"]) for part in answer] == [("b", {"p": 1}), ("a", {"t": 1})]
    assert Client(script).handshake().send(**listing) == [{"id": 2, "result": {"p": 1}}]


def test_a_large_batch_is_played_in_linear_time(tmp_path: Path) -> None:
    count = 2_000
    ids = range(1, count + 1)
    made = Recording().handshake()
    params = {"name": "search"}
    made.raw("c2s", json.dumps([{"id": id_, "method": "tools/call", "params": params} for id_ in ids]).encode())
    made.raw("s2c", json.dumps([{"id": id_, "result": {"n": id_}} for id_ in ids]).encode())
    client = Client(made.script(tmp_path)).handshake()
    asked = [{"id": -id_, "method": "tools/call", "params": params} for id_ in ids]
    start = time.process_time()
    answers, *_ = client.send_raw(json.dumps(asked).encode())
    assert time.process_time() - start < 2.0, "0.14 s, and 60 s in quadratic time"
    assert [(answer["id"], answer["result"]["n"]) for answer in answers] == [(-id_, id_) for id_ in ids]


def test_large_batches_that_are_asked_for_in_turn_are_played_in_linear_time(tmp_path: Path) -> None:
    names = "abc"
    made = Recording().handshake()
    for name in names:
        made.raw("c2s", json.dumps([_call(f"{name}{place}", name, place) for place in range(700)]).encode())
        made.raw("s2c", json.dumps([_result(f"{name}{place}", place) for place in range(700)]).encode())
    client = Client(made.script(tmp_path)).handshake()
    asked = [_call(f"{place}{name}", name, place) for place in range(700) for name in names]
    start = time.process_time()
    answers = [client.send(**call) for call in asked]
    assert time.process_time() - start < 3.0, "0.3 s, and 20 s if only one batch is kept"
    assert answers == [[{"id": call["id"], "result": {"n": call["params"]["arguments"]["n"]}}] for call in asked]


def _call(id_: str, name: str, place: int) -> dict[str, Any]:
    return {"id": id_, "method": "tools/call", "params": {"name": name, "arguments": {"n": place}}}


def _result(id_: str, place: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": {"n": place}}


def test_what_is_kept_of_batches_has_a_limit_and_goes_least_recently_used_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Recording().handshake()
    for id_ in (1, 2, 3):
        made.raw("c2s", json.dumps([{"id": id_, "method": "ping"}]).encode())
    script = made.script(tmp_path)
    batches = [item for item in script.items if item.kind == "batch"]
    read: list[int] = []
    read_raw = script.raw

    def noted_raw(item: Item) -> bytes:
        read.append(batches.index(item))
        return read_raw(item)

    monkeypatch.setattr(script, "raw", noted_raw)
    for limit, expected in ((80, [0, 1, 2, 1]), (10, [0, 1, 0, 2, 0, 1])):
        monkeypatch.setattr("mcpproxy.mock.batch_parts.MAX_KEPT_BYTES", limit)
        parts = BatchParts(script)
        read.clear()
        for place in (0, 1, 0, 2, 0, 1, 1):
            assert json.loads(parts.raw(batches[place]))[0]["id"] == place + 1
        assert read == expected, "at least one batch is kept"


def test_lines_that_are_no_message_and_stderr_keep_their_place(tmp_path: Path) -> None:
    made = Recording()
    made.record("stderr", raw="starting")
    made.handshake()
    made.client(id=1, method="tools/list")
    made.raw("s2c", b"Loaded 5 tools")
    made.server(id=1, result={"tools": []})
    client = Client(made.script(tmp_path))
    assert client.read() == ["stderr: starting"]
    client.handshake()
    assert client.send(id=1, method="tools/list") == ["Loaded 5 tools", {"id": 1, "result": {"tools": []}}]


def test_with_a_speed_pauses_are_those_of_the_recording(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1, _meta={"progressToken": 1})
    made.server(method="notifications/progress", params={"progressToken": 1, "progress": 1})
    for _ in range(20):
        made.raw("s2c", b"noise")
    made.server(id=1, result={})
    client = Client(made.script(tmp_path), MockOptions(speed=2.0)).handshake()
    client.conversation.receive(b'{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"name":"search"}}', 0)
    assert client.conversation.due(int(10.9 * MS)) != []
    assert not any(unit.ends_request for unit in client.conversation.due(int(10.9 * MS)))
    assert client.conversation.due(11 * MS)[-1].ends_request


def test_pings_are_answered_and_other_misses_name_the_nearest_call(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1, arguments={"q": "a"})
    made.server(id=1, result={})
    client = Client(made.script(tmp_path)).handshake()
    assert client.send(id=5, method="ping") == [{"id": 5, "result": {}}]
    (miss,) = client.call(6, arguments={"q": "b"})
    assert miss["error"]["data"]["nearest"]["frame"] == 4
    (unknown,) = client.send(id=7, method="logging/setLevel", params={"level": "debug"})
    assert unknown["error"]["code"] == -32601
    assert [(miss.method, miss.name) for miss in client.conversation.usage.misses] == [
        ("tools/call", "search"),
        ("logging/setLevel", ""),
    ]


def test_a_miss_is_answered_after_earlier_requests_and_before_later_ones(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1)
    made.server(id=1, result={"n": 1})
    client = Client(made.script(tmp_path)).handshake()
    for id_, name in ((1, "search"), (2, "other"), (3, "search"), (4, "another")):
        request = {"id": id_, "method": "tools/call", "params": {"name": name}}
        client.conversation.receive(json.dumps({"jsonrpc": "2.0", **request}).encode(), client.now_ns)
    assert [answer["id"] for answer in client.read()] == [1, 2, 3, 4]


def test_on_a_miss_the_nearest_answer_can_be_given(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1, arguments={"q": "a"})
    made.server(id=1, result={"n": 1})
    client = Client(made.script(tmp_path), MockOptions(on_miss="nearest")).handshake()
    assert client.call(6, arguments={"q": "b"}) == [{"id": 6, "result": {"n": 1}}]
    assert client.conversation.usage.miss_count == 1


def test_each_handshake_takes_the_next_session_and_the_last_repeats(tmp_path: Path) -> None:
    made = Recording()
    for number in (1, 2):
        made.handshake()
        made.client(id=1, method="tools/list")
        made.server(id=1, result={"n": number})
    client = Client(made.script(tmp_path))
    seen = []
    for _ in range(3):
        client.handshake()
        seen.append(client.send(id=1, method="tools/list")[0]["result"]["n"])
    assert seen == [1, 2, 2]


def _exchange(made: Recording, session: int, method: str, params: Any) -> None:
    number = len(made.lines)
    session_id = f"hmac:000000000000000{session}"
    made.http(number, **({} if method == "initialize" else {"mcp_session_id": session_id}))
    made.client(number, id=number, method=method, params=params)
    made.answer(number, content_type="text/event-stream", mcp_session_id=session_id)
    made.server(number, id=number, result={"n": session})
    made.end(number)


def test_a_miss_names_the_nearest_request_of_any_session(tmp_path: Path) -> None:
    made = Recording("http")
    for session, method, params in (
        (1, "tools/call", {"name": "search", "arguments": {"q": "note"}}),
        (2, "tools/call", {"name": "search", "arguments": {"q": "other"}}),
        (2, "resources/read", {"uri": "note://travel"}),
    ):
        if len(made.lines) == 1 or method == "tools/call":
            _exchange(made, session, "initialize", HELLO)
        _exchange(made, session, method, params)
    script = made.script(tmp_path)
    assert [*script.sessions] == [1, 2]
    client = Client(script).handshake()
    (answer,) = client.send(id=5, method="resources/read", params={"uri": "note://travel"})
    assert answer["error"]["code"] == -32019
    assert answer["error"]["data"]["nearest"]["session"] == 2
    assert "in this session; in session 2, frame 22 asks for the same; --session 2" in answer["error"]["message"]
    assert "in session 2, frame 17 asks" in client.call(6, arguments={"q": "other"})[0]["error"]["message"]
    assert "nearest is frame 7, which" in client.call(7, arguments={"q": "new"})[0]["error"]["message"], "own first"
    nearest = Client(script, MockOptions(on_miss="nearest")).handshake()
    assert nearest.call(6, arguments={"q": "other"}) == [{"id": 6, "result": {"n": 1}}], "only of this session"


def test_a_client_of_the_other_era_can_fall_back(tmp_path: Path) -> None:
    client = Client(Recording().handshake().script(tmp_path))
    (answer,) = client.send(id=1, method="server/discover", params={})
    assert answer["error"]["code"] == -32601
    assert (client.conversation.usage.miss_count, client.conversation.usage.probes) == (0, {"server/discover"})
    made = Recording()
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    made.client(id=0, method="server/discover", params=meta)
    made.server(id=0, result={"supportedVersions": ["2026-07-28"]})
    client = Client(made.script(tmp_path))
    (answer,) = client.send(id=1, method="initialize", params=HELLO)
    assert (client.conversation.usage.miss_count, client.conversation.usage.probes) == (0, {"initialize"})
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"]["supported"] == ["2026-07-28"]


def test_a_request_waits_until_its_answer_has_been_read(tmp_path: Path) -> None:
    made = Recording().handshake()
    for number in range(1, 60):
        made.call(number, n=number)
        made.server(id=number, result={"n": number})
    complete = made.script(tmp_path)
    script = Script(tmp_path / "made.mcpcap", Matching())
    try:
        script.grow(8)
        client = Client(script).handshake()
        assert client.call("far", n=59) == client.call("never", n=60) == []
        assert client.call("near", n=1) != []
        while script.grow(20):
            pass
        (far,) = [answer for answer in client.read() if answer["id"] == "far"]
    finally:
        script.close()
    assert far["result"] == {"n": 59}
    assert len(script.items) == len(complete.items)


def test_the_recorded_server_ends_only_where_everything_was_asked_for(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1)
    made.server(id=1, result={})
    made.record("process", event="ended", status=3)
    made.record("close", ending="server")
    client = Client(made.script(tmp_path)).handshake()
    assert not client.conversation.has_server_ended
    client.call(1)
    assert client.conversation.has_server_ended


def test_answers_to_nothing_never_hit_a_request_of_today(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(1)
    made.server(id=1, result={"n": 1})
    made.server(id=77, result={"stray": True})
    made.client(id=2, method="tools/list")
    client = Client(made.script(tmp_path)).handshake()
    assert client.send(id=77, method="tools/list") == []


def test_a_second_answer_has_the_id_of_today_or_is_left_out(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.call(3, arguments={"q": "a"})
    made.server(id=3, result={"n": 1})
    made.server(id=3, result={"again": True})
    made.server(id=None, error={"code": -32700, "message": "what?"})
    made.client(id=4, method="tools/list")
    made.server(id=4, result={"tools": []})
    script = made.script(tmp_path)
    known = [{"id": "x", "result": {"n": 1}}, {"id": "x", "result": {"again": True}}]
    broken = {"id": None, "error": {"code": -32700, "message": "what?"}}
    assert Client(script).handshake().call("x", arguments={"q": "a"}) == [*known, broken]
    client = Client(script).handshake()
    answers = client.send(id=3, method="tools/list")
    assert answers == [broken, {"id": 3, "result": {"tools": []}}], "3 is another request today"


def test_an_http_response_with_another_id_ends_its_request(tmp_path: Path) -> None:
    made = Recording("http")
    made.http(1)
    made.client(1, id=1, method="server/discover", params={})
    made.answer(1, 400, content_type="application/json")
    error = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no session"}}'
    made.raw("s2c", error, exchange=1, conn=1, unit="http_body", delim=b"")
    made.end(1)
    client = Client(made.script(tmp_path))
    client.conversation.receive(b'{"jsonrpc":"2.0","id":7,"method":"server/discover"}', client.now_ns)
    (unit,) = client.units()
    assert (unit.http and unit.http.status, unit.ends_request, unit.failed_id) == (400, True, b"7")
    assert unit.raw == error


def test_what_is_no_message_is_refused(tmp_path: Path) -> None:
    client = Client(Recording().handshake().script(tmp_path)).handshake()
    hostile = {
        b"{": "-32700 this is not JSON",
        b"[]": "-32600 this is not a JSON-RPC message",
        b"[1,2]": "-32600 this is not a JSON-RPC message",
        b'"x"': "-32600 this is not a JSON-RPC message",
        b'{"id":1}': "-32600 this is not a JSON-RPC message",
        b"\xff": "-32700 this is not JSON",
        b"[" * 100_000: "-32600 the message is too large, or nested too deeply",
        b'{"jsonrpc":"2.0","method":7,"id":1}': "-32600 this is not a JSON-RPC message",
    }
    for raw, refusal in hostile.items():
        (answer,) = client.send_raw(raw)
        error = answer["error"]
        assert f"{error['code']} {error['message'].removeprefix('mcpproxy mock: ')}" == refusal, raw[:20]
    assert client.conversation.usage.invalid_count == len(hostile)


def test_ids_of_every_type_are_given_back(tmp_path: Path) -> None:
    made = Recording().handshake()
    made.client(id=1, method="tools/list")
    made.server(id=1, result={})
    client = Client(made.script(tmp_path)).handshake()
    for id_ in ("", "é\u0000", 0, -1, 99999999999999999999999, "x" * 1_000):
        assert client.send(id=id_, method="tools/list") == [{"id": id_, "result": {}}]
