"""Cases that the corpus cannot express about error rules: notes that must not appear, and hostile errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.traces import CORPUS, check, read, stdio

CASES = [case for case in read(CORPUS / "error.ndjson") if "silent" in case.members]

WORDS = [
    "supported",
    "requested",
    "elicitations",
    "requiredCapabilities",
    "uri",
    "url",
    "roots",
    "mode",
    "name",
    "type",
]
WORDS += ["messages", "content", "role", "arguments", "ref", "tools", "prompts", "nextCursor", "cursor", "_meta"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=12,
)
CODES = [-32700, -32603, -32602, -32601, -32600, -32050, -32042, -32022, -32021, -32020, -32002, -32000, -32500, -1]
METHODS = ["initialize", "tools/call", "tools/list", "prompts/get", "prompts/list", "completion/complete", "acme/fly"]
METHODS += ["resources/read", "sampling/createMessage", "roots/list", "elicitation/create", "server/discover"]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_near_miss_gives_no_note_either(case: Any) -> None:
    assert not {one.rule for one in check(case)} & set(case.members["silent"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["c2s", "s2c"]),
            st.sampled_from(METHODS),
            JSON,
            st.one_of(
                st.fixed_dictionaries({"result": JSON}),
                st.fixed_dictionaries({"error": JSON}),
                st.fixed_dictionaries({"code": st.sampled_from(CODES) | SCALARS, "message": JSON, "data": JSON}).map(
                    lambda error: {"error": error}
                ),
            ),
            st.sampled_from([None, "id"]),
        ),
        max_size=8,
    ),
    st.sampled_from(["2024-11-05", "2025-11-25", "2026-07-28", ""]),
    JSON,
)
def test_no_answer_upsets_the_rules(said: list[Any], version: str, capabilities: Any) -> None:
    hello = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "h", "version": "1"}}
    frames: list[Any] = [
        ("c2s", {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": hello}),
        ("s2c", {"jsonrpc": "2.0", "id": "i", "result": hello | {"serverInfo": {"name": "s", "version": "1"}}}),
    ]
    for number, (side, method, params, answer, id_) in enumerate(said):
        back = "s2c" if side == "c2s" else "c2s"
        frames.append((side, {"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        frames.append((back, {"jsonrpc": "2.0", "id": number if id_ else None, **answer}))
    check(stdio("hostile", *frames))


def test_a_flood_of_parse_errors_is_judged_once_the_other_side_goes_on() -> None:
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "No"}}
    ping, pong = {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 1, "result": {}}
    case = stdio("flood", *[("s2c", refusal)] * 500, ("c2s", ping), ("s2c", pong))
    found = [one for one in check(case) if one.rule == "error/parse-error-for-valid-json"]
    assert [one.frame for one in found] == list(range(16))


def test_a_code_of_many_digits_is_not_written_out() -> None:
    answer = '{"jsonrpc":"2.0","id":1,"error":{"code":-' + "9" * 350 + ',"message":"No"}}'
    case = stdio("huge", ("c2s", {"jsonrpc": "2.0", "id": 1, "method": "ping"}), ("s2c", answer))
    (seen,) = [one.finding for one in check(case) if one.rule == "error/seen"]
    assert len(seen.message) < 100


def test_a_withdrawn_code_has_one_meaning_in_the_modern_era() -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "h", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    frames: list[Any] = []
    for number, method in enumerate(("resources/read", "skills/get")):
        params = {"uri": "skill://refunds/SKILL.md", "_meta": meta}
        frames.append(("c2s", {"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        frames.append(("s2c", {"jsonrpc": "2.0", "id": number, "error": {"code": -32002, "message": "No"}}))
    case = stdio("withdrawn", *frames)
    seen = {one.finding.message for one in check(case) if one.rule == "error/seen"}
    assert seen == {"an error: -32002, resource not found, up to 2025-11-25"}
