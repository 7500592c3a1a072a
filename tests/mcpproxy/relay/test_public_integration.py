"""`serve --public` changes nothing at all: heads, addresses and upgraded connections pass as they were sent."""

import os
import signal
import socket
import stat
from contextlib import closing

import pytest

from tests import http_harness
from tests.harness import DEADLINE_S, Place, members_of, wait_until
from tests.http_harness import (
    GET,
    OK,
    PING,
    Serving,
    TrafficSetup,
    Upstream,
    Wire,
    answering,
    listening,
    post,
    serving,
    start_serving,
)
from tests.mcpproxy.relay.test_http_integration import REQUESTS

PUBLIC = "https://mcp.example.org/mcp"
OFFER = (
    b"GET /mcp HTTP/1.1\r\nHost: mcp.example.org\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
# What a proxy without --public refuses or changes.
FROM_OUTSIDE = {
    "of another host": b"GET /mcp HTTP/1.1\r\nHost: mcp.example.org\r\nX-Forwarded-Proto: https\r\n\r\n",
    "of another page": GET[:-2] + b"Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n\r\n",
    "of one hop": GET[:-2] + b"Proxy-Connection: keep-alive\r\n\r\n",
    "a preflight": b"OPTIONS /mcp HTTP/1.1\r\nHost: mcp.example.org\r\nOrigin: https://app.example\r\n"
    b"Access-Control-Request-Method: POST\r\n\r\n",
    "an offer without Connection": GET[:-2] + b"Upgrade: websocket\r\n\r\n",
}
WHOLE = b"HTTP/1.1 307 Moved\r\nLocation: http://%s/mcp/\r\nSet-Cookie: a=b; Secure\r\nContent-Length: 0\r\n\r\n"


def test_requests_pass_as_sent(place: Place) -> None:
    requests = REQUESTS | FROM_OUTSIDE
    with Upstream(listening) as upstream, serving(place, upstream, "--public", PUBLIC) as served:
        for number, (what, request) in enumerate(requests.items()):
            with served.client() as client:
                client.say(request)
                client.hang_up()
                assert client.rest() == b""
            assert bytes(upstream.connection(number).received) == request, what


def test_an_own_address_passes_as_sent(place: Place) -> None:
    with Upstream(lambda wire: answering(WHOLE % upstream.authority)(wire)) as upstream:
        with serving(place, upstream, "--public", PUBLIC) as served, served.client() as client:
            client.say(GET)
            whole = WHOLE % upstream.authority
            assert client.hear(len(whole)) == whole
            (ended,) = served.ended()
        assert ended["flags"] == ["bypass/location"]
        assert "rewritten" not in ended
        assert b"clients reach this server by https://mcp.example.org" in served.errors


def test_a_server_that_describes_itself_by_http_is_flagged_and_told_of_once(place: Place) -> None:
    document = b'{"resource":"http://mcp.example.org/mcp","authorization_servers":["http://localhost:8000"]}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(document)
    request = GET.replace(b"/mcp", b"/.well-known/oauth-protected-resource/mcp")
    with (
        Upstream(answering(answer + document)) as upstream,
        serving(place, upstream, "--public", PUBLIC) as served,
        served.client() as client,
    ):
        for number in (1, 2):
            client.say(request)
            assert client.hear(len(answer + document)) == answer + document
            assert served.ended(number)[-1]["flags"] == ["bypass/resource", "bypass/issuer"]
    assert served.errors.count(b"http://mcp.example.org") == 1
    assert served.errors.count(b"names http://localhost:8000 as the authorization server (bypass/issuer)") == 1


def test_an_address_at_the_public_origin_leads_nobody_away(place: Place) -> None:
    answer = b"HTTP/1.1 307 T\r\nLocation: https://MCP.example.org:443/mcp/\r\nContent-Length: 0\r\n\r\n"
    with Upstream(answering(answer)) as upstream, serving(place, upstream, "--public", PUBLIC) as served:
        with served.client() as client:
            client.say(GET)
            assert client.hear(len(answer)) == answer
        (ended,) = served.ended()
    assert "flags" not in ended


@pytest.mark.parametrize("options", [(), ("--public", PUBLIC)])
def test_the_browser_of_a_login_is_not_led_away(place: Place, options: tuple[str, ...]) -> None:
    steps = (
        b"https://client.example/callback?code=x&state=y",
        b"http://localhost:3000/callback?error=access_denied&state=y",
        b"https://[client.example/callback",
    )
    answers = [b"HTTP/1.1 302 F\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % step for step in steps]
    left = iter(answers)
    with Upstream(answering(lambda _request: next(left))) as upstream, serving(place, upstream, *options) as served:
        with served.client() as client:
            for answer in answers:
                client.say(GET.replace(b" /mcp ", b" /consent ", 1))
                assert client.hear(len(answer)) == answer
        ended = served.ended(len(steps))
    assert not any("flags" in members for members in ended)


def upgrading(wire: Wire) -> None:
    """Accept an offer, and then repeat what comes."""
    assert wire.head() == OFFER
    wire.say(ACCEPTED + b"\x81\x02hi")
    while piece := wire.sock.recv(1 << 16):
        wire.received += piece
        wire.say(piece)


def test_an_upgraded_connection_passes_as_it_is_and_is_counted(place: Place) -> None:
    early, later = b"\x00\xffearly\r\n\r\n", b"GET / nonsense\r\n" * 10_000
    with Upstream(upgrading) as upstream, serving(place, upstream, "--public", PUBLIC) as served:
        with served.client() as client:
            client.say(OFFER + early)
            start = ACCEPTED + b"\x81\x02hi" + early
            assert client.hear(len(start)) == start
            client.say(later)
            assert client.hear(len(later)) == later
            client.hang_up()
            assert client.rest() == b""
        (ended,) = served.ended()
        served.wait_to_hear(b"upgraded")
    assert ended["response"]["status"] == 101
    assert ended["tunnelled"] == {"c2s": len(early + later), "s2c": len(early + later) + 4}
    assert ended["ended_by"] == "client"


def test_after_a_declined_offer_http_continues(place: Place) -> None:
    no = b"HTTP/1.1 426 No\r\nContent-Length: 0\r\n\r\n"

    def script(wire: Wire) -> None:
        assert wire.head() == OFFER
        assert wire.is_silent(0.05)  # what follows the offer has to wait
        wire.say(no)
        assert wire.request() == post(PING)
        wire.say(OK)
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream, "--public", PUBLIC) as served:
        with served.client() as client:
            client.say(OFFER + post(PING))
            assert client.hear(len(no + OK)) == no + OK
        ended = served.ended(2)
    assert [members["response"]["status"] for members in ended] == [426, 200]
    assert served.ids() == [1]


def test_much_after_an_offer_waits_in_the_client(place: Place) -> None:
    late = b"x" * (32 << 20)

    def script(wire: Wire) -> None:
        wire.head()
        wait_until(lambda: sent, "the client to be held up")
        wire.say(ACCEPTED)
        wire.hear(len(late))

    sent: list[int] = []
    with Upstream(script) as upstream, serving(place, upstream, "--public", PUBLIC) as served:
        before = served.memory()
        with served.client() as client:
            client.say(OFFER)
            client.sock.setblocking(False)
            left = memoryview(late)
            while left:
                try:
                    left = left[client.sock.send(left) :]
                except BlockingIOError:
                    break
            assert left
            sent.append(len(left))
            client.sock.settimeout(DEADLINE_S)
            client.sock.sendall(left)
            upstream.wait_for_end()
        assert served.memory() - before < 16 << 20


@pytest.mark.parametrize("uvloop", [False, True])
def test_from_socket_to_socket(place: Place, uvloop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_harness, "surroundings", TrafficSetup(uvloop=uvloop))
    front, back = place.root / "front.sock", place.root / "back.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(front))
    stale.close()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(back))
        listener.listen()
        session, capture = start_serving(place, "--public", PUBLIC, "--listen", f"unix:{front}", f"unix:{back}")
        assert session.line() == b"unix:%s\n" % os.fsencode(front)
        assert stat.S_IMODE(front.stat().st_mode) == 0o660
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(DEADLINE_S)
        client.connect(str(front))
        client.sendall(GET)
        upstream, _ = listener.accept()
        with closing(client), closing(upstream):
            upstream.settimeout(DEADLINE_S)
            assert upstream.recv(1 << 16) == GET
            upstream.sendall(OK)
            assert client.recv(1 << 16) == OK
        served = Serving(session, capture, ("", 0), "")
        (ended,) = served.ended()
        assert ended["peer"] == "unix"
        (header,) = members_of(capture, "header")
        assert (header["upstream"], header["listen"]) == (f"unix:{back}", f"unix:{front}")
        assert header["public"] == PUBLIC
        assert served.stop() == 0
    assert not front.exists()


def test_a_path_that_is_in_use_is_left_alone(place: Place) -> None:
    used, text = place.root / "used.sock", place.root / "text"
    text.write_bytes(b"precious")
    with closing(socket.socket(socket.AF_UNIX)) as other:
        other.bind(str(used))
        other.listen()
        for path, why in ((used, b"a process listens there already"), (text, b"it exists and is not a socket")):
            done = place.run("serve", "--public", PUBLIC, "--listen", f"unix:{path}", "http://127.0.0.1:9/mcp")
            assert done.returncode == 2
            assert why in done.stderr
            assert done.stderr.count(b"\n") == 1
        assert used.is_socket()
        taken = place.root / "taken.mcpcap"
        taken.write_bytes(b"")
        front = place.root / "front.sock"
        arguments = ("--public", PUBLIC, "--listen", f"unix:{front}", "--capture", str(taken), "http://127.0.0.1:9/mcp")
        assert place.run("serve", *arguments).returncode == 73
        assert not front.exists()
    assert text.read_bytes() == b"precious"
    assert sorted(path.name for path in place.root.iterdir() if path.name.startswith(("used", "text"))) == [
        "text",
        "used.sock",
    ]


def test_a_socket_of_a_successor_is_not_removed(place: Place) -> None:
    front = place.root / "front.sock"
    arguments = ("--public", PUBLIC, "--listen", f"unix:{front}", "http://127.0.0.1:9/mcp")
    session, _ = start_serving(place, *arguments)
    assert session.line()
    front.unlink()
    with closing(socket.socket(socket.AF_UNIX)) as successor:
        successor.bind(str(front))
        session.process.send_signal(signal.SIGTERM)
        assert session.end() == 0
        assert front.is_socket()


def test_a_proxy_on_this_machine_is_believed_about_its_client(place: Place) -> None:
    request = GET[:-2] + b"X-Forwarded-For: 8.8.8.8, 1.1.1.1, 10.0.0.1\r\n\r\n"
    with Upstream(answering(OK)) as upstream:
        for options, address in (((), None), (("--public", PUBLIC), "1.1.1.1")):
            with serving(place, upstream, *options) as served, served.client() as client:
                client.say(request)
                assert client.hear(len(OK)) == OK
                (ended,) = served.ended()
            assert ended.get("forwarded_for") == address
            assert ended["peer"].startswith("127.0.0.1:")


def test_names_come_from_the_public_address(place: Place) -> None:
    with Upstream(answering(OK)) as upstream, serving(place, upstream, "--public", PUBLIC) as served:
        (header,) = members_of(served.capture, "header")
        assert served.url == f"http://127.0.0.1:{served.address[1]}/mcp"
    assert header["name"] == "mcp.example.org"
    assert header["opt_outs"] == []


def test_an_access_log_has_a_line_for_each_request(place: Place) -> None:
    secret = b"sk-live-0123456789abcdef"
    with Upstream(answering(OK)) as upstream, serving(place, upstream, "--public", PUBLIC, "--access-log") as served:
        with served.client() as client:
            client.say(post(PING, b"X-Forwarded-For: 8.8.8.8"))
            client.hear(len(OK))
            client.say(b"GET /\x1b HTTP/1.1\r\n\r\n")
            client.rest()
        with served.client() as client:
            client.say(GET.replace(b"/mcp", b"/mcp?key=" + secret + b"&%1b[2J"))
            client.hear(len(OK))
        served.ended(3)
    lines = [line.removeprefix(b"mcpproxy: ").decode() for line in served.errors.splitlines() if b" \xc2\xb7 " in line]
    assert lines[0].startswith("8.8.8.8 POST /mcp ping · 200 · 2 B · ")
    assert lines[1].startswith("127.0.0.1:")
    assert "an unreadable request · 400 from mcpproxy · 0 B" in lines[1]
    assert "GET /mcp?" in lines[2]
    assert secret not in served.errors


def test_a_login_may_lead_to_another_host(place: Place) -> None:
    answer = b"HTTP/1.1 302 F\r\nLocation: https://login.example/start?client=1\r\nContent-Length: 0\r\n\r\n"
    request = GET.replace(
        b"/mcp", b"/authorize?response_type=code&client_id=c&redirect_uri=https%3A%2F%2Fa.example%2Fb"
    )
    with Upstream(answering(answer)) as upstream:
        for options, flags in ((("--public", PUBLIC), None), ((), ["bypass/location"])):
            with serving(place, upstream, *options) as served, served.client() as client:
                client.say(request)
                assert client.hear(len(answer)) == answer
                (ended,) = served.ended()
            assert ended.get("flags") == flags
