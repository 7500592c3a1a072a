"""Base classes for rules about calls that need the definitions of the tools."""

from collections.abc import Iterable
from typing import Any, ClassVar, Final, NamedTuple

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.message import Request
from analysis.rules.base import Rule
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member
from analysis.rules.support.listings import COMPLETE_PREFIX, ListedItem, tools_of

LIST_TOOLS: Final = "tools/list"
CALL_TOOL: Final = "tools/call"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
RESULT_METHODS: Final = frozenset({CALL_TOOL, "tasks/result", "tasks/get"})
"""Methods whose responses may contain the result of a call."""
_COMPLETE_TOOLS: Final = f"{COMPLETE_PREFIX}tools"
STRUCTURED_MEMBERS: Final = frozenset({"structuredContent", "result"})
"""Members of results that may contain structured content, directly or in the result of a task."""
# Enum members are slow to look up, and to find in a set.
_RESULT: Final = Outcome.RESULT
_TOOL_ERROR: Final = Outcome.TOOL_ERROR


class ToolResult(NamedTuple):
    """The complete result of a call."""

    call: Request
    body: dict[str, Any]
    pointer: str
    """The place of the result in its message."""


def result_of(context: MessageContext) -> ToolResult | None:
    """Returns the complete result of a call that a message contains, directly or as a task's result, or None."""
    request, body, call = context.request, context.body.get("result"), context.answered
    if request is None or call is None or not isinstance(body, dict):
        return None
    if call.outcome is not _RESULT and call.outcome is not _TOOL_ERROR:
        return None
    pointer = "/result"
    if request.method != CALL_TOOL:
        task = context.task
        if task is None or task.request is None or task.request.method != CALL_TOOL:
            return None
        request = task.request
        if context.request is not None and context.request.method == "tasks/get":
            body, pointer = body.get("result"), "/result/result"
            if not isinstance(body, dict):
                return None
    if body.get("resultType", "complete") != "complete":
        return None
    return ToolResult(request, body, pointer)


class ToolResultRule(Rule):
    """The base class of the rules about results of calls."""

    who = "server"
    methods = RESULT_METHODS

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for all hooks
        return like.message.sender == "server"


class ToolLookupRule(Rule):
    """The base class of the rules that look up the tool of a call."""

    needs_lists = True
    methods = frozenset({LIST_TOOLS, TOOLS_CHANGED, *RESULT_METHODS})
    about: ClassVar[frozenset[str]] = frozenset()
    """Methods whose results the rule checks."""
    result_members: ClassVar[frozenset[str]] = frozenset()
    """The rule checks a result only if it has one of these members; empty if it checks all results."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        is_from_server, is_list_known = like.message.sender == "server", _COMPLETE_TOOLS in like.session.learned
        if hook == "request":
            return method == CALL_TOOL and not is_from_server and is_list_known
        return is_from_server and (method in (LIST_TOOLS, TOOLS_CHANGED) or (method in self.about and is_list_known))

    def required_members_for(self, hook: str, method: str, _like: MessageContext) -> frozenset[str]:
        return self.result_members if hook == "result" and method in self.about else frozenset()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.request is not None and context.request.method == LIST_TOOLS:
            tools_of(context.session).record_page(context)
            return ()
        return self.check_result(context)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        tools_of(context.session).on_list_changed(context)
        return ()

    def check_result(self, _context: MessageContext) -> Iterable[Finding]:
        """Check a result."""
        return ()

    def entry(self, context: MessageContext, call: Request | None = None) -> ListedItem | None:
        """Returns the tool of a call as it was listed before the call, or None if it is unknown.

        Args:
            context: a message in the session of the call.
            call: the call; None for the request of the message.
        """
        call = call or context.request
        if call is None:
            return None
        return tools_of(context.session).entry(member(call.params, "name"), call, context.session)
