"""Capabilities that notifications need, and the capabilities for tasks, which either side may declare."""

from collections.abc import Iterable, Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.protocol import features
from analysis.protocol.declared_capabilities import lacks
from analysis.protocol.methods import METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import HANDSHAKE_ERA
from analysis.rules.base import WARNING, Rule
from analysis.rules.capability.client_capabilities import SETTLED_STATES
from analysis.rules.capability.server_capabilities import knows_declaration
from analysis.rules.finding import Finding, Impact

_MAX_HELD_MESSAGES: Final = 100
"""The most log messages of a session that are held until the capabilities are known."""
_TASKS_REVISION: Final = features.CORE_TASKS


class _UndeclaredNotificationRule(Rule):
    """A rule about notifications of a server that need a capability that it did not declare."""

    who = "server"
    sender = "server"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        declaration = context.session.declared.get(context.era)
        method = _prefixed_method(context)
        if declaration is None or method not in declaration.uncovered_methods:
            return ()
        return [self.undeclared_finding(context, method, declaration.seq)]

    def undeclared_finding(self, context: MessageContext, method: str, declaration_seq: int) -> Finding:
        """Returns the finding that the capability for a method was not declared."""
        text = f"{method} is sent, but {METHODS[method].required_capability} was not declared"
        return self.finding(context, text, pointer="/method", related=(declaration_seq,))


class UndeclaredLogMessages(_UndeclaredNotificationRule):
    """A server sends log messages although it did not declare logging.

    **Why it matters.** The client does not expect them and never sets a level: they are lost, or shown as errors.

    **On the wire.** `< {…,"capabilities":{"tools":{}}}` … `< {"method":"notifications/message",…}`

    **Instead.** Declare `"logging":{}`, or write to stderr.
    """

    id = "capability/undeclared-log-messages"
    needs_session = True
    methods = frozenset({"notifications/message", "initialize"})
    source = "2024-11-05 server/utilities/logging"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.era == "modern" or context.state in SETTLED_STATES:
            return super().on_notification(context)
        if _prefixed_method(context) in self.methods:
            held_messages: list[MessageContext] = self.state_for(context.session, list)
            if len(held_messages) < _MAX_HELD_MESSAGES:
                held_messages.append(context)
        return ()

    def on_result(self, context: MessageContext) -> Iterator[Finding]:
        held_messages: list[MessageContext] = self.state_for(context.session, list)
        declaration = context.session.declared.get("handshake")
        if (
            declaration is not None
            and "notifications/message" in declaration.uncovered_methods
            and context.session.state in SETTLED_STATES
        ):
            for notification in held_messages:
                yield self.undeclared_finding(notification, "notifications/message", declaration.seq)
        held_messages.clear()


class UndeclaredListChanged(_UndeclaredNotificationRule):
    """A server announces that a list has changed, but did not declare that it would.

    **Why it matters.** A client that does not expect such notifications keeps its old list.

    **On the wire.** `< {…,"capabilities":{"tools":{}}}` … `< {"method":"notifications/tools/list_changed"}`

    **Instead.** Declare `"tools":{"listChanged":true}`.
    """

    id = "capability/undeclared-list-changed"
    needs_session = True
    level = WARNING
    impact = Impact.WRONG
    methods = frozenset(
        {
            *("notifications/tools/list_changed", "notifications/prompts/list_changed"),
            "notifications/resources/list_changed",
        }
    )
    source = "2024-11-05 server/tools, server/resources"


class UndeclaredResourceUpdates(_UndeclaredNotificationRule):
    """A server announces that a resource has changed, but did not declare subscriptions.

    **Why it matters.** The client cannot have subscribed, so it does not listen.

    **On the wire.** `< {…,"capabilities":{"resources":{}}}` … `< {"method":"notifications/resources/updated",…}`

    **Instead.** Declare `"resources":{"subscribe":true}`, and notify the clients that subscribe.
    """

    id = "capability/undeclared-resource-updates"
    needs_session = True
    level = WARNING
    methods = frozenset({"notifications/resources/updated"})
    source = "2024-11-05 server/resources"


class UndeclaredRootsChanged(Rule):
    """A client announces that its roots have changed, but did not declare that it would.

    **Why it matters.** A server that does not expect such notifications keeps the old roots.

    **On the wire.** `> …"capabilities":{"roots":{}}` … `> {"method":"notifications/roots/list_changed"}`

    **Instead.** Declare `"roots":{"listChanged":true}`.
    """

    id = "capability/undeclared-roots-changed"
    needs_session = True
    who = "client"
    versions = HANDSHAKE_ERA
    level = WARNING
    impact = Impact.WRONG
    sender = "client"
    era = "handshake"
    states = SETTLED_STATES
    methods = frozenset({"notifications/roots/list_changed"})
    source = "2024-11-05 client/roots"

    def on_notification(self, context: MessageContext) -> Iterator[Finding]:
        capabilities = context.session.client_capabilities
        if capabilities is not None and lacks(capabilities, "roots.listChanged"):
            text = "the client reports changed roots but did not declare roots.listChanged"
            yield self.finding(context, text, pointer="/method", related=(context.session.last_initialize,))


class UndeclaredTask(Rule):
    """A request asks to be run as a task, but the receiver did not declare support for that.

    **Why it matters.** The receiver ignores `task` and answers when the work is done: the sender expects a task but
    gets a result.

    **On the wire.** `< {…,"capabilities":{"tools":{}}}` … `> {"method":"tools/call","params":{…,"task":{}}}`

    **Instead.** Send `task` only if `tasks.requests` of the receiver names the method.
    """

    id = "capability/undeclared-task"
    needs_session = True
    versions = _TASKS_REVISION
    methods = frozenset({"tools/call", "sampling/createMessage", "elicitation/create"})
    era = "handshake"
    states = SETTLED_STATES
    source = "2025-11-25 basic/utilities/tasks"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return like.message.sender in METHODS[method].senders(like.rank)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        params = context.body.get("params")
        if not isinstance(params, dict) or "task" not in params:
            return ()
        return self._check(context)

    def _check(self, context: MessageContext) -> Iterator[Finding]:
        path = f"tasks.requests.{context.method.replace('/', '.')}"
        if context.message.sender == "client":
            declaration = context.session.declared.get("handshake")
            if (
                declaration is None
                or not lacks(declaration.capabilities, path)
                or not knows_declaration(context, declaration)
            ):
                return
            level = None
        elif context.session.client_capabilities is None or not lacks(context.session.client_capabilities, path):
            return
        else:
            level = WARNING
        text = f"{context.method} asks to be run as a task, but {path} was not declared"
        yield self.finding(context, text, pointer="/params/task", level=level)


class UndeclaredTasksMethod(Rule):
    """A task method is called, but the receiver did not declare it.

    **Why it matters.** The receiver does not support tasks, or cannot list or cancel them: the request fails.

    **On the wire.** `< {…,"capabilities":{"tasks":{}}}` … `> {"id":4,"method":"tasks/list"}`

    **Instead.** Send `tasks/list` and `tasks/cancel` only if `tasks.list` and `tasks.cancel` are declared.
    """

    id = "capability/undeclared-tasks-method"
    needs_session = True
    versions = _TASKS_REVISION
    methods = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})
    era = "handshake"
    states = SETTLED_STATES
    source = "2025-11-25 basic/utilities/tasks"

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        request = context.message
        if not isinstance(request, Request):
            return
        gate = METHODS[request.method].required_capability
        if context.message.sender == "client":
            declaration = context.session.declared.get("handshake")
            is_gap = (
                declaration is not None
                and request.method in declaration.uncovered_methods
                and knows_declaration(context, declaration)
            )
        else:
            capabilities = context.session.client_capabilities
            is_gap = capabilities is not None and lacks(capabilities, gate)
        if is_gap:
            text = f"{request.method} is requested, but the other side did not declare {gate}"
            yield self.finding(context, text, pointer="/method")


# ---- shared by the rules


def _prefixed_method(context: MessageContext) -> str:
    """Returns the method of a notification, with its prefix even if the sender left that out."""
    return UNPREFIXED_NOTIFICATIONS.get(context.method, context.method)
