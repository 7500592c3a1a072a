"""The group `deprecated`: features that still work, but are deprecated."""

from collections.abc import Iterable, Iterator
from functools import cache

from analysis.conversation.call import MessageContext
from analysis.conversation.session import CLIENT_CAPABILITIES
from analysis.protocol.deprecations import DEPRECATED_METHODS, DEPRECATIONS, HTTP_SSE, INCLUDE_CONTEXT, Deprecation
from analysis.protocol.methods import METHODS
from analysis.protocol.revisions import MODERN_ERA, Era
from analysis.rules.base import NOTE, Rule
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member
from analysis.rules.support.inputs import INTERIM_METHODS as INTERIM
from analysis.rules.support.inputs import input_requests
from analysis.rules.unchanged_content import WordsScope


class Feature(Rule):
    """Roots, sampling or logging is declared or used in the modern era.

    **Why it matters.** All three still work, but will be removed on 2027-07-28 at the earliest. It is time to look for
    alternatives.

    **On the wire.** `> …"io.modelcontextprotocol/clientCapabilities":{"roots":{}}`

    **Instead.** Replace roots with tool arguments and resource URIs, sampling with a model of the server's own, and log
    messages with stderr or OpenTelemetry.
    """

    id = "deprecated/feature"
    versions = MODERN_ERA
    level = NOTE
    once = True
    once_each = True
    era = "modern"
    source = "2026-07-28 deprecated"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "request":
            return like.message.sender == "client"
        if hook == "notification":
            return method in DEPRECATED_METHODS
        return method == "server/discover" or method in INTERIM

    def required_members_for(self, hook: str, _method: str, _like: MessageContext) -> frozenset[str]:
        return frozenset({"capabilities", "inputRequests"}) if hook == "result" else frozenset()

    def decisive_words(self, hook: str, method: str, _like: MessageContext) -> WordsScope | None:
        return "envelope" if hook == "request" and method not in DEPRECATED_METHODS else None

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        meta = context.request.meta if context.request is not None else {}
        capabilities = meta.get(CLIENT_CAPABILITIES)
        declared_names = capabilities if isinstance(capabilities, dict) else {}
        in_force = _deprecations(context.rank, context.era)
        features = [
            row.feature for row in in_force if row.client_capability and row.client_capability in declared_names
        ]
        features += [row.feature for row in in_force if row.meta_member and row.meta_member in meta]
        findings = self._report(context, features, "/params/_meta") if features else []
        is_use = context.method in DEPRECATED_METHODS and "client" in METHODS[context.method].senders(context.rank)
        return findings + self.on_notification(context) if is_use else findings

    def on_notification(self, context: MessageContext) -> list[Finding]:
        return self._report(context, _features_of(context, context.method), "/method")

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method == "server/discover":
            return self._check_declaration(context, context.body["result"].get("capabilities"))
        features = [feature for _, method, _ in input_requests(context) for feature in _features_of(context, method)]
        return self._report(context, features, "/result/inputRequests")

    def _check_declaration(self, context: MessageContext, capabilities: object) -> Iterator[Finding]:
        for row in _deprecations(context.rank, context.era):
            name = row.server_capability
            if name and isinstance(capabilities, dict) and name in capabilities:
                yield from self._report(context, [row.feature], f"/result/capabilities/{name}")

    def _report(self, context: MessageContext, features: list[str], pointer: str) -> list[Finding]:
        reported_features: set[str] = self.state_for(context.session, dict).setdefault(context.message.sender, set())
        if reported_features.issuperset(features):
            return []
        new_features = [name for name in dict.fromkeys(features) if name not in reported_features]
        reported_features.update(new_features)
        return [self.finding(context, f"{name} is deprecated", pointer=pointer) for name in new_features]


class IncludeContext(Rule):
    """A server requests `includeContext` in a completion.

    **Why it matters.** It is deprecated, and few clients provide any context.

    **On the wire.** `< {"method":"sampling/createMessage","params":{…,"includeContext":"allServers"}}`

    **Instead.** Put what the model should know into the messages.
    """

    id = "deprecated/include-context"
    who = "server"
    versions = INCLUDE_CONTEXT
    level = NOTE
    once = True
    sender = "server"
    required_members = frozenset({"inputRequests", "includeContext"})
    source = "2025-11-25 client/sampling; 2026-07-28 deprecated"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "result":
            return like.era == "modern" and method in INTERIM
        return method == "sampling/createMessage"

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        if context.request is not None and _wants_context(context.request.params):
            yield self.finding(context, "includeContext is deprecated", pointer="/params/includeContext")

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return [
            self.finding(context, "includeContext is deprecated", pointer=f"{pointer}/params/includeContext")
            for pointer, method, params in input_requests(context)
            if method == "sampling/createMessage" and _wants_context(params)
        ]


class HttpSse(Rule):
    """The session uses the older HTTP transport, which has one stream for all responses.

    **Why it matters.** Streamable HTTP has replaced it; clients and servers are dropping support for the older one.

    **On the wire.** `GET /sse`, an event `endpoint`, and responses on that stream

    **Instead.** Offer Streamable HTTP, and the older transport alongside it for as long as a client needs it.
    """

    id = "deprecated/http-sse"
    versions = HTTP_SSE
    level = NOTE
    once = True
    methods = frozenset({"initialize", "server/discover"})
    source = "2025-03-26 basic/transports; 2026-07-28 deprecated"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if not context.session.is_legacy:
            return ()
        # The response arrives on the stream, so the request that opened the stream shows the transport best.
        evidence = context if context.http is None or context.http.started_ref is None else context.http.started_ref
        text = "the transport is HTTP+SSE, which is deprecated"
        return [self.finding(evidence, text, blames="transport", session=context.session)]


@cache
def _deprecations(rank: int | None, era: Era | None) -> tuple[Deprecation, ...]:
    """Returns what a revision deprecates."""
    return tuple(row for row in DEPRECATIONS if row.revisions.applies_to(rank, era))


def _features_of(context: MessageContext, method: str) -> list[str]:
    return [row.feature for row in _deprecations(context.rank, context.era) if method in row.methods]


def _wants_context(params: object) -> bool:
    value = member(params, "includeContext")
    return isinstance(value, str) and value in ("thisServer", "allServers")
