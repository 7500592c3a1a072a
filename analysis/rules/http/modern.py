"""Headers that repeat parts of the message (since 2026-07-28), and servers that do not compare them with it."""

from collections.abc import Iterable
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.message import Response
from analysis.conversation.session import Session
from analysis.facts import code_of
from analysis.protocol.features import VERSION_HEADER
from analysis.protocol.methods import REQUEST_METHODS
from analysis.protocol.revisions import MODERN_ERA, before, rank_of
from analysis.rules.base import NOTE, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import listed_versions, member, shortened, speaks_modern
from analysis.rules.support.exchanges import UNRELATED_STATUSES, HttpRule, VersionLearningRule, is_body_lost
from analysis.rules.support.http_facts import (
    FRESH_UNTIL_KEY,
    NAME_FIELD,
    NAME_MEMBERS,
    body_version,
    faults_of,
    known_faults,
    version_fault,
)
from analysis.rules.support.tool_definitions import LIST_TOOLS, ToolLookupRule

_STREAMABLE: Final = "2026-07-28 basic/transports/streamable-http"
_MIN_ERROR_STATUS: Final = 400


class _HeaderRule(Rule):
    """A rule about headers that repeat parts of the message."""

    who = "client"
    versions = MODERN_ERA
    era = "modern"
    needs_http = True
    sender = "client"
    source = _STREAMABLE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        faults = faults_of(context)
        if not faults:
            return ()
        return [
            self.finding(context, fault.text, pointer=fault.pointer, related=fault.related)
            for fault in faults
            if fault.rule == self.id
        ]


class MethodHeader(_HeaderRule):
    """A request has no header with its method, or the header names a different one.

    **Why it matters.** Proxies route and limit requests by `Mcp-Method` without reading the body; a server that finds a
    different method in the body must refuse the request.

    **On the wire.** `POST /mcp` with `Mcp-Method: tools/list`: `{"id":3,"method":"tools/call",…}`

    **Instead.** Send `Mcp-Method: tools/call` once, spelt exactly as in the message.
    """

    id = "http/method-header"


class NameHeader(_HeaderRule):
    """The header with the name of the tool, prompt, resource or task in the request is missing or wrong.

    **Why it matters.** Proxies filter, limit and count requests by `Mcp-Name`; if it is wrong, so are their decisions.

    **On the wire.** `POST /mcp` with `Mcp-Method: tools/call` and no `Mcp-Name`

    **Instead.** Send `Mcp-Name` with the tool's or prompt's `name`, the resource's `uri` or the task's `taskId`.
    """

    id = "http/name-header"
    source = f"{_STREAMABLE}; SEP-2663"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if context.method in NAME_MEMBERS or context.http is None or NAME_FIELD not in context.http.fields:
            return super().on_request(context)
        if context.method not in REQUEST_METHODS:
            return ()
        return [self.finding(context, "Mcp-Name is sent with a method that has no name", level=NOTE)]


class HeaderEncoding(_HeaderRule):
    """A header repeats a text in a form that intermediaries may change or that cannot be read.

    **Why it matters.** Intermediaries may change characters outside ASCII, and spaces at the start or end. The header
    then no longer matches the message.

    **On the wire.** `Mcp-Name: überblick`

    **Instead.** `Mcp-Name: =?base64?w7xiZXJibGljaw==?=`, with the canonical base64 of the text in UTF-8. A text that
    itself has this form must be encoded as well; any other text may be.
    """

    id = "http/header-encoding"
    relies_on = ("http/param-header",)


class ParamHeader(ToolLookupRule):
    """A call omits the header that the tool requires for an argument, or sends another value.

    **Why it matters.** Servers and proxies route by this header, so the call goes to the wrong place or is refused.

    **On the wire.** A tool with `"region":{"type":"string","x-mcp-header":"Region"}`, called with `"region":"eu"` and
    no `Mcp-Param-Region`

    **Instead.** Send `Mcp-Param-Region: eu`, and omit the header if the argument is missing or null.
    """

    id = "http/param-header"
    who = "client"
    versions = MODERN_ERA
    needs_http = True
    source = _STREAMABLE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method == LIST_TOOLS:
            ttl: Any = member(context.body.get("result"), "ttlMs")
            if type(ttl) in (int, float) and 0 <= ttl < 2**53:
                context.session.memory[FRESH_UNTIL_KEY] = context.message.t_ns + int(ttl) * 1_000_000
            else:
                context.session.memory.pop(FRESH_UNTIL_KEY, None)
        return super().on_result(context)

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return like.session.is_http and super().concerns(hook, method, like)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return [
            self.finding(context, fault.text, pointer=fault.pointer, related=fault.related)
            for fault in faults_of(context)
            if fault.rule == self.id
        ]


class HeaderMismatchAccepted(VersionLearningRule, HttpRule):
    """A server accepts a request whose headers do not match its message.

    **Why it matters.** Intermediaries base their decisions on the headers. With a false header, a client can get a
    forbidden call past a gateway, so the server must refuse it.

    **On the wire.** `Mcp-Name: read` with `{"method":"tools/call","params":{"name":"delete",…}}`, answered with 200

    **Instead.** Send 400 with the error -32020.
    """

    id = "http/header-mismatch-accepted"
    needs_body = True
    relies_on = ("http/method-header", "http/param-header")
    who = "server"
    versions = MODERN_ERA
    impact = Impact.SECURITY
    source = _STREAMABLE

    def __init__(self) -> None:
        super().__init__()
        self._serves_older_revisions = False

    def record_versions(self, context: MessageContext) -> None:
        message = context.message
        if self._serves_older_revisions or not isinstance(message, Response):
            return
        if context.method == "initialize" and not message.is_error:
            versions: tuple[str | None, ...] = (context.revision,)
        else:
            versions = listed_versions(message) or ()
        ranks = [rank_of(version) for version in versions]
        self._serves_older_revisions = any(before(VERSION_HEADER).includes(rank) for rank in ranks)

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self.check_exchange(http, session) if self.can_judge(http) else ()

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if (
            http.status is None
            or http.status in UNRELATED_STATUSES
            or not http.client_messages
            or not speaks_modern(http.client_messages[0])
        ):
            return ()
        fault = version_fault(http)
        if fault == "missing" and self._serves_older_revisions:
            fault = ""
        texts = [known_fault.text for known_fault in known_faults(http)]
        if fault:
            header_value, body_value = http.fields.get(VERSION_FIELD, ""), body_version(http) or ""
            mismatch_text = (
                f"MCP-Protocol-Version is {shortened(header_value)!r}, but {shortened(body_value)!r} in the message"
            )
            texts.append("MCP-Protocol-Version is missing" if fault == "missing" else mismatch_text)
        if not texts or is_body_lost(http):
            return ()
        answer = http.server_messages[0].message if http.server_messages else None
        code = code_of(answer) if isinstance(answer, Response) else None
        if http.status >= _MIN_ERROR_STATUS or code is not None:
            return ()  # whatever the reason, the request was refused
        return self.findings_in_response(
            http, session, f"a request with wrong headers ({texts[0]}) is answered with status {http.status}"
        )
