"""Rules about probes and lists of versions, and about how client and server act on them."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.message import Request, Response
from analysis.conversation.request_meta import missing_meta
from analysis.facts import code_of
from analysis.protocol.error_codes import HEADER_MISMATCH, METHOD_NOT_FOUND, MODERN_CODES, UNSUPPORTED_VERSION
from analysis.protocol.revisions import MODERN_ERA, REVISIONS
from analysis.rules.base import NOTE, RACE_NS, UNTYPED_KINDS, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import (
    AllEras,
    data_of,
    has_modern_version,
    listed_versions,
    result_type,
    shortened,
    version_of,
)
from analysis.rules.unchanged_content import WordsScope

_VERSIONING: Final = "2026-07-28 basic/versioning"
_MIN_CLIENT_WAIT_NS: Final = 1_000_000_000
"""Clients certainly wait this long for a response."""
_MAX_REMEMBERED_ENTRIES: Final = 1000
_MIXED_KEY: Final = "version/mixed-on-connection of both eras"
_GATEWAY_STATUSES: Final = frozenset({401, 403, 429})


class VersionNotice(NamedTuple):
    """A response from which the client learned the server's versions."""

    seq: int
    t_ns: int
    latency_ns: int
    method: str
    """The method of the request that it refused; empty if it was not a refusal."""
    versions: tuple[str, ...] = ()

    def is_read(self, t_ns: int) -> bool:
        """Whether the client had certainly read the response before it sent a request at `t_ns`."""
        return self.latency_ns <= _MIN_CLIENT_WAIT_NS or t_ns - self.t_ns > RACE_NS


class DiscoverMissing(Rule):
    """A server of the modern era does not support `server/discover`.

    **Why it matters.** Clients use it as a probe: they conclude that the server belongs to the handshake era, and fall
    back to an `initialize` that it may not support either.

    **On the wire.** `> {"id":1,"method":"server/discover",…}` `< {"id":1,"error":{"code":-32601,…}}` although other
    results have a `resultType`

    **Instead.** Serve `server/discover`, as every server of the modern era must. Servers of the handshake era need not.
    """

    id = "version/discover-missing"
    who = "server"
    versions = MODERN_ERA
    source = "2026-07-28 server/discover, basic/versioning"

    def __init__(self) -> None:
        super().__init__()
        self._is_modern = False
        self._deferred_findings: list[Finding] = []

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if self._is_modern or context.era != "modern" or not isinstance(context.message, Response):
            return ()
        if result_type(context.message) is None:
            return ()
        self._is_modern = True
        findings, self._deferred_findings = self._deferred_findings, []
        return findings

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        response = context.message
        if context.answered is None or context.answered.request.method != "server/discover":
            return
        if not isinstance(response, Response) or code_of(response) != METHOD_NOT_FOUND:
            return
        if self._is_modern:
            yield self._finding(context)
        elif len(self._deferred_findings) < _MAX_REMEMBERED_ENTRIES:
            self._deferred_findings.append(self._finding(context))

    def _finding(self, context: MessageContext) -> Finding:
        return self.finding(context, "a server of the modern era does not support server/discover")


class FallbackDespiteModern(Rule):
    """The client falls back to `initialize` although the server has shown that it supports the modern era.

    **Why it matters.** The client gives up a revision that both sides support, and a server that supports only the
    modern era will refuse the handshake.

    **On the wire.** `< {"id":1,"result":{"supportedVersions":["2026-07-28"],…}}` `> {"id":2,"method":"initialize",…}`

    **Instead.** Continue with a version from the list. Fall back only after an error that modern servers never send, or
    if no response comes.
    """

    id = "version/fallback-despite-modern"
    needs_session = True
    who = "client"
    versions = AllEras(*MODERN_ERA)
    level = WARNING
    replaces = ("version/mixed-on-connection",)
    source = "2026-07-28 basic/transports/stdio, streamable-http (backward compatibility)"

    def __init__(self) -> None:
        super().__init__()
        self._notices: dict[int, VersionNotice] = {}

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return _may_list(like) and like.era == "modern" if hook == "response" else method == "initialize"

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        if context.answered is not None:
            self._record_notice(context, context.answered)
        return ()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or request.sender != "client":
            return ()
        notice = self._notices.get(_connection(context))
        if notice is None or not notice.is_read(request.t_ns):
            return ()
        text = "the client falls back to initialize, although the server is known to support the modern era"
        return [self.finding(context, text, related=(notice.seq,))]

    def _record_notice(self, context: MessageContext, call: Call) -> None:
        response = context.message
        if not isinstance(response, Response):
            return
        versions = listed_versions(response)
        if response.is_error:
            shows_modern = code_of(response) in MODERN_CODES and (not versions or has_modern_version(versions))
        else:
            shows_modern = call.request.method == "server/discover" and has_modern_version(versions or ())
        if shows_modern:
            # Over HTTP, clients may share everything but the connection.
            _remember(self._notices, _connection(context), _notice_of(context, response, versions))


class Fallback(Rule):
    """The client probes for the modern era without success, and then begins a handshake.

    **Why it matters.** The probe and the handshake belong together, and the error between them is not a fault. The id
    of the probe must not be reused.

    **On the wire.** `> {"id":1,"method":"server/discover",…}` `< {"id":1,"error":{"code":-32601,…}}`
    `> {"id":2,"method":"initialize",…}`

    **Instead.** Nothing has to change. Leave the probe out if you know that the server is older.
    """

    id = "version/fallback"
    who = "client"
    versions = AllEras(*MODERN_ERA)
    level = NOTE
    source = _VERSIONING

    def __init__(self) -> None:
        super().__init__()
        self._probe_seqs: dict[object, int] = {}
        self._modern_clients: dict[object, None] = {}
        """Clients to which a modern server has responded; their requests are not probes."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return like.era == "modern" or (hook == "request" and method == "initialize")

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.message
        if not isinstance(request, Request) or request.sender != "client":
            return ()
        if context.era == "modern":
            if _client_key(context) not in self._modern_clients:
                _remember(self._probe_seqs, _client_key(context), request.seq)
        elif self._probe_seqs:
            # A client that did not name itself in the probe is recognised by its connection.
            probe_seqs = [self._probe_seqs.pop(peer, None) for peer in (_client_key(context), _connection(context))]
            probe_seq = next((seq for seq in probe_seqs if seq is not None), None)
            if probe_seq is not None:
                text = "the client falls back to a handshake after a probe for the modern era"
                return [self.finding(context, text, related=(probe_seq,))]
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        if not self._probe_seqs or context.answered is None:
            return ()
        if _is_modern_answer(context.answered.response):
            self._probe_seqs.pop(_client_key(context), None)
            _remember(self._modern_clients, _client_key(context), None)
        return ()


class InitializeRefusedSilently(Rule):
    """A server of the modern era refuses `initialize` without naming the versions that it supports.

    **Why it matters.** A client of the handshake era cannot tell its user why the connection failed.

    **On the wire.** `> {"id":1,"method":"initialize",…}` `< {"id":1,"error":{"code":-32601,"message":"unknown"}}`

    **Instead.** Name the supported versions in the message, or in `data.supported`.
    """

    id = "version/initialize-refused-silently"
    who = "server"
    versions = AllEras(*MODERN_ERA)
    level = WARNING
    source = _VERSIONING

    def __init__(self) -> None:
        super().__init__()
        self._is_modern = False

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return like.era == "modern" if hook == "response" else method == "initialize"

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        if context.answered is not None and not self._is_modern:
            self._is_modern = context.message.sender == "server" and _is_modern_answer(context.answered.response)
        return ()

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        response = context.message
        if context.answered is None or not isinstance(response, Response) or response.sender != "server":
            return
        is_refusal = self._is_modern and context.answered.request.method == "initialize" and context.era != "modern"
        if is_refusal and not _names_version(response):
            yield self.finding(context, "initialize is refused without naming the supported versions")


class UnsupportedNotRejected(Rule):
    """A request names a version that the server has not listed, but is not refused with -32022.

    **Why it matters.** The server uses a different revision than the client, or refuses with an error that does not
    help the client choose another version.

    **On the wire.** `< …"supportedVersions":["2026-07-28"]` … `> …"protocolVersion":"2027-02-01"` `< {"result":{…}}`

    **Instead.** Refuse it with -32022 and the list of versions. If the header differs as well, -32020 is right.
    """

    id = "version/unsupported-not-rejected"
    who = "server"
    versions = AllEras(*MODERN_ERA)
    impact = Impact.WRONG
    era = "modern"
    source = _VERSIONING

    def __init__(self) -> None:
        super().__init__()
        self._listed_versions: tuple[str, ...] = ()
        self._listed_seq = 0

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        request = context.answered.request if context.answered is not None else None
        # Nearly all requests name a listed version.
        is_usual = request is None or not self._listed_versions or version_of(request) in self._listed_versions
        return () if is_usual and not _may_list(context) else self._check(context)

    def _check(self, context: MessageContext) -> Iterator[Finding]:
        response, call = context.message, context.answered
        if not isinstance(response, Response) or call is None:
            return
        version, code = version_of(call.request), code_of(response) if response.is_error else None
        is_refused = code in (UNSUPPORTED_VERSION, HEADER_MISMATCH) or _may_be_from_gateway(context)
        is_unlisted = version is not None and bool(self._listed_versions) and version not in self._listed_versions
        # An incomplete request may be refused for that reason.
        if version is not None and is_unlisted and not is_refused and missing_meta(call.request) is None:
            text = f"the server has not listed {shortened(version)}, but does not refuse it with {UNSUPPORTED_VERSION}"
            yield self.finding(context, text, related=(call.request.seq, self._listed_seq))
        if code == UNSUPPORTED_VERSION or call.request.method == "server/discover":
            versions = listed_versions(response)
            if versions:
                self._listed_versions, self._listed_seq = versions, response.seq


class _RefusalRule(Rule):
    """The base class of the rules about refusals with -32022."""

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        response, call = context.message, context.answered
        if isinstance(response, Response) and call is not None and code_of(response) == UNSUPPORTED_VERSION:
            version = version_of(call.request)
            if version is not None and call.request.method != "initialize":
                yield from self.check_refusal(context, response, version)

    def check_refusal(self, context: MessageContext, response: Response, version: str) -> Iterator[Finding]:
        """Check the refusal of a version."""
        raise NotImplementedError


class SupportedButRejected(_RefusalRule):
    """A refusal with -32022 lists the version that it refuses.

    **Why it matters.** The client tries the same version again, or gives up needlessly.

    **On the wire.** `< {"error":{"code":-32022,…,"data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`

    **Instead.** Serve every version that you list, and list every version that you serve.
    """

    id = "version/supported-but-rejected"
    who = "server"
    versions = AllEras(*MODERN_ERA)
    source = "2026-07-28 basic/versioning, schema"

    def check_refusal(self, context: MessageContext, response: Response, version: str) -> Iterator[Finding]:
        if version in (listed_versions(response) or ()):
            text = f"{shortened(version)} is refused, although it is listed as supported"
            yield self.finding(context, text, pointer="/error/data/supported")


class UnsupportedRequestedWrong(_RefusalRule):
    """The requested version in a refusal with -32022 differs from the request.

    **Why it matters.** Developers who read the error look for the mistake in the wrong place.

    **On the wire.** `> …"protocolVersion":"2027-02-01"`
    `< {"error":{"code":-32022,…,"data":{"requested":"2025-11-25"}}}`

    **Instead.** Send back the version of the request in `data.requested`.
    """

    id = "version/unsupported-requested-wrong"
    who = "server"
    versions = AllEras(*MODERN_ERA)
    level = WARNING
    impact = Impact.WRONG
    source = "2026-07-28 schema UnsupportedProtocolVersionError"

    def check_refusal(self, context: MessageContext, response: Response, version: str) -> Iterator[Finding]:
        named_version = data_of(response).get("requested")
        if isinstance(named_version, str) and named_version != version:
            text = f"data.requested is {shortened(named_version)}, but the request names {shortened(version)}"
            yield self.finding(context, text, pointer="/error/data/requested")


class RetryUnlisted(Rule):
    """The client uses a version that the server has not listed.

    **Why it matters.** The server has to refuse it again, so a client that ignores the list never succeeds.

    **On the wire.** `< {"error":{"code":-32022,…,"data":{"supported":["2026-07-28"],…}}}` `> …"protocolVersion":
    "2027-02-01"`

    **Instead.** Use a version from the list, or stop and show the list to the user.
    """

    id = "version/retry-unlisted"
    who = "client"
    versions = AllEras(*MODERN_ERA)
    era = "modern"
    level = WARNING
    source = "2026-07-28 basic/versioning, server/discover"

    def __init__(self) -> None:
        super().__init__()
        self._notices: dict[int, VersionNotice] = {}

    def concerns(self, hook: str, _method: str, like: MessageContext) -> bool:
        return hook != "response" or _may_list(like)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.message
        notice = self._notices.get(_connection(context)) if self._notices else None
        if notice is None or not isinstance(request, Request) or request.sender != "client":
            return ()
        version = version_of(request)
        if version is None or version in notice.versions:
            return ()
        # Other requests may have been in transit when the refusal came.
        is_next = not notice.method or request.method == notice.method
        if not (is_next and notice.is_read(request.t_ns)) and request.t_ns - notice.t_ns <= RACE_NS:
            return ()
        return [
            self.finding(
                context, f"{shortened(version)} is sent to a server that has not listed it", related=(notice.seq,)
            )
        ]

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        response, call = context.message, context.answered
        if isinstance(response, Response) and call is not None:
            versions, is_refusal = listed_versions(response), code_of(response) == UNSUPPORTED_VERSION
            is_list = is_refusal if response.is_error else call.request.method == "server/discover"
            if versions and is_list:
                _remember(self._notices, _connection(context), _notice_of(context, response, versions))
        return ()


class MixedOnConnection(Rule):
    """The requests of one connection name different versions, or belong to both eras.

    **Why it matters.** This is legal, as every request is independent since 2026-07-28, but each request has to be
    checked by its own version. A failed probe followed by a handshake is reported only as `version/fallback`.

    **On the wire.** `> …"io.modelcontextprotocol/protocolVersion":"2026-07-28"` and `> {"method":"initialize",…}`

    **Instead.** Nothing has to change if it is intended.
    """

    id = "version/mixed-on-connection"
    needs_session = True
    who = "client"
    versions = AllEras(*MODERN_ERA)
    sender = "client"
    level = NOTE
    once = True
    source = _VERSIONING

    def concerns(self, _hook: str, _method: str, like: MessageContext) -> bool:
        return like.http is None

    def decisive_words(self, _hook: str, _method: str, like: MessageContext) -> WordsScope | None:
        return "envelope" if like.era == "modern" else None

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if len(context.session.eras) > 1 and not _is_fallback(context) and not self._mark_reported(context):
            return [self.finding(context, "requests of both eras are sent over one connection")]
        if context.era == "modern" and isinstance(context.message, Request):
            version, memory = version_of(context.message), context.session.memory
            if version is not None and version != memory.setdefault(self.id, version):
                return [self.finding(context, "requests of one connection name different versions")]
        return ()

    def _mark_reported(self, context: MessageContext) -> bool:
        """Mark the mix of eras as reported; returns whether it already was, even if the finding was replaced."""
        is_reported: bool = context.session.memory.get(_MIXED_KEY, False)
        context.session.memory[_MIXED_KEY] = True
        return is_reported


class StdioNoProbe(Rule):
    """The client uses the modern era without a probe, but the server does not support it.

    **Why it matters.** Servers of the handshake era may answer a request other than `initialize` in any way, or not at
    all. Only `server/discover` distinguishes the eras reliably.

    **On the wire.** `> {"id":1,"method":"tools/list","params":{"_meta":{…}}}` `< {"id":1,"error":{"code":-32600,…}}`

    **Instead.** Begin with `server/discover` if you do not know the server's era.
    """

    id = "version/stdio-no-probe"
    results = UNTYPED_KINDS
    who = "client"
    versions = AllEras(*MODERN_ERA)
    era = "modern"
    level = NOTE
    needs_start = True
    once = True
    source = "2026-07-28 basic/transports/stdio"

    def decisive_words(self, hook: str, _method: str, _like: MessageContext) -> WordsScope | None:
        return "envelope" if hook == "request" else None

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request, memory = context.message, context.session.memory
        if self.id not in memory and request.sender == "client" and context.http is None:
            memory[self.id] = request
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        call = context.answered
        if call is None or call.request is not context.session.memory.get(self.id):
            return ()
        if call.request.method == "server/discover" or _is_modern_answer(call.response):
            return ()
        text = "the first request of the modern era is not a probe, and the server does not support that era"
        return [self.finding(context, text, related=(call.request.seq,))]


# ---- shared by the rules


def _connection(context: MessageContext) -> int:
    """Returns the number of a message's TCP connection over HTTP, or -1 on stdio."""
    return context.message.frames[0].conn if context.http is not None else -1


def _client_key(context: MessageContext) -> object:
    """Returns a key for a message's client: its address and name, or its connection if the name is unknown.

    Clients may share an address.
    """
    name = context.session.client
    return (
        (context.http.client_fingerprint, name)
        if context.http is not None and name is not None
        else _connection(context)
    )


def _is_fallback(context: MessageContext) -> bool:
    """Whether only a probe before the handshake used the modern era, and no modern server has answered it."""
    return context.era != "modern" and not context.session.server_is_modern


def _may_list(context: MessageContext) -> bool:
    """Whether a response may list the server's versions: it answers a probe, or is an error."""
    return "error" in context.body or context.method == "server/discover"


def _notice_of(context: MessageContext, response: Response, versions: tuple[str, ...] | None) -> VersionNotice:
    call = context.answered
    took_ns = (call.latency_ns or 0) if call is not None else 0
    method = call.request.method if call is not None and response.is_error else ""
    return VersionNotice(response.seq, response.t_ns, took_ns, method, versions or ())


def _is_modern_answer(response: Response | None) -> bool:
    """Whether only a server of the modern era sends such a response."""
    if response is None:
        return False
    if response.is_error:
        return code_of(response) in MODERN_CODES
    return result_type(response) is not None or listed_versions(response) is not None


def _may_be_from_gateway(context: MessageContext) -> bool:
    """Whether the response may come from a gateway that has not read the request."""
    status = context.http.status if context.http is not None else None
    return status is not None and (status in _GATEWAY_STATUSES or status >= 500)


def _names_version(message: Response) -> bool:
    lines = [frame.raw for frame in message.frames]
    return any(revision.encode() in line for line in lines for revision in REVISIONS)


def _remember(table: dict[Any, Any], key: object, value: object) -> None:
    """Store a value as the latest one in a table of limited size, which forgets the oldest values first."""
    table.pop(key, None)
    table[key] = value
    if len(table) > _MAX_REMEMBERED_ENTRIES:
        del table[next(iter(table))]
