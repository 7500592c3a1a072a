"""The group `lifecycle`: the handshake in revisions up to 2025-11-25."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.message import Message, Notification, Request
from analysis.conversation.session import PROTOCOL_VERSION, Session, State
from analysis.facts import code_of
from analysis.protocol.methods import MODERN_METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import HANDSHAKE_ERA
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import AllEras, listed_versions, modern_initialize_version, shortened

_INITIALIZED: Final = "notifications/initialized"
_LIFECYCLE: Final = "2024-11-05 basic/lifecycle"
_MAX_CLIENTS: Final = 10_000
_MAX_POSTPONED_FINDINGS: Final = 1000
_REFUSAL_STATUSES: Final = frozenset(range(400, 500)) - {401, 403, 404, 429}


class _HandshakeRule(Rule):
    """The base class of the rules about the handshake. It determines which handshake a message belongs to.

    Over HTTP without session ids, a client's messages belong to the last handshake from its address. If several
    handshakes began at that address, it is uncertain which of them a message belongs to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.handshake_sessions: dict[str, int] = {}
        """For each client over HTTP, the number of the session of its handshake; 0 if there were several handshakes."""

    reported_states: ClassVar[frozenset[State] | None] = None
    """The states in which the rule may report a request; None for all."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        is_initialize = like.session.is_http and method == "initialize"
        return hook != "request" or is_initialize or self.reported_states is None or like.state in self.reported_states

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if context.http is not None and _method(context.message) == "initialize":
            client = context.http.client_fingerprint
            if client in self.handshake_sessions or len(self.handshake_sessions) < _MAX_CLIENTS:
                self.handshake_sessions[client] = 0 if client in self.handshake_sessions else context.session.number
        return self.check_request(context)

    def check_request(self, context: MessageContext) -> Iterable[Finding]:  # noqa: ARG002 - for rules that override it
        """Returns findings about a request."""
        return ()

    def is_of_handshake(self, context: MessageContext) -> bool:
        """Whether a message certainly belongs to the handshake of its session."""
        http = context.http
        if http is None or http.session_id:
            return True
        return (
            self.handshake_sessions.get(http.client_fingerprint) == context.session.number
            and context.session.epoch <= 1
        )


class RequestBeforeInitialize(_HandshakeRule):
    """The first request of a session is not `initialize`.

    **Why it matters.** The server knows neither the revision nor the client's capabilities. Most servers refuse the
    request; some happen to answer.

    **On the wire.** `> {"id":1,"method":"tools/list"}` as the first line. Over HTTP this is reported only if the server
    refuses the request, as a server without sessions may have been initialized earlier.

    **Instead.** Send `initialize`, wait for its result, send `notifications/initialized`, then other requests. `ping`
    and a probe for the modern era may come first.
    """

    id = "lifecycle/request-before-initialize"
    follows = ("id/echoed-frame",)
    needs_session = True
    reported_states = frozenset({"new"})
    who = "client"
    versions = HANDSHAKE_ERA
    needs_start = True
    source = _LIFECYCLE

    def __init__(self) -> None:
        super().__init__()
        # The rule checks the start itself: over HTTP, a session that does not begin with `initialize` has no observed
        # start, and the refusal is the proof.
        self.needs_start = False  # type: ignore[misc]

    def check_request(self, context: MessageContext) -> Iterable[Finding]:
        if not _is_before_handshake(context) or not context.session.observed_start or not _needs_session(context):
            return ()
        return [self.finding(context, f"{shortened(_method(context.message))} was sent before initialize")]

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:  # noqa: ARG002 - there is one hook
        return like.status in _REFUSAL_STATUSES

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:
        if (
            http.is_from_recorder
            or http.session_id
            or len(self.handshake_sessions) >= _MAX_CLIENTS
            or session.lost_seq >= 0
        ):
            return
        if http.client_fingerprint in self.handshake_sessions:
            # The client has a session, but did not send the session's id.
            return
        for context in http.client_messages:
            if not context.session.observed_start and _needs_session(context) and _is_before_handshake(context):
                method = shortened(_method(context.message))
                yield self.finding(
                    context, f"{method} was sent before initialize, and refused with status {http.status}"
                )


class NotificationBeforeInitialize(Rule):
    """The client sends a notification before `initialize`.

    **Why it matters.** Servers drop it, because the session has not started yet, and some fail.

    **On the wire.** `> {"method":"notifications/roots/list_changed"}` before `> {"method":"initialize",…}`

    **Instead.** Begin with `initialize`. Cancelling a probe for the modern era with `notifications/cancelled` is fine.
    """

    id = "lifecycle/notification-before-initialize"
    follows = ("id/echoed-frame",)
    needs_session = True
    states = frozenset({"new"})
    who = "client"
    versions = AllEras(*HANDSHAKE_ERA)
    level = WARNING
    needs_start = True
    source = _LIFECYCLE

    def concerns(self, _hook: str, _method: str, like: MessageContext) -> bool:
        return like.era != "modern"

    def on_notification(self, context: MessageContext) -> Iterator[Finding]:
        method = _method(context.message)
        if context.message.sender != "client" or context.state != "new" or method == _INITIALIZED:
            return
        if context.cancels is not None and _is_modern(context.cancels):
            return
        if context.era == "handshake":
            yield self._finding(context)
        elif context.era is None:
            _postpone(self, context, self._finding(context))

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return _take_postponed(self, context)

    def _finding(self, context: MessageContext) -> Finding:
        return self.finding(context, f"{shortened(_method(context.message))} was sent before initialize")


class RequestBeforeInitializeResult(_HandshakeRule):
    """The client sends another request before `initialize` is answered.

    **Why it matters.** The client does not know yet which revision and capabilities apply. Servers that expect the
    messages of the handshake in order may refuse the request or fail.

    **On the wire.** `> {"id":1,"method":"initialize",…}` `> {"id":2,"method":"tools/list"}` `< {"id":1,"result":{…}}`

    **Instead.** Wait for the result. Before that, send only `ping`.
    """

    id = "lifecycle/request-before-initialize-result"
    follows = ("id/echoed-frame",)
    needs_session = True
    reported_states = frozenset({"init-sent"})
    who = "client"
    versions = HANDSHAKE_ERA
    level = WARNING
    needs_start = True
    source = _LIFECYCLE

    def check_request(self, context: MessageContext) -> Iterable[Finding]:
        if (
            context.state != "init-sent"
            or not _needs_session(context)
            or not self.is_of_handshake(context)
            or _is_settled_elsewhere(context)
        ):
            return ()
        return [self.finding(context, f"{shortened(_method(context.message))} was sent before initialize was answered")]


class EarlyInitialized(_HandshakeRule):
    """The client sends `notifications/initialized` before it has the result of `initialize`.

    **Why it matters.** The notification claims that the client has read the result, which is impossible. The server may
    start to send requests too early, or ignore the notification.

    **On the wire.** `> {"id":1,"method":"initialize",…}` `> {"method":"notifications/initialized"}`
    `< {"id":1,"result":{…}}`

    **Instead.** Send it after the result has arrived, and not at all after an error.
    """

    id = "lifecycle/early-initialized"
    follows = ("id/echoed-frame",)
    needs_session = True
    states = frozenset({"new", "init-sent"})
    who = "client"
    versions = AllEras(*HANDSHAKE_ERA)
    needs_start = True
    source = _LIFECYCLE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        concerns_method = method == _INITIALIZED or (method == "initialize" and like.session.is_http)
        return concerns_method and super().concerns(hook, method, like)

    def check_request(self, context: MessageContext) -> Iterable[Finding]:
        return () if _method(context.message) != _INITIALIZED else self._check(context)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self.check_request(context)

    def _check(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.sender != "client" or context.era == "modern":
            return
        if not self.is_of_handshake(context) or _is_settled_elsewhere(context):
            return
        if context.state == "init-sent":
            yield self.finding(context, "initialized was sent before initialize was answered")
        elif context.state == "new":
            circumstances = "although initialize was refused" if context.session.epoch else "without initialize"
            yield self.finding(context, f"initialized was sent {circumstances}")


class InitializedMissing(_HandshakeRule):
    """The client sends requests, but never sent `notifications/initialized`.

    **Why it matters.** Until the notification arrives, strict servers answer only `ping`, and send no requests
    themselves.

    **On the wire.** `< {"id":1,"result":{"protocolVersion":…}}` `> {"id":2,"method":"tools/list"}`

    **Instead.** Send `{"jsonrpc":"2.0","method":"notifications/initialized"}` right after the result of `initialize`.
    Over HTTP, the notification may still be in transit when the client sends a request. So the request is reported only
    when it is answered.
    """

    id = "lifecycle/initialized-missing"
    needs_session = True
    reported_states = frozenset({"init-answered"})
    who = "client"
    versions = HANDSHAKE_ERA
    impact = Impact.CONNECTION
    needs_start = True
    source = _LIFECYCLE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return like.session.is_http if hook == "response" else super().concerns(hook, method, like)

    def check_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._early_findings(context) if context.state == "init-answered" else ()

    def _early_findings(self, context: MessageContext) -> Iterator[Finding]:
        if not _needs_session(context) or _method(context.message) == "initialize":
            return
        if context.session.has_initialized or not self.is_of_handshake(context):
            return
        if context.http is None:
            yield self._finding(context)
            return
        pending_findings = self.state_for(context.session, dict).setdefault("waiting", {})
        if len(pending_findings) < _MAX_POSTPONED_FINDINGS:
            pending_findings[context.message.seq, context.message.index] = self._finding(context)

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        if self.id not in context.session.memory or context.answered is None:
            return ()
        return self._check_answered(context, context.answered.request)

    def _check_answered(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        session = context.session
        pending_finding = self.state_for(session, dict).get("waiting", {}).pop((request.seq, request.index), None)
        if pending_finding is None or session.state != "init-answered" or session.has_initialized:
            return
        # Another handshake may have begun at this address since then.
        if self.is_of_handshake(context):
            yield pending_finding

    def _finding(self, context: MessageContext) -> Finding:
        return self.finding(context, f"{shortened(_method(context.message))} was sent, but initialized was not")


class DuplicateInitialized(_HandshakeRule):
    """The client sends `notifications/initialized` a second time.

    **Why it matters.** A server may do its start-up work twice, such as requesting the roots again or starting a second
    timer.

    **On the wire.** `> {"method":"notifications/initialized"}` twice in a session

    **Instead.** Send it once for each handshake.
    """

    id = "lifecycle/duplicate-initialized"
    needs_session = True
    who = "client"
    versions = HANDSHAKE_ERA
    level = WARNING
    impact = Impact.WRONG
    methods = frozenset({"initialize", _INITIALIZED})
    source = _LIFECYCLE

    def on_notification(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.sender != "client" or context.era != "handshake":
            return
        memory = self.state_for(context.session, dict)
        earlier_post: HttpExchange | None = memory.get("post")
        is_first = "post" not in memory  # as far as the capture shows: records may be lost
        memory["post"] = context.http
        if is_first or context.state != "ready" or not self.is_of_handshake(context):
            return
        status = None if earlier_post is None else earlier_post.last_carrier.status
        if context.http is not None and earlier_post is not None and (status is None or status >= 300):
            # The first notification did not arrive, so the client had to post it again.
            return
        yield self.finding(context, "initialized was already sent in this session")


class RepeatedInitialize(Rule):
    """`initialize` is sent in a session that is already initialized.

    **Why it matters.** A second handshake reopens everything that was agreed on. Servers refuse it, or start over and
    lose subscriptions and log levels.

    **On the wire.** `> {"id":1,"method":"initialize",…}` … `> {"id":9,"method":"initialize",…}` on one pipe

    **Instead.** Use one handshake for each process or session; for another handshake, start a new process or session. A
    second attempt after an error is fine.
    """

    id = "lifecycle/repeated-initialize"
    needs_session = True
    who = "client"
    versions = HANDSHAKE_ERA
    level = WARNING
    impact = Impact.WRONG
    methods = frozenset({"initialize"})
    source = _LIFECYCLE

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.sender != "client":
            return
        memory, session = self.state_for(context.session, dict), context.session
        # On the older transport, the client first opens a stream, which is the session.
        is_stream = memory.setdefault("stream", session.observed_start and session.opened_ns < context.message.t_ns)
        is_same_session = context.http is None or (is_stream and not context.http.session_id)
        if is_same_session and context.state in ("init-answered", "ready"):
            yield self.finding(context, "initialize was sent in a session that is already initialized")


class ServerRequestBeforeInitialized(_HandshakeRule):
    """The server sends a request before the client has sent `notifications/initialized`.

    **Why it matters.** The client may not be ready: it drops the request, or mistakes it for the response that it waits
    for.

    **On the wire.** `> {"id":1,"method":"initialize",…}` `< {"id":1,"result":{…}}` `< {"id":1,"method":"roots/list"}`

    **Instead.** Wait for `notifications/initialized`. `ping` and notifications may come earlier.
    """

    id = "lifecycle/server-request-before-initialized"
    follows = ("id/echoed-frame", "lifecycle/initialized-missing")
    needs_session = True
    states = frozenset({"new", "init-sent", "init-answered"})
    who = "server"
    versions = HANDSHAKE_ERA
    level = WARNING
    needs_start = True
    source = _LIFECYCLE

    def check_request(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.sender != "server" or context.era != "handshake" or not _is_request(context.message):
            return
        is_early = context.state in ("init-sent", "init-answered") and not context.session.has_initialized
        if is_early and self.is_of_handshake(context):
            yield self.finding(
                context, f"{shortened(_method(context.message))} was sent before the client was initialized"
            )


class ServerFrameBeforeInitialize(Rule):
    """The server sends a message before the client has sent `initialize`.

    **Why it matters.** Many clients expect the response to `initialize` as the first message, and fail at any other.

    **On the wire.** `< {"method":"notifications/tools/list_changed"}` before `> {"method":"initialize",…}`

    **Instead.** Before `initialize`, send only log messages and `ping`; write text for people to stderr.
    """

    id = "lifecycle/server-frame-before-initialize"
    needs_session = True
    states = frozenset({"new"})
    who = "server"
    versions = AllEras(*HANDSHAKE_ERA)
    level = WARNING
    impact = Impact.CONNECTION
    needs_start = True
    source = _LIFECYCLE

    def concerns(self, _hook: str, _method: str, like: MessageContext) -> bool:
        return like.era != "modern"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if context.message.sender == "client":
            return _take_postponed(self, context)
        return self._check(context) if _is_request(context.message) else ()

    def on_notification(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.sender == "server" and _method(context.message) != "notifications/message":
            yield from self._check(context)

    def _check(self, context: MessageContext) -> Iterator[Finding]:
        if context.state == "new" and context.era == "handshake":
            yield self._finding(context)
        elif context.state == "new" and context.era is None:
            _postpone(self, context, self._finding(context))

    def _finding(self, context: MessageContext) -> Finding:
        return self.finding(context, f"the server sent {shortened(_method(context.message))} before initialize")


class InitializeFailed(Rule):
    """The server refuses `initialize`.

    **Why it matters.** The session cannot start. If the server lists versions, the client can request one of them.

    **On the wire.** `< {"id":1,"error":{"code":-32602,"message":…,"data":{"supported":["2024-11-05"],…}}}`

    **Instead.** Request a version that the server supports, or look up the code. The refusal itself is not a fault.
    """

    id = "lifecycle/initialize-failed"
    who = "server"
    versions = HANDSHAKE_ERA
    level = NOTE
    impact = Impact.CONNECTION
    methods = frozenset({"initialize"})
    source = _LIFECYCLE

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        if context.answered is None or context.answered.response is None or context.session.server_is_modern:
            return
        if modern_initialize_version(context.answered.request) is not None:
            return  # `version/modern-in-handshake` has reported this
        code, versions = code_of(context.answered.response), listed_versions(context.answered.response)
        text = f"initialize was refused with code {code}" if code is not None else "initialize was refused"
        if versions:
            text += f"; the server supports {shortened(', '.join(versions))}"
        if context.revision:
            text += f"; {shortened(context.revision)} was requested"
        yield self.finding(context, text, related=(context.answered.request.seq,))


class ContinuedAfterFailedInitialize(_HandshakeRule):
    """The client continues although `initialize` was refused.

    **Why it matters.** The session has not started, so how the server reacts is undefined.

    **On the wire.** `< {"id":1,"error":{…}}` `> {"id":2,"method":"tools/list"}`

    **Instead.** Try `initialize` again with another version, or give up and show the error.
    """

    id = "lifecycle/continued-after-failed-initialize"
    needs_session = True
    reported_states = frozenset({"new"})
    who = "client"
    versions = HANDSHAKE_ERA
    needs_start = True
    replaces = ("lifecycle/request-before-initialize",)
    source = _LIFECYCLE

    def check_request(self, context: MessageContext) -> Iterable[Finding]:
        is_refused = context.state == "new" and context.session.epoch > 0
        if (
            not is_refused
            or not _needs_session(context)
            or _method(context.message) == "initialize"
            or not self.is_of_handshake(context)
        ):
            return ()
        return [
            self.finding(context, f"{shortened(_method(context.message))} was sent although initialize was refused")
        ]


# ---- shared by the rules


def _method(message: Message) -> str:
    """Returns the method of a message, with the prefix that a notification may lack; empty for a response."""
    if isinstance(message, Notification):
        return UNPREFIXED_NOTIFICATIONS.get(message.method, message.method)
    return message.method if isinstance(message, Request) else ""


def _is_request(message: Message) -> bool:
    """Whether a message is a request other than `ping`."""
    method = _method(message)
    return isinstance(message, Request) and method != "ping" and not method.startswith("notifications/")


def _needs_session(context: MessageContext) -> bool:
    """Whether a message is a client's request that needs a session."""
    return context.message.sender == "client" and context.era == "handshake" and _is_request(context.message)


def _is_before_handshake(context: MessageContext) -> bool:
    """Whether no handshake has been attempted in the session of a message, and the message is not an attempt itself."""
    return context.state == "new" and not context.session.epoch and _method(context.message) != "initialize"


def _is_settled_elsewhere(context: MessageContext) -> bool:
    """Whether a message's header names a version before one was agreed on, as after an unrecorded handshake."""
    return context.http is not None and VERSION_FIELD in context.http.fields and not context.http.session_id


def _is_modern(request: Request) -> bool:
    return PROTOCOL_VERSION in request.meta or request.method in MODERN_METHODS


def _postpone(rule: Rule, context: MessageContext, finding: Finding) -> None:
    """Keep a finding that is valid only in the handshake era until the client shows its era."""
    postponed: list[Finding] = rule.state_for(context.session, list)
    if len(postponed) < _MAX_POSTPONED_FINDINGS:
        postponed.append(finding)


def _take_postponed(rule: Rule, context: MessageContext) -> list[Finding]:
    """Remove and return the postponed findings if the client has shown that it uses the handshake era."""
    postponed: list[Finding] | None = context.session.memory.get(rule.id)
    if not postponed or context.message.sender != "client" or context.era != "handshake":
        return []
    findings = postponed[:]
    postponed.clear()
    return findings
