"""Very many objects of one kind in a capture: none costs more than the first, and objects in use are not evicted."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.conversation.fold import Fold
from captures.damage import Damage
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction
from tests.analysis.conversation.limits import Limits
from tests.analysis.growth import assert_linear
from tests.analysis.judged import Judged

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}
SERVED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "demo", "version": "1"}}


class Tape:
    """Items of a capture, one per millisecond."""

    def __init__(self, transport: str) -> None:
        self.items: list[Frame | Record | Damage] = []
        self.late_ns = 0  # how much later all following items are
        self.record("header", format=1, capture="0" * 32, transport=transport, observed_start=True)

    def record(self, rec: str, **members: Any) -> None:
        seq = len(self.items)
        self.items.append(Record(seq, rec, seq * 1_000_000 + self.late_ns, members))

    def say(self, direction: Direction, exchange: int | None = None, **members: Any) -> None:
        self.raw(direction, json.dumps({"jsonrpc": "2.0", **members}).encode(), exchange)

    def raw(self, direction: Direction, raw: bytes, exchange: int | None = None) -> None:
        seq, unit = len(self.items), "line" if exchange is None else "http_body"
        delim = b"\n" if exchange is None else b""
        verdict = judge(raw, direction, unit, limit=1 << 24)  # type: ignore[arg-type]
        t_ns = seq * 1_000_000 + self.late_ns
        self.items.append(Frame(seq, t_ns, direction, raw, verdict, delim=delim, exchange=exchange, unit=unit))  # type: ignore[arg-type]

    def post(self, exchange: int, *, session: str | None = "hmac:1", ended: bool = True, **members: Any) -> None:
        """Add a POST, with its response if `ended`."""
        headers = [["Mcp-Session-Id", session]] if session and members["method"] != "initialize" else []
        request = {"method": "POST", "target": "/mcp", "headers": headers}
        self.record("exchange", exchange=exchange, stage="request", conn=1, peer="127.0.0.1:1", request=request)
        self.say("c2s", exchange, **members)
        if ended:
            given = [["Mcp-Session-Id", session]] if session and members["method"] == "initialize" else []
            response = {"status": 200, "headers": given}
            self.record("exchange", exchange=exchange, stage="response", conn=1, response=response)
            self.say("s2c", exchange, id=members["id"], result=SERVED if given else {})
            self.record("exchange", exchange=exchange, stage="end", conn=1, ended_by="complete", response=response)

    def handshake(self) -> None:
        self.say("c2s", id=0, method="initialize", params=INITIALIZE)
        self.say("s2c", id=0, result=SERVED)
        self.say("c2s", method="notifications/initialized")

    def checked(self) -> tuple[Judged, list[tuple[str, str]]]:
        checker = Judged()
        found = [one for item in self.items for one in checker.feed(item)]
        found += checker.finish("killed")
        assert checker.faults == {}
        return checker, [(one.rule, str(one.level)) for one in found]


def cancelled(count: int) -> None:
    """Check `count` requests with one id, followed by one more cancellation than there are requests."""
    tape = Tape("stdio")
    for _ in range(count):
        tape.say("c2s", id=7, method="tools/call", params={"name": "dig"})
    for _ in range(count + 1):
        tape.say("c2s", method="notifications/cancelled", params={"requestId": 7})
    fold = Fold()
    contexts = [one for item in tape.items for one in fold.feed(item)]
    met = [one.cancels.seq for one in contexts if one.cancels is not None]
    assert met[:count] == list(range(1, count + 1))
    assert {one.outcome for one in fold.open_calls()} == {"cancelled"}


def test_cancellations_of_an_id_that_was_used_very_often_meet_one_request_each() -> None:
    assert_linear(cancelled, 400, 3_200)


@pytest.mark.soak
def test_cancellations_of_an_id_that_was_used_without_end_meet_one_request_each() -> None:
    assert_linear(cancelled, 5_000, 40_000)


def test_cancelled_and_other_requests_of_one_id_are_answered_in_order() -> None:
    tape = Tape("stdio")
    for _ in range(3):
        tape.say("c2s", id=7, method="ping")
    tape.say("c2s", method="notifications/cancelled", params={"requestId": 7})
    tape.say("s2c", id=7, result={})
    tape.say("c2s", method="notifications/cancelled", params={"requestId": 7})
    fold = Fold()
    contexts = [one for item in tape.items for one in fold.feed(item)]
    assert [one.cancels.seq for one in contexts if one.cancels is not None] == [1, 2]
    assert [(one.request.seq, one.outcome) for one in fold.open_calls()] == [(2, "cancelled"), (3, "unanswered")]


def batch_refused(count: int) -> None:
    """Check a batch of `count` requests, each answered by an error without an id."""
    tape = Tape("http")
    request = {"method": "POST", "target": "/mcp", "headers": []}
    tape.record("exchange", exchange=1, stage="request", conn=1, peer="127.0.0.1:1", request=request)
    batch = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(count)]
    tape.raw("c2s", json.dumps(batch).encode(), 1)
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}
    tape.raw("s2c", json.dumps([error] * count).encode(), 1)
    fold = Fold()
    context = [one for item in tape.items for one in fold.feed(item)]
    assert len(context) == 2 * count
    assert len(fold.open_calls()) == count


def ended_again_and_again(count: int) -> None:
    """Check one exchange with `count` requests, each followed by another end record, which no recorder writes."""
    tape = Tape("http")
    head = {"method": "POST", "target": "/mcp", "headers": []}
    tape.record("exchange", exchange=1, stage="request", conn=1, peer="127.0.0.1:1", request=head)
    for number in range(count):
        tape.say("c2s", 1, id=number, method="ping")
        tape.record("exchange", exchange=1, stage="end", conn=1, request=head, ended_by="complete")
    fold = Fold()
    for item in tape.items:
        fold.feed(item)
    assert fold.open_calls() == ()


def test_an_exchange_that_ends_again_and_again_costs_no_more_each_time() -> None:
    assert_linear(ended_again_and_again, 400, 6_400)


def test_errors_without_an_id_in_answer_to_a_huge_batch_cost_no_more_each() -> None:
    assert_linear(batch_refused, 300, 2_400)


@pytest.mark.parametrize("session", ["hmac:1", "hmac:2"], ids=["in its session", "in another one"])
def test_exchanges_that_come_after_it_push_no_open_request_out(session: str, limits: Limits) -> None:
    tape = Tape("http")
    tape.post(1, id=0, method="initialize", params=INITIALIZE)
    if session != "hmac:1":
        tape.post(2, id=0, session=session, method="initialize", params=INITIALIZE)
    tape.post(3, ended=False, id=1, method="tools/call", params={"name": "dig"})
    tape.late_ns = 40_000 * 1_000_000
    for number in range(4, limits.ended + 100):
        tape.post(number, session=session, id=number, method="ping")
    checker, found = tape.checked()
    assert checker.fold.routing.count == (1 if session == "hmac:1" else 2)
    assert ("timeout/unanswered", "warning") in found


# ---- losses prove nothing


@pytest.mark.parametrize("lost", ["damage", "gap", "frame"])
def test_what_was_said_before_a_loss_is_not_missed_after_it(lost: str) -> None:
    tape = Tape("stdio")
    if lost == "damage":
        tape.items.append(Damage(Path("a"), 0, 500, "corrupt"))
    elif lost == "gap":
        tape.record("gap", first=1, last=2, lost={"c2s": {"frames": 1}, "s2c": {"frames": 1}})
    else:
        tape.record("frame", dir="sideways", raw="{}")
    tape.say("c2s", method="notifications/initialized")
    tape.say("c2s", id=1, method="tools/list")
    tape.say("s2c", id=1, result={"tools": []})
    tape.say("s2c", id=0, result={})
    _, found = tape.checked()
    assert [one for one in found if one[1] != "note"] == []


def test_a_torn_end_loses_nothing_of_what_came_before() -> None:
    tape = Tape("stdio")
    tape.say("c2s", id=1, method="tools/list")
    tape.say("s2c", id=9, result={})
    tape.items.append(Damage(Path("a"), 0, 5, "torn"))
    _, found = tape.checked()
    assert {("id/unknown-response", "error"), ("lifecycle/request-before-initialize", "error")} <= set(found)


# ---- probes


@pytest.mark.parametrize("code", [-32600, -32601, -32603, -32000])
def test_a_server_of_the_handshake_era_may_answer_a_probe_with_any_error(code: int) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    tape = Tape("stdio")
    tape.say("c2s", id=1, method="server/discover", params={"_meta": meta})
    tape.say("s2c", id=None, error={"code": code, "message": "no"})
    tape.say("c2s", id=0, method="initialize", params=INITIALIZE)
    tape.say("s2c", id=0, result=SERVED)
    tape.say("c2s", method="notifications/initialized")
    _, found = tape.checked()
    assert [one for one in found if one[1] != "note"] == []


def test_the_call_of_another_client_is_no_probe() -> None:
    """Two clients share an address: a modern one, whose last call fails, and one that begins with a handshake."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    tape = Tape("http")
    served = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
    for exchange, method, members in (
        (1, "server/discover", {"result": served}),
        (2, "prompts/get", {"error": {"code": -32603, "message": "no"}}),
    ):
        request = {"method": "POST", "target": "/mcp", "headers": [["MCP-Protocol-Version", "2026-07-28"]]}
        tape.record("exchange", exchange=exchange, stage="request", conn=1, peer="127.0.0.1:1", request=request)
        tape.say("c2s", exchange, id=exchange, method=method, params={"_meta": meta})
        tape.say("s2c", exchange, id=exchange, **members)
        tape.record("exchange", exchange=exchange, stage="end", conn=1, ended_by="complete", response={"status": 200})
    tape.post(3, id=0, method="initialize", params=INITIALIZE)
    _, found = tape.checked()
    assert "version/fallback" not in {rule for rule, _ in found}
