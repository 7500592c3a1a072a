"""Detects clients that cannot be told apart because their server assigns no session ids.

Messages without a session id are assigned to the client with their address, credentials and program. Several clients
can have all three in common, such as two windows of one editor, or all clients of a gateway. The connection does not
distinguish them, as gateways and pools share connections. But either of these proves that there are several:

- two open requests with one id;
- an `initialize` while a connection that carried messages of the previous session is still open. An exchange that is
  still open, or a later message, shows that a connection is open.

After all these connections have closed, an `initialize` is a restart. Where there are several clients, all their
sessions are guesses from then on (`Session.is_guess`), and rules with `needs_session` are silent about them.
"""

from collections import deque
from typing import Final
from weakref import ref

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session import Session

MAX_REMEMBERED_CLIENTS: Final = 10_000
"""The most clients, and connections, that are remembered; the oldest are forgotten first."""
_MAX_SESSIONS: Final = 1_000
"""The most sessions of indistinguishable clients that are remembered; others become guesses only by their own
messages."""
_MAX_EXCHANGES: Final = 64
"""How many of their latest exchanges are checked for an open connection."""


class _Lookalike:
    """The clients with one fingerprint (`HttpExchange.client_fingerprint`)."""

    __slots__ = ("exchanges", "has_several", "sessions")

    def __init__(self) -> None:
        self.has_several = False
        self.sessions: BoundedDict[int, Session] = BoundedDict(_MAX_SESSIONS)
        self.exchanges: deque[tuple[ref[HttpExchange], Session]] = deque(maxlen=_MAX_EXCHANGES)


class Lookalikes:
    """Tracks the clients of a capture whose sessions have no ids."""

    def __init__(self) -> None:
        self.guess_count = 0
        """How many sessions are guesses."""
        self._by_fingerprint: BoundedDict[str, _Lookalike] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        self._session_by_connection: BoundedDict[int, tuple[str, Session]] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        self._overlapping_clients: BoundedDict[int, str] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        """The clients of sessions whose `initialize` was open when the same client, or one like it, sent the next
        `initialize`."""

    def last_session_on(self, http: HttpExchange) -> Session | None:
        """Returns the session of the last message on the exchange's connection if the same client sent it, or None."""
        client, session = self._session_by_connection.get(http.conn) or ("", None)
        return session if client == http.client_fingerprint else None

    def on_initialize(self, previous: Session | None, http: HttpExchange) -> None:
        """Note that an `initialize` without a session id begins a session.

        Args:
            previous: the previous session of the same client, or of another like it; None if there is none.
            http: the exchange that carries the `initialize`.
        """
        if previous is None or http.client_fingerprint not in self._by_fingerprint:
            return
        if previous.state == "init-sent":
            self._overlapping_clients.put(previous.number, http.client_fingerprint)
        elif previous.state != "new" and (self.last_session_on(http) is previous or self._is_connected(previous, http)):
            self._note_several_clients(http.client_fingerprint)

    def note_session(self, session: Session, http: HttpExchange) -> None:
        """Note that a session contains messages of a client without a session id."""
        lookalike = self._by_fingerprint.get(http.client_fingerprint)
        if lookalike is None:
            lookalike = _Lookalike()
            self._by_fingerprint.put(http.client_fingerprint, lookalike)
        lookalike.sessions.put(session.number, session)
        if lookalike.has_several:
            self._mark_as_guess(session)

    def on_message_without_id(self, session: Session, latest: Session | None, http: HttpExchange) -> None:
        """Note that an exchange without a session id carries a message of a session.

        Args:
            session: the session.
            latest: the last session that the same client, or another like it, began; None if there is none.
            http: the exchange.
        """
        self.note_session(session, http)
        self._by_fingerprint[http.client_fingerprint].exchanges.append((ref(http), session))
        self._session_by_connection.put(http.conn, (http.client_fingerprint, session))
        if latest is not None and latest is not session and latest.opened_ns > session.opened_ns:
            self._note_several_clients(http.client_fingerprint)

    def on_initialize_without_id(self, session: Session, http: HttpExchange) -> None:
        """Note that an `initialize` was answered without a session id."""
        if self._overlapping_clients.pop(session.number, None) is not None:
            self._note_several_clients(http.client_fingerprint)

    def on_session_id(self, session: Session, http: HttpExchange) -> None:
        """Note that a session has received an id, which distinguishes it from all others."""
        self.guess_count -= session.is_guess
        session.is_guess = False
        self._overlapping_clients.pop(session.number, None)
        lookalike = self._by_fingerprint.get(http.client_fingerprint)
        if lookalike is not None:
            lookalike.sessions.pop(session.number, None)
        if (self._session_by_connection.get(http.conn) or ("", None))[1] is session:
            del self._session_by_connection[http.conn]

    def on_reused_id(self, session: Session, http: HttpExchange) -> None:
        """Note that two open requests in a session have the same id."""
        lookalike = self._by_fingerprint.get(http.client_fingerprint)
        if lookalike is not None and session.number in lookalike.sessions:
            self._note_several_clients(http.client_fingerprint)

    def _is_connected(self, previous: Session, http: HttpExchange) -> bool:
        """Whether another exchange of a session is still open."""
        exchanges = (
            (exchange_ref(), session)
            for exchange_ref, session in self._by_fingerprint[http.client_fingerprint].exchanges
        )
        return any(
            session is previous and other is not None and other is not http and other.end_ref is None
            for other, session in exchanges
        )

    def _note_several_clients(self, client: str) -> None:
        lookalike = self._by_fingerprint[client]
        if lookalike.has_several:
            return  # later sessions become guesses by their own messages
        lookalike.has_several = True
        for session in lookalike.sessions.values():
            self._mark_as_guess(session)

    def _mark_as_guess(self, session: Session) -> None:
        self.guess_count += not session.is_guess
        session.is_guess = True
