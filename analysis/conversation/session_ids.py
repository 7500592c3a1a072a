"""SessionIds: the session ids of Streamable HTTP (2025-03-26 to 2025-11-25), and what is known of each.

In captures, most ids are hashes, which can only be compared for equality.
"""

from typing import Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session

FIELD: Final = "mcp-session-id"
MAX_SESSION_IDS: Final = 10_000
"""The maximum number of ids kept; the oldest are forgotten first."""
MAX_SESSION_IDS_PER_CLIENT: Final = 8
"""The maximum number of ids kept for one client."""


class SessionId:
    """The history of one id."""

    __slots__ = (
        *("deleted", "ended", "given", "gone", "had_stream", "is_of_opening", "kept_by", "last", "order", "path"),
        *("session", "tried"),
    )

    def __init__(self) -> None:
        self.given: RecordRef | None = None
        """The response that assigned it; None if it was already in use when the capture began."""
        self.order: int | None = None
        """The position of that exchange among all (`HttpExchange.order`)."""
        self.path = ""
        """The path to which that exchange goes, which follows its request."""
        self.is_of_opening = False
        """Whether that was a response to `initialize`."""
        self.session: Session | None = None
        """The session of that response."""
        self.gone: RecordRef | None = None
        """The first 404 for a message with this id."""
        self.deleted: RecordRef | None = None
        """The first successful DELETE with this id."""
        self.ended: RecordRef | None = None
        """The first DELETE request with this id that was not refused: from then on, the session may be over."""
        self.kept_by: int | None = None
        """The status with which a DELETE with this id was refused last."""
        self.had_stream = False
        """Whether a GET with this id was answered with a stream."""
        self.tried = False
        """Whether a DELETE with this id was sent."""
        self.last: RecordRef | None = None
        """The last response that assigned this id or answered a request with it."""

    @property
    def is_alive(self) -> bool:
        """Whether it has been neither deleted nor refused as unknown."""
        return self.gone is None and self.deleted is None

    def was_invalid_at(self, at: "RecordRef") -> bool:
        """Whether it had become invalid before a record."""
        return any(end is not None and end.seq < at.seq for end in (self.gone, self.deleted))


class SessionIds:
    """The session ids of a capture."""

    def __init__(self) -> None:
        self._known: BoundedDict[str, SessionId] = BoundedDict(MAX_SESSION_IDS)
        self._of_session: BoundedDict[int, str] = BoundedDict(MAX_SESSION_IDS)
        self._of_client: BoundedDict[str, list[SessionId]] = BoundedDict(MAX_SESSION_IDS)

    @property
    def forgotten(self) -> int:
        """The number of ids that were forgotten."""
        return self._known.forgotten

    def get(self, id_: str) -> SessionId | None:
        """The history of an id."""
        return self._known.get(id_)

    def is_issued(self, id_: str) -> bool:
        """Whether a response assigned an id."""
        known = self._known.get(id_)
        return known is not None and known.given is not None

    def known(self) -> list[str]:
        """All ids that are kept."""
        return list(self._known)

    def of_session(self, session: Session) -> str | None:
        """The id that the server assigned to a session."""
        return self._of_session.get(session.number)

    def issued_to(self, client: str) -> list[SessionId]:
        """The latest ids assigned to a client, which is identified by its fingerprint from `HttpExchange.client`."""
        return self._of_client.get(client, [])

    def assign(self, session: Session, id_: str) -> None:
        """Note that the server has assigned an id to a session."""
        self._of_session.put(session.number, id_)

    def assign_to_client(self, given: SessionId, client: str) -> None:
        """Note that a response has assigned an id to a client."""
        own = self._of_client.get(client, [])
        own.append(given)
        del own[:-MAX_SESSION_IDS_PER_CLIENT]
        self._of_client.put(client, own)

    def begin_history(self, id_: str) -> SessionId:
        """Begin the history of an id."""
        session_id = SessionId()
        self._known.put(id_, session_id)
        return session_id
