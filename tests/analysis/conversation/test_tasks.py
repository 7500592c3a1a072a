"""Tasks: which messages belong to which task, and what its executor has reported about it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.call import MessageContext
from analysis.conversation.message import MISSING, Notification, Request, Response
from analysis.conversation.tasks import MAX_REPORTS, NOTIFICATIONS, REQUESTS, Task, Tasks, has_stub
from tests.analysis.talk import MS, Talk

TIMES = {"createdAt": "2026-11-20T10:00:00Z", "lastUpdatedAt": "2026-11-20T10:00:00Z"}
RELATED = "io.modelcontextprotocol/related-task"


def stub(id_: str = "t", status: str = "working", **more: Any) -> dict[str, Any]:
    return {"taskId": id_, "status": status, "ttl": 60_000, **TIMES, **more}


class TaskTalk(Talk):
    """A session whose tasks are followed."""

    def __init__(self, tasks: Tasks | None = None, transport: str = "stdio") -> None:
        self.tasks = tasks if tasks is not None else Tasks()
        self.of: dict[int, Task | None] = {}
        super().__init__(transport)

    def follow(self, context: MessageContext) -> None:
        message, session = context.message, context.session
        found: Task | None = None
        if isinstance(message, Request) and message.method in REQUESTS:
            found = self.tasks.on_request(message, session)
        elif isinstance(message, Response) and context.answered is not None:
            request = context.answered.request
            found = self.tasks.on_response(request, message, session) or self.tasks.pop_task_of_request(request)
        elif isinstance(message, Notification) and message.method in NOTIFICATIONS:
            found = self.tasks.on_notification(message, session)
        if found is None and isinstance(message, Request | Response | Notification):
            found = self.tasks.on_related_message(message, message.meta, session)
        self.of[message.seq] = found

    def about(self, context: MessageContext) -> Task:
        found = self.of[context.message.seq]
        assert found is not None
        return found

    def create(self, id_: str = "t", **more: Any) -> Task:
        """Create a task with a tool call, as in 2025-11-25."""
        self.ask(1, "tools/call", name="slow", arguments={}, task={"ttl": 60_000})
        return self.about(self.answer(1, task=stub(id_, **more)))


@pytest.fixture
def work() -> TaskTalk:
    made = TaskTalk()
    made.handshake()
    return made


def test_a_task_from_its_creation_to_its_result(work: TaskTalk) -> None:
    task = work.create(pollInterval=500)
    assert (task.id.value, task.executor, task.status, task.is_known) == ("t", "server", "working", True)
    assert task.request is not None
    assert (task.request.method, task.request.seq, task.created_ns) == ("tools/call", 4, 5 * MS)
    assert (task.poll_ms, task.ttl_ms) == (500, 60_000)
    for status in ("working", "input_required", "working", "completed"):
        assert work.about(work.ask(2, "tasks/get", taskId="t")) is task
        assert work.about(work.answer(2, **stub(status=status, pollInterval=250))) is task
    assert (task.poll_ms, task.change_count) == (250, 4)
    assert [(one.status, one.t_ns, one.seq) for one in task.reports] == [
        ("working", 5 * MS, 5),
        ("input_required", 9 * MS, 9),
        ("working", 11 * MS, 11),
        ("completed", 13 * MS, 13),
    ]
    assert (task.ended_ns, task.delivered_ns) == (13 * MS, None)
    assert work.about(work.ask(3, "tasks/result", taskId="t")) is task
    assert work.about(work.answer(3, content=[], _meta={RELATED: {"taskId": "t"}})) is task
    assert task.delivered_ns == 15 * MS
    assert work.tasks.count == 1


def test_either_side_executes_tasks_under_ids_of_its_own(work: TaskTalk) -> None:
    ours = work.create()
    work.say("s2c", id=1, method="sampling/createMessage", params={"task": {}, "messages": []})
    theirs = work.about(work.say("c2s", id=1, result={"task": stub("t")}))
    assert (ours.executor, theirs.executor) == ("server", "client")
    assert work.about(work.ask(2, "tasks/get", taskId="t")) is ours
    assert work.about(work.say("s2c", id=2, method="tasks/get", params={"taskId": "t"})) is theirs
    work.say("c2s", method="notifications/tasks/status", params=stub(status="failed"))
    assert (ours.status, theirs.status) == ("working", "failed")
    # It cannot be determined which of the two the message belongs to.
    assert work.of[work.tell("notifications/progress", _meta={RELATED: {"taskId": "t"}}).message.seq] is None


def test_status_is_learned_from_lists_cancellations_and_notifications(work: TaskTalk) -> None:
    a, b = work.create("a"), work.create("b")
    work.ask(5, "tasks/list")
    context = work.answer(5, tasks=[stub("a", "input_required"), 5, {"taskId": 7}, stub("c", "failed"), stub("b")])
    assert work.of[context.message.seq] is None  # it concerns all of them
    assert (a.status, b.status) == ("input_required", "working")
    heard_of = work.about(work.ask(6, "tasks/result", taskId="c"))
    assert (heard_of.status, heard_of.request, heard_of.is_known) == ("failed", None, True)
    assert work.about(work.ask(7, "tasks/cancel", taskId="a")) is a
    work.answer(7, **stub("a", "cancelled"))
    assert (a.status, a.cancel_ns, a.ended_ns) == ("cancelled", 11 * MS, 12 * MS)
    for method in ("notifications/tasks/status", "tasks/status"):
        assert work.about(work.tell(method, **stub("b", "completed", ttl=None))) is b
    assert (b.is_over, b.ended_ns, b.change_count, b.ttl_ms) == (True, 13 * MS, 2, None)


def test_who_does_not_execute_a_task_cannot_tell_how_it_stands(work: TaskTalk) -> None:
    task = work.create()
    context = work.say("c2s", method="notifications/tasks/status", params=stub(status="completed"))
    assert work.about(context) is task
    assert task.status == "working"


def test_a_change_after_the_end_is_kept(work: TaskTalk) -> None:
    task = work.create()
    work.tell("notifications/tasks/status", **stub(status="completed"))
    work.tell("notifications/tasks/status", **stub(status="working"))
    assert [one.status for one in task.reports] == ["working", "completed", "working"]
    assert (task.is_over, task.ended_ns) == (False, 6 * MS)


def test_a_task_ends_when_it_first_says_so(work: TaskTalk) -> None:
    task = work.create()
    work.tell("notifications/tasks/status", **stub(status="completed"))
    work.tell("notifications/tasks/status", **stub(status="failed"))
    assert (task.status, task.ended_ns, task.change_count) == ("failed", 6 * MS, 3)


def test_a_report_about_another_task_is_about_neither(work: TaskTalk) -> None:
    a, b = work.create("a"), work.create("b")
    work.ask(5, "tasks/get", taskId="a")
    assert work.about(work.answer(5, **stub("b", "failed"))) is a
    assert (a.status, b.status) == ("working", "working")


def test_the_error_of_a_task_that_failed_is_its_result(work: TaskTalk) -> None:
    task = work.create()
    work.ask(5, "tasks/result", taskId="t")
    work.refuse(5)
    assert task.delivered_ns is None
    work.tell("notifications/tasks/status", **stub(status="failed"))
    work.ask(6, "tasks/result", taskId="t")
    work.refuse(6, code=-32000)
    assert task.delivered_ns == 10 * MS


def test_a_task_that_was_only_asked_for_is_not_known(work: TaskTalk) -> None:
    task = work.about(work.ask(5, "tasks/get", taskId="nowhere"))
    assert work.about(work.refuse(5)) is task
    assert (task.is_known, task.request, task.status, task.ttl_ms) == (False, None, None, MISSING)


def test_a_notification_may_overtake_the_answer_that_creates_its_task(work: TaskTalk) -> None:
    work.ask(1, "tools/call", name="slow", task={})
    early = work.about(work.tell("notifications/tasks/status", **stub(status="working")))
    overtaken = early.request
    assert work.about(work.answer(1, task=stub())) is early
    assert overtaken is None
    assert early.request is not None
    assert not early.has_reused_id


def test_an_id_that_comes_again_is_another_task(work: TaskTalk) -> None:
    first, second = work.create(), work.create()
    assert first is not second
    assert (first.has_reused_id, second.has_reused_id) == (False, True)
    assert work.about(work.ask(5, "tasks/get", taskId="t")) is second


def test_a_task_that_nobody_asked_for_is_one(work: TaskTalk) -> None:
    for told in ({}, None, "t", {"taskId": "t"}, {"taskId": 1, "status": "working"}, stub()):
        work.ask(1, "tools/call", name="slow")
        context = work.answer(1, task=told)
        assert isinstance(context.message, Response)
        assert has_stub(context.message) == (told == stub())
    assert work.about(context).request is not None


def test_an_answer_of_another_kind_creates_nothing(work: TaskTalk) -> None:
    results: list[dict[str, Any]] = [{}, {"task": "t"}, {"task": {"status": "working"}}, {"taskId": 7}]
    for result in results:
        work.ask(1, "tools/call", name="slow", task={})
        assert work.of[work.answer(1, **result).message.seq] is None
    work.ask(1, "tools/call", name="slow", task={})
    assert work.of[work.refuse(1).message.seq] is None
    assert work.tasks.count == 0


def test_the_extension_tells_all_in_the_result_itself() -> None:
    work = TaskTalk()
    work.ask(1, "tools/call", name="slow")
    told: dict[str, Any] = {"taskId": "t", "ttlMs": 5_000, "pollIntervalMs": 1_000, **TIMES}
    task = work.about(work.answer(1, resultType="task", status="working", **told))
    assert (task.ttl_ms, task.poll_ms, task.status) == (5_000, 1_000, "working")
    work.ask(2, "tasks/get", taskId="t")
    work.answer(2, resultType="complete", status="input_required", inputRequests={"k": {}}, **told)
    assert work.about(work.ask(3, "tasks/update", taskId="t", inputResponses={"k": {}})) is task
    assert work.about(work.answer(3, resultType="complete")) is task
    assert work.about(work.tell("notifications/tasks", status="working", **told)) is task
    assert task.delivered_ns is None
    work.ask(4, "tasks/get", taskId="t")
    work.answer(4, resultType="complete", status="completed", result={"content": []}, **told)
    assert [one.status for one in task.reports] == ["working", "input_required", "working", "completed"]
    assert task.ended_ns == task.delivered_ns == 9 * MS


def test_a_notification_of_the_extension_may_bring_the_result() -> None:
    work = TaskTalk()
    work.ask(1, "tools/call", name="slow")
    task = work.about(work.answer(1, resultType="task", taskId="t", status="working"))
    work.tell("notifications/tasks", taskId="t", status="failed", error={"code": 1, "message": ""})
    assert task.delivered_ns == 3 * MS


def test_messages_say_of_which_task_they_are_part(work: TaskTalk) -> None:
    task = work.create()
    meta = {RELATED: {"taskId": "t"}}
    asked = work.say("s2c", id=9, method="elicitation/create", params={"message": "?", "_meta": meta})
    assert work.about(asked) is task
    assert work.about(work.say("c2s", id=9, result={"action": "decline"})) is task
    assert work.about(work.answer(8, _meta=meta)) is task
    assert not work.tasks.requests_of_tasks
    for wrong in ({}, {RELATED: "t"}, {RELATED: {"taskId": "u"}}, {RELATED: {"taskId": ["t"]}}):
        assert work.of[work.tell("notifications/message", _meta=wrong).message.seq] is None
    assert work.tasks.count == 1


def http(work: TaskTalk, number: int, session: str) -> None:
    work.http(number, mcp_session_id=session)


def test_a_task_outlives_its_session() -> None:
    work = TaskTalk(transport="http")
    http(work, 1, "a")
    work.ask(1, "tools/call", 1, task={}, _meta={})
    task = work.about(work.answer(1, 1, task=stub()))
    http(work, 2, "b")
    assert work.about(work.ask(1, "tasks/get", 2, taskId="t", _meta={})) is task
    work.answer(1, 2, **stub(status="completed"))
    assert task.is_over
    assert [one.number for one in work.fold.routing.sessions()] == [1, 2]
    assert task.session.number == 1


def test_sessions_whose_server_counts_tasks_for_each_are_told_apart() -> None:
    work = TaskTalk(transport="http")
    tasks = {}
    for number, session in ((1, "a"), (2, "b")):
        http(work, number, session)
        work.ask(1, "tools/call", number, task={}, _meta={})
        tasks[session] = work.about(work.answer(1, number, task=stub("1")))
    for number, session in ((3, "b"), (4, "a")):
        http(work, number, session)
        assert work.about(work.ask(2, "tasks/get", number, taskId="1", _meta={})) is tasks[session]
    http(work, 5, "c")
    assert work.of[work.ask(2, "tasks/get", 5, taskId="1", _meta={}).message.seq] is None  # it could be either one


def test_a_task_of_a_client_stays_in_its_session() -> None:
    work = TaskTalk(transport="http")
    for number, session in ((1, "a"), (2, "b")):
        http(work, number, session)
    work.say("s2c", 1, id=1, method="sampling/createMessage", params={"task": {}})
    theirs = work.about(work.say("c2s", 1, id=1, result={"task": stub()}))
    other = work.about(work.say("s2c", 2, id=2, method="tasks/get", params={"taskId": "t"}))
    assert other is not theirs
    assert not other.is_known


def test_which_tasks_wait_for_input_is_known_for_each_side(work: TaskTalk) -> None:
    session = work.fold.routing.begin_pipe(0)
    a, b = work.create("a"), work.create("b")
    assert work.tasks.tasks_awaiting_input(session, "server") == []
    for id_ in ("a", "b"):
        work.tell("notifications/tasks/status", **stub(id_, "input_required"))
    assert work.tasks.tasks_awaiting_input(session, "server") == [a, b]
    assert work.tasks.tasks_awaiting_input(session, "client") == []
    work.ask(5, "tasks/get", taskId="a")
    work.answer(5, **stub("a", "working"))
    assert work.tasks.tasks_awaiting_input(session, "server") == [b]
    work.create("b")  # a new task, which is working
    assert work.tasks.tasks_awaiting_input(session, "server") == []


def test_an_id_may_name_a_task_that_was_created_or_asked_for(work: TaskTalk) -> None:
    session = work.fold.routing.begin_pipe(0)
    work.create("a")
    work.ask(5, "tasks/get", taskId="b")
    assert [work.tasks.has_task(session, id_) for id_ in "abc"] == [True, True, False]


# Memory.


def test_changes_without_end_are_counted(work: TaskTalk) -> None:
    task = work.create()
    for n in range(MAX_REPORTS * 2):
        work.tell("notifications/tasks/status", **stub(status=f"{n % 2}" + "x" * 1_000))
    assert (len(task.reports), task.change_count) == (MAX_REPORTS, MAX_REPORTS * 2 + 1)
    assert task.status is not None
    assert len(task.status) == 64


def test_the_oldest_tasks_are_forgotten_and_counted() -> None:
    work = TaskTalk(Tasks(limit=10))
    first = work.create("0")
    for n in range(1, 25):
        work.create(f"{n}")
    assert (len(work.tasks), work.tasks.forgotten_count) == (10, 15)
    assert (first.request, first.seq) == (None, 1)
    session = work.fold.routing.begin_pipe(0)
    assert work.tasks.get(session, "server", "14") is None
    assert work.tasks.get(session, "server", "15") is not None


def test_tasks_are_bounded_by_the_bytes_of_their_requests_too() -> None:
    work = TaskTalk(Tasks(bytes_limit=10_000))
    for n in range(20):
        work.ask(1, "tools/call", task={}, arguments={"x": "x" * 2_500})
        work.answer(1, task=stub(f"{n}"))
    assert len(work.tasks) == 3
    work.ask(1, "tools/call", task={}, arguments={"x": "x" * 20_000})
    work.answer(1, task=stub("giant"))
    assert (len(work.tasks), work.tasks.forgotten_count) == (1, 20)


def test_long_ids_are_short_keys(work: TaskTalk) -> None:
    task = work.create("x" * 100_000)
    assert work.about(work.ask(5, "tasks/get", taskId="x" * 100_000)) is task
    assert work.about(work.ask(6, "tasks/get", taskId="x" * 99_999)) is not task
    assert len(task.id.value) < 100


@pytest.mark.parametrize("number", ["NaN", "1e400", "-Infinity", "true", '"5"', "[]", "1" * 500])
def test_what_is_no_number_is_no_time(work: TaskTalk, number: str) -> None:
    task = work.create()
    told = '{"taskId":"t","status":"working","ttl":%b,"pollInterval":%b}'
    raw = b'{"jsonrpc":"2.0","method":"notifications/tasks/status","params":%b}' % told.encode()
    work.raw("s2c", raw.replace(b"%b", number.encode()))
    assert (task.ttl_ms, task.poll_ms) == (60_000, None)


# Any conversation.

scalars = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.floats() | st.sampled_from(["a", "b", "working", "failed"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["taskId", "status"]), inner),
    max_leaves=4,
)
bodies = values | st.dictionaries(
    st.sampled_from(["taskId", "status", "task", "tasks", "ttl", "pollIntervalMs", "result", "error", "resultType"]),
    values | st.fixed_dictionaries({"taskId": st.sampled_from(["a", "b"]), "status": scalars}),
)
methods = st.sampled_from([*sorted(REQUESTS), *sorted(NOTIFICATIONS), "tools/call"])
steps = st.lists(st.tuples(st.sampled_from(["c2s", "s2c"]), st.integers(0, 4), methods, bodies), max_size=25)


@given(steps)
def test_nothing_raises_and_memory_is_bounded(script: list[tuple[Any, int, str, Any]]) -> None:
    work = TaskTalk(Tasks(limit=3))
    for direction, act, method, body in script:
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        if act < 2:
            message |= {"id": 1, "method": method, "params": body}
        elif act < 4:
            message |= {"id": 1, "result": body}
        else:
            message |= {"method": method, "params": {"_meta": {RELATED: body}} if act % 2 else body}
        work.raw(direction, json.dumps(message).encode())
    assert len(work.tasks) <= 3
    assert work.tasks.count >= len(work.tasks) + work.tasks.forgotten_count
    for task in work.of.values():
        assert task is None or task.change_count >= len(task.reports)
