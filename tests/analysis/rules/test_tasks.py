"""Cases that the corpus cannot express about task rules: no message makes them raise, and their memory is bounded."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.message import Notification
from analysis.conversation.session import CLIENT_CAPABILITIES, PROTOCOL_VERSION, SERVER_INFO
from analysis.conversation.tasks import RELATED_TASK
from analysis.rules.discovery import group_of
from analysis.rules.ext_tasks.keys import MAX_KEYS_PER_TASK, TaskKeys
from analysis.rules.tasks.related_tasks import MAX_UNKNOWN_TASKS
from tests.analysis.talk import Talk
from tests.analysis.traces import Found, check, grave, stdio
from tests.examples import examples

GROUPS: Final = ("tasks", "ext-tasks")
TASKS: Final[dict[str, Any]] = {
    "list": {},
    "cancel": {},
    "requests": {"tools": {"call": {}}, "sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
}
HANDSHAKE: Final = (
    (
        "c2s",
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tasks": TASKS, "sampling": {}, "elicitation": {}},
                "clientInfo": {"name": "pen", "version": "1"},
            },
        },
    ),
    (
        "s2c",
        {
            "jsonrpc": "2.0",
            "id": 0,
            "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tasks": TASKS, "tools": {}, "logging": {}},
                "serverInfo": {"name": "ink", "version": "2"},
            },
        },
    ),
    ("c2s", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
)

scalars = st.none() | st.booleans() | st.integers(-1, 2**70) | st.floats(allow_nan=False) | st.text(max_size=3)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["q", "taskId", "type"]), inner),
    max_leaves=5,
)
times = st.sampled_from(["2026-01-01T10:00:00Z", "2026-01-01T10:00:00", "0001-01-01T00:00:00+23:59", "today"])
parts: dict[str, st.SearchStrategy[Any]] = {
    "taskId": st.sampled_from(["a", "b"]),
    "status": st.sampled_from(["working", "input_required", "completed", "failed", "cancelled", "x" * 300]),
    "createdAt": times,
    "lastUpdatedAt": times,
    "ttl": st.integers(0, 9),
    "pollInterval": st.integers(0, 9) | st.floats(0, 1e300),
    "ttlMs": st.none() | st.integers(0, 9),
    "pollIntervalMs": st.integers(0, 9),
    "cursor": st.sampled_from(["p", "q"]),
    "nextCursor": st.sampled_from(["p", "q"]),
    "progressToken": st.sampled_from([1, "a"]),
    "resultType": st.sampled_from(["task", "complete", "input_required"]),
    "isError": st.booleans(),
    "name": st.sampled_from(["dig", "sum"]),
    "inputRequests": st.dictionaries(st.text(max_size=1), anything, max_size=3),
    "inputResponses": st.dictionaries(st.text(max_size=1), anything, max_size=3),
    "notifications": st.fixed_dictionaries({"taskIds": st.lists(st.sampled_from(["a", "b"]), max_size=2)}),
}
members = {name: st.one_of(usual, usual, usual, anything) for name, usual in parts.items()}
task = st.fixed_dictionaries({}, optional=members)
metas = st.fixed_dictionaries(
    {},
    optional={
        PROTOCOL_VERSION: st.just("2026-07-28"),
        CLIENT_CAPABILITIES: st.just({}) | st.just({"extensions": {"io.modelcontextprotocol/tasks": {}}}) | anything,
        SERVER_INFO: anything,
        RELATED_TASK: st.fixed_dictionaries({"taskId": st.sampled_from(["a", "c"])}) | anything,
        "progressToken": st.sampled_from([1, "a"]) | anything,
    },
)
tools = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["dig", "sum"]), "inputSchema": st.just({"type": "object"})},
        optional={
            "execution": st.fixed_dictionaries({"taskSupport": st.sampled_from(["forbidden", "required"])}) | anything
        },
    ),
    max_size=2,
)
bodies = st.builds(
    lambda body, more: {**body, **more},
    task,
    st.fixed_dictionaries(
        {},
        optional={
            "task": task | anything,
            "tasks": st.lists(task | anything, max_size=3),
            "tools": tools | anything,
            "_meta": metas | anything,
        },
    ),
)
requests = st.sampled_from(
    [
        *("tools/call", "tools/list", "sampling/createMessage", "elicitation/create", "prompts/get"),
        *("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update", "subscriptions/listen"),
    ]
)
notifications = st.sampled_from(
    [
        *("notifications/tasks/status", "notifications/tasks", "notifications/progress", "tasks/status"),
        "notifications/subscriptions/acknowledged",
    ]
)
ids = st.integers(1, 4)
errors = st.fixed_dictionaries(
    {
        "code": st.sampled_from([-32601, -32602, -32603, -32021, 2**70]),
        "message": st.sampled_from(["Task not found", "Invalid cursor", "the task is already completed", "x" * 500]),
    }
)
said = st.one_of(
    st.fixed_dictionaries({"id": ids, "method": requests, "params": bodies | anything}),
    st.fixed_dictionaries({"method": notifications, "params": bodies | anything}),
    st.fixed_dictionaries({"id": ids, "result": bodies | anything}),
    st.fixed_dictionaries({"id": ids, "error": errors | anything}),
)


@pytest.mark.parametrize("opening", [HANDSHAKE, ()], ids=["handshake", "modern"])
@examples(20)
@given(st.lists(st.tuples(st.sampled_from(["c2s", "s2c"]), said), max_size=20))
def test_no_rule_raises_for_any_messages(opening: tuple[Any, ...], frames: list[tuple[str, Any]]) -> None:
    said = [(direction, {"jsonrpc": "2.0", **message}) for direction, message in frames]
    found = [one.finding for one in check(stdio("anything", *opening, *said)) if group_of(one.rule) in GROUPS]
    assert all(len(one.message) < 250 for one in found)


def told(method: str, **params: Any) -> tuple[str, dict[str, Any]]:
    return "s2c", {"jsonrpc": "2.0", "method": method, "params": params}


def rules_in(found: list[Found]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for (rule, _), count in grave(found).items():
        counts[rule] = counts.get(rule, 0) + count
    return counts


def test_unknown_tasks_are_reported_up_to_a_limit() -> None:
    flood = [
        told("notifications/message", level="info", data="x", _meta={RELATED_TASK: {"taskId": f"t{n}"}})
        for n in range(MAX_UNKNOWN_TASKS * 3)
    ]
    assert rules_in(check(stdio("flood", *HANDSHAKE, *flood))) == {"tasks/related-task-unknown": MAX_UNKNOWN_TASKS}


def test_keys_are_remembered_up_to_a_bound() -> None:
    talk, keys = Talk("stdio"), TaskKeys()
    question = {"method": "roots/list"}
    for n in range(MAX_KEYS_PER_TASK // 50):
        seen = talk.tell("notifications/tasks", taskId="t", status="input_required")
        assert isinstance(seen.message, Notification)
        asked = {f"{n}/{m}": question for m in range(100)}
        assert keys.add_questions(seen.message, asked, is_http=False) == []
        keys.mark_accepted(asked)
    assert len(keys.accepted_keys) == MAX_KEYS_PER_TASK
