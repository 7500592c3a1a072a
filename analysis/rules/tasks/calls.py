"""Requests that ask for a task, and their responses."""

from collections.abc import Iterable
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request, Response, Side
from analysis.conversation.session import Session
from analysis.conversation.tasks import has_stub
from analysis.facts import code_of
from analysis.protocol.declared_capabilities import has, lacks
from analysis.protocol.error_codes import INVALID_REQUEST, METHOD_NOT_FOUND
from analysis.protocol.methods import METHODS
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.error.codes import code_text
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.listings import ListedItem, tools_of
from analysis.rules.support.task_reports import PAGE, STATUSES, TASK_METHODS, TASK_REVISIONS, TaskReport, TaskReportRule
from analysis.rules.support.tool_definitions import CALL_TOOL, LIST_TOOLS, TOOLS_CHANGED, ToolLookupRule

_CALL_CAPABILITY: Final = "tasks.requests.tools.call"
_SUCCESS_STATUSES: Final = (None, 200)
_CALL_METHODS: Final = frozenset({LIST_TOOLS, TOOLS_CHANGED, CALL_TOOL})
_REQUIRED_TASK_KEY: Final = "tools that run only as tasks"


class _RequiredTaskRule(ToolLookupRule):
    """The base class of the rules about tools that run only as tasks; few servers have any."""

    versions = TASK_REVISIONS
    methods = _CALL_METHODS
    source = PAGE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return (method != CALL_TOOL or _REQUIRED_TASK_KEY in like.session.learned) and super().concerns(
            hook, method, like
        )

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.request is not None and context.request.method == LIST_TOOLS:
            page = tools_of(context.session).record_page(context)
            if any(member(member(tool, "execution"), "taskSupport") == "required" for tool in page.items):
                context.session.learned |= {_REQUIRED_TASK_KEY}
                context.session.memory[_REQUIRED_TASK_KEY] = True
            return ()
        return self.check_result(context) if _REQUIRED_TASK_KEY in context.session.memory else ()

    def entry_without_task(self, context: MessageContext) -> ListedItem | None:
        """Returns the tool of a call if it runs only as a task and the call does not ask for one, else None."""
        params = context.request.params if context.request is not None else None
        if _REQUIRED_TASK_KEY not in context.session.memory or not isinstance(params, dict) or "task" in params:
            return None
        tool_support = _tool_support(self, context)
        return tool_support[0] if tool_support is not None and tool_support[1] == "required" else None


class ForbiddenTool(ToolLookupRule):
    """A call asks to run a tool as a task, but the tool does not declare that it supports this.

    **Why it matters.** The server refuses the call, or runs it and answers when it has ended, while the client expects
    a task.

    **On the wire.** `< …"tools":[{"name":"add","inputSchema":{…}}]`, then
    `> {"id":3,"method":"tools/call","params":{"name":"add","task":{}}}`

    **Instead.** Send `task` only if `execution.taskSupport` of the tool is `optional` or `required`.
    """

    id = "tasks/forbidden-tool"
    needs_session = True
    who = "client"
    versions = TASK_REVISIONS
    methods = _CALL_METHODS
    source = PAGE
    impact = Impact.MESSAGE

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:  # noqa: ARG002 - the same for all methods
        return frozenset({"task"}) if hook == "request" else frozenset()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        params = context.body.get("params")
        if not isinstance(params, dict) or "task" not in params:
            return ()
        tool_support = _tool_support(self, context)
        if tool_support is None or tool_support[1] != "forbidden":
            return ()
        text = "the call asks for a task, but the tool does not support tasks"
        return [self.finding(context, text, pointer="/params/task", related=(tool_support[0].seq,))]


class RequiredTool(_RequiredTaskRule):
    """A tool that runs only as a task is called without `task`.

    **Why it matters.** The server must refuse the call.

    **On the wire.** `< …{"name":"build",…,"execution":{"taskSupport":"required"}}`, then
    `> {"id":3,"method":"tools/call","params":{"name":"build"}}`

    **Instead.** Send `"task":{}` with the call, and fetch the result when the task has ended.
    """

    id = "tasks/required-tool"
    needs_session = True
    who = "client"
    impact = Impact.MESSAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        tool = self.entry_without_task(context) if _REQUIRED_TASK_KEY in context.session.memory else None
        if tool is None:
            return ()
        text = "a tool that runs only as a task is called without task"
        return [self.finding(context, text, pointer="/params", related=(tool.seq,))]


class RequiredNotRefused(_RequiredTaskRule):
    """A tool that requires a task is run without one, or the call is refused with a code other than -32601.

    **Why it matters.** The server does not enforce the requirement that it has declared, or does not tell the client
    with -32601 that it must ask for a task.

    **On the wire.** A tool with `"taskSupport":"required"` is called without `task`, and answers
    `< {"id":3,"result":{"content":[…]}}`

    **Instead.** Send -32601, or declare the tool with `"taskSupport":"optional"`. Another passage of the revision
    allows -32600.
    """

    id = "tasks/required-not-refused"
    needs_session = True
    who = "server"
    about = frozenset({CALL_TOOL})

    def check_result(self, context: MessageContext) -> Iterable[Finding]:
        tool = self.entry_without_task(context)
        if tool is None or context.request is None:
            return ()
        text = "a tool that runs only as a task is run without one"
        return [self.finding(context, text, pointer="/result", related=(tool.seq, context.request.seq))]

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        code, response = code_of(context.message), context.message
        if code is None or code == METHOD_NOT_FOUND or not isinstance(response, Response) or response.id is None:
            return ()
        if not response.id.is_answerable or (context.http is not None and context.http.status not in _SUCCESS_STATUSES):
            return ()  # the server refused the call before it checked the tool
        tool = self.entry_without_task(context)
        if tool is None or context.request is None:
            return ()
        level = NOTE if code == INVALID_REQUEST else None
        text = f"a call to a tool that runs only as a task is refused with {code_text(code)}, not {METHOD_NOT_FOUND}"
        related = (tool.seq, context.request.seq)
        return [self.finding(context, text, pointer="/error/code", related=related, level=level)]


class UnsupportedMethod(Rule):
    """A request asks for a task, but its method does not support tasks.

    **Why it matters.** The receiver ignores `task`, and answers only when the work is done.

    **On the wire.** `> {"id":3,"method":"resources/read","params":{"uri":"file:///a","task":{"ttl":60000}}}`

    **Instead.** Send `task` only with `tools/call`, `sampling/createMessage` and `elicitation/create`.
    """

    id = "tasks/unsupported-method"
    needs_session = True
    versions = TASK_REVISIONS
    required_members = frozenset({"task"})
    level = WARNING
    impact = Impact.MESSAGE
    source = PAGE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method in METHODS and method not in TASK_METHODS

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        params = context.body.get("params")
        if not isinstance(params, dict) or not isinstance(params.get("task"), dict):
            return ()
        return [self.finding(context, f"{context.method} cannot be run as a task", pointer="/params/task")]


class NotCreated(ToolLookupRule):
    """A request asks for a task, but is answered with a result instead.

    **Why it matters.** A client that asked for a task looks for `task` in the result. Without it, the client has
    nothing to poll.

    **On the wire.** `> {"id":3,"method":"tools/call","params":{"name":"build","task":{}}}`
    `< {"id":3,"result":{"content":[…]}}`

    **Instead.** Answer with `{"task":{"taskId":…,"status":"working",…}}`, or do not declare tasks for the method.
    """

    id = "tasks/not-created"
    needs_session = True
    versions = TASK_REVISIONS
    source = PAGE
    impact = Impact.MESSAGE
    methods = frozenset({LIST_TOOLS, TOOLS_CHANGED, *TASK_METHODS})

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if method in TASK_METHODS:
            is_requested = self.id in like.session.learned
            return hook == "request" or (is_requested and like.message.sender not in METHODS[method].senders(like.rank))
        return super().concerns(hook, method, like)

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:  # noqa: ARG002 - the same for all methods
        return frozenset({"task"}) if hook == "request" else frozenset()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        context.session.learned |= {self.id}
        context.session.memory[self.id] = True  # responses are checked only after the first such request
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or request.method == LIST_TOOLS:
            return super().on_result(context)
        return self._check_request(context, request) if self.id in context.session.memory else ()

    def _check_request(self, context: MessageContext, request: Request) -> Iterable[Finding]:
        task, result = member(request.params, "task"), context.body["result"]
        if not isinstance(task, dict) or not isinstance(result, dict) or result.get("task") is not None:
            return ()
        capabilities = _receiver_capabilities(context.session, context.message.sender)
        if capabilities is None or not has(capabilities, _capability_path(request.method)):
            return ()
        tool_support = _tool_support(self, context) if request.method == CALL_TOOL else None
        if tool_support is not None and tool_support[1] == "forbidden":
            return ()
        text = f"{request.method} asked for a task, but the result has none"
        return [self.finding(context, text, pointer="/result", related=(request.seq,))]


class CreatedUnasked(Rule):
    """A task is created for a request that did not ask for one, or by a side that did not declare tasks.

    **Why it matters.** The caller mistakes the response for the result, and never fetches the real result.

    **On the wire.** `> {"id":3,"method":"tools/call","params":{"name":"build"}}`
    `< {"id":3,"result":{"task":{"taskId":"t1",…}}}`

    **Instead.** Answer with the result when it is available; create tasks only for requests with `task`, and declare
    `tasks.requests`.
    """

    id = "tasks/created-unasked"
    needs_session = True
    versions = TASK_REVISIONS
    impact = Impact.MESSAGE
    required_members = frozenset({"task"})
    replaces = ("schema/*",)
    source = PAGE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return not method.startswith("tasks/")

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, response = context.request, context.message
        if context.task is None or request is None or not isinstance(response, Response) or not has_stub(response):
            return ()
        if member(request.params, "task") is None:
            text = f"a task is created for {shortened(request.method)}, which did not ask for one"
            return [self.finding(context, text, pointer="/result", related=(request.seq,))]
        capabilities, path = _receiver_capabilities(context.session, response.sender), _capability_path(request.method)
        if capabilities is None or not lacks(capabilities, path):
            return ()
        text = f"a task is created, although {shortened(path)} was not declared"
        return [self.finding(context, text, pointer="/result", related=(request.seq,))]


class InitialStatus(TaskReportRule):
    """A task is not `working` when it is created.

    **Why it matters.** Clients use the first status to decide whether to poll or to wait for input. If the work is
    already done, the server could have answered with the result.

    **On the wire.** `< {"id":3,"result":{"task":{"taskId":"t1","status":"completed",…}}}`

    **Instead.** Create the task as `working`, and report later changes with `tasks/get` and notifications.
    """

    id = "tasks/initial-status"
    needs_session = True
    methods = TASK_METHODS

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterable[Finding]:
        status = report.body.get("status")
        if not report.is_new or not isinstance(status, str) or status not in STATUSES or status == "working":
            return ()
        text = f"a new task is {status}"
        return [self.finding(context, text, pointer=f"{report.pointer}/status")]


class DuplicateId(TaskReportRule):
    """A new task has the id of an earlier task.

    **Why it matters.** A client that polls with that id gets the status, and finally the result, of a different task.

    **On the wire.** `< {"id":3,"result":{"task":{"taskId":"1",…}}}` … `< {"id":7,"result":{"task":{"taskId":"1",…}}}`

    **Instead.** Use a new id for each task. Make it long and random, as it may be the only protection of the result.
    """

    id = "tasks/duplicate-id"
    needs_session = True
    methods = TASK_METHODS

    def on_report(self, context: MessageContext, report: TaskReport) -> Iterable[Finding]:
        if not report.is_new or report.task is None or not report.task.has_reused_id:
            return ()
        text = "a new task has the id of an earlier task"
        return [self.finding(context, text, pointer=f"{report.pointer}/taskId")]


# ---- shared by the rules


def _tool_support(rule: ToolLookupRule, context: MessageContext) -> tuple[ListedItem, Any] | None:
    """Returns the tool of a call and its `taskSupport`, or None if the server does not support tasks for calls."""
    declaration = context.session.declared.get("handshake")
    if (
        declaration is None
        or "tasks" not in declaration.capabilities
        or not has(declaration.capabilities, _CALL_CAPABILITY)
    ):
        return None
    tool = rule.entry(context)
    if tool is None:
        return None
    execution = tool.item.get("execution", {})
    return tool, execution.get("taskSupport", "forbidden") if isinstance(execution, dict) else None


def _receiver_capabilities(session: Session, side: Side) -> dict[str, Any] | None:
    """Returns the capabilities that the receiver of a request declared, or None if they are unknown."""
    if side == "client":
        return session.client_capabilities
    declaration = session.declared.get("handshake")
    return declaration.capabilities if declaration is not None else None


def _capability_path(method: str) -> str:
    return f"tasks.requests.{method.replace('/', '.')}"
