"""Pairing: which request the id in a message refers to."""

from typing import Final

from analysis.conversation.addressing import Addressing, RequestKey
from analysis.conversation.call import IdState
from analysis.conversation.call_table import CallTable
from analysis.conversation.message import Id, Response, Side, converted, other_side
from analysis.conversation.routing import Routing
from analysis.conversation.session import Session
from analysis.conversation.under_way import ALIKE
from captures.frame import Frame

# Enumeration members are slow to look up.
_NEVER_SEEN: Final = IdState.NEVER_SEEN
_FAILED: Final = IdState.FAILED
_ANSWERED: Final = IdState.ANSWERED


class Pairing:
    """Finds requests by ids. It changes nothing."""

    def __init__(self, tables: dict[Side, CallTable], addressing: Addressing, routing: Routing) -> None:
        """Create an object that searches these tables.

        Args:
            tables: the requests, which the caller keeps.
            addressing: which exchange carried them.
            routing: knows the ids that each session has used.
        """
        self._tables, self._addressing, self._routing = tables, addressing, routing

    def searched(
        self, response: Response, table: CallTable, session: Session
    ) -> tuple[RequestKey | None, IdState, bool]:
        """Finds the request a response answers: returns it, its id's state, and whether only a converted id matches."""
        key = self.meant(response)
        if key is not None or response.id is None:
            return key, _NEVER_SEEN, False
        exact = RequestKey(self._addressing.first_of(response.frames[0].exchange), response.id)
        state = table.state(exact)
        if state is _NEVER_SEEN:
            used = self.used(other_side(response.sender), session, exact.id)
            if used in (_FAILED, _ANSWERED):
                state = used  # refused, or answered, elsewhere
        if state is not _NEVER_SEEN:
            return None, state, False
        key = self.find(other_side(response.sender), response.frames[0], converted(exact.id))
        asked = table.get(key) if key is not None else None
        is_converted = asked is not None and asked.request.seq > session.lost_seq
        return key if is_converted else None, state, is_converted  # the request that it answers may be lost

    def meant(self, response: Response) -> RequestKey | None:
        """The open request that a response answers."""
        if response.is_error and (response.id is None or response.id.type == "null"):
            # A peer that cannot read a request cannot name it; over HTTP the exchange does.
            table = self._tables[other_side(response.sender)]
            asked = self._addressing.requests_in(response.frames[0].exchange)
            if response.sender != "server" or len(asked) > ALIKE:
                return None
            open_ = [key for key in asked if table.get(key) is not None]
            return open_[0] if len(open_) == 1 else None
        if response.id is None:
            return None
        return self.find(other_side(response.sender), response.frames[0], response.id)

    def find(self, side: Side, frame: Frame, id_: Id) -> RequestKey | None:
        """The open request of a side that an id in a frame refers to."""
        table = self._tables[side]
        if frame.exchange is None:
            only = RequestKey(None, id_)
            return only if table.get(only) is not None else None
        own = self._addressing.own(frame.exchange, id_)
        if table.get(own) is not None:
            return own
        elsewhere = self._addressing.elsewhere(side, frame.exchange, id_)
        return next((key for key in elsewhere if table.get(key) is not None), None)

    def used(self, side: Side, session: Session, id_: Id) -> IdState:
        """The state of an id in a session, whichever exchange carried its request."""
        used = self._routing.used_by(session).last(session.number, side, id_)
        return _NEVER_SEEN if used is None else self._tables[side].state(used.key)
