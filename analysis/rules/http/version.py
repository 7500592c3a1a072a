"""The header of Streamable HTTP that names the revision."""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.protocol import features
from analysis.protocol.revisions import HANDSHAKE_ERA, Span, is_date, rank_of
from analysis.rules.base import ERROR, WARNING
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.eras import AllEras, listed_versions, shortened
from analysis.rules.support.exchanges import (
    ALL_METHODS,
    UNRELATED_STATUSES,
    HttpRule,
    ResponseStartRule,
    VersionLearningRule,
)
from analysis.rules.support.http_facts import body_version

_HEADER_REVISIONS: Final = features.VERSION_HEADER
_NOT_SERVED_STATUSES: Final = UNRELATED_STATUSES | {400, 404, 405}
_MAX_LISTS: Final = 64


class MissingProtocolVersionHeader(ResponseStartRule):
    """A request does not name the revision in its header.

    **Why it matters.** The server assumes 2025-03-26, so it may answer in a form that the client does not understand,
    or refuse the request.

    **On the wire.** `POST /mcp` without `MCP-Protocol-Version`, after 2025-06-18 was agreed on

    **Instead.** Send the agreed revision with every POST, GET and DELETE after the handshake; since 2026-07-28, the
    revision that the message itself names.
    """

    id = "http/missing-protocol-version-header"
    needs_session = True
    who = "client"
    versions = AllEras(*_HEADER_REVISIONS)
    impact = Impact.WRONG
    http_methods = ALL_METHODS
    exchanges = ExchangeOddity.VERSION
    source = "2025-06-18 basic/transports; 2026-07-28 basic/transports/streamable-http"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if VERSION_FIELD in http.fields:
            return ()
        if body_version(http) is None and (required_revision(http, session) is None or http.is_modern):
            return ()
        return self.findings_in_request(http, session, f"{http.method} without MCP-Protocol-Version", ERROR)


class ProtocolVersionMismatch(ResponseStartRule):
    """The header names a revision other than the one in use.

    **Why it matters.** Servers and proxies route by this header, so the request may reach a server that uses another
    revision.

    **On the wire.** `MCP-Protocol-Version: 2025-06-18` in a session for which 2025-11-25 was agreed on

    **Instead.** Send the agreed revision; since 2026-07-28, the revision in `_meta` of the same message.
    """

    id = "http/protocol-version-mismatch"
    needs_session = True
    who = "client"
    versions = AllEras(*_HEADER_REVISIONS)
    levels: ClassVar[dict[Span, Level]] = {HANDSHAKE_ERA: WARNING}
    impact = Impact.WRONG
    http_methods = ALL_METHODS
    exchanges = ExchangeOddity.VERSION
    source = "2025-06-18 basic/transports; 2026-07-28 basic/transports/streamable-http"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        header_revision = http.fields.get(VERSION_FIELD)
        if header_revision is None or rank_of(header_revision) is None:
            return ()  # `http/bad-version-accepted` checks values that are not revisions
        message_revision = body_version(http)
        if message_revision is not None:
            if message_revision == header_revision:
                return ()
            text = f"the header names {shortened(header_revision)}, but the message names {shortened(message_revision)}"
            return self.findings_in_request(http, session, text, ERROR)
        agreed_revision = required_revision(http, session)
        if agreed_revision is None or agreed_revision == header_revision or http.is_modern:
            return ()
        text = f"the header names {shortened(header_revision)}, but {shortened(agreed_revision)} was agreed on"
        return self.findings_in_request(http, session, text, WARNING)


class BadVersionAccepted(VersionLearningRule, HttpRule):
    """A server serves a request whose header names a revision that it does not support.

    **Why it matters.** It is uncertain which form the response has, and the client never learns of its mistake.

    **On the wire.** `MCP-Protocol-Version: latest`, answered with 200

    **Instead.** Send 400 Bad Request. Since 2026-07-28, the error -32022 lists the supported revisions.
    """

    id = "http/bad-version-accepted"
    needs_body = True
    who = "server"
    versions = AllEras(*_HEADER_REVISIONS)
    impact = Impact.WRONG
    http_methods = ALL_METHODS
    listing_methods = frozenset({"server/discover"})
    exchanges = ExchangeOddity.VERSION
    source = "2025-06-18 basic/transports"

    def __init__(self) -> None:
        super().__init__()
        self._supported_versions: dict[str, tuple[str, ...]] = {}

    def record_versions(self, context: MessageContext) -> None:
        versions = listed_versions(context.message) if context.http is not None else None  # type: ignore[arg-type]
        if versions and context.http is not None and len(self._supported_versions) < _MAX_LISTS:
            self._supported_versions[context.http.path] = versions

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self.check_exchange(http, session) if self.can_judge(http) else ()

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        header_revision, agreed_revision = http.fields.get(VERSION_FIELD), required_revision(http, session)
        if header_revision is None or agreed_revision is None or header_revision == agreed_revision or http.is_modern:
            return ()
        if http.status is None or http.status in _NOT_SERVED_STATUSES:
            return ()
        supported_versions = self._supported_versions.get(http.path, ())
        if is_date(header_revision) and (not supported_versions or header_revision in supported_versions):
            return ()
        text = (
            f"a request with the revision {shortened(header_revision)} in its header is answered with "
            f"status {http.status}"
        )
        return self.findings_in_response(http, session, text, ERROR)


def required_revision(http: HttpExchange, session: Session | None) -> str | None:
    """Returns the agreed revision if a request must name it, or None if it need not or there is none yet."""
    if session is None or http.started_ref is None or http.is_initializing or session.handshake is None:
        return None
    if http.client_messages and body_version(http) is not None:
        return None
    if session.lost_seq >= 0 and FIELD not in http.fields:
        return None  # the request may belong to another session, whose handshake is lost
    if not 0 <= session.agreed_seq < http.started_ref.seq or session.state not in ("init-answered", "ready"):
        return None
    return session.handshake if _HEADER_REVISIONS.includes(rank_of(session.handshake)) else None
