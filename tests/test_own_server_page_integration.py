"""Follows docs/own-server.md: its commands and configurations, with a server and a client of the official SDK.

What differs from the page are ports, folders, and the name of the public host, which has to be one that the client can
reach here.
"""

import grp
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from compose_spec import PyCompose
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.harness import DEADLINE_S, Place, Session, wait_until
from tests.http_harness import Authority, Upstream, answering, free_port, serving
from tests.mcpproxy.cli.typed import printed
from tests.mcpproxy.test_serve_sdk_integration import serve_sdk
from tests.nginx import nginx

PAGE = (Path(__file__).parents[1] / "docs/own-server.md").read_text("utf-8")
HOST = "mcp.example.org"
needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block_with(word: str, language: str = "text") -> str:
    """The only block that has a word."""
    (found,) = [block for block in blocks(language) if word in block]
    return found


def commands() -> list[list[str]]:
    """The commands of mcpproxy on the page, each as its words after the program's name."""
    lines = [line.removeprefix("$ ") for block in blocks("text") for line in block.splitlines() if line[:2] == "$ "]
    return [shlex.split(line)[1:] for line in lines if line.startswith("mcpproxy ")]


class Site:
    """The public host of the page, as a port of this machine."""

    def __init__(self, place: Place, server: str) -> None:
        self.place = place
        self.port, self.front = free_port(), free_port()
        self.name = f"localhost-{self.port}"
        self.url = f"https://localhost:{self.port}/mcp"
        self._server = server.removesuffix("/mcp")
        self._authority = Authority(place.root)
        self._authority.context("DNS:localhost")
        self.trust = ssl.create_default_context(cafile=str(self._authority.file))

    def here(self, text: str) -> str:
        """A text of the page with this machine's ports, folders and names."""
        for theirs, ours in (
            (f"https://{HOST}", f"https://localhost:{self.port}"),
            (f"server_name {HOST}", "server_name localhost"),
            (f"/etc/ssl/certs/{HOST}.pem", f"{self.place.root}/server.pem"),
            (f"/etc/ssl/private/{HOST}.key", f"{self.place.root}/server.key"),
            (HOST, self.name),
            ("http://127.0.0.1:8000", self._server),
            ("listen 443 ", f"listen 127.0.0.1:{self.port} "),
            ("--listen 9000", f"--listen {self.front}"),
            ("http://127.0.0.1:9000", f"http://127.0.0.1:{self.front}"),
            ("/run/mcp", f"{self.place.root}/run"),
        ):
            text = text.replace(theirs, ours)
        return text

    @contextmanager
    def recording(self, words: list[str]) -> Iterator[Session]:
        """Run a command of the page while the block lasts."""
        command = [sys.executable, "-P", "-m", "mcpproxy", *shlex.split(self.here(shlex.join(words)))]
        session = self.place.start(command, direct=True, cwd=self.place.root)
        try:
            assert session.line(), session.errors()
            yield session
        finally:
            session.process.terminate()
            assert session.end() == 0

    def look(self, words: list[str]) -> str:
        """Run a command of the page to its end; returns what it prints."""
        code, output = printed(*map(self.here, words), cwd=self.place.root, environment=self.place.environment)
        assert code == 0, (words, output)
        return output.decode()

    async def talk(self) -> None:
        """Call a tool that answers, and one that only reports progress: that must arrive while the call is open."""
        has_progressed = anyio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            has_progressed.set()

        with anyio.fail_after(DEADLINE_S):
            async with (
                httpx2.AsyncClient(verify=self.trust, timeout=DEADLINE_S) as http,
                Client(streamable_http_client(self.url, http_client=http), cache=None) as client,
            ):
                await client.call_tool("count", {"steps": 2})
                async with anyio.create_task_group() as calls:
                    calls.start_soon(lambda: client.call_tool("wait", {}, progress_callback=on_progress))
                    await has_progressed.wait()
                    calls.cancel_scope.cancel()


@needs_nginx
@pytest.mark.costly("each command of the page is run, and the SDK's client loads TLS")
def test_the_page_leads_to_the_frame(place: Place) -> None:
    (first, *_), looks = (
        [words for words in commands() if (words[0] == "serve") is is_serve] for is_serve in (True, False)
    )
    with serve_sdk(place) as (server, _):
        site = Site(place, server)
        with site.recording(first), nginx(place.root, site.here(block_with("listen 443")), site.port):
            anyio.run(site.talk)
            following = [sys.executable, "-P", "-m", "mcpproxy", "show", "--follow", site.name]
            live = place.start(following, direct=True)
            wait_until(lambda: b"tools/call" in live.line(), "the call to be shown live")
            live.process.terminate()
            live.end()
    shown = {" ".join(words[:3]): site.look(words) for words in looks if "--follow" not in words}
    assert "tools/call #2 count" in shown[f"show {HOST}"]
    assert "rule" in shown[f"check {HOST}"] or "No findings" in shown[f"check {HOST}"], shown
    assert (place.root / "report.html").exists()
    assert {"show", "check", "stats", "query", "report", "share", "prune"} == {words.split()[0] for words in shown}


@needs_nginx
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to the group of nginx")
def test_the_group_of_nginx_can_use_the_socket(place: Place) -> None:
    try:
        grp.getgrnam("www-data")
    except KeyError:
        pytest.skip("nginx has another group on this system")
    (words,) = [words for words in commands() if any("front.sock" in word for word in words)]
    (install,) = re.findall(r"^\$ (install .*)$", PAGE, re.MULTILINE)
    (line,) = [block for block in blocks("text") if block.strip().startswith("proxy_pass")]
    with serve_sdk(place) as (server, _):
        site = Site(place, server)
        servers = re.sub(r" *proxy_pass .*\n", line, block_with("listen 443"))
        for folder in (place.root, *place.root.parents[:-2]):
            folder.chmod(folder.stat().st_mode | 0o011)  # pytest's folders are for their owner only
        subprocess.run(shlex.split(site.here(install)), check=True)
        with site.recording(words), nginx(place.root, site.here(servers), site.port):
            anyio.run(site.talk)


def test_the_compose_file_is_valid_and_its_recorder_starts(place: Place) -> None:
    (text,) = blocks("yaml")
    compose = PyCompose.from_yaml(text)
    compose.validate()
    services = compose.to_dict()["services"]
    recorder = services["recorder"]
    named = {volume.partition(":")[0] for volume in recorder["volumes"]}
    assert named == set(compose.to_dict()["volumes"])  # the validator does not compare these
    options = [word.replace(":9000", ":0") for word in recorder["command"][1:]]
    with serving(place, options[-1], *options[:-1]) as served:
        assert served.url.startswith("http://0.0.0.0:")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_of_systemd_is_valid(place: Place) -> None:
    unit = place.root / "mcpproxy.service"
    unit.write_text(block_with("[Service]").replace("/usr/local/bin/mcpproxy", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.costly("three recorders, and three runs of show")
def test_a_wrong_set_up_looks_as_the_page_says(place: Place) -> None:
    told = [text for row in re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE) for text in re.findall("`([^`]+)`", row)]
    wanted = [text for text in told if " → " in text or text.startswith(("502", "bypass/", "failed at "))]
    assert len(wanted) == 9
    site = f"--public=https://{HOST}/mcp"
    shown = [show(place, site, f"http://127.0.0.1:{free_port()}/mcp", [("POST", "/mcp")])]
    with Upstream(answering(wrong)) as upstream:
        requests = [("POST", "/"), ("POST", "/sse"), ("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/challenged")]
        document = "/.well-known/oauth-protected-resource"
        shown.append(show(place, site, upstream.url, [*requests, ("GET", document)]))
    guarded = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"
    with Upstream(answering(lambda request: guarded if request.startswith(b"POST") else wrong(request))) as upstream:
        shown.append(show(place, site, upstream.url, [("POST", "/mcp"), ("GET", f"{document}/mcp")]))
    for text in wanted:
        assert any(text in output for output in shown), (text, *map(print, shown))


def wrong(request: bytes) -> bytes:
    """A server that is set up for localhost, without metadata where a client looks first."""
    method, target = request.split(b" ", 2)[:2]
    head, body = b"404 Not Found", b"Not Found"
    if target == b"/challenged":
        named = b"http://localhost:8000/.well-known/oauth-protected-resource"
        head = b'401 No\r\nWWW-Authenticate: Bearer resource_metadata="%b"' % named
    elif target == b"/.well-known/oauth-protected-resource":
        head = b"200 OK\r\nContent-Type: application/json"
        body = b'{"resource":"http://localhost:8000/mcp","authorization_servers":["http://localhost:8000"]}'
    elif target == b"/mcp":
        redirect = b"307 Moved\r\nLocation: http://localhost:8000/mcp/"
        head, body = (b"421 No", b"Invalid Host header") if method == b"POST" else (redirect, b"")
    kind = b"" if b"Content-Type" in head else b"Content-Type: text/plain\r\n"
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (head, kind, len(body), body)


def show(place: Place, site: str, server: str, requests: list[tuple[str, str]]) -> str:
    """What `show` prints of requests to a server."""
    with serving(place, server, site) as served, served.client() as client:
        for method, path in requests:
            body = '{"jsonrpc":"2.0","id":1,"method":"ping"}' if method == "POST" else ""
            kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
            client.say(f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n{kind}\r\n{body}".encode())
            head = client.head()
            client.hear(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        served.ended(len(requests))
    return place.run("show", str(served.capture)).stdout.decode()
