"""The metadata of the authorization server: whose it is, what it must contain, and whether that is true."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.login import Leg
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.revisions import Span
from analysis.rules.auth.challenges import document_of
from analysis.rules.base import ERROR, NOTE, WARNING
from analysis.rules.finding import Finding, Level
from analysis.rules.support.login_rules import (
    MAX_REMEMBERED_ADDRESSES,
    LegRule,
    is_here,
    path_of,
)
from analysis.rules.support.origins import is_known_by_https, is_local, is_own, is_plain

_SERVER_METADATA: Final = frozenset({"server-metadata"})
_METADATA: Final = _SERVER_METADATA | {"resource-metadata"}
_PLACES: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_ENDPOINTS: Final = {
    "registration_endpoint": "registration",
    "authorization_endpoint": "authorize",
    "token_endpoint": "token",
    "revocation_endpoint": "revocation",
    "introspection_endpoint": "introspection",
    "device_authorization_endpoint": "device",
}
"""Members that announce an endpoint, with the kind of its legs."""
_ADDRESSES: Final = ("issuer", *_ENDPOINTS)
_DEFAULT_GRANTS: Final = ("authorization_code", "implicit")
"""The grants of a document without `grant_types_supported` (RFC 8414 §2)."""
_OWN_ERRORS: Final = ("invalid_", "unauthorized_", "unsupported_")
"""How the errors begin with which only an endpoint of an authorization answers (RFC 6749 §5.2)."""
_ABSENT_STATUSES: Final = frozenset({404, 405, 410, 501})


class IssuerMismatch(LegRule):
    """The issuer in the metadata is not the one whose metadata the client requested.

    **Why it matters.** The client must refuse such a document, because it may impersonate another server.

    **On the wire.** `> GET /.well-known/oauth-authorization-server` at `https://example.com`, answered
    `{"issuer":"https://login.example.net", …}`

    **Instead.** `{"issuer":"https://example.com", …}`: the URL from which the address of the document is derived, which
    is also the one in `authorization_servers`. If the authorization server is elsewhere, name it there, and serve no
    copy of its document. If only the path differs, it is a warning.
    """

    id = "auth/issuer-mismatch"
    who = "server"
    once = True
    once_each = True
    source = "RFC 8414 §3.3; 2026-07-28 basic/authorization/authorization-server-discovery"
    kinds = _METADATA

    def __init__(self) -> None:
        super().__init__()
        self._named_servers: BoundedDict[str, None] = BoundedDict(MAX_REMEMBERED_ADDRESSES)
        """The authorization servers that the metadata of resources names."""

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        document = document_of(leg.http)
        if document is None:
            return ()
        if leg.kind == "resource-metadata":
            servers = document.get("authorization_servers")
            for server in servers[:MAX_REMEMBERED_ADDRESSES] if isinstance(servers, list) else ():
                if isinstance(server, str):
                    self._named_servers.put(server.rstrip("/"), None)
            return ()
        issuer = document.get("issuer")
        if not isinstance(issuer, str) or path_of(issuer) is None:
            return ()
        if is_plain(issuer, leg.http) and is_known_by_https(issuer, leg.http):
            text = "the issuer is an http address of this server, which clients know by https"
            return self.findings_at_leg(leg.http, session, text, ERROR)
        if issuer.rstrip("/") in self._named_servers:
            return ()
        if not is_here(issuer, leg.http):
            return self.findings_at_leg(leg.http, session, "the issuer is another server", ERROR)
        if path_of(issuer) != _issuer_path(leg.http.path):
            return self.findings_at_leg(leg.http, session, "the issuer has another path", WARNING)
        return ()


class ServerMetadata(LegRule):
    """The metadata of the authorization server lacks a required member, or an address in it is not https.

    **Why it matters.** Without the endpoints the login cannot begin, and many clients refuse a document that lacks any
    required member. Over plain http, codes and tokens can be read along the way.

    **On the wire.** `{"issuer":"https://example.com","authorization_endpoint":"https://example.com/authorize"}`

    **Instead.** Name at least `issuer`, `authorization_endpoint`, `token_endpoint` and `response_types_supported`.
    Behind a reverse proxy or a tunnel, let the server make all addresses from its public URL. Plain http is acceptable
    only within one machine.
    """

    id = "auth/server-metadata"
    who = "server"
    once = True
    once_each = True
    source = "RFC 8414 §2; 2025-03-26 basic/authorization"
    kinds = _SERVER_METADATA

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        document = document_of(leg.http)
        if document is None:
            return ()
        findings: list[Finding] = []
        missing_names = [name for name in _required_names(document) if not document.get(name)]
        if missing_names:
            text = f"the metadata of the authorization server has no {' and no '.join(missing_names)}"
            findings += self.findings_at_leg(leg.http, session, text, ERROR)
        unsafe_names = [name for name in _ADDRESSES if _is_unsafe(document.get(name))]
        if unsafe_names:
            text = f"{' and '.join(unsafe_names)} {'is' if len(unsafe_names) == 1 else 'are'} not https"
            findings += self.findings_at_leg(leg.http, session, text, WARNING)
        return findings


class PkceUnsupported(LegRule):
    """The metadata of the authorization server does not say that it supports PKCE with S256.

    **Why it matters.** Since 2025-11-25, clients must refuse such a server: they read the metadata and do not come
    back.

    **On the wire.** `{"issuer":"https://example.com","authorization_endpoint":"…","token_endpoint":"…"}`

    **Instead.** `"code_challenge_methods_supported":["S256"]`, in the OpenID Connect document as well.
    """

    id = "auth/pkce-unsupported"
    who = "server"
    level = NOTE
    levels: ClassVar[Mapping[Span, Level]] = {features.PKCE_METADATA: ERROR}
    once = True
    source = "2025-11-25 basic/authorization"
    kinds = _SERVER_METADATA

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        document = document_of(leg.http)
        if document is None or not document.get("authorization_endpoint") or not _has_code_grant(document):
            return ()
        methods = document.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" in methods:
            return ()
        return self.findings_at_leg(leg.http, session, "code_challenge_methods_supported does not name S256")


class EndpointMissing(LegRule):
    """An endpoint that the metadata announces does not exist.

    **Why it matters.** The client believes the metadata, so its login ends here.

    **On the wire.** `"registration_endpoint":"https://example.com/register"`, then `> POST /register`, answered 404

    **Instead.** Announce only endpoints that exist, at their public addresses. If a reverse proxy forwards only the
    path of the endpoint, let it forward these too.
    """

    id = "auth/endpoint-missing"
    who = "server"
    once = True
    once_each = True
    source = "RFC 8414 §2"
    kinds = _SERVER_METADATA | frozenset(_ENDPOINTS.values())

    def __init__(self) -> None:
        super().__init__()
        self._announced: BoundedDict[tuple[str, str], str] = BoundedDict(MAX_REMEMBERED_ADDRESSES)
        """The members that announce endpoints, by the kind of leg and the path."""

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        http = leg.http
        if leg.kind == "server-metadata":
            document = document_of(http) or {}
            for name, kind in _ENDPOINTS.items():
                address = document.get(name)
                path = path_of(address) if isinstance(address, str) and is_own(address, http) else None
                if path:
                    self._announced.put((kind, path), name)
            return ()
        name = self._announced.get((leg.kind, http.path.rstrip("/")), "")
        # Any other endpoint may refuse a GET.
        if not name or http.status not in _ABSENT_STATUSES or (http.method == "GET" and leg.kind != "authorize"):
            return ()
        if leg.error.startswith(_OWN_ERRORS):
            return ()
        return self.findings_at_leg(http, session, f"the announced {name} does not exist: {http.status}", ERROR)


# ---- shared by the rules


def _issuer_path(path: str) -> str:
    """Returns the path of the issuer to whose metadata a path leads: it is after the well-known part, or before it."""
    before, after = path, ""
    for place in _PLACES:
        before, found, after = path.partition(place)
        if found:
            break
    return (before or after).rstrip("/")


def _grants(document: Mapping[str, Any]) -> list[Any]:
    grants = document.get("grant_types_supported")
    return grants if isinstance(grants, list) else [*_DEFAULT_GRANTS]


def _has_code_grant(document: Mapping[str, Any]) -> bool:
    return "authorization_code" in _grants(document)


def _required_names(document: Mapping[str, Any]) -> list[str]:
    """Returns the members that RFC 8414 §2 requires of a server with these grants."""
    grants = _grants(document)
    needs_page = "authorization_code" in grants or "implicit" in grants
    return [
        "issuer",
        *(["authorization_endpoint"] if needs_page else []),
        *(["token_endpoint"] if grants != ["implicit"] else []),
        "response_types_supported",
    ]


def _is_unsafe(address: object) -> bool:
    if not isinstance(address, str) or not address:
        return False
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and not is_local(parts.hostname or "")
    except ValueError:
        return False
