"""Requests: valid ones are parsed exactly, however they are cut; ambiguous ones are refused.

A request that two servers could read in two ways is refused before they get it.
"""

from collections.abc import Iterable
from itertools import pairwise
from time import process_time

import pytest
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.wire.framing import (
    MAX_CHUNK_LINE_BYTES,
    MAX_EXTENSION_BYTES,
    MAX_FIELDS,
    MAX_TRAILER_BYTES,
    Body,
    Fields,
    MessageEnd,
)
from mcpproxy.wire.http1 import (
    MAX_REQUEST_HEAD_BYTES,
    MAX_TARGET_BYTES,
    Refusal,
    RequestEvent,
    RequestHead,
    RequestSplitter,
    forwarded_head,
)

GOOD = b"GET /good HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

Message = tuple[bytes, list[RequestEvent]]
"""The bytes of a request, and the events that they encode."""


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """Returns the data in chunks, cut at some places; no chunk is empty, as no read is."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[start:stop] for start, stop in pairwise(places)]


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def fed(chunks: Iterable[bytes]) -> list[RequestEvent]:
    """Returns all events of a stream, with the pieces of a body joined."""
    splitter = RequestSplitter()
    return joined(event for chunk in chunks for event in splitter.feed(chunk))


def joined(events: Iterable[RequestEvent]) -> list[RequestEvent]:
    found: list[RequestEvent] = []
    for event in events:
        if isinstance(event, Body):
            assert event.wire
            if found and isinstance(found[-1], Body):
                found[-1] = Body(found[-1].wire + event.wire, found[-1].payload + event.payload)
                continue
        found.append(event)
    return found


def wire(events: Iterable[RequestEvent]) -> bytes:
    return b"".join(event.wire for event in events if not isinstance(event, Refusal))


def head_of(data: bytes) -> RequestHead:
    head = fed([data])[0]
    assert isinstance(head, RequestHead), head
    return head


def refusal_of(data: bytes) -> Refusal:
    """Returns the refusal that some bytes cause, however they are cut, with nothing let through after it."""
    events = fed([data])
    assert fed(bytewise(data)) == events
    splitter = RequestSplitter()
    splitter.feed(data)
    assert splitter.feed(GOOD) == []
    assert not splitter.is_in_message
    assert not splitter.is_in_head
    refusal = events[-1]
    assert isinstance(refusal, Refusal), refusal
    return refusal


# --- what is accepted ---

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NOTED = {"host", "content-length", "transfer-encoding", "connection", "upgrade", "proxy-connection"}
NOT_IN_TRAILERS = NOTED | {"expect", "keep-alive", "te", "trailer"}

blanks = st.text(" \t", max_size=2).map(str.encode)
spaces = st.text(" ", max_size=2).map(str.encode)
names = st.one_of(
    st.sampled_from(["Accept", "x-dup", "X-Dup", "Mcp-Session-Id", "MCP-Protocol-Version", "X_Y", "Expect"]),
    st.text(TOKEN, min_size=1, max_size=8).filter(lambda name: name.lower().replace("_", "-") not in NOTED),
)
values = st.text([*map(chr, range(0x20, 0x7F)), "\t", *map(chr, range(0x80, 0x100))], max_size=20).map(
    lambda text: text.encode("latin-1").strip(b" \t")
)
hosts = st.sampled_from([b"a", b"localhost:8080", b"127.0.0.1:80", b"[::1]:8080", b"my_server.example", b"xn--a-b.c"])
targets = st.one_of(
    st.sampled_from([b"/", b"/mcp", b"/x%2Fy/../z?q=%41", b"/a//b", b"/..%2f..", b"/?a@b:c", b"/x?u=http://b/"]),
    st.text([*map(chr, range(0x21, 0x7F))], max_size=20)
    .filter(lambda text: not set(text) & set("#\\") and not text.startswith("/"))
    .map(lambda text: b"/" + text.encode()),
)


@st.composite
def fields(draw: st.DrawFn) -> list[tuple[bytes, bytes, bytes]]:
    """Names, values, and their lines."""
    found = []
    for name, value in draw(st.lists(st.tuples(names.map(str.encode), values), max_size=5)):
        found.append((name, value, name + b":" + draw(blanks) + value + draw(blanks) + b"\r\n"))
    return found


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, bytes, MessageEnd]:
    """The chunks on the wire, their content, and the rest."""
    framing = payload = sizes = b""
    spellings = st.sampled_from(["%x", "%X", "%03x", "%x;a", "%x;a=b;c", '%x;q="\t x;"', r'%x;q="\"x;\\"'])
    for content in draw(st.lists(st.binary(min_size=1, max_size=40), max_size=4)):
        size = (draw(spellings) % len(content)).encode()
        framing += size + b"\r\n" + content + b"\r\n"
        sizes += size
        payload += content
    trailers = [field for field in draw(fields()) if field[0].decode().lower() not in NOT_IN_TRAILERS]
    last = draw(st.sampled_from([b"0", b"000", b"0;last"]))
    end = last + b"\r\n" + b"".join(line for *_, line in trailers) + b"\r\n"
    has_extensions = b";" in sizes + last
    return framing, payload, MessageEnd(end, Fields((name, value) for name, value, _ in trailers), has_extensions)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    method = draw(st.sampled_from([b"GET", b"POST", b"DELETE", b"HEAD", b"OPTIONS", b"get", b"M-SEARCH"]))
    target = b"*" if method == b"OPTIONS" and draw(st.booleans()) else draw(targets)
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"]))
    headers = draw(fields())

    def insert(name: bytes, value: bytes) -> None:
        line = name + b":" + draw(spaces) + value + draw(spaces) + b"\r\n"
        headers.insert(draw(st.integers(0, len(headers))), (name, value, line))

    if version == b"HTTP/1.1" or draw(st.booleans()):
        insert(draw(st.sampled_from([b"Host", b"host", b"HOST"])), draw(hosts))
    if draw(st.booleans()):
        insert(b"Connection", draw(st.sampled_from([b"keep-alive", b"close", b"TE, close", b"upgrade", b""])))
    if draw(st.booleans()):
        insert(b"Proxy-Connection", b"keep-alive")
    length: int | None = 0
    body: list[RequestEvent] = [MessageEnd(b"")]
    kind = draw(st.sampled_from(["none", "length", "chunked"]))
    if kind == "length":
        content = draw(st.binary(max_size=60))
        length = len(content)
        insert(draw(st.sampled_from([b"Content-Length", b"content-length"])), b"%d" % length)
        body = [*([Body(content, content)] if content else []), MessageEnd(b"")]
    elif kind == "chunked" and version == b"HTTP/1.1":
        framing, payload, end = draw(chunked())
        length = None
        insert(b"Transfer-Encoding", draw(st.sampled_from([b"chunked", b"Chunked"])))
        body = [*([Body(framing, payload)] if framing else []), end]
    raw = b"%b %b %b\r\n" % (method, target, version) + b"".join(line for *_, line in headers) + b"\r\n"
    head = RequestHead(method, target, version, Fields((name, value) for name, value, _ in headers), length, raw)
    return raw + wire(body), [head, *body]


cuts = st.lists(st.integers(0, 2000), max_size=20)
streams = st.lists(messages(), max_size=4)


@given(streams, cuts, st.booleans())
def test_any_cutting_of_pipelined_requests_gives_what_was_sent(stream: list[Message], at: list[int], gap: bool) -> None:
    data = b"".join(b"\r\n" * gap + raw for raw, _ in stream)
    expected = [event for _, events in stream for event in events]
    assert fed(cut(data, at)) == fed(bytewise(data)) == fed([data] if data else []) == expected


@given(messages(), hosts)
def test_a_forwarded_head_differs_in_host_and_fields_of_one_hop_alone(message: Message, host: bytes) -> None:
    head = message[1][0]
    assert isinstance(head, RequestHead)
    sent = head_of(forwarded_head(head, host))
    assert sent.headers == tuple(
        (name, host if name.lower() == b"host" else value)
        for name, value in head.headers
        if name.lower() not in (b"proxy-connection", b"upgrade")
    )
    assert (sent.method, sent.target, sent.version, sent.content_length) == (*head[:3], head.content_length)
    lines = head.wire.split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith((b"proxy-connection", b"upgrade"))]
    changed = [(a, b) for a, b in zip(kept, sent.wire.split(b"\r\n"), strict=True) if a != b]
    assert all(before.lower().startswith(b"host:") for before, _ in changed)


def test_white_space_around_host_stays_as_it_was() -> None:
    head = head_of(b"GET / HTTP/1.1\r\nhOsT:  o:1  \r\nx-a:  o:1\r\nX-A:\xe9\r\n\r\n")
    assert forwarded_head(head, b"up") == b"GET / HTTP/1.1\r\nhOsT:  up  \r\nx-a:  o:1\r\nX-A:\xe9\r\n\r\n"


def test_an_offer_of_h2c_is_passed_over() -> None:
    """Java's client sends it with each of its first requests."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    head = head_of(b"GET / HTTP/1.1\r\nHost: o:1\r\n" + offer + b"Accept: */*\r\n\r\n")
    kept = b"Connection: Upgrade, HTTP2-Settings\r\nAccept: */*\r\n\r\n"
    assert forwarded_head(head, b"up") == b"GET / HTTP/1.1\r\nHost: up\r\n" + kept


def test_a_head_without_host_gets_none() -> None:
    raw = b"GET / HTTP/1.0\r\nAccept: */*\r\n\r\n"
    assert forwarded_head(head_of(raw), b"up") == raw


class Reading:
    """What another parser reads."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.target = self.body = b""
        self.ends = 0

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value.rstrip(b" \t")))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ends += 1


def read_by_another(events: list[RequestEvent]) -> Reading:
    """Returns what llhttp reads in the bytes of one message."""
    reading = Reading()
    HttpRequestParser(reading).feed_data(wire(events))
    return reading


def agrees(reading: Reading, events: list[RequestEvent]) -> bool:
    """Check what llhttp read against the events of one message; returns whether it read exactly one."""
    head, *_, end = events
    assert isinstance(head, RequestHead)
    assert isinstance(end, MessageEnd)
    assert (reading.target, reading.headers) == (head.target, [*head.headers, *end.trailers])
    assert reading.body == b"".join(event.payload for event in events if isinstance(event, Body))
    return reading.ends == 1


@given(messages().filter(lambda message: not message[0].startswith(b"get")))  # llhttp accepts only registered methods
def test_another_parser_reads_an_accepted_request_alike(message: Message) -> None:
    assert agrees(read_by_another(message[1]), message[1])


# --- what is refused ---

NASTY = [
    b"\r", b"\n", b"\r\n", b" ", b"\t", b"\0", b":", b",", b";", b"0", b"5", b"+5", b"0x5", b"\x0b", b"\x85", b"_",
    b"//", b"\t\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n",
    b"content_length: 1\r\n", b"HTTP/1.1", b"0\r\n\r\n", b"\r\n\r\n", b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Valid requests with a few bytes inserted or removed."""
    data = b"".join(raw for raw, _ in draw(st.lists(messages(), min_size=1, max_size=2)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.integers(0, 3))
        data = data[:at] + draw(st.sampled_from(NASTY) | st.just(b"")) + data[at + gone :]
    return data


@given(damaged() | st.binary(max_size=80), cuts)
@example(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n", [29])
@example(b"\r\n\r\n", [1])
def test_damage_is_judged_alike_in_any_cutting_and_only_what_was_sent_is_forwarded(data: bytes, at: list[int]) -> None:
    events = fed([data] if data else [])
    assert fed(cut(data, at)) == fed(bytewise(data)) == events
    rest = data
    for event in events:
        if isinstance(event, Refusal):
            assert event is events[-1]
            break
        if isinstance(event, RequestHead):
            rest = rest.removeprefix(b"\r\n")
        assert rest.startswith(event.wire)
        rest = rest[len(event.wire) :]


@given(damaged())
def test_another_parser_reads_nothing_else_in_what_was_accepted_of_damage(data: bytes) -> None:
    group: list[RequestEvent] = []
    for event in fed([data]):
        group.append(event)
        if isinstance(event, MessageEnd):
            try:
                reading = read_by_another(group)
            except HttpParserUpgrade:
                pytest.fail("an upgrade was let through")
            except HttpParserError:
                pass  # llhttp refuses it, so it reads nothing else
            else:
                assert agrees(reading, group)
            group = []


def post(*headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST /mcp HTTP/1.1", b"Host: a", *headers, b"", body])


def asked(line: bytes) -> bytes:
    return line + b"\r\nHost: a\r\n\r\n"


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

REFUSED_HEADS = {
    "length and chunked": (
        post(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED),
        400,
    ),
    "chunked and length": (
        post(b"Transfer-Encoding: chunked", b"content-length: 5", body=b"0\r\n\r\n" + SMUGGLED),
        400,
    ),
    "two lengths": (post(b"Content-Length: 5", b"Content-Length: 6", body=b"12345"), 400),
    "two equal lengths": (post(b"Content-Length: 5", b"content-length: 5", body=b"12345"), 400),
    "list of lengths": (post(b"Content-Length: 5, 5", body=b"12345"), 400),
    **{
        f"length {value!r}": (post(b"Content-Length: " + value, body=b"12345"), 400)
        for value in [
            b"+5",
            b"-5",
            b"0x5",
            b"",
            b"5 5",
            b"5\x0b",
            b"5.0",
            b"05",
            b"5,",
            b"five",
            b"\xb2",
            b"5" * 19,
            b"9" * 9999,
        ]
    },
    "other coding": (post(b"Transfer-Encoding: gzip"), 501),
    "other coding before chunked": (post(b"Transfer-Encoding: gzip, chunked"), 501),
    "other coding after chunked": (post(b"Transfer-Encoding: chunked, identity"), 501),
    "nearly chunked": (post(b"Transfer-Encoding: xchunked"), 501),
    "chunked twice": (post(b"Transfer-Encoding: chunked, chunked"), 400),
    "chunked in two fields": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
    "quoted coding": (post(b'Transfer-Encoding: "chunked"'), 400),
    "coding with a parameter": (post(b"Transfer-Encoding: chunked;q=1"), 400),
    "empty coding": (post(b"Transfer-Encoding:"), 400),
    "comma after the coding": (post(b"Transfer-Encoding: chunked,"), 400),
    "vertical tab before the coding": (post(b"Transfer-Encoding: \x0bchunked"), 400),
    "tab behind the coding": (post(b"Transfer-Encoding: chunked\t"), 400),
    "tab before the length": (post(b"Content-Length:\t5"), 400),
    "folded coding": (post(b"Transfer-Encoding:", b" chunked"), 400),
    "chunked in HTTP/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "length in other clothes": (post(b"Content_Length: 5"), 400),
    "coding in other clothes": (post(b"transfer_encoding: chunked"), 400),
    "length that the next proxy drops": (post(b"Connection: close, Content-Length", b"Content-Length: 5"), 400),
    "bare LF": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "bare LF behind a header": (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
    "bare LF as the empty line": (b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
    "bare CR": (b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
    "bare CR in the request line": (b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "CR CR LF": (b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400),
    "folded header": (post(b"X: a", b" b"), 400),
    "header folded with a tab": (post(b"X: a", b"\tb"), 400),
    "space before the first header": (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    "space before the colon": (post(b"Content-Length : 5", body=b"12345"), 400),
    "tab before the colon": (post(b"Content-Length\t: 5", body=b"12345"), 400),
    "no colon": (post(b"Content-Length"), 400),
    "empty name": (post(b": x"), 400),
    **{
        f"name with {byte!r}": (post(b"X" + byte + b"Y: z"), 400)
        for byte in [b" ", b"\0", b"(", b'"', b"\x7f", b"\xe9", b"/"]
    },
    **{f"value with {byte!r}": (post(b"X: a" + byte), 400) for byte in [b"\0", b"\x01", b"\x0b", b"\x1b", b"\x7f"]},
    "no Host": (b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", 400),
    "two Hosts": (post(b"Host: b"), 400),
    "two equal Hosts": (post(b"HOST: a"), 400),
    "two Hosts in HTTP/1.0": (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    **{
        f"Host {value!r}": (b"GET / HTTP/1.1\r\nHost: " + value + b"\r\n\r\n", 400)
        for value in [
            b"",
            b"a,b",
            b"a b",
            b"a\tb",
            b"u@a",
            b"u:p@a",
            b"a:80:80",
            b"a/",
            b"a:b",
            b"[::1",
            b"a#",
            b"a?",
            b"a\\b",
            b"\xe9",
        ]
    },
    "two spaces": (asked(b"GET  / HTTP/1.1"), 400),
    "tab for space": (asked(b"GET\t/\tHTTP/1.1"), 400),
    "space before the method": (asked(b" GET / HTTP/1.1"), 400),
    "space behind the version": (asked(b"GET / HTTP/1.1 "), 400),
    "no version": (asked(b"GET /"), 400),
    "no HTTP version": (asked(b"GET / FTP/1.1"), 400),
    "lower-case version": (asked(b"GET / http/1.1"), 400),
    "version with more digits": (asked(b"GET / HTTP/1.10"), 400),
    "HTTP/1.2": (asked(b"GET / HTTP/1.2"), 505),
    "HTTP/0.9": (asked(b"GET / HTTP/0.9"), 505),
    "HTTP/3.0": (asked(b"GET / HTTP/3.0"), 505),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "method that is no token": (asked(b"G(T / HTTP/1.1"), 400),
    "CONNECT": (b"CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", 501),
    "absolute form": (asked(b"GET http://b/ HTTP/1.1"), 400),
    "absolute form of our own": (asked(b"GET http://a/ HTTP/1.1"), 400),
    "authority form": (asked(b"GET b:443 HTTP/1.1"), 400),
    "userinfo": (asked(b"GET @b/ HTTP/1.1"), 400),
    "asterisk": (asked(b"GET * HTTP/1.1"), 400),
    "relative": (asked(b"GET mcp HTTP/1.1"), 400),
    "two slashes": (asked(b"GET //b/ HTTP/1.1"), 400),
    "backslash": (asked(b"GET /\\b/ HTTP/1.1"), 400),
    **{
        f"target with {byte!r}": (asked(b"GET /a" + byte + b" HTTP/1.1"), 400)
        for byte in [b"#b", b"\0", b"\x1f", b"\x7f", b"\xa0", b"\xc3\xa9"]
    },
    "two empty lines": (b"\r\n\r\n" + GOOD, 400),
    "LF before the request line": (b"\n" + GOOD, 400),
    "WebSocket": (post(b"Connection: keep-alive, Upgrade", b"Upgrade: websocket"), 501),
    "WebSocket or h2c": (post(b"Upgrade: h2c, websocket", b"Connection: Upgrade"), 501),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "a JSON line": (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n', 400),
    "HTTP/1.1 answered with a response": (b"HTTP/1.1 200 OK\r\n\r\n", 400),
}


@pytest.mark.parametrize(("data", "status"), REFUSED_HEADS.values(), ids=REFUSED_HEADS)
def test_a_head_that_two_readers_could_take_differently_is_refused(data: bytes, status: int) -> None:
    assert [type(event) for event in fed([data])] == [Refusal]
    assert refusal_of(data).status == status


@pytest.mark.parametrize("data", [data for data, _ in REFUSED_HEADS.values()], ids=REFUSED_HEADS)
def test_a_refusal_behind_a_good_request_leaves_that_request_whole(data: bytes) -> None:
    if data.startswith(b"\r\n"):
        data = data.removeprefix(b"\r\n")
        assert [type(event) for event in fed([GOOD + data])] == [RequestHead, MessageEnd, RequestHead, MessageEnd]
    else:
        assert [type(event) for event in fed([GOOD + data])] == [RequestHead, MessageEnd, Refusal]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (REFUSED_HEADS["HTTP/2 preface"][0], "use HTTP/1.1"),
        (REFUSED_HEADS["WebSocket"][0], "WebSocket"),
        (REFUSED_HEADS["TLS"][0], "http, not https"),
        (REFUSED_HEADS["absolute form"][0], "send only the path"),
    ],
)
def test_what_people_run_into_is_told_with_the_way_out(data: bytes, said: str) -> None:
    assert said in refusal_of(data).reason


def test_a_refusal_repeats_nothing_of_what_was_sent() -> None:
    reasons = [refusal_of(data.replace(b"smuggled", b"QQQ")).reason for data, _ in REFUSED_HEADS.values()]
    assert all(reason.isascii() and reason.isprintable() and "QQQ" not in reason for reason in reasons)
    assert len({*reasons}) > 20


REFUSED_CHUNKS = {
    **{
        f"size {size!r}": b"1\r\na\r\n" + size + b"\r\n"
        for size in [
            b"",
            b"+1",
            b"-1",
            b"0x1",
            b" 1",
            b"1 ",
            b"1 ;a",
            b"g",
            b"1,1",
            b"1_0",
            b"\xb2",
            b"1" * 16,
            b"0" * 16,
        ]
    },
    "size with a bare LF": b"1\na\r\n",
    "size with a bare CR": b"1\ra\r\n",
    "LF in an extension": b"1;a\nb\r\n",
    "empty extension": b"1;\r\na\r\n",
    "extension with white space": b"1; a\r\nb\r\n",
    "extension that is not closed": b'1;a="b\r\nc\r\n',
    "extension that a quoted pair does not close": b'1;a="b\\"\r\nc\r\n',
    "extension that ends in half a quoted pair": b'1;a="b\\\r\nc\r\n',
    "quoted pair outside of quotes": b"1;a=b\\c\r\n",
    "LF in a quoted pair": b'1;a="\\\n"\r\n',
    "CR in a quoted pair": b'1;a="\\\r"\r\n',
    "NUL in a quoted pair": b'1;a="\\\0"\r\n',
    "byte outside ASCII in a quoted pair": b'1;a="\\\xe9"\r\n',
    "text behind a quoted extension": b'1;a="b\\""c\r\n',
    "NUL in an extension": b"1;a\0b\r\n",
    "byte outside ASCII in an extension": b"1;\xe9\r\n",
    "longer than its size": b"1\r\nab\r\n",
    "shorter than its size": b"4\r\nab\r\n0\r\n\r\n",
    "LF behind a chunk": b"1\r\na\n0\r\n\r\n",
    "CR behind a chunk": b"1\r\na\r0\r\n\r\n",
    "LF behind the last chunk": b"0\r\n\n",
    "trailer without colon": b"0\r\nx\r\n\r\n",
    "folded trailer": b"0\r\nx: y\r\n z\r\n\r\n",
    "trailer with a space before its colon": b"0\r\nx : y\r\n\r\n",
    "NUL in a trailer": b"0\r\nx: \0\r\n\r\n",
    **{
        f"trailer {name}": b"0\r\n%b: 5\r\n\r\n" % name.encode()
        for name in ["Content-Length", "transfer-encoding", "HOST", "Connection", "Upgrade", "Trailer", "TE", "Expect"]
    },
}


@pytest.mark.parametrize("body", REFUSED_CHUNKS.values(), ids=REFUSED_CHUNKS)
def test_a_chunk_that_two_readers_could_take_differently_is_refused(body: bytes) -> None:
    assert refusal_of(CHUNKED + body).status == 400
    events = fed([CHUNKED + body])
    assert not [event for event in events if isinstance(event, MessageEnd)]


def test_what_was_good_before_a_bad_chunk_has_gone_on_and_nothing_of_the_bad_one() -> None:
    _, body, _ = fed([CHUNKED + b"3\r\nabc\r\n2;x\r\nde\r\n1\rX"])
    assert body == Body(b"3\r\nabc\r\n2;x\r\nde\r\n", b"abcde")


# --- bounds ---


def padded(size: int) -> bytes:
    """Returns a head of that many bytes."""
    start = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    return start + b"x" * (size - len(start) - 4) + b"\r\n\r\n"


def test_a_head_has_at_most_its_maximum() -> None:
    assert len(head_of(padded(MAX_REQUEST_HEAD_BYTES)).wire) == MAX_REQUEST_HEAD_BYTES
    for more in range(1, 5):
        assert refusal_of(padded(MAX_REQUEST_HEAD_BYTES + more)).status == 431


def test_a_head_has_at_most_so_many_fields() -> None:
    lines = [b"x:%d" % n for n in range(MAX_FIELDS)]
    assert len(head_of(post(*lines[1:])).headers) == MAX_FIELDS
    assert refusal_of(post(*lines)).status == 431


def test_a_target_has_at_most_its_maximum() -> None:
    target = b"/" + b"a" * (MAX_TARGET_BYTES - 1)
    assert head_of(asked(b"GET %b HTTP/1.1" % target)).target == target
    assert refusal_of(asked(b"GET %ba HTTP/1.1" % target)).status == 414
    assert refusal_of(asked(b"GET %b HTTP/1.1" % (target * 9))).status == 414


def test_a_chunk_size_line_has_at_most_its_maximum() -> None:
    size = b"1;" + b"x" * (MAX_CHUNK_LINE_BYTES - 2)
    assert fed([CHUNKED + size + b"\r\na\r\n"])[1:] == [Body(size + b"\r\na\r\n", b"a")]
    assert refusal_of(CHUNKED + size + b"x\r\n").status == 400


@pytest.mark.parametrize("value", [rb'"a\"b"', rb'"\\"', rb'"\\\""', b'"\\\t\\ ;\\;"', b'""', b'"0\\;x=1"'])
def test_a_quoted_chunk_extension_may_hold_quoted_pairs(value: bytes) -> None:
    """RFC 9112, 7.1.1: a value is a token or a quoted string, and that holds quoted pairs (RFC 9110, 5.6.4)."""
    wire = b"1;n=" + value + b";m\r\na\r\n"
    body = fed([CHUNKED + wire + b"0\r\n\r\n"])[1:]
    assert body == [Body(wire, b"a"), MessageEnd(b"0\r\n\r\n", has_extensions=True)]
    by_byte = fed([bytes([byte]) for byte in CHUNKED + wire])
    assert b"".join(one.wire for one in by_byte if isinstance(one, Body)) == wire


def test_a_long_quoted_extension_that_is_not_closed_is_refused() -> None:
    for size in (b'1;n="' + b"\\a" * 120, b'1;n="' + b"a" * 240, b'1;n="' + b"\\" * 241):
        assert refusal_of(CHUNKED + size + b"\r\n").status == 400


def test_chunk_extensions_may_not_be_most_of_the_message() -> None:
    chunk = b"1;" + b"x" * 99 + b"\r\na\r\n"
    refusal_of(CHUNKED + chunk * (MAX_EXTENSION_BYTES // 99 + 1))
    fair = b"64;" + b"x" * 99 + b"\r\n" + b"a" * 100 + b"\r\n"
    assert isinstance(fed([CHUNKED + fair * 1000 + b"0\r\n\r\n"])[-1], MessageEnd)


def test_trailers_have_at_most_their_maximum() -> None:
    def trailers(size: int) -> bytes:
        return CHUNKED + b"0\r\nx:" + b"y" * (size - 9) + b"\r\n\r\n"

    assert len(fed([trailers(MAX_TRAILER_BYTES)])[-1][0]) == MAX_TRAILER_BYTES  # type: ignore[arg-type]
    for more in range(1, 5):
        assert refusal_of(trailers(MAX_TRAILER_BYTES + more)).status == 431
    assert isinstance(fed([CHUNKED + b"0\r\n" + b"x:\r\n" * MAX_FIELDS + b"\r\n"])[-1], MessageEnd)
    assert refusal_of(CHUNKED + b"0\r\n" + b"x:\r\n" * (MAX_FIELDS + 1) + b"\r\n").status == 431


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (b"", 414),
        (b"GET /", 414),
        (b"GET / HTTP/1.1\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: ", 431),
        (CHUNKED, 400),
        (CHUNKED + b"0;", 400),
        (CHUNKED + b"1\r\na", 400),
        (CHUNKED + b"0\r\n", 431),
    ],
)
def test_a_line_without_end_is_refused_once_it_is_too_long(start: bytes, status: int) -> None:
    splitter = RequestSplitter()
    splitter.feed(start)
    for fed_so_far in range(0, MAX_REQUEST_HEAD_BYTES + 1024, 1024):
        for event in splitter.feed(b"1" * 1024):
            assert isinstance(event, Refusal)
            assert event.status == status
            return
        assert fed_so_far < MAX_REQUEST_HEAD_BYTES
    pytest.fail("no refusal")


@pytest.mark.parametrize("cut_at", [1 << 16, 1 << 30])
def test_many_small_chunks_take_linear_time_and_few_events(cut_at: int) -> None:
    def seconds(count: int) -> float:
        data = CHUNKED + b"1\r\na\r\n" * count + b"0\r\n\r\n"
        splitter = RequestSplitter()
        started = process_time()
        events = [event for i in range(0, len(data), cut_at) for event in splitter.feed(data[i : i + cut_at])]
        spent = process_time() - started
        assert len(events) <= len(data) // cut_at + 4
        assert joined(events)[1] == Body(b"1\r\na\r\n" * count, b"a" * count)
        return spent

    assert seconds(96_000) < 160 * max(seconds(3_000), 0.001)  # 32 times the chunks; quadratic: 1,024 times


# --- what a relay needs to know ---


def test_a_head_comes_before_its_body_and_expect_is_the_upstreams_business() -> None:
    splitter = RequestSplitter()
    (head,) = splitter.feed(post(b"Expect: 100-continue", b"Content-Length: 2"))
    assert isinstance(head, RequestHead)
    assert forwarded_head(head, b"a") == head.wire
    assert splitter.feed(b"o") == [Body(b"o", b"o")]
    assert splitter.feed(b"k" + GOOD)[:2] == [Body(b"k", b"k"), MessageEnd(b"")]


def test_one_empty_line_may_stand_before_each_request_and_is_not_passed_on() -> None:
    assert fed([b"\r\n" + GOOD + b"\r\n" + GOOD]) == fed([GOOD]) * 2


def test_it_tells_whether_a_head_or_a_message_is_under_way() -> None:
    splitter = RequestSplitter()

    def states(*chunks: bytes) -> list[tuple[bool, bool]]:
        found = []
        for chunk in chunks:
            splitter.feed(chunk)
            found.append((splitter.is_in_head, splitter.is_in_message))
        return found

    assert (splitter.is_in_head, splitter.is_in_message) == (False, False)
    assert states(b"\r\n") == [(False, False)]
    assert states(b"G", b"ET / HTTP/1.1\r\n", b"Host: a\r\n", b"\r", b"\n") == [(True, True)] * 4 + [(False, False)]
    assert states(post(b"Content-Length: 2"), b"o", b"k") == [(False, True)] * 2 + [(False, False)]
    assert states(CHUNKED, b"1", b"\r\na\r\n0\r\n", b"\r\n") == [(False, True)] * 3 + [(False, False)]


def test_after_a_refusal_nothing_is_read_any_more() -> None:
    splitter = RequestSplitter()
    assert [type(event) for event in splitter.feed(GOOD + b"\n" + GOOD)] == [RequestHead, MessageEnd, Refusal]
    assert splitter.feed(GOOD) == []
    assert not splitter.is_in_message


# --- upgrades ---

OFFER = b"GET /mcp HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def test_an_offer_to_upgrade_is_the_last_that_is_read_before_the_answer() -> None:
    for offer in (OFFER, OFFER.replace(b"websocket", b"h2c, foo/2")):
        for cut in range(len(offer) + 1):
            splitter = RequestSplitter(accepts_upgrades=True)
            events = [event for piece in (offer[:cut], offer[cut:] + GOOD) for event in splitter.feed(piece)]
            assert wire(events) == offer
            assert isinstance(events[0], RequestHead)
            assert events[0].offers_upgrade
            assert splitter.awaits_response
            assert splitter.unread_bytes == len(GOOD)
            assert not splitter.is_in_head
            assert splitter.feed(GOOD) == []
            assert wire(splitter.decline_upgrade()) == GOOD + GOOD
            assert not splitter.awaits_response


def test_an_offer_with_a_body_is_read_to_its_end() -> None:
    for framing, body in ((b"Content-Length: 3", b"abc"), (b"Transfer-Encoding: chunked", b"3\r\nabc\r\n0\r\n\r\n")):
        request = OFFER.replace(b"GET", b"POST")[:-2] + framing + b"\r\n\r\n" + body
        splitter = RequestSplitter(accepts_upgrades=True)
        assert wire(event for byte in bytewise(request) for event in splitter.feed(byte)) == request
        splitter.feed(b"\x16\x03\xff")
        assert splitter.take_unread() == b"\x16\x03\xff"
        assert splitter.take_unread() == b""


def test_what_is_no_offer_holds_nothing_up() -> None:
    old = OFFER.replace(b"HTTP/1.1", b"HTTP/1.0")
    silent = OFFER.replace(b"Connection: Upgrade\r\n", b"")
    for request in (old, silent):
        splitter = RequestSplitter(accepts_upgrades=True)
        assert wire(splitter.feed(request + GOOD)) == request + GOOD
        assert not splitter.awaits_response
