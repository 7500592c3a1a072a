"""Requests about tasks, their responses, and progress of finished tasks."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Id, Notification, Request, Side, id_of
from analysis.conversation.tasks import Task
from analysis.facts import code_of
from analysis.protocol.error_codes import INVALID_PARAMS
from analysis.rules.base import NOTE, Rule
from analysis.rules.error.codes import code_text, text_of
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.task_reports import (
    PAGE,
    TASK_METHODS,
    TASK_REVISIONS,
    PolledTooFast,
    end_of,
    may_cross,
    wrong_code_text,
)

MAX_TASK_TOKENS: Final = 10_000
"""The most progress tokens of tasks that are remembered in a session."""


class UnknownTask(Rule):
    """A request names a task that was never announced.

    **Why it matters.** Tasks outlive connections, so the id may come from an earlier session. If it does not, the
    response is an error.

    **On the wire.** `> {"id":2,"method":"tasks/get","params":{"taskId":"t9"}}`, the first mention of t9

    **Instead.** Use the `taskId` from the response that created the task. If it was created in an earlier session,
    nothing has to change.
    """

    id = "tasks/unknown-task"
    needs_session = True
    versions = TASK_REVISIONS
    level = NOTE
    methods = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
    source = PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        task, seq = context.task, context.message.seq
        if task is None or task.is_known or task.memory.setdefault(self.id, seq) != seq:
            return ()
        return [self.finding(context, "no earlier message names this task", pointer="/params/taskId")]


class ErrorCode(Rule):
    """A request about an unknown task or cursor, or a finished task, is refused with a code other than -32602.

    **Why it matters.** -32602 tells a client that the problem is this task, not the method or the server.

    **On the wire.** `> {"id":5,"method":"tasks/get","params":{"taskId":"old"}}`
    `< {"id":5,"error":{"code":-32603,"message":"Task not found"}}`

    **Instead.** Send -32602.
    """

    id = "tasks/error-code"
    needs_session = True
    versions = TASK_REVISIONS
    methods = frozenset({"tasks/get", "tasks/cancel", "tasks/list"})
    replaces = ("page/bad-cursor-code",)
    source = PAGE

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        if context.request is None:
            return ()
        if context.request.method == "tasks/list":
            text = _wrong_cursor_code(context)
        else:
            text = wrong_code_text(context, is_over_too=context.request.method == "tasks/cancel")
        if text is None:
            return ()
        return [self.finding(context, text, pointer="/error/code", related=(context.request.seq,))]


class CancelOfTerminalAccepted(Rule):
    """The cancellation of a finished task is answered with a result.

    **Why it matters.** The client believes that the work was stopped, although it had already ended.

    **On the wire.** `< …"taskId":"t1","status":"completed"`, then
    `> {"id":6,"method":"tasks/cancel","params":{"taskId":"t1"}}` `< {"id":6,"result":{…}}`

    **Instead.** Send -32602, as a finished task cannot be cancelled.
    """

    id = "tasks/cancel-of-terminal-accepted"
    needs_session = True
    versions = TASK_REVISIONS
    methods = frozenset({"tasks/cancel"})
    replaces = ("tasks/cancel-not-cancelled", "tasks/terminal-changed")
    source = PAGE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        task, request = context.task, context.request
        end = end_of(task) if task is not None and task.ended_ns is not None else None
        if end is None or request is None or end.seq >= request.seq:
            return ()
        text = f"the cancellation of a task that was {end.status} succeeds"
        return [self.finding(context, text, pointer="/result", related=(end.seq, request.seq))]


class CancelNotCancelled(Rule):
    """The cancellation of a task succeeds, but the status is not `cancelled`.

    **Why it matters.** The response says that the task was cancelled, but its status says that it was not.

    **On the wire.** `> {"id":6,"method":"tasks/cancel",…}` `< {"id":6,"result":{"taskId":"t1","status":"working",…}}`

    **Instead.** Set the status to `cancelled` before you answer, even if the work takes longer to stop.
    """

    id = "tasks/cancel-not-cancelled"
    needs_session = True
    versions = TASK_REVISIONS
    methods = frozenset({"tasks/cancel"})
    source = PAGE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        status = member(context.body["result"], "status")
        if not isinstance(status, str) or status == "cancelled":
            return ()
        text = f"after its cancellation the task is {shortened(status)!r}"
        return [self.finding(context, text, pointer="/result/status")]


class PollTooFast(PolledTooFast):
    """A task is polled more than twice as often as its executor requests.

    **Why it matters.** Most polls return nothing new, and each of them costs time. Servers that are polled too often
    may begin to refuse requests.

    **On the wire.** `< …"taskId":"t1","status":"working","pollInterval":5000`, then `tasks/get` each second

    **Instead.** Wait `pollInterval` milliseconds between two polls.
    """

    id = "tasks/poll-too-fast"
    needs_session = True
    versions = TASK_REVISIONS
    impact = Impact.COST
    source = PAGE


class ProgressAfterTerminal(Rule):
    """Progress is reported for a finished task.

    **Why it matters.** Progress bars reappear, or run past the end.

    **On the wire.** `< …"taskId":"t1","status":"completed"`, then
    `< {"method":"notifications/progress","params":{"progressToken":"p1",…}}` with the token of the task's request

    **Instead.** Stop reporting the progress of a task before you send its last status.
    """

    id = "tasks/progress-after-terminal"
    needs_session = True
    versions = TASK_REVISIONS
    methods = TASK_METHODS
    required_members = frozenset({"task"})
    source = "2025-11-25 basic/utilities/progress"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        task = context.task
        if task is None or context.request is None or task.request is not context.request:
            return ()
        token = context.request.meta.get("progressToken")
        if not isinstance(token, str | int):
            return ()
        tokens = self._tokens(context)
        tokens[context.request.sender, id_of(token)] = task
        if len(tokens) > MAX_TASK_TOKENS:
            tokens.popitem(last=False)
        self.set_watching(context.session, True)
        return ()

    def on_message(self, context: MessageContext) -> Iterable[Finding]:
        message, tokens = context.message, self._tokens(context)
        if not tokens:
            self.set_watching(context.session, False)
        elif isinstance(message, Request):
            token = message.meta.get("progressToken")
            if isinstance(token, str | int):
                tokens.pop((message.sender, id_of(token)), None)  # the token now belongs to another request
        elif isinstance(message, Notification) and message.method == "notifications/progress":
            return self._check_progress(context, message, tokens)
        return ()

    def _check_progress(
        self, context: MessageContext, message: Notification, tokens: OrderedDict[tuple[Side, Id], Task]
    ) -> Iterable[Finding]:
        token = member(message.params, "progressToken")
        if not isinstance(token, str | int):
            return ()
        key: tuple[Side, Id] = ("server" if message.sender == "client" else "client", id_of(token))
        task = tokens.get(key)
        end = end_of(task) if task is not None and task.ended_ns is not None else None
        if end is None or may_cross(context, end.t_ns):
            return ()
        del tokens[key]
        text = f"progress is reported for a task that was {end.status}"
        return [self.finding(context, text, pointer="/params/progressToken", related=(end.seq,))]

    def _tokens(self, context: MessageContext) -> OrderedDict[tuple[Side, Id], Task]:
        tokens: OrderedDict[tuple[Side, Id], Task] = self.state_for(context.session, OrderedDict)
        return tokens


# ---- shared by the rules


def _wrong_cursor_code(context: MessageContext) -> str | None:
    code = code_of(context.message)
    if code is None or code == INVALID_PARAMS or "cursor" not in text_of(context):
        return None
    return f"a request with an invalid cursor is refused with {code_text(code)}, not {INVALID_PARAMS}"
