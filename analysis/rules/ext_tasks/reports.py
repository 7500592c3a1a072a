"""Servers' reports about tasks of the extension, and responses to requests about tasks."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Notification
from analysis.protocol.extensions import TASKS
from analysis.protocol.features import CORE_TASKS
from analysis.protocol.revisions import MODERN_ERA, REVISIONS
from analysis.rules.base import WARNING, Rule
from analysis.rules.ext_tasks.capability import SOURCE, TASK_REQUESTS
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import outcome_of, shortened
from analysis.rules.support.extension_rules import OtherResultType
from analysis.rules.support.task_reports import PolledTooFast, TerminalStatusChanged, reports_in, wrong_code_text

(TASK_NOTIFICATION,) = TASKS.notifications
REPORTING_METHODS: Final = frozenset({"tools/call", "tasks/get", TASK_NOTIFICATION})
"""Methods whose results or params report tasks."""

_CORE_REVISION: Final = REVISIONS[CORE_TASKS.last]
_ACKNOWLEDGEMENT_MEMBERS: Final = frozenset({"resultType", "_meta"})
_STRING_MEMBERS: Final = ("taskId", "status", "createdAt", "lastUpdatedAt")
_DETAIL_MEMBERS: Final = {"completed": "result", "failed": "error", "input_required": "inputRequests"}
# Enum members are slow to look up.
_TASK_OUTCOME: Final = Outcome.TASK


class _TaskResponseRule(Rule):
    """The base class of the rules about responses to requests about tasks."""

    who = "server"
    versions = MODERN_ERA
    methods = TASK_REQUESTS
    sender = "server"
    era = "modern"
    source = SOURCE


class ResultType(OtherResultType):
    """The `resultType` of a response to a request about a task is not `complete`.

    **Why it matters.** `task` would mean that another task was created, and `input_required` that the client should
    send the request again.

    **On the wire.** `> {"id":3,"method":"tasks/get",…}` `< {"id":3,"result":{"resultType":"task","taskId":"t1",…}}`

    **Instead.** `"resultType":"complete"`, regardless of the task's status. The text of the proposal requires this,
    although two of its examples differ.
    """

    id = "ext-tasks/result-type"
    versions = MODERN_ERA
    methods = TASK_REQUESTS
    source = SOURCE


class InvalidShape(Rule):
    """A task lacks a member that every task must have, or that its status requires.

    **Why it matters.** Clients need these members to poll and to get the result, and cannot get them elsewhere.

    **On the wire.** `< {"id":3,"result":{"resultType":"complete","taskId":"t1","status":"completed",…}}` without
    `result`

    **Instead.** Send `taskId`, `status`, `createdAt`, `lastUpdatedAt` and `ttlMs` (null means forever). In reports
    about the task, also send `result` when it is completed, `error` when it has failed, and `inputRequests` when it
    waits for input. These are members of the result itself, not of `task` as in 2025-11-25.
    """

    id = "ext-tasks/invalid-shape"
    who = "server"
    versions = MODERN_ERA
    methods = REPORTING_METHODS
    sender = "server"
    era = "modern"
    source = SOURCE

    def concerns(self, _hook: str, method: str, like: MessageContext) -> bool:
        return method != "tools/call" or outcome_of(like) is _TASK_OUTCOME

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        is_new, result = context.method == "tools/call", context.body["result"]
        return self._check_shape(context, result, "/result", is_new=is_new) if isinstance(result, dict) else ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        params = context.body.get("params")
        return self._check_shape(context, params, "/params", is_new=False) if isinstance(params, dict) else ()

    def _check_shape(
        self, context: MessageContext, body: dict[str, Any], pointer: str, *, is_new: bool
    ) -> Iterator[Finding]:
        if "taskId" not in body and isinstance(body.get("task"), dict):
            yield self.finding(
                context, f"the members are under task, as in {_CORE_REVISION}", pointer=f"{pointer}/task"
            )
            return
        for name, text in _shape_faults(body, is_new=is_new):
            yield self.finding(context, text, pointer=f"{pointer}/{name}")


class AcknowledgementNotEmpty(_TaskResponseRule):
    """The response to `tasks/update` or `tasks/cancel` says more than that the request was accepted.

    **Why it matters.** Clients may mistake the response for the state of the task, although the requested change may
    not have happened yet.

    **On the wire.** `> {"id":5,"method":"tasks/cancel",…}`
    `< {"id":5,"result":{"resultType":"complete","status":"cancelled"}}`

    **Instead.** `{"resultType":"complete"}`; `tasks/get` returns the state of the task.
    """

    id = "ext-tasks/acknowledgement-not-empty"
    level = WARNING
    impact = Impact.WRONG
    methods = frozenset({"tasks/update", "tasks/cancel"})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result = context.body["result"]
        extra_names = result.keys() - _ACKNOWLEDGEMENT_MEMBERS if isinstance(result, dict) else ()
        if not extra_names:
            return ()
        # Not the first as sent: the order of members says nothing. A task usually begins with its id.
        extra_name = "taskId" if "taskId" in extra_names else min(extra_names)
        text = f"the response to {context.method} has {shortened(extra_name)!r}"
        return [self.finding(context, text, pointer="/result")]


class TerminalChanged(TerminalStatusChanged):
    """A task that had ended continues, or is reported with another end.

    **Why it matters.** Clients that saw the task end have used its result, and no longer poll.

    **On the wire.** `< …"taskId":"t1","status":"completed"` … `< …"taskId":"t1","status":"working"`

    **Instead.** Change the status only while the task is running. A task may end as `completed` after `tasks/cancel`
    was answered, but not after it was `cancelled`.
    """

    id = "ext-tasks/terminal-changed"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    methods = REPORTING_METHODS
    sender = "server"
    source = SOURCE


class PollTooFast(PolledTooFast):
    """A task is polled more than twice as often as the server requests.

    **Why it matters.** Each poll costs time and returns nothing new. Servers that are polled too fast may start to
    refuse requests.

    **On the wire.** `< …"taskId":"t1","status":"working","pollIntervalMs":5000`, then `tasks/get` each second

    **Instead.** Wait for `pollIntervalMs` between two polls, or listen with `taskIds`.
    """

    id = "ext-tasks/poll-too-fast"
    who = "client"
    versions = MODERN_ERA
    impact = Impact.COST
    source = SOURCE


class NotFoundCode(_TaskResponseRule):
    """A request for a task that does not exist is refused with a code other than -32602.

    **Why it matters.** -32602 tells a client that the problem is this task, not the method or the server.

    **On the wire.** `> {"id":3,"method":"tasks/get",…}` `< {"id":3,"error":{"code":-32603,"message":"Task not found"}}`

    **Instead.** Send -32602.
    """

    id = "ext-tasks/not-found-code"
    impact = Impact.WRONG
    methods = frozenset({"tasks/get"})

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        text = wrong_code_text(context)
        if text is None or context.request is None:
            return ()
        return [self.finding(context, text, pointer="/error/code", related=(context.request.seq,))]


# ---- shared by the rules


def task_questions(context: MessageContext, fold: Fold) -> tuple[Any, dict[str, Any]] | None:
    """Returns the task that a message reports in detail, with its questions, or None if it reports none."""
    if not isinstance(context.message, Notification) and context.method != "tasks/get":
        return None
    for report in reports_in(context, fold):
        questions = report.body.get("inputRequests", {})
        if report.task is not None and isinstance(questions, dict) and isinstance(report.body.get("status"), str):
            return report.task, questions
    return None


def _shape_faults(body: dict[str, Any], *, is_new: bool) -> Iterator[tuple[str, str]]:
    for name in _STRING_MEMBERS:
        if name not in body:
            yield name, f"{name} is missing"
        elif not isinstance(body[name], str):
            yield name, f"{name} is not a string"
    if "ttlMs" not in body:
        yield "ttlMs", "ttlMs is missing" + (f"; ttl is its name in {_CORE_REVISION}" if "ttl" in body else "")
    elif isinstance(body["ttlMs"], bool) or not isinstance(body["ttlMs"], int | float | None):
        yield "ttlMs", "ttlMs is neither a number nor null"
    status = body.get("status")
    detail = _DETAIL_MEMBERS.get(status) if isinstance(status, str) and not is_new else None
    if detail is not None and not isinstance(body.get(detail), dict):
        yield detail, f"a task that is {status} has no {detail}"
