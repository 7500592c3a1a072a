"""Routing: assigns each message to its session.

On stdio there is only one. Over HTTP it is the session of the session id; without an id, that of the `initialize` that
the same client sent last; on the older transport, that of the stream whose announced address the client posts to; and
in the modern era, which has no sessions, that of the client as far as it can be identified: by the address it sends
from, and by the name that it gives in each request. That is a guess, and labelled as one.

A client of the modern era that meets an older server begins with a refused probe, followed by a handshake: one session
over every transport (2026-07-28 basic/transports/streamable-http, backward compatibility). Over Streamable HTTP an
`initialize` belongs to the session of a probe if all of these hold:

- the probe was answered, or its exchange has ended, and nothing in its session shows a server of the modern era;
- both have the same address, credentials and program (`HttpExchange.client`), and come within `IDLE_NS`;
- they come over one connection, with nothing between them on it, and do not name different clients; or both give the
  same name and version, and that client sent nothing else without a session id between them.

Otherwise the probe stays a separate session: another client may have sent it.
"""

from typing import Final, TypeAlias
from weakref import ref

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call_table import CallTable
from analysis.conversation.handshake import peer_of
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.lookalikes import Lookalikes
from analysis.conversation.message import Message, Request, Side
from analysis.conversation.session import CLIENT_INFO, Session
from analysis.conversation.used_ids import UsedIds, UsedInExchanges, UsedOnPipe
from analysis.protocol.revisions import MODERN, Era, rank_of

MAX_SESSIONS: Final = 10_000
"""The most sessions that are kept; the oldest are forgotten first."""
_MAX_CLIENT_INFO_CHARS: Final = 200
"""How many characters of a name or a version distinguish clients."""
_Who: TypeAlias = tuple[str, Era, str]
"""Address, credentials and program; the era; and in the modern one, the name that the client gives, if any."""
IDLE_NS: Final = 30 * 60 * 1_000_000_000
"""The silence after which an inferred peer counts as a different one."""


class Routing:
    """The sessions of a capture."""

    def __init__(self, tables: dict[Side, CallTable]) -> None:
        self.count = 0
        """The number of sessions so far."""
        self.transport: str | None = None
        self.observed_start = False
        self.of_pipe: Session | None = None
        """The only session of a pipe, once it has begun."""
        self._has_lost = False
        self._lookalikes = Lookalikes()
        self._on_conn: BoundedDict[int, tuple[str, Session]] = BoundedDict(MAX_SESSIONS)
        self.used = UsedInExchanges()
        """The ids that sessions over HTTP have used."""
        self._used_on_pipe = UsedOnPipe(tables)
        self._sessions: BoundedDict[int, Session] = BoundedDict(MAX_SESSIONS)
        self.stirred: dict[Session, None] = {}
        """Sessions about which something was learned since the last loss that may concern any of them: that loss has
        left nothing to forget about the others, of which there may be thousands."""
        self._by_key: BoundedDict[str, Session] = BoundedDict(MAX_SESSIONS)
        self._by_client: BoundedDict[_Who, tuple[Session, int]] = BoundedDict(MAX_SESSIONS)
        # By connection, and by client: the last exchange with a message but without a known session id.
        # Weak references, because `HttpExchanges` decides how many exchanges are kept.
        self._latest: BoundedDict[int | str, ref[HttpExchange]] = BoundedDict(MAX_SESSIONS)

    @property
    def forgotten(self) -> int:
        """Sessions that had to be forgotten."""
        return self._sessions.forgotten

    def open(self) -> list[Session]:
        """The sessions that are kept, in the order in which they began."""
        return list(self._sessions.values())

    @property
    def guesses(self) -> int:
        """How many sessions are guesses; see `analysis.conversation.lookalikes`."""
        return self._lookalikes.guesses

    def is_guess(self, number: int) -> bool:
        """Whether the session with a number is a guess."""
        session = self._sessions.get(number)
        return session is not None and session.is_guess

    def likeness_of(self, number: int) -> int:
        """The number of the session that one with a never-issued id resembles; otherwise its own."""
        session = self._sessions.get(number)
        return number if session is None or session.likeness is None else session.likeness.number

    def reused(self, session: Session, http: HttpExchange) -> None:
        """Note that two open requests of the client in a session have the same id."""
        self._lookalikes.reused(session, http)

    def client_of(self, session: Session) -> tuple[str, int] | None:
        """The client whose messages without a session id belong to a session with a handshake, and when it last began.

        None if there is none, or not just one.
        """
        known = [(client, at) for (client, _, _), (of, at) in self._by_client.items() if of is session]
        return known[0] if len(known) == 1 and len(self._by_client) == 1 else None

    def note_loss(self) -> None:
        """Note lost records: nothing is certain about the beginning of later sessions."""
        self.observed_start = False
        self._has_lost = True

    def stir(self, session: Session) -> None:
        """Note that something was learned about a session."""
        self.stirred[session] = None
        if len(self.stirred) > 2 * MAX_SESSIONS:
            self.stirred = dict.fromkeys(known for known in self.open() if known in self.stirred)

    def begin(self, t_ns: int) -> Session:
        """Begin the only session of a pipe, which exists before the first message."""
        if self.of_pipe is None:
            self.of_pipe = self._new(t_ns, observed_start=self.observed_start)
        return self.of_pipe

    def used_by(self, session: Session) -> UsedIds:
        """The ids that the requests of a session have used; over HTTP those of all sessions of the capture."""
        return self._used_on_pipe if session is self.of_pipe else self.used

    def session_of(self, message: Message, http: HttpExchange | None, *, is_modern: bool) -> Session:
        """The session of a message; a new one if the message opens one.

        Args:
            message: the message.
            http: the exchange that carried it; None on stdio.
            is_modern: whether it is a request of the modern era.
        """
        if http is None:
            return self.begin(message.t_ns)
        if http.session is None:
            http.session = self._found(message, http, is_modern=is_modern)
        return http.session

    def _found(self, message: Message, http: HttpExchange, *, is_modern: bool) -> Session:
        key = http.fields.get("mcp-session-id")
        known = self._known(http, is_modern=is_modern)
        if known is not None:
            return known
        is_opening = isinstance(message, Request) and message.method == "initialize"
        probed = self._probed(message, http) if is_opening and not key else None
        remembered = self._remembered(message, http, is_modern=is_modern)
        given = self._given(http) if remembered is None and not is_opening and not is_modern else None
        if given is not None and (not key or given is self._last_on(http)):
            return given
        if probed is not None:
            session = probed
            session.delimited = "session"
        elif is_opening or remembered is None or message.t_ns - remembered[1] > IDLE_NS:
            # Without a session id, the conversation may have begun before the recording.
            session = self._new(message.t_ns, observed_start=(is_opening or is_modern) and self.observed_start)
            session.delimited, session.likeness = "session" if is_opening or key else "peer", given
            if key and not is_modern:
                self._by_key.put(key, session)
        else:
            session = remembered[0]
        if is_modern:
            self._lookalikes.note_session(session, http)
            # A request that omits the name is taken to come from the client that gave it.
            for name in {_name(message), ""}:
                self._by_client.put((http.client, "modern", name), (session, message.t_ns))
        elif not key:
            self._remember(session, message, http, is_opening=is_opening)
        for place in (http.conn, http.client):
            self._latest.put(place, ref(http))
        return session

    def _known(self, http: HttpExchange, *, is_modern: bool) -> Session | None:
        """The session of the session id, or of the address that a stream of the older transport has announced."""
        for key in (http.fields.get("mcp-session-id"), http.uri_key):
            # Every POST has the key of its URI; only a key that a stream has announced belongs to a session. A message
            # there may be of the modern era, like a probe.
            if key and key in self._by_key and (not is_modern or (key == http.uri_key and http.is_for_stream)):
                self._on_conn.put(http.conn, (http.client, self._by_key[key]))
                return self._by_key[key]
        return None

    def _remember(self, session: Session, message: Message, http: HttpExchange, *, is_opening: bool) -> None:
        """Remember the client of a message of the handshake era without a session id."""
        who: _Who = (http.client, "handshake", "")
        latest = self._by_client.get(who)
        before = None if latest is None else latest[0]
        if is_opening:
            self._lookalikes.on_initialize(before, http)
        self._lookalikes.on_message_without_id(session, None if is_opening else before, http)
        if is_opening or before is None or session.opened_ns >= before.opened_ns:
            self._by_client.put(who, (session, message.t_ns))

    def _given(self, http: HttpExchange) -> Session | None:
        """The session with an id to which a message without an id, or with one that was never issued, seems to belong.

        None if that is not the only one of the client, unless the last message on the connection belonged to it.
        """
        alive = {id(one.session): one.session for one in http.session_ids.issued_to(http.client) if one.is_alive}
        last = self._last_on(http)
        if last is not None and id(last) in alive:
            return last
        return next(iter(alive.values())) if len(alive) == 1 else None

    def _last_on(self, http: HttpExchange) -> Session | None:
        """The session of the last message with an id on the connection of an exchange, if it came from its client."""
        client, session = self._on_conn.get(http.conn) or ("", None)
        return session if client == http.client else None

    def _probed(self, message: Message, http: HttpExchange) -> Session | None:
        """Returns the session of the refused probe that an `initialize` follows, or None if that is uncertain."""
        params = message.params if isinstance(message, Request) else None
        name = peer_of(params.get("clientInfo")) if isinstance(params, dict) else None
        for place in (http.conn, http.client):
            latest = self._latest.get(place)
            probe = latest() if latest is not None else None
            session = probe.session if probe is not None else None
            if probe is None or session is None or probe.client != http.client or not _is_refused(probe, session):
                continue
            is_unnamed = name is None or session.client is None
            is_same = place == http.conn if is_unnamed else name == session.client
            if is_same and message.t_ns - session.last_ns <= IDLE_NS:
                return session
        return None

    def _remembered(self, message: Message, http: HttpExchange, *, is_modern: bool) -> tuple[Session, int] | None:
        """The session of the sender of a message without a session id, and the time of its last message."""
        if is_modern:
            return self._modern(http.client, _name(message))
        if (rank_of(http.fields.get(VERSION_FIELD)) or 0) >= MODERN:
            return self._modern(http.client)
        latest = self._by_client.get((http.client, "handshake", "")) or self._modern(http.client)
        own = self._lookalikes.last_on(http)
        return latest if own is None or latest is None else (own, max(own.last_ns, own.opened_ns))

    def _modern(self, client: str, name: str = "") -> tuple[Session, int] | None:
        """The modern-era session of a client; a client that fell back to a handshake begins a new one."""
        remembered = self._by_client.get((client, "modern", name))
        return None if remembered is None or remembered[0].epoch > 0 else remembered

    def _last_of(self, client: str) -> tuple[Session, int] | None:
        """The session of a client of either era: the one with the latest message."""
        both = (self._by_client.get((client, "handshake", "")), self._modern(client))
        return max((known for known in both if known is not None), key=lambda known: known[1], default=None)

    def session_of_exchange(self, http: HttpExchange) -> Session | None:
        """Returns the session of an exchange, with or without messages, or None if unknown."""
        key = http.fields.get("mcp-session-id")
        if http.session is not None or key:
            return http.session or self._by_key.get(key or "")
        remembered = self._last_of(http.client)
        return remembered[0] if remembered is not None else None

    def on_exchange(self, http: HttpExchange, t_ns: int) -> None:
        """Process new facts about an exchange: its response may assign the key of its session."""
        opened = http.session
        key = http.answer_fields.get("mcp-session-id")
        if key and opened is not None and key not in self._by_key:
            self._by_key.put(key, opened)
            self._by_client.pop((http.client, "handshake", ""), None)
            self._lookalikes.on_session_id(opened, http)
        elif opened is not None and not key and http.is_opening and http.status is not None and http.status < 300:
            self._lookalikes.on_initialize_without_id(opened, http)
        if http.uri_key and http.method == "GET" and (opened is None or http.uri_key not in self._by_key):
            # Each stream is a separate session; some servers announce the same address on all of them.
            session = opened or self._new(t_ns, observed_start=self.observed_start)
            session.delimited, session.is_legacy = "session", True
            self._by_key.put(http.uri_key, session)
            http.session = session

    def _new(self, t_ns: int, *, observed_start: bool) -> Session:
        self.count += 1
        session = Session(self.count, self.transport, t_ns)
        session.observed_start = observed_start
        session.lost_seq = 0 if self._has_lost else -1
        self._sessions.put(session.number, session)
        self.stir(session)
        return session


def _is_refused(probe: HttpExchange, session: Session) -> bool:
    """Whether a session holds only requests that an older-era server has refused or not answered."""
    is_over = probe.over is not None or probe.settled is not None or (probe.status or 0) >= 300
    return is_over and session.state == "new" and session.eras == {"modern"} and not session.server_is_modern


def _name(message: Message) -> str:
    """Returns the name that a client gives in a request of the modern era, or an empty string if it gives none."""
    info = message.meta.get(CLIENT_INFO) if isinstance(message, Request) else None
    parts = (info.get("name"), info.get("version")) if isinstance(info, dict) else ()
    return "\n".join(part[:_MAX_CLIENT_INFO_CHARS] for part in parts if isinstance(part, str))
