"""Behind nginx, a server gets the same bytes through `serve --public` as without it."""

import random
import shutil
import signal
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness import DEADLINE_S, Place, members_of, wait_until
from tests.http_harness import Wire, free_port, start_serving
from tests.nginx import nginx

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

HEADS = 200
PUBLIC = "https://mcp.example.org/mcp"
SERVERS = """
    proxy_http_version 1.1;
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto https;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $http_connection;
    server {{ listen 127.0.0.1:{recorded}; location / {{ proxy_pass http://unix:{root}/front.sock; }} }}
    server {{ listen 127.0.0.1:{direct}; location / {{ proxy_pass http://unix:{root}/back.sock; }} }}
"""


def echo(listener: socket.socket) -> None:
    """Answer each connection's first request with its own bytes."""
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:  # closed: the test is over
            return
        sock.settimeout(DEADLINE_S)
        with closing(sock):
            request = b""
            while piece := sock.recv(1 << 16):
                request += piece
                head, found, body = request.partition(b"\r\n\r\n")
                length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
                if found and len(body) >= int(length or 0):
                    break
            sock.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(request), request)
            )


def random_request(draw: random.Random) -> bytes:
    """A request with any valid head, and a body in some."""
    names = [
        "Accept",
        "mcp-session-id",
        "MCP-Protocol-Version",
        "Authorization",
        "Origin",
        "X-Forwarded-For",
        "Forwarded",
    ]
    names += [
        "Cookie",
        "Upgrade",
        "Sec-Fetch-Site",
        "Proxy-Connection",
        "x-a.b~c",
        "TRACEPARENT",
        "X-double",
        "x-Double",
    ]
    shown = [chr(code) for code in range(0x21, 0x7F)]
    target = "/" + "".join(draw.choice("abc/?=&%20.;:@!$'()*+,~-_") for _ in range(draw.randrange(30)))
    target = target.replace("%", "%41").replace("//", "/")
    lines = [f"{draw.choice(['GET', 'POST', 'DELETE', 'OPTIONS', 'PUT', 'PATCH'])} {target} HTTP/1.1"]
    lines.append(f"Host: {draw.choice(['mcp.example.org', 'MCP.example.org:8443', 'localhost', '127.0.0.1'])}")
    for name in draw.sample(names, draw.randrange(12)):
        value = "".join(draw.choice([*shown, " ", "é"]) for _ in range(draw.randrange(60))).strip()
        lines.append(f"{name}:{' ' * draw.randrange(3)}{value}")
    body = draw.randbytes(draw.choice([0, 0, 1, 500]))
    if body:
        lines.append(f"Content-Length: {len(body)}")
    lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def answer(port: int, request: bytes) -> bytes:
    """The body of the response to a request: the bytes that the server got."""
    with Wire(socket.create_connection(("127.0.0.1", port), DEADLINE_S)) as client:
        client.say(request)
        head = client.head()
        assert head.startswith(b"HTTP/1.1 200 "), (request, head + client.rest())
        return client.rest()


def test_a_server_behind_nginx_gets_the_same_bytes(place: Place) -> None:
    root = place.root
    recorded, direct = free_port(), free_port()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(root / "back.sock"))
        listener.listen(512)
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        arguments = ("--public", PUBLIC, "--listen", f"unix:{root}/front.sock", f"unix:{root}/back.sock")
        session, capture = start_serving(place, *arguments)
        try:
            assert session.line()
            (root / "front.sock").chmod(0o666)  # started by root, nginx gives up its rights
            (root / "back.sock").chmod(0o666)
            compare(recorded, direct, root)
            wait_until(lambda: len(ends(capture)) == HEADS, "all exchanges to end")
        finally:
            session.process.send_signal(signal.SIGTERM)
            assert session.end() == 0
    assert {members["forwarded_for"] for members in ends(capture)} <= {"127.0.0.1"}
    assert {members["ended_by"] for members in ends(capture)} == {"complete"}
    assert not (root / "front.sock").exists()


def compare(recorded: int, direct: int, root: Path) -> None:
    """Send each request both ways."""
    draw = random.Random(48)
    with nginx(root, SERVERS.format(root=root, recorded=recorded, direct=direct), recorded, direct):
        for _ in range(HEADS):
            request = random_request(draw)
            assert answer(recorded, request) == answer(direct, request), request


def ends(capture: Path) -> list[dict[str, object]]:
    """The last records of the exchanges in a capture."""
    return [members for members in members_of(capture, "exchange") if members["stage"] == "end"]
