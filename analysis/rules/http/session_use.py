"""Session ids of Streamable HTTP: how clients use them."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.routing import MAX_IDLE_NS
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD, SessionId
from analysis.protocol.revisions import rank_of
from analysis.rules.base import ERROR, NOTE, RACE_NS, WARNING
from analysis.rules.error.codes import text_of
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.eras import AllEras
from analysis.rules.support.exchanges import (
    ALL_METHODS,
    SESSION_REVISIONS,
    SUCCESS_STATUSES,
    UNRELATED_STATUSES,
    ExchangeEndRule,
    HttpRule,
    ResponseStartRule,
    lacks_session,
)

_TRANSPORTS: Final = "2025-03-26 basic/transports"
_METHOD_NOT_ALLOWED: Final = 405
_MAX_UNKNOWN_SESSION_IDS: Final = 100
"""The most unknown ids that are reported, and that are compared with all known ids."""


class _MissingIdRule(HttpRule):
    """A rule about requests without the session id that their client has received."""

    versions = AllEras(*SESSION_REVISIONS)
    http_methods = ALL_METHODS
    source = _TRANSPORTS

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if FIELD in http.fields or http.started_ref is None or http.is_modern or http.is_initializing:
            return ()
        if not http.client_messages and http.method == "POST":
            return ()  # the capture does not show which message was sent
        rank = rank_of(http.fields.get(VERSION_FIELD))
        if rank is not None and not SESSION_REVISIONS.applies_to(rank, None):
            return ()
        issued_ids = [
            session_id
            for session_id in http.session_ids.issued_to(http.client_fingerprint)
            if _should_have(http, session_id)
        ]
        return self.check_missing_id(http, session, issued_ids) if issued_ids and self.can_judge(http) else ()

    def check_missing_id(
        self, http: HttpExchange, session: Session | None, issued_ids: list[SessionId]
    ) -> Iterable[Finding]:
        """Returns findings about a request of a client that has received these ids."""
        raise NotImplementedError


class MissingSessionHeader(_MissingIdRule):
    """A client has received a session id, but sends a request without it.

    **Why it matters.** The server cannot tell which session the request belongs to, so most servers answer 400.

    **On the wire.** `initialize` is answered with `Mcp-Session-Id: 1868a90c…`; later `POST /mcp` without that header

    **Instead.** Send the header with every POST, GET and DELETE of the session.
    """

    id = "http/missing-session-header"
    exchanges = ExchangeOddity.WITHOUT_ID
    who = "client"
    needs_start = True

    def __init__(self) -> None:
        super().__init__()
        # The finding is about the session of the missing id; the request itself seems to belong to another session.
        self.needs_start = False  # type: ignore[misc]

    def check_missing_id(
        self, http: HttpExchange, session: Session | None, issued_ids: list[SessionId]
    ) -> Iterable[Finding]:
        own_session = issued_ids[-1].session
        if own_session is None or not all(
            session_id.session is not None and session_id.session.observed_start for session_id in issued_ids
        ):
            return ()
        level: Level = ERROR if len(issued_ids) == 1 else WARNING
        findings = self.findings_in_request(
            http, session, f"{http.method} without the session id that the client received", level
        )
        return [finding._replace(session=own_session.number) for finding in findings]


class MissingSessionNot400(_MissingIdRule):
    """A request without a session id is refused with a status other than 400.

    **Why it matters.** 404 tells the client that its session has ended, so it needlessly begins a new one.

    **On the wire.** `POST /mcp` without the id that the client received, answered with `404 Not Found`

    **Instead.** Send 400 Bad Request, or serve the request.
    """

    id = "http/missing-session-not-400"
    exchanges = ExchangeOddity.WITHOUT_ID
    needs_body = True
    who = "server"
    level = WARNING
    impact = Impact.CONNECTION

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        status = like.status or 0
        is_refusal = 400 < status < 500 and status not in UNRELATED_STATUSES
        return is_refusal and super().concerns_exchange(hook, like)

    def check_missing_id(
        self, http: HttpExchange, session: Session | None, issued_ids: list[SessionId]
    ) -> Iterable[Finding]:
        if http.method != "POST" and http.status == _METHOD_NOT_ALLOWED:
            return ()
        text = f"a request without a session id is refused with status {http.status}"
        findings = self.findings_in_response(http, session, text, self.level)
        own_session = issued_ids[-1].session
        return (
            findings if own_session is None else [finding._replace(session=own_session.number) for finding in findings]
        )


class UnknownSessionId(ResponseStartRule):
    """A client sends a session id that the server never issued.

    **Why it matters.** The server does not know the id: the client invented it or kept it from an earlier run, or it
    was altered in transit.

    **On the wire.** `Mcp-Session-Id: "1868A90C…"` where `1868a90c…` was issued

    **Instead.** Send the id exactly as it was received, byte for byte.
    """

    id = "http/unknown-session-id"
    who = "client"
    versions = SESSION_REVISIONS
    level = WARNING
    impact = Impact.CONNECTION
    http_methods = ALL_METHODS
    needs_start = True
    exchanges = ExchangeOddity.OTHER_ID
    source = _TRANSPORTS

    def __init__(self) -> None:
        super().__init__()
        # A request with an unknown id seems to belong to a session that began before the recording.
        self.needs_start = False  # type: ignore[misc]
        self._reported_ids: set[str] = set()
        self._compared_ids: set[str] = set()

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        id_ = http.fields.get(FIELD)
        if (
            not id_
            or http.started_ref is None
            or id_ in self._reported_ids
            or len(self._reported_ids) >= _MAX_UNKNOWN_SESSION_IDS
            or not http.is_whole
        ):
            return ()
        ids = http.session_ids
        session_id = ids.get(id_)
        if (session_id is not None and session_id.given is not None) or ids.forgotten_count or http.is_modern:
            return ()
        plain_id = _plain_id(id_)
        if self._begin_comparison(id_) and any(
            other_id != id_ and _plain_id(other_id) == plain_id and ids.is_issued(other_id) for other_id in ids.ids()
        ):
            text = "the session id differs from the issued one only in case, quotes or spaces"
        elif http.started_ref.t_ns > MAX_IDLE_NS:
            text = "the server never issued this session id"
        else:
            return ()  # the server may have issued the id before the recording
        self._reported_ids.add(id_)
        return self.findings_in_request(http, session, text)

    def _begin_comparison(self, id_: str) -> bool:
        """Record the comparison of an id with all others; returns whether to make it.

        Hashes are not compared, an id is compared only once, and the number of ids is limited.
        """
        if id_ in self._compared_ids or id_.startswith("hmac:") or len(self._compared_ids) >= _MAX_UNKNOWN_SESSION_IDS:
            return False
        self._compared_ids.add(id_)
        return True


class UnknownSessionStatus(ExchangeEndRule):
    """A request with an unknown session id, or without one, is refused with an error in a successful response.

    **Why it matters.** Clients begin a new session when they see 404. An error with status 200 looks like a failure of
    a single call, so every further call fails until the user restarts the client.

    **On the wire.** `POST /mcp` with `Mcp-Session-Id: 1868a90c…`, answered with `200 OK` and
    `{"id":5,"error":{"code":-32001,"message":"Session not found"}}`

    **Instead.** Send 404 for an unknown session, and 400 for a request without a session id.
    """

    id = "http/unknown-session-status"
    who = "server"
    versions = AllEras(*SESSION_REVISIONS)
    level = WARNING
    impact = Impact.CONNECTION
    statuses = SUCCESS_STATUSES
    exchanges = ExchangeOddity.RECEIVED
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if (
            http.is_modern
            or not http.server_messages
            or not all("error" in context.body for context in http.server_messages)
        ):
            return ()
        if not any("session" in text_of(context) for context in http.server_messages) or not lacks_session(http):
            return ()
        if FIELD not in http.fields:
            text = f"a request without a session id is refused with an error and the status {http.status}, not 400"
        elif (session_id := http.session_ids.get(http.fields[FIELD])) is not None and not session_id.is_alive:
            return ()  # `http/dead-session-served` reports this
        else:
            text = (
                f"a request with an unknown session id is refused with an error and the status {http.status}, not 404"
            )
        return self.findings_in_response(http, session, text)


class InitializeWithSessionId(ResponseStartRule):
    """A client begins a session with the id of another session.

    **Why it matters.** The server looks for a session with that id instead of creating a new one. Once it no longer has
    that session, the client can never reconnect.

    **On the wire.** `POST /mcp` with `Mcp-Session-Id: 1868a90c…`: `{"id":1,"method":"initialize",…}`

    **Instead.** Send `initialize` without the header; the response contains a new id.
    """

    id = "http/initialize-with-session-id"
    who = "client"
    versions = SESSION_REVISIONS
    impact = Impact.CONNECTION
    exchanges = ExchangeOddity.OPENING
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        id_ = http.fields.get(FIELD)
        if not id_ or http.started_ref is None or not http.is_initializing:
            return ()
        session_id = http.session_ids.get(id_)
        is_gone = session_id is not None and session_id.gone is not None and session_id.gone.seq < http.started_ref.seq
        text = "initialize has a session id" + (" that was answered with 404" if is_gone else "")
        return self.findings_in_request(http, session, text, ERROR if is_gone else WARNING)


class SessionReusedAfter404(ResponseStartRule):
    """A client continues to use a session after the server has answered 404.

    **Why it matters.** Every request fails until the client begins a new session.

    **On the wire.** `404` in response to a request with a session id, and another request with that id seconds later

    **Instead.** Forget the id and send `initialize`.
    """

    id = "http/session-reused-after-404"
    who = "client"
    versions = SESSION_REVISIONS
    impact = Impact.CONNECTION
    http_methods = ALL_METHODS
    exchanges = ExchangeOddity.WITHOUT_ID | ExchangeOddity.OTHER_ID
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        session_id = http.session_ids.get(http.fields.get(FIELD, ""))
        if session_id is None or session_id.gone is None or http.started_ref is None or http.is_initializing:
            return ()
        delay_ns = http.started_ref.t_ns - session_id.gone.t_ns
        if delay_ns <= RACE_NS:
            return ()
        text = f"the session id was answered with 404 {delay_ns / 1e9:.0f} s earlier"
        return self.findings_in_request(http, session, text)


class DeleteWithoutSession(ResponseStartRule):
    """A DELETE to the endpoint names no session.

    **Why it matters.** DELETE ends the session that its header names. Without the header, it has no effect.

    **On the wire.** `DELETE /mcp` without `Mcp-Session-Id`

    **Instead.** Send the id in the header. If the client never received an id, there is nothing to delete, and its
    DELETE is reported only as a note.
    """

    id = "http/delete-without-session"
    who = "client"
    versions = AllEras(*SESSION_REVISIONS)
    impact = Impact.COST
    http_methods = frozenset({"DELETE"})
    replaces = ("http/missing-session-header",)
    exchanges = ExchangeOddity.WITHOUT_ID
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if FIELD in http.fields or not _uses_sessions(http, session):
            return ()
        # As far as the capture shows, the client never received an id, so it has no session to delete.
        is_needless = not http.session_ids.issued_to(http.client_fingerprint)
        return self.findings_in_request(http, session, "DELETE without a session id", NOTE if is_needless else ERROR)


def _uses_sessions(http: HttpExchange, session: Session | None) -> bool:
    """Whether a client is known to use a revision with sessions."""
    rank, era = http.transport_revision_and_era(session)
    if rank is not None:
        return SESSION_REVISIONS.applies_to(rank, era)
    issued_ids = http.session_ids.issued_to(http.client_fingerprint)
    return any(
        session_id.session is not None and SESSION_REVISIONS.applies_to(rank_of(session_id.session.handshake), None)
        for session_id in issued_ids
    )


def _should_have(http: HttpExchange, session_id: SessionId) -> bool:
    """Whether a request should have an id: its client has received it, and its session is not known to have ended."""
    if session_id.given is None or http.started_ref is None or session_id.order is None or not session_id.is_of_opening:
        return False
    if (
        session_id.given.seq >= http.started_ref.seq
        or session_id.path != http.path
        or session_id.was_invalid_at(http.started_ref)
    ):
        return False
    return session_id.session is not None and SESSION_REVISIONS.applies_to(rank_of(session_id.session.handshake), None)


def _plain_id(id_: str) -> str:
    return id_.strip(" \t\"'").casefold()
