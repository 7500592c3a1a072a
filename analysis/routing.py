"""Which session a message belongs to.

On stdio there is one. Over HTTP it is that of the session id; without one that of the `initialize` that the same
client sent last; on the older transport that of the stream whose announced address the client posts to; and in the
modern era, which has no sessions, that of the client as far as it can be told: by where it asks from, and by the name
that it gives itself in each request. A guess, and called one.
"""

from collections import OrderedDict
from typing import Final, TypeAlias, TypeVar

from analysis.exchange import RequestTable
from analysis.http import VERSION_FIELD, HttpExchange
from analysis.message import Message, Request, Side
from analysis.revisions import MODERN, Era, rank_of
from analysis.session import CLIENT_INFO, Session
from analysis.threads import Threads

K = TypeVar("K")
V = TypeVar("V")

KEPT: Final = 10_000
"""Sessions that are remembered; the oldest are forgotten first."""
_LONGEST: Final = 200
"""Characters of a name or a version that tell clients apart."""
_Who: TypeAlias = tuple[str, Era, str]
"""Address, credentials and program; the era; and in the modern one the name that the client gives itself, or none."""
IDLE_NS: Final = 30 * 60 * 1_000_000_000
"""After which silence an inferred peer counts as another one."""


class Routing:
    """The sessions of a capture."""

    def __init__(self, tables: dict[Side, RequestTable], threads: Threads) -> None:
        self.count = 0
        """Sessions so far."""
        self.transport: str | None = None
        self.observed_start = False
        self._tables, self._threads = tables, threads
        self._only: Session | None = None
        self._has_lost = False
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._by_key: OrderedDict[str, Session] = OrderedDict()
        self._by_client: OrderedDict[_Who, tuple[Session, int]] = OrderedDict()

    def open(self) -> list[Session]:
        """The sessions that are remembered, in the order in which they began."""
        return list(self._sessions.values())

    def lose(self) -> None:
        """Records are lost: nothing is certain about the beginning of what comes."""
        self.observed_start = False
        self._has_lost = True

    def begin(self, t_ns: int) -> Session:
        """The one session of a pipe, which is there before a word is said."""
        if self._only is None:
            self._only = self._new(t_ns, observed_start=self.observed_start)
        return self._only

    def session_of(self, message: Message, http: HttpExchange | None, *, is_modern: bool) -> Session:
        """The session of a message; a new one where it opens one.

        Args:
            message: what was said.
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
        for known in (key, http.uri_key):
            # Every POST has the key of its URI; only one that a stream has announced is of a session.
            if known and known in self._by_key and not is_modern:
                return self._by_key[known]
        is_opening = isinstance(message, Request) and message.method == "initialize"
        remembered = self._remembered(message, http, is_modern=is_modern)
        if is_opening or remembered is None or message.t_ns - remembered[1] > IDLE_NS:
            # Without a session id, a server may have been spoken to before the recording began.
            made = self._new(message.t_ns, observed_start=(is_opening or is_modern) and self.observed_start)
            made.delimited = "session" if is_opening or key else "peer"
            if key and not is_modern:
                _keep(self._by_key, key, made)
        else:
            made = remembered[0]
        if is_modern:
            # Who leaves its name out once is the one who gave it.
            for name in {_name(message), ""}:
                _keep(self._by_client, (http.client, "modern", name), (made, message.t_ns))
        elif not key:
            _keep(self._by_client, (http.client, "handshake", ""), (made, message.t_ns))
        return made

    def _remembered(self, message: Message, http: HttpExchange, *, is_modern: bool) -> tuple[Session, int] | None:
        """The session of whoever sends a message without a session id, and when it was heard last."""
        if is_modern:
            return self._by_client.get((http.client, "modern", _name(message)))
        if (rank_of(http.fields.get(VERSION_FIELD)) or 0) >= MODERN:
            return self._by_client.get((http.client, "modern", ""))
        handshake = self._by_client.get((http.client, "handshake", ""))
        return handshake or self._by_client.get((http.client, "modern", ""))

    def _last_of(self, client: str) -> tuple[Session, int] | None:
        """The session of a client of either era: the one of which it was heard last."""
        eras: tuple[Era, Era] = ("handshake", "modern")
        found = [known for era in eras if (known := self._by_client.get((client, era, ""))) is not None]
        return max(found, key=lambda known: known[1], default=None)

    def of(self, http: HttpExchange) -> Session | None:
        """The session of an exchange, whether anything was said in it or not; None where that is not known."""
        key = http.fields.get("mcp-session-id")
        if http.session is not None or key:
            return http.session or self._by_key.get(key or "")
        remembered = self._last_of(http.client)
        return remembered[0] if remembered is not None else None

    def note(self, http: HttpExchange, t_ns: int) -> None:
        """An exchange tells more: its response may give out the key of its session."""
        opened = http.session
        key = http.answer_fields.get("mcp-session-id")
        if key and opened is not None and key not in self._by_key:
            _keep(self._by_key, key, opened)
            self._by_client.pop((http.client, "handshake", ""), None)
        if http.uri_key and http.method == "GET" and (opened is None or http.uri_key not in self._by_key):
            # Each stream is a session of its own; some servers announce the same address on all of them.
            made = opened or self._new(t_ns, observed_start=self.observed_start)
            made.delimited = "session"
            _keep(self._by_key, http.uri_key, made)
            http.session = made

    def _new(self, t_ns: int, *, observed_start: bool) -> Session:
        self.count += 1
        made = Session(self.count, self.transport, self._tables, t_ns, self._threads)
        made.observed_start = observed_start
        made.lost_seq = 0 if self._has_lost else -1
        _keep(self._sessions, made.number, made)
        return made


def _name(message: Message) -> str:
    """The name that a client gives itself in a request of the modern era; empty where it gives none."""
    info = message.meta.get(CLIENT_INFO) if isinstance(message, Request) else None
    told = (info.get("name"), info.get("version")) if isinstance(info, dict) else ()
    return "\n".join(one[:_LONGEST] for one in told if isinstance(one, str))


def _keep(table: "OrderedDict[K, V]", key: K, value: V) -> None:
    table[key] = value
    if len(table) > KEPT:
        table.popitem(last=False)
