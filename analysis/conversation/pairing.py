"""Finds the request to which the id in a message refers."""

from typing import Final

from analysis.conversation.addressing import Addressing, RequestKey
from analysis.conversation.call import IdState
from analysis.conversation.call_table import CallTable
from analysis.conversation.message import Id, Response, Side, converted_id, other_side
from analysis.conversation.routing import Routing
from analysis.conversation.session import Session
from analysis.conversation.under_way import MAX_SEARCHED_REQUESTS
from captures.frame import Frame

# Enumeration members are slow to look up.
_NEVER_SEEN: Final = IdState.NEVER_SEEN
_FAILED: Final = IdState.FAILED
_ANSWERED: Final = IdState.ANSWERED


class Pairing:
    """Finds requests by their ids, without changing anything."""

    def __init__(self, tables: dict[Side, CallTable], addressing: Addressing, routing: Routing) -> None:
        """Create an object that searches these tables.

        Args:
            tables: the requests, which the caller keeps up to date.
            addressing: which exchange carried each request.
            routing: the sessions, with the ids that each has used.
        """
        self._tables, self._addressing, self._routing = tables, addressing, routing

    def search(self, response: Response, table: CallTable, session: Session) -> tuple[RequestKey | None, IdState, bool]:
        """Returns the request that a response answers, the state of its id, and whether only a converted id matches."""
        key = self.answered_key(response)
        if key is not None or response.id is None:
            return key, _NEVER_SEEN, False
        exact_key = RequestKey(self._addressing.original_exchange(response.frames[0].exchange), response.id)
        state = table.id_state(exact_key)
        if state is _NEVER_SEEN:
            last_state = self.last_id_state(other_side(response.sender), session, exact_key.id)
            if last_state in (_FAILED, _ANSWERED):
                state = last_state  # its request was refused or answered in another exchange
        if state is not _NEVER_SEEN:
            return None, state, False
        key = self.find(other_side(response.sender), response.frames[0], converted_id(exact_key.id))
        call = table.get(key) if key is not None else None
        is_converted = call is not None and call.request.seq > session.lost_seq
        return key if is_converted else None, state, is_converted  # a request before a loss proves nothing

    def answered_key(self, response: Response) -> RequestKey | None:
        """Returns the open request that a response answers, or None if there is none."""
        if response.is_error and (response.id is None or response.id.type == "null"):
            # A peer that cannot read a request cannot name its id; over HTTP, the exchange identifies it.
            table = self._tables[other_side(response.sender)]
            keys = self._addressing.requests_in(response.frames[0].exchange)
            if response.sender != "server" or len(keys) > MAX_SEARCHED_REQUESTS:
                return None
            open_keys = [key for key in keys if table.get(key) is not None]
            return open_keys[0] if len(open_keys) == 1 else None
        if response.id is None:
            return None
        return self.find(other_side(response.sender), response.frames[0], response.id)

    def find(self, side: Side, frame: Frame, id_: Id) -> RequestKey | None:
        """Returns the open request of a side to which an id in a frame refers, or None if there is none."""
        table = self._tables[side]
        if frame.exchange is None:
            pipe_key = RequestKey(None, id_)
            return pipe_key if table.get(pipe_key) is not None else None
        own_key = self._addressing.own_key(frame.exchange, id_)
        if table.get(own_key) is not None:
            return own_key
        candidates = self._addressing.keys_elsewhere(side, frame.exchange, id_)
        return next((key for key in candidates if table.get(key) is not None), None)

    def last_id_state(self, side: Side, session: Session, id_: Id) -> IdState:
        """Returns the state of an id in a session, regardless of the exchange that carried its request."""
        last_use = self._routing.used_ids(session).last_use(session.number, side, id_)
        return _NEVER_SEEN if last_use is None else self._tables[side].id_state(last_use.key)
