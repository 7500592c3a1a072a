"""Near-repeats, and content that is spelt differently: neither may mislead the rules."""

import json
from typing import Any

from captures.damage import Damage
from tests.analysis.conversation.test_crowds import Tape
from tests.analysis.growth import assert_linear


def found_in(tape: Tape) -> list[str]:
    """The rules that find something above a note."""
    return [rule for rule, level in tape.checked()[1] if level != "note"]


def listed(tape: Tape, id_: int, schema: dict[str, Any]) -> None:
    """Add a request for the tools, and a response with one tool."""
    tape.say("c2s", id=id_, method="tools/list")
    tool = {"name": "dig", "inputSchema": {"type": "object", **schema}}
    tape.say("s2c", id=id_, result={"tools": [tool]})


def handshake(tape: Tape) -> None:
    """Add the handshake of a server with tools."""
    info = {"name": "demo", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    tape.say("c2s", id=0, method="initialize", params=params)
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    tape.say("s2c", id=0, result=result)
    tape.say("c2s", method="notifications/initialized")


def test_a_schema_with_true_instead_of_1_is_another_one() -> None:
    tape = Tape("stdio")
    handshake(tape)
    listed(tape, 1, {"properties": {"x": {"const": 1}}})
    listed(tape, 2, {"properties": {"x": {"const": True}}})
    tape.say("c2s", id=3, method="tools/call", params={"name": "dig", "arguments": {"x": True}})
    tape.say("s2c", id=3, result={"content": []})
    assert found_in(tape) == []


def test_a_schema_that_became_invalid_is_looked_at_again() -> None:
    tape = Tape("stdio")
    handshake(tape)
    listed(tape, 1, {"minProperties": 1})
    listed(tape, 2, {"minProperties": True})
    assert found_in(tape) == ["tool/schema-invalid"]


def test_a_token_whose_name_is_written_with_an_escape_is_known() -> None:
    tape = Tape("stdio")
    handshake(tape)
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "dig", "_meta": {"progressToken": "t"}},
    }
    tape.raw("c2s", json.dumps(call).replace("progressToken", "progress\\u0054oken").encode())
    tape.say("s2c", method="notifications/progress", params={"progressToken": "t", "progress": 1})
    tape.say("s2c", id=1, result={"content": []})
    assert found_in(tape) == []


def test_what_was_heard_before_a_loss_is_heard_again_after_it() -> None:
    def ping(id_: int, version: str) -> None:
        meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}}
        tape.say("c2s", id=id_, method="tools/list", params={"_meta": meta})

    tape = Tape("stdio")
    tape.items[0].members["observed_start"] = False  # type: ignore[union-attr]
    ping(1, "2026-07-28")
    tape.items.append(Damage("", 0, 10, "checksum"))  # type: ignore[arg-type]
    ping(2, "2026-07-29")
    ping(3, "2026-07-28")
    assert ("version/mixed-on-connection", "note") in tape.checked()[1]


def batch(count: int) -> None:
    """Check a batch of `count` requests."""
    tape = Tape("stdio")
    asked = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(count)]
    tape.raw("c2s", json.dumps(asked).encode())
    tape.checked()


def test_a_huge_batch_costs_no_more_for_each_of_its_items() -> None:
    assert_linear(batch, 200, 1_600)
