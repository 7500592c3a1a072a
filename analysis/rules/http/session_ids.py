"""Session ids of Streamable HTTP: how a server issues them, and what it does after they have expired."""

import re
from collections.abc import Iterable
from typing import Final

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.rules.base import NOTE, WARNING, Ending, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.exchanges import ANY, NOT_JUDGED, SESSIONS, SUCCESS, Answered

_TRANSPORTS: Final = "2025-03-26 basic/transports"
_SHORTEST: Final = 16
"""Characters below which an id can be guessed."""
_SESSIONS: Final = 10_000
"""Sessions that are remembered."""
_HASH: Final = re.compile(r"hmac:[0-9a-f]{16}").fullmatch
"""What stands in captures for an id: of its characters nothing is known."""


class _Given(Answered):
    """A rule about ids as servers give them out."""

    who = "server"
    versions = SESSIONS
    http_methods = ANY
    source = _TRANSPORTS

    def look(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        given = http.answer_fields.get(FIELD)
        return () if given is None else self.given(given, http, session)

    def given(self, given: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """What is wrong with an id in a response."""
        raise NotImplementedError


class SessionIdCharacters(_Given):
    """A session id is empty, or has characters that are not allowed.

    **Why it matters.** Clients send it back in a header: blanks are lost there, and characters outside ASCII are
    altered.

    **On the wire.** `Mcp-Session-Id: my session`

    **Instead.** Use visible ASCII, 0x21 to 0x7E: a UUID, a token or a hash. In a recording ids are hashes, so only an
    empty id is noticed; imported captures have the ids themselves.
    """

    id = "http/session-id-characters"
    impact = Impact.CONNECTION

    def given(self, given: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if not _is_news(given, http) or (given and all("\x21" <= character <= "\x7e" for character in given)):
            return ()
        what = "has characters that are not visible ASCII" if given else "is empty"
        return self.in_response(http, session, f"the session id {what}")


class SessionIdWeak(_Given):
    """A session id can be guessed, or is that of another session.

    **Why it matters.** Anyone who knows it can send messages as that client, and receives the messages meant for it.

    **On the wire.** `Mcp-Session-Id: 42`

    **Instead.** Use a random UUID, or as much from a good source of random numbers, and a new id for each session. In a
    recording ids are hashes, so only an id that is issued twice is noticed; imported captures have the ids themselves.
    """

    id = "http/session-id-weak"
    level = WARNING
    impact = Impact.SECURITY

    def given(self, given: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        known = http.session_ids.of(given)
        if not given or known is None or not http.is_opening:
            return ()
        if known.exchange is not http:
            is_other = known.exchange is not None and known.is_of_opening and http.fields.get(FIELD) != given
            text = "the session id was given to another session before"
            return self.in_response(http, session, text) if is_other else ()
        if _HASH(given):
            return ()
        if given.isdecimal():
            return self.in_response(http, session, "the session id is a number")
        if len(given) < _SHORTEST:
            return self.in_response(http, session, f"the session id has {len(given)} characters")
        return ()


class SessionIdLate(_Given):
    """A session id comes first with a response other than that to `initialize`.

    **Why it matters.** Clients look for it only there, and continue without it.

    **On the wire.** `initialize` is answered without an id, `tools/list` with `Mcp-Session-Id: 1868a90c…`

    **Instead.** Send it with the response to `initialize`, or not at all.
    """

    id = "http/session-id-late"
    level = WARNING
    impact = Impact.CONNECTION
    needs_start = True

    def given(self, given: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        known = http.session_ids.of(given)
        if known is None or known.exchange is not http or known.is_of_opening or FIELD in http.fields:
            return ()
        is_known = session is not None and session.handshake is not None and session.lost_seq < 0
        if not given or not is_known or session is None or http.session_ids.of_session(session) is not None:
            return ()
        return self.in_response(http, session, "a session id comes after the response to initialize, which had none")


class SessionIdChanged(_Given):
    """A response in a session has a different session id.

    **Why it matters.** Some clients continue with the new id, some with the old one: requests and responses part ways.

    **On the wire.** `> Mcp-Session-Id: 1868a90c…`, answered with `< Mcp-Session-Id: 77d1f0c2…`

    **Instead.** Send the same id, or none, in every response until the session is over.
    """

    id = "http/session-id-changed"
    impact = Impact.CONNECTION

    def given(self, given: str, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        requested = http.fields.get(FIELD)
        if not requested or given == requested or http.is_opening or FIELD in http.doubled:
            return ()
        return self.in_response(http, session, "the response has a different session id than the request")


class DeadSessionServed(Answered):
    """A server continues to serve a session that it has said to be over.

    **Why it matters.** The client has been told to start again, or has ended the session: what happens now belongs to
    no session, and resources that should be freed are not.

    **On the wire.** `DELETE /mcp`, answered with 200; later `POST /mcp` with the same id, answered with 200

    **Instead.** Send 404 for every further request with that id.
    """

    id = "http/dead-session-served"
    who = "server"
    versions = SESSIONS
    impact = Impact.WRONG
    http_methods = ANY
    source = _TRANSPORTS

    def look(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.status is None or http.status == 404 or http.status in NOT_JUDGED or http.asked is None:
            return ()
        known = http.session_ids.of(http.fields.get(FIELD, ""))
        if known is None or known.is_alive or http.is_opening or not known.had_died(http.asked):
            return ()
        # Only what came before it counts: it may be a DELETE itself.
        was_deleted = known.deleted is not None and known.deleted.seq < http.asked.seq
        how = "had been deleted" if was_deleted else "was answered with 404"
        return self.in_response(http, session, f"status {http.status} in a session that {how}")


class SessionNotDeleted(Rule):
    """A client disconnects without ending its session.

    **Why it matters.** The server keeps the session, with all its data and open streams, until a limit of its own.

    **On the wire.** A session with an id, and no `DELETE` with it

    **Instead.** Send `DELETE` to the endpoint with the session id; a server that does not allow that answers 405.
    """

    id = "http/session-not-deleted"
    who = "client"
    versions = SESSIONS
    level = NOTE
    impact = Impact.COST
    at_end = True
    needs_http = True
    source = _TRANSPORTS

    def __init__(self) -> None:
        super().__init__()
        self._ids: dict[int, HttpExchange] = {}

    def on_answered(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if session is not None and http.is_opening and len(self._ids) < _SESSIONS:
            self._ids[session.number] = http
        return ()

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:  # noqa: ARG002 - whatever the hook
        return like.method == "POST" and like.status in SUCCESS

    def on_end(self, session: Session, ending: Ending) -> Iterable[Finding]:
        opening = self._ids.get(session.number)
        if opening is None or ending.reason != "closed" or session.lost_seq >= 0:
            return ()
        known = opening.session_ids.of(opening.session_ids.of_session(session) or "")
        if known is None or known.tried or not known.is_alive or known.last is None:
            return ()
        return [self.finding(known.last, "the session was not ended by DELETE", session=session)]


def _is_news(given: str, http: HttpExchange) -> bool:
    """Whether an id is given out by an exchange, and not merely repeated."""
    known = http.session_ids.of(given)
    return http.is_opening or (known is not None and known.exchange is http)
