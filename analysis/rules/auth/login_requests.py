"""What the legs of one login must agree on: the client's parameters, and the issuer in redirects."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final
from urllib.parse import urlsplit

from analysis.conversation.login import DISCOVERY, Leg, Login
from analysis.protocol import features
from analysis.protocol.revisions import Span
from analysis.rules.base import ERROR, WARNING
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.auth_exchanges import RANK_2025_06_18
from analysis.rules.support.eras import AllEras
from analysis.rules.support.exchanges import JSON
from analysis.rules.support.login_rules import (
    LoginRule,
    has_old_discovery,
    is_certain,
    is_here,
    is_response_read,
    is_same_address,
    legs_of,
    metadata_of,
    path_of,
)

_MAX_PARAMETERS: Final = 100
_CODE_GRANT: Final = "authorization_code"
_OK: Final = 200
_FORBIDDEN: Final = 403


class MetadataType(LoginRule):
    """A server that asks for a token returns metadata that is not JSON, or not declared as JSON.

    **Why it matters.** The client requests a document, gets a page with status 200, and gives up, or fails later.
    Single-page apps often answer every unknown address with their page.

    **On the wire.** `> GET /.well-known/oauth-authorization-server`, answered `200 OK`, `Content-Type: text/html`

    **Instead.** `Content-Type: application/json` with a JSON object, or 404 if there is no such document.
    """

    id = "auth/metadata-type"
    who = "server"
    level = WARNING
    once = True
    once_each = True
    source = "RFC 9728 §3.2; RFC 8414 §3.2"

    def check_login(self, login: Login) -> Iterator[Finding]:
        # A server that asks for no token need not know these addresses.
        is_challenged = any(leg.kind == "challenge" for leg in login.legs)
        for leg in login.legs if is_challenged else ():
            http = leg.http
            if leg.kind not in DISCOVERY or http.status != _OK or not is_response_read(http):
                continue
            what = "resource" if leg.kind == "resource-metadata" else "server"
            if http.metadata is None:
                yield from self.findings_at(leg, f"the {what} metadata is not a JSON object", WARNING)
            elif http.media_type != JSON and not http.media_type.endswith("+json"):
                text = f"the {what} metadata is not declared as {JSON}"
                yield from self.findings_at(leg, text, WARNING)


class TokenRequest(LoginRule):
    """A request for a token does not match the request for authorization before it, or names no resource.

    **Why it matters.** Without `resource`, the token is valid for other servers too, or for none. A server must refuse
    a code if `redirect_uri` is not the one for which it was issued.

    **On the wire.** `> POST /token` with `grant_type=authorization_code&code=…&redirect_uri=…` and without `resource`

    **Instead.** Send `resource` with every request for a token, also with `refresh_token`, and the same `resource` and
    `redirect_uri` as with the request for authorization.
    """

    id = "auth/token-request"
    who = "client"
    impact = Impact.SECURITY
    once = True
    once_each = True
    source = "RFC 6749 §4.1.3; RFC 8707 §2; 2025-06-18 basic/authorization"

    def check_login(self, login: Login) -> Iterator[Finding]:
        rank = self.rank_of(login)
        needs_resource = rank is not None and rank >= RANK_2025_06_18 and not has_old_discovery(login)
        for leg in login.legs:
            grant = leg.facts.get("grant_type", "") if leg.kind == "token" else ""
            if grant not in (_CODE_GRANT, "refresh_token") or leg.http.method != "POST":
                continue
            if needs_resource and "resource" not in leg.facts:
                level = ERROR if grant == _CODE_GRANT else WARNING
                yield from self.findings_at(leg, f"a request for a token ({grant}) has no resource", level)
            if grant == _CODE_GRANT and is_certain(login):
                yield from self._compare(login, leg)

    def _compare(self, login: Login, leg: Leg) -> Iterator[Finding]:
        for name in ("redirect_uri", "resource"):
            value = leg.facts.get(name, "")
            earlier = {other.facts[name] for other in legs_of(login, "authorize") if name in other.facts}
            if value and len(earlier) == 1 and not any(is_same_address(value, other) for other in earlier):
                text = f"a request for a token has a different {name} from the request for authorization"
                yield from self.findings_at(leg, text, ERROR if name == "redirect_uri" else WARNING)


class ResourceParameter(LoginRule):
    """A client asks for authorization for a resource that is not this server.

    **Why it matters.** The token will be for something else, so the server must refuse it, or the authorization server
    refuses the request with `invalid_target`.

    **On the wire.** `> GET /authorize?…&resource=https://example.com/api`, although the metadata says
    `"resource":"https://example.com/mcp"`

    **Instead.** Send the `resource` that the metadata names.
    """

    id = "auth/resource-parameter"
    who = "client"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_PARAMETER)
    level = WARNING
    once = True
    source = "RFC 8707 §2; 2025-06-18 basic/authorization"

    def check_login(self, login: Login) -> Iterable[Finding]:
        described = [leg.facts.get("resource", "") for leg in legs_of(login, "resource-metadata")]
        if not any(described) or not is_certain(login):
            return ()
        for leg in login.legs:
            asked, http = leg.facts.get("resource", ""), leg.http
            if leg.kind != "authorize" or not asked or any(is_same_address(asked, other) for other in described):
                continue
            if not (is_here(asked, http) and path_of(asked) in _endpoint_paths(login)):
                text = "the resource of a request for authorization is not the one in the metadata"
                return self.findings_at(leg, text, WARNING)
        return ()


class IssParameter(LoginRule):
    """A redirect with a code lacks the issuer that the metadata promises, or names a different one.

    **Why it matters.** Clients that check the issuer, as they must since 2026-07-28, refuse the code. The check
    protects them from mix-up attacks, in which another server issued the code.

    **On the wire.** `< Location: http://127.0.0.1:8080/callback?code=…&state=…`, although the metadata says
    `"authorization_response_iss_parameter_supported":true`

    **Instead.** Add `iss`, exactly equal to `issuer` in the metadata, or do not promise it.
    """

    id = "auth/iss-parameter"
    who = "server"
    level = WARNING
    levels: ClassVar[Mapping[Span, Level]] = {features.ISSUER_PARAMETER: ERROR}
    once = True
    once_each = True
    source = "RFC 9207 §2; 2026-07-28 basic/authorization"

    def check_login(self, login: Login) -> Iterator[Finding]:
        metadata = legs_of(login, "server-metadata")
        issuers = {leg.facts["iss"] for leg in metadata if "iss" in leg.facts}
        if len(issuers) != 1:
            return
        is_promised = metadata_of(login).get("authorization_response_iss_parameter_supported") is True
        level = self.level_at(self.rank_of(login))
        for leg in legs_of(login, "authorize"):
            if not leg.http.is_redirect or "code" not in _parameter_names(leg.http.location):
                continue
            issuer = leg.facts.get("iss")
            if issuer is not None and issuer not in issuers:
                text = "a redirect with a code names a different issuer from the metadata"
                yield from self.findings_at(leg, text, level)
            elif issuer is None and is_promised and leg.http.started_ref is not None:
                text = "a redirect with a code has no iss, which the metadata promises"
                yield from self.findings_at(leg, text, level)


class StepUpScope(LoginRule):
    """After a 403, the client asks for authorization without the scopes that the challenge named.

    **Why it matters.** The user is asked again, and the same request is refused again.

    **On the wire.** `WWW-Authenticate: Bearer error="insufficient_scope", scope="files:write"`, then `> GET
    /authorize?…&scope=files:read`

    **Instead.** Ask for the scopes that the challenge names, and for those that the client had before.
    """

    id = "auth/step-up-scope"
    who = "client"
    versions: ClassVar[Span] = AllEras(*features.SCOPE_CHALLENGES)
    level = WARNING
    impact = Impact.COST
    source = "2025-11-25 basic/authorization"

    def check_login(self, login: Login) -> Iterable[Finding]:
        if not is_certain(login):
            return ()
        needed: set[str] = set()
        for leg in login.legs:
            scopes = set(leg.facts.get("scope", "").split())
            if leg.kind == "challenge" and leg.http.status == _FORBIDDEN and leg.error == "insufficient_scope":
                needed |= scopes
            elif leg.kind == "authorize" and "response_type" in leg.facts and needed and not needed <= scopes:
                text = "a request for authorization lacks scopes that the challenge of a 403 named"
                return self.findings_at(leg, text, WARNING)
        return ()


# ---- shared by the rules


def _endpoint_paths(login: Login) -> set[str | None]:
    """Returns the paths at which the client of a login talks to the server."""
    exchanges = [leg.http for leg in login.legs if leg.kind == "challenge"]
    exchanges += [] if login.accepted is None else [login.accepted]
    return {path_of(login.first.http.upstream), *(http.path.rstrip("/") for http in exchanges)}


def _parameter_names(address: str) -> set[str]:
    """Returns the names of the parameters in the query of a URL."""
    try:
        query = urlsplit(address).query
    except ValueError:
        return set()
    return {pair.partition("=")[0] for pair in query.split("&", _MAX_PARAMETERS)[:_MAX_PARAMETERS]}
