"""The HTTP exchanges behind the opening: the proof that what they carry belongs to the one session.

Every record of an exchange is looked at, in order with the frames, and each must leave the session as it was: exchanges
that carry frames name its id, none is resumed, none goes on behind its end. Tables of the fold forget the oldest of
very many; whatever could depend on that is a doubt.
"""

from array import array
from typing import Any, Final

from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.protocol.revisions import MODERN, rank_of
from analysis.store.plain.doubt import Doubt
from analysis.store.values import LARGEST
from captures.record import Record

MOST_OPEN: Final = 10_000
"""Exchanges that are open at once; the fold forgets some of half as many again."""
LATE: Final = 40_000
"""Exchanges that begin while one is open; behind a quarter more, the fold may have forgotten its session."""
MOST_LATE: Final = 10_000
"""Frames in such exchanges."""
MOST_MISSING: Final = 10_000
"""Numbers that were left out so far: exchanges need not be recorded in the order in which they began."""

_Head = tuple[str, str | None, str | None]
"""Method, session id and revision, as a request's head has them."""


class _Open:
    """An exchange that has not ended."""

    __slots__ = ("has_address", "has_frames", "has_sent", "head", "is_ours", "order")

    def __init__(self, order: int) -> None:
        self.order = order
        """How many began before it."""
        self.head: _Head | None = None
        self.is_ours = False
        """Whether frames in it belong to the session."""
        self.has_frames = False
        self.has_sent = False
        """Whether it has a frame of the client."""
        self.has_address = False
        """Whether it names an address of the older transport, or where it was POSTed."""


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
        keys = fold.routing.keys_of(session)
        if len(keys) != 1 or session.is_legacy or fold.exchanges.has_legacy:
            raise Doubt("no session id, several, or the older transport")
        if session.handshake is None:
            raise Doubt("a handshake without a revision")
        (self._key,) = keys
        if fold.addressing.has_asked(self._key):
            raise Doubt("requests before the end of the handshake")
        self.firsts = array("Q")
        """The first frame of each exchange that has any: the numbers of the frame and of the exchange."""
        self.failed: list[tuple[int, int, bool]] = []
        """Exchanges that ended without success: number, number of the record, and whether a status says so."""
        self.late: list[int] = []
        """Frames in exchanges that are open for so long that the fold may have forgotten their session."""
        self._open: dict[int, _Open] = {}
        self._count = self._highest = 0
        self._missing: set[int] = set()
        for http in fold.exchanges.kept():
            state = self._begun(http.number)
            self._known(state, http, fold, session)
            if http.ended_by is not None:
                del self._open[http.number]

    def _known(self, state: _Open, http: HttpExchange, fold: Fold, session: Session) -> None:
        """Take over what the fold knows about an exchange."""
        state.head = http.method, http.fields.get(FIELD), http.fields.get(VERSION_FIELD)
        is_named = fold.addressing.session_of(http.number) == self._key
        state.is_ours = is_named and (http.session is session or self._is_ours(state.head))
        state.has_frames, state.has_sent = http.session is not None, bool(http.sent)
        state.has_address = bool(http.uri_key)

    def _is_ours(self, head: _Head) -> bool:
        _, id_, version = head
        return id_ == self._key and (rank_of(version) or 0) < MODERN

    def carry(self, seq: int, number: int, *, by_client: bool) -> None:
        """Take a frame.

        Raises:
            Doubt: it does not surely belong to the session.
        """
        state = self._open.get(number)
        if state is None or not state.is_ours:
            raise Doubt("a frame of another session, or outside of an exchange")
        if by_client:
            if state.has_sent:
                raise Doubt("several bodies of a client in one exchange")
            state.has_sent = True
        if not state.has_frames:
            state.has_frames = True
            self.firsts.extend((seq, number))
        if self._count - state.order > LATE:
            self.late.append(seq)
            if len(self.late) > MOST_LATE:
                raise Doubt("many frames in an exchange that is very old")

    def take(self, record: Record) -> None:
        """Take an `exchange` or `stream` record.

        Raises:
            Doubt: something about it needs the fold.
        """
        members = record.members
        number = members.get("exchange")
        if type(number) is not int or not 0 < number <= LARGEST:
            raise Doubt("a record of no exchange")
        if record.rec == "stream":
            if number not in self._open:
                raise Doubt("a stream outside of an exchange")
            if members.get("event") == "opened" and members.get("last_event_id") is not None:
                raise Doubt("a resumed stream")
            return
        state = self._open.get(number) or self._begun(number)
        request, response = members.get("request"), members.get("response")
        if isinstance(request, dict):
            self._ask(state, request)
        if isinstance(response, dict) and _only(response.get("headers"), FIELD)[0] not in (None, self._key):
            raise Doubt("another session id")
        if members.get("uri_key"):
            state.has_address = True
        if state.has_address and (state.head is None or state.head[0] == "GET"):
            raise Doubt("the older transport")
        if members.get("stage") == "end":
            self._end(number, state, response, record)

    def _begun(self, number: int) -> _Open:
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
        state = self._open[number] = _Open(self._count)
        self._count += 1
        if len(self._open) > MOST_OPEN or len(self._missing) > MOST_MISSING:
            raise Doubt("many open exchanges, or missing ones")
        return state

    def _ask(self, state: _Open, request: dict[str, Any]) -> None:
        method = request.get("method")
        id_, version = _only(request.get("headers"), FIELD, VERSION_FIELD)
        head = method if isinstance(method, str) else "", id_, version
        if state.head is None:
            state.head, state.is_ours = head, self._is_ours(head)
        elif state.head != head:
            raise Doubt("an exchange that changes")

    def _end(self, number: int, state: _Open, response: object, record: Record) -> None:
        del self._open[number]
        status = response.get("status") if isinstance(response, dict) else None
        is_refused = type(status) is int and status >= 300
        is_failed = is_refused or type(status) is not int
        if not state.has_sent or (not is_failed and record.members.get("ended_by") == "complete"):
            return
        if self._count - state.order > LATE:
            raise Doubt("an exchange that fails very late")
        if is_failed:
            self.failed.append((number, record.seq, is_refused))


def _only(headers: object, *names: str) -> tuple[str | None, ...]:
    """The values of header fields that come once at most.

    Raises:
        Doubt: one comes twice, or the headers are no pairs of texts.
    """
    found: dict[str, str] = {}
    for pair in headers if isinstance(headers, list) else ():
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], str):
            raise Doubt("headers of another shape")
        name = pair[0].lower()
        if name in names:
            if name in found:
                raise Doubt("a header twice")
            found[name] = pair[1]
    return tuple([found.get(name) for name in names])
