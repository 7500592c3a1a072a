"""What users learn about calls that failed over HTTP: what failed, on which side, and with which message."""

import json

from captures.record import Record
from tests.harness import Place, frames
from tests.http_harness import Upstream, Wire, free_port, post, serving
from tests.mcpproxy.cli.typed import mcpproxy

NGINX = b"<html><head><title>502 Bad Gateway</title></head><body><hr><center>nginx/1.25.3</center></body></html>"
TOKEN = b"tok-SECRET-1234"
_AS_MCP = (
    b"Accept: application/json, text/event-stream",
    b"MCP-Protocol-Version: 2025-06-18",
    b"Authorization: Bearer " + TOKEN,
)


def said(status: bytes, kind: bytes, body: bytes, *fields: bytes) -> bytes:
    lines = (b"HTTP/1.1 " + status, b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *fields, b"", body)
    return b"\r\n".join(lines)


def call(number: int, tool: str) -> bytes:
    params = {"name": tool, "arguments": {}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return post(json.dumps(message).encode(), *_AS_MCP)


def answer(request: bytes) -> bytes:
    for tool, response in ANSWERS.items():
        if b'"%b"' % tool.encode() in request:
            return response
    return said(b"400 Bad Request", b"application/json", b'{"detail":"There was an error parsing the body"}')


ANSWERS = {
    "gateway": said(b"502 Bad Gateway", b"text/html", NGINX, b"Server: nginx/1.25.3"),
    "busy": said(b"503 Service Unavailable", b"text/plain", b"warming up, " + TOKEN, b"Retry-After: 5"),
    "html": said(b"200 OK", b"text/html", b"<title>Sign in to Hotel WiFi</title>"),
    "cut": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
}


def ends(records: list[Record]) -> list[dict[str, object]]:
    return [one.members for one in records if one.rec == "exchange" and one.members["stage"] == "end"]


def test_a_failure_is_told_with_who_failed_and_what_it_said(place: Place) -> None:
    def script(wire: Wire) -> None:
        while request := wire.request():
            wire.say(response := answer(request))
            if response == ANSWERS["cut"]:
                return

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            for number, tool in enumerate(("gateway", "gateway", "busy", "html"), 1):
                client.say(call(number, tool))
                client.hear(len(ANSWERS[tool]))
            client.say(post(b'{"bad":', *_AS_MCP))
            client.hear(len(answer(b"")))
        with served.client() as client:
            client.say(call(5, "cut"))
            client.end()
        served.ended(6)
        records = served.records()
        served.stop()
    texts = [one.get("response_text") for one in ends(records)]
    assert texts[0] == texts[1] == NGINX.decode()
    assert str(texts[2]).startswith("warming up, hmac:")
    assert texts[3:] == [
        "<title>Sign in to Hotel WiFi</title>",
        '{"detail":"There was an error parsing the body"}',
        None,
    ]
    assert TOKEN not in served.capture.read_bytes()
    assert b'{"bad":' in [frame.raw for frame in frames(served.capture, "c2s")]

    shown = mcpproxy("show", served.capture).stdout.decode()
    assert "→ 502: Bad Gateway" in shown
    assert "→ 503: warming up, hmac:" in shown
    checked = mcpproxy("check", "--json", served.capture)
    found = {one["message"]: one for one in map(json.loads, checked.stdout.splitlines()) if "rule" in one}
    by_rule = {(one["rule"], one["blames"]) for one in found.values() if one["level"] == "error"}
    assert {
        ("http/call-refused", "transport"),
        ("http/call-refused", "unknown"),  # nginx has responded earlier
        ("http/response-content-type", "server"),
        ("http/body-cut", "unknown"),  # nginx has responded earlier
    } <= by_rule
    assert "tools/call is refused with 502 Bad Gateway by a gateway (nginx)" in found
    assert "a request is answered with text/html: Sign in to Hotel WiFi" in found
    assert "the response to tools/call ends after 1 of 500 bytes" in found
    assert checked.returncode == 1

    asked = "select meaning, count(*) as calls from errors group by all order by all"
    counted = [json.loads(line) for line in mcpproxy("query", "--json", asked, served.capture).stdout.splitlines()]
    assert {one["meaning"]: one["calls"] for one in counted} == {
        "no answer in the HTTP response": 2,
        "HTTP status 502": 2,
        "HTTP status 503": 1,
    }


def test_a_server_that_cannot_be_reached_is_a_finding(place: Place) -> None:
    with serving(place, f"http://127.0.0.1:{free_port()}/mcp") as served:
        with served.client() as client:
            client.say(call(1, "gateway"))
            client.end()
        served.ended()
        served.stop()
    checked = mcpproxy("check", "--json", served.capture)
    found = json.loads(checked.stdout.splitlines()[0])
    assert checked.returncode == 1
    assert (found["rule"], found["blames"]) == ("http/unreachable", "transport")
    assert found["message"] == "the upstream cannot be reached: Connection refused"


def test_what_is_said_elsewhere_is_not_kept_but_for_oauth(place: Place) -> None:
    body = b'{"error":"invalid_grant","error_description":"it is over","internal":"not for us"}'
    refused = said(b"400 Bad Request", b"application/json", body)

    def script(wire: Wire) -> None:
        while wire.request():
            wire.say(refused)

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(b"POST /token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            client.hear(len(refused))
        served.ended()
        (end,) = ends(served.records())
    assert "response_text" not in end
    assert end["oauth"] == {"error": "invalid_grant", "error_description": "it is over"}
    assert b"not for us" not in served.capture.read_bytes()
    assert "→ 400: it is over" in mcpproxy("show", served.capture).stdout.decode()
