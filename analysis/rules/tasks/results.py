"""Responses to `tasks/result`: the result of the request that became the task."""

from collections.abc import Iterable

from analysis.conversation.call import MessageContext
from analysis.conversation.tasks import RELATED_TASK
from analysis.rules.base import WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.task_reports import PAGE, STATUS_NOTIFICATION, TASK_REVISIONS, TaskReport, TaskReportRule
from analysis.shapes.validation import problems

MAX_RESULT_FINDINGS = 10
"""The most findings about the shape of one result."""

_RESULT = "tasks/result"


class _ResultRule(Rule):
    """The base class of the rules that check only responses to `tasks/result`."""

    versions = TASK_REVISIONS
    methods = frozenset({_RESULT})
    source = PAGE


class ResultTooEarly(TaskReportRule):
    """The result of a task is returned while the task still runs.

    **Why it matters.** The response to `tasks/result` must wait until the task has ended. An earlier response cannot
    contain the real result.

    **On the wire.** `> {"id":5,"method":"tasks/result",…}` `< {"id":5,"result":{…}}`, then
    `< …"taskId":"t1","status":"working"`

    **Instead.** Answer when the task has ended, and report its end before or with the response.
    """

    id = "tasks/result-too-early"
    needs_session = True
    methods = frozenset({_RESULT, "tasks/get", "tasks/list", "tasks/cancel", STATUS_NOTIFICATION})

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:  # noqa: ARG002 - always the same
        return frozenset()  # results need not name their task

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method != _RESULT:
            return super().on_result(context)
        if context.task is not None and not context.session.is_http and isinstance(context.body["result"], dict):
            context.task.memory.setdefault(self.id, context.message.seq)
        return ()

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterable[Finding]:
        task, status = report.task, report.body.get("status")
        if task is None or task.ended_ns is not None or status not in ("working", "input_required"):
            return ()
        result_seq = task.memory.pop(self.id, None)
        if result_seq is None:
            return ()
        text = f"a task is {status}, although its result was already returned"
        return [self.finding(context, text, pointer=f"{report.pointer}/status", related=(result_seq,))]


class ResultShape(_ResultRule):
    """The result of a task does not have the form that the original request requires.

    **Why it matters.** Clients parse the result as that of the original request.

    **On the wire.** A `tools/call` became the task; `> {"id":5,"method":"tasks/result",…}`
    `< {"id":5,"result":{"output":"4"}}`

    **Instead.** Send the result of the original request: for a tool, `{"content":[…]}`.
    """

    id = "tasks/result-shape"
    needs_session = True
    impact = Impact.MESSAGE
    source = f"{PAGE}, schema"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, result = context.task.request if context.task is not None else None, context.body["result"]
        if request is None or context.rank is None or not isinstance(result, dict):
            return ()
        faults = problems("result", request.method, context.rank, result, {})
        shape_faults = [fault for fault in faults if fault.kind in ("shape", "scalar")]
        return [
            self.finding(
                context, f"the result of {request.method}: {fault.text}", pointer=fault.pointer, related=(request.seq,)
            )
            for fault in shape_faults[:MAX_RESULT_FINDINGS]
        ]


class ResultWithoutRelatedTask(_ResultRule):
    """The result of a task does not name its task.

    **Why it matters.** Without this member the result does not show which task it belongs to.

    **On the wire.** `> {"id":5,"method":"tasks/result","params":{"taskId":"t1"}}` `< {"id":5,"result":{"content":[…]}}`

    **Instead.** Send `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}`, with the requested id.
    """

    id = "tasks/result-without-related-task"
    needs_session = True
    impact = Impact.HINT

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, result = context.request, context.body["result"]
        requested_id = member(request.params, "taskId") if request is not None else None
        if request is None or not isinstance(requested_id, str) or not isinstance(result, dict):
            return ()
        named_id = member(member(result.get("_meta"), RELATED_TASK), "taskId")
        if named_id == requested_id:
            return ()
        text = "the result does not name its task" if named_id is None else "the result names another task"
        return [self.finding(context, text, pointer="/result/_meta", related=(request.seq,))]


class ErrorNotFailed(TaskReportRule):
    """A tool has failed, but its task is `completed`.

    **Why it matters.** Clients that check only the status tell their users that the tool has succeeded.

    **On the wire.** `< …"taskId":"t1","status":"completed"`, and for its result
    `< {"id":5,"result":{"content":[…],"isError":true,…}}`

    **Instead.** Set the status to `failed` if the result has `"isError":true`.
    """

    id = "tasks/error-not-failed"
    needs_session = True
    who = "server"
    level = WARNING
    methods = frozenset({_RESULT, "tasks/get", "tasks/list", STATUS_NOTIFICATION})

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:  # noqa: ARG002 - always the same
        return frozenset()  # results need not name their task

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method != _RESULT:
            return super().on_result(context)
        task, result = context.task, context.body["result"]
        if task is None or task.request is None or task.request.method != "tools/call":
            return ()
        if task.executor != "server" or member(result, "isError") is not True:
            return ()
        if task.status != "completed":
            task.memory.setdefault(self.id, context.message.seq)
            return ()
        text = "the tool has failed, but its task is completed"
        return [self.finding(context, text, pointer="/result/isError", related=(task.request.seq,))]

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterable[Finding]:
        if report.task is None or report.body.get("status") != "completed":
            return ()
        result_seq = report.task.memory.pop(self.id, None)
        if result_seq is None:
            return ()
        text = "the task is completed, but its tool has failed"
        return [self.finding(context, text, pointer=f"{report.pointer}/status", related=(result_seq,))]
