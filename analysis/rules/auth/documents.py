"""Documents that say where to get tokens, and OAuth requests, as far as the recorder sees either."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.revisions import Span, before
from analysis.rules.auth.challenges import document_of
from analysis.rules.base import ERROR, NOTE, WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.auth_exchanges import RANK_2025_06_18, RevisionLearningRule
from analysis.rules.support.eras import AllEras
from analysis.rules.support.login_rules import has_old_discovery
from analysis.rules.support.origins import (
    is_known_by_https,
    is_local,
    is_own,
    is_plain,
    is_unreachable,
    may_be_public,
)
from captures.metadata_paths import RESOURCE_METADATA_PATH, SERVER_METADATA_PATH

_MAX_PARAMETERS: Final = 100
_NAMES: Final = frozenset({"response_type", "client_id"})
"""Parameters of which a request for authorization has at least one."""
_PUSHED_NAMES: Final = frozenset({"request_uri", "request"})
"""Parameters that contain the others, or say where these are (RFC 9101)."""


class MetadataDocument(RevisionLearningRule):
    """The document about the protected resource names no usable authorization server, or is about another resource.

    **Why it matters.** Clients compare `resource` with the address of the document, and refuse the document if the two
    do not match. Without an authorization server that it can reach by https, the client has nowhere to get a token.

    **On the wire.** `< HTTP/1.1 200 OK` `{"resource":"https://example.com/mcp","authorization_servers":[]}`

    **Instead.** `{"resource":"https://example.com/mcp","authorization_servers":["https://login.example.com"]}`. If the
    server was reached by an address of the recorder's machine or of a private network, a public name is not reported:
    behind a tunnel or a gateway, clients may know the server by that name. With `serve --public`, it is known.
    """

    id = "auth/metadata-document"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_METADATA)
    source = "2025-06-18 basic/authorization"
    http_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        self.rank_for(http, session)
        return ()

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.metadata is None or not http.path.startswith(RESOURCE_METADATA_PATH) or http.is_from_recorder:
            return ()
        rank, document = self.rank_for(http, session), document_of(http)
        if document is None or (rank is not None and rank < RANK_2025_06_18):
            return ()
        servers, resource = document.get("authorization_servers"), document.get("resource")
        findings: list[Finding] = []
        findings += self._check_servers(servers, http, session)
        if not isinstance(servers, list) or not servers:
            findings += self.findings_at_leg(http, session, "the document names no authorization server", ERROR)
        if isinstance(resource, str) and not is_own(resource, http) and not may_be_public(resource, http):
            text = "the document is about a resource of another origin"
            findings += self.findings_at_leg(http, session, text, ERROR)
        return findings

    def _check_servers(self, servers: object, http: HttpExchange, session: Session | None) -> Iterator[Finding]:
        """Yields the findings about the addresses of the authorization servers, each once."""
        addresses = servers[:_MAX_PARAMETERS] if isinstance(servers, list) else []
        names = [address for address in addresses if isinstance(address, str)]
        plain_names = [name for name in names if is_plain(name, http)]
        if any(is_unreachable(name, http) for name in names):
            text = "authorization_servers has an address of the server's own machine, which clients cannot reach"
            yield from self.findings_at_leg(http, session, text, ERROR)
        if any(is_known_by_https(name, http) for name in plain_names):
            text = "authorization_servers has an http address of this server, which clients know by https"
            yield from self.findings_at_leg(http, session, text, ERROR)
        elif plain_names:
            yield from self.findings_at_leg(http, session, "authorization_servers has an http address", WARNING)


class MetadataPath(RevisionLearningRule):
    """The document about the authorization server is requested at a path other than the root, or without a version.

    **Why it matters.** In 2025-03-26 the document is at the root of the host, regardless of the endpoint's path.
    Servers that support several revisions need to know which revision the client speaks.

    **On the wire.** `> GET /.well-known/oauth-authorization-server/mcp`

    **Instead.** `GET /.well-known/oauth-authorization-server` with `MCP-Protocol-Version: 2025-03-26`
    """

    id = "auth/metadata-path"
    who = "client"
    versions: ClassVar[Span] = AllEras(*features.METADATA_AT_ROOT)
    level = NOTE
    source = "2025-03-26 basic/authorization"

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        rank = self.rank_for(http, session)
        if (
            not features.METADATA_AT_ROOT.includes(rank)
            or SERVER_METADATA_PATH not in http.path
            or (VERSION_FIELD not in http.fields and len(self.ranks) > 1)
        ):
            return ()
        if http.path != SERVER_METADATA_PATH:
            text = "the document about the authorization server is requested at a path other than the root"
        elif VERSION_FIELD not in http.fields:
            text = "the document about the authorization server is requested without MCP-Protocol-Version"
        else:
            return ()
        return self.findings_at_leg(http, session, text, self.level)


class OauthRequest(RevisionLearningRule):
    """A request for authorization lacks the parameters that protect it.

    **Why it matters.** Without a code challenge, anyone who intercepts the code can get the token. Without `resource`,
    the token is valid for other servers too. If the redirect URI uses plain http, the code travels in plain text.

    **On the wire.** `> GET /authorize?response_type=code&client_id=…&redirect_uri=http://example.com/cb`

    **Instead.** Add `code_challenge`, `code_challenge_method=S256` and `resource`; redirect to https, or to the user's
    own machine.
    """

    id = "auth/oauth-request"
    who = "client"
    versions: ClassVar[Span] = AllEras(*features.AUTHORIZATION)
    impact = Impact.SECURITY
    source = "2025-03-26 basic/authorization; 2025-06-18 basic/authorization"
    http_methods: ClassVar[frozenset[str]] = frozenset({"POST", "GET"})

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        rank, facts = self.rank_for(http, session), http.oauth or {}
        is_about_authorization = facts.get("leg") == "authorize" or http.path.endswith("/authorize")
        if before(features.AUTHORIZATION).includes(rank) or not is_about_authorization:
            return ()
        parameters = _query_parameters(http) if http.method == "GET" else {}
        # A form that is posted may be one of the server's own pages; parameters may also have been pushed (RFC 9126).
        is_whole = not parameters.keys().isdisjoint(_NAMES) and parameters.keys().isdisjoint(_PUSHED_NAMES)
        findings: list[Finding] = []
        method = parameters.get("code_challenge_method") or facts.get("code_challenge_method")
        address = parameters.get("redirect_uri") or (facts.get("redirect_uri") if http.method == "POST" else None)
        if is_whole and not parameters.get("code_challenge"):
            findings += self.findings_at_leg(http, session, "a request for authorization has no code_challenge", ERROR)
        elif method != "S256" and (is_whole or method):
            findings += self.findings_at_leg(http, session, "the code_challenge_method is not S256", WARNING)
        login = self.fold.logins.of_exchange(http.number)
        needs_resource = is_whole and rank is not None and rank >= RANK_2025_06_18
        if needs_resource and not parameters.get("resource") and not (login and has_old_discovery(login)):
            findings += self.findings_at_leg(http, session, "a request for authorization has no resource", ERROR)
        if address and not _is_safe(address):
            findings += self.findings_at_leg(
                http, session, "the redirect_uri uses neither https nor this machine", ERROR
            )
        return findings


# ---- shared by the rules


def _query_parameters(http: HttpExchange) -> dict[str, str]:
    """Returns the query parameters of a request; values that may be secret are hashes."""
    try:
        return dict(parse_qsl(http.target.partition("?")[2], keep_blank_values=True, max_num_fields=_MAX_PARAMETERS))
    except ValueError:
        return {}


def _is_safe(address: str) -> bool:
    try:
        parts = urlsplit(unquote(address) if "%3A" in address.upper() else address)
        host = parts.hostname or ""
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_local(host))
