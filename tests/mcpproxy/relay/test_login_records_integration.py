"""What belongs to a login is recorded as a leg of it, and what carries messages never is."""

import json
from typing import Any

import pytest

from tests.harness import Place, frames
from tests.http_harness import PING, Serving, Upstream, Wire, answering, post, serving

PUBLIC = "https://mcp.example.org/mcp"
LIKE_A_MESSAGE = b'{"jsonrpc":"2.0","id":1,"method":"ping","grant_type":"password","password":"correct"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def said(body: bytes, media: bytes = b"application/json", status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, media, len(body), body)


def to(path: bytes, request: bytes) -> bytes:
    """The same request at another path."""
    return request.replace(b" /mcp ", b" %b " % path, 1)


def exchange_each(served: Serving, *requests: bytes) -> list[dict[str, Any]]:
    """Send requests, one after the other, each on a connection of its own; returns the ends of their exchanges."""
    before = len([one for one in served.exchanges() if one["stage"] == "end"])
    for number, request in enumerate(requests, 1):
        with served.client() as client:
            client.say(request)
            assert client.request(), request
        served.ended(before + number)
    return served.ended(before + len(requests))[before:]


def metadata(origin: str, **paths: str) -> bytes:
    return json.dumps({"issuer": origin} | {name: origin + path for name, path in paths.items()}).encode()


@pytest.mark.parametrize("path", [b"/mcp", b"/token"])
def test_the_endpoint_is_never_a_leg(place: Place, path: bytes) -> None:
    url = "http://127.0.0.1:%d" + path.decode()
    origin = ""

    def answer(request: bytes) -> bytes:
        return said(metadata(origin, token_endpoint=path.decode()) if b"/.well-known/" in request else PONG)

    with Upstream(answering(answer)) as upstream:
        origin = f"http://127.0.0.1:{upstream.port}"
        with serving(place, url % upstream.port) as served:
            document = b"GET /.well-known/oauth-authorization-server HTTP/1.1\r\nHost: localhost\r\n\r\n"
            requests = to(path, post(LIKE_A_MESSAGE)), to(path + b"/", post(PING))
            _, *messages = exchange_each(served, document, *requests)
    assert [message.get("oauth") for message in messages] == [None, None]
    assert [frame.raw for frame in frames(served.capture, None)] == [LIKE_A_MESSAGE, PONG, PING, PONG]


def test_an_address_that_a_stream_announces_is_never_a_leg(place: Place) -> None:
    stream = b"event: endpoint\ndata: /token?session=1\n\n"

    def answer(request: bytes) -> bytes:
        return said(stream, b"text/event-stream") if request.startswith(b"GET") else said(PONG)

    with Upstream(answering(answer)) as upstream, serving(place, upstream) as served:
        opening = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        exchange_each(served, opening, to(b"/token?session=1", post(LIKE_A_MESSAGE)))
    assert LIKE_A_MESSAGE in [frame.raw for frame in frames(served.capture, "c2s")]


def test_a_message_at_a_usual_path_is_recorded_and_does_not_make_a_login_a_message(place: Place) -> None:
    registration = b'{"redirect_uris":["https://client.example/cb"],"client_name":"A client"}'
    with Upstream(answering(said(PONG))) as upstream, serving(place, upstream) as served:
        first, second = exchange_each(served, to(b"/register", post(PING)), to(b"/register", post(registration)))
    assert "oauth" not in first
    assert second["oauth"] == {"leg": "registration", "redirect_uri": "https://client.example"}
    assert [frame.raw for frame in frames(served.capture, None)] == [PING, PONG]


@pytest.mark.parametrize("is_public", [False, True])
def test_only_endpoints_of_the_server_itself_are_announced(place: Place, is_public: bool) -> None:
    origin, elsewhere = "", "https://login.example"

    def answer(request: bytes) -> bytes:
        if b"oauth-authorization-server" in request:
            return said(metadata(origin, token_endpoint="/own"))
        return said(metadata(elsewhere, token_endpoint="/other") if b"/.well-known/" in request else b"{}")

    with Upstream(answering(answer)) as upstream:
        origin = "https://mcp.example.org" if is_public else f"http://127.0.0.1:{upstream.port}"
        with serving(place, upstream, *(("--public", PUBLIC) if is_public else ())) as served:
            names = (b"oauth-authorization-server", b"openid-configuration")
            documents = [b"GET /.well-known/%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % name for name in names]
            requests = [to(path, post(b'{"x":"y"}')) for path in (b"/own", b"/other")]
            ended = exchange_each(served, *documents, *requests)
    assert [one.get("oauth", {}).get("leg") for one in ended] == ["server-metadata"] * 2 + ["token", None]


def test_a_form_that_breaks_off_is_not_kept(place: Place) -> None:
    whole = to(b"/token", post(LIKE_A_MESSAGE))

    def script(wire: Wire) -> None:
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(whole.replace(b"Content-Length: ", b"Content-Length: 1")[:-2])
            client.hang_up()
            client.end()
        (ended,) = served.ended()
    assert ended["body_hash"] == {"request": {"size": len(LIKE_A_MESSAGE) - 2}}
    assert frames(served.capture, None) == []


def test_a_response_before_the_end_of_its_request_is_not_kept(place: Place) -> None:
    whole = to(b"/token", post(LIKE_A_MESSAGE))

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(said(PONG))
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(whole[:-5])
        assert client.request()
        client.say(whole[-5:])
        (ended,) = served.ended()
    assert ended["oauth"] == {"leg": "token", "grant_type": "password"}
    assert ended["body_hash"] == {"request": {"size": len(LIKE_A_MESSAGE)}, "response": {"size": len(PONG)}}
    assert frames(served.capture, None) == []


def test_a_form_at_the_endpoint_is_not_hashed(place: Place) -> None:
    form = post(b"password=correct").replace(b"application/json", b"application/x-www-form-urlencoded")
    refused = said(b"{}", status=b"401 Unauthorized")
    with Upstream(answering(refused)) as upstream, serving(place, upstream) as served:
        (ended,) = exchange_each(served, form)
    assert ended["body_hash"]["request"] == {"size": len(b"password=correct")}
    assert ended["oauth"] == {"leg": "challenge"}


@pytest.mark.parametrize(
    ("location", "flags"),
    [
        (b"https://client.example/cb?code=abc&state=xyz", None),
        (b"https://client.example/cb?error=access_denied&state=xyz", None),
        (b"https://login.example/authorize?response_type=code&state=xyz", ["bypass/location"]),
    ],
)
def test_a_login_that_ends_at_the_client_leads_around_nothing(
    place: Place, location: bytes, flags: list[str] | None
) -> None:
    redirect = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location
    with Upstream(answering(redirect)) as upstream, serving(place, upstream) as served:
        request = b"GET /authorize?response_type=code HTTP/1.1\r\nHost: localhost\r\n\r\n"
        (ended,) = exchange_each(served, request)
    assert ended.get("flags") == flags
    assert (b"bypass/location" in served.errors) == (flags is not None)
