"""Tasks: work that continues after its request was answered, and whose result is fetched later.

Two protocols define tasks. In 2025-11-25 either side can execute tasks, and a request asks for one (`params.task`); in
the extension of later revisions only the server executes them, at its own discretion. The state of a task is learned
from all reports of its executor: the response that created it, `tasks/get`, `tasks/list`, `tasks/cancel` and
notifications.

A task belongs to the session in which it was created, and may outlive it. If an id is new to a session, and the server
has created exactly one task with that id in the capture, it refers to that task. If there are two such tasks, it refers
to neither.

Memory is bounded by the number of tasks and by the bytes of the requests that created them. Forgotten tasks are
counted.
"""

from collections import OrderedDict
from itertools import islice
from math import isfinite
from typing import Any, Final, NamedTuple

from analysis.conversation.message import (
    MISSING,
    Id,
    Message,
    Missing,
    Notification,
    Request,
    Response,
    Side,
    id_of,
    other_side,
)
from analysis.conversation.session import Session
from analysis.facts import size_of
from analysis.protocol.extensions import TASKS

MAX_TASKS: Final = 10_000
"""The most tasks that are kept; the oldest are forgotten first."""
MAX_TOTAL_TASK_BYTES: Final = 8 << 20
"""The most bytes in the frames of the requests that created them; a single request may be larger."""
MAX_REPORTS: Final = 100
"""The most status reports of a task that are kept individually; further ones are only counted."""
MAX_EXAMINED_TASKS: Final = 1_000
"""The most tasks of one `tasks/list` that are examined."""
MAX_STATUS_CHARS: Final = 64
"""The most characters of a status that are kept."""

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The member of `_meta` that names the task to which a message belongs."""
FINAL_STATUSES: Final = frozenset({"completed", "failed", "cancelled"})
"""Statuses that are final."""
TASK_REQUESTS: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel"}) | TASKS.requests
"""Methods of requests about one task."""
REQUESTS: Final = TASK_REQUESTS | {"tasks/list"}
NOTIFICATIONS: Final = frozenset({"notifications/tasks/status", "tasks/status"}) | TASKS.notifications
"""Methods of notifications about a task, including a spelling without the prefix."""


class StatusReport(NamedTuple):
    """A change of status, as reported by the executor."""

    status: str
    """Untrusted text; at most 64 characters."""
    t_ns: int
    seq: int
    """Number of the message's first frame."""


class Task:
    """One task, as far as it is known."""

    def __init__(self, id_: Id, session: Session, executor: Side) -> None:
        self.id = id_
        self.session = session
        """The session in which the task was created or first mentioned."""
        self.executor: Side = executor
        """The side that does the work."""
        self.request: Request | None = None
        """The request that created the task; None if it is not in the capture, or the task had to be forgotten."""
        self.seq: int | None = None
        """Number of the frame of that request; None if it is not in the capture."""
        self.created_ns: int | None = None
        """Stamp of the response that created the task."""
        self.has_reused_id = False
        """Whether an earlier task of the same executor in the session had the same id."""
        self.reports: list[StatusReport] = []
        """The first 100 changes of the status, in order."""
        self.status: str | None = None
        """The status last reported."""
        self.change_count = 0
        """How many times the status has changed, including the first report."""
        self.poll_ms: int | float | None = None
        """Milliseconds to wait between two polls, as last reported."""
        self.ttl_ms: int | float | Missing | None = MISSING
        """Milliseconds for which the task is kept, as last reported; None if unlimited, MISSING if not reported."""
        self.ended_ns: int | None = None
        """Stamp of the first final status."""
        self.cancel_ns: int | None = None
        """Stamp of the first `tasks/cancel` for the task."""
        self.delivered_ns: int | None = None
        """Stamp of the message that contains the result, or an error instead."""
        self.memory: dict[str, Any] = {}
        """State that rules keep, by their ids."""
        self.size = 0
        """How many bytes are in the frames of the request that created the task."""

    @property
    def is_over(self) -> bool:
        """Whether the last status is final."""
        return self.status in FINAL_STATUSES

    @property
    def is_known(self) -> bool:
        """Whether the executor has reported anything about the task; otherwise it was only requested."""
        return self.seq is not None or self.status is not None

    def on_report(self, report: dict[str, Any], message: Message) -> None:
        """Record a status report from the executor."""
        status = report.get("status")
        if isinstance(status, str):
            self._set_status(status[:MAX_STATUS_CHARS], message)
        for name in ("pollInterval", "pollIntervalMs"):
            if _is_number(report.get(name)):
                self.poll_ms = report[name]
        for name in ("ttl", "ttlMs"):
            if name in report and (report[name] is None or _is_number(report[name])):
                self.ttl_ms = report[name]

    def _set_status(self, status: str, message: Message) -> None:
        if status == self.status:
            return
        self.status = status
        self.change_count += 1
        if len(self.reports) < MAX_REPORTS:
            self.reports.append(StatusReport(status, message.t_ns, message.seq))
        if status in FINAL_STATUSES and self.ended_ns is None:
            self.ended_ns = message.t_ns

    def note_delivery(self, t_ns: int) -> None:
        """Note that the result has come."""
        if self.delivered_ns is None:
            self.delivered_ns = t_ns


class Tasks:
    """The tasks of a capture."""

    def __init__(self, limit: int = MAX_TASKS, bytes_limit: int = MAX_TOTAL_TASK_BYTES) -> None:
        """Create an empty table of tasks.

        Args:
            limit: the most tasks that are kept.
            bytes_limit: the most bytes in the requests that created them.
        """
        self.count = 0
        """The number of tasks so far, including tasks that were only requested."""
        self.forgotten_count = 0
        """How many tasks had to be forgotten: later messages about them create new ones."""
        self._limit, self._bytes_limit, self._bytes = limit, bytes_limit, 0
        self._tasks: OrderedDict[tuple[int, Side, Id], Task] = OrderedDict()
        self._created_by_id: dict[Id, list[Task]] = {}
        self.requests_of_tasks: OrderedDict[tuple[int, int | None], Task] = OrderedDict()
        """Tasks whose requests to the other side wait for a response, by frame number and position of these
        requests."""
        self._awaiting_input: dict[tuple[int, Side], dict[Id, Task]] = {}

    def __len__(self) -> int:
        """The number of tasks that are kept."""
        return len(self._tasks)

    def get(self, session: Session, executor: Side, id_: object) -> Task | None:
        """Returns the task to which an id in a message of a session refers, or None if it is unknown or ambiguous."""
        if not isinstance(id_, str):
            return None
        key = id_of(id_)
        task = self._tasks.get((session.number, executor, key))
        if task is None and executor == "server":
            created_tasks = self._created_by_id.get(key, ())
            return created_tasks[0] if len(created_tasks) == 1 else None
        return task

    def tasks_awaiting_input(self, session: Session, executor: Side) -> list[Task]:
        """Returns the tasks of a side in a session that wait for input, as last reported."""
        return list(self._awaiting_input.get((session.number, executor), {}).values())

    def has_task(self, session: Session, id_: str) -> bool:
        """Whether an id refers to a task in a session, even if the task was only requested."""
        key = id_of(id_)
        sides: tuple[Side, ...] = ("server", "client")
        return key in self._created_by_id or any((session.number, side, key) in self._tasks for side in sides)

    # ---- events

    def on_request(self, request: Request, session: Session) -> Task | None:
        """Process a request about tasks; return its task, or None."""
        params = request.params
        if request.method not in TASK_REQUESTS or not isinstance(params, dict):
            return None
        task = self._get_or_create(session, other_side(request.sender), params.get("taskId"))
        if task is not None and request.method == "tasks/cancel" and task.cancel_ns is None:
            task.cancel_ns = request.t_ns
        return task

    def on_response(self, request: Request, response: Response, session: Session) -> Task | None:
        """Process the response to a request that is about a task or may have created one; return the task, or None."""
        if request.method not in REQUESTS:
            return self._create(request, response, session)
        result: Any = response.result
        if request.method == "tasks/list":
            self._record_list(result, response, session)
            return None
        params: Any = request.params
        task = self._get_or_create(session, response.sender, params.get("taskId") if isinstance(params, dict) else None)
        if task is None:
            return None
        if request.method == "tasks/result":
            # The result of a failed task is the error that its request would have returned.
            if not response.is_error or task.status == "failed":
                task.note_delivery(response.t_ns)
        elif isinstance(result, dict) and not response.is_error and _is_about(result, task):
            self._record_report(task, result, response)
            if request.method == "tasks/get" and task.is_over and ("result" in result or "error" in result):
                task.note_delivery(response.t_ns)
        return task

    def on_notification(self, notification: Notification, session: Session) -> Task | None:
        """Process a notification about a task; return the task, or None."""
        params = notification.params
        if not isinstance(params, dict):
            return None
        id_, sender = params.get("taskId"), notification.sender
        task = self.get(session, sender, id_)
        if task is None:
            other_task = self.get(session, other_side(sender), id_)
            if other_task is not None:
                return other_task  # only the executor knows the status of a task
            task = self._get_or_create(session, sender, id_)
        if task is not None:
            self._record_report(task, params, notification)
            if task.is_over and ("result" in params or "error" in params):
                task.note_delivery(notification.t_ns)
        return task

    def on_related_message(self, message: Message, meta: dict[str, Any], session: Session) -> Task | None:
        """Process a message that names a task in its `_meta`; return the task, or None if that is uncertain."""
        related_task = meta.get(RELATED_TASK)
        if not isinstance(related_task, dict):
            return None
        sides: tuple[Side, ...] = ("server", "client")
        tasks = [task for side in sides if (task := self.get(session, side, related_task.get("taskId"))) is not None]
        if len(tasks) != 1:
            return None
        if isinstance(message, Request):
            self.requests_of_tasks[message.seq, message.index] = tasks[0]
            if len(self.requests_of_tasks) > self._limit:
                self.requests_of_tasks.popitem(last=False)
        return tasks[0]

    def pop_task_of_request(self, request: Request) -> Task | None:
        """Remove and return the task of an answered request, or return None; its response also belongs to the task."""
        return self.requests_of_tasks.pop((request.seq, request.index), None)

    def _record_report(self, task: Task, report: dict[str, Any], message: Message) -> None:
        task.on_report(report, message)
        key = task.session.number, task.executor
        if task.status == "input_required":
            self._awaiting_input.setdefault(key, {})[task.id] = task
        elif key in self._awaiting_input:
            self._end_waiting(key, task)

    def _end_waiting(self, key: tuple[int, Side], task: Task) -> None:
        """Note that a task does not wait for input."""
        waiting_tasks = self._awaiting_input[key]
        waiting_tasks.pop(task.id, None)
        if not waiting_tasks:
            del self._awaiting_input[key]

    def _record_list(self, result: Any, response: Response, session: Session) -> None:
        reports = result.get("tasks") if isinstance(result, dict) else None
        for report in islice(reports, MAX_EXAMINED_TASKS) if isinstance(reports, list) else ():
            if isinstance(report, dict):
                task = self._get_or_create(session, response.sender, report.get("taskId"))
                if task is not None:
                    self._record_report(task, report, response)

    def _create(self, request: Request, response: Response, session: Session) -> Task | None:
        """Create the task in a response; return it, or None if there is none.

        The task is under `task` in 2025-11-25; in later revisions, its members are in the result itself.

        """
        result: Any = response.result
        if response.is_error or not isinstance(result, dict):
            return None
        task_report = result.get("task")
        report = task_report if isinstance(task_report, dict) else result
        id_ = report.get("taskId")
        if not isinstance(id_, str):
            return None
        key = session.number, response.sender, id_of(id_)
        task = self._tasks.get(key)
        has_reused_id = task is not None and task.seq is not None
        if task is None or has_reused_id:
            # Otherwise a notification came before the response, or a client knew the id from elsewhere.
            task = self._add(key, session)
        task.request, task.seq, task.created_ns, task.has_reused_id = request, request.seq, response.t_ns, has_reused_id
        task.size = size_of(request.frames)
        self._bytes += task.size
        if response.sender == "server":
            self._created_by_id.setdefault(task.id, []).append(task)
        self._enforce_limits()
        self._record_report(task, report, response)
        return task

    # ---- memory

    def _get_or_create(self, session: Session, executor: Side, id_: object) -> Task | None:
        """Returns the task with an id, created if it is unknown, or None if the id is invalid or ambiguous."""
        task = self.get(session, executor, id_)
        if task is None and isinstance(id_, str):
            key = id_of(id_)
            if len(self._created_by_id.get(key, ())) > 1 and executor == "server":
                return None
            task = self._add((session.number, executor, key), session)
            self._enforce_limits()
        return task

    def _add(self, key: tuple[int, Side, Id], session: Session) -> Task:
        if key in self._tasks:
            self._drop(key)
        self.count += 1
        task = self._tasks[key] = Task(key[2], session, key[1])
        return task

    def _enforce_limits(self) -> None:
        while len(self._tasks) > 1 and (len(self._tasks) > self._limit or self._bytes > self._bytes_limit):
            self._drop(next(iter(self._tasks)))
            self.forgotten_count += 1

    def _drop(self, key: tuple[int, Side, Id]) -> None:
        task = self._tasks.pop(key)
        self._bytes -= task.size
        task.request = None  # a reference to the task must not keep its frames alive
        if key[:2] in self._awaiting_input:
            self._end_waiting(key[:2], task)
        created_tasks = self._created_by_id.get(task.id, [])
        if task in created_tasks:
            created_tasks.remove(task)
            if not created_tasks:
                del self._created_by_id[task.id]


def has_stub(response: Response) -> bool:
    """Whether a result reports a created task, as in 2025-11-25, although none may have been requested."""
    result: Any = response.result
    stub = result.get("task") if isinstance(result, dict) else None
    return isinstance(stub, dict) and isinstance(stub.get("taskId"), str) and isinstance(stub.get("status"), str)


def _is_about(result: dict[str, Any], task: Task) -> bool:
    """Whether a report is about the requested task. A report that names another task proves nothing about either."""
    id_ = result.get("taskId", MISSING)
    return id_ is MISSING or (isinstance(id_, str) and id_of(id_) == task.id)


def _is_number(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and isfinite(value))
