"""Lookalikes: clients of a server without session ids that cannot be told apart.

Messages without a session id belong to the client with their address, credentials and program. Several clients can have
all three in common: two windows of one editor, or everyone behind a gateway. The connection does not help, as gateways
and pools share connections. But either of these proves that there are several:

- two open requests with one id;
- an `initialize` while a connection that carried messages of the session before it is still open. An exchange that
  is still going on, or a later message, shows that a connection is open.

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
"""How many sessions of clients that look alike are remembered; more become guesses only by their own messages."""
_EXCHANGES: Final = 64
"""How many of their latest exchanges may show that a connection is open."""


class _Alike:
    """The clients with one fingerprint (`HttpExchange.client`)."""

    __slots__ = ("exchanges", "has_several", "sessions")

    def __init__(self) -> None:
        self.has_several = False
        self.sessions: BoundedDict[int, Session] = BoundedDict(_SESSIONS)
        self.exchanges: deque[tuple[ref[HttpExchange], Session]] = deque(maxlen=_EXCHANGES)


class Lookalikes:
    """What is known about the clients of a capture whose sessions have no ids."""

    def __init__(self) -> None:
        self.guesses = 0
        """How many sessions are guesses."""
        self._alike: BoundedDict[str, _Alike] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        self._on_conn: BoundedDict[int, tuple[str, Session]] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        self._overlapped: BoundedDict[int, str] = BoundedDict(MAX_REMEMBERED_CLIENTS)
        """Sessions whose `initialize` was open when the same client, or another like it, sent the next one."""

    def last_on(self, http: HttpExchange) -> Session | None:
        """The session of the last message on the connection of an exchange, if it came from the same client."""
        client, session = self._on_conn.get(http.conn) or ("", None)
        return session if client == http.client else None

    def on_initialize(self, before: Session | None, http: HttpExchange) -> None:
        """Note that an `initialize` without a session id begins a session.

        Args:
            before: the session that the same client, or another like it, began before; None if there is none.
            http: the exchange that carries the `initialize`.
        """
        if before is None or http.client not in self._alike:
            return
        if before.state == "init-sent":
            self._overlapped.put(before.number, http.client)
        elif before.state != "new" and (self.last_on(http) is before or self._is_connected(before, http)):
            self._prove(http.client)

    def note_session(self, session: Session, http: HttpExchange) -> None:
        """Note that a session has messages of a client without a session id."""
        alike = self._alike.get(http.client)
        if alike is None:
            alike = _Alike()
            self._alike.put(http.client, alike)
        alike.sessions.put(session.number, session)
        if alike.has_several:
            self._guess(session)

    def on_message_without_id(self, session: Session, latest: Session | None, http: HttpExchange) -> None:
        """Note that an exchange without a session id carries a message of a session.

        Args:
            session: the session.
            latest: the session that the same client, or another like it, began last; None if there is none.
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
        alike = self._alike.get(http.client)
        if alike is not None:
            alike.sessions.pop(session.number, None)
        if (self._on_conn.get(http.conn) or ("", None))[1] is session:
            del self._on_conn[http.conn]

    def reused(self, session: Session, http: HttpExchange) -> None:
        """Note that two open requests in a session have the same id."""
        alike = self._alike.get(http.client)
        if alike is not None and session.number in alike.sessions:
            self._prove(http.client)

    def _is_connected(self, before: Session, http: HttpExchange) -> bool:
        """Whether an exchange of a session is still open."""
        kept = ((made(), session) for made, session in self._alike[http.client].exchanges)
        return any(
            session is before and other is not None and other is not http and other.over is None
            for other, session in kept
        )

    def _prove(self, client: str) -> None:
        alike = self._alike[client]
        if alike.has_several:
            return  # later sessions become guesses by their own messages
        alike.has_several = True
        for session in alike.sessions.values():
            self._guess(session)

    def _guess(self, session: Session) -> None:
        self.guesses += not session.is_guess
        session.is_guess = True
