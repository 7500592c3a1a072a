"""SessionIds: the session ids of Streamable HTTP (2025-03-26 to 2025-11-25), and the history of each.

In captures, most ids are hashes, which can only be compared for equality.
"""

from typing import Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session

FIELD: Final = "mcp-session-id"
MAX_SESSION_IDS: Final = 10_000
"""The most ids that are kept; the oldest are forgotten first."""
MAX_SESSION_IDS_PER_CLIENT: Final = 8
"""The most ids that are kept for one client."""


class SessionId:
    """The history of one session id."""

    __slots__ = (
        *("deleted", "ended", "given", "gone", "had_stream", "is_of_opening", "kept_by", "last", "order", "path"),
        *("session", "tried"),
    )

    def __init__(self) -> None:
        self.given: RecordRef | None = None
        """The response that assigned the id; None if it was already in use when the capture began."""
        self.order: int | None = None
        """The position of the assigning exchange among all exchanges (`HttpExchange.order`)."""
        self.path = ""
        """The path of the assigning exchange."""
        self.is_of_opening = False
        """Whether the id was assigned by a response to `initialize`."""
        self.session: Session | None = None
        """The session of the assigning response."""
        self.gone: RecordRef | None = None
        """The first 404 for a message with this id."""
        self.deleted: RecordRef | None = None
        """The first successful DELETE with this id."""
        self.ended: RecordRef | None = None
        """The first DELETE request with this id that was not refused: from then on, the session may have ended."""
        self.kept_by: int | None = None
        """The status with which a DELETE with this id was last refused; None if none was."""
        self.had_stream = False
        """Whether a GET with this id was answered with a stream."""
        self.tried = False
        """Whether a DELETE with this id was sent."""
        self.last: RecordRef | None = None
        """The last response that assigned this id or answered a request with it."""

    @property
    def is_alive(self) -> bool:
        """Whether the id has been neither deleted nor refused as unknown."""
        return self.gone is None and self.deleted is None

    def was_invalid_at(self, at: "RecordRef") -> bool:
        """Whether the id had become invalid before a record."""
        return any(end is not None and end.seq < at.seq for end in (self.gone, self.deleted))


class SessionIds:
    """The session ids of a capture."""

    def __init__(self) -> None:
        self._histories: BoundedDict[str, SessionId] = BoundedDict(MAX_SESSION_IDS)
        self._id_by_session: BoundedDict[int, str] = BoundedDict(MAX_SESSION_IDS)
        self._ids_by_client: BoundedDict[str, list[SessionId]] = BoundedDict(MAX_SESSION_IDS)

    @property
    def forgotten_count(self) -> int:
        """How many ids had to be forgotten."""
        return self._histories.forgotten

    def get(self, id_: str) -> SessionId | None:
        """Returns the history of an id, or None if the id is unknown."""
        return self._histories.get(id_)

    def is_issued(self, id_: str) -> bool:
        """Whether a response assigned an id."""
        history = self._histories.get(id_)
        return history is not None and history.given is not None

    def ids(self) -> list[str]:
        """Returns all ids that are kept."""
        return list(self._histories)

    def id_of_session(self, session: Session) -> str | None:
        """Returns the id that the server assigned to a session, or None."""
        return self._id_by_session.get(session.number)

    def issued_to(self, client: str) -> list[SessionId]:
        """Returns the latest ids assigned to a client, given its fingerprint (`HttpExchange.client`)."""
        return self._ids_by_client.get(client, [])

    def assign(self, session: Session, id_: str) -> None:
        """Note that the server has assigned an id to a session."""
        self._id_by_session.put(session.number, id_)

    def assign_to_client(self, session_id: SessionId, client: str) -> None:
        """Note that a response has assigned an id to a client."""
        client_ids = self._ids_by_client.get(client, [])
        client_ids.append(session_id)
        del client_ids[:-MAX_SESSION_IDS_PER_CLIENT]
        self._ids_by_client.put(client, client_ids)

    def begin_history(self, id_: str) -> SessionId:
        """Begin the history of an id; return it."""
        session_id = SessionId()
        self._histories.put(id_, session_id)
        return session_id
