"""Addresses of the upstream become relative; all other bytes stay the same, however they are split into reads."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.relay.http.observer import Event, RewrittenAddress
from mcpproxy.relay.http.rewrite import MAX_EVENT_LINE_BYTES, Origin, ResponseRewriter
from mcpproxy.wire.response import ParsingLost, ResponseBody, ResponseEnd, ResponseHead, ResponseTap

ORIGIN = Origin("http", "up.example", 8000)
GET = (b"GET",)
POST = (b"POST",)


class Relayed:
    """What a client gets on one connection, read by read, and the events that the observer gets."""

    def __init__(self, methods: tuple[bytes, ...] = POST, origin: Origin = ORIGIN) -> None:
        self._tap = ResponseTap()
        for method in methods:
            self._tap.expect_response(method)
        self._rewriter = ResponseRewriter(origin, self._tap)
        self.out = b""
        self.told: list[Event] = []

    def read(self, data: bytes) -> bytes:
        """Returns what is forwarded at once; as in the relay, data that needs no rewriting bypasses the rewriter."""
        if self._rewriter.passes_unchanged(data):
            return self._take(data, self._tap.feed(data))
        return self._take(*self._rewriter.feed(data))

    def end(self) -> bytes:
        """Returns what is still forwarded when the upstream ends."""
        return self._take(*self._rewriter.finish())

    def _take(self, out: bytes, told: Sequence[Event]) -> bytes:
        self.out += out
        self.told += told
        return out

    @property
    def rewritten(self) -> list[tuple[str, bytes, bytes]]:
        return [
            (event.place, event.sent, event.forwarded) for event in self.told if isinstance(event, RewrittenAddress)
        ]

    @property
    def content(self) -> bytes:
        """Returns the content of the responses, as reported to the observer."""
        return b"".join(event.payload for event in self.told if isinstance(event, ResponseBody))


def relayed(data: bytes, cuts: list[int], methods: tuple[bytes, ...] = POST, origin: Origin = ORIGIN) -> Relayed:
    relayed = Relayed(methods, origin)
    ends = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, stop in pairwise(ends):
        relayed.read(data[start:stop])
    relayed.end()
    return relayed


def in_any_cutting(data: bytes, after: bytes, methods: tuple[bytes, ...] = POST, origin: Origin = ORIGIN) -> Relayed:
    """Check that the output is the same for the whole data, for every split in two, and byte by byte."""
    whole = relayed(data, [], methods, origin)
    for cuts in ([], *([cut] for cut in range(len(data))), list(range(len(data)))):
        found = relayed(data, cuts, methods, origin)
        assert found.out == after, cuts
        assert found.rewritten == whole.rewritten, cuts
        assert found.content == whole.content, cuts
    return whole


def redirect(address: bytes, name: bytes = b"Location", status: bytes = b"307 Temporary Redirect") -> bytes:
    return b"HTTP/1.1 %b\r\n%b: %b\r\nContent-Length: 0\r\n\r\n" % (status, name, address)


def answer(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *fields, b"Content-Length: %d" % len(body), b"", body])


# --- which addresses ---

HTTPS, DEFAULT, SIX = Origin("https", "up.example", 443), Origin("http", "up.example", 80), Origin("http", "::1", 8000)
ADDRESSES: list[tuple[Origin, bytes, bytes | None]] = [
    (ORIGIN, b"http://up.example:8000/mcp/", b"/mcp/"),
    (ORIGIN, b"HTTP://UP.example:8000/mcp/?a=b", b"/mcp/?a=b"),
    (ORIGIN, b"http://up.example:8000", b"/"),
    (ORIGIN, b"http://up.example:8000?a", b"/?a"),
    (ORIGIN, b"http://up.example:8000#a", b"/#a"),
    (ORIGIN, b"//up.example:8000/mcp/", b"/mcp/"),
    (ORIGIN, b"http://up.example:8000/a//b", b"/a//b"),
    # other servers
    (ORIGIN, b"http://up.example:80001/mcp/", None),
    (ORIGIN, b"http://up.example/mcp/", None),
    (ORIGIN, b"//up.example/mcp/", None),
    (ORIGIN, b"https://up.example:8000/mcp/", None),
    (ORIGIN, b"http://up.example:8000.evil/mcp/", None),
    (ORIGIN, b"http://up.example:8000\\.evil/mcp/", None),
    (ORIGIN, b"http://up.example:8000@evil/mcp/", None),
    (ORIGIN, b"http://user@up.example:8000/mcp/", None),
    (ORIGIN, b"http://upxexample:8000/mcp/", None),
    (ORIGIN, b"/mcp/", None),
    (ORIGIN, b"", None),
    # without the origin, these paths would be addresses on a host named evil
    (ORIGIN, b"http://up.example:8000//evil/", None),
    (ORIGIN, b"http://up.example:8000/\\evil/", None),
    (ORIGIN, b"http://up.example:8000\\\\evil/", None),
    (ORIGIN, b"http://up.example:8000/\t/evil/", None),
    (ORIGIN, b"//up.example:8000//evil/", None),
    # the default port may be omitted
    (DEFAULT, b"http://up.example/a", b"/a"),
    (DEFAULT, b"http://up.example:/a", b"/a"),
    (DEFAULT, b"http://up.example:80/a", b"/a"),
    (DEFAULT, b"//up.example/a", b"/a"),
    (DEFAULT, b"http://up.example.evil/a", None),
    (DEFAULT, b"https://up.example/a", None),
    (DEFAULT, b"http://up.example:443/a", None),
    # a server that does not know about the TLS in front of it
    (HTTPS, b"https://up.example/a", b"/a"),
    (HTTPS, b"https://up.example:443/a", b"/a"),
    (HTTPS, b"http://up.example/a", b"/a"),
    (HTTPS, b"http://up.example:80/a", b"/a"),
    (HTTPS, b"http://up.example:443/a", b"/a"),
    (HTTPS, b"http://up.example:8080/a", None),
    (HTTPS, b"https://up.example:80/a", None),
    (HTTPS, b"//up.example:80/a", None),
    (Origin("https", "up.example", 8443), b"http://up.example:8443/a", b"/a"),
    (Origin("https", "up.example", 8443), b"http://up.example/a", b"/a"),
    (Origin("https", "up.example", 8443), b"https://up.example/a", None),
    (SIX, b"http://[::1]:8000/a", b"/a"),
    (SIX, b"http://::1:8000/a", None),
    (Origin("http", "b\u00fccher.example", None), b"http://xn--bcher-kva.example/a", b"/a"),
]


def test_only_the_upstreams_own_addresses_become_relative() -> None:
    for origin, address, after in ADDRESSES:
        assert origin.relative_address(address) == after, address
        for name in (b"Location", b"location", b"Content-Location"):
            out = relayed(redirect(address, name), [], origin=origin)
            assert out.out == redirect(address if after is None else after, name), address
            place = name.lower().decode()
            assert out.rewritten == ([] if after is None else [(place, address, after)]), address


# --- heads ---


def test_a_redirect_is_rewritten_however_it_arrives() -> None:
    for status in (b"201 Created", b"301 Moved", b"303 See Other", b"308 Permanent Redirect"):
        sent = redirect(b"http://up.example:8000/mcp/ ", status=status)
        in_any_cutting(sent, redirect(b"/mcp/", status=status))


def test_the_observer_is_told_what_the_upstream_sent() -> None:
    told = in_any_cutting(redirect(b"http://up.example:8000/mcp/"), redirect(b"/mcp/")).told
    assert told[0] == RewrittenAddress("location", b"http://up.example:8000/mcp/", b"/mcp/")
    head, end = told[1:]
    assert isinstance(head, ResponseHead)
    assert (b"Location", b"http://up.example:8000/mcp/") in head.headers
    assert isinstance(end, ResponseEnd)


def test_other_heads_stay_and_wait_for_nothing() -> None:
    fields = (b"Content-Location: http://up.example:8000/x", b"Location: http://up.example:8000/x")
    for status, methods in ((b"200 OK", POST), (b"202 Accepted", GET), (b"404 Not Found", GET), (b"500 Oh", POST)):
        data = answer(b"Location: http://up.example:8000/x", *fields, status=status)
        assert not in_any_cutting(data, data, methods).rewritten
        relay = Relayed(methods)
        assert relay.read(data[:11]) == b""
        assert relay.read(data[11:12]) == data[:12]
        assert all(relay.read(data[at : at + 1]) == data[at : at + 1] for at in range(12, len(data)))


def test_a_value_that_looks_like_a_head_is_none() -> None:
    for value in (b"HTTP/1.1 404 Not Found", b"307" * 9):
        sent = b"HTTP/1.1 %b\r\nX: %b\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n"
        moved = sent % (b"307 Moved", value, b"http://up.example:8000/mcp/")
        in_any_cutting(moved, moved.replace(b"http://up.example:8000", b""))
        other = sent % (b"404 Not Found", value, b"http://up.example:8000/mcp/")
        in_any_cutting(other, other)


def test_a_head_that_may_be_that_of_a_stream_waits_until_it_is_whole_and_no_longer() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    relay = Relayed(GET)
    assert [relay.read(head[at : at + 1]) for at in range(len(head))] == [b""] * (len(head) - 1) + [head]


def test_informational_heads_pass_and_what_follows_them_is_rewritten() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLocation: http://up.example:8000/x\r\n\r\n"
    in_any_cutting(early * 2 + redirect(b"http://up.example:8000/mcp/"), early * 2 + redirect(b"/mcp/"))


def test_responses_one_after_another_are_told_apart() -> None:
    body = b"HTTP/1.1 307 X\r\nLocation: http://up.example:8000/in-a-body\r\n\r\n"
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    sent, after = redirect(b"http://up.example:8000/mcp/"), redirect(b"/mcp/")
    pieces = [answer(body), sent, b"\r\n" + sent, chunks, sent, answer(b""), sent, redirect(b"/a"), sent]
    data = b"".join(pieces)
    in_any_cutting(data, data.replace(sent, after), (b"GET", b"POST", b"HEAD") * 3)


@given(st.lists(st.integers(0, 2000), max_size=8))
def test_any_cutting_gives_the_same_bytes(cuts: list[int]) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    data = early + redirect(b"http://up.example:8000/mcp/") + answer(b"Location: http://up.example:80")
    after = early + redirect(b"/mcp/") + answer(b"Location: http://up.example:80")
    assert relayed(data, cuts, (b"POST", b"GET")).out == after


def test_what_cannot_be_read_is_forwarded_as_it_is() -> None:
    for data in (
        b"HTTP/1.1 307 X\r\nLocation: http://up.example:8000/\r\n",
        b"HTTP/1.1 3",
        b"HTTP/1.1 307 X\r\nLocation: http://up.example:8000/\r\n no colon: none\r\nno colon\r\n\r\n",
        b"SSH-2.0-x\r\nLocation: http://up.example:8000/\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nHTTP/1.1 307 X\r\nLocation: http://up.example:8000/\r\n\r\n",
    ):
        assert not in_any_cutting(data, data).rewritten
    nobody_asked = redirect(b"http://up.example:8000/")
    assert isinstance(in_any_cutting(nobody_asked, nobody_asked, ()).told[0], ParsingLost)


def test_a_head_that_never_ends_is_handed_on_in_the_end() -> None:
    long = b"HTTP/1.1 307 X\r\nX: " + b"y" * (300 << 10)
    assert relayed(long, [100_000, 280_000]).out == long


# --- the endpoint event ---

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ADDRESS = b"http://up.example:8000/messages?id=1"


def chunked(*pieces: bytes) -> bytes:
    return STREAM + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def event(address: bytes, end: bytes = b"\n", before: bytes = b"", colon: bytes = b": ") -> bytes:
    return before + end.join([b"event%bendpoint" % colon, b"data%b%b" % (colon, address), b"", b""])


def reread(out: bytes) -> bytes:
    """Returns the content of the only response, as a client gets it."""
    tap = ResponseTap()
    tap.expect_response(b"GET")
    return b"".join(event.payload for event in tap.feed(out) if isinstance(event, ResponseBody))


def test_the_endpoint_event_is_made_relative_without_changing_a_length() -> None:
    room = len(ADDRESS) - len(b"/messages?id=1") - 2
    for end, colon, before in (
        (b"\n", b": ", b""),
        (b"\n", b":", b": hello\n\nid: 1\n"),
        (b"\r\n", b": ", b"retry: 1\r\n\r\nevent: x\r\n\r\n"),
        (b"\r", b":", b":\r"),
    ):
        sent = event(ADDRESS, end, before, colon)
        later = event(b"http://up.example:8000/in-a-message", end, colon=colon)
        line = b"data%b%b" % (colon, ADDRESS)
        after = sent.replace(line, b":" + b" " * room + b"\n" + b"data%b/messages?id=1" % colon)
        assert len(after) == len(sent)
        whole = in_any_cutting(chunked(sent, later), chunked(after, later), GET)
        assert whole.rewritten == [("endpoint", ADDRESS, b"/messages?id=1")]
        assert whole.content == sent + later
        assert reread(whole.out) == after + later


def test_lines_of_the_event_may_be_chunks_of_their_own() -> None:
    first, second, third = b"event: endpoint\n", b"data: %b\n" % ADDRESS, b"\n"
    sent = chunked(first, second, third)
    new = b":" + b" " * (len(ADDRESS) - 16) + b"\ndata: /messages?id=1\n"
    in_any_cutting(sent, chunked(first, new, third), GET)


def test_an_address_in_several_chunks_stays() -> None:
    sent = event(ADDRESS)
    for cut in range(len(b"event: endpoint\n") + 1, len(sent) - 2):
        data = chunked(sent[:cut], sent[cut:])
        for step in (1, len(data)):
            found = relayed(data, list(range(0, len(data), step)), GET)
            assert (found.out, found.rewritten) == (data, []), cut


def test_a_stream_that_ends_with_the_length_or_the_connection_is_rewritten_as_well() -> None:
    sent = event(ADDRESS)
    for fields in (b"Content-Length: %d\r\n" % len(sent), b""):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n%b\r\n" % fields
        whole = relayed(head + sent, [], GET)
        assert whole.rewritten
        in_any_cutting(head + sent, whole.out, GET)
        cut = head.replace(b"%d" % len(sent), b"30") + sent[:30]
        in_any_cutting(cut, cut, GET)


def test_the_end_of_a_stream_ends_what_waits() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    sent, begun = event(ADDRESS), b"event: endpoint\ndata: http://up.ex"
    whole = relayed(head % len(sent) + sent, [], GET).out
    for first in (begun, b"event: endp", b"event: endpoint\r"):
        relay = Relayed(GET * 2)
        assert relay.read(head % len(first) + first) == head % len(first) + first
        relay.read(head % len(sent) + sent)
        assert relay.out.endswith(whole)
        in_any_cutting(head % len(first) + first + head % len(sent) + sent, relay.out, GET * 2)


def test_an_endpoint_that_is_relative_or_elsewhere_stays() -> None:
    for address in (b"/messages?id=1", b"http://evil:8000/messages", b"messages", b"http://up.example:8000//evil/"):
        data = chunked(event(address))
        assert not in_any_cutting(data, data, GET).rewritten


def test_only_the_first_event_in_answer_to_a_get_is_looked_at() -> None:
    sent = event(ADDRESS)
    for data, methods in (
        (chunked(b"data: {}\n\n", sent), GET),
        (chunked(b"event: message\ndata: {}\n\n", sent), GET),
        (chunked(b"event: endpoint\n\n", b"data: %b\n\n" % ADDRESS), GET),
        (chunked(sent), POST),
        (chunked(sent).replace(b"Content-Type", b"Content-Encoding: x\r\nContent-Type"), GET),
        (chunked(sent).replace(b"event-stream", b"plain"), GET),
        (chunked(sent).replace(b"200 OK", b"404 No"), GET),
        (chunked(b"event: endpoint\ndata: " + b"x" * (2 * MAX_EVENT_LINE_BYTES))[:-1], GET),
    ):
        assert relayed(data, [], methods).out == data
        assert relayed(data, list(range(0, len(data), 7)), methods).out == data


def test_nothing_of_a_stream_waits_but_the_data_of_an_endpoint_event() -> None:
    relay = Relayed(GET)
    assert relay.read(STREAM) == STREAM
    for piece in (b"5\r\n: pin", b"\r\n10\r\ng\n\n", b"event: en", b"dpoi"):
        assert relay.read(piece) == piece
    assert relay.read(b"\r\n100\r\nnt\nda") == b"\r\n100\r\nnt\n"
    assert relay.read(b"ta: http") == b""
    assert relay.read(b"://elsewhere/x\n: more") == b"data: http://elsewhere/x\n: more"
    other = Relayed(GET)
    assert other.read(STREAM + b"100\r\ndata: {") == STREAM + b"100\r\ndata: {"
    assert other.read(b"ab") == b"ab"


def test_a_line_without_end_is_forwarded() -> None:
    relay = Relayed(GET)
    relay.read(STREAM + b"fffff\r\nevent: endpoint\ndata: ")
    piece = b"y" * 1000
    held = [relay.read(piece) for _ in range(MAX_EVENT_LINE_BYTES // len(piece) + 2)]
    assert held[0] == b""
    assert relay.out.endswith(b"data: " + piece * len(held))
