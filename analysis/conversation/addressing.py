"""Which request an answer can mean: by its id alone on stdio, by exchange and session over HTTP.

Over HTTP many clients share a capture, and all of them count from 1. An answer that comes in the exchange of its
request means that one. Others cross exchanges by right: a client answers a server's request by a POST of its own, the
legacy transport answers everything on one stream, and a resumed stream brings what an earlier one lost. Those are
looked for among the exchanges of the same session: the one with the same `Mcp-Session-Id`, or, on the legacy transport,
with the same announced address. A wrong link is worse than none: where neither tells, an answer of the server means
nothing outside its exchange, and one of the client only a request of that id that is open.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from analysis.conversation.limited import Limited
from analysis.conversation.message import Id, Side
from captures.frame import Frame

KEPT: Final = 50_000
"""Exchanges, and ids of a session, that are remembered; the oldest are forgotten first."""
_SESSION: Final = "mcp-session-id"


class Key(NamedTuple):
    """A request as its answer finds it."""

    exchange: int | None
    """The exchange that carried it; None on stdio."""
    id: Id


class Addressing:
    """Learns from exchanges and requests what answers can mean."""

    def __init__(self) -> None:
        self._sessions: Limited[int, str] = Limited(KEPT)
        self._asked: Limited[tuple[Side, str, Id], list[int]] = Limited(KEPT)
        self._of_client: Limited[int, list[Key]] = Limited(KEPT)

    def note(self, members: dict[str, Any]) -> None:
        """An `exchange` record: perhaps it tells of which session it is."""
        number = members.get("exchange")
        if type(number) is not int:
            return
        session = _session(members.get("response")) or _session(members.get("request"))
        if session is None and number not in self._sessions:
            session = members.get("uri_key")
        if isinstance(session, str) and self._sessions.get(number) != session:
            self._sessions.keep(number, session)

    def request(self, side: Side, frame: Frame, id_: Id) -> Key:
        """The key of a request that a frame holds."""
        number = frame.exchange
        if number is not None:
            name = side, self._sessions.get(number, ""), id_
            asked = self._asked.get(name)
            if asked is None:
                self._asked.keep(name, [number])
            else:
                asked.append(number)
                del asked[:-8]
            if side == "client":
                carried = self._of_client.get(number)
                if carried is None:
                    self._of_client.keep(number, [Key(number, id_)])
                else:
                    carried.append(Key(number, id_))
        return tuple.__new__(Key, (number, id_))  # half the time of the named tuple's own

    def asked_in(self, exchange: int | None) -> Sequence[Key]:
        """The keys of the client's requests that an exchange carried; many in a batch, so it is no copy."""
        return () if exchange is None else self._of_client.get(exchange, ())

    def is_of_session(self, exchange: int) -> bool:
        """Whether an exchange belongs to a session, so that its answers may still come on another stream."""
        return exchange in self._sessions

    def answer(self, side: Side, frame: Frame, id_: Id) -> Iterator[Key]:
        """The keys of the requests of `side` that an answer to `id_` in a frame can mean, the likeliest first."""
        number = frame.exchange
        yield Key(number, id_)
        if number is None:
            return
        session = self._sessions.get(number, "")
        if session or side == "server":
            # What was asked before its session had a name stands under none: the first answer brings the name.
            for other in (*self._asked.get((side, session, id_), ()),):
                yield Key(other, id_)


def _session(part: object) -> str | None:
    """The hash of the session id in the header list of a request or response."""
    headers = part.get("headers") if isinstance(part, dict) else None
    for pair in headers if isinstance(headers, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and pair[0].lower() == _SESSION:
            return pair[1] if isinstance(pair[1], str) else None
    return None
