"""A login at a server's public address, behind nginx with TLS, is the same with `serve --public` before the server.

The server is one of the official SDK, and its own authorization server; the client is one of the official SDK.
"""

import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from analysis.reading import Reading
from tests.analysis.traces import alarms
from tests.harness import DEADLINE_S, ROOT, Place
from tests.http_harness import Authority, free_port, serving
from tests.nginx import nginx
from tests.peers.conformance_client import REDIRECT, Browser, MemoryStorage

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

SITE = """
server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {root}/server.pem;
    ssl_certificate_key {root}/server.key;
    location / {{
        proxy_pass {upstream};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_buffering off;
    }}
}}
"""
LEGS = [
    ("POST", "/mcp", 401),
    ("GET", "/.well-known/oauth-protected-resource/mcp", 200),
    ("GET", "/.well-known/oauth-authorization-server", 200),
    ("POST", "/register", 201),
    ("GET", "/authorize", 302),
    ("POST", "/token", 200),
]
Exchanges = list[tuple[str, str, int]]


@contextmanager
def guarded(place: Place, public: str) -> Iterator[str]:
    """Run the server; yields the URL at which it listens."""
    session = place.start([place.python, "-m", "tests.peers.sdk_oauth_server", public], direct=True, cwd=ROOT)
    try:
        yield session.line().decode().strip().removesuffix("/mcp")
    finally:
        session.process.terminate()
        session.end()


async def log_in(url: str, trust: ssl.SSLContext) -> tuple[Exchanges, str]:
    """Log in and call a tool; returns the exchanges and the token."""
    seen: Exchanges = []

    async def on_response(response: httpx2.Response) -> None:
        seen.append((response.request.method, response.request.url.path, response.status_code))

    metadata = OAuthClientMetadata(client_name="outside", redirect_uris=[REDIRECT])
    browser, storage = Browser(trust, on_response), MemoryStorage()
    auth = OAuthClientProvider(url, metadata, storage, browser.open, browser.result)
    with anyio.fail_after(DEADLINE_S):
        async with (
            httpx2.AsyncClient(
                auth=auth, verify=trust, timeout=DEADLINE_S, event_hooks={"response": [on_response]}
            ) as http,
            Client(streamable_http_client(url, http_client=http), cache=None) as client,
        ):
            result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}
    tokens = await storage.get_tokens()
    assert tokens is not None
    return seen, tokens.access_token


@pytest.mark.costly("the SDK's server starts, and its client logs in twice, over TLS")
def test_a_login_at_the_public_address_is_the_same(place: Place) -> None:
    authority = Authority(place.root)
    authority.context("DNS:localhost")
    trust = ssl.create_default_context(cafile=str(authority.file))
    port = free_port()
    public = f"https://localhost:{port}"
    with guarded(place, public) as server:
        with nginx(place.root, SITE.format(port=port, root=place.root, upstream=server), port):
            direct, _ = anyio.run(log_in, f"{public}/mcp", trust)
        with serving(place, f"{server}/mcp", "--public", f"{public}/mcp") as served:
            front = served.url.removesuffix("/mcp")
            with nginx(place.root, SITE.format(port=port, root=place.root, upstream=front), port):
                recorded, token = anyio.run(log_in, f"{public}/mcp", trust)
            exchanges = served.ended(len(recorded))
    assert direct[: len(LEGS)] == LEGS
    assert recorded == direct
    assert sorted(ended["response"]["status"] for ended in exchanges) == sorted(status for _, _, status in recorded)
    assert not any("flags" in ended for ended in exchanges)
    assert token.encode() not in served.capture.read_bytes()
    reading = Reading(served.capture)
    for _ in reading.to_end():
        pass
    (login,) = reading.fold.logins.all()
    assert [(leg.http.method, leg.http.path, leg.http.status) for leg in login.legs] == LEGS
    assert (login.outcome, login.guessed_count, login.is_over, login.server_elsewhere) == ("granted", 0, True, "")
    assert [rule for rule, _, _ in alarms(served.capture)] == ["auth/scope-missing"], "the SDK's challenges have none"
