"""The handshake of a session: the revision, era and peers that client and server declare, and its state.

Up to 2025-11-25 `initialize` and its response settle these for everything that follows. Since 2026-07-28 each request
declares them for itself, and never changes the state of a handshake.
"""

from typing import Any

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.message import InvalidMessage, Request, Response
from analysis.conversation.session import CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO, Peer, Session
from analysis.protocol.declared_capabilities import declaration_of
from analysis.protocol.methods import MODERN_METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import FIRST_MODERN_RANK, Era, rank_of


def is_modern(request: Request, http: HttpExchange | None) -> bool:
    """Whether a client request itself declares the modern era."""
    if request.method == "initialize":
        return False
    if PROTOCOL_VERSION in request.meta or request.method in MODERN_METHODS:
        return True
    rank = rank_of(http.fields.get(VERSION_FIELD)) if http is not None else None
    return rank is not None and rank >= FIRST_MODERN_RANK


def on_client_request(request: Request, session: Session, http: HttpExchange | None) -> tuple[str | None, Era | None]:
    """Record what a client request declares; return its revision and era."""
    params: Any = request.params if isinstance(request.params, dict) else {}
    meta = request.meta
    if request.method == "initialize":
        session.is_modern = False
        session.eras.add("handshake")
        session.introduced.clear()
        session.client = peer_of(params.get("clientInfo")) or session.client
        session.requested_revision = session.handshake = text_of(params.get("protocolVersion"))
        return session.requested_revision, "handshake"
    is_bare = not is_modern(request, http)
    if is_bare and session.lost_seq >= 0 and session.handshake is None:
        # The request may follow a lost handshake.
        return text_of(http.fields.get(VERSION_FIELD)) if http else None, None
    if is_bare and not session.is_modern:
        session.is_modern = False
        session.eras.add("handshake")
        return session.handshake or (text_of(http.fields.get(VERSION_FIELD)) if http else None), "handshake"
    session.is_modern = session.is_modern is not False
    session.eras.add("modern")
    info = meta.get(CLIENT_INFO)
    if info != session.introduced.get("client"):
        session.introduced["client"] = info
        session.client = peer_of(info) or session.client
    revision = text_of(meta.get(PROTOCOL_VERSION)) or (text_of(http.fields.get(VERSION_FIELD)) if http else None)
    session.requested_revision = revision or session.requested_revision
    return revision, "modern"


def on_server_result(call: Call, response: Response, session: Session) -> str | None:
    """Record what a server result declares; return the revision that it settles."""
    result: Any = response.result if isinstance(response.result, dict) else {}
    info = response.meta.get(SERVER_INFO)
    if call.request.method == "initialize":
        session.introduced.clear()
        info, session.agreed_seq = result.get("serverInfo"), response.seq
        session.handshake = session.negotiated_revision = text_of(result.get("protocolVersion")) or call.revision
        session.server = peer_of(info) or session.server
        session.server_capabilities = _object(result.get("capabilities"))
        _declare(session, "handshake", response, result, is_awaited=not session.has_initialized)
        return session.negotiated_revision
    if info != session.introduced.get("server"):
        session.introduced["server"] = info
        session.server = peer_of(info) or session.server
    if call.era == "modern" and (isinstance(result.get("resultType"), str) or "supportedVersions" in result):
        session.server_is_modern = True
    if call.request.method == "server/discover":
        session.server_capabilities = _object(result.get("capabilities")) or session.server_capabilities
        if call.era == "modern":
            is_last = session.last_request.get("client") == call.request.seq
            _declare(session, "modern", response, result, is_awaited=is_last)
    if PROTOCOL_VERSION in call.request.meta:
        session.negotiated_revision = call.revision or session.negotiated_revision
    return call.revision


def advance_state(context: MessageContext) -> None:
    """Advance the handshake of a session: new, init-sent, init-answered, ready."""
    session, message = context.session, context.message
    if isinstance(message, Response):
        if context.answered is not None and context.answered.request is session.initialize:
            if message.is_error:
                session.state, session.initialize = "new", None
            else:
                session.state = "ready" if session.has_initialized else "init-answered"
    elif message.sender != "client" or isinstance(message, InvalidMessage):
        return
    elif isinstance(message, Request) and message.method == "initialize":
        session.epoch += 1
        session.declared.pop("handshake", None)
        session.last_initialize = message.seq
        session.state, session.initialize, session.has_initialized = "init-sent", message, False
        params = message.params if isinstance(message.params, dict) else {}
        session.client_capabilities = _object(params.get("capabilities"))
    elif (
        UNPREFIXED_NOTIFICATIONS.get(message.method, message.method) == "notifications/initialized"
        and context.era != "modern"
    ):
        # An id makes this notification invalid, but does not change its meaning.
        session.has_initialized = True
        if session.state == "init-answered":
            session.state = "ready"


def _declare(session: Session, era: Era, response: Response, result: dict[str, Any], *, is_awaited: bool) -> None:
    """Store the capabilities that a server declares; they stay unknown unless they are an object."""
    capabilities = _object(result.get("capabilities"))
    if capabilities is None:
        session.declared.pop(era, None)
        return
    conn = response.frames[0].conn
    session.declared[era] = declaration_of(capabilities, response.seq, response.t_ns, conn, is_awaited=is_awaited)
    session.gaps |= session.declared[era].uncovered_methods


def text_of(value: object) -> str | None:
    """Returns the text of a member, or None if it is empty or not text."""
    return value if isinstance(value, str) and value else None


def peer_of(info: object) -> Peer | None:
    """Returns the peer in an MCP `Implementation` object, or None if it is not one."""
    if not isinstance(info, dict) or not text_of(info.get("name")):
        return None
    return Peer(info["name"], text_of(info.get("version")) or "")


def _object(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None
