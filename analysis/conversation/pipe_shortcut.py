"""A shortcut for messages on a pipe that change little more than their own call.

Nearly all messages are like that once a session has begun. The shortcut examines the state of the session only after
something else has changed it (`prepare`); each message then only opens or ends its call. If anything is uncertain about
a message, it does not take the shortcut, and `Fold` takes the full path, with the same result
(`tests/analysis/conversation/test_pipe_shortcut.py`).
"""

from typing import Any, Final, NamedTuple

from analysis.conversation.addressing import RequestKey
from analysis.conversation.assembly import Assembly
from analysis.conversation.call import IdState, MessageContext
from analysis.conversation.call_table import CallTable
from analysis.conversation.cancellations import CANCELLATION_METHODS, Cancellations
from analysis.conversation.links import METHODS, Links
from analysis.conversation.message import Notification, Request, Response, Side, flawless_message
from analysis.conversation.session import CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO, Session, State, era_in_force
from analysis.conversation.under_way import PROGRESS_METHODS, CallsUnderWay
from analysis.protocol.error_codes import MODERN_CODES
from analysis.protocol.methods import MODERN_METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import Era, rank_of
from captures.frame import Frame

SESSION_METHODS: Final = (
    MODERN_METHODS
    | {"initialize", "notifications/initialized"}
    | {short for short, name in UNPREFIXED_NOTIFICATIONS.items() if name == "notifications/initialized"}
)
"""Methods that may change their session."""
_NEVER_SEEN: Final = IdState.NEVER_SEEN  # enumeration members are slow to look up
_NO_SESSION: Final = Session(0, None, 0)
_NO_META: Final[dict[str, Any]] = {}
RESPONSE_MEMBER_COUNT: Final = 3
"""The number of members of a response: `jsonrpc`, `id`, and either `result` or `error`."""


class Terms(NamedTuple):
    """The revision and era in force for messages."""

    revision: str | None
    rank: int | None
    era: Era | None


UNKNOWN_TERMS: Final = Terms(None, None, None)


def terms_of(session: Session) -> tuple[Terms, Terms]:
    """Returns the terms in force for the client's requests, and for all other messages except responses."""
    revision = session.revision_in_force
    if session.is_modern:
        request_terms, other_era = (
            Terms(session.requested_revision, rank_of(session.requested_revision), "modern"),
            era_in_force(session, None),
        )
    else:
        request_terms, other_era = (
            Terms(session.handshake, rank_of(session.handshake), "handshake"),
            era_in_force(session, revision),
        )
    return request_terms, Terms(revision, rank_of(revision), other_era)


class PipeShortcut:
    """Processes the messages of one pipe that can take the shortcut."""

    def __init__(
        self,
        tables: dict[Side, CallTable],
        under_way: CallsUnderWay,
        links: Links,
        cancellations: Cancellations,
        assembly: Assembly,
    ) -> None:
        """Create a shortcut that accepts no messages until `prepare` allows it.

        Args:
            tables: the requests, by the side that sent them.
            under_way: the calls under way.
            links: multi-round calls, tasks and subscriptions.
            cancellations: cancels calls.
            assembly: assembles messages; the shortcut is closed unless it is idle, as otherwise a line may be part of a
                message.
        """
        self._tables, self._under_way, self._links, self._assembly = tables, under_way, links, assembly
        self._cancellations = cancellations
        self.is_open = False
        """Whether messages are accepted."""
        self._session = _NO_SESSION
        self._state: State = "new"
        self._request_terms = UNKNOWN_TERMS
        """The terms in force for the client's requests."""
        self._other_terms = UNKNOWN_TERMS
        """The terms in force for all other messages except responses."""
        self._client_info: object = None
        """The last description that the client gave of itself in a request; `_server_info` is the server's in a
        result."""
        self._server_info: object = None
        self._may_have_links = False
        """Whether any message may be linked to others."""

    def prepare(self, session: Session | None) -> None:
        """Decide whether to accept messages; call this after a message that was not accepted, and after a loss.

        Args:
            session: the session of the pipe; None if it has none, or if the last message belonged to another session.
        """
        self.is_open = (
            session is not None
            and not session.is_http
            and session.lost_seq < 0
            and self._assembly.is_idle
            and is_settled(session)
        )
        if session is None or not self.is_open:
            return
        self._session, self._state = session, session.state
        self._request_terms, self._other_terms = terms_of(session)
        self._client_info, self._server_info = session.introduced.get("client"), session.introduced.get("server")
        self._may_have_links = not self._links.is_idle

    def try_frame(self, frame: Frame, body: dict[str, Any]) -> MessageContext | None:
        """Process the message of a frame; return its context, or None (with nothing changed) if it is not accepted.

        Args:
            frame: a flawless frame from the pipe.
            body: its parsed message.
        """
        message = flawless_message(frame, body)
        if type(message) is Response:
            return self._response(message)
        if type(message) is Request:
            return self._request(message)
        return self._notification(message) if type(message) is Notification else None

    def _request(self, request: Request) -> MessageContext | None:
        session, side, method = self._session, request.sender, request.method
        table, key = self._tables[side], RequestKey(None, request.id)
        if method in SESSION_METHODS or table.get(key) is not None or table.past_request(key) is not None:
            return None
        if side == "client":
            revision, rank, era = self._request_terms
            params = request.body.get("params")
            meta = None if params is None else params.get("_meta")
            if type(meta) is not dict:
                meta = _NO_META
            if era == "modern":
                if meta.get(PROTOCOL_VERSION) != revision or meta.get(CLIENT_INFO) != self._client_info:
                    return None
            elif PROTOCOL_VERSION in meta:
                return None
        else:
            revision, rank, era = self._other_terms
        session.last_request[side] = session.last_seq[side] = request.seq
        call, state = self._under_way.begin(request, key, _NEVER_SEEN, revision, era, session, None)
        context = MessageContext(
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
            request=request,
        )
        if self._may_have_links or method in METHODS:
            self._link(context)
        return context

    def _response(self, response: Response) -> MessageContext | None:
        session, side, body = self._session, response.sender, response.body
        is_from_server = side == "server"
        table = self._tables["client" if is_from_server else "server"]
        key = None if response.id is None else RequestKey(None, response.id)
        call = None if key is None else table.get(key)
        if call is None or len(body) > RESPONSE_MEMBER_COUNT:
            return None
        request, result = call.request, body.get("result")
        if request.method in SESSION_METHODS:
            return None
        if not is_from_server:
            rank = rank_of(call.revision)
        elif result is None:
            if body["error"]["code"] in MODERN_CODES:
                return None
            rank = rank_of(call.revision)
        else:
            revision, rank, era = self._request_terms
            if call.revision != revision or call.era != era:
                return None
            meta = result.get("_meta")
            if (meta.get(SERVER_INFO) if type(meta) is dict else None) != self._server_info:
                return None
        state = call.id_state
        table.answer(key, response.t_ns)
        self._under_way.answer(call, response, session)
        session.last_seq[side] = response.seq
        context = MessageContext(
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
            request=request,
        )
        if (
            self._may_have_links
            or request.method in METHODS
            or (result is not None and ("task" in result or result.get("resultType", "complete") != "complete"))
        ):
            self._link(context)
        return context

    def _notification(self, notification: Notification) -> MessageContext | None:
        session, method = self._session, notification.method
        if method in SESSION_METHODS:
            return None
        revision, rank, era = self._other_terms
        state = named_request = cancelled_call = None
        if method in PROGRESS_METHODS:
            self._under_way.on_progress(notification, session)
        elif method in CANCELLATION_METHODS:
            state, named_request, cancelled_call = self._cancellations.on_cancelled(notification, session)
        session.last_seq[notification.sender] = notification.seq
        context = MessageContext(
            notification,
            session,
            notification.body,
            None,
            None,
            state,
            revision,
            rank,
            named_request,
            cancelled_call,
            self._state,
            era,
        )
        if self._may_have_links or method in METHODS:
            self._link(context)
        return context

    def _link(self, context: MessageContext) -> None:
        self._links.link(context)
        self._may_have_links = not self._links.is_idle


def is_settled(session: Session) -> bool:
    """Whether the era and the revision of a session are settled."""
    if session.is_modern:
        return (
            session.server_is_modern
            and session.requested_revision is not None
            and session.requested_revision == session.negotiated_revision
        )
    return session.is_modern is False and "handshake" in session.eras and session.handshake is not None
