"""`--rewrite-location`: addresses of the upstream become relative, everything else stays to the byte."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.relay.http.rewrite import Origin, Rewriter
from mcpproxy.wire.response import Event, ResponseBody, ResponseHead, ResponseTap

ORIGIN = Origin("http", "up.example", 8000)


def rewritten(data: bytes, cuts: list[int], methods: list[bytes] | None = None) -> tuple[bytes, list[Event]]:
    tap = ResponseTap()
    for method in methods or [b"GET"]:
        tap.expect(method)
    rewriter, seen = Rewriter(ORIGIN, tap), list[Event]()
    ends = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    out = b"".join(rewriter.feed(data[a:b], seen.extend) for a, b in pairwise(ends))
    return out + rewriter.end(), seen


def redirect(address: bytes, name: bytes = b"Location") -> bytes:
    return b"HTTP/1.1 307 Temporary Redirect\r\n%b: %b\r\nContent-Length: 0\r\n\r\n" % (name, address)


@pytest.mark.parametrize(
    ("address", "after"),
    [
        (b"http://up.example:8000/mcp/", b"/mcp/"),
        (b"HTTP://UP.example:8000/mcp/?a=b", b"/mcp/?a=b"),
        (b"http://up.example:8000", b"/"),
        (b"http://up.example:8000?a", b"/?a"),
        (b"http://up.example:80001/mcp/", b"http://up.example:80001/mcp/"),
        (b"http://up.example/mcp/", b"http://up.example/mcp/"),
        (b"https://up.example:8000/mcp/", b"https://up.example:8000/mcp/"),
        (b"http://up.example:8000.evil/mcp/", b"http://up.example:8000.evil/mcp/"),
        (b"http://up.example:8000@evil/mcp/", b"http://up.example:8000@evil/mcp/"),
        (b"/mcp/", b"/mcp/"),
    ],
)
@pytest.mark.parametrize("name", [b"Location", b"location", b"Content-Location"])
def test_only_the_upstreams_own_addresses_become_relative(name: bytes, address: bytes, after: bytes) -> None:
    assert rewritten(redirect(address, name), [])[0] == redirect(after, name)


def test_the_default_port_may_be_left_out() -> None:
    tap = ResponseTap()
    tap.expect(b"GET")
    rewriter = Rewriter(Origin("https", "up.example", 443), tap)
    assert b"Location: /a\r\n" in rewriter.feed(redirect(b"https://up.example/a"), lambda _: None)


def test_the_tap_sees_what_the_upstream_said() -> None:
    _, seen = rewritten(redirect(b"http://up.example:8000/mcp/"), [3, 40])
    head = seen[0]
    assert isinstance(head, ResponseHead)
    assert (b"Location", b"http://up.example:8000/mcp/") in head.headers


@given(st.lists(st.integers(0, 2000), max_size=8))
def test_any_cutting_gives_the_same_bytes(cuts: list[int]) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLocation: http://up.example:8000/x\r\n\r\n"
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nLocation: http://up.example:80"
    data = early + redirect(b"http://up.example:8000/mcp/")
    assert rewritten(data, cuts)[0] == early.replace(b"http://up.example:8000", b"") + redirect(b"/mcp/")
    assert rewritten(body, cuts)[0] == body


def test_a_head_that_never_ends_is_handed_on_in_the_end() -> None:
    data = b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000
    assert rewritten(data, [500])[0] == data
    long = b"HTTP/1.1 200 OK\r\nX: " + b"y" * (300 << 10)
    assert rewritten(long, [100_000, 280_000])[0] == long


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_endpoint_event_is_made_relative_without_changing_a_length(end: bytes) -> None:
    event = end.join([b"event: endpoint", b"data: http://up.example:8000/messages?id=1", b"", b""])
    later = end.join([b"data: http://up.example:8000/in-a-message", b"", b""])
    data = STREAM + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (event, later))
    out, seen = rewritten(data, [len(STREAM)])
    assert len(out) == len(data)
    assert end + b"data: /messages?id=1" + end in out.replace(b"\n" + b"data: /", end + b"data: /")
    assert out.count(b"up.example") == 1
    tap = ResponseTap()
    tap.expect(b"GET")
    reread = b"".join(event.payload for event in tap.feed(out) if isinstance(event, ResponseBody))
    assert reread.endswith(later)
    assert b"".join(event.payload for event in seen if isinstance(event, ResponseBody)) == b"".join(
        (b"", *[event, later])
    )


def test_an_endpoint_that_is_relative_or_elsewhere_stays() -> None:
    for address in (b"/messages?id=1", b"http://evil:8000/messages", b"messages"):
        event = b"event: endpoint\ndata: " + address + b"\n\n"
        data = STREAM + b"%x\r\n%b\r\n" % (len(event), event)
        assert rewritten(data, [len(STREAM)])[0] == data
