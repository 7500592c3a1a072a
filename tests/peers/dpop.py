"""DPoP (RFC 9449) for clients of the official SDK, which lack it: a transport below them that proves possession."""

import base64
import hashlib
import json
import time
import uuid

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm


class DpopTransport(httpx2.AsyncHTTPTransport):
    """Adds a proof to requests for a token and to those with one, and repeats a request with the nonce that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(ECAlgorithm.to_jwk(self._key.public_key()))
        self._jwk = {name: public[name] for name in ("kty", "crv", "x", "y")}
        self._nonces: dict[str, str] = {}
        """The last nonce of each origin."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asks_for_token = request.method == "POST" and b"grant_type=" in request.content
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not asks_for_token and not token:
            return await super().handle_async_request(request)
        bound = "" if asks_for_token else token
        if bound:
            request.headers["authorization"] = f"DPoP {bound}"
        response = await self._send(request, bound)
        if "dpop-nonce" in response.headers and response.status_code in (400, 401):
            await response.aread()
            response = await self._send(request, bound)
        return await self._as_bearer(response) if asks_for_token else response

    async def _send(self, request: httpx2.Request, token: str) -> httpx2.Response:
        origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
        claims = {
            "htm": request.method,
            "htu": f"{origin}{request.url.path}",
            "iat": int(time.time()),
            "jti": str(uuid.uuid4()),
        }
        if token:
            digest = hashlib.sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if origin in self._nonces:
            claims["nonce"] = self._nonces[origin]
        header = {"typ": "dpop+jwt", "jwk": self._jwk}
        request.headers["dpop"] = jwt.encode(claims, self._key, "ES256", headers=header)
        response = await super().handle_async_request(request)
        if nonce := response.headers.get("dpop-nonce"):
            self._nonces[origin] = nonce
        return response

    async def _as_bearer(self, response: httpx2.Response) -> httpx2.Response:
        """The SDK accepts no other type of token than Bearer."""
        body = (await response.aread()).replace(b'"DPoP"', b'"Bearer"')
        return httpx2.Response(response.status_code, headers={"content-type": "application/json"}, content=body)
