"""Errors that answer particular requests: the code and the data that they should have."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session import Session
from analysis.facts import code_of
from analysis.protocol import features
from analysis.protocol.error_codes import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION,
    URL_ELICITATION,
)
from analysis.protocol.revisions import HANDSHAKE_ERA, MODERN_ERA, Span
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.error.codes import code_text, data_of, params_of, text_of
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.exchanges import lacks_session


class PingRefused(Rule):
    """A `ping` is answered with an error.

    **Why it matters.** A peer that checks whether the other side is alive treats an error as a failure: some hosts end
    the session or restart the server.

    **On the wire.** `> {"id":4,"method":"ping"}` `< {"id":4,"error":{"code":-32601,"message":"Method not found"}}`

    **Instead.** `< {"id":4,"result":{}}`, at once and in any state, even before `initialize`.
    """

    id = "error/ping-refused"
    versions = HANDSHAKE_ERA
    impact = Impact.CONNECTION
    methods = frozenset({"ping"})
    exchanges = ExchangeOddity.RECEIVED
    source = "2024-11-05 basic/utilities/ping"

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        # For a message in a response body, the HTTP status is known only at the end of the exchange.
        is_body = context.message.sender == "server" and context.message.frames[0].unit == "http_body"
        return () if is_body else self._check(context)

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterable[Finding]:  # noqa: ARG002 - each message has it
        if http.status is None or http.status >= 400:
            return ()  # the status refuses the request: the session has ended, or the credentials are not valid
        bodies = [context for context in http.server_messages if context.message.frames[0].unit == "http_body"]
        return [finding for context in bodies if self._applies_to(context) for finding in self._check(context)]

    def _applies_to(self, context: MessageContext) -> bool:
        return context.method == "ping" and self.versions.applies_to(context.rank, context.era)

    def _check(self, context: MessageContext) -> Iterator[Finding]:
        code, call = code_of(context.message), context.answered
        if context.http is not None and lacks_session(context.http):
            return  # the server refuses the session; another rule checks that the status says so
        if code in (None, PARSE_ERROR) or call is None or call.cancelled_ns is not None or "result" in context.body:
            return
        if isinstance(call.request.body.get("params", {}), dict):
            text = f"a ping is answered with error {code_text(code)}; the response must be an empty result"
            yield self.finding(context, text, pointer="/error", related=(call.request.seq,))


class ResourceNotFoundCode(Rule):
    """A request for a resource that does not exist is refused with the wrong code.

    **Why it matters.** The code tells a client whether to drop the resource from its list ("no such resource") or to
    try again (a failure).

    **On the wire.** `> {"id":2,"method":"resources/read","params":{"uri":"file:///gone"}}`
    `< {"id":2,"error":{"code":-32603,"message":"Resource not found"}}`

    **Instead.** -32002 up to 2025-11-25, and -32602 since 2026-07-28.
    """

    id = "error/resource-not-found-code"
    who = "server"
    levels: ClassVar[Mapping[Span, Level]] = {HANDSHAKE_ERA: NOTE}
    methods = frozenset({"resources/read"})
    source = "2024-11-05 server/resources; 2026-07-28 server/resources"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code, request = code_of(context.message), context.request
        if code is None or code == RESOURCE_NOT_FOUND or request is None or context.message.sender != "server":
            return
        is_modern = context.era == "modern"
        if (is_modern and code == INVALID_PARAMS) or not says_not_found(context, params_of(request).get("uri")):
            return
        expected_code = INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
        text = f"a resource that does not exist is refused with {code_text(code)}, not {expected_code}"
        yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


class UnsupportedVersionData(Rule):
    """A refused `initialize` does not say which revisions are supported.

    **Why it matters.** The client can only give up, although it could have asked for another revision.

    **On the wire.** `< {"id":1,"error":{"code":-32602,"message":"Unsupported protocol version"}}`

    **Instead.** `"data":{"supported":["2025-06-18"],"requested":"1999-01-01"}`; or answer with a revision that you
    support, and let the client decide.
    """

    id = "error/unsupported-version-data"
    who = "server"
    level = NOTE
    versions = HANDSHAKE_ERA
    impact = Impact.CONNECTION
    methods = frozenset({"initialize"})
    source = "2024-11-05 basic/lifecycle"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.sender != "server" or (
            code_of(context.message) != UNSUPPORTED_VERSION and "version" not in text_of(context)
        ):
            return
        data = data_of(context)
        missing_names = [name for name in ("supported", "requested") if not isinstance(data, dict) or name not in data]
        if missing_names:
            text = f"a revision is refused without data.{' and data.'.join(missing_names)}"
            yield self.finding(context, text, pointer="/error")


class UnsupportedVersionShape(Rule):
    """A -32022 does not list the supported revisions, or does not name the requested revision.

    **Why it matters.** There is no handshake in the modern era, so clients can choose another revision only from this
    list.

    **On the wire.** `< {"id":1,"error":{"code":-32022,"message":"Unsupported"}}`

    **Instead.** `"data":{"supported":["2026-07-28"],"requested":"2027-01-01"}`
    """

    id = "error/unsupported-version-shape"
    who = "server"
    versions = MODERN_ERA
    impact = Impact.CONNECTION
    source = "2026-07-28 schema UnsupportedProtocolVersionError"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        if code_of(context.message) != UNSUPPORTED_VERSION or context.message.sender != "server":
            return
        data = data_of(context)
        data = data if isinstance(data, dict) else {}
        supported, missing_members = data.get("supported"), []
        if not isinstance(supported, list) or not all(isinstance(version, str) for version in supported):
            missing_members.append("data.supported, a list of revisions")
        if not isinstance(data.get("requested"), str):
            missing_members.append("data.requested, a revision")
        if missing_members:
            yield self.finding(
                context, f"a {UNSUPPORTED_VERSION} lacks {' and '.join(missing_members)}", pointer="/error"
            )


class UrlElicitationShape(Rule):
    """A -32042 does not say which URLs the user should visit.

    **Why it matters.** The client learns that its user should visit a page, but not which one.

    **On the wire.** `< {"id":3,"error":{"code":-32042,"message":"Sign in first"}}`

    **Instead.** `"data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://…","message":"Sign in"}]}`
    """

    id = "error/url-elicitation-shape"
    who = "server"
    versions = features.ELICITATION_IDS
    impact = Impact.MESSAGE
    source = "2025-11-25 client/elicitation"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        if code_of(context.message) != URL_ELICITATION or context.message.sender != "server":
            return
        data = data_of(context)
        elicitations = data.get("elicitations") if isinstance(data, dict) else None
        if not isinstance(elicitations, list) or not elicitations:
            yield self.finding(context, f"a {URL_ELICITATION} names no elicitation", pointer="/error")
            return
        for index, elicitation in enumerate(elicitations):
            if not _is_url_elicitation(elicitation):
                text = f"an elicitation of a {URL_ELICITATION} lacks the mode url, or elicitationId, url or message"
                yield self.finding(context, text, pointer=f"/error/data/elicitations/{index}")
                return


class UrlElicitationUnsupported(Rule):
    """A -32042 is sent to a client that cannot open URLs.

    **Why it matters.** The client cannot do what the server asks, so the call can never succeed.

    **On the wire.** `> {"id":1,"method":"initialize","params":{"capabilities":{"elicitation":{}},…}}` …
    `< {"id":3,"error":{"code":-32042,…}}`

    **Instead.** Send it only if the client has declared `elicitation.url`; otherwise fail with a result that says why.
    """

    id = "error/url-elicitation-unsupported"
    needs_session = True
    who = "server"
    versions = features.ELICITATION_IDS
    impact = Impact.MESSAGE
    source = "2025-11-25 client/elicitation"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        capabilities = context.session.client_capabilities
        if code_of(context.message) != URL_ELICITATION or context.message.sender != "server" or capabilities is None:
            return
        elicitation = capabilities.get("elicitation")
        if not isinstance(elicitation, dict) or elicitation.get("url") in (None, False):
            text = f"a {URL_ELICITATION} to a client that did not declare elicitation.url"
            yield self.finding(context, text, pointer="/error/code", related=_initialize_seqs(context))


class SamplingCode(Rule):
    """A sampling request with tool blocks that do not match is refused with a code other than -32602.

    **Why it matters.** The params are at fault, but the code says otherwise, so the server will send the same request
    again.

    **On the wire.** `< {"id":8,"method":"sampling/createMessage","params":{"messages":[…a tool_use without a
    tool_result…],…}}` `> {"id":8,"error":{"code":-32603,…}}`

    **Instead.** Refuse it with -32602.
    """

    id = "error/sampling-code"
    who = "client"
    level = NOTE
    versions = features.REFUSAL_CODES
    methods = frozenset({"sampling/createMessage"})
    source = "2025-11-25 client/sampling"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code, request = code_of(context.message), context.request
        if code is None or code == INVALID_PARAMS or request is None or request.sender != "server":
            return
        messages = params_of(request).get("messages")
        if isinstance(messages, list) and _has_mismatched_tools(messages):
            text = f"tool blocks that do not match are refused with {code_text(code)}, not {INVALID_PARAMS}"
            yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


class RootsUnsupportedCode(Rule):
    """A client without roots refuses `roots/list` with a code other than -32601.

    **Why it matters.** -32601 tells a server to do without roots; after any other code it may ask again.

    **On the wire.** `< {"id":1,"method":"roots/list"}` `> {"id":1,"error":{"code":-32600,…}}`

    **Instead.** Refuse methods of capabilities that you did not declare with -32601.
    """

    id = "error/roots-unsupported-code"
    who = "client"
    level = WARNING
    versions = HANDSHAKE_ERA
    methods = frozenset({"roots/list"})
    source = "2024-11-05 client/roots"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code, request, capabilities = code_of(context.message), context.request, context.session.client_capabilities
        if (
            code is None
            or code == METHOD_NOT_FOUND
            or request is None
            or request.sender != "server"
            or capabilities is None
        ):
            return
        if capabilities.get("roots") in (None, False):
            text = f"a client without roots refuses roots/list with {code_text(code)}, not {METHOD_NOT_FOUND}"
            yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


class ElicitationModeCode(Rule):
    """An elicitation in a mode that the client did not declare is refused with a code other than -32602.

    **Why it matters.** The server cannot tell that another mode would have worked.

    **On the wire.** `< {"id":2,"method":"elicitation/create","params":{"mode":"url",…}}` to a client with
    `"elicitation":{"form":{}}`; `> {"id":2,"error":{"code":-32601,…}}`

    **Instead.** Refuse it with -32602.
    """

    id = "error/elicitation-mode-code"
    who = "client"
    versions = features.REFUSAL_CODES
    methods = frozenset({"elicitation/create"})
    replaces = ("capability/declared-not-served",)
    source = "2025-11-25 client/elicitation"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        code, request, capabilities = code_of(context.message), context.request, context.session.client_capabilities
        if (
            code is None
            or code == INVALID_PARAMS
            or request is None
            or request.sender != "server"
            or capabilities is None
        ):
            return
        mode = params_of(request).get("mode", "form")
        if mode in ("form", "url") and _is_undeclared(mode, capabilities.get("elicitation")):
            text = (
                f"an elicitation in the undeclared mode {mode} is refused with {code_text(code)}, not {INVALID_PARAMS}"
            )
            yield self.finding(context, text, pointer="/error/code", related=(request.seq,))


# ---- shared by the rules

_NOT_FOUND: Final = re.compile(r"\bnot found\b|\bunknown resource\b")
# Matches "not found" about something other than a resource.
_OTHER_NOT_FOUND: Final = re.compile(
    r"\b(?:session|method|handler|tool|prompt|client|server|task) (?:id )?(?:was )?not found\b"
)
_MAX_SEARCHED_CHARS: Final = 4096


def says_not_found(context: MessageContext, uri: object) -> bool:
    """Whether an error says that a resource does not exist."""
    data = data_of(context)
    if isinstance(data, dict) and isinstance(uri, str) and data.get("uri") == uri:
        return True
    texts = [text_of(context)]
    values = data.values() if isinstance(data, dict) else (data,)
    texts += [
        value[:_MAX_SEARCHED_CHARS].casefold()
        for _, value in zip(range(16), values, strict=False)
        if isinstance(value, str)
    ]
    return any(_NOT_FOUND.search(text) and not _OTHER_NOT_FOUND.search(text) for text in texts)


def _is_url_elicitation(elicitation: object) -> bool:
    if not isinstance(elicitation, dict) or elicitation.get("mode") != "url":
        return False
    return all(isinstance(elicitation.get(name), str) for name in ("elicitationId", "url", "message"))


def _initialize_seqs(context: MessageContext) -> tuple[int, ...]:
    initialize = context.session.initialize
    return () if initialize is None else (initialize.seq,)


def _is_undeclared(mode: str, elicitation: object) -> bool:
    """Whether a client supports elicitation, but not in this mode; an empty object means that it supports forms."""
    if elicitation is True:
        return mode == "url"
    if not isinstance(elicitation, dict):
        return False  # the client does not support elicitation at all
    if mode == "url":
        return elicitation.get("url") in (None, False)
    return "url" in elicitation and elicitation.get("form") in (None, False)


def _has_mismatched_tools(messages: list[Any]) -> bool:
    """Whether tool results are mixed with other content, or tool uses are not followed by exactly their results."""
    open_uses: set[str] | None = None
    for message in messages:
        blocks = _content_blocks(message)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if results and len(results) < len(blocks):
            return True
        if open_uses is not None:
            answered_uses = {block.get("toolUseId") for block in results if isinstance(block.get("toolUseId"), str)}
            is_user = isinstance(message, dict) and message.get("role") == "user"
            if not is_user or answered_uses != open_uses or len(results) != len(open_uses):
                return True
        use_ids = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        is_assistant = isinstance(message, dict) and message.get("role") == "assistant"
        open_uses = {use_id for use_id in use_ids if isinstance(use_id, str)} if use_ids and is_assistant else None
    return open_uses is not None


def _content_blocks(message: object) -> list[dict[str, Any]]:
    """Returns the content blocks of a sampling message."""
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]
