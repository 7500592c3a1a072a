"""Session ids of Streamable HTTP: how servers issue them, and how both sides end a session."""

import re
from collections.abc import Iterable
from typing import Final

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.rules.base import NOTE, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.exchanges import (
    ALL_METHODS,
    SESSION_REVISIONS,
    SUCCESS_STATUSES,
    UNRELATED_STATUSES,
    HttpRule,
    ResponseStartRule,
)

_TRANSPORTS: Final = "2025-03-26 basic/transports"
_MIN_ID_CHARS: Final = 16
"""Shorter ids can be guessed."""
_MAX_SESSIONS: Final = 10_000
"""The most sessions that are remembered."""
_match_hash: Final = re.compile(r"hmac:[0-9a-f]{16}").fullmatch
"""Matches a hash that replaces an id in captures; the characters of that id are unknown."""


class _IssuedIdRule(HttpRule):
    """A rule about session ids in responses."""

    who = "server"
    versions = SESSION_REVISIONS
    http_methods = ALL_METHODS
    source = _TRANSPORTS

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        issued_id = http.answer_fields.get(FIELD)
        return self.check_issued_id(issued_id, http, session) if issued_id is not None and self.can_judge(http) else ()

    def check_issued_id(self, issued_id: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """Returns findings about a session id in a response."""
        raise NotImplementedError


class SessionIdCharacters(_IssuedIdRule):
    """A session id is empty, or has characters that are not allowed.

    **Why it matters.** Clients send the id back in a header, where spaces may be lost and characters outside ASCII
    altered.

    **On the wire.** `Mcp-Session-Id: my session`

    **Instead.** Use only visible ASCII characters (0x21 to 0x7E): a UUID, a token or a hash. Recordings contain hashes
    instead of ids, so only an empty id is reported for them; imported captures contain the ids themselves.
    """

    id = "http/session-id-characters"
    exchanges = ExchangeOddity.OPENING | ExchangeOddity.WITHOUT_ID | ExchangeOddity.OTHER_ID
    impact = Impact.CONNECTION

    def check_issued_id(self, issued_id: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if not _is_newly_issued(issued_id, http) or (
            issued_id and all("\x21" <= character <= "\x7e" for character in issued_id)
        ):
            return ()
        problem = "has characters that are not visible ASCII" if issued_id else "is empty"
        return self.findings_in_response(http, session, f"the session id {problem}")


class SessionIdWeak(_IssuedIdRule):
    """A session id can be guessed, or already belongs to another session.

    **Why it matters.** Anyone who knows the id can send messages as that client, and receive the messages that are
    meant for it.

    **On the wire.** `Mcp-Session-Id: 42`

    **Instead.** Use a random UUID, or an id of the same strength from a cryptographic random source, and a new id for
    each session. Recordings contain hashes instead of ids, so only an id that is issued twice is reported for them;
    imported captures contain the ids themselves.
    """

    id = "http/session-id-weak"
    exchanges = ExchangeOddity.OPENING
    level = WARNING
    impact = Impact.SECURITY

    def check_issued_id(self, issued_id: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        session_id = http.session_ids.get(issued_id)
        if not issued_id or session_id is None or not http.is_initializing:
            return ()
        if session_id.order != http.order:
            is_of_other_session = (
                session_id.order is not None and session_id.is_of_opening and http.fields.get(FIELD) != issued_id
            )
            text = "the session id was already issued to another session"
            return self.findings_in_response(http, session, text) if is_of_other_session else ()
        if _match_hash(issued_id):
            return ()
        if issued_id.isdecimal():
            return self.findings_in_response(http, session, "the session id is a number")
        if len(issued_id) < _MIN_ID_CHARS:
            return self.findings_in_response(http, session, f"the session id has {len(issued_id)} characters")
        return ()


class SessionIdLate(_IssuedIdRule):
    """The server first sends a session id with a response other than that to `initialize`.

    **Why it matters.** Clients look for an id only in the response to `initialize`, and continue without one.

    **On the wire.** `initialize` is answered without an id, `tools/list` with `Mcp-Session-Id: 1868a90c…`

    **Instead.** Send the id with the response to `initialize`, or not at all.
    """

    id = "http/session-id-late"
    exchanges = ExchangeOddity.WITHOUT_ID | ExchangeOddity.OTHER_ID
    level = WARNING
    impact = Impact.CONNECTION
    needs_start = True

    def check_issued_id(self, issued_id: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        session_id = http.session_ids.get(issued_id)
        if session_id is None or session_id.order != http.order or session_id.is_of_opening or FIELD in http.fields:
            return ()
        is_session_known = session is not None and session.handshake is not None and session.lost_seq < 0
        if (
            not issued_id
            or not is_session_known
            or session is None
            or http.session_ids.id_of_session(session) is not None
        ):
            return ()
        return self.findings_in_response(http, session, "a session id is first sent after the response to initialize")


class SessionIdChanged(_IssuedIdRule):
    """A response in a session has a different session id.

    **Why it matters.** Some clients continue with the new id and some with the old one, so requests may reach the wrong
    session.

    **On the wire.** `> Mcp-Session-Id: 1868a90c…`, answered with `< Mcp-Session-Id: 77d1f0c2…`

    **Instead.** Send the same id, or none, in every response until the session ends.
    """

    id = "http/session-id-changed"
    exchanges = ExchangeOddity.OTHER_ID
    impact = Impact.CONNECTION

    def check_issued_id(self, issued_id: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        requested_id = http.fields.get(FIELD)
        if (
            not requested_id
            or issued_id == requested_id
            or http.is_initializing
            or FIELD in http.repeated_fields
            or http.unrecorded_sides
        ):
            return ()
        return self.findings_in_response(http, session, "the response has a different session id than the request")


class DeadSessionServed(ResponseStartRule):
    """A server continues to serve a session that has ended.

    **Why it matters.** The session ended when the server answered 404, which tells the client to begin a new one, or
    when the client sent `DELETE`. The server keeps resources that it should free, and acts for a session that no longer
    exists.

    **On the wire.** `DELETE /mcp`, answered with 200; later `POST /mcp` with the same id, answered with 200

    **Instead.** Send 404 for every further request with that id.
    """

    id = "http/dead-session-served"
    who = "server"
    versions = SESSION_REVISIONS
    impact = Impact.WRONG
    http_methods = ALL_METHODS
    exchanges = ExchangeOddity.WITHOUT_ID | ExchangeOddity.OTHER_ID
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.status is None or http.status == 404 or http.status in UNRELATED_STATUSES or http.is_redirect:
            return ()
        if http.started_ref is None:
            return ()
        session_id = http.session_ids.get(http.fields.get(FIELD, ""))
        if (
            session_id is None
            or session_id.is_alive
            or http.is_initializing
            or not session_id.was_invalid_at(http.started_ref)
        ):
            return ()
        # Only an earlier DELETE counts: this request may be a DELETE itself.
        was_deleted = session_id.deleted is not None and session_id.deleted.seq < http.started_ref.seq
        end_text = "had been deleted" if was_deleted else "was answered with 404"
        is_error = bool(http.server_messages) and all("error" in context.body for context in http.server_messages)
        answer_text = f"an error with status {http.status} instead of 404" if is_error else f"status {http.status}"
        # A DELETE for a session that no longer exists does nothing.
        level = NOTE if http.method == "DELETE" else None
        return self.findings_in_response(http, session, f"{answer_text} in a session that {end_text}", level)


class SessionNotDeleted(Rule):
    """A client disconnects without ending its session.

    **Why it matters.** The server keeps the session, with its data and open streams, until its own timeout.

    **On the wire.** A session with an id, but no `DELETE` with that id

    **Instead.** Send `DELETE` to the endpoint with the session id; a server that does not allow this answers 405.
    """

    id = "http/session-not-deleted"
    who = "client"
    versions = SESSION_REVISIONS
    level = NOTE
    impact = Impact.COST
    at_end = True
    needs_http = True
    exchanges = ExchangeOddity.OPENING
    source = _TRANSPORTS

    def __init__(self) -> None:
        super().__init__()
        self._openings: dict[int, HttpExchange] = {}

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if session is not None and http.is_initializing and len(self._openings) < _MAX_SESSIONS:
            self._openings[session.number] = http
        return ()

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:  # noqa: ARG002 - the same for all hooks
        return like.method == "POST" and like.status in SUCCESS_STATUSES

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterable[Finding]:
        opening = self._openings.get(session.number)
        if opening is None or ending.reason != "closed" or session.lost_seq >= 0:
            return ()
        session_id = opening.session_ids.get(opening.session_ids.id_of_session(session) or "")
        if session_id is None or not session_id.is_alive or session_id.last is None:
            return ()
        if session_id.tried:
            if session_id.kept_by in (None, 401, 403, 404, 405, 429):
                return ()
            text = f"the session was not ended: its DELETE was refused with status {session_id.kept_by}"
            return [self.finding(session_id.last, text, session=session, blames="unknown")]
        return [self.finding(session_id.last, "the session was not ended by DELETE", session=session)]


def _is_newly_issued(issued_id: str, http: HttpExchange) -> bool:
    """Whether an exchange issues this id instead of repeating it."""
    session_id = http.session_ids.get(issued_id)
    return http.is_initializing or (session_id is not None and session_id.order == http.order)
