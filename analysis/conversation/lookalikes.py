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
_SESSIONS: Final = 1_000
"""The most sessions of indistinguishable clients that are remembered; others become guesses only by their own
messages."""
_EXCHANGES: Final = 64
"""How many of their latest exchanges are checked for an open connection."""


class _Alike:
    """The clients with one fingerprint (`HttpExchange.client`)."""

    __slots__ = ("exchanges", "has_several", "sessions")

    def __init__(self) -> None:
        self.has_several = False
        self.sessions: BoundedDict[int, Session] = BoundedDict(_SESSIONS)
        self.exchanges: deque[tuple[ref[HttpExchange], Session]] = deque(maxlen=_EXCHANGES)


class Lookalikes:
    """Tracks the clients of a capture whose sessions have no ids."""

    def __init__(self) -> None:
        self.guesses = 0
        """How many sessions are guesses."""
        self._alike: BoundedDict[str, _Alike] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        self._on_conn: BoundedDict[int, tuple[str, Session]] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        self._overlapped: BoundedDict[int, str] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        """The clients of sessions whose `initialize` was open when the same client, or one like it, sent the next
        `initialize`."""

    def last_on(self, http: HttpExchange) -> Session | None:
        """Returns the session of the last message on the exchange's connection if the same client sent it, or None."""
        client, session = self._on_conn.get(http.conn) or ("", None)
        return session if client == http.client else None

    def on_initialize(self, previous: Session | None, http: HttpExchange) -> None:
        """Note that an `initialize` without a session id begins a session.

        Args:
            previous: the previous session of the same client, or of another like it; None if there is none.
            http: the exchange that carries the `initialize`.
        """
        if previous is None or http.client not in self._alike:
            return
        if previous.state == "init-sent":
            self._overlapped.put(previous.number, http.client)
        elif previous.state != "new" and (self.last_on(http) is previous or self._is_connected(previous, http)):
            self._prove(http.client)

    def note_session(self, session: Session, http: HttpExchange) -> None:
        """Note that a session contains messages of a client without a session id."""
        lookalike = self._alike.get(http.client)
        if lookalike is None:
            lookalike = _Alike()
            self._alike.put(http.client, lookalike)
        lookalike.sessions.put(session.number, session)
        if lookalike.has_several:
            self._guess(session)

    def on_message_without_id(self, session: Session, latest: Session | None, http: HttpExchange) -> None:
        """Note that an exchange without a session id carries a message of a session.

        Args:
            session: the session.
            latest: the last session that the same client, or another like it, began; None if there is none.
            http: the exchange.
        """
        self.note_session(session, http)
        self._alike[http.client].exchanges.append((ref(http), session))
        self._on_conn.put(http.conn, (http.client, session))
        if latest is not None and latest is not session and latest.opened_ns > session.opened_ns:
            self._prove(http.client)

    def on_initialize_without_id(self, session: Session, http: HttpExchange) -> None:
        """Note that an `initialize` was answered without a session id."""
        if self._overlapped.pop(session.number, None) is not None:
            self._prove(http.client)

    def on_session_id(self, session: Session, http: HttpExchange) -> None:
        """Note that a session has received an id, which distinguishes it from all others."""
        self.guesses -= session.is_guess
        session.is_guess = False
        self._overlapped.pop(session.number, None)
        lookalike = self._alike.get(http.client)
        if lookalike is not None:
            lookalike.sessions.pop(session.number, None)
        if (self._on_conn.get(http.conn) or ("", None))[1] is session:
            del self._on_conn[http.conn]

    def reused(self, session: Session, http: HttpExchange) -> None:
        """Note that two open requests in a session have the same id."""
        lookalike = self._alike.get(http.client)
        if lookalike is not None and session.number in lookalike.sessions:
            self._prove(http.client)

    def _is_connected(self, previous: Session, http: HttpExchange) -> bool:
        """Whether another exchange of a session is still open."""
        exchanges = ((exchange_ref(), session) for exchange_ref, session in self._alike[http.client].exchanges)
        return any(
            session is previous and other is not None and other is not http and other.over is None
            for other, session in exchanges
        )

    def _prove(self, client: str) -> None:
        lookalike = self._alike[client]
        if lookalike.has_several:
            return  # later sessions become guesses by their own messages
        lookalike.has_several = True
        for session in lookalike.sessions.values():
            self._guess(session)

    def _guess(self, session: Session) -> None:
        self.guesses += not session.is_guess
        session.is_guess = True
