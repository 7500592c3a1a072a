"""Which extensions each side is known to have declared: in a handshake, by `server/discover`, or in a request."""

from collections.abc import Iterator

from analysis.conversation.message import Request, Side
from analysis.conversation.session import CLIENT_CAPABILITIES, Session
from analysis.protocol.extensions import unknown_extensions


def unknown_declarations(session: Session, request: Request | None) -> dict[str, set[Side]]:
    """Returns the unknown extensions that are declared, and by which sides. The identifiers are untrusted texts.

    Args:
        session: the session, with what has been declared in it so far.
        request: a request that may declare extensions itself; None for none.
    """
    sides_by_identifier: dict[str, set[Side]] = {}
    for side, capabilities in _declarations(session, request):
        for identifier in unknown_extensions(capabilities):
            sides_by_identifier.setdefault(identifier, set()).add(side)
    return sides_by_identifier


def _declarations(session: Session, request: Request | None) -> Iterator[tuple[Side, object]]:
    """Yields all capabilities that are known to be declared, each with the side that declares it."""
    for declaration in session.declared.values():
        yield "server", declaration.capabilities
    yield "server", session.server_capabilities
    yield "client", session.client_capabilities
    if request is not None:
        yield "client", request.meta.get(CLIENT_CAPABILITIES)
