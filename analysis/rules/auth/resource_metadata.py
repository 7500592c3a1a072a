"""The protected resource metadata: where it is, and what it says about the resource."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.login import Leg
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.revisions import Span
from analysis.rules.auth.challenges import document_of
from analysis.rules.base import ERROR, WARNING
from analysis.rules.finding import Finding
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.auth_exchanges import challenges_of
from analysis.rules.support.eras import AllEras, shortened
from analysis.rules.support.login_rules import MAX_REMEMBERED_ADDRESSES, LegRule, is_here, path_of
from analysis.rules.support.origins import is_known_by_https, is_own, is_plain, is_unreachable
from captures.metadata_paths import RESOURCE_METADATA_PATH

_RESOURCE_METADATA: Final = frozenset({"resource-metadata"})
_MISSING_STATUSES: Final = frozenset({401, 403, 404, 405, 410, 501})
"""Statuses that say that the document is not there, or not for everybody."""


class DocumentMissing(LegRule):
    """A challenge names a metadata document that the server does not return.

    **Why it matters.** The client looks for the document where the challenge says that it is. Without it, the client
    does not know which authorization server to use.

    **On the wire.** `WWW-Authenticate: Bearer
    resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"`, then `> GET
    /.well-known/oauth-protected-resource/mcp`, answered 404

    **Instead.** Serve the document at that address without asking for a token, or name the right address. If a reverse
    proxy forwards only the path of the endpoint, let it forward `/.well-known/` too.
    """

    id = "auth/document-missing"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_METADATA)
    once = True
    once_each = True
    source = "RFC 9728 §5.1; 2025-06-18 basic/authorization"
    exchanges = ExchangeOddity.SENT | ExchangeOddity.RECEIVED
    kinds = _RESOURCE_METADATA | {"challenge"}

    def __init__(self) -> None:
        super().__init__()
        self._named_paths: BoundedDict[str, None] = BoundedDict(MAX_REMEMBERED_ADDRESSES)

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        if leg.kind == "challenge":
            for challenge in challenges_of(leg.http) or ():
                address = challenge.parameters.get("resource_metadata", "")
                path = path_of(address) if is_own(address, leg.http) else None
                if path:
                    self._named_paths.put(path, None)
            return ()
        if leg.http.status not in _MISSING_STATUSES or leg.http.path.rstrip("/") not in self._named_paths:
            return ()
        text = f"the document that a challenge names is not available: {leg.http.status} for {shortened(leg.http.path)}"
        return self.findings_at_leg(leg.http, session, text, ERROR)


class MetadataAddress(LegRule):
    """A challenge sends clients to an address of metadata that they cannot or must not use.

    **Why it matters.** Clients refuse metadata over plain http, and do not reach an address of the server's own
    machine. They stop after the challenge.

    **On the wire.** `WWW-Authenticate: Bearer
    resource_metadata="http://example.com/.well-known/oauth-protected-resource/mcp"`

    **Instead.** `resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"`: make it from the
    public URL of the server. Behind a reverse proxy that ends TLS, let the server read `X-Forwarded-Proto`. With `serve
    --public`, an address at another host is a warning.
    """

    id = "auth/metadata-address"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_METADATA)
    once = True
    once_each = True
    source = "RFC 9728 §3, §5.1; 2025-06-18 basic/authorization"
    exchanges = ExchangeOddity.SENT | ExchangeOddity.RECEIVED
    kinds = frozenset({"challenge"})

    def check_leg(self, leg: Leg, session: Session | None) -> Iterator[Finding]:
        http = leg.http
        for challenge in challenges_of(http) or ():
            address = challenge.parameters.get("resource_metadata", "")
            if is_unreachable(address, http):
                text, level = "is at the server's own machine, which clients cannot reach", ERROR
            elif is_plain(address, http) and is_known_by_https(address, http):
                text, level = "is an http address of this server, which clients know by https", ERROR
            elif is_plain(address, http):
                text, level = "is an http address", WARNING
            elif http.has_public_url and path_of(address) is not None and not is_own(address, http):
                text, level = "is at another host", WARNING
            else:
                continue
            yield from self.findings_at_leg(http, session, f"the resource_metadata of a challenge {text}", level)


class ResourceMismatch(LegRule):
    """The protected resource metadata describes another path of the server, or an http address.

    **Why it matters.** The client compares `resource` with the URL that the user entered, and refuses the document if
    they differ. A client that does not compare them asks for a token for something else.

    **On the wire.** `> GET /.well-known/oauth-protected-resource/mcp`, answered `{"resource":"https://example.com/api",
    …}`

    **Instead.** `{"resource":"https://example.com/mcp", …}`: the public URL of the endpoint, with its scheme and path.
    Behind a reverse proxy that ends TLS, a server that does not read `X-Forwarded-Proto` takes itself for http. A path
    above the endpoint is a warning, because some clients accept it. Another host is
    [auth/metadata-document](#authmetadata-document).
    """

    id = "auth/resource-mismatch"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_METADATA)
    once = True
    once_each = True
    source = "RFC 9728 §3.3; 2025-06-18 basic/authorization"
    kinds = _RESOURCE_METADATA

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        document = document_of(leg.http)
        resource = None if document is None else document.get("resource")
        if not isinstance(resource, str) or not is_here(resource, leg.http):
            return ()
        if is_plain(resource, leg.http):
            if is_known_by_https(resource, leg.http):
                text = "the metadata describes an http address of this server, which clients know by https"
                return self.findings_at_leg(leg.http, session, text, ERROR)
            return self.findings_at_leg(leg.http, session, "the metadata describes an http address", WARNING)
        described = path_of(resource)
        inserted = leg.http.path.removeprefix(RESOURCE_METADATA_PATH).rstrip("/")
        # At the root there may be a document about the endpoint, whose path is known from its URL.
        expected_paths = (
            {inserted} if inserted else {"", path_of(leg.http.upstream) if leg.http.upstream else described}
        )
        if described is None or described in expected_paths:
            return ()
        is_above = any(path is not None and path.startswith(f"{described}/") for path in expected_paths)
        text = f"the metadata describes {'a path above the endpoint' if is_above else 'another path of this server'}"
        return self.findings_at_leg(leg.http, session, text, WARNING if is_above else ERROR)


class BearerMethods(LegRule):
    """The protected resource metadata says that the server does not accept tokens in a header.

    **Why it matters.** MCP clients send the token in the header `Authorization` and nowhere else.

    **On the wire.** `{"resource":"https://example.com/mcp","bearer_methods_supported":["body"], …}`

    **Instead.** `"bearer_methods_supported":["header"]`, or leave the member out.
    """

    id = "auth/bearer-methods"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_METADATA)
    level = WARNING
    once = True
    source = "RFC 9728 §2; 2025-06-18 basic/authorization"
    kinds = _RESOURCE_METADATA

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        methods = (document_of(leg.http) or {}).get("bearer_methods_supported")
        if not isinstance(methods, list) or "header" in methods:
            return ()
        return self.findings_at_leg(leg.http, session, "bearer_methods_supported does not include header", WARNING)
