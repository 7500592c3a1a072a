"""The group `modern`: the envelope of requests since 2026-07-28, and the messages that each side may send."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import VERSION_FIELD
from analysis.conversation.message import Request, Response
from analysis.conversation.request_meta import missing_meta, request_meta
from analysis.conversation.session import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO
from analysis.facts import code_of
from analysis.protocol.error_codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from analysis.protocol.extensions import KNOWN_METHODS, RESULT_TYPES, TASKS, is_draft
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.methods import ENDLESS_CORE_METHODS, METHODS
from analysis.protocol.result_types import is_defined
from analysis.protocol.revisions import FIRST_MODERN_RANK, MODERN_ERA, NEWEST_RANK, rank_of
from analysis.rules.base import NOTE, UNTYPED_KINDS, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd import MessageOddity
from analysis.rules.support.eras import AllEras, data_of, member, result_type, shortened, speaks_modern
from analysis.rules.support.foreign_methods import has_unknown_extension
from analysis.rules.unchanged_content import WordsScope

_INDEX_PAGE: Final = "2026-07-28 basic/index"
_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ALNUM: Final = _LETTERS | frozenset("0123456789")
_MAX_EXTENSIONS: Final = 100
"""The most extensions of one message that are checked."""
_MAX_CAPABILITY_DEPTH: Final = 8
"""The deepest level of nested capabilities that is compared."""


class _EnvelopeRule(Rule):
    """The base class of the rules about a request's envelope in the modern era."""

    oddities = MessageOddity.INCOMPLETE
    sender = "client"
    era = "modern"

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        request = context.message
        if (
            not isinstance(request, Request)
            or not speaks_modern(context)
            or request.method.startswith("notifications/")
        ):
            return ()
        return self.check_request(context, request)

    def check_request(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        """Check a request of the modern era."""
        raise NotImplementedError


class _IncompleteEnvelopeRule(Rule):
    """The base class of the rules about responses to requests with an incomplete envelope."""

    oddities = MessageOddity.INCOMPLETE
    sender = "server"
    era = "modern"

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        response, call = context.message, context.answered
        if call is None or not isinstance(response, Response) or not speaks_modern(context):
            return ()
        return self.check_response(context, call.request, response)

    def check_response(self, context: MessageContext, request: Request, response: Response) -> Iterator[Finding]:
        """Check a result or an error."""
        raise NotImplementedError


class MissingMeta(_EnvelopeRule):
    """A request of the modern era has no `params._meta`.

    **Why it matters.** Without it the server knows neither the version nor the client's capabilities, as this era has
    no handshake.

    **On the wire.** `> {"jsonrpc":"2.0","id":2,"method":"tools/list"}`

    **Instead.** Send `params._meta` with `io.modelcontextprotocol/protocolVersion`, `…/clientCapabilities` and
    `…/clientInfo` in every request, including requests without other params.
    """

    id = "modern/missing-meta"
    who = "client"
    versions = MODERN_ERA
    source = "2026-07-28 basic/index, schema RequestParams"

    def check_request(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        if missing_meta(request) == "meta":
            yield self.finding(context, f"{shortened(request.method)} has no params._meta", pointer="/params")


class MissingProtocolVersion(_EnvelopeRule):
    """A request of the modern era does not name its version.

    **Why it matters.** The server has to refuse it, or treat it as a request of the handshake era.

    **On the wire.** `> …"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}`

    **Instead.** Name the version in `io.modelcontextprotocol/protocolVersion`, as a string.
    """

    id = "modern/missing-protocol-version"
    who = "client"
    versions = MODERN_ERA
    source = _INDEX_PAGE

    def check_request(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        if missing_meta(request) == "version":
            yield self.finding(
                context, f"{shortened(request.method)} does not name its protocol version", pointer="/params/_meta"
            )


class MissingClientCapabilities(_EnvelopeRule):
    """A request of the modern era does not declare the client's capabilities.

    **Why it matters.** Capabilities apply to one request: what an earlier request declared does not count.

    **On the wire.** `> …"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

    **Instead.** Send `io.modelcontextprotocol/clientCapabilities`; `{}` says that there are none.
    """

    id = "modern/missing-client-capabilities"
    who = "client"
    versions = MODERN_ERA
    source = _INDEX_PAGE

    def check_request(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        meta = request_meta(request)
        if meta is not None and not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
            yield self.finding(
                context,
                f"{shortened(request.method)} does not declare the client's capabilities",
                pointer="/params/_meta",
            )


class MissingClientInfo(Rule):
    """A request of the modern era does not name the program that sends it.

    **Why it matters.** The server's log cannot distinguish clients, as nothing else identifies them.

    **On the wire.** `> …"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",…}` without `…/clientInfo`

    **Instead.** Send `io.modelcontextprotocol/clientInfo` with a name and a version.
    """

    id = "modern/missing-client-info"
    who = "client"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.HINT
    once = True
    sender = "client"
    era = "modern"
    source = _INDEX_PAGE

    def decisive_words(self, _hook: str, method: str, _like: MessageContext) -> WordsScope | None:
        return "envelope" if method in KNOWN_METHODS and method != "subscriptions/listen" else None

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or CLIENT_INFO in request.meta or request.method.startswith("notifications/"):
            return ()
        if request_meta(request) is None or not speaks_modern(context):
            return ()
        return [self.finding(context, f"{shortened(request.method)} does not name the client", pointer="/params/_meta")]


class IncompleteAccepted(_IncompleteEnvelopeRule):
    """The server serves a request whose envelope is incomplete.

    **Why it matters.** The server had to guess the client's capabilities. Other servers will refuse the client.

    **On the wire.** `> {"id":3,…}` without capabilities, `< {"id":3,"result":{"resultType":"complete",…}}`

    **Instead.** Refuse it with -32602. A server that supports both eras may treat a request without an envelope as one
    of the handshake era, and answer it without `resultType`.
    """

    id = "modern/incomplete-accepted"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    source = _INDEX_PAGE

    def check_response(self, context: MessageContext, request: Request, response: Response) -> Iterator[Finding]:
        missing_part = missing_meta(request)
        if missing_part is not None and not response.is_error and result_type(response) is not None:
            text = f"the request is served although it lacks {_MISSING_PARTS[missing_part]}"
            yield self.finding(context, text, related=(request.seq,))


class IncompleteWrongCode(_IncompleteEnvelopeRule):
    """The server refuses a request whose envelope is incomplete, but not with -32602.

    **Why it matters.** The client looks for the mistake in the wrong place.

    **On the wire.** `> {"id":3,…}` without capabilities, `< {"id":3,"error":{"code":-32603,…}}`

    **Instead.** Send -32602. Over HTTP, -32020 is also right if a header is missing as well.
    """

    id = "modern/incomplete-wrong-code"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    source = _INDEX_PAGE

    def check_response(self, context: MessageContext, request: Request, response: Response) -> Iterator[Finding]:
        missing_part, code = missing_meta(request), code_of(response) if response.is_error else None
        if missing_part is None or code is None or not context.session.server_is_modern:
            return
        accepted_codes = {INVALID_PARAMS, UNSUPPORTED_VERSION} | (
            {HEADER_MISMATCH} if context.http is not None else set()
        )
        method = METHODS.get(request.method)
        if method is None or not method.is_defined(NEWEST_RANK if context.rank is None else context.rank):
            accepted_codes.add(METHOD_NOT_FOUND)
        if code not in accepted_codes:
            text = f"the request lacks {_MISSING_PARTS[missing_part]}, but is refused with {code}, not {INVALID_PARAMS}"
            yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


class MissingResultType(Rule):
    """A result of a modern server has no `resultType`.

    **Why it matters.** The client cannot distinguish a complete result from one that asks for more.

    **On the wire.** `< {"id":2,"result":{"tools":[…]}}`

    **Instead.** Send `"resultType":"complete"` in every complete result.
    """

    id = "modern/missing-result-type"
    results = UNTYPED_KINDS
    who = "server"
    versions = MODERN_ERA
    source = _INDEX_PAGE
    sender = "server"
    era = "modern"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result, request = context.body["result"], context.request
        if not isinstance(result, dict) or isinstance(result.get("resultType"), str) or request is None:
            return ()
        # A server that supports both eras treats a request without a version as one of the handshake era.
        if not context.session.server_is_modern or PROTOCOL_VERSION not in request.meta:
            return ()
        level = NOTE if is_draft(request.method) else None
        text = "the result has no resultType"
        return [self.finding(context, text, pointer="/result", related=(request.seq,), level=level)]


class UnknownResultType(Rule):
    """`resultType` has a value that the revision does not define.

    **Why it matters.** The client does not know whether the result is complete, and has to give up.

    **On the wire.** `< {"id":2,"result":{"resultType":"done",…}}`

    **Instead.** Send `complete` or `input_required`; use other values only for extensions that the request has
    declared.
    """

    id = "modern/unknown-result-type"
    yields_to_extensions = True
    results = UNTYPED_KINDS
    who = "server"
    versions = MODERN_ERA
    source = _INDEX_PAGE
    sender = "server"
    era = "modern"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        type_, request = member(context.body["result"], "resultType"), context.request
        if not isinstance(type_, str) or request is None or not speaks_modern(context):
            return ()
        if type_ in RESULT_TYPES or is_defined(type_, context.rank):
            return ()
        extensions = member(request.meta.get(CLIENT_CAPABILITIES), "extensions")
        is_extended = isinstance(extensions, dict) and any(name != TASKS.identifier for name in extensions)
        is_extended = is_extended or has_unknown_extension(context)
        text = f"resultType has the undefined value {shortened(type_)!r}"
        return [self.finding(context, text, pointer="/result/resultType", level=NOTE if is_extended else None)]


class MissingServerInfo(Rule):
    """A result of a modern server does not name the program that sends it.

    **Why it matters.** Without a handshake this is the only place that names the server. It is only a note for the
    end of a `subscriptions/listen`, of which the specification itself shows a result without it.

    **On the wire.** `< {"id":2,"result":{"resultType":"complete",…}}` without
    `_meta["io.modelcontextprotocol/serverInfo"]`

    **Instead.** Put the server's name and version into `_meta` of every result.
    """

    id = "modern/missing-server-info"
    who = "server"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.HINT
    once = True
    once_each = True
    source = _INDEX_PAGE
    sender = "server"
    era = "modern"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result, request = context.body["result"], context.request
        if not isinstance(result, dict) or request is None or not context.session.server_is_modern:
            return ()
        if is_draft(request.method):
            return ()
        meta = result.get("_meta")
        if (isinstance(meta, dict) and SERVER_INFO in meta) or not speaks_modern(context):
            return ()
        if not isinstance(result.get("resultType"), str) and PROTOCOL_VERSION not in request.meta:
            return ()
        if request.method in ENDLESS_CORE_METHODS:
            text = f"the result that ends {request.method} does not name the server"
            return [self.finding(context, text, pointer="/result", level=NOTE)]
        return [self.finding(context, "the result does not name the server", pointer="/result")]


class ServerRequest(Rule):
    """The server sends a request in the modern era.

    **Why it matters.** Clients do not answer requests in this era, so the server waits forever.

    **On the wire.** `< {"id":1,"method":"roots/list"}` where every request of the client has the envelope

    **Instead.** Answer the client's request with `resultType: "input_required"`, and ask for the input in
    `inputRequests`.
    """

    id = "modern/server-request"
    yields_to_extensions = True
    who = "server"
    versions = AllEras(*MODERN_ERA)
    sender = "server"
    source = "2026-07-28 basic/patterns/index, basic/transports/stdio, streamable-http"

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        request = context.message
        if not isinstance(request, Request) or not _is_modern_connection(context):
            return
        if not request.method.startswith("notifications/"):
            text = f"the server sends the request {shortened(request.method)}"
            yield self.finding(context, text, pointer="/method")


class ClientResponse(Rule):
    """The client sends a response in the modern era.

    **Why it matters.** Servers send no requests in this era, so the response matches none. Answers to a server's
    questions belong in another request.

    **On the wire.** `> {"id":1,"result":{"roots":[…]}}`

    **Instead.** Send the request again, with the answers in `params.inputResponses`.
    """

    id = "modern/client-response"
    who = "client"
    versions = AllEras(*MODERN_ERA)
    sender = "client"
    source = "2026-07-28 basic/transports/stdio, streamable-http"

    def on_response(self, context: MessageContext) -> Iterator[Finding]:
        if context.http is None:
            is_modern = _is_modern_connection(context)
        else:
            is_modern = (rank_of(context.http.fields.get(VERSION_FIELD)) or 0) >= FIRST_MODERN_RANK
        if is_modern:
            yield self.finding(
                context, "the client sends a response, although servers send no requests in this revision"
            )


class MissingCapabilityErrorShape(Rule):
    """An error says that a capability is missing, but not which one.

    **Why it matters.** The client can neither tell its user what to enable, nor decide whether a retry is worthwhile.

    **On the wire.** `< {"id":4,"error":{"code":-32021,"message":"…"}}`

    **Instead.** Name the missing capabilities in `data.requiredCapabilities`.
    """

    id = "modern/missing-capability-error-shape"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    source = "2026-07-28 basic/index, schema MissingRequiredClientCapabilityError"
    sender = "server"
    era = "modern"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        response, request = context.message, context.answered.request if context.answered is not None else None
        if request is None or not isinstance(response, Response) or code_of(response) != MISSING_CAPABILITY:
            return
        if not speaks_modern(context):
            return
        required_capabilities = data_of(response).get("requiredCapabilities")
        if not isinstance(required_capabilities, dict):
            yield self.finding(context, "the error names no requiredCapabilities", pointer="/error/data")
        elif _is_declared(required_capabilities, request.meta.get(CLIENT_CAPABILITIES)):
            text = "the request declared all capabilities that the error names"
            yield self.finding(context, text, pointer="/error/data/requiredCapabilities", related=(request.seq,))


class ExtensionId(Rule):
    """An extension is declared under a name without a valid prefix, or with a value that is not an object.

    **Why it matters.** Names without a prefix collide, and peers ignore invalid declarations, so the extension is
    silently off.

    **On the wire.** `> …"clientCapabilities":{"extensions":{"tasks":true}}`

    **Instead.** Use a prefix of your own, a slash, a name, and an object: `"com.example/tasks":{}`.
    """

    id = "modern/extension-id"
    versions = MODERN_ERA
    era = "modern"
    source = "2026-07-28 basic/versioning"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return method == "server/discover" if hook == "result" else like.message.sender == "client"

    def decisive_words(self, hook: str, _method: str, _like: MessageContext) -> WordsScope | None:
        return "result" if hook == "result" else "envelope"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        capabilities = context.request.meta.get(CLIENT_CAPABILITIES) if context.request is not None else None
        if not isinstance(capabilities, dict) or "extensions" not in capabilities:
            return ()
        pointer = f"/params/_meta/{encode_step(CLIENT_CAPABILITIES)}/extensions"
        return self._check_extensions(context, capabilities["extensions"], pointer)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        extensions = member(member(context.body["result"], "capabilities"), "extensions")
        return self._check_extensions(context, extensions, "/result/capabilities/extensions")

    def _check_extensions(self, context: MessageContext, extensions: object, pointer: str) -> Iterator[Finding]:
        if not isinstance(extensions, dict):
            return
        for name, value in list(extensions.items())[:_MAX_EXTENSIONS]:
            extension_pointer = f"{pointer}/{encode_step(shortened(name))}"
            if not _is_extension(name):
                yield self.finding(
                    context,
                    f"the name of the extension {shortened(name)!r} does not have the form prefix/name",
                    pointer=extension_pointer,
                )
            elif not isinstance(value, dict):
                yield self.finding(
                    context, f"the value of the extension {shortened(name)} is not an object", pointer=extension_pointer
                )


# ---- shared by the rules

_MISSING_PARTS: Final = {
    "meta": "params._meta",
    "version": "the protocol version",
    "capabilities": "the client's capabilities",
}


def _is_modern_connection(context: MessageContext) -> bool:
    """Whether a connection carries only messages of the modern era."""
    if context.session.lost_seq >= 0 and context.http is None:
        return False  # a handshake may have been lost
    session = context.session
    if context.http is not None:
        return any(
            sent_context.era == "modern" and isinstance(sent_context.message, Request)
            for sent_context in context.http.client_messages
        )
    if session.is_modern:
        return True
    # The session has used both eras: it is modern only if the server speaks that era and there was no fallback.
    uses_handshake = session.epoch > 1 or session.state in ("init-answered", "ready")
    return "modern" in session.eras and session.server_is_modern and not uses_handshake


def _is_declared(required_capabilities: dict[str, Any], declared_capabilities: object, depth: int = 0) -> bool:
    """Whether all required capabilities were declared; an empty object requires no particular members."""
    if not isinstance(declared_capabilities, dict) or depth > _MAX_CAPABILITY_DEPTH:
        return False
    return all(
        name in declared_capabilities
        and (not isinstance(value, dict) or not value or _is_declared(value, declared_capabilities[name], depth + 1))
        for name, value in required_capabilities.items()
    )


def _is_extension(name: str) -> bool:
    """Whether a name has the form `prefix/name`, in the grammar of `_meta` keys."""
    prefix, slash, local_name = name.partition("/")
    if not slash or not all(_is_label(label) for label in prefix.split(".")):
        return False
    has_valid_characters = all(character in _ALNUM or character in "-_." for character in local_name)
    return not local_name or (has_valid_characters and local_name[0] in _ALNUM and local_name[-1] in _ALNUM)


def _is_label(label: str) -> bool:
    has_valid_characters = all(character in _ALNUM or character == "-" for character in label)
    return bool(label) and has_valid_characters and label[0] in _LETTERS and label[-1] in _ALNUM
