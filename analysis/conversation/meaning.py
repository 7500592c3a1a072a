"""Determines what a message of any kind means in its session.

This is the full path, which checks everything about a message. Most messages take a shortcut instead
(`analysis.conversation.pipe_shortcut`), which gives the same result.
"""

from typing import Final

from analysis.conversation.addressing import Addressing, RequestKey
from analysis.conversation.call import EarlierRequest, IdState, MessageContext, Outcome, context_of
from analysis.conversation.call_table import CallTable
from analysis.conversation.cancellations import CANCELLATION_METHODS, Cancellations
from analysis.conversation.guesses import guess_request
from analysis.conversation.handshake import on_client_request, on_server_result
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import InvalidMessage, Message, Notification, Request, Response, Side
from analysis.conversation.pairing import Pairing
from analysis.conversation.routing import Routing
from analysis.conversation.session import Session, era_in_force
from analysis.conversation.under_way import PROGRESS_METHODS, CallsUnderWay
from analysis.facts import code_of
from analysis.protocol.error_codes import MODERN_CODES
from analysis.protocol.revisions import Era

# Enumeration members are slow to look up.
_ERROR: Final = Outcome.ERROR
_NEVER_SEEN: Final = IdState.NEVER_SEEN


class ContextBuilder:
    """Determines what messages mean, and begins, ends and cancels their calls."""

    def __init__(
        self,
        tables: dict[Side, CallTable],
        under_way: CallsUnderWay,
        addressing: Addressing,
        routing: Routing,
        pairing: Pairing,
        cancellations: Cancellations,
    ) -> None:
        """Create a builder that uses these objects, which the caller keeps up to date.

        Args:
            tables: the requests, by the side that sent them.
            under_way: the calls under way.
            addressing: which exchange carried each request.
            routing: the sessions.
            pairing: finds requests by ids.
            cancellations: cancels calls.
        """
        self._tables, self._under_way, self._addressing, self._routing = tables, under_way, addressing, routing
        self._pairing, self._cancellations = pairing, cancellations

    def process(self, message: Message, session: Session, http: HttpExchange | None) -> MessageContext:
        """Process a message; return its context.

        Args:
            message: the message.
            session: its session.
            http: the exchange that carried the message; None on stdio.
        """
        if isinstance(message, Request):
            response = message.as_response()
            if response is None or self._pairing.answered_key(response) is None:
                return self._request_context(message, session, http)
            message = response
        if isinstance(message, Response):
            return self._response_context(message, session, http)
        if isinstance(message, Notification):
            return self._notification_context(message, session, http)
        return self._invalid_context(message, session, http)

    def _request_context(self, request: Request, session: Session, http: HttpExchange | None) -> MessageContext:
        table = self._tables[request.sender]
        key = self._addressing.add_request(request.sender, request.frames[0], request.id)
        is_from_client = request.sender == "client"
        revision, era = (
            on_client_request(request, session, http) if is_from_client else self._terms_in_force(request, session)
        )
        may_be_repeated = session.state in ("init-answered", "ready") or session.lost_seq >= 0
        if request.method == "initialize" and may_be_repeated and not session.is_http:
            self._routing.used_ids(session).clear()  # a second handshake on a pipe makes all ids free again
        last_use = self._routing.used_ids(session).last_use(session.number, request.sender, request.id)
        earlier = (
            None if last_use is None else EarlierRequest(last_use.seq, last_use.conn, table.id_state(last_use.key))
        )
        if earlier is not None and is_from_client and http is not None and earlier.state is IdState.OPEN:
            self._routing.on_reused_id(session, http)
        if http is not None:
            self._routing.ids_in_exchanges.remember(session.number, request, key)
        session.last_request[request.sender] = request.seq
        call, state = self._under_way.begin(request, key, None, revision, era, session, http)
        return context_of(
            request, session, call, state, revision, state=session.state, era=era, earlier=earlier, http=http
        )

    def _terms_in_force(self, message: Message, session: Session) -> tuple[str | None, Era | None]:
        """Returns the revision and era of a message that is neither a client's request nor the response to one."""
        number = message.frames[0].exchange
        keys = self._addressing.requests_in(number)
        for key in keys[:1]:
            call = self._tables["client"].get(key)
            if call is not None and call.era == "modern":
                return call.revision, "modern"
        if session.lost_seq >= 0 and session.handshake is None:
            return None, None  # a handshake may have been lost
        return session.revision_in_force, era_in_force(
            session, session.revision_in_force if not session.is_modern else None
        )

    def _response_context(self, response: Response, session: Session, http: HttpExchange | None) -> MessageContext:
        table = self._tables["server" if response.sender == "client" else "client"]
        is_converted, state, call = False, _NEVER_SEEN, None
        if http is not None and _is_unread(response, http):
            return self._unread_response_context(response, session, http)
        if response.id is not None and response.frames[0].exchange is None:
            call = table.answer(RequestKey(None, response.id), response.t_ns)  # nearly always succeeds on stdio
        if call is None:
            key, state, is_converted = self._pairing.search(response, table, session)
            call = table.answer(key, response.t_ns)
        if call is None:
            revision, era = self._terms_in_force(response, session)
            posted_keys = self._addressing.requests_in(response.frames[0].exchange)
            guessed_request = (
                guess_request(response, session, self._tables, http, posted_keys) if state is _NEVER_SEEN else None
            )
            if guessed_request is not None:
                self._under_way.changed_calls[guessed_request.call] = None
            return context_of(
                response, session, None, state, revision, state=session.state, era=era, http=http, meant=guessed_request
            )
        if response.id is not None:
            state = call.id_state
        self._under_way.answer(call, response, session)
        is_error, is_from_server = call.final_outcome is _ERROR, response.sender == "server"
        if is_from_server and not is_error:
            call.revision = on_server_result(call, response, session)
        elif call.request.method == "initialize" and session.initialize is call.request:
            session.handshake = None
        if is_from_server and is_error and code_of(response) in MODERN_CODES:
            session.server_is_modern = True
        return context_of(
            response,
            session,
            call,
            state,
            call.revision,
            state=session.state,
            era=call.era,
            is_converted=is_converted,
            http=http,
        )

    def _unread_response_context(self, response: Response, session: Session, http: HttpExchange) -> MessageContext:
        """Returns the context of a response that its client cannot have read, and that therefore answers nothing."""
        revision, era = self._terms_in_force(response, session)
        key = self._pairing.answered_key(response)
        state = _NEVER_SEEN if key is None else self._tables["client"].id_state(key)
        context = context_of(response, session, None, state, revision, state=session.state, era=era, http=http)
        call = None if key is None else self._tables["client"].get(key)
        context.request, context.call = None if call is None else call.request, call
        return context

    def _notification_context(
        self, notification: Notification, session: Session, http: HttpExchange | None
    ) -> MessageContext:
        revision, era = self._terms_in_force(notification, session)
        if notification.method in PROGRESS_METHODS:
            self._under_way.on_progress(notification, session)
        if notification.method not in CANCELLATION_METHODS:
            return context_of(notification, session, None, None, revision, state=session.state, era=era, http=http)
        state, named_request, cancelled_call = self._cancellations.on_cancelled(notification, session)
        return context_of(
            notification,
            session,
            None,
            state,
            revision,
            state=session.state,
            era=era,
            cancels=named_request,
            cancelled=cancelled_call,
            http=http,
        )

    def _invalid_context(self, message: InvalidMessage, session: Session, http: HttpExchange | None) -> MessageContext:
        frame = message.frames[0]
        if is_unjudged(message):
            session.unjudged[message.sender] = message.seq
        if not frame.is_ignored:
            session.unread[message.sender] = session.unread.get(message.sender, 0) + 1
        revision, era = self._terms_in_force(message, session)
        return context_of(message, session, None, None, revision, state=session.state, era=era, http=http)


def is_unjudged(message: InvalidMessage) -> bool:
    """Whether a message could not be examined, and so may be a response to any request."""
    frame = message.frames[0]
    # MCP clients ignore events that have another type or no data, so these contain no response.
    return "unjudged" in (frame.verdict.kind, message.reason) and not frame.is_ignored


def _is_unread(response: Response, http: HttpExchange) -> bool:
    """Whether a client cannot have read a response: it is incomplete, or came after the end of its exchange.

    An event without a blank line at its end is incomplete, too.

    """
    return response.sender == "server" and (http.end_ref is not None or not response.frames[-1].whole)
