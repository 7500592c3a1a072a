"""Capabilities of the client: which requests servers may send it, and which it serves."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.conversation.session import CLIENT_CAPABILITIES, State
from analysis.protocol import features
from analysis.protocol.declared_capabilities import lacks
from analysis.protocol.revisions import HANDSHAKE_ERA, Span
from analysis.rules.base import ERROR, WARNING, Rule
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.eras import member
from analysis.rules.support.inputs import INTERIM_METHODS as INTERIM
from analysis.rules.support.inputs import input_requests

SETTLED_STATES: Final[frozenset[State]] = frozenset({"init-answered", "ready"})
"""States in which the server has provably read the client's declaration."""
_ELICITATION_MODES: Final = features.ELICITATION_MODES.within(HANDSHAKE_ERA)
_SAMPLING_TOOLS: Final = features.SAMPLING_TOOLS.within(HANDSHAKE_ERA)


class _MissingCapability(NamedTuple):
    """A capability that a server's request needs, but the client did not declare."""

    capability: str
    must_be_refused: bool
    """Whether the specification requires the client to refuse the request."""


class _UndeclaredRule(Rule):
    """A rule about requests of a server that need a capability that the client did not declare."""

    who = "server"
    sender = "server"
    era = "handshake"
    states = SETTLED_STATES
    capabilities: frozenset[str] = frozenset()
    """The capabilities that the rule checks."""

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        need = None if request is None else _missing_capability(request, context)
        if request is None or need is None or need.capability not in self.capabilities:
            return ()
        text = f"{request.method} needs {need.capability}, which the client did not declare"
        related = () if context.session.last_initialize < 0 else (context.session.last_initialize,)
        return [self.finding(context, text, pointer="/method", related=related)]


class UndeclaredRoots(_UndeclaredRule):
    """A server requests the roots of a client that did not declare any.

    **Why it matters.** The client answers with an error at best; some clients do not answer, and the server waits.

    **On the wire.** `> {"id":0,"method":"initialize","params":{…,"capabilities":{}}}` …
    `< {"id":1,"method":"roots/list"}`

    **Instead.** Request roots only if `roots` is declared; otherwise do without them.
    """

    id = "capability/undeclared-roots"
    needs_session = True
    levels: ClassVar[Mapping[Span, Level]] = {features.ADVISORY_CAPABILITIES: WARNING}
    methods = frozenset({"roots/list"})
    capabilities = frozenset({"roots"})
    source = "2024-11-05 client/roots"


class UndeclaredSampling(_UndeclaredRule):
    """A server requests a completion from the model of a client that did not declare sampling.

    **Why it matters.** Most clients do not support it. The request fails, and with it the call that needed it.

    **On the wire.** `> {"id":0,"method":"initialize","params":{…,"capabilities":{}}}` …
    `< {"id":1,"method":"sampling/createMessage",…}`

    **Instead.** Request it only if `sampling` is declared; otherwise say in a result what the model should do.
    """

    id = "capability/undeclared-sampling"
    needs_session = True
    versions = HANDSHAKE_ERA
    levels: ClassVar[Mapping[Span, Level]] = {features.ADVISORY_CAPABILITIES: WARNING}
    methods = frozenset({"sampling/createMessage"})
    capabilities = frozenset({"sampling"})
    source = "2024-11-05 client/sampling"


class UndeclaredSamplingTools(_UndeclaredRule):
    """A server offers tools to the model of a client that did not declare support for that.

    **Why it matters.** A client that does not know `tools` lets the model answer without them, and the answer looks
    right.

    **On the wire.** `> …"capabilities":{"sampling":{}}` …
    `< {"id":1,"method":"sampling/createMessage","params":{…,"tools":[…]}}`

    **Instead.** Send `tools` and `toolChoice` only if `sampling.tools` is declared.
    """

    id = "capability/undeclared-sampling-tools"
    needs_session = True
    versions = _SAMPLING_TOOLS
    impact = Impact.WRONG
    methods = frozenset({"sampling/createMessage"})
    capabilities = frozenset({"sampling.tools"})
    source = "2025-11-25 client/sampling"


class UndeclaredSamplingContext(Rule):
    """A server requests `includeContext` in a completion, and the client did not declare support for it.

    **Why it matters.** The client leaves the context out silently, and the model answers without it.

    **On the wire.** `> …"capabilities":{"sampling":{}}` …
    `< {"id":1,"method":"sampling/createMessage","params":{…,"includeContext":"thisServer"}}`

    **Instead.** Put what the model should know into the messages. `includeContext` is deprecated.
    """

    id = "capability/undeclared-sampling-context"
    needs_session = True
    who = "server"
    versions = features.SAMPLING_CONTEXT
    level = WARNING
    impact = Impact.WRONG
    sender = "server"
    required_members = frozenset({"inputRequests", "includeContext"})
    source = "2025-11-25 client/sampling"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "result":
            return like.era == "modern" and method in INTERIM
        return like.era == "handshake" and method == "sampling/createMessage" and like.state in SETTLED_STATES

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        if context.request is not None and _wants_context(context.request.params):
            yield from self._check_declared(context, context.session.client_capabilities, "/params")

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None:
            return ()
        capabilities = request.meta.get(CLIENT_CAPABILITIES)
        requests = [
            entry
            for entry in input_requests(context)
            if entry[1] == "sampling/createMessage" and _wants_context(entry[2])
        ]
        return [
            finding
            for pointer, _, _ in requests
            for finding in self._check_declared(context, capabilities, f"{pointer}/params")
        ]

    def _check_declared(self, context: MessageContext, capabilities: object, pointer: str) -> Iterator[Finding]:
        if (
            isinstance(capabilities, dict)
            and not lacks(capabilities, "sampling")
            and lacks(capabilities, "sampling.context")
        ):
            text = "includeContext needs sampling.context, which the client did not declare"
            yield self.finding(context, text, pointer=f"{pointer}/includeContext")


class UndeclaredElicitation(_UndeclaredRule):
    """A server requests input from the user of a client that did not declare elicitation.

    **Why it matters.** The client has no dialog: it refuses or does not answer, and the call that needs the input
    hangs.

    **On the wire.** `> {"id":0,"method":"initialize","params":{…,"capabilities":{}}}` …
    `< {"id":1,"method":"elicitation/create",…}`

    **Instead.** Request input only if `elicitation` is declared; otherwise say in the result of the tool what is
    missing.
    """

    id = "capability/undeclared-elicitation"
    needs_session = True
    versions = features.ELICITATION.within(HANDSHAKE_ERA)
    methods = frozenset({"elicitation/create"})
    capabilities = frozenset({"elicitation"})
    source = "2025-06-18 client/elicitation"


class UndeclaredElicitationMode(_UndeclaredRule):
    """A server requests input in a mode that the client did not declare.

    **Why it matters.** A client that supports only forms cannot open a page, and a client that supports only pages
    cannot show a form.

    **On the wire.** `> …"capabilities":{"elicitation":{}}` …
    `< {"method":"elicitation/create","params":{"mode":"url",…}}`

    **Instead.** Use a mode that is declared; `{}` means forms.
    """

    id = "capability/undeclared-elicitation-mode"
    needs_session = True
    versions = _ELICITATION_MODES
    methods = frozenset({"elicitation/create"})
    capabilities = frozenset({"elicitation.url", "elicitation.form"})
    source = "2025-11-25 client/elicitation"


class UndeclaredAccepted(Rule):
    """A client serves a server's request although it did not declare the capability for it.

    **Why it matters.** Other servers will not send such requests, and do without a feature that would have worked.
    Where the revision requires the client to refuse, the reason is consent: the user did not agree to run those tools,
    or to open that page.

    **On the wire.** `> …"capabilities":{}` … `< {"id":1,"method":"roots/list"}` `> {"id":1,"result":{"roots":[]}}`

    **Instead.** Declare the capability, or refuse the request: with -32601, or with -32602 for a mode that is not
    declared.
    """

    id = "capability/undeclared-accepted"
    needs_session = True
    who = "client"
    versions = HANDSHAKE_ERA
    impact = Impact.WRONG
    sender = "client"
    era = "handshake"
    states = SETTLED_STATES
    methods = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})
    source = "2025-11-25 client/sampling, client/elicitation"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        need = (
            None
            if request is None or request.seq < context.session.last_initialize
            else _missing_capability(request, context)
        )
        if request is None or need is None:
            return ()
        text = f"{request.method} is answered with a result, although {need.capability} was not declared"
        level = ERROR if need.must_be_refused else WARNING
        return [self.finding(context, text, pointer="/result", related=(request.seq,), level=level)]


# ---- shared by the rules


def _missing_capability(request: Request, context: MessageContext) -> _MissingCapability | None:
    """Returns the capability that a server's request needs and its client certainly did not declare, or None."""
    capabilities, method, rank = context.session.client_capabilities, request.method, context.rank
    if capabilities is None:
        return None
    if method == "roots/list":
        return _MissingCapability("roots", must_be_refused=False) if lacks(capabilities, "roots") else None
    if method == "sampling/createMessage":
        return _missing_sampling(request.params, capabilities, rank)
    if not features.ELICITATION.includes(rank):
        return None
    if lacks(capabilities, "elicitation"):
        return _MissingCapability("elicitation", must_be_refused=False)
    return _missing_mode(request.params, capabilities) if _ELICITATION_MODES.includes(rank) else None


def _missing_sampling(params: object, capabilities: dict[str, Any], rank: int | None) -> _MissingCapability | None:
    if _SAMPLING_TOOLS.includes(rank) and isinstance(params, dict) and lacks(capabilities, "sampling.tools"):
        has_tools = params.get("tools") is not None or params.get("toolChoice") is not None
        if has_tools and not lacks(capabilities, "sampling"):
            return _MissingCapability("sampling.tools", must_be_refused=True)
    return _MissingCapability("sampling", must_be_refused=False) if lacks(capabilities, "sampling") else None


def _missing_mode(params: object, capabilities: dict[str, Any]) -> _MissingCapability | None:
    elicitation, mode = capabilities.get("elicitation"), member(params, "mode")
    if not isinstance(elicitation, dict) or not isinstance(params, dict):
        return None
    if mode == "url":
        return (
            _MissingCapability("elicitation.url", must_be_refused=True)
            if lacks(capabilities, "elicitation.url")
            else None
        )
    is_form = mode == "form" or "mode" not in params
    if is_form and "url" in elicitation and lacks(capabilities, "elicitation.form"):
        return _MissingCapability("elicitation.form", must_be_refused=True)
    return None


def _wants_context(params: object) -> bool:
    value = member(params, "includeContext")
    return isinstance(value, str) and value in ("thisServer", "allServers")
