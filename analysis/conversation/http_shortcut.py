"""A shortcut for plain messages over HTTP, as `analysis.conversation.pipe_shortcut` is for a pipe.

`Fold` first finds the exchange and the session of each message, and treats all messages alike once their meaning is
known. In between, this shortcut checks (`prepare`) whether anything about a session could make its messages special,
but only after something else has changed the session. The remaining checks depend on the exchange and the id of each
message.
"""

from typing import Any, Final

from analysis.conversation.addressing import Addressing
from analysis.conversation.call import MessageContext
from analysis.conversation.call_table import CallTable
from analysis.conversation.cancellations import CANCELLATION_METHODS
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.links import METHODS, Links
from analysis.conversation.message import Notification, Request, Response, Side
from analysis.conversation.pairing import Pairing
from analysis.conversation.pipe_shortcut import (
    RESPONSE_MEMBER_COUNT,
    SESSION_METHODS,
    UNKNOWN_TERMS,
    is_settled,
    terms_of,
)
from analysis.conversation.session import CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO, Session, State
from analysis.conversation.under_way import PROGRESS_METHODS, CallsUnderWay
from analysis.conversation.used_ids import UsedIdsInExchanges
from analysis.protocol.revisions import rank_of

_EXCLUDED_METHODS: Final = SESSION_METHODS | METHODS | CANCELLATION_METHODS
"""Methods that change more than their call."""
_UNUSUAL_MEMBERS: Final = frozenset({"task", "supportedVersions"})
"""Members of a result that may affect more than its call."""


class HttpShortcut:
    """Processes plain messages of one session over HTTP, until it is prepared for another."""

    def __init__(
        self,
        tables: dict[Side, CallTable],
        under_way: CallsUnderWay,
        links: Links,
        addressing: Addressing,
        pairing: Pairing,
        used: UsedIdsInExchanges,
    ) -> None:
        """Create a shortcut that accepts no messages until `prepare` allows it.

        Args:
            tables: the requests, by the side that sent them.
            under_way: the calls under way.
            links: multi-round calls, tasks and subscriptions; the shortcut is closed unless they are idle, as otherwise
                any message may be linked to others.
            addressing: which exchange carried each request.
            pairing: finds the request of a response.
            used: the ids that requests have used.
        """
        self._tables, self._under_way, self._links = tables, under_way, links
        self._addressing, self._pairing, self._used_ids = addressing, pairing, used
        self.is_open = False
        """Whether plain messages are accepted."""
        self.session: Session | None = None
        """The session that was prepared last."""
        self._state: State = "new"
        self._request_terms = UNKNOWN_TERMS
        """The terms in force for the client's requests."""
        self._other_terms = UNKNOWN_TERMS
        """The terms in force for all other messages except responses."""
        self._client_info: object = None
        """The last description that the client gave of itself in a request; `_server_info` is the server's in a
        result."""
        self._server_info: object = None

    def prepare(self, session: Session) -> None:
        """Decide whether to accept plain messages of a session; call this after any other message or record."""
        self.session, self._state = session, session.state
        self.is_open = self._links.is_idle and session.is_http and session.lost_seq < 0 and is_settled(session)
        self._request_terms, self._other_terms = terms_of(session)
        self._client_info, self._server_info = session.introduced.get("client"), session.introduced.get("server")

    def try_message(self, message: Request | Notification | Response, http: HttpExchange) -> MessageContext | None:
        """Process a message; return its context, or None (with nothing changed) if it is not plain.

        Args:
            message: a flawless message of the session.
            http: the exchange that carried it.
        """
        if isinstance(message, Response):
            return self._response(message, http)
        if message.method in _EXCLUDED_METHODS:
            return None
        if isinstance(message, Notification):
            return self._notification(message, http) if self._has_same_terms(http) else None
        if message.sender == "client":
            return self._request(message, http) if self._declares_same(message, http) else None
        return self._request(message, http) if self._has_same_terms(http) else None

    def _declares_same(self, request: Request, http: HttpExchange) -> bool:
        """Whether a client's request declares the same as its earlier requests."""
        revision, meta = self._request_terms.revision, request.meta
        if self._request_terms.era == "modern":
            return meta.get(PROTOCOL_VERSION) == revision and meta.get(CLIENT_INFO) == self._client_info
        return PROTOCOL_VERSION not in meta and http.fields.get(VERSION_FIELD, revision) == revision

    def _has_same_terms(self, http: HttpExchange) -> bool:
        """Whether the terms in force in the session also apply in an exchange, whose request may declare others."""
        for key in self._addressing.requests_in(http.number)[:1]:
            call = self._tables["client"].get(key)
            return (
                call is None
                or call.era != "modern"
                or (call.revision, call.era) == (self._other_terms.revision, self._other_terms.era)
            )
        return True

    def _request(self, request: Request, http: HttpExchange) -> MessageContext | None:
        session, side = self.session, request.sender
        assert session is not None
        if self._used_ids.last_use(session.number, side, request.id) is not None:
            return None
        revision, rank, era = self._request_terms if side == "client" else self._other_terms
        key = self._addressing.add_request(side, request.frames[0], request.id)
        self._used_ids.remember(session.number, request, key)
        session.last_request[side] = request.seq
        call, state = self._under_way.begin(request, key, None, revision, era, session, http)
        return MessageContext(
            request,
            session,
            request.body,
            call,
            None,
            state,
            revision,
            rank,
            state=self._state,
            era=era,
            http=http,
            request=request,
        )

    def _response(self, response: Response, http: HttpExchange) -> MessageContext | None:
        session, side, body = self.session, response.sender, response.body
        requester: Side = "server" if side == "client" else "client"
        result: Any = body.get("result")
        if result is None or len(body) > RESPONSE_MEMBER_COUNT or response.id is None or http.end_ref is not None:
            return None
        table, key = self._tables[requester], self._pairing.find(requester, response.frames[0], response.id)
        call = None if key is None else table.get(key)
        if (
            session is None
            or key is None
            or call is None
            or call.cancellation is not None
            or call.session is not session
            or call.exchange_end is not None
            or call.request.method in _EXCLUDED_METHODS
            or not _UNUSUAL_MEMBERS.isdisjoint(result)
            or result.get("resultType", "complete") != "complete"
        ):
            return None
        revision, rank, era = self._request_terms
        if side == "client":
            rank = rank_of(call.revision)
        elif call.revision != revision or call.era != era or response.meta.get(SERVER_INFO) != self._server_info:
            return None
        state = call.id_state
        table.answer(key, response.t_ns)
        self._under_way.answer(call, response, session)
        return MessageContext(
            response,
            session,
            body,
            call,
            call,
            state,
            call.revision,
            rank,
            state=self._state,
            era=call.era,
            http=http,
            request=call.request,
        )

    def _notification(self, notification: Notification, http: HttpExchange) -> MessageContext | None:
        session, (revision, rank, era) = self.session, self._other_terms
        if session is None:
            return None
        if notification.method in PROGRESS_METHODS:
            self._under_way.on_progress(notification, session)
        return MessageContext(
            notification,
            session,
            notification.body,
            revision=revision,
            rank=rank,
            state=self._state,
            era=era,
            http=http,
        )
