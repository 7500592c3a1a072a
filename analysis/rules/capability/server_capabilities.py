"""Capabilities of the server: which requests clients may send it, and which it serves."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.conversation.session import Session
from analysis.facts import code_of
from analysis.protocol import features
from analysis.protocol.declared_capabilities import DeclaredCapabilities, has
from analysis.protocol.error_codes import METHOD_NOT_FOUND
from analysis.protocol.methods import METHODS
from analysis.protocol.revisions import HANDSHAKE_ERA, MODERN_ERA, Span
from analysis.rules.base import RACE_NS, WARNING, CaptureEnd, Rule
from analysis.rules.error.codes import params_of, text_of
from analysis.rules.finding import Finding, Impact, Level


class _UndeclaredRule(Rule):
    """A rule about requests of a client that need a capability that the server did not declare."""

    who = "client"
    levels: ClassVar[Mapping[Span, Level]] = {features.ADVISORY_CAPABILITIES: WARNING, MODERN_ERA: WARNING}
    sender = "client"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method in like.session.gaps

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        declaration = context.session.declared.get(context.era)
        if (
            declaration is None
            or context.method not in declaration.uncovered_methods
            or not knows_declaration(context, declaration)
        ):
            return ()
        text = (
            f"{context.method} is requested, but the server did not declare "
            f"{METHODS[context.method].required_capability}"
        )
        return [self.finding(context, text, pointer="/method", related=(declaration.seq,))]


class UndeclaredTools(_UndeclaredRule):
    """A client requests tools from a server that declared none.

    **Why it matters.** A server's capabilities say what it supports. A request for anything else fails, or works by
    luck until the next version.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"prompts":{}}}}` … `> {"id":2,"method":"tools/list"}`

    **Instead.** Check the capabilities before the first request; if the server should have declared `tools`, the
    mistake is the server's.
    """

    id = "capability/undeclared-tools"
    needs_session = True
    methods = frozenset({"tools/list", "tools/call"})
    source = "2024-11-05 basic/lifecycle, server/tools"


class UndeclaredResources(_UndeclaredRule):
    """A client requests resources from a server that declared none.

    **Why it matters.** A server's capabilities say what it supports. A request for anything else fails, or works by
    luck until the next version.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"tools":{}}}}` … `> {"id":2,"method":"resources/list"}`

    **Instead.** Check the capabilities before the first request.
    """

    id = "capability/undeclared-resources"
    needs_session = True
    follows = ("ext-skills/no-resources",)
    methods = frozenset({"resources/list", "resources/read", "resources/templates/list"})
    source = "2024-11-05 basic/lifecycle, server/resources"


class UndeclaredSubscribe(_UndeclaredRule):
    """A client subscribes to a resource of a server that did not declare subscriptions.

    **Why it matters.** The server refuses the request, or accepts it and never sends an update.

    **On the wire.** `< {…,"capabilities":{"resources":{}}}` … `> {"id":3,"method":"resources/subscribe",…}`

    **Instead.** Subscribe only if `resources.subscribe` is `true`; otherwise read the resource again from time to time.
    """

    id = "capability/undeclared-subscribe"
    needs_session = True
    versions = HANDSHAKE_ERA
    levels: ClassVar[Mapping[Span, Level]] = {features.ADVISORY_CAPABILITIES: WARNING}
    replaces = ("capability/undeclared-resources",)
    methods = frozenset({"resources/subscribe", "resources/unsubscribe"})
    source = "2024-11-05 server/resources"


class UndeclaredPrompts(_UndeclaredRule):
    """A client requests prompts from a server that declared none.

    **Why it matters.** A server's capabilities say what it supports. A request for anything else fails, or works by
    luck until the next version.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"tools":{}}}}` … `> {"id":2,"method":"prompts/list"}`

    **Instead.** Check the capabilities before the first request.
    """

    id = "capability/undeclared-prompts"
    needs_session = True
    methods = frozenset({"prompts/list", "prompts/get"})
    source = "2024-11-05 basic/lifecycle, server/prompts"


class UndeclaredCompletions(_UndeclaredRule):
    """A client requests completions from a server that declared none.

    **Why it matters.** The client may do so at every keystroke of its user, each time for nothing.

    **On the wire.** `< {…,"capabilities":{"prompts":{}}}` … `> {"id":3,"method":"completion/complete",…}`

    **Instead.** Request completions only if `completions` is declared. 2024-11-05 has no such capability, so clients
    may send the request to any server there.
    """

    id = "capability/undeclared-completions"
    needs_session = True
    versions = features.COMPLETION_CAPABILITY
    levels: ClassVar[Mapping[Span, Level]] = {
        features.COMPLETION_CAPABILITY.within(features.ADVISORY_CAPABILITIES): WARNING,
        MODERN_ERA: WARNING,
    }
    impact = Impact.COST
    methods = frozenset({"completion/complete"})
    source = "2025-03-26 server/utilities/completion"


class UndeclaredLogging(_UndeclaredRule):
    """A client sets the log level of a server that did not declare logging.

    **Why it matters.** The request fails. It is often the first one after the handshake, and some clients then give up.

    **On the wire.** `< {…,"capabilities":{"tools":{}}}` … `> {"id":2,"method":"logging/setLevel",…}`

    **Instead.** Set the level only if `logging` is declared.
    """

    id = "capability/undeclared-logging"
    needs_session = True
    versions = HANDSHAKE_ERA
    levels: ClassVar[Mapping[Span, Level]] = {features.ADVISORY_CAPABILITIES: WARNING}
    methods = frozenset({"logging/setLevel"})
    source = "2024-11-05 server/utilities/logging"


_CLIENT_REQUESTS: Final = frozenset(
    name
    for name, method in METHODS.items()
    if method.sender == "client" and method.is_request and method.required_capability
)
"""The requests of clients that need a capability."""


class ServedUndeclared(Rule):
    """A server serves requests for a capability that it did not declare.

    **Why it matters.** Clients rely on the capabilities: a feature that is not declared is never shown to users, so it
    is never used.

    **On the wire.** `< {…,"capabilities":{}}` … `> {"id":2,"method":"tools/list"}` `< {"id":2,"result":{"tools":[…]}}`

    **Instead.** Declare the capability: `"tools":{}`.
    """

    id = "capability/served-undeclared"
    follows = ("ext-skills/no-resources",)
    needs_session = True
    who = "server"
    impact = Impact.WRONG
    sender = "server"
    methods = _CLIENT_REQUESTS
    source = "2024-11-05 server/tools, server/resources, server/prompts; 2025-03-26 server/utilities/completion"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method in like.session.gaps and _needs_capability(method, like.rank)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        declaration, request = context.session.declared.get(context.era), context.request
        if declaration is None or request is None or request.method not in declaration.uncovered_methods:
            return ()
        if context.era == "handshake" and request.seq < context.session.last_initialize:
            return ()  # the request was sent under an earlier handshake
        text = f"{request.method} is served, but {METHODS[request.method].required_capability} was not declared"
        return [self.finding(context, text, pointer="/result", related=(declaration.seq, request.seq))]


_SERVED_BY_SERVERS: Final = _CLIENT_REQUESTS - {"tools/call", "resources/templates/list"}
"""The requests of clients that a server serves if it declares their capability."""
_SERVED_BY_CLIENTS: Final = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})


class DeclaredNotServed(Rule):
    """A server or a client declares a capability, but does not implement its method.

    **Why it matters.** A client shows its user a feature that fails whenever it is used. A server requests roots, a
    completion or user input in the middle of a call, and the call fails.

    **On the wire.** `< {…,"capabilities":{"prompts":{}}}` … `> {"id":3,"method":"prompts/list"}`
    `< {"id":3,"error":{"code":-32601,…}}`; or `> {…,"capabilities":{"roots":{}}}` … `< {"id":1,"method":"roots/list"}`
    `> {"id":1,"error":{"code":-32601,…}}`

    **Instead.** Answer, with an empty list if there is nothing, or do not declare the capability. A method that is
    served for one item is implemented, so a refusal of another item, such as a resource that is gone, is not reported.
    """

    id = "capability/declared-not-served"
    needs_session = True
    levels: ClassVar[Mapping[Span, Level]] = {HANDSHAKE_ERA: WARNING}
    methods = _SERVED_BY_SERVERS | _SERVED_BY_CLIENTS
    source = "2026-07-28 server/tools; 2024-11-05 basic/lifecycle, client/roots, client/sampling"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        if not METHODS[method].is_defined(like.rank):
            return False
        if like.message.sender == "client":
            # In the modern era a server asks in a result, and the client answers in its next request.
            return method in _SERVED_BY_CLIENTS and like.era == "handshake"
        return method in _SERVED_BY_SERVERS and _needs_capability(method, like.rank)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        self.state_for(context.session, _MethodOutcomes).served_methods.add(context.method)
        return ()

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or code_of(context.message) != METHOD_NOT_FOUND:
            return ()
        served: _MethodOutcomes = self.state_for(context.session, _MethodOutcomes)
        if request.method in served.served_methods:
            return ()
        findings = self._refusal_findings(context, request)
        if request.method not in _ITEM_METHODS:
            return findings
        served.refusals.setdefault(request.method, findings)  # the server may still serve another item
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterable[Finding]:  # noqa: ARG002 - it does not matter how the capture ended
        served: _MethodOutcomes | None = session.memory.get(self.id)
        if served is None:
            return ()
        refusals = (findings for method, findings in served.refusals.items() if method not in served.served_methods)
        return [finding for findings in refusals for finding in findings]

    def _refusal_findings(self, context: MessageContext, request: Request) -> list[Finding]:
        if context.message.sender == "client":
            session = context.session
            capabilities, declaration_seq = session.client_capabilities or {}, session.last_initialize
            is_refused = not _needs_more_capabilities(request, capabilities) and declaration_seq < request.seq
        else:
            declaration = context.session.declared.get(context.era)
            if declaration is None:
                return []
            capabilities, declaration_seq = declaration.capabilities, declaration.seq
            is_refused = not _is_about_item(context, request) and declaration_seq < context.message.seq
        gate = METHODS[request.method].required_capability
        if not is_refused or not has(capabilities, gate):
            return []
        text = f"{request.method} is refused with {METHOD_NOT_FOUND}, although {gate} was declared"
        return [self.finding(context, text, pointer="/error/code", related=(declaration_seq, request.seq))]


class _MethodOutcomes:
    """The methods that were served or refused in a session."""

    def __init__(self) -> None:
        self.served_methods: set[str] = set()
        self.refusals: dict[str, list[Finding]] = {}
        """The findings about the first refusal of each method that is about one item; reported if no item is served."""


# ---- shared by the rules


def _needs_capability(method: str, rank: int | None) -> bool:
    """Whether a server must declare the capability of a method before clients may use it."""
    return method != "completion/complete" or not features.COMPLETIONS_WITHOUT_CAPABILITY.includes(rank)


_ITEM_NAMES: Final = {"prompts/get": ("name", "prompt"), "resources/read": ("uri", "resource")}
"""The methods that request a single item, each with the member that names the item and the word for it."""
_ITEM_METHODS: Final = frozenset({*_ITEM_NAMES, "tools/call", "completion/complete"})


def _is_about_item(context: MessageContext, request: Request) -> bool:
    """Whether an error is about the item that was requested, not about the method."""
    if request.method not in _ITEM_NAMES:
        return False
    (member, kind), text = _ITEM_NAMES[request.method], text_of(context).replace(request.method, "")
    name = params_of(request).get(member)
    return kind in text or (isinstance(name, str) and bool(name) and name.casefold() in text)


def _needs_more_capabilities(request: Request, capabilities: dict[str, Any]) -> bool:
    """Whether a request needs more from a client than the basic capability for its method."""
    params = params_of(request)
    wants_tools = request.method == "sampling/createMessage" and not {"tools", "toolChoice"}.isdisjoint(params)
    return "task" in params or (wants_tools and not has(capabilities, "sampling.tools"))


def knows_declaration(context: MessageContext, declaration: DeclaredCapabilities) -> bool:
    """Whether a client had provably read the server's declaration before it sent a request, or had enough time to."""
    if context.era == "handshake" and context.state != "ready":
        return False
    if context.message.t_ns - declaration.t_ns > RACE_NS:
        return True
    # Another connection may belong to another client at the same address.
    return declaration.is_awaited and (
        context.http is None or context.era == "handshake" or context.http.conn == declaration.conn
    )
