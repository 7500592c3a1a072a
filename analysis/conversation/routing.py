"""Assigns each message to its session.

On stdio there is only one session. Over HTTP, a message belongs to the session of its session id; without an id, to the
session of the last `initialize` from the same client; and on the older transport, to the session of the stream that
announced the address to which the client posts. The modern era has no sessions; a message then belongs to the client,
as far as its address and the name in its requests identify it. That is a guess, and is labelled as one.

A modern client of an older server begins with a probe that is refused, followed by a handshake. Both belong to one
session on every transport (2026-07-28 basic/transports/streamable-http, backward compatibility). Over Streamable HTTP
an `initialize` belongs to the session of a probe if all of these hold:

- the probe was answered, or its exchange has ended, and nothing in its session shows a server of the modern era;
- both have the same address, credentials and program (`HttpExchange.client_fingerprint`), and are at most `MAX_IDLE_NS`
apart;
- both come over one connection, with nothing between them on it, and do not name different clients; or both give the
  same name and version, and that client sent nothing else without a session id between them.

Otherwise the probe stays a separate session: another client may have sent it.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from weakref import ref

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call_table import CallTable
from analysis.conversation.handshake import peer_of
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.lookalikes import Lookalikes
from analysis.conversation.message import Message, Request, Side
from analysis.conversation.session import CLIENT_INFO, Session
from analysis.conversation.used_ids import UsedIds, UsedIdsInExchanges, UsedIdsOnPipe
from analysis.protocol.revisions import FIRST_MODERN_RANK, Era, rank_of

MAX_SESSIONS: Final = 10_000
"""The most sessions that are kept; the oldest are forgotten first."""
_MAX_CLIENT_INFO_CHARS: Final = 200
"""The most characters of a name or a version that distinguish clients."""
_ClientKey: TypeAlias = tuple[str, Era, str]
"""What identifies a client: its address, credentials and program; the era; and in the modern era, the name that it
gives, if any."""
MAX_IDLE_NS: Final = 30 * 60 * 1_000_000_000
"""The silence after which an inferred peer counts as another peer."""


class Routing:
    """The sessions of a capture."""

    def __init__(self, tables: dict[Side, CallTable]) -> None:
        self.count = 0
        """The number of sessions so far."""
        self.transport: str | None = None
        self.environment: Mapping[str, Any] = {}
        """The environment that the client gave to the server; see `Fold.environment`."""
        self.observed_start = False
        self.pipe_session: Session | None = None
        """The only session of a pipe; None before it has begun."""
        self._has_lost = False
        self._lookalikes = Lookalikes()
        self._session_by_connection: BoundedDict[int, tuple[str, Session]] = BoundedDict(MAX_SESSIONS)
        self.ids_in_exchanges = UsedIdsInExchanges()
        """The ids that sessions over HTTP have used."""
        self._ids_on_pipe = UsedIdsOnPipe(tables)
        self._sessions: BoundedDict[int, Session] = BoundedDict(MAX_SESSIONS)
        self.stirred_sessions: dict[Session, None] = {}
        """Sessions about which something was learned since the last loss that may have affected any session. After
        another loss, only these have anything to forget; the others may be thousands."""
        self._by_key: BoundedDict[str, Session] = BoundedDict(MAX_SESSIONS)
        self._by_client: BoundedDict[_ClientKey, tuple[Session, int]] = BoundedDict(MAX_SESSIONS)
        # The last exchange with a message but without a known session id, by connection and by client. The references
        # are weak, because `HttpExchanges` decides how many exchanges are kept.
        self._latest_exchanges: BoundedDict[int | str, ref[HttpExchange]] = BoundedDict(MAX_SESSIONS)

    @property
    def forgotten_count(self) -> int:
        """How many sessions had to be forgotten."""
        return self._sessions.forgotten

    def sessions(self) -> list[Session]:
        """Returns the sessions that are kept, in the order in which they began."""
        return list(self._sessions.values())

    @property
    def guess_count(self) -> int:
        """How many sessions are guesses; see `analysis.conversation.lookalikes`."""
        return self._lookalikes.guess_count

    def is_guess(self, number: int) -> bool:
        """Whether the session with a number is a guess."""
        session = self._sessions.get(number)
        return session is not None and session.is_guess

    def resembled_number(self, number: int) -> int:
        """Returns the number of the session that one with a never-issued id resembles, or else the same number."""
        session = self._sessions.get(number)
        return number if session is None or session.likeness is None else session.likeness.number

    def on_reused_id(self, session: Session, http: HttpExchange) -> None:
        """Note that two open requests of the client in a session have the same id."""
        self._lookalikes.on_reused_id(session, http)

    def client_of(self, session: Session) -> tuple[str, int] | None:
        """Returns the client whose messages without a session id belong to a session, and the stamp of the last one.

        Returns None unless there is exactly one such client.
        """
        clients = [
            (client, last_ns)
            for (client, _, _), (client_session, last_ns) in self._by_client.items()
            if client_session is session
        ]
        return clients[0] if len(clients) == 1 and len(self._by_client) == 1 else None

    def note_loss(self) -> None:
        """Note lost records: the beginning of a later session may not be in the capture."""
        self.observed_start = False
        self._has_lost = True

    def note_news(self, session: Session) -> None:
        """Note that something was learned about a session."""
        self.stirred_sessions[session] = None
        if len(self.stirred_sessions) > 2 * MAX_SESSIONS:
            self.stirred_sessions = dict.fromkeys(
                open_session for open_session in self.sessions() if open_session in self.stirred_sessions
            )

    def begin_pipe(self, t_ns: int) -> Session:
        """Begin the only session of a pipe if it has not begun; return it. It exists before the first message."""
        if self.pipe_session is None:
            self.pipe_session = self._create(t_ns, observed_start=self.observed_start)
        return self.pipe_session

    def used_ids(self, session: Session) -> UsedIds:
        """Returns the ids that requests of a session have used; over HTTP, the ids of all sessions of the capture."""
        return self._ids_on_pipe if session is self.pipe_session else self.ids_in_exchanges

    def session_of(self, message: Message, http: HttpExchange | None, *, is_modern: bool) -> Session:
        """Returns the session of a message, which is created if the message opens it.

        Args:
            message: the message.
            http: the exchange that carried the message; None on stdio.
            is_modern: whether the message is a request of the modern era.
        """
        if http is None:
            return self.begin_pipe(message.t_ns)
        if http.session is None:
            http.session = self._find_or_create(message, http, is_modern=is_modern)
        return http.session

    def _find_or_create(self, message: Message, http: HttpExchange, *, is_modern: bool) -> Session:
        key = http.fields.get("mcp-session-id")
        session_of_key = self._session_of_key(http, is_modern=is_modern)
        if session_of_key is not None:
            return session_of_key
        is_opening = isinstance(message, Request) and message.method == "initialize"
        probe_session = self._probe_session(message, http) if is_opening and not key else None
        client_session = self._sender_session(message, http, is_modern=is_modern)
        likely_session = (
            self._likely_session(http) if client_session is None and not is_opening and not is_modern else None
        )
        if likely_session is not None and (not key or likely_session is self._last_session_on(http)):
            return likely_session
        if probe_session is not None:
            session = probe_session
            session.delimited = "session"
        elif is_opening or client_session is None or message.t_ns - client_session[1] > MAX_IDLE_NS:
            # Without a session id, the conversation may have begun before the recording.
            session = self._create(message.t_ns, observed_start=(is_opening or is_modern) and self.observed_start)
            session.delimited, session.likeness = "session" if is_opening or key else "peer", likely_session
            if key and not is_modern:
                self._by_key.put(key, session)
        else:
            session = client_session[0]
        if is_modern:
            self._lookalikes.note_session(session, http)
            # A request without a name counts as sent by the client that gave one.
            for name in {_client_name(message), ""}:
                self._by_client.put((http.client_fingerprint, "modern", name), (session, message.t_ns))
        elif not key:
            self._remember_client(session, message, http, is_opening=is_opening)
        for latest_key in (http.conn, http.client_fingerprint):
            self._latest_exchanges.put(latest_key, ref(http))
        return session

    def _session_of_key(self, http: HttpExchange, *, is_modern: bool) -> Session | None:
        """Returns the session of the session id, or of the address announced by a stream of the older transport."""
        for key in (http.fields.get("mcp-session-id"), http.uri_key):
            # Every POST has the key of its URI, but only a key that a stream has announced belongs to a session. A
            # message to such an address, such as a probe, may be of the modern era.
            if key and key in self._by_key and (not is_modern or (key == http.uri_key and http.is_for_stream)):
                self._session_by_connection.put(http.conn, (http.client_fingerprint, self._by_key[key]))
                return self._by_key[key]
        return None

    def _remember_client(self, session: Session, message: Message, http: HttpExchange, *, is_opening: bool) -> None:
        """Remember the client that sent a message of the handshake era without a session id."""
        client_key: _ClientKey = (http.client_fingerprint, "handshake", "")
        latest = self._by_client.get(client_key)
        previous = None if latest is None else latest[0]
        if is_opening:
            self._lookalikes.on_initialize(previous, http)
        self._lookalikes.on_message_without_id(session, None if is_opening else previous, http)
        if is_opening or previous is None or session.opened_ns >= previous.opened_ns:
            self._by_client.put(client_key, (session, message.t_ns))

    def _likely_session(self, http: HttpExchange) -> Session | None:
        """Returns the session with an id to which a message without an id, or with a never-issued id, seems to belong.

        Returns None if it is not the client's only session, unless the last message on the connection belonged to it.
        """
        alive_sessions = {
            id(session_id.session): session_id.session
            for session_id in http.session_ids.issued_to(http.client_fingerprint)
            if session_id.is_alive
        }
        last_session = self._last_session_on(http)
        if last_session is not None and id(last_session) in alive_sessions:
            return last_session
        return next(iter(alive_sessions.values())) if len(alive_sessions) == 1 else None

    def _last_session_on(self, http: HttpExchange) -> Session | None:
        """Returns the session of the last message with an id on an exchange's connection, if its client sent it."""
        client, session = self._session_by_connection.get(http.conn) or ("", None)
        return session if client == http.client_fingerprint else None

    def _probe_session(self, message: Message, http: HttpExchange) -> Session | None:
        """Returns the session of the refused probe that an `initialize` follows, or None if that is uncertain."""
        params = message.params if isinstance(message, Request) else None
        name = peer_of(params.get("clientInfo")) if isinstance(params, dict) else None
        for latest_key in (http.conn, http.client_fingerprint):
            latest = self._latest_exchanges.get(latest_key)
            probe = latest() if latest is not None else None
            session = probe.session if probe is not None else None
            if (
                probe is None
                or session is None
                or probe.client_fingerprint != http.client_fingerprint
                or not _is_refused(probe, session)
            ):
                continue
            is_unnamed = name is None or session.client is None
            is_same = latest_key == http.conn if is_unnamed else name == session.client
            if is_same and message.t_ns - session.last_ns <= MAX_IDLE_NS:
                return session
        return None

    def _sender_session(self, message: Message, http: HttpExchange, *, is_modern: bool) -> tuple[Session, int] | None:
        """Returns the session of the sender of a message without a session id, and the time of its last message."""
        if is_modern:
            return self._modern_session(http.client_fingerprint, _client_name(message))
        if (rank_of(http.fields.get(VERSION_FIELD)) or 0) >= FIRST_MODERN_RANK:
            return self._modern_session(http.client_fingerprint)
        latest = self._by_client.get((http.client_fingerprint, "handshake", "")) or self._modern_session(
            http.client_fingerprint
        )
        own_session = self._lookalikes.last_session_on(http)
        return (
            latest
            if own_session is None or latest is None
            else (own_session, max(own_session.last_ns, own_session.opened_ns))
        )

    def _modern_session(self, client: str, name: str = "") -> tuple[Session, int] | None:
        """Returns the modern-era session of a client, or None; a client begins a new one after a handshake."""
        latest = self._by_client.get((client, "modern", name))
        return None if latest is None or latest[0].epoch > 0 else latest

    def _last_session_of(self, client: str) -> tuple[Session, int] | None:
        """Returns the session of a client, of either era, with the latest message, or None if there is none."""
        candidates = (self._by_client.get((client, "handshake", "")), self._modern_session(client))
        return max(
            (candidate for candidate in candidates if candidate is not None), key=lambda known: known[1], default=None
        )

    def session_of_exchange(self, http: HttpExchange) -> Session | None:
        """Returns the session of an exchange, with or without messages, or None if unknown."""
        key = http.fields.get("mcp-session-id")
        if http.session is not None or key:
            return http.session or self._by_key.get(key or "")
        latest = self._last_session_of(http.client_fingerprint)
        return latest[0] if latest is not None else None

    def on_exchange(self, http: HttpExchange, t_ns: int) -> None:
        """Process a record of an exchange, whose response may assign the key of its session."""
        exchange_session = http.session
        key = http.answer_fields.get("mcp-session-id")
        if key and exchange_session is not None and key not in self._by_key:
            self._by_key.put(key, exchange_session)
            self._by_client.pop((http.client_fingerprint, "handshake", ""), None)
            self._lookalikes.on_session_id(exchange_session, http)
        elif (
            exchange_session is not None
            and not key
            and http.is_initializing
            and http.status is not None
            and http.status < 300
        ):
            self._lookalikes.on_initialize_without_id(exchange_session, http)
        if http.uri_key and http.method == "GET" and (exchange_session is None or http.uri_key not in self._by_key):
            # Each stream is a separate session, although some servers announce the same address on all streams.
            session = exchange_session or self._create(t_ns, observed_start=self.observed_start)
            session.delimited, session.is_legacy = "session", True
            self._by_key.put(http.uri_key, session)
            http.session = session

    def _create(self, t_ns: int, *, observed_start: bool) -> Session:
        self.count += 1
        session = Session(self.count, self.transport, t_ns)
        session.observed_start = observed_start
        session.environment = self.environment
        session.lost_seq = 0 if self._has_lost else -1
        self._sessions.put(session.number, session)
        self.note_news(session)
        return session


def _is_refused(probe: HttpExchange, session: Session) -> bool:
    """Whether a session contains only requests that a server of the older era has refused or not answered."""
    is_over = probe.end_ref is not None or probe.last_answer is not None or (probe.status or 0) >= 300
    return is_over and session.state == "new" and session.eras == {"modern"} and not session.server_is_modern


def _client_name(message: Message) -> str:
    """Returns the name that a client gives in a request of the modern era, or an empty string if it gives none."""
    info = message.meta.get(CLIENT_INFO) if isinstance(message, Request) else None
    parts = (info.get("name"), info.get("version")) if isinstance(info, dict) else ()
    return "\n".join(part[:_MAX_CLIENT_INFO_CHARS] for part in parts if isinstance(part, str))
