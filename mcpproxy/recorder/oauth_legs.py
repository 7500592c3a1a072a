"""Recognises the legs of an authorization: HTTP exchanges that request metadata, a client id, a code or a token.

A leg is recognised by its path: a `.well-known` path, or one that the server's own metadata announces. At other usual
paths, such as `/token`, the content must prove it as well, because any server may have such a path. What is kept of a
leg is decided in `mcpproxy.recorder.oauth_exchange`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import unquote_to_bytes, urlsplit

from captures import metadata_paths

Leg = Literal[
    "resource-metadata",
    "server-metadata",
    "registration",
    "authorize",
    "callback",
    "token",
    "revocation",
    "introspection",
    "device",
    "challenge",
]
"""A step of an authorization: a value of the member `leg` in FORMAT.md."""

MAX_ANNOUNCED_PATHS: Final = 64
"""The maximum number of announced paths that are kept."""
MAX_PATH_BYTES: Final = 2048
"""The maximum length of a path; only the beginning of longer ones is compared."""
WELL_KNOWN: Final = metadata_paths.WELL_KNOWN.encode()
_DOCUMENTS: Final[Mapping[bytes, Leg]] = {
    metadata_paths.RESOURCE_METADATA_NAME.encode(): "resource-metadata",
    metadata_paths.SERVER_METADATA_NAME.encode(): "server-metadata",
    metadata_paths.OPENID_METADATA_NAME.encode(): "server-metadata",
}
_ENDPOINTS: Final[Mapping[str, Leg]] = {
    "authorization_endpoint": "authorize",
    "token_endpoint": "token",
    "registration_endpoint": "registration",
    "revocation_endpoint": "revocation",
    "introspection_endpoint": "introspection",
    "device_authorization_endpoint": "device",
}
"""The members of metadata that announce an endpoint (RFC 7591, 7662, 8414 and 8628)."""
_USUAL_NAMES: Final[Mapping[bytes, Leg]] = {
    b"authorize": "authorize",
    b"authorization": "authorize",
    b"auth": "authorize",
    b"token": "token",
    b"tokens": "token",
    b"register": "registration",
    b"registration": "registration",
    b"revoke": "revocation",
    b"revocation": "revocation",
    b"introspect": "introspection",
    b"introspection": "introspection",
    b"device": "device",
    b"device_authorization": "device",
    b"callback": "callback",
    b"cb": "callback",
}
"""The last segments of usual paths."""
_PROOFS: Final[Mapping[Leg, tuple[frozenset[str], ...]]] = {
    "authorize": (frozenset({"response_type"}), frozenset({"request_uri", "client_id"})),
    "token": (frozenset({"grant_type"}),),
    "registration": (frozenset({"redirect_uris"}),),
    "revocation": (frozenset({"token"}),),
    "introspection": (frozenset({"token"}),),
    "device": (frozenset({"client_id"}),),
    "callback": (frozenset({"state", "code"}), frozenset({"state", "error"})),
}
"""The parameters that prove a leg at a usual path: all of one set."""


def path_of(target: bytes) -> bytes:
    """Returns the path of a target in one spelling: without origin, query, percent-encoding and a final slash."""
    path = target.partition(b"?")[0].partition(b"#")[0]
    if not path.startswith(b"/"):
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return unquote_to_bytes(path[:MAX_PATH_BYTES]).rstrip(b"/") or b"/"


def metadata_leg(path: bytes) -> Leg | None:
    """Returns the leg of a request for metadata, or None; the path of an issuer or resource may precede or follow."""
    _, mark, rest = path.partition(WELL_KNOWN)
    return _DOCUMENTS.get(rest.partition(b"/")[0]) if mark else None


def usual_leg(path: bytes) -> Leg | None:
    """Returns the leg for which a path is usual, or None; only the content can prove that it is that leg."""
    return _USUAL_NAMES.get(path.rpartition(b"/")[2].lower())


def is_proven(leg: Leg, parameters: Mapping[str, Any]) -> bool:
    """Returns whether the parameters of a request, in its query, form or JSON object, prove a leg at a usual path."""
    return any(names <= parameters.keys() for names in _PROOFS.get(leg, ()))


def announced_paths(document: Mapping[str, Any], is_own: Callable[[str], bool]) -> Iterator[tuple[bytes, Leg]]:
    """Yields the path and the leg of each endpoint that a metadata document announces.

    Args:
        document: a parsed document of an authorization server.
        is_own: returns whether an address belongs to the recorded server; endpoints elsewhere are skipped.
    """
    for name, leg in _ENDPOINTS.items():
        address = document.get(name)
        if not isinstance(address, str) or not is_own(address):
            continue
        try:
            path = urlsplit(address).path
        except ValueError:
            continue
        yield path_of(path.encode("utf-8", "replace") or b"/"), leg


class AnnouncedLegs:
    """The paths that the metadata of a server announces for legs."""

    def __init__(self, endpoint: bytes | None = None) -> None:
        """Start without paths; `endpoint` is the path of MCP, which is never that of a leg, or None if unknown."""
        self._endpoint = None if endpoint is None else path_of(endpoint)
        self._legs: dict[bytes, Leg] = {}

    def add(self, path: bytes, leg: Leg) -> None:
        """Add the leg of a path; the first one counts, and the number of paths is limited."""
        if path != self._endpoint and len(self._legs) < MAX_ANNOUNCED_PATHS:
            self._legs.setdefault(path, leg)

    def leg_of(self, target: bytes) -> Leg | None:
        """Returns the leg that is announced for a request's target, or None."""
        return self._legs.get(path_of(target)) if self._legs else None
