"""Capabilities behind notifications, and the capabilities for tasks, which either side may have."""

from collections.abc import Iterable, Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.protocol.declared_capabilities import lacks
from analysis.protocol.methods import METHODS, UNPREFIXED
from analysis.protocol.revisions import HANDSHAKE_ERA, only
from analysis.rules.base import WARNING, Rule
from analysis.rules.capability.client_capabilities import SETTLED
from analysis.rules.capability.server_capabilities import knows
from analysis.rules.finding import Finding, Impact

_HELD: Final = 100
"""The most log messages that are held until the capabilities are known."""
_TASKS: Final = only("2025-11-25")


class _UndeclaredNotification(Rule):
    """A notification of the server that needs an undeclared capability."""

    who = "server"
    sender = "server"

    def on_notification(self, seen: MessageContext) -> Iterable[Finding]:
        declared = seen.session.declared.get(seen.era)
        method = _notified(seen)
        if declared is None or method not in declared.gaps:
            return ()
        return [self.undeclared(seen, method, declared.seq)]

    def undeclared(self, seen: MessageContext, method: str, declaration: int) -> Finding:
        """A finding: the capability was not declared."""
        text = f"{method} is sent, but {METHODS[method].gate} was not declared"
        return self.finding(seen, text, pointer="/method", related=(declaration,))


class UndeclaredLogMessages(_UndeclaredNotification):
    """A server sends log messages although it did not declare logging.

    **Why it matters.** The client does not expect them and never sets a level: they are lost, or shown as errors.

    **On the wire.** `< {…,"capabilities":{"tools":{}}}` … `< {"method":"notifications/message",…}`

    **Instead.** Declare `"logging":{}`, or write to stderr.
    """

    id = "capability/undeclared-log-messages"
    needs_session = True
    methods = frozenset({"notifications/message", "initialize"})
    source = "2024-11-05 server/utilities/logging"

    def on_notification(self, seen: MessageContext) -> Iterable[Finding]:
        if seen.era == "modern" or seen.state in SETTLED:
            return super().on_notification(seen)
        if _notified(seen) in self.methods:
            held: list[MessageContext] = self.state_for(seen.session, list)
            if len(held) < _HELD:
                held.append(seen)
        return ()

    def on_result(self, seen: MessageContext) -> Iterator[Finding]:
        held: list[MessageContext] = self.state_for(seen.session, list)
        declared = seen.session.declared.get("handshake")
        if declared is not None and "notifications/message" in declared.gaps and seen.session.state in SETTLED:
            for notification in held:
                yield self.undeclared(notification, "notifications/message", declared.seq)
        held.clear()


class UndeclaredListChanged(_UndeclaredNotification):
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


class UndeclaredResourceUpdates(_UndeclaredNotification):
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
    states = SETTLED
    methods = frozenset({"notifications/roots/list_changed"})
    source = "2024-11-05 client/roots"

    def on_notification(self, seen: MessageContext) -> Iterator[Finding]:
        declared = seen.session.client_capabilities
        if declared is not None and lacks(declared, "roots.listChanged"):
            text = "the client reports changed roots but did not declare roots.listChanged"
            yield self.finding(seen, text, pointer="/method", related=(seen.session.last_initialize,))


class UndeclaredTask(Rule):
    """A request asks to be run as a task, but the receiver did not declare support for that.

    **Why it matters.** The receiver ignores `task` and answers when the work is done: the sender expects a task but
    gets a result.

    **On the wire.** `< {…,"capabilities":{"tools":{}}}` … `> {"method":"tools/call","params":{…,"task":{}}}`

    **Instead.** Send `task` only if `tasks.requests` of the receiver names the method.
    """

    id = "capability/undeclared-task"
    needs_session = True
    versions = _TASKS
    methods = frozenset({"tools/call", "sampling/createMessage", "elicitation/create"})
    era = "handshake"
    states = SETTLED
    source = "2025-11-25 basic/utilities/tasks"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return like.message.sender in METHODS[method].senders(like.rank)

    def on_request(self, seen: MessageContext) -> Iterable[Finding]:
        params = seen.body.get("params")
        if not isinstance(params, dict) or "task" not in params:
            return ()
        return self._check(seen)

    def _check(self, seen: MessageContext) -> Iterator[Finding]:
        path = f"tasks.requests.{seen.method.replace('/', '.')}"
        if seen.message.sender == "client":
            declared = seen.session.declared.get("handshake")
            if declared is None or not lacks(declared.capabilities, path) or not knows(seen, declared):
                return
            level = None
        elif seen.session.client_capabilities is None or not lacks(seen.session.client_capabilities, path):
            return
        else:
            level = WARNING
        text = f"{seen.method} asks to be run as a task, but {path} was not declared"
        yield self.finding(seen, text, pointer="/params/task", level=level)


class UndeclaredTasksMethod(Rule):
    """A task method is called, but the receiver did not declare it.

    **Why it matters.** The receiver does not support tasks, or cannot list or cancel them: the request fails.

    **On the wire.** `< {…,"capabilities":{"tasks":{}}}` … `> {"id":4,"method":"tasks/list"}`

    **Instead.** Send `tasks/list` and `tasks/cancel` only if `tasks.list` and `tasks.cancel` are declared.
    """

    id = "capability/undeclared-tasks-method"
    needs_session = True
    versions = _TASKS
    methods = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})
    era = "handshake"
    states = SETTLED
    source = "2025-11-25 basic/utilities/tasks"

    def on_request(self, seen: MessageContext) -> Iterator[Finding]:
        request = seen.message
        if not isinstance(request, Request):
            return
        gate = METHODS[request.method].gate
        if seen.message.sender == "client":
            last_declared = seen.session.declared.get("handshake")
            is_gap = last_declared is not None and request.method in last_declared.gaps and knows(seen, last_declared)
        else:
            declared = seen.session.client_capabilities
            is_gap = declared is not None and lacks(declared, gate)
        if is_gap:
            text = f"{request.method} is requested, but the other side did not declare {gate}"
            yield self.finding(seen, text, pointer="/method")


# ---- shared by the rules


def _notified(seen: MessageContext) -> str:
    """The method of a notification, with its prefix even if the sender left that out."""
    return UNPREFIXED.get(seen.method, seen.method)
