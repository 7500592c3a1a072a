"""A client on the official SDK for the login scenarios (`auth/…`) of the official conformance suite.

    python -m tests.peers.conformance_client URL

The suite names the scenario in `MCP_CONFORMANCE_SCENARIO`, the revision in `MCP_CONFORMANCE_PROTOCOL_VERSION`, and the
credentials that a scenario provides, as JSON, in `MCP_CONFORMANCE_CONTEXT`. The client logs in, lists the tools and
calls the first one. Where the user's browser would open, it requests the page itself and reads the code from the
redirect.
"""

import asyncio
import json
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Generator
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.peers.dpop import DpopTransport

STATELESS = "2026-07-28"
REDIRECT = AnyUrl("http://localhost:3000/callback")
METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The client-id metadata document that the suite expects. No request is made to it."""
TIMEOUT_S = 60.0
ResponseHook = Callable[[httpx2.Response], Awaitable[None]]


class MemoryStorage(TokenStorage):
    """Keeps tokens and the registration until the process ends."""

    def __init__(self, registration: OAuthClientInformationFull | None = None) -> None:
        self._tokens: OAuthToken | None = None
        self._registration = registration

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._registration

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._registration = client_info


class Browser:
    """The user's browser, whose user consents to everything."""

    def __init__(self, trust: ssl.SSLContext | bool = True, *on_response: ResponseHook) -> None:
        """Use `trust` for TLS, and call `on_response` for each response."""
        self._trust, self._hooks = trust, list(on_response)
        self._result: AuthorizationCodeResult | None = None

    async def open(self, address: str) -> None:
        """Request the authorization page, and keep what its redirect says."""
        hooks = {"response": self._hooks}
        async with httpx2.AsyncClient(verify=self._trust, timeout=TIMEOUT_S, event_hooks=hooks) as client:
            response = await client.get(address, follow_redirects=False)
        query = {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}
        self._result = AuthorizationCodeResult(
            code=query.get("code", ""), state=query.get("state"), iss=query.get("iss")
        )

    async def result(self) -> AuthorizationCodeResult:
        """Returns what the last redirect said."""
        assert self._result is not None
        return self._result


def with_code(url: str, context: dict[str, str]) -> httpx2.Auth:
    """Logs in with an authorization code, with the suite's registration if it provides one."""
    registration = None
    if "client_id" in context:
        registration = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context.get("client_secret"),
            redirect_uris=[REDIRECT],
            token_endpoint_auth_method="client_secret_basic" if "client_secret" in context else "none",
            issuer=context.get("issuer"),
        )
    metadata = OAuthClientMetadata(
        client_name="conformance-client",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    browser = Browser()
    storage = MemoryStorage(registration)
    return OAuthClientProvider(url, metadata, storage, browser.open, browser.result, client_metadata_url=METADATA_URL)


def with_secret(url: str, context: dict[str, str]) -> httpx2.Auth:
    """Logs in as the client itself, with a secret."""
    return ClientCredentialsOAuthProvider(url, MemoryStorage(), context["client_id"], context["client_secret"])


def with_signature(url: str, context: dict[str, str]) -> httpx2.Auth:
    """Logs in as the client itself, with a signed assertion."""
    name = context["client_id"]
    signing = SignedJWTParameters(
        issuer=name,
        subject=name,
        signing_key=context["private_key_pem"],
        signing_algorithm=context.get("signing_algorithm", "ES256"),
    )
    return PrivateKeyJWTOAuthProvider(url, MemoryStorage(), name, signing.create_assertion_provider())


class WorkloadAuth(httpx2.Auth):
    """Exchanges the assertion that the platform of a workload has issued for a token (RFC 7523, 2.1)."""

    def __init__(self, url: str, assertion: str) -> None:
        issuer = announced_issuer(url)
        metadata = httpx2.get(f"{issuer.rstrip('/')}/.well-known/oauth-authorization-server", timeout=TIMEOUT_S).json()
        form = {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": assertion, "resource": url}
        answer = httpx2.post(metadata["token_endpoint"], data=form, timeout=TIMEOUT_S).json()
        self._token = str(answer["access_token"])

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["authorization"] = f"Bearer {self._token}"
        yield request


def with_workload(url: str, context: dict[str, str]) -> httpx2.Auth:
    """Logs in with an assertion of the workload's platform."""
    return WorkloadAuth(url, context["valid_jwt"])


def with_enterprise(url: str, context: dict[str, str]) -> httpx2.Auth:
    """Logs in with an assertion for which the enterprise's identity provider exchanges the user's ID token."""

    async def exchanged(audience: str, resource: str) -> str:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": context["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": context["idp_client_id"],
            "audience": audience,
            "resource": resource,
        }
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
            response = await client.post(context["idp_token_endpoint"], data=form)
        return str(response.json()["access_token"])

    issuer = context.get("issuer") or announced_issuer(url)
    return IdentityAssertionOAuthProvider(
        url,
        MemoryStorage(),
        context["client_id"],
        context["client_secret"],
        issuer,
        exchanged,
        token_endpoint_auth_method="client_secret_basic",
    )


def announced_issuer(url: str) -> str:
    """Returns the authorization server that the server at `url` names in its metadata."""
    parts = urlsplit(url)
    metadata = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    return str(httpx2.get(metadata, timeout=TIMEOUT_S).json()["authorization_servers"][0])


LOGINS = {
    "auth/client-credentials-basic": with_secret,
    "auth/client-credentials-jwt": with_signature,
    "auth/enterprise-managed-authorization": with_enterprise,
    "auth/wif-jwt-bearer": with_workload,
}
"""How to log in, by scenario; in all others with a code."""


async def talk(url: str) -> None:
    """Log in, list the tools and call the first one."""
    login = LOGINS.get(os.environ["MCP_CONFORMANCE_SCENARIO"], with_code)
    auth = login(url, json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))
    mode = STATELESS if os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] == STATELESS else "legacy"
    has_dpop = os.environ["MCP_CONFORMANCE_SCENARIO"].startswith("auth/dpop")
    below = DpopTransport() if has_dpop else None
    async with httpx2.AsyncClient(auth=auth, timeout=TIMEOUT_S, transport=below) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:
            tools = (await client.list_tools()).tools
            if tools:
                await client.call_tool(tools[0].name, {})


if __name__ == "__main__":
    asyncio.run(talk(sys.argv[1]))
