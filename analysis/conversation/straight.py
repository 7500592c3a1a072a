"""The straight way of a plain message on a pipe: a request, result or notification that changes only its own call.

Nearly all messages are like that once a session has begun. What could be odd about them, and what they mean for the
session, was decided when something last changed it (`prepare`); what is left is to enter the call, or to end it, in the
state that all messages share. A message about which any of that is not certain is not taken: `Fold` then goes the whole
way, and comes to the same result (`tests/analysis/conversation/test_straight.py`).
"""

from typing import Any, Final

from analysis.conversation.addressing import Key
from analysis.conversation.assembly import Assembly
from analysis.conversation.call import Call
from analysis.conversation.call_table import CallTable
from analysis.conversation.cancellations import CANCELLATIONS
from analysis.conversation.links import METHODS, Links
from analysis.conversation.message import Notification, Request, Response, Side, flawless
from analysis.conversation.session import CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO, Seen, Session, State, era_in_force
from analysis.conversation.under_way import PROGRESS, UnderWay
from analysis.protocol.methods import MODERN_METHODS, UNPREFIXED
from analysis.protocol.revisions import Era, rank_of
from captures.frame import Frame

MOVES: Final = (
    METHODS
    | MODERN_METHODS
    | CANCELLATIONS
    | {"initialize", "notifications/initialized"}
    | {short for short, name in UNPREFIXED.items() if name == "notifications/initialized"}
)
"""Methods that change more than their call."""
_NO_SESSION: Final = Session(0, None, {}, 0)


class Straight:
    """Takes plain messages of one pipe."""

    def __init__(self, tables: dict[Side, CallTable], under_way: UnderWay, links: Links, assembly: Assembly) -> None:
        """Take none yet.

        Args:
            tables: the requests, by the side that sent them.
            under_way: the calls under way.
            links: must be idle, else any message may belong to one.
            assembly: must be idle, else a line may be a part of a message.
        """
        self._tables, self._under_way, self._links, self._assembly = tables, under_way, links, assembly
        self.is_open = False
        """Whether plain messages may be taken."""
        self._session = _NO_SESSION
        self._state: State = "new"
        self._asked: tuple[str | None, Era | None] = None, None
        """Revision and era of the client's requests."""
        self._around: tuple[str | None, Era | None] = None, None
        """The same of what is no request of the client, and no response."""
        self._ranks: dict[Side, int | None] = {}
        """The ranks of both revisions."""
        self._client: object = None
        """How the client identified itself last in a request, and the server in a result."""
        self._server: object = None

    def prepare(self, session: Session | None) -> None:
        """Find out whether plain messages may be taken, after anything but such a message.

        Args:
            session: that of the last message, if there was one.
        """
        self.is_open = (
            session is not None
            and self._links.is_idle
            and not session.is_http
            and session.lost_seq < 0
            and self._assembly.is_idle
            and is_settled(session)
        )
        if session is None or not self.is_open:
            return
        self._session, self._state = session, session.state
        revision = session.in_force
        if session.is_modern:
            self._asked = session.asked, "modern"
            self._around = revision, era_in_force(session, None)
        else:
            self._asked = session.handshake, "handshake"
            self._around = revision, era_in_force(session, revision)
        self._ranks = {"client": rank_of(self._asked[0]), "server": rank_of(revision)}
        self._client, self._server = session.introduced.get("client"), session.introduced.get("server")

    def take(self, frame: Frame, body: dict[str, Any]) -> Seen | None:
        """The message of a frame with its meaning; None if it is not plain, and nothing has changed.

        Args:
            frame: one from a pipe.
            body: its message.
        """
        message = flawless(frame, body)
        if isinstance(message, Response):
            return self._response(message)
        if message.method in MOVES:
            return None
        return self._request(message) if isinstance(message, Request) else self._notification(message)

    def _request(self, request: Request) -> Seen | None:
        session, side = self._session, request.sender
        used = session.number, side, request.id
        if used in session.used:
            return None
        revision, era = self._asked if side == "client" else self._around
        if side == "client":
            named = request.meta.get(PROTOCOL_VERSION)
            if era == "modern":
                if named != revision or request.meta.get(CLIENT_INFO) != self._client:
                    return None
            elif PROTOCOL_VERSION in request.meta:
                return None
        key = Key(None, request.id)
        session.used.keep(used, (request.seq, request.frames[0].conn, key))
        session.last_request[side] = session.heard[side] = request.seq
        call = Call(request, revision, era, None, session, self._under_way.count)
        state = self._tables[side].open(call, key)
        self._under_way.begin(call)
        rank = self._ranks[side]
        return Seen(
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

    def _response(self, response: Response) -> Seen | None:
        session, side = self._session, response.sender
        table = self._tables["server" if side == "client" else "client"]
        key = Key(None, response.id) if response.id is not None else None
        call = table.get(key) if key is not None else None
        result: Any = response.body.get("result")
        if (
            call is None
            or key is None
            or result is None
            or len(response.body) > ENVELOPE
            or call.cancellation is not None
            or call.session is not session
            or call.request.method in MOVES
            or not UNUSUAL.isdisjoint(result)
            or result.get("resultType", "complete") != "complete"
        ):
            return None
        if side == "server" and (
            (call.revision, call.era) != self._asked or response.meta.get(SERVER_INFO) != self._server
        ):
            return None
        table.answer(key, response.t_ns)
        if call.request.seq > session.received[side]:
            session.received[side] = call.request.seq
        self._under_way.end(call)
        call.answer(response)
        session.heard[side] = response.seq
        known = call.id_state, call.revision, rank_of(call.revision)
        return Seen(
            response, session, response.body, call, call, *known, state=self._state, era=call.era, request=call.request
        )

    def _notification(self, notification: Notification) -> Seen:
        session, (revision, era) = self._session, self._around
        if notification.method in PROGRESS:
            self._under_way.progress(notification, session)
        session.heard[notification.sender] = notification.seq
        rank = self._ranks["server"]
        return Seen(notification, session, notification.body, revision=revision, rank=rank, state=self._state, era=era)


ENVELOPE: Final = 3
"""The members of a result and its envelope."""
UNUSUAL: Final = frozenset({"task", "supportedVersions"})
"""Members of a result that may mean more than the result of the call."""


def is_settled(session: Session) -> bool:
    """Whether client and server have settled the era and the revision that they speak."""
    if session.is_modern:
        return session.server_is_modern and session.asked is not None and session.asked == session.agreed
    return session.is_modern is False and "handshake" in session.eras and session.handshake is not None
