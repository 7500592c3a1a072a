"""A server on the official SDK that is its own authorization server, as in the SDK's example, and knows its public URL.

    python -m tests.peers.sdk_oauth_server PUBLIC

PUBLIC is the origin by which clients reach it, such as `https://mcp.example.org`. It listens on a free loopback port,
then prints its URL. Every client may register, and its user consents at once.
"""

import asyncio
import secrets
import socket
import sys
import time
from urllib.parse import urlsplit

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

LIFETIME_S = 3600


class MemoryProvider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Keeps clients, codes and tokens until the process ends. There are no refresh tokens."""

    def __init__(self) -> None:
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=f"code-{secrets.token_urlsafe(24)}",
            scopes=params.scopes or [],
            expires_at=time.time() + LIFETIME_S,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self._codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        code = self._codes.pop(authorization_code.code)
        token = AccessToken(
            token=f"token-{secrets.token_urlsafe(24)}",
            client_id=code.client_id,
            scopes=code.scopes,
            resource=code.resource,
        )
        self._tokens[token.token] = token
        return OAuthToken(access_token=token.token, expires_in=LIFETIME_S, scope=" ".join(token.scopes))

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._tokens.get(token)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        raise TokenError("invalid_grant")

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._tokens.pop(token.token, None)


def serve(public: str) -> None:
    """Serve until SIGTERM."""
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(public),
        resource_server_url=AnyHttpUrl(f"{public}/mcp"),
        required_scopes=["notes"],
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["notes"], default_scopes=["notes"]
        ),
        validate_token_resource=True,
    )
    server = MCPServer("guarded", auth=auth, auth_server_provider=MemoryProvider(), log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        hosts = TransportSecuritySettings(allowed_hosts=[urlsplit(public).netloc])
        config = uvicorn.Config(server.streamable_http_app(transport_security=hosts), log_level="error")
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    serve(sys.argv[1])
