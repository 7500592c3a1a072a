"""Declarations of the extension for tasks: each request declares whether its client supports tasks."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request
from analysis.conversation.session import CLIENT_CAPABILITIES
from analysis.conversation.subscriptions import ACKNOWLEDGED, LISTEN, ListenSubscription
from analysis.facts import code_of
from analysis.protocol.error_codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from analysis.protocol.extensions import TASKS, declares
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import RACE_NS, Rule
from analysis.rules.error.codes import code_text
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened

SOURCE: Final = TASKS.source
TASK_REQUESTS: Final = TASKS.requests
MAX_SEARCHED_SUBSCRIPTIONS: Final = 1_000
"""The most `subscriptions/listen` requests of one client that are searched for a task."""

_EARLY_CODES: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_VERSION})
"""Codes that a server may return before it has checked the capabilities."""
# Enum members are slow to look up.
_TASK_OUTCOME: Final = Outcome.TASK


class _NewTaskRule(Rule):
    """The base class of the rules about new tasks."""

    who = "server"
    versions = MODERN_ERA
    sender = "server"
    era = "modern"
    results = frozenset({"task"})
    yields_to_extensions = True
    source = SOURCE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return () if context.answered is None else self.check_new_task(context, context.answered.request)

    def check_new_task(self, context: MessageContext, request: Request) -> Iterable[Finding]:
        """Returns findings about a request that was answered with a task."""
        raise NotImplementedError


class Undeclared(_NewTaskRule):
    """A request that did not declare support for tasks is answered with a task.

    **Why it matters.** The client cannot read this result, regardless of what an earlier request declared.

    **On the wire.** `> {"id":2,"method":"tools/call",…}` with `"clientCapabilities":{}`
    `< {"id":2,"result":{"resultType":"task","taskId":"t1",…}}`

    **Instead.** Check `extensions` in the capabilities of each request. If they lack `io.modelcontextprotocol/tasks`,
    answer when the result is available.
    """

    id = "ext-tasks/undeclared"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return not method.startswith("tasks/")

    def check_new_task(self, context: MessageContext, request: Request) -> Iterable[Finding]:
        if declares_extension(request) is not False:
            return ()
        text = "a task is created for a request that did not declare the extension"
        return [self.finding(context, text, pointer="/result/resultType", related=(request.seq,))]


class UnsupportedMethod(_NewTaskRule):
    """A request other than a tool call is answered with a task.

    **Why it matters.** Clients expect tasks only from `tools/call`; they never get the result of this request.

    **On the wire.** `> {"id":2,"method":"resources/read",…}` `< {"id":2,"result":{"resultType":"task",…}}`

    **Instead.** Answer with the result, or with an error.
    """

    id = "ext-tasks/unsupported-method"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method != "tools/call" and not method.startswith("tasks/")

    def check_new_task(self, context: MessageContext, request: Request) -> Iterable[Finding]:
        text = f"{shortened(request.method)} is answered with a task"
        return [self.finding(context, text, pointer="/result/resultType", related=(request.seq,))]


class ClientUndeclared(Rule):
    """A client sends a request about a task without declaring support for tasks.

    **Why it matters.** The server has to refuse the request: what earlier requests declared does not count.

    **On the wire.** `> {"id":3,"method":"tasks/get","params":{"taskId":"t1","_meta":{…}}}` with
    `"clientCapabilities":{}`

    **Instead.** `"clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}` in every request about a
    task, and in one that listens with `taskIds`.
    """

    id = "ext-tasks/client-undeclared"
    who = "client"
    versions = MODERN_ERA
    methods = TASK_REQUESTS | {LISTEN}
    sender = "client"
    era = "modern"
    source = SOURCE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or not _is_about_tasks(request) or declares_extension(request) is not False:
            return ()
        name = "taskIds" if request.method == LISTEN else request.method
        text = f"{name} in a request that does not declare the extension"
        pointer = "/params/notifications/taskIds" if request.method == LISTEN else "/method"
        return [self.finding(context, text, pointer=pointer)]


class UndeclaredServed(Rule):
    """A request about tasks that does not declare the extension is not refused with -32021.

    **Why it matters.** -32021 tells clients that they forgot to declare the extension. Without it they notice only when
    another server refuses them.

    **On the wire.** `> {"id":3,"method":"tasks/get",…}` with `"clientCapabilities":{}`
    `< {"id":3,"result":{"resultType":"complete","taskId":"t1",…}}`

    **Instead.** `{"code":-32021,…,"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
    """

    id = "ext-tasks/undeclared-served"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    methods = TASK_REQUESTS | {LISTEN, ACKNOWLEDGED}
    era = "modern"
    source = SOURCE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request, subscription = context.request, context.subscription
        if request is not None and isinstance(subscription, ListenSubscription) and _is_about_tasks(request):
            subscription.memory[self.id] = declares_extension(request) is False
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        subscription = context.subscription
        if not isinstance(subscription, ListenSubscription) or subscription.granted_filter is None:
            return ()
        if not subscription.granted_filter.task_ids or not subscription.memory.pop(self.id, False):
            return ()
        text = "taskIds are acknowledged to a client that did not declare the extension"
        return [self.finding(context, text, pointer="/params/notifications/taskIds", related=(subscription.seq,))]

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, subscription = context.request, context.subscription
        if request is None or not _is_about_tasks(request) or declares_extension(request) is not False:
            return ()
        if isinstance(subscription, ListenSubscription) and not (
            subscription.memory.get(self.id) and _server_has_extension(context)
        ):
            return ()  # already reported, or the server does not know `taskIds`
        text = f"{request.method} is served, although the request did not declare the extension"
        return [self.finding(context, text, pointer="/result", related=(request.seq,))]

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        request, code = context.request, code_of(context.message)
        if (
            request is None
            or code is None
            or code == MISSING_CAPABILITY
            or code in _EARLY_CODES
            or not _is_about_tasks(request)
        ):
            return ()
        if declares_extension(request) is not False or not (
            _server_has_extension(context) or (code == INVALID_PARAMS and request.method != LISTEN)
        ):
            return ()  # a server without the extension has no such method
        text = f"a request without the extension is refused with {code_text(code)}, not {MISSING_CAPABILITY}"
        return [self.finding(context, text, pointer="/error/code", related=(request.seq,))]


class UnlistenedNotification(Rule):
    """A client gets a notification about a task that it does not listen to.

    **Why it matters.** The client did not ask for this notification, and the task may belong to another client.

    **On the wire.** `> {"id":4,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["t1"]},…}}` …
    `< {"method":"notifications/tasks","params":{"taskId":"t2",…}}`

    **Instead.** Send the notification only to clients whose `taskIds` name the task; other clients poll.
    """

    id = "ext-tasks/unlistened-notification"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    methods = TASKS.notifications
    sender = "server"
    needs_start = True
    source = SOURCE

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        task_id, own_subscription = member(context.body.get("params"), "taskId"), context.subscription
        subscriptions = _subscriptions_of(context, self.fold)
        if not isinstance(task_id, str) or (
            isinstance(own_subscription, ListenSubscription) and task_id in own_subscription.requested_filter.task_ids
        ):
            return ()
        if subscriptions is None:
            return ()
        now_ns = context.message.t_ns
        for subscription in subscriptions:
            is_open = subscription.ended_ns is None or now_ns - subscription.ended_ns <= RACE_NS
            if is_open and task_id in subscription.requested_filter.task_ids:
                return ()
        return [self.finding(context, "the client does not listen to this task", pointer="/params/taskId")]


# ---- shared by the rules


def declares_extension(request: Request) -> bool | None:
    """Returns whether a request declares the extension, or None if that is uncertain."""
    return declares(request.meta.get(CLIENT_CAPABILITIES), TASKS)


def _is_about_tasks(request: Request) -> bool:
    if request.method != LISTEN:
        return True
    return member(member(request.params, "notifications"), "taskIds") is not None


def _server_has_extension(context: MessageContext) -> bool:
    """Whether the server is known to support tasks."""
    declaration = context.session.declared.get("modern")
    if declaration is not None and declares(declaration.capabilities, TASKS):
        return True
    return context.task is not None and context.task.seq is not None


def _subscriptions_of(context: MessageContext, fold: Fold) -> list[ListenSubscription] | None:
    """Returns a client's `subscriptions/listen` requests, or None if there are too many or some were forgotten."""
    subscriptions = fold.links.subscriptions
    if subscriptions.forgotten_count:
        return None
    client_subscriptions = subscriptions.listen_subscriptions(context.session)
    return client_subscriptions if len(client_subscriptions) <= MAX_SEARCHED_SUBSCRIPTIONS else None
