"""Decides which recorded session a new client gets over HTTP, where a capture may hold many."""

from typing import Final, Literal, TypeAlias

from analysis.playback.items import Item
from analysis.playback.script import Script

INITIALIZE: Final = "initialize"
SessionKind: TypeAlias = Literal["handshake", "other"]
"""Whether a client's session has an `initialize`, or begins with another request. One with a probe before its
`initialize` is of both kinds."""
OPENING_ITEMS: Final = 50
"""How many items of a session are searched for its `initialize`, or for another message of its beginning."""
FIRST_SESSION: Final = 1
"""The number of the session that is played if the recording has none."""


class SessionOrder:
    """The recorded sessions, each given to one new client, and the last one to all further clients."""

    def __init__(self, script: Script, first: int | None = None) -> None:
        """Begin with the first session.

        Args:
            script: the recording.
            first: the number of the session to begin with instead, which has been read.
        """
        self._script = script
        self._first_index = 0 if first is None else list(script.sessions).index(first)
        self._sorted_count = self._first_index
        self._sessions: dict[SessionKind, list[int]] = {"handshake": [], "other": []}
        self._given_counts: dict[SessionKind, int] = {"handshake": 0, "other": 0}

    def take_next(self, kind: SessionKind, *, can_wait: bool) -> int | None:
        """Return the next recorded session for a client whose first request is of this kind.

        Args:
            kind: the kind of session that the client opens.
            can_wait: whether to return None if more of the recording must be read first, or at least one session.
        """
        self._sort()
        sessions, given_count = self._sessions[kind], self._given_counts[kind]
        is_complete = self._script.is_complete
        if given_count >= len(sessions):
            if not is_complete and can_wait and (given_count or self._sorted_count == self._first_index):
                return None
            sessions = (
                sessions or list(self._script.sessions[self._first_index : self._first_index + 1]) or [FIRST_SESSION]
            )
        self._given_counts[kind] += 1
        return sessions[min(given_count, len(sessions) - 1)]

    def has_initialize(self, session: int) -> bool:
        """Whether the opening of a recorded session has an `initialize`."""
        return any(INITIALIZE in _methods(item) for item in self._opening_requests(session))

    def _sort(self) -> None:
        """Note the kinds of the sessions that have been read so far."""
        sessions = self._script.sessions
        while self._sorted_count < len(sessions):
            session = sessions[self._sorted_count]
            requests = self._opening_requests(session)
            is_read = self._script.is_complete or len(self._script.items_of(session)) >= OPENING_ITEMS
            begins_with_initialize = bool(requests) and INITIALIZE in _methods(requests[0])
            if not (is_read or begins_with_initialize):
                return
            if begins_with_initialize or self.has_initialize(session):
                self._sessions["handshake"].append(session)
            if requests and not begins_with_initialize:
                self._sessions["other"].append(session)
            self._sorted_count += 1

    def _opening_requests(self, session: int) -> list[Item]:
        items = self._script.items
        opening_items = [items[number] for number in self._script.items_of(session)[:OPENING_ITEMS]]
        return [item for item in opening_items if item.sender == "client" and item.kind in ("request", "batch")]


def _methods(item: Item) -> set[str]:
    return {item.method} if item.kind == "request" else {member.method for member in item.members}
