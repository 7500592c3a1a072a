"""Messages of extensions that nobody knows: whatever they hold, the core has no error or warning about them."""

import json
from typing import Any, Final, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from analysis.protocol.extensions import KNOWN_METHODS
from analysis.rules.finding import Level
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.talk import META
from tests.analysis.traces import check, stdio

Frame: TypeAlias = tuple[str, dict[str, Any]]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("abc", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["task", "taskId", "uri", "cursor", "nextCursor", "ttlMs", "tools", "inputRequests"]),
            inner,
        )
    ),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(["name", "uri", "cursor", "task", "status", "ttlMs", "events", "a"]), JSON)
OWN_METHODS = ("acme/dig", "com.example/dig/deep", "acme.dig", "events/watch", "vendor/tools/list")
CORE_LIKE_METHODS = ("tools/search", "resources/directory/list", "prompts/render", "tasks/pause", "dig")
"""Names that only an extension which is declared can have."""
TYPES = ("complete", "input_required", "done", "task", "")
CODES = (-32050, -32500, -32002, -32042, -32001, -32601, -32602, -32603, 7, 0)
"""Any but those with which the core reports faults of a message; these mean the same in responses to any method."""
EXTENSION: Final = "com.example/dig"
SERVER: Final = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "demo", "version": "2.1.0"}}}
STREAM_HEAD: Final = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n\r\n"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"


def request(number: int, method: str, params: dict[str, Any]) -> Frame:
    return "c2s", {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}


def result(number: int, members: dict[str, Any]) -> Frame:
    return "s2c", {"jsonrpc": "2.0", "id": number, "result": {"resultType": "complete", **members, **SERVER}}


def notification(direction: str, method: str, params: dict[str, Any]) -> Frame:
    return direction, {"jsonrpc": "2.0", "method": method, "params": params}


def opening(extensions: dict[str, Any]) -> list[Frame]:
    capabilities = {"tools": {}, "resources": {}, "extensions": extensions}
    hints = {"ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"]}
    return [request(1, "server/discover", {}), result(1, {**hints, "capabilities": capabilities})]


def over_http(frames: list[Frame]) -> Case:
    """The same messages over HTTP, where a client cancels a request by closing its stream."""
    told: list[dict[str, Any]] = []
    exchange, is_open = 0, False
    for direction, message in frames:
        if message.get("method") == "notifications/cancelled":
            told.append({"dir": "c2s", "k": "end", "x": exchange, "raw": ""})
            is_open = False
        elif direction == "c2s":
            told += [{"dir": "s2c", "k": "end", "x": exchange, "raw": ""}] if is_open else []
            exchange, is_open = exchange + 1, "id" in message
            fields = {
                "Host": "127.0.0.1:8000",
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": message.get("method", ""),
            }
            head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            raw = f"POST /mcp HTTP/1.1\r\n{head}\r\n{json.dumps(message)}"
            told.append({"dir": "c2s", "k": "req", "x": exchange, "raw": raw})
            if is_open:
                told.append({"dir": "s2c", "k": "head", "x": exchange, "raw": STREAM_HEAD})
            else:
                told.append({"dir": "s2c", "k": "res", "x": exchange, "raw": "HTTP/1.1 202 Accepted\r\n\r\n"})
        elif is_open:
            event = f"event: message\ndata: {json.dumps(message)}\n\n"
            told.append({"dir": "s2c", "k": "sse", "x": exchange, "raw": event})
    case = {"name": "made", "version": "2026-07-28", "transport": "http", "start_observed": True, "frames": told}
    (made,) = cases([json.dumps(case).encode()])
    assert isinstance(made, Case), made
    return made


def grave(frames: list[Frame]) -> list[tuple[str, str]]:
    """The errors and warnings about messages, on stdio and over HTTP."""
    found = [*check(stdio("foreign", *frames, ("c2s", "eof"))), *check(over_http(frames))]
    return [(one.rule, one.finding.message) for one in found if one.level > Level.NOTE]


def notes(frames: list[Frame]) -> list[tuple[str, str]]:
    found = check(stdio("foreign", *frames))
    return [(one.rule, one.finding.message) for one in found if one.rule.startswith("method/")]


def conversation(method: str, params: dict[str, Any], answer: dict[str, Any], type_: str, code: int) -> list[Frame]:
    """Ten messages of an extension: answered, refused, open and cancelled requests, and notifications of both sides."""
    return [
        request(2, method, params),
        notification("s2c", f"notifications/{method}/changed", {**params, "_meta": {SUBSCRIPTION_ID: "x", "ui/a": 1}}),
        result(2, {**answer, "resultType": type_}),
        request(3, method, answer),
        ("s2c", {"jsonrpc": "2.0", "id": 3, "error": {"code": code, "message": "no", "data": answer}}),
        notification("c2s", f"notifications/{method}/seen", params),
        request(4, f"{method}/stream", params),
        notification("s2c", f"notifications/{method}/event", answer),
        notification("c2s", "notifications/cancelled", {"requestId": 4}),
        ("s2c", {"jsonrpc": "2.0", "id": 1, "method": f"{method}/ask", "params": params}),
    ]


@given(
    method=st.sampled_from(OWN_METHODS),
    params=BODIES,
    answer=BODIES,
    type_=st.sampled_from(TYPES),
    code=st.sampled_from(CODES),
)
def test_methods_with_names_of_their_own_are_not_judged(
    method: str, params: dict[str, Any], answer: dict[str, Any], type_: str, code: int
) -> None:
    assert method not in KNOWN_METHODS
    assert grave([*opening({}), *conversation(method, params, answer, type_, code)]) == []


@given(
    method=st.sampled_from([*OWN_METHODS, *CORE_LIKE_METHODS]),
    params=BODIES,
    answer=BODIES,
    type_=st.sampled_from(TYPES),
    code=st.sampled_from(CODES),
)
def test_methods_of_a_declared_extension_are_not_judged(
    method: str, params: dict[str, Any], answer: dict[str, Any], type_: str, code: int
) -> None:
    assert grave([*opening({EXTENSION: {}}), *conversation(method, params, answer, type_, code)]) == []


def test_a_method_of_an_unknown_extension_is_a_note_or_silent() -> None:
    unknown = [request(2, "acme/dig", {}), result(2, {}), notification("s2c", "notifications/acme/dug", {})]
    assert notes([*opening({}), *unknown]) == [
        ("method/unknown-request", "no revision defines the request acme/dig"),
        ("method/unknown-notification", "no revision defines the notification notifications/acme/dug"),
    ]
    assert notes([*opening({EXTENSION: {}}), *unknown]) == []


def test_a_name_that_begins_like_one_of_the_core_is_unknown_whatever_is_declared() -> None:
    mistaken = [request(2, "tools/lst", {}), notification("s2c", "notifications/tools/changed", {})]
    assert notes([*opening({EXTENSION: {}}), *mistaken]) == [
        ("method/unknown-request", "no revision defines the request tools/lst"),
        ("method/unknown-notification", "no revision defines the notification notifications/tools/changed"),
    ]


def test_a_method_of_a_known_extension_is_not_unknown() -> None:
    known = [request(2, "skills/list", {}), notification("s2c", "notifications/events/event", {})]
    assert notes([*opening({}), *known]) == []
