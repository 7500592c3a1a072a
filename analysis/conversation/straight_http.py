"""The straight way of a plain message over HTTP; what `analysis.conversation.straight` is for a pipe.

`Fold` has found the exchange and the session of the message already, and goes on alike for every message once its
meaning is known. In between, what could be odd about the messages of a session was decided when something last changed
it (`prepare`); what is left is what the exchange and the id of each say.
"""

from typing import Any

from analysis.conversation.addressing import Addressing
from analysis.conversation.call import Call
from analysis.conversation.call_table import CallTable
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.links import Links
from analysis.conversation.message import Notification, Request, Response, Side
from analysis.conversation.pairing import Pairing
from analysis.conversation.session import CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO, Seen, Session, State, era_in_force
from analysis.conversation.straight import ENVELOPE, MOVES, UNUSUAL, is_settled
from analysis.conversation.under_way import PROGRESS, UnderWay
from analysis.protocol.revisions import Era, rank_of


class StraightHttp:
    """Takes plain messages of one session over HTTP, until it is prepared for another."""

    def __init__(
        self,
        tables: dict[Side, CallTable],
        under_way: UnderWay,
        links: Links,
        addressing: Addressing,
        pairing: Pairing,
    ) -> None:
        """Take none yet.

        Args:
            tables: the requests, by the side that sent them.
            under_way: the calls under way.
            links: must be idle, else any message may belong to one.
            addressing: which exchange carried them.
            pairing: finds the request of a response.
        """
        self._tables, self._under_way, self._links = tables, under_way, links
        self._addressing, self._pairing = addressing, pairing
        self.is_open = False
        """Whether plain messages may be taken."""
        self.session: Session | None = None
        """The session that it is prepared for."""
        self._state: State = "new"
        self._revision: str | None = None
        """Revision and era of the client's requests."""
        self._era: Era | None = None
        self._around: tuple[str | None, Era | None] = None, None
        """The same of what is no request of the client, and no response."""
        self._ranks: dict[Side, int | None] = {}
        """The ranks of both revisions."""
        self._client: object = None
        """How the client identified itself last in a request, and the server in a result."""
        self._server: object = None

    def prepare(self, session: Session) -> None:
        """Find out whether plain messages of a session may be taken, after anything but such a message."""
        self.session, self._state = session, session.state
        self.is_open = self._links.is_idle and session.is_http and session.lost_seq < 0 and is_settled(session)
        in_force = session.in_force
        if session.is_modern:
            self._revision, self._era = session.asked, "modern"
            self._around = in_force, era_in_force(session, None)
        else:
            self._revision, self._era = session.handshake, "handshake"
            self._around = in_force, era_in_force(session, in_force)
        self._ranks = {"client": rank_of(self._revision), "server": rank_of(in_force)}
        self._client, self._server = session.introduced.get("client"), session.introduced.get("server")

    def take(self, message: Request | Notification | Response, http: HttpExchange) -> Seen | None:
        """The message with its meaning; None if it is not plain, and nothing has changed.

        Args:
            message: a flawless one of the session.
            http: the exchange that carried it.
        """
        if isinstance(message, Response):
            return self._response(message, http)
        if message.method in MOVES:
            return None
        if isinstance(message, Notification):
            return self._notification(message, http) if self._is_in_force(http) else None
        if message.sender == "client":
            return self._request(message, http) if self._is_as_before(message, http) else None
        return self._request(message, http) if self._is_in_force(http) else None

    def _is_as_before(self, request: Request, http: HttpExchange) -> bool:
        """Whether a request of the client declares what those before it did."""
        named = request.meta.get(PROTOCOL_VERSION)
        if self._era == "modern":
            return named == self._revision and request.meta.get(CLIENT_INFO) == self._client
        return PROTOCOL_VERSION not in request.meta and http.fields.get(VERSION_FIELD, self._revision) == self._revision

    def _is_in_force(self, http: HttpExchange) -> bool:
        """Whether what is in force in the session is in an exchange, too: the request in it may say otherwise."""
        for key in self._addressing.asked_in(http.number)[:1]:
            call = self._tables["client"].get(key)
            return call is None or call.era != "modern" or (call.revision, call.era) == self._around
        return True

    def _request(self, request: Request, http: HttpExchange) -> Seen | None:
        session, side = self.session, request.sender
        assert session is not None
        used = session.number, side, request.id
        if used in session.used:
            return None
        revision, era = (self._revision, self._era) if side == "client" else self._around
        key = self._addressing.request(side, request.frames[0], request.id)
        session.used.keep(used, (request.seq, request.frames[0].conn, key))
        session.last_request[side] = request.seq
        call = Call(request, revision, era, http, session, self._under_way.count)
        state = self._tables[side].open(call, key)
        self._under_way.begin(call)
        return Seen(
            request,
            session,
            request.body,
            call,
            None,
            state,
            revision,
            self._ranks[side],
            state=self._state,
            era=era,
            http=http,
            request=request,
        )

    def _response(self, response: Response, http: HttpExchange) -> Seen | None:
        session, side, body = self.session, response.sender, response.body
        requester: Side = "server" if side == "client" else "client"
        result: Any = body.get("result")
        if result is None or len(body) > ENVELOPE or response.id is None or http.over is not None:
            return None
        table, key = self._tables[requester], self._pairing.find(requester, response.frames[0], response.id)
        call = None if key is None else table.get(key)
        if (
            session is None
            or key is None
            or call is None
            or call.cancellation is not None
            or call.session is not session
            or call.broken is not None
            or call.request.method in MOVES
            or not UNUSUAL.isdisjoint(result)
            or result.get("resultType", "complete") != "complete"
        ):
            return None
        if side == "server" and (
            call.revision != self._revision or call.era != self._era or response.meta.get(SERVER_INFO) != self._server
        ):
            return None
        state = call.id_state
        table.answer(key, response.t_ns)
        if call.request.seq > session.received[side]:
            session.received[side] = call.request.seq
        self._under_way.end(call)
        call.answer(response)
        return Seen(
            response,
            session,
            body,
            call,
            call,
            state,
            call.revision,
            rank_of(call.revision),
            state=self._state,
            era=call.era,
            http=http,
            request=call.request,
        )

    def _notification(self, notification: Notification, http: HttpExchange) -> Seen | None:
        session, (revision, era) = self.session, self._around
        if session is None:
            return None
        if notification.method in PROGRESS:
            self._under_way.progress(notification, session)
        rank = self._ranks["server"]
        return Seen(
            notification,
            session,
            notification.body,
            revision=revision,
            rank=rank,
            state=self._state,
            era=era,
            http=http,
        )
