"""HTTP responses since 2026-07-28, and the session ids and HTTP methods that this revision no longer has."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import EVENT_STREAM, HttpExchange
from analysis.conversation.message import Request, Response
from analysis.conversation.request_meta import missing_meta
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.facts import code_of
from analysis.protocol.error_codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from analysis.protocol.revisions import FIRST_MODERN_RANK, MODERN_ERA, rank_of
from analysis.rules.base import NOTE, WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import AllEras, listed_versions, member, shortened, speaks_modern
from analysis.rules.support.exchanges import (
    JSON,
    SUCCESS_STATUSES,
    UNRELATED_STATUSES,
    ExchangeEndRule,
    HttpRule,
    ResponseStartRule,
    VersionLearningRule,
    is_body_lost,
)

_STREAMABLE: Final = "2026-07-28 basic/transports/streamable-http"
_BAD_REQUEST_CODES: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
_BUFFERING_PROXIES: Final = frozenset({"nginx", "openresty", "tengine"})
"""Proxies that obey a server's `X-Accel-Buffering` header."""
_MAX_PATHS: Final = 64


class ErrorStatus(ExchangeEndRule):
    """A protocol error comes with the wrong HTTP status.

    **Why it matters.** Clients use the status to decide what to do next: 404 or 200 instead of 400 misleads them before
    they have read the error.

    **On the wire.** `200 OK` … `{"id":3,"error":{"code":-32022,…}}`

    **Instead.** Send 400 for -32020, -32021, -32022 and for an incomplete envelope, and 404 for a method that the
    server does not have. Errors on a stream of events are not reported: by then the status has been sent.
    """

    id = "http/error-status"
    needs_body = True
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    media = JSON
    source = f"2026-07-28 basic/index; {_STREAMABLE}"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        answer = http.server_messages[0] if http.server_messages else None
        if answer is None or not isinstance(answer.message, Response) or not answer.message.is_error:
            return ()
        request = http.client_messages[0] if http.client_messages else None
        if http.status is None or http.status in UNRELATED_STATUSES or request is None or not speaks_modern(request):
            return ()
        code = code_of(answer.message)
        expected_status = 400 if code in _BAD_REQUEST_CODES else 404 if code == METHOD_NOT_FOUND else None
        if (
            code == INVALID_PARAMS
            and isinstance(request.message, Request)
            and missing_meta(request.message) is not None
        ):
            expected_status = 400
        if expected_status is None or http.status == expected_status:
            return ()
        return self.findings_in_response(
            http, session, f"the error {code} is sent with status {http.status} instead of {expected_status}"
        )


class NotFoundWithoutError(ExchangeEndRule):
    """A server of the modern era answers a message with 404, but without the error for an unknown method.

    **Why it matters.** Clients conclude that the server is of an older era, and begin a handshake, which it does not
    support either.

    **On the wire.** `> {"id":4,"method":"tools/call",…}`, answered with `404 Not Found` and nothing else

    **Instead.** Send 404 with the error -32601 if the method is unknown. In all other cases send 400 or a response.
    """

    id = "http/not-found-without-error"
    needs_body = True
    who = "server"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.CONNECTION
    source = _STREAMABLE

    def __init__(self) -> None:
        super().__init__()
        self._served_paths: set[str] = set()

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        return (like.status == 404 or like.status in SUCCESS_STATUSES) and super().concerns_exchange(hook, like)

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if (
            not http.client_messages
            or not isinstance(http.client_messages[0].message, Request)
            or not speaks_modern(http.client_messages[0])
        ):
            return ()
        answer = http.server_messages[0].message if http.server_messages else None
        if http.status != 404:
            result = member(answer.result, "resultType") if isinstance(answer, Response) else None
            if result is not None and len(self._served_paths) < _MAX_PATHS:
                self._served_paths.add(http.path)
            return ()
        code = code_of(answer) if isinstance(answer, Response) else None
        if code == METHOD_NOT_FOUND or http.path not in self._served_paths or is_body_lost(http):
            return ()
        return self.findings_in_response(
            http,
            session,
            f"{shortened(http.client_messages[0].method)} is answered with 404 and without {METHOD_NOT_FOUND}",
        )


class SessionHeaderModern(ResponseStartRule):
    """A session id is sent in a revision without sessions.

    **Why it matters.** Clients of these revisions do not send the id back, so a server that relies on it treats every
    request as a new session.

    **On the wire.** `< Mcp-Session-Id: 1868a90c…` in the response to a request that names 2026-07-28

    **Instead.** Do not send the header. Related messages are connected by the tokens and ids that they contain.
    """

    id = "http/session-header-modern"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.WRONG
    source = _STREAMABLE

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if FIELD not in http.fields and FIELD not in http.answer_fields:
            return ()
        if not http.client_messages or not speaks_modern(http.client_messages[0]):
            return ()
        findings: list[Finding] = []
        if FIELD in http.fields:
            new_findings = self.findings_in_request(
                http, session, "a request of the modern era carries a session id", NOTE
            )
            findings += [finding._replace(blames="client") for finding in new_findings]
        if FIELD in http.answer_fields and http.status in SUCCESS_STATUSES:
            new_findings = self.findings_in_response(
                http, session, "a request of the modern era is answered with a session id"
            )
            findings += [finding._replace(blames="server") for finding in new_findings]
        return findings


class GetOrDeleteModern(VersionLearningRule, HttpRule):
    """A server that supports only the modern era answers GET or DELETE with a status other than 405.

    **Why it matters.** The modern era has neither streams opened by GET nor sessions to delete; 405 tells
    clients of older revisions that there are none.

    **On the wire.** `GET /mcp`, answered with `404 Not Found`

    **Instead.** Send 405 Method Not Allowed. A server that also supports older revisions may accept both methods.
    """

    id = "http/get-or-delete-modern"
    versions = AllEras(*MODERN_ERA)
    level = WARNING
    http_methods = frozenset({"GET", "DELETE"})
    source = _STREAMABLE

    def __init__(self) -> None:
        super().__init__()
        self._modern_paths: set[str] = set()

    def record_versions(self, context: MessageContext) -> None:
        message, http = context.message, context.http
        if http is None or not isinstance(message, Response):
            return
        if context.method == "initialize" and not message.is_error:
            self._modern_paths.discard(http.path)
        versions = listed_versions(message)
        if not versions:
            return
        if all((rank_of(version) or 0) >= FIRST_MODERN_RANK for version in versions):
            if len(self._modern_paths) < _MAX_PATHS:
                self._modern_paths.add(http.path)
        else:
            self._modern_paths.discard(http.path)

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self.check_exchange(http, session) if self.can_judge(http) else ()

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.path not in self._modern_paths or http.client_messages or http.status is None:
            return ()
        text = f"{http.method} to a server that supports no revision with sessions"
        findings = [
            finding._replace(blames="client") for finding in self.findings_in_request(http, session, text, NOTE)
        ]
        if http.status != 405 and http.status not in UNRELATED_STATUSES:
            text = f"{http.method} is answered with status {http.status} instead of 405"
            server_findings = self.findings_in_response(http, session, text, WARNING)
            findings += [finding._replace(blames="server") for finding in server_findings]
        return findings


class BufferingHeader(ResponseStartRule):
    """A stream of events does not ask proxies to forward it at once.

    **Why it matters.** Reverse proxies buffer responses before they forward them: progress arrives with the result, and
    a stream that stays open never arrives.

    **On the wire.** `200 OK` with `Content-Type: text/event-stream` and no `X-Accel-Buffering`

    **Instead.** Send `X-Accel-Buffering: no` with every stream of events.
    """

    id = "http/buffering-header"
    who = "server"
    versions = MODERN_ERA
    level = WARNING
    impact = Impact.COST
    statuses = SUCCESS_STATUSES
    media = EVENT_STREAM
    once = True
    source = _STREAMABLE

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.answer_fields.get("x-accel-buffering", "").lower() == "no":
            return ()
        if http.program in _BUFFERING_PROXIES:
            return ()  # these proxies obey the header and remove it
        return self.findings_in_response(http, session, "an event stream is sent without X-Accel-Buffering: no")
