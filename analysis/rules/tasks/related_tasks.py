"""Rules about messages that belong to a task, and whether they name it."""

from collections.abc import Iterable
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.message import Id, Notification, Request, Response, Side, id_of
from analysis.conversation.session import Session
from analysis.conversation.tasks import RELATED_TASK, has_stub
from analysis.rules.base import WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.task_reports import PAGE, STATUS_NOTIFICATION, TASK_REVISIONS, is_creating

MAX_UNKNOWN_TASKS: Final = 100
"""The most unknown tasks that are reported in a session, and the most open requests that are searched."""

_TASK_MESSAGE_METHODS: Final = frozenset({"tasks/get", "tasks/list", "tasks/cancel", STATUS_NOTIFICATION})
_INPUT_METHODS: Final = frozenset({"elicitation/create", "sampling/createMessage"})
_RELATED_POINTER: Final = f"_meta/{RELATED_TASK.replace('/', '~1')}"


class RelatedTaskUnknown(Rule):
    """A message says that it belongs to a task that does not exist.

    **Why it matters.** Clients that show the messages of a task, or wait for them, ignore this one.

    **On the wire.** `< …"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t9"}}`, but no task t9 was created

    **Instead.** Send the `taskId` with which the task was created, and only after the response that creates the task.
    """

    id = "tasks/related-task-unknown"
    needs_session = True
    versions = TASK_REVISIONS
    required_members = frozenset({"_meta"})
    level = WARNING
    impact = Impact.MESSAGE
    needs_start = True
    source = PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        meta = context.body["params"]["_meta"]
        return self._check_meta(context, meta, "params") if isinstance(meta, dict) and RELATED_TASK in meta else ()

    on_notification = on_request

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        meta = context.body["result"]["_meta"]
        return self._check_meta(context, meta, "result") if isinstance(meta, dict) and RELATED_TASK in meta else ()

    def _check_meta(self, context: MessageContext, meta: dict[str, Any], part: str) -> Iterable[Finding]:
        session, id_ = context.session, member(meta[RELATED_TASK], "taskId")
        tasks = self.fold.links.tasks
        if not isinstance(id_, str) or tasks.forgotten_count or tasks.has_task(session, id_):
            return ()
        reported_ids: set[Id] = self.state_for(session, set)
        key = id_of(id_)
        if key in reported_ids or len(reported_ids) >= MAX_UNKNOWN_TASKS:
            return ()
        if is_creating(session, "client", self.fold) or is_creating(session, "server", self.fold):
            return ()
        reported_ids.add(key)
        text = "a message belongs to a task that was never created"
        return [self.finding(context, text, pointer=f"/{part}/{_RELATED_POINTER}/taskId")]


class RelatedTaskMissing(Rule):
    """A task waits for input, but the request for the input or its response does not name the task.

    **Why it matters.** The user gets a question without context, and the client cannot tell which task it belongs to.

    **On the wire.** `< …"taskId":"t1","status":"input_required"`, then
    `< {"id":7,"method":"elicitation/create","params":{"message":"Which?",…}}`

    **Instead.** Send `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}` in the params of the request
    and in its result.
    """

    id = "tasks/related-task-missing"
    needs_session = True
    versions = TASK_REVISIONS
    level = WARNING
    methods = _INPUT_METHODS
    source = PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        session, sender = context.session, context.message.sender
        if RELATED_TASK in _meta(context.message) or session.lost_seq >= 0:
            return ()
        waiting_tasks = self.fold.links.tasks.tasks_awaiting_input(session, sender)
        if len(waiting_tasks) != 1 or _may_work_for(session, sender, self.fold):
            return ()
        text = f"{context.method} does not name the task that waits for input"
        return [self.finding(context, text, pointer="/params", related=(waiting_tasks[0].reports[-1].seq,))]

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, response = context.request, context.message
        if request is None or not isinstance(response, Response) or not isinstance(response.result, dict):
            return ()
        if RELATED_TASK not in request.meta or RELATED_TASK in response.meta or has_stub(response):
            return ()
        text = f"the response to {request.method} does not name its task, although the request does"
        return [self.finding(context, text, pointer="/result", related=(request.seq,))]


class RelatedTaskRedundant(Rule):
    """A message about a task also names it in `_meta`.

    **Why it matters.** The task is named twice, and the two ids could contradict each other.

    **On the wire.** `> {"id":4,"method":"tasks/get","params":{"taskId":"t1","_meta":{…}}}` with
    `"io.modelcontextprotocol/related-task":{"taskId":"t1"}` in it

    **Instead.** Send only `taskId`; only the result of `tasks/result` has to name the task in `_meta`.
    """

    id = "tasks/related-task-redundant"
    needs_session = True
    versions = TASK_REVISIONS
    level = WARNING
    impact = Impact.HINT
    methods = _TASK_MESSAGE_METHODS
    once = True
    source = PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_part(context, "params")

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_part(context, "params")

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_part(context, "result")

    def _check_part(self, context: MessageContext, part: str) -> Iterable[Finding]:
        if RELATED_TASK not in _meta(context.message):
            return ()
        text = "a message about a task also names it in _meta"
        return [self.finding(context, text, pointer=f"/{part}/{_RELATED_POINTER}")]


# ---- shared by the rules


def _meta(message: object) -> dict[str, Any]:
    return message.meta if isinstance(message, Request | Notification | Response) else {}


def _may_work_for(session: Session, side: Side, fold: Fold) -> bool:
    """Whether a side is working on an ordinary request, for which it may ask the other side."""
    table = fold.tables["server" if side == "client" else "client"]
    if len(table) > MAX_UNKNOWN_TASKS:
        return True
    methods = [call.request.method for call in table.waiting_calls() if call.session is session]
    return any(method != "ping" and not method.startswith("tasks/") for method in methods)
