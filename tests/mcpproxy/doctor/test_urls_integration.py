"""Every verdict on a server with a URL is given for a real failure of its kind."""

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcpproxy import __version__
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.typed import mcpproxy, started
from tests.mcpproxy.doctor.cases import configure, doctor, entry, good, verdicts

REDIRECTS = {
    "moved": (307, "https://other.example/mcp"),
    "hop": (307, "http://{}/streamable"),
    "hops": (308, "http://{}/hop"),
    "hop-to-page": (307, "http://{}/page"),
    "loop": (307, "http://{}/loop"),
    "drops": (301, "http://{}/streamable"),
    "wants-tls": (308, "https://{}/streamable"),
    "plain": (307, "http://{}/streamable"),
}
"""Paths that are redirected: the status, and the target on this host."""
BODIES = {
    "text": ('{"jsonrpc":"2.0","id":1,"result":"x"}', "application/json"),
    "page": ("<html>", "text/html"),
    "refuses": ('{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"too new"}}', "application/json"),
}
"""Paths that always have the same response: its body, and the media type."""
LOG = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}'


class _Handler(BaseHTTPRequestHandler):
    """Responds as its path says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.path.strip("/").partition("?")[0]
        if kind in REDIRECTS:
            status, location = REDIRECTS[kind]
            return self.answer(status, headers={"Location": location.format(self.headers["Host"]) + "?secret=1"})
        if kind == "streamable" and self.headers.get("X-Key", "") == "":
            message = json.loads(body)
            results = {
                "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}},
                "tools/list": {"tools": [{"name": "a"}, {"name": "b"}]},
                "ping": {},
            }
            if "id" not in message:
                return self.answer(202)
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
            if message["method"] == "tools/list":
                return self.answer(200, f"event: message\ndata: {json.dumps(answer)}\n\n", "text/event-stream")
            return self.answer(200, json.dumps(answer), "application/json", {"Mcp-Session-Id": "s"})
        if kind == "hangs":
            self.server.gate.wait(DEADLINE_S)  # type: ignore[attr-defined]
            return None
        if kind in ("drips", "pings"):
            media = "text/event-stream" if kind == "pings" else "application/json"
            self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: 9999\r\n\r\n".encode())
            while not self.server.gate.wait(0.1):  # type: ignore[attr-defined]
                self.wfile.write(b": ping\n\n" if kind == "pings" else b" ")
            return None
        if kind in BODIES:
            return self.answer(200, *BODIES[kind])
        if kind in ("chatty", "confused", "no-id"):
            return self.answer_by_id(kind, json.loads(body)["method"])
        if kind == "oauth":
            return self.answer(401, headers={"WWW-Authenticate": 'Bearer resource_metadata="http://127.0.0.1/m"'})
        return self.answer(405 if kind == "sse" else 404)

    def answer_by_id(self, kind: str, method: str) -> None:
        """Send a notification before the response (`chatty`), or a response with another id or without one."""
        if kind == "no-id":
            text = f"which id, {self.headers['User-Agent']}?"
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": text}}
            return self.answer(200, json.dumps(error), "application/json")
        if method.startswith("notifications/"):
            return self.answer(202)
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "tools": [{"name": "a"}]}
        request_id = 1 if method == "initialize" else 2
        answer = {"jsonrpc": "2.0", "id": request_id if kind == "chatty" else "other", "result": result}
        return self.answer(200, f"data: {LOG}\n\ndata: {json.dumps(answer)}\n\n", "text/event-stream")

    def do_GET(self) -> None:
        if self.path == "/sse-hop":
            return self.answer(302, headers={"Location": "/sse"})
        if self.path == "/sse":
            return self.answer(200, "event: endpoint\ndata: /messages?x=1\n\n", "text/event-stream")
        return self.answer(405)

    def do_DELETE(self) -> None:
        self.answer(405)

    def answer(
        self, status: int, body: str = "", kind: str = "text/plain", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def http_server(certificate: Path | None = None) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.gate = threading.Event()  # type: ignore[attr-defined]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.gate.set()  # type: ignore[attr-defined]
            server.shutdown()
            thread.join()


def test_urls(home: Path) -> None:
    paths = {
        "page": "http/not-mcp",
        "nowhere": "http/not-mcp",
        "refuses": "start/refused",
        "text": "start/refused",
        "oauth": "http/unauthorized",
        "moved": "http/redirected",
        "drops": "http/redirected",
        "wants-tls": "http/redirected",
        "sse": "http/wrong-transport",
    }
    with http_server() as base:
        (row,) = doctor(home, f"{base}/streamable", code=0)
        assert (row["works"], row["tools"], verdicts([row])) == (True, 2, {})
        for path, verdict in paths.items():
            found = verdicts(doctor(home, f"{base}/{path}"))
            assert list(found) == [verdict], path
            assert "secret" not in found[verdict]
        configure(
            home, {"old": {"type": "sse", "url": f"{base}/sse"}, "new": {"type": "sse", "url": f"{base}/streamable"}}
        )
        rows = {row["server"]: row for row in doctor(home, "claude-code")}
        assert rows["old"]["works"]
        assert list(verdicts([rows["new"]])) == ["http/wrong-transport"]


def test_the_response_is_the_message_with_the_id_of_the_request(home: Path) -> None:
    with http_server() as base:
        (row,) = doctor(home, f"{base}/chatty", code=0)
        assert (row["works"], row["tools"]) == (True, 1), "a notification before the response is skipped"
        assert list(verdicts(doctor(home, f"{base}/confused"))) == ["http/not-mcp"]
        assert f"which id, mcpproxy-doctor/{__version__}?" in verdicts(doctor(home, f"{base}/no-id"))["start/refused"]


def test_redirects(home: Path) -> None:
    """A redirect that works is reported with the URL that avoids it."""
    with http_server() as base:
        configure(home, {"old": {"type": "sse", "url": f"{base}/sse-hop"}})
        for named, target in ((f"{base}/hop", "streamable"), (f"{base}/hops", "streamable"), ("claude-code", "sse")):
            (row,) = doctor(home, named, code=0)
            assert row["works"], target
            assert f"change its URL to {base}/{target}" in verdicts([row])["http/redirect-followed"]
        found = verdicts(doctor(home, f"{base}/hop-to-page"))
        assert list(found) == ["http/not-mcp", "http/redirect-followed"]
        assert list(verdicts(doctor(home, f"{base}/loop"))) == ["http/redirected", "http/redirect-followed"]
        dropped = verdicts(doctor(home, f"{base}/drops"))["http/redirected"]
        assert "as a GET" in dropped
        assert f"change its URL to {base}/streamable" in dropped
        secure = base.replace("http:", "https:")
        assert (
            f"change its URL to {secure}/streamable" in verdicts(doctor(home, f"{base}/wants-tls"))["http/redirected"]
        )


def test_a_closed_port_and_an_unknown_host(home: Path) -> None:
    with socket.socket() as ours:  # a bound port that does not listen refuses connections
        ours.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{ours.getsockname()[1]}/mcp"
        assert list(verdicts(doctor(home, url))) == ["http/port-closed"]
    (home / "hosts").write_text("")
    assert list(verdicts(doctor(home, "http://[::1%nosuch]:1/mcp"))) == ["http/unreachable"]


def test_a_certificate_that_is_not_trusted(home: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    pem = home / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(pem), "-out", str(home / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    pem.write_text(pem.read_text() + (home / "cert.pem").read_text())
    with http_server(pem) as base:
        assert "self-signed" in verdicts(doctor(home, f"{base}/streamable"))["http/tls"].replace(
            "self signed", "self-signed"
        )
        found = verdicts(doctor(home, f"{base}/plain", SSL_CERT_FILE=str(home / "cert.pem")))["http/redirected"]
        assert "the server does not know that it is reached by https" in found
        assert f"change its URL to {base}/streamable" in found


def test_a_server_that_accepts_and_says_nothing(home: Path) -> None:
    from mcpproxy.doctor.http_attempt import attempt_url

    with http_server() as base:
        for path in ("hangs", "drips", "pings"):
            seen = attempt_url(f"{base}/{path}", {}, is_sse=False, limit_s=0.5)
            assert seen.diagnosis is not None, path
            assert seen.diagnosis.verdict.id == "http/no-answer", path


def test_headers_of_the_entry_are_sent_and_never_shown(home: Path) -> None:
    with http_server() as base:
        configure(
            home, {"a": {"type": "http", "url": f"{base}/streamable?token=hunter2", "headers": {"X-Key": "hunter2"}}}
        )
        done = mcpproxy("doctor", cwd=home / "project", HOME=str(home))
        assert done.returncode == 1
        assert b"http/not-mcp" in done.stdout
        assert b"hunter2" not in done.stdout + done.stderr


def test_loopback_through_a_proxy(home: Path) -> None:
    with http_server() as base:
        configure(home, {"a": {"type": "http", "url": f"{base}/streamable"}})
        proxied = {"HTTPS_PROXY": "http://127.0.0.1:1", "no_proxy": "", "NO_PROXY": "example.com"}
        found = verdicts(doctor(home, "claude-code", code=0, **proxied))
        assert list(found) == ["http/loopback-proxied"]
        assert verdicts(doctor(home, "claude-code", code=0, **proxied | {"NO_PROXY": "127.0.0.1"})) == {}


def test_a_route_that_is_cut_is_named_before_the_server_behind_it(home: Path) -> None:
    """The client reaches neither of them, even if the server itself works."""
    with http_server() as base:
        configure(home, {"a": {"url": f"{base}/streamable"}}, ".cursor/mcp.json")
        assert mcpproxy("install", "cursor", cwd=home, HOME=str(home), NO_PROXY="127.0.0.1").returncode == 0
        assert "start `mcpproxy up`" in verdicts(doctor(home, "cursor"))["http/port-closed"]
        text = (home / ".cursor/mcp.json").read_text()
        port = int(json.loads(text)["mcpServers"]["a"]["url"].split(":")[2].split("/")[0])
        with socket.create_server(("127.0.0.1", port)), started("up", HOME=str(home)) as up:
            assert up.stderr is not None
            up.stderr.readline()
            assert "another program may have the port" in verdicts(doctor(home, "cursor"))["http/port-closed"]
    gone = entry(["/no/such/mcpproxy", "run", "--name", "x", "--", *good()])
    configure(home, {"x": gone}, ".cursor/mcp.json")
    assert "run `mcpproxy install`" in verdicts(doctor(home, "cursor"))["start/not-found"]
