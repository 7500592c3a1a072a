"""The HTTP exchanges behind the opening: the proof that what they carry belongs to the one session, and their rows.

Every record of an exchange is looked at, in order with the frames, and each must leave the session as it was: exchanges
that carry frames name its id, none is resumed, none goes on behind its end. Tables of the fold forget the oldest of
very many; whatever could depend on that is a doubt.

The last record of an exchange usually says all that there is in its row, which then is kept as a few numbers. The
records of all others are taken by the fold, later.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import REDIRECTS, STREAM, VERSION_FIELD, WITHOUT_BODY, HttpExchange, media_of
from analysis.conversation.routing import IDLE_NS
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.protocol.revisions import MODERN, rank_of
from analysis.store.plain.doubt import Doubt
from analysis.store.plain.exchange_rows import Rows
from analysis.store.plain.heads import Heads
from analysis.store.table_rows import MOST_HTTP
from analysis.store.values import LARGEST, integer

MOST_OPEN: Final = 10_000
"""Exchanges that are open at once; the fold forgets some of half as many again."""
LATE: Final = 40_000
"""Exchanges that begin while one is open; behind a quarter more, the fold may have forgotten its session."""
MOST_LATE: Final = 10_000
"""Frames in such exchanges."""
MOST_MISSING: Final = 10_000
"""Numbers that were left out so far: exchanges need not be recorded in the order in which they began."""
MOST_LEFT: Final = 10_000
"""Exchanges that are left to the fold."""
MOST_POINTS: Final = 100_000
"""What happens to them apart from their records."""
MOST_FAILED: Final = 50_000
"""Exchanges that ended without success."""
MOST_RECORDS: Final = 1_000
"""Records of one exchange."""
LONGEST: Final = 8 << 10
"""Bytes of a record of which something is kept."""
LONGEST_OF_ALL: Final = 256 << 10
"""Bytes of any record of an exchange."""

_Head = tuple[str, str | None, str | None, str]
"""Method, session id and revision, as a request's head has them; the client, if there is no session id."""


class Open:
    """An exchange that has not ended."""

    __slots__ = (
        *(
            "answer_id",
            "events",
            "first",
            "address",
            "has_received",
            "has_sent",
            "has_size",
            "head",
            "is_held",
            "is_odd",
        ),
        *("is_ours", "is_stream", "kind", "name", "offsets", "peer", "order", "request", "response", "times"),
    )

    def __init__(self, order: int) -> None:
        self.order = order
        """How many began before it."""
        self.head: _Head | None = None
        self.is_ours = False
        """Whether frames in it belong to the session."""
        self.first: int | None = None
        """Its first frame."""
        self.has_size = False
        """Whether a record has told the size of the request."""
        self.has_sent = False
        """Whether it has a frame of the client."""
        self.has_received = False
        """Whether it has a frame of the server."""
        self.name: str | None = None
        """What names its session: the session id, or the address."""
        self.address: str | None = None
        """A hash of where it was POSTed, or of an address of the older transport."""
        self.peer: str | None = None
        """Where its client is."""
        self.request: dict[str, Any] | None = None
        """Its request and response, as a record had them last."""
        self.response: dict[str, Any] | None = None
        self.answer_id: str | None = None
        """Session id and content type of the response."""
        self.kind: str | None = None
        self.times: dict[str, Any] = {}
        """The times in its last record."""
        self.is_stream = False
        self.events = 0
        self.is_held = True
        """Whether the fold's loader still holds its row back, as it does for a limited number."""
        self.is_odd = False
        """Whether its row needs more than its last record."""
        self.offsets: list[int] = []
        """Where its records are."""


class Point(NamedTuple):
    """What happens to an exchange that is left to the fold, apart from its records."""

    seq: int
    """Before the record with this number."""
    exchange: int
    is_frame: bool
    """Whether it gets its first frame; otherwise its row is written as it is."""


class Exchanges:
    """What is known about exchanges so far."""

    def __init__(self, fold: Fold, session: Session) -> None:
        """Go on where the opening ends.

        Args:
            fold: has taken the opening.
            session: the only session.

        Raises:
            Doubt: only the fold understands what follows.
        """
        keys, client = fold.routing.keys_of(session), fold.routing.client_of(session)
        if session.is_legacy or fold.exchanges.has_legacy or len(keys) > 1:
            raise Doubt("the older transport or several session ids")
        if session.handshake is None or session.initialize is None:
            raise Doubt("a handshake without a revision")
        self._key = keys[0] if keys else None
        if self._key is None and client is None:
            raise Doubt("no session id and no certain client")
        self._client, self._last_ns = client or ("", 0)
        """Without a session id: the only client, and when the last exchange with a message of its began."""
        opening = fold.addressing.session_of(session.initialize.frames[0].exchange or 0)
        self._name = self._key or opening
        """What names the session for the search of a request that a message in another exchange means."""
        if fold.addressing.asked(self._name) > (self._name == opening and self._key is None):
            raise Doubt("requests before the end of the handshake")
        self.used = None if self._key is not None else session.initialize.id
        """The id that was used under that name already."""
        self.failed: list[tuple[int, int, bool]] = []
        """Exchanges that ended without success: number, number of the record, and whether a status says so."""
        self.late: list[int] = []
        """Frames in exchanges that nothing names, or that are open for so long that the fold may have forgotten it."""
        self.unfinished: list[int] = []
        """Those that are open where the capture ends."""
        self.latest_ns = 0
        """The largest stamp of a record."""
        self.left: list[int] = []
        """Where the records are that are left to the fold."""
        self.far = LATE
        """How many ids can be used in between, so that the fold still knows the first."""
        self._points: list[Point] = []
        self._rows, self._heads = Rows(), Heads()
        self._open: dict[int, Open] = {}
        self._held: deque[int] = deque()
        self._count = self._highest = self._left = 0
        self._missing: set[int] = set()
        for http in fold.exchanges.kept():
            begun = http.started or http.answered
            if begun is None or any(seen.message.seq < begun.seq for seen in (*http.sent, *http.received)):
                raise Doubt("an exchange without its beginning")
            self._known(self._begun(http.number, 0), http, fold, session)
            if http.ended_by is not None:
                del self._open[http.number]

    def _known(self, state: Open, http: HttpExchange, fold: Fold, session: Session) -> None:
        """Take over what the fold knows about an exchange."""
        client = http.client if self._key is None else ""
        state.head = http.method, http.fields.get(FIELD), http.fields.get(VERSION_FIELD), client
        state.peer = http.peer
        is_known = http.session is session and (rank_of(state.head[2]) or 0) < MODERN
        state.is_ours = is_known or self._is_ours(state.head)
        state.name = fold.addressing.session_of(http.number) if fold.addressing.is_of_session(http.number) else None
        state.address = http.uri_key
        state.first = None if http.session is None else -1
        state.has_sent, state.has_received = bool(http.sent), bool(http.received)
        state.is_odd = True

    def _is_ours(self, head: _Head) -> bool:
        _, id_, version, client = head
        if (rank_of(version) or 0) >= MODERN:
            return False
        return id_ == self._key if self._key is not None else id_ is None and client == self._client

    # ---- frames and records, in order

    def carry(self, seq: int, t_ns: int, number: int, *, by_client: bool) -> None:
        """Take a frame.

        Args:
            seq: its number.
            t_ns: its stamp.
            number: its exchange.
            by_client: whether the client sent it.

        Raises:
            Doubt: it does not surely belong to the session.
        """
        state = self._open.get(number)
        if state is None or not state.is_ours:
            raise Doubt("a frame of another session or of no exchange")
        if by_client:
            if state.has_sent:
                raise Doubt("several bodies of a client in one exchange")
            state.has_sent = True
        else:
            state.has_received = True
        if state.first is None:
            state.first = seq
            if t_ns - self._last_ns > IDLE_NS and self._key is None:
                raise Doubt("a long silence of a client without a session id")
            self._last_ns = t_ns
        if state.name != self._name or self._count - state.order > LATE:
            self.late.append(seq)
            if len(self.late) > MOST_LATE:
                raise Doubt("many frames in exchanges that are old or have no name")

    def take(self, seq: int, rec: str, t_ns: int, members: dict[str, Any], offset: int, size: int) -> None:
        """Take an `exchange` or `stream` record.

        Args:
            seq: its number.
            rec: its type.
            t_ns: its stamp.
            members: all that it says.
            offset: where it is.
            size: its bytes.

        Raises:
            Doubt: something about it needs the fold.
        """
        number = members.get("exchange")
        if type(number) is not int or not 0 < number <= LARGEST or size > LONGEST_OF_ALL:
            raise Doubt("a record of no exchange or a giant one")
        if t_ns > self.latest_ns:
            self.latest_ns = t_ns
        state = self._open.get(number)
        if state is None:
            if rec == "stream":
                raise Doubt("a stream outside of an exchange")
            state = self._begun(number, seq)
        elif not state.is_held:
            state.is_held = True
            self._hold(number, seq)
        state.offsets.append(offset)
        if len(state.offsets) > MOST_RECORDS:
            raise Doubt("very many records of one exchange")
        if rec == "stream":
            self._stream(state, members)
            return
        self._learn(state, members)
        if size > LONGEST:
            state.is_odd, state.request, state.response = True, None, None
        if members.get("stage") == "end":
            self._end(number, state, seq, t_ns, members)
            return
        times = members.get("times")
        state.has_size |= "request_size" in members
        if type(times) is not dict or not state.times.keys() <= times.keys() or "response_size" in members:
            state.is_odd = True
        else:
            state.times = times

    def _learn(self, state: Open, members: dict[str, Any]) -> None:
        """Take what a record says about an exchange as a whole, and compare it with what others said."""
        request, response = members.get("request"), members.get("response")
        if members.get("peer", state.peer) != state.peer:
            self._come(state, members["peer"])
        if isinstance(request, dict) and request != state.request:
            self._ask(state, request)
        if isinstance(response, dict) and response != state.response:
            self._answer(state, response)
        if members.get("uri_key") != state.address and "uri_key" in members:
            self._address(state, members["uri_key"])
        if state.address is not None and (state.head is None or state.head[0] == "GET"):
            raise Doubt("the older transport")

    @staticmethod
    def _stream(state: Open, members: dict[str, Any]) -> None:
        if members.get("event") == "opened" and members.get("last_event_id") is not None:
            raise Doubt("a resumed stream")
        state.is_stream = True
        state.events = max(state.events, integer(members.get("events")) or 0)

    def _begun(self, number: int, seq: int) -> Open:
        """Enter an exchange, which must be a new one."""
        if number > self._highest:
            if number - self._highest > MOST_MISSING:
                raise Doubt("exchanges that are missing")
            self._missing.update(range(self._highest + 1, number))
            self._highest = number
        elif number in self._missing:
            self._missing.remove(number)
        else:
            raise Doubt("an exchange that goes on behind its end")
        state = self._open[number] = Open(self._count)
        self._count += 1
        if len(self._open) > MOST_OPEN or len(self._missing) > MOST_MISSING:
            raise Doubt("many open exchanges or missing ones")
        self._hold(number, seq)
        return state

    def _hold(self, number: int, seq: int) -> None:
        """Follow which rows are written early because there are many; see `HttpRows`."""
        self._held.append(number)
        if len(self._held) > MOST_HTTP:
            oldest = self._held.popleft()
            state = self._open.get(oldest)
            if state is not None:
                state.is_held, state.is_odd = False, True
                self._add_point(Point(seq, oldest, is_frame=False))

    @staticmethod
    def _come(state: Open, peer: object) -> None:
        if type(peer) is not str or not peer or state.peer is not None or state.head is not None:
            raise Doubt("an exchange that changes")
        state.peer = peer

    @staticmethod
    def _address(state: Open, address: object) -> None:
        if type(address) is not str or not address or state.address is not None:
            raise Doubt("an exchange that changes")
        state.address = address
        state.name = state.name or address

    def _ask(self, state: Open, request: dict[str, Any]) -> None:
        method, client = request.get("method"), ""
        id_, version, _, *who = self._heads.fields(request.get("headers"))
        if self._key is None:
            client = "\n".join(((state.peer or "").rpartition(":")[0], *[one or "" for one in who]))
        head = method if isinstance(method, str) else "", id_, version, client
        if state.head is None:
            state.head, state.is_ours = head, self._is_ours(head)
        elif state.head != head:
            raise Doubt("an exchange that changes")
        state.request = request
        state.name = state.name or id_

    def _answer(self, state: Open, response: dict[str, Any]) -> None:
        id_, _, kind, _, _ = self._heads.fields(response.get("headers"))
        if id_ is not None and id_ != self._key:
            raise Doubt("another session id")
        state.response, state.answer_id, state.kind = response, id_, kind
        state.name = id_ or state.name

    def _end(self, number: int, state: Open, seq: int, t_ns: int, members: dict[str, Any]) -> None:
        del self._open[number]
        hashes = members.get("body_hash")
        if "missing" in members or (hashes is not None and "undecoded" in str(hashes)):
            raise Doubt("a body that is not recorded")
        response = members.get("response")
        status = response.get("status") if isinstance(response, dict) else None
        by = members.get("ended_by")
        is_refused = type(status) is int and status >= 300
        is_failed = is_refused or type(status) is not int or (state.name is None and by != "complete")
        is_whole = by == "complete" and state.has_received
        if state.has_sent and not (
            is_failed or is_whole or status in WITHOUT_BODY or media_of(state.kind or "") == STREAM
        ):
            raise Doubt("a body without a response or a part of one")
        if state.has_sent and status in REDIRECTS:
            raise Doubt("a redirect")
        if state.has_sent and by == "client" and not is_refused:
            raise Doubt("a client that left")
        if state.has_sent and (is_failed or by != "complete"):
            if self._count - state.order > LATE:
                raise Doubt("an exchange that fails very late")
            if is_failed:
                self.failed.append((number, seq, is_refused))
                if len(self.failed) > MOST_FAILED:
                    raise Doubt("many exchanges that fail")
        is_fine = type(status) is int and status < 400 and by in ("complete", "client")
        is_told = not is_fine or "response_text" in members
        if state.is_odd or is_told or not self._rows.take(state, t_ns, members):
            self._leave(number, state)

    def _add_point(self, point: Point) -> None:
        self._points.append(point)
        if len(self._points) > MOST_POINTS:
            raise Doubt("many odd exchanges")

    def _leave(self, number: int, state: Open) -> None:
        """Leave the row of an exchange to the fold."""
        self.left += state.offsets
        self._left += 1
        if self._left > MOST_LEFT:
            raise Doubt("many odd exchanges")
        if state.first is not None and state.first >= 0:
            self._add_point(Point(state.first + 1, number, is_frame=True))

    # ---- what comes of them

    def finish(self) -> None:
        """No more records come."""
        self.unfinished = [*self._open]
        for number, state in self._open.items():
            self._leave(number, state)
        self._open.clear()

    def points(self) -> Iterator[Point]:
        """What happens to the exchanges that are left, in order."""
        return iter(sorted(self._points, key=lambda point: (point.seq, not point.is_frame)))

    def told(self) -> Iterator[dict[str, Any]]:
        """The rows of all others, as the child takes them."""
        return self._rows.told()
