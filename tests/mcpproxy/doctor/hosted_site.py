"""A server as hosted clients want it, on loopback; tests change one thing of it at a time."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mcpproxy.doctor.process_attempt import INITIALIZE_PARAMS

RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Mcp-Protocol-Version, Mcp-Session-Id",
    "Access-Control-Expose-Headers": "Mcp-Session-Id",
}

Answer = tuple[int, dict[str, str], bytes]
"""The status, header fields and body of a response."""


def tool(name: str, **more: Any) -> dict[str, Any]:
    annotations = {"readOnlyHint": True, "title": name}
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": annotations, **more}


def document(content: object) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


class Site:
    """What the server answers; `answers` by method and path come first, then MCP at `/mcp`, then 404."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.url = f"{base}/mcp"
        self.answers: dict[str, Answer] = {}
        self.cors = dict(CORS)
        self.tools = [tool("search"), tool("fetch")]
        self.requests: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.resource: dict[str, Any] = {"resource": self.url, "authorization_servers": [base]}
        self.metadata: dict[str, Any] = {
            "issuer": base,
            "registration_endpoint": f"{base}/register",
            "code_challenge_methods_supported": ["S256"],
        }

    def require_login(self) -> None:
        """Refuse requests without credentials, and serve the documents as they are now."""
        self.challenge(401, f'Bearer resource_metadata="{self.base}{RESOURCE}/mcp"')
        for path in (RESOURCE, f"{RESOURCE}/mcp"):
            self.answers[f"GET {path}"] = document(self.resource)
        self.answers[f"GET {SERVER}"] = document(self.metadata)

    def challenge(self, status: int, value: str) -> None:
        self.answers["POST /mcp"] = status, {"WWW-Authenticate": value} if value else {}, b""

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        self.requests.append(f"{method} {path}")
        known = self.answers.get(f"{method} {path}")
        if known is not None:
            return known
        if method == "OPTIONS":
            return 204, {}, b""
        return self._mcp(json.loads(body)) if (method, path) == ("POST", "/mcp") else (404, {}, b"")

    def _mcp(self, message: dict[str, Any]) -> Answer:
        self.bodies.append(message)
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": INITIALIZE_PARAMS["protocolVersion"], "capabilities": {"tools": {}}},
            "tools/list": {"tools": self.tools},
        }
        if "id" not in message:
            return 202, {}, b""
        status, fields, content = document(
            {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        )
        if message["method"] == "tools/list":
            return status, {"Content-Type": "text/event-stream"}, b"event: message\ndata: " + content + b"\n\n"
        return status, {**fields, "Mcp-Session-Id": "s"}, content


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, fields, content = site.answer(self.command, self.path, body)
        self.send_response(status)
        for name, value in {**site.cors, **fields, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.do_POST()

    def do_OPTIONS(self) -> None:
        self.do_POST()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def site_on_loopback(certificate: Path | None) -> Iterator[Site]:
    """A server with https, or with http if there is no certificate."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        site = Site(f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}")
        server.site = site  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
