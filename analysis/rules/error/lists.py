"""Errors about tools and prompts that a request names; the rules need the lists that the server has sent."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.message import Request
from analysis.facts import code_of
from analysis.protocol import features
from analysis.protocol.error_codes import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from analysis.protocol.revisions import HANDSHAKE_ERA, Span
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.error.codes import code_text, has_envelope, params_of
from analysis.rules.finding import Finding, Level
from analysis.rules.support.eras import outcome_of
from analysis.rules.support.listings import Listing, prompts_of, tools_of
from analysis.rules.support.prompts import missing_arguments

_TOOL_ERROR: Final = Outcome.TOOL_ERROR  # enum members are slow to look up


class _ListRule(Rule):
    """A rule that follows one of the server's lists."""

    list_method: ClassVar[str] = "tools/list"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "error":
            return True
        return like.message.sender == "server" and (hook == "notification" or method == self.list_method)

    def listing(self, context: MessageContext) -> Listing:
        """Returns the list that the rule follows: the session's tools, unless a subclass overrides this."""
        return tools_of(context.session)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        self.listing(context).record_page(context)
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        self.listing(context).on_list_changed(context)
        return ()


class ToolInputAsProtocolError(_ListRule):
    """Arguments that a tool does not accept are refused with a protocol error.

    **Why it matters.** Hosts show protocol errors to their user, or not at all; a result goes to the model, which can
    correct the arguments and call the tool again.

    **On the wire.** `> {"id":6,"method":"tools/call","params":{"name":"add","arguments":{"a":"x"}}}`
    `< {"id":6,"error":{"code":-32602,"message":"a: expected a number"}}`

    **Instead.** `< {"id":6,"result":{"content":[{"type":"text","text":"a: expected a number"}],"isError":true}}`.
    -32602 is for tools that do not exist, and for params that do not have the shape of a call.
    """

    id = "error/tool-input-as-protocol-error"
    who = "server"
    level = WARNING
    versions = features.TOOL_INPUT_ERRORS_AS_RESULTS
    needs_lists = True
    methods = frozenset({"tools/list", "tools/call", "notifications/tools/list_changed"})
    source = "2025-11-25 server/tools"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        request = context.request
        if (
            request is None
            or request.method != "tools/call"
            or code_of(context.message) != INVALID_PARAMS
            or not _is_call(request)
        ):
            return
        if context.era == "modern" and not has_envelope(request):
            return
        if self.listing(context).entry(params_of(request)["name"], request, context.session) is not None:
            text = f"a call to a listed tool is refused with {INVALID_PARAMS}, which the model does not see"
            yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


class UnknownToolAsResult(_ListRule):
    """A call to a tool that does not exist gets a result that says so.

    **Why it matters.** A client cannot distinguish a tool that failed from a tool that no longer exists, and keeps
    offering it.

    **On the wire.** `> {"id":6,"method":"tools/call","params":{"name":"gone"}}`
    `< {"id":6,"result":{"content":[…],"isError":true}}`

    **Instead.** `< {"id":6,"error":{"code":-32602,"message":"Unknown tool: gone"}}`. Widely used SDKs return a result
    instead.
    """

    id = "error/unknown-tool-as-result"
    who = "server"
    level = NOTE
    needs_lists = True
    methods = frozenset({"tools/list", "tools/call", "notifications/tools/list_changed"})
    source = "2024-11-05 server/tools"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if method == "tools/call":
            return outcome_of(like) is _TOOL_ERROR
        return super().concerns(hook, method, like)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or request.method != "tools/call":
            return super().on_result(context)
        return self._check_failure(context, request)

    def _check_failure(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        name = params_of(request).get("name")
        if isinstance(name, str) and self.listing(context).lacks(name, request, context.session):
            text = f"a call to a tool that is not listed gets a result with isError, not {INVALID_PARAMS}"
            yield self.finding(context, text, pointer="/result/isError", related=(request.seq,))


class UnknownToolCode(_ListRule):
    """A call to a tool that does not exist is refused with -32601 or -32603.

    **Why it matters.** -32601 says that the server has no tools at all, and -32603 that it has failed. -32602 tells the
    caller that the name is wrong and that it should fetch the list again.

    **On the wire.** `> {"id":6,"method":"tools/call","params":{"name":"gone"}}` `< {"id":6,"error":{"code":-32601,…}}`

    **Instead.** `< {"id":6,"error":{"code":-32602,"message":"Unknown tool: gone"}}`. Up to 2025-11-25 only
    an example says so, and the finding is a note.
    """

    id = "error/unknown-tool-code"
    who = "server"
    level = WARNING
    levels: ClassVar[Mapping[Span, Level]] = {HANDSHAKE_ERA: NOTE}
    needs_lists = True
    replaces = ("error/internal",)
    methods = frozenset({"tools/list", "tools/call", "notifications/tools/list_changed"})
    source = "2024-11-05 server/tools; 2026-07-28 schema InvalidParamsError"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code, request = code_of(context.message), context.request
        if request is None or request.method != "tools/call" or code not in (METHOD_NOT_FOUND, INTERNAL_ERROR):
            return
        name = params_of(request).get("name")
        if isinstance(name, str) and self.listing(context).lacks(name, request, context.session):
            text = f"a call to a tool that is not listed is refused with {code_text(code)}, not {INVALID_PARAMS}"
            yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


class PromptArgsCode(_ListRule):
    """A request for an unknown prompt, or without a required argument, is refused with a code other than -32602.

    **Why it matters.** -32602 tells the caller that its own params are at fault: it can ask its user for the right
    ones.

    **On the wire.** `> {"id":4,"method":"prompts/get","params":{"name":"gone"}}` `< {"id":4,"error":{"code":-32603,…}}`

    **Instead.** -32602, with a message that names the prompt or the argument.
    """

    id = "error/prompt-args-code"
    who = "server"
    level = NOTE
    methods = frozenset({"prompts/list", "prompts/get", "completion/complete", "notifications/prompts/list_changed"})
    list_method = "prompts/list"
    source = "2024-11-05 server/prompts; 2025-03-26 server/utilities/completion"

    def listing(self, context: MessageContext) -> Listing:
        """Returns the session's list of prompts."""
        return prompts_of(context.session)

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code, request = code_of(context.message), context.request
        if code is None or code == INVALID_PARAMS or request is None or request.method == "prompts/list":
            return
        params, is_incomplete = params_of(request), False
        if request.method == "completion/complete":
            reference = params.get("ref")
            if code == METHOD_NOT_FOUND or not isinstance(reference, dict) or reference.get("type") != "ref/prompt":
                return  # the server has no completions at all, or the reference is not to a prompt
            name = reference.get("name")
        else:
            name, is_incomplete = params.get("name"), bool(missing_arguments(context, request))
        if isinstance(name, str) and (is_incomplete or self.listing(context).lacks(name, request, context.session)):
            problem = "without a required argument" if is_incomplete else "that is not listed"
            text = f"a prompt {problem} is refused with {code_text(code)}, not {INVALID_PARAMS}"
            yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


# ---- shared by the rules


def _is_call(request: Request) -> bool:
    """Whether params have the shape of a call; False for retries with more input, which other rules check."""
    params = params_of(request)
    shapes = (("arguments", dict), ("_meta", dict), ("task", dict))
    if not isinstance(params.get("name"), str) or "requestState" in params or "inputResponses" in params:
        return False
    if not all(isinstance(params[name], shape) for name, shape in shapes if name in params):
        return False
    token = request.meta.get("progressToken", "")
    return isinstance(token, str) or type(token) is int
