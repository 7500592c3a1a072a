"""Finds the requests that a response can answer: by id alone on stdio, by exchange and session over HTTP.

Over HTTP many clients share a capture, and all of them number requests from 1. A response in the exchange of its
request answers that request. Others legitimately cross exchanges: a client answers a server's request by a separate
POST, the legacy transport answers everything on one stream, and a resumed stream delivers what an earlier one lost.
This module looks for their requests among the exchanges of the same session, which have the same `Mcp-Session-Id` or,
on the legacy transport, the same announced address. A wrong link is worse than none: if neither is known, a server's
response matches nothing outside its exchange, and a client's response matches only an open request with that id.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.message import Id, Side
from captures.frame import Frame
from captures.heads import Head

MAX_ADDRESSING_ENTRIES: Final = 50_000
"""The most exchanges, and the most ids of a session, that are kept; the oldest are forgotten first."""


class RequestKey(Struct, frozen=True, gc=False):
    """The key by which a response finds its request."""

    exchange: int | None
    """The exchange that carried the request; None on stdio."""
    id: Id


class Addressing:
    """Learns from exchanges and requests which requests a response can answer."""

    def __init__(self) -> None:
        self._sessions: BoundedDict[int, str] = BoundedDict(MAX_ADDRESSING_ENTRIES)
        self._exchanges_by_request: BoundedDict[tuple[Side, str, Id], tuple[int, ...]] = BoundedDict(
            MAX_ADDRESSING_ENTRIES
        )
        self._client_requests: BoundedDict[int, tuple[RequestKey, ...] | list[RequestKey]] = BoundedDict(
            MAX_ADDRESSING_ENTRIES
        )
        self._original_exchanges: BoundedDict[int, int] = BoundedDict(MAX_ADDRESSING_ENTRIES)

    def on_exchange(self, members: dict[str, Any]) -> None:
        """Process an `exchange` record, which may name the session of its exchange."""
        number = members.get("exchange")
        if type(number) is not int:
            return
        session = _session(members.get("response")) or _session(members.get("request"))
        if session is None and number not in self._sessions:
            session = members.get("uri_key")
        if isinstance(session, str) and self._sessions.get(number) != session:
            self._sessions.put(number, session)

    def add_request(self, side: Side, frame: Frame, id_: Id) -> RequestKey:
        """Record a request in a frame; return its key."""
        number = frame.exchange
        key = RequestKey(number, id_)
        if number is not None:
            name = side, self._sessions.get(number, ""), id_
            numbers = self._exchanges_by_request.get(name)
            if numbers is None:
                self._exchanges_by_request.put(name, (number,))
            else:
                self._exchanges_by_request[name] = *numbers[-7:], number
            if side == "client":
                carried_keys = self._client_requests.get(number)
                if carried_keys is None:
                    self._client_requests.put(number, (key,))
                elif isinstance(carried_keys, list):
                    carried_keys.append(key)
                else:
                    self._client_requests[number] = [*carried_keys, key]
        return key

    def note_repeat(self, exchange: int, earlier: int) -> None:
        """Note that an exchange repeats the requests of an earlier one, which was redirected."""
        self._original_exchanges.put(exchange, self._original_exchanges.get(earlier, earlier))
        self._client_requests.put(exchange, self._client_requests.get(earlier, ()))

    def original_exchange(self, exchange: int | None) -> int | None:
        """Returns the exchange that first carried the requests of an exchange: itself, unless it repeats them."""
        return exchange if exchange is None else self._original_exchanges.get(exchange, exchange)

    def requests_in(self, exchange: int | None) -> Sequence[RequestKey]:
        """Returns the keys of the client's requests that an exchange carried; not a copy, as a batch may have many."""
        return () if exchange is None else self._client_requests.get(exchange, ())

    def session_of(self, exchange: int) -> str:
        """Returns the name of the session of an exchange, or an empty string if that is unknown."""
        return self._sessions.get(exchange, "")

    def request_count(self, session: str) -> int:
        """Returns the number of ids that requests used in the exchanges of the session with this name."""
        return sum(name == session for _, name, _ in self._exchanges_by_request)

    def is_of_session(self, exchange: int) -> bool:
        """Whether an exchange belongs to a session: its responses may then still come on another stream."""
        return exchange in self._sessions

    def own_key(self, exchange: int, id_: Id) -> RequestKey:
        """Returns the key of the request with this id in the exchange itself."""
        carried_keys = self.requests_in(exchange)
        # Usually the request is the only one in its exchange. The key is shared then, as the tables keep many.
        if len(carried_keys) == 1 and carried_keys[0].id == id_:
            return carried_keys[0]
        return RequestKey(self.original_exchange(exchange), id_)

    def keys_elsewhere(self, side: Side, exchange: int, id_: Id) -> Iterator[RequestKey]:
        """Yields the keys of the requests of `side`, in any exchange, that a response in this exchange can answer."""
        session = self._sessions.get(exchange, "")
        if session or side == "server":
            # The first response names the session, so requests sent before it are stored without a name.
            for number in self._exchanges_by_request.get((side, session, id_), ()):
                yield RequestKey(number, id_)


def _session(head: object) -> str | None:
    """Returns the hash of the session id in the head of a request or response."""
    if type(head) is not Head:
        head = Head(head) if isinstance(head, dict) else None
    return None if head is None else head.session
