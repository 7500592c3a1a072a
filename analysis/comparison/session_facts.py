"""Observes what the sides say of themselves when a session begins: capabilities, revision, instructions, names."""

import json
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from analysis.comparison.aspect import Observer
from analysis.comparison.canonical import canonical_json
from analysis.comparison.change import Place
from analysis.comparison.members import members_of
from analysis.comparison.requests import bounded
from analysis.comparison.servers import MAX_SERVERS, merge_unnamed, server_key
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request, Response
from analysis.conversation.session import CLIENT_CAPABILITIES, Session
from analysis.protocol.methods import OPENING_METHODS
from analysis.reading import Reading


class Declaration(Struct):
    """What a server says in the response to `initialize` or `server/discover`."""

    place: Place
    capabilities: str | None
    """The capabilities as canonical JSON; None if they are not an object."""
    instructions: str | None
    """The instructions as canonical JSON, if they are a text."""
    server_info: str | None = None
    """The members of `serverInfo` except name and version, as canonical JSON; None if `initialize` was not answered.
    Later revisions have it in each result, where it is compared with the rest of `_meta`."""

    @property
    def server_members(self) -> dict[str, Any] | None:
        """The members of `serverInfo` except name and version, or None if they are unknown. Untrusted."""
        members: dict[str, Any] | None = None if self.server_info is None else json.loads(self.server_info)
        return members

    @property
    def capability_members(self) -> dict[str, Any] | None:
        """The capabilities, or None if they are not an object."""
        members: dict[str, Any] | None = None if self.capabilities is None else json.loads(self.capabilities)
        return members

    @property
    def instructions_text(self) -> str | None:
        """The instructions, or None if there are none. Untrusted text."""
        text: str | None = None if self.instructions is None else json.loads(self.instructions)
        return text


class ServerRecord(Struct):
    """What is known of one server and of the clients that used it: each fact from the newest session that has it."""

    declaration: Declaration | None = None
    """None if no session shows what the server declares."""
    is_unanswered: bool = False
    """Whether no answer to the newest request for it is known."""
    client_capabilities: str | None = None
    """What the client declares, as canonical JSON; None if unknown."""
    client_place: Place | None = None
    name: str | None = None
    """The name that the server gives itself, truncated. Untrusted text, as the next two."""
    version: str | None = None
    revision: str | None = None
    """The revision that was negotiated last."""
    revisions: list[str] = field(default_factory=list)
    """All revisions that were negotiated, each once, sorted."""


class SessionRecord(Struct):
    """What the servers and clients of a side say of themselves."""

    servers: dict[str, ServerRecord] = field(default_factory=dict)
    """By the key of the server."""


class SessionObserver(Observer):
    """Notes what servers and clients declare."""

    aspect = "session"

    def __init__(self) -> None:
        """Create an observer that has seen no capture."""
        self._servers: dict[str, ServerRecord] = {}

    def begin(self, capture: str, reading: Reading) -> None:
        """Begin a capture."""
        self._capture, self._reading = capture, reading
        self._facts = ServerRecord()
        self._opening_version = ""
        self._sessions: set[int] = set()

    def on_message(self, context: MessageContext) -> None:
        """Note what the client declares in its first request, and the server in its response."""
        message, session = context.message, context.session
        if isinstance(message, Response):
            request = context.request
            if request is not None and request.method in OPENING_METHODS and context.answered is not None:
                self._on_opening_response(message, session.number)
                self._on_description(request, message, session)
        elif isinstance(message, Request) and message.sender == "client":
            is_opening = message.method in OPENING_METHODS
            self._facts.is_unanswered = self._facts.is_unanswered or is_opening
            if is_opening or session.number not in self._sessions:
                self._on_client_request(message, session.number)
        self._sessions.add(session.number)

    def _on_client_request(self, request: Request, session: int) -> None:
        params = request.params if isinstance(request.params, dict) else {}
        capabilities = params.get("capabilities") if request.method == "initialize" else None
        if capabilities is None:
            capabilities = request.meta.get(CLIENT_CAPABILITIES)
        if isinstance(capabilities, dict):
            self._facts.client_capabilities = canonical_json(capabilities).decode()
            self._facts.client_place = Place(self._capture, session, request.seq)

    def _on_opening_response(self, response: Response, session: int) -> None:
        self._facts.is_unanswered = False
        result = response.result
        if response.is_error or not isinstance(result, dict):
            return
        capabilities, instructions = result.get("capabilities"), result.get("instructions")
        self._facts.declaration = Declaration(
            Place(self._capture, session, response.seq),
            canonical_json(capabilities).decode() if isinstance(capabilities, dict) else None,
            canonical_json(instructions).decode() if isinstance(instructions, str) else None,
        )

    def _on_description(self, request: Request, response: Response, session: Session) -> None:
        """Note how the server describes itself when the session begins."""
        self._opening_version = "" if session.server is None else session.server.version
        result = response.result
        if request.method == "initialize" and isinstance(result, dict) and self._facts.declaration is not None:
            self._facts.declaration.server_info = _server_info(result)

    def end(self) -> None:
        """Add what the capture shows to what is known of its server."""
        facts = self._facts
        for session in self._reading.sessions:
            if session.number not in self._sessions:
                continue
            if session.negotiated_revision is not None:
                facts.revision = bounded(session.negotiated_revision)
                facts.revisions.append(facts.revision)
            if session.server is not None:
                # A version that is only in some results has not changed.
                version = session.server.version or self._opening_version
                facts.name, facts.version = bounded(session.server.name), bounded(version)
        facts.revisions = sorted(set(facts.revisions))
        key = server_key(self._reading)
        if key in self._servers:
            self._servers[key] = _newer_facts(self._servers[key], facts)
        elif len(self._servers) < MAX_SERVERS:  # the aspect `definitions` reports captures of further servers
            self._servers[key] = facts

    def observed(self) -> SessionRecord:
        """Returns what is known of each server of the side."""
        merge_unnamed(self._servers, lambda named, unnamed: _newer_facts(unnamed, named))
        return SessionRecord(self._servers)


def _server_info(result: dict[str, Any]) -> str:
    server_info = members_of(result.get("serverInfo"))
    members = {name: value for name, value in server_info.items() if name not in ("name", "version")}
    return canonical_json(members).decode()


def _newer_facts(earlier: ServerRecord, later: ServerRecord) -> ServerRecord:
    """Returns the facts of the later captures, and those of the earlier ones for what the later do not show."""
    revisions = sorted({*earlier.revisions, *later.revisions})
    is_unanswered = later.is_unanswered or (later.declaration is None and earlier.is_unanswered)
    merged = replace(later, revisions=revisions, is_unanswered=is_unanswered)
    for name in ("declaration", "name", "version", "revision"):
        if getattr(later, name) is None:
            setattr(merged, name, getattr(earlier, name))
    if later.client_capabilities is None:
        merged.client_capabilities, merged.client_place = earlier.client_capabilities, earlier.client_place
    return merged
