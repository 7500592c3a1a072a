"""The rules about eras: no message makes them fail, and their memory is bounded."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.session import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from analysis.protocol.methods import METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import REVISIONS
from analysis.rules.base import Rule
from analysis.rules.discovery import group_of, rules
from captures.frames import FrameAssembler
from captures.record import decode
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.judged import Judged
from tests.analysis.traces import check, grave, stdio
from tests.examples import examples

GROUPS = ("lifecycle", "version", "modern", "method")

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=6
)
versions = st.sampled_from([*REVISIONS, "2026-09-01", "draft", "DRAFT-1", "1.0", ""]) | anything
capabilities = st.fixed_dictionaries({}, optional={"extensions": anything, "sampling": anything}) | anything
meta = anything | st.fixed_dictionaries(
    {}, optional={PROTOCOL_VERSION: versions, CLIENT_CAPABILITIES: capabilities, CLIENT_INFO: anything}
)
names = st.sampled_from([*METHODS, *UNPREFIXED_NOTIFICATIONS]) | st.text(max_size=20)
params = anything | st.fixed_dictionaries(
    {},
    optional={"_meta": meta, "protocolVersion": versions, "capabilities": capabilities, "clientInfo": anything},
)
data = anything | st.fixed_dictionaries(
    {},
    optional={"supported": st.lists(versions) | anything, "requested": versions, "requiredCapabilities": capabilities},
)
errors = anything | st.fixed_dictionaries(
    {"code": st.sampled_from([-32601, -32602, -32020, -32021, -32022]) | anything},
    optional={"message": anything, "data": data},
)
results = anything | st.fixed_dictionaries(
    {},
    optional={
        "resultType": st.sampled_from(["complete", "task"]) | anything,
        "supportedVersions": st.lists(versions) | anything,
        "protocolVersion": versions,
        "capabilities": capabilities,
        "tools": st.lists(anything),
        "_meta": anything,
    },
)
ids = st.sampled_from([1, 2, "1", None])
said = st.one_of(
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "method": names}, optional={"id": ids, "params": params}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": ids, "result": results}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": ids, "error": errors}),
)


def picked() -> list[type[Rule]]:
    return [rule for name, rule in rules().items() if group_of(name) in GROUPS]


def faults_of(case: Case) -> dict[str, str]:
    checker, assembler = Judged(picked()), FrameAssembler()
    for _, line in case.records():
        record = decode(line.rstrip(b"\n"), 0, json.loads)
        assert record is not None
        item = assembler.feed(record)
        if item is not None:
            checker.feed(item)
    for frame in assembler.finish():
        checker.feed(frame)
    checker.finish("closed")
    return checker.faults


@examples(40)
@given(st.lists(st.tuples(st.sampled_from(["c2s", "s2c"]), said), max_size=12))
def test_no_rule_raises_for_any_messages(frames: list[tuple[str, Any]]) -> None:
    assert faults_of(stdio("anything", *frames)) == {}


def over_http(fields: list[str], body: object, status: str, answer: object) -> Case:
    head = "\r\n".join(["POST /mcp HTTP/1.1", "Host: a", "Content-Type: application/json", *fields])
    told = {
        "name": "anything",
        "transport": "http",
        "frames": [
            {"dir": "c2s", "x": 1, "k": "req", "raw": f"{head}\r\n\r\n{json.dumps(body)}"},
            {
                "dir": "s2c",
                "x": 1,
                "k": "res",
                "raw": f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{json.dumps(answer)}",
            },
        ],
    }
    (case,) = cases([json.dumps(told).encode()])
    assert isinstance(case, Case), case
    return case


@examples(30)
@given(
    st.lists(st.sampled_from(["MCP-Protocol-Version: x", "MCP-Protocol-Version: 2026-07-28", "Mcp-Session-Id: s"])),
    said,
    st.sampled_from(["200 OK", "400 Bad Request", "404 Not Found"]),
    said,
)
def test_no_rule_fails_over_http(fields: list[str], body: object, status: str, answer: object) -> None:
    assert faults_of(over_http(fields, body, status, answer)) == {}


def test_what_a_server_says_first_is_kept_up_to_a_bound() -> None:
    early = [("s2c", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})] * 3000
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "pen", "version": "1"}},
    }
    found = grave(check(stdio("flood", *early, ("c2s", opening))))
    told = sum(count for (rule, _), count in found.items() if rule == "lifecycle/server-frame-before-initialize")
    assert told == 1000


def test_findings_quote_no_long_untrusted_text() -> None:
    method = "x" * 5000
    frames = [
        ("c2s", {"jsonrpc": "2.0", "id": 1, "method": method}),
        ("c2s", {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {"protocolVersion": "v" * 5000}}),
        ("c2s", {"jsonrpc": "2.0", "id": 3, "method": method, "params": {"_meta": {PROTOCOL_VERSION: "w" * 5000}}}),
    ]
    found = [one.finding for one in check(stdio("long", *frames)) if group_of(one.rule) in GROUPS]
    assert found
    assert max(len(one.message) for one in found) < 200
