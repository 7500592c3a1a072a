"""Reports of executors about their tasks, in either protocol, and the rules that apply to both.

A report is an executor's statement about one task, in the response that creates it, in a later response, or in a
notification. A finished task never changes its status, so a report that contradicts an earlier one is its sender's
mistake.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Notification, Response, Side, id_of
from analysis.conversation.session import Session
from analysis.conversation.tasks import (
    FINAL_STATUSES,
    MAX_EXAMINED_TASKS,
    MAX_STATUS_CHARS,
    REQUESTS,
    StatusReport,
    Task,
    has_stub,
)
from analysis.facts import code_of
from analysis.protocol import features
from analysis.protocol.error_codes import INVALID_PARAMS
from analysis.protocol.revisions import Span
from analysis.rules.base import RACE_NS, WARNING, Rule
from analysis.rules.error.codes import code_text, text_of
from analysis.rules.finding import Finding
from analysis.rules.support.eras import shortened

PAGE: Final = "2025-11-25 basic/utilities/tasks"
TASK_REVISIONS: Final[Span] = features.CORE_TASKS
TASK_METHODS: Final = frozenset({"tools/call", "sampling/createMessage", "elicitation/create"})
"""Requests that may run as a task in 2025-11-25."""
STATUS_NOTIFICATION: Final = "notifications/tasks/status"
REPORTING_METHODS: Final = TASK_METHODS | {"tasks/get", "tasks/list", "tasks/cancel", STATUS_NOTIFICATION}
"""Methods that report tasks in 2025-11-25."""
STATUSES: Final = FINAL_STATUSES | {"working", "input_required"}

# Enum members are slow to look up.
_TASK: Final = Outcome.TASK
_MAX_SEARCHED_CALLS: Final = 100
_NEW_TASK_MEMBERS: Final = frozenset({"task"})
_TASK_ID_MEMBERS: Final = frozenset({"taskId"})
_LIST_MEMBERS: Final = frozenset({"tasks"})


class TaskReport(NamedTuple):
    """The part of a message that reports one task."""

    task: Task | None
    """The task; None if it is unknown which task is meant."""
    body: dict[str, Any]
    pointer: str
    """The place of `body` in the message."""
    is_new: bool = False
    """Whether the message creates the task."""


def reports_in(context: MessageContext, fold: Fold) -> Iterator[TaskReport]:
    """Yields the reports about tasks in an executor's message."""
    message, task = context.message, context.task
    if isinstance(message, Notification):
        if isinstance(message.params, dict) and task is not None and task.executor == message.sender:
            yield TaskReport(task, message.params, "/params")
        return
    request, result = context.request, context.body.get("result")
    if not isinstance(message, Response) or request is None or not isinstance(result, dict):
        return
    if request.method == "tasks/list":
        yield from _listed_reports(context, result, fold)
    elif request.method in ("tasks/get", "tasks/cancel"):
        id_ = result.get("taskId")
        if task is None or id_ is None or (isinstance(id_, str) and id_of(id_) == task.id):
            yield TaskReport(task, result, "/result")
    elif request.method in REQUESTS or context.answered is None:
        return
    elif context.era == "modern":
        if context.answered.outcome is _TASK:
            yield TaskReport(task, result, "/result", is_new=True)
    elif isinstance(result.get("task"), dict) and (context.answered.outcome is _TASK or has_stub(message)):
        yield TaskReport(task, result["task"], "/result/task", is_new=True)


def _listed_reports(context: MessageContext, result: dict[str, Any], fold: Fold) -> Iterator[TaskReport]:
    items, tasks = result.get("tasks"), fold.links.tasks
    for index, item in enumerate(islice(items, MAX_EXAMINED_TASKS) if isinstance(items, list) else ()):
        if isinstance(item, dict):
            task = tasks.get(context.session, context.message.sender, item.get("taskId"))
            yield TaskReport(task, item, f"/result/tasks/{index}")


class TaskReportRule(Rule):
    """A rule about reports of executors."""

    versions = TASK_REVISIONS
    methods: ClassVar[frozenset[str] | None] = REPORTING_METHODS
    source = PAGE

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:  # noqa: ARG002 - the same for all hooks
        if method == "tasks/list":
            return _LIST_MEMBERS
        return _NEW_TASK_MEMBERS if method in TASK_METHODS and like.era != "modern" else _TASK_ID_MEMBERS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return [finding for report in reports_in(context, self.fold) for finding in self.on_report(context, report)]

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return [finding for report in reports_in(context, self.fold) for finding in self.on_report(context, report)]

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterable[Finding]:
        """Check the report of one task."""
        raise NotImplementedError


class TerminalStatusChanged(TaskReportRule):
    """A finished task is reported with a different status."""

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterable[Finding]:
        task, status = report.task, report.body.get("status")
        if task is None or task.ended_ns is None or not isinstance(status, str):
            return ()
        end, status = end_of(task), status[:MAX_STATUS_CHARS]
        if end is None or end.seq >= context.message.seq or status == end.status or task.memory.get(self.id) == status:
            return ()
        if may_cross(context, end.t_ns):
            return ()
        task.memory[self.id] = status
        text = f"a task that was {end.status} is now {shortened(status)!r}"
        return [self.finding(context, text, pointer=f"{report.pointer}/status", related=(end.seq,))]


@dataclass(slots=True)
class _Poll:
    """The last poll of a task."""

    session_number: int
    sent_ns: int
    seq: int
    wait_ms: int | float | None = None
    """The interval that the executor requested, as of the response to this poll."""
    response_seq: int = -1
    """Number of the response to this poll."""


class PolledTooFast(Rule):
    """A task is polled much sooner than its executor has requested."""

    level = WARNING
    methods = frozenset({"tasks/get"})
    needs_time = True
    once = True

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        task, message = context.task, context.message
        if task is None:
            return ()
        last_poll: _Poll | None = task.memory.get(self.id)
        task.memory[self.id] = _Poll(context.session.number, message.t_ns, message.seq)
        if last_poll is None or last_poll.wait_ms is None or last_poll.session_number != context.session.number:
            return ()
        waited_ns = message.t_ns - last_poll.sent_ns
        has_news = bool(task.reports) and task.reports[-1].seq > last_poll.response_seq
        if has_news or last_poll.response_seq <= context.session.lost_seq or waited_ns >= last_poll.wait_ms * 500_000:
            return ()
        text = f"the task is polled again after {waited_ns // 1_000_000} ms, less than half of the requested interval"
        return [self.finding(context, text, related=(last_poll.seq, last_poll.response_seq))]

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        task, request = context.task, context.request
        last_poll: _Poll | None = task.memory.get(self.id) if task is not None else None
        if task is not None and last_poll is not None and request is not None and last_poll.seq == request.seq:
            last_poll.wait_ms, last_poll.response_seq = task.poll_ms, context.message.seq
        return ()


# ---- shared by the rules


def end_of(task: Task) -> StatusReport | None:
    """Returns the first report that a task has ended, or None if there is none."""
    return next((report for report in task.reports if report.status in FINAL_STATUSES), None)


def may_cross(context: MessageContext, t_ns: int) -> bool:
    """Whether a message may have been sent before one that came earlier, because two HTTP streams have no order."""
    return context.session.is_http and context.message.t_ns - t_ns <= RACE_NS


def is_creating(session: Session, executor: Side, fold: Fold) -> bool:
    """Whether a side may have created a task that it has not reported yet, because a request for one is open."""
    table = fold.tables["server" if executor == "client" else "client"]
    if len(table) > _MAX_SEARCHED_CALLS:
        return True
    params = [call.request.params for call in table.waiting_calls() if call.session is session]
    return any(isinstance(param, dict) and "task" in param for param in params)


def wrong_code_text(context: MessageContext, *, is_over_too: bool = False) -> str | None:
    """Returns the text of a finding about an error with the wrong code for a task, or None if the code is right.

    Args:
        context: the error.
        is_over_too: whether an error that says that the task has ended counts as well.
    """
    code, text = code_of(context.message), text_of(context)
    if code is None or code == INVALID_PARAMS:
        return None
    if _says_missing(text):
        return f"a request about an unknown task is refused with {code_text(code)}, not {INVALID_PARAMS}"
    if is_over_too and _says_over(text):
        return f"a request about a finished task is refused with {code_text(code)}, not {INVALID_PARAMS}"
    return None


_says_missing: Final = re.compile(
    r"\btask\b(?! (?:method|type|support))[^.;]{0,100}?\b(?:not found|not exist|doesn't exist|unknown|expired)\b"
    r"|\b(?:unknown|expired|non-?existent|no such|no) task\b(?! (?:method|type|support))"
).search
_says_over: Final = re.compile(
    r"\btask\b[^.;]{0,100}?\b(?:terminal|already (?:been )?(?:completed|failed|cancell?ed|finished|ended|over))\b"
    r"|\bterminal\b[^.;]{0,40}\btask\b"
).search
