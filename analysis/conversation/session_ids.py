"""SessionIds: tracks when session ids of Streamable HTTP (2025-03-26 to 2025-11-25) become valid and invalid.

A server assigns an id with its response to `initialize`. A successful DELETE ends it, and so does a 404 to a message
of the session at its endpoint, or to a GET where there was a stream, as the server no longer knows it. Any other 404
may mean that there is nothing at that path, or for that HTTP method. In captures, most ids are hashes, which can only
be compared for equality.
"""

from typing import TYPE_CHECKING, Final

from analysis.conversation.limited import Limited
from analysis.protocol.error_codes import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from analysis.conversation.http_exchange import HttpExchange
    from analysis.conversation.mark import Mark
    from analysis.conversation.session import Session

FIELD: Final = "mcp-session-id"
KEPT: Final = 10_000
"""The maximum number of ids kept; the oldest are forgotten first."""
OF_CLIENT_KEPT: Final = 8
"""The maximum number of ids kept for one client."""


class SessionId:
    """The history of one id."""

    __slots__ = (
        *("deleted", "ended", "exchange", "given", "gone", "had_stream", "is_of_opening", "kept_by", "last", "session"),
        "tried",
    )

    def __init__(self) -> None:
        self.given: Mark | None = None
        """The response that assigned it; None if it was already in use when the capture began."""
        self.exchange: HttpExchange | None = None
        """The exchange of that response."""
        self.is_of_opening = False
        """Whether that was a response to `initialize`."""
        self.session: Session | None = None
        """The session of that response."""
        self.gone: Mark | None = None
        """The first 404 for a message with this id."""
        self.deleted: Mark | None = None
        """The first successful DELETE with this id."""
        self.ended: Mark | None = None
        """The first DELETE request with this id that was not refused: from then on, the session may be over."""
        self.kept_by: int | None = None
        """The status with which a DELETE with this id was refused last."""
        self.had_stream = False
        """Whether a GET with this id was answered with a stream."""
        self.tried = False
        """Whether a DELETE with this id was sent."""
        self.last: Mark | None = None
        """The last response that assigned this id or answered a request with it."""

    @property
    def is_alive(self) -> bool:
        """Whether it has been neither deleted nor refused as unknown."""
        return self.gone is None and self.deleted is None

    def had_died(self, at: "Mark") -> bool:
        """Whether it had become invalid before a record."""
        return any(end is not None and end.seq < at.seq for end in (self.gone, self.deleted))


class SessionIds:
    """The session ids of a capture."""

    def __init__(self) -> None:
        self._known: Limited[str, SessionId] = Limited(KEPT)
        self._of_session: Limited[int, str] = Limited(KEPT)
        self._of_client: Limited[str, list[SessionId]] = Limited(KEPT)

    @property
    def forgotten(self) -> int:
        """The number of ids that were forgotten."""
        return self._known.forgotten

    def of(self, id_: str) -> SessionId | None:
        """The history of an id."""
        return self._known.get(id_)

    def is_given(self, id_: str) -> bool:
        """Whether a response assigned an id."""
        known = self._known.get(id_)
        return known is not None and known.given is not None

    def known(self) -> list[str]:
        """All ids that are kept."""
        return list(self._known)

    def of_session(self, session: "Session") -> str | None:
        """The id that the server assigned to a session."""
        return self._of_session.get(session.number)

    def given_to(self, client: str) -> list[SessionId]:
        """The latest ids assigned to a client, which is identified by its fingerprint from `HttpExchange.client`."""
        return self._of_client.get(client, [])

    def asked(self, http: "HttpExchange") -> None:
        """Process the start of a request: from now on, a DELETE may be the reason that the server ends its streams."""
        named = http.fields.get(FIELD)
        if named and http.method == "DELETE":
            (self._known.get(named) or self._made(named)).tried = True

    def answered(self, http: "HttpExchange") -> None:
        """Process the start of a response."""
        asked, given = http.fields.get(FIELD), http.answer_fields.get(FIELD)
        if asked:
            self._asked(asked, http)
        if given is None or http.is_ours:
            return
        known = self._known.get(given) or self._made(given)
        known.last = http.answered
        if known.given is None and given != asked:
            known.given, known.exchange, known.session = http.answered, http, http.session
            known.is_of_opening = http.is_opening
            self._remember(known, http.client)
        if known.exchange is http and http.session is not None and http.is_opening and given:
            self._of_session.keep(http.session.number, given)

    def _remember(self, given: SessionId, client: str) -> None:
        own = self._of_client.get(client, [])
        own.append(given)
        del own[:-OF_CLIENT_KEPT]
        self._of_client.keep(client, own)

    def _asked(self, asked: str, http: "HttpExchange") -> None:
        is_over = not http.is_ours and not http.is_modern
        is_gone = is_over and http.status == 404 and _refuses_session(http, self._known.get(asked))
        is_deleted = is_over and http.method == "DELETE" and http.status is not None and 200 <= http.status < 300
        known = self._known.get(asked)
        if known is None:
            if not is_gone and not is_deleted:
                return
            known = self._made(asked)
        known.last = http.answered
        known.had_stream = known.had_stream or (http.method == "GET" and http.status == 200)
        if http.method == "DELETE":
            known.tried = True
            if 400 <= (http.status or 0) < 500:
                known.kept_by = http.status
            else:
                known.ended = known.ended or http.started or http.answered
        if is_gone:
            known.gone = known.gone or http.answered
        elif is_deleted:
            known.deleted = known.deleted or http.answered

    def _made(self, id_: str) -> SessionId:
        session_id = SessionId()
        self._known.keep(id_, session_id)
        return session_id


def _refuses_session(http: "HttpExchange", known: SessionId | None) -> bool:
    """Whether a 404 is about the session: it refuses a message at the endpoint, and not because of its method."""
    if http.method == "GET":
        # There is something for GET: a stream was there before, or the server refuses in the terms of MCP.
        return (known is not None and known.had_stream) or any("error" in seen.body for seen in http.received)
    if http.method != "POST" or not http.sent:
        return False
    if known is not None and known.exchange is not None and known.exchange.path != http.path:
        return False
    return not any(_is_about_method(seen.body.get("error")) for seen in http.received)


def _is_about_method(error: object) -> bool:
    return isinstance(error, dict) and error.get("code") == METHOD_NOT_FOUND
