"""Rules about the reports of executors on their tasks: shapes, statuses, times and lists."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Id, Side, id_of
from analysis.conversation.tasks import MAX_EXAMINED_TASKS
from analysis.rules.base import WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.task_reports import (
    PAGE,
    REPORTING_METHODS,
    STATUS_NOTIFICATION,
    TASK_METHODS,
    TASK_REVISIONS,
    TaskReport,
    TaskReportRule,
    TerminalStatusChanged,
    is_creating,
    may_cross,
)
from analysis.rules.support.walks import cursor_of
from analysis.shapes.shape import Problem

MAX_REPORT_FINDINGS: Final = 10
"""The most findings of one rule about one message."""
MAX_TIME_CHARS: Final = 64
"""The most characters of a valid time."""
MAX_OPEN_LISTS: Final = 16
"""The most lists of one side that are requested at the same time."""
MAX_LISTED_TASKS: Final = 10_000
"""The most tasks of one list; a longer list is treated as unknown."""

_TASK_MEMBERS: Final = frozenset({"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"})
_METHODS_WITH_TASK_ID: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
_TIME_MEMBERS: Final = ("createdAt", "lastUpdatedAt")
# `datetime` does not accept hours alone, leap seconds, or midnight at the end of a day.
_match_iso_time: Final = re.compile(
    r"\d{4}-?\d{2}-?\d{2}T\d{2}(?::?\d{2}(?::?\d{2})?)?(?:[.,]\d+)?(?:Z|[+-]\d{2}(?::?\d{2})?)?", re.ASCII
).fullmatch


class InvalidShape(TaskReportRule):
    """A task lacks a required member, or has one of the wrong type.

    **Why it matters.** Clients need these members to poll: without a status they cannot tell whether the task still
    runs, and without `ttl` they do not know how long the result is kept.

    **On the wire.** `< {"id":4,"result":{"taskId":"t1","status":"running","createdAt":"today"}}`

    **Instead.** Send `taskId`, `status` (`working`, `input_required`, `completed`, `failed`, `cancelled`), `createdAt`
    and `lastUpdatedAt` in ISO 8601, and `ttl` in milliseconds or null. In requests: `taskId`.
    """

    id = "tasks/invalid-shape"
    needs_session = True
    impact = Impact.MESSAGE
    methods = REPORTING_METHODS | {"tasks/result"}
    replaces = ("schema/*",)
    source = f"{PAGE}, schema"

    def on_problems(self, context: MessageContext, problems: list[Problem]) -> Iterable[Finding]:
        return self.capped(
            self.finding(context, problem.text, pointer=problem.pointer)
            for problem in problems
            if _is_of_task(context, problem)
        )

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return [*super().on_result(context)][:MAX_REPORT_FINDINGS]

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterator[Finding]:
        for name in _TIME_MEMBERS:
            text = report.body.get(name)
            if isinstance(text, str) and not _is_time(text):
                yield self.finding(context, f"{name} is not an ISO 8601 time", pointer=f"{report.pointer}/{name}")


class TerminalChanged(TerminalStatusChanged):
    """A finished task continues, or changes its final status.

    **Why it matters.** Clients that have seen the task end have already fetched its result and told the user, and no
    longer poll.

    **On the wire.** `< …"taskId":"t1","status":"completed"` … `< …"taskId":"t1","status":"working"`

    **Instead.** Keep the status after `completed`, `failed` or `cancelled`: it must not change again.
    """

    id = "tasks/terminal-changed"
    needs_session = True


@dataclass(slots=True)
class _Times:
    """The times in the last report of a task."""

    created: datetime | None = None
    updated: datetime | None = None
    seq: int = -1
    t_ns: int = 0
    reported_texts: set[str] = field(default_factory=set)


class CreatedAtChanged(TaskReportRule):
    """The times of a task contradict each other.

    **Why it matters.** `createdAt` and `ttl` together say how long a task is kept. If `createdAt` changes, clients
    request tasks that no longer exist, or give up on tasks that do.

    **On the wire.** `< …"createdAt":"2026-01-01T10:00:00Z"` … `< …"createdAt":"2026-01-01T10:05:00Z"`

    **Instead.** Store the time of creation with the task. The time of the last change belongs in `lastUpdatedAt`.
    """

    id = "tasks/created-at-changed"
    needs_session = True
    level = WARNING

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterator[Finding]:
        if report.task is None:
            return
        times: _Times = report.task.memory.setdefault(self.id, _Times())
        created_at, updated_at = (_time_of(report.body.get(name)) for name in _TIME_MEMBERS)
        for name, text in _contradictions(context, times, created_at, updated_at):
            if text not in times.reported_texts:
                times.reported_texts.add(text)
                related = () if times.seq < 0 else (times.seq,)
                yield self.finding(context, text, pointer=f"{report.pointer}/{name}", related=related)
        times.created, times.updated = created_at or times.created, updated_at or times.updated
        times.seq, times.t_ns = context.message.seq, context.message.t_ns


class FailedWithoutMessage(TaskReportRule):
    """A task has failed without saying why.

    **Why it matters.** The user learns only that the task failed, not what to do about it.

    **On the wire.** `< {"id":4,"result":{"taskId":"t1","status":"failed",…}}`

    **Instead.** Send, for example, `"statusMessage":"the build ran out of memory"`.
    """

    id = "tasks/failed-without-message"
    needs_session = True
    level = WARNING
    impact = Impact.HINT
    methods = frozenset({"tasks/get"})

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterable[Finding]:
        if report.body.get("status") != "failed" or report.body.get("statusMessage") is not None:
            return ()
        if (
            report.task is not None
            and report.task.memory.setdefault(self.id, context.message.seq) != context.message.seq
        ):
            return ()
        return [self.finding(context, "a failed task has no statusMessage", pointer=f"{report.pointer}/status")]


class StatusFromRequestor(Rule):
    """The side that requested a task reports its status.

    **Why it matters.** Only the side that does the work knows the status. It ignores such a report, or is misled by it.

    **On the wire.** `> {"method":"tools/call",…,"task":{}}` `< {"result":{"task":{"taskId":"t1",…}}}`
    `> {"method":"notifications/tasks/status","params":{"taskId":"t1",…}}`

    **Instead.** Request the status with `tasks/get`, and end the task with `tasks/cancel`.
    """

    id = "tasks/status-from-requestor"
    needs_session = True
    versions = TASK_REVISIONS
    methods = frozenset({STATUS_NOTIFICATION})
    source = PAGE

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        task, sender = context.task, context.message.sender
        if task is None or task.executor == sender or task.seq is None or context.session.lost_seq >= 0:
            return ()
        if is_creating(context.session, sender, self.fold):
            return ()  # the sender may run another task with that id
        text = f"the {sender} reports the status of a task of the {task.executor}"
        return [self.finding(context, text, pointer="/params/taskId", related=(task.seq,))]


class _TaskListing:
    """A list of tasks that is being fetched, beginning with its first page."""

    __slots__ = ("ids", "last_seq", "requested_seq")

    def __init__(self, requested_seq: int) -> None:
        self.requested_seq = requested_seq
        """Number of the request for the first page."""
        self.last_seq = requested_seq
        """Number of the message with the last page."""
        self.ids: set[Id] = set()


class _SideLists:
    """The lists of tasks that one side sends."""

    __slots__ = ("incomplete", "last_complete")

    def __init__(self) -> None:
        self.incomplete: OrderedDict[Id, _TaskListing] = OrderedDict()
        """Incomplete lists, by the cursor of the next page."""
        self.last_complete: _TaskListing | None = None
        """The last complete list."""


class MissingFromList(Rule):
    """A task is missing from the list, although the same side answers requests about it.

    **Why it matters.** Clients use the list to find tasks of an earlier run, so a task that is missing from it is lost
    to them.

    **On the wire.** `< …"task":{"taskId":"t1",…}`, then `> {"id":5,"method":"tasks/list"}`
    `< {"id":5,"result":{"tasks":[]}}`, then `< …"taskId":"t1","status":"working"` in answer to `tasks/get`

    **Instead.** List every task that `tasks/get` finds, on as many pages as necessary.
    """

    id = "tasks/missing-from-list"
    needs_session = True
    versions = TASK_REVISIONS
    impact = Impact.MESSAGE
    methods = frozenset({"tasks/list", "tasks/get"})
    source = PAGE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        lists_by_side: dict[Side, _SideLists] = self.state_for(context.session, dict)
        lists = lists_by_side.setdefault(context.message.sender, _SideLists())
        if context.method == "tasks/list":
            self._record_page(context, lists)
            return ()
        task, listing, request = context.task, lists.last_complete, context.request
        if (
            task is None
            or listing is None
            or request is None
            or request.seq < listing.last_seq
            or task.id in listing.ids
        ):
            return ()
        if not task.reports or task.reports[0].seq >= listing.requested_seq or task.session is not context.session:
            return ()
        result = context.body["result"]
        if not isinstance(member(result, "status"), str) or member(result, "taskId") != member(
            request.params, "taskId"
        ):
            return ()
        if task.memory.setdefault(self.id, context.message.seq) != context.message.seq:
            return ()
        text = "an existing task was missing from the list"
        return [
            self.finding(context, text, pointer="/result/taskId", related=(listing.requested_seq, listing.last_seq))
        ]

    def _record_page(self, context: MessageContext, lists: _SideLists) -> None:
        request, result = context.request, context.body["result"]
        items = member(result, "tasks")
        if request is None or not isinstance(items, list):
            return
        cursor = cursor_of(request)
        listing = _TaskListing(request.seq) if cursor is None else lists.incomplete.pop(cursor, None)
        if listing is None or len(items) > MAX_EXAMINED_TASKS or len(listing.ids) > MAX_LISTED_TASKS:
            return
        listing.ids.update(id_of(task["taskId"]) for task in items if isinstance(member(task, "taskId"), str))
        listing.last_seq = context.message.seq
        next_cursor: Any = member(result, "nextCursor")
        if next_cursor is None:
            lists.last_complete = listing
        elif isinstance(next_cursor, str):
            lists.incomplete[id_of(next_cursor)] = listing
            if len(lists.incomplete) > MAX_OPEN_LISTS:
                lists.incomplete.popitem(last=False)


# ---- shared by the rules


def _is_of_task(context: MessageContext, problem: Problem) -> bool:
    """Whether a problem concerns a member that every task must have."""
    if problem.kind not in ("shape", "scalar", "null"):
        return False
    parent, _, name = problem.pointer.rpartition("/")
    if name not in _TASK_MEMBERS:
        return False
    if context.answered is None:
        return parent == "/params" and (
            context.method == STATUS_NOTIFICATION or (name == "taskId" and context.method in _METHODS_WITH_TASK_ID)
        )
    return parent == "/result/task" if context.method in TASK_METHODS else parent.startswith("/result")


def _is_time(text: str) -> bool:
    return len(text) <= MAX_TIME_CHARS and (_match_iso_time(text) is not None or _time_of(text) is not None)


def _time_of(value: object) -> datetime | None:
    """Returns the time in a text, or None if it is not a time."""
    if not isinstance(value, str) or len(value) > MAX_TIME_CHARS:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def _contradictions(
    context: MessageContext, times: _Times, created_at: datetime | None, updated_at: datetime | None
) -> Iterator[tuple[str, str]]:
    if _is_before(updated_at, created_at):
        yield "lastUpdatedAt", "a task was last updated before it was created"
    if _is_before(created_at, times.created) or _is_before(times.created, created_at):
        yield "createdAt", "createdAt has changed"
    elif _is_before(updated_at, times.updated) and not may_cross(context, times.t_ns):
        yield "lastUpdatedAt", "lastUpdatedAt moves backwards"


def _is_before(moment: datetime | None, other: datetime | None) -> bool:
    if moment is None or other is None or (moment.tzinfo is None) != (other.tzinfo is None):
        return False
    try:
        return moment < other
    except OverflowError:
        return False
